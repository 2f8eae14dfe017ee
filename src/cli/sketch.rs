//! `lookalike sketch`: prints the sketches of pages, or writes them to files, without taking them in.

use super::args::SketchArgs;
use super::content_explanation::explain_pages;
use super::exit::{Exit, ending, without_system_number};
use super::log_line::{self, PROGRAM};
use super::output::{OutputMode, print, write_answer};
use super::page_file::read_page;
use super::rule_explanation;
use super::sketch_files;
use super::telemetry;
use super::wiring::{OPEN_SEED, file_source, inputs};
use crate::config::Config;
use crate::document::{Fingerprint, Seed};
use crate::files::{FileSource, Input, InputFile};
use crate::intake::{FutureLimit, RecordSketcher, SketchedPage};
use crate::ports::{Incoming, Polled, ProgressMap, Snapshot, Source, StoreRule};
use crate::sketch::{Shingle, SketchForm, SketchRule, SketchedContent, encode};
use crate::store::RocksStore;
use crate::wire::{Limits, Origin, Reason, Record, Rejection, parse_json_page};
use anyhow::Result;
use serde::Serialize;
use serde_json::json;
use std::fmt::LowerHex;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::Path;
use std::time::{Duration, Instant};
use tracing::Level;

/// How long to wait for standard input before flushing what is printed.
const POLL_TIMEOUT: Duration = Duration::from_millis(200);

/// A record's sketch, or why it has none. Numbers of 64 bits are hexadecimal: JSON readers round them.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Line {
    /// A page.
    Sketched(Box<Sketched>),
    /// Nothing stands at the URL any more.
    Gone { url: String, gone: bool },
    /// The URL redirects.
    Redirect { url: String, redirect_to: String },
    /// The record is no page.
    Rejected { url: Option<String>, source: String, offset: i64, rejected: Reason, message: String },
}

/// A page's sketch.
#[derive(Debug, Serialize)]
struct Sketched {
    pub url: String,
    pub n_words: u32,
    pub n_shingles: u32,
    equivalences: Equivalences,
    pub form: &'static str,
    /// Kept shingles, or the bits of a bitmap.
    pub n_kept: usize,
    /// The kept shingles, or the leading 16 bits of each.
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<Vec<String>>,
    /// The bitmap's bytes, the lowest bit of the first byte first.
    #[serde(skip_serializing_if = "Option::is_none")]
    bits: Option<String>,
    pub index: Vec<String>,
    pub super_shingles: Vec<String>,
    pub n_encoded_bytes: usize,
    encoded: String,
}

#[derive(Debug, Serialize)]
struct Equivalences {
    identical: Fingerprint,
    lexical: Fingerprint,
    shingle: Option<Fingerprint>,
}

/// Prints or writes the sketches of the inputs, or explains the rule.
pub(super) fn sketch(mut config: Config, store: Option<&Path>, args: &SketchArgs, mode: OutputMode) -> Result<Exit> {
    let json = mode.json;
    args.page_defaults.override_in(&mut config)?;
    let config = &config;
    telemetry::start_logs(&config.log)?;
    let (rule, seed) = rule_and_seed(config, store)?;
    if let Some(folder) = &args.parquet {
        return sketch_files::write(config, (rule, seed), args, folder, mode);
    }
    if args.explain && args.page {
        return explain_pages(&inputs(&args.inputs, None)?, &rule.canonical, &config.limits, json);
    }
    if args.explain {
        if !args.inputs.is_empty() {
            let why = "--explain without --page explains the rule and reads no input; add --page to explain pages";
            return Err(ending(Exit::Usage, why));
        }
        return print(&rule_explanation::explanation(&rule), json, rule_explanation::text);
    }
    let inputs = inputs(&args.inputs, None)?;
    let sketcher = rule.sketcher(&seed);
    let sketcher = RecordSketcher::new(sketcher, config.limits.clone(), config.input.sweep_cut, FutureLimit::NONE);
    let out = BufWriter::new(io::stdout().lock());
    let timing = args.time.then(Timing::default);
    let begin = Instant::now();
    let limits = config.limits.clone();
    let mut printer = Printer { sketcher, limits, rule: rule.sketch, json, timing, out, is_all_read: true };
    printer.begin()?;
    if args.page {
        printer.print_files(&inputs)?;
    } else {
        printer.print_records(file_source(config, inputs, ProgressMap::new())?)?;
    }
    printer.end(begin)?;
    Ok(if printer.is_all_read { Exit::Done } else { Exit::Unreadable })
}

/// The rule and seed of the named store, or of the configuration.
fn rule_and_seed(config: &Config, store: Option<&Path>) -> Result<(StoreRule, Seed)> {
    match store {
        Some(path) => {
            let store = RocksStore::open_read_only(path, &config.store_settings())?;
            Ok((Snapshot::rule(&store).clone(), *store.seed()))
        }
        None => Ok((config.rule(), config.seed()?.unwrap_or(OPEN_SEED))),
    }
}

/// How long sketching took.
#[derive(Debug, Default, Serialize)]
struct Timing {
    /// Sketched pages.
    pub n_pages: u64,
    /// Bytes of their bodies, decompressed.
    pub n_bytes: u64,
    /// Other records: gone, redirected or rejected.
    pub n_others: u64,
    /// From bodies to sketches.
    pub sketching_seconds: f64,
    /// The whole run: with reading, unpacking and parsing JSON.
    pub seconds: f64,
}

/// Sketches records and prints them one by one.
struct Printer<'a> {
    sketcher: RecordSketcher,
    limits: Limits,
    rule: SketchRule,
    json: bool,
    timing: Option<Timing>,
    out: BufWriter<StdoutLock<'a>>,
    is_all_read: bool,
}

impl Printer<'_> {
    fn begin(&mut self) -> io::Result<()> {
        if self.json || self.timing.is_some() { Ok(()) } else { self.out.write_all(HEADER.as_bytes()) }
    }

    fn end(&mut self, begin: Instant) -> Result<()> {
        if let Some(mut timing) = self.timing.take() {
            timing.seconds = begin.elapsed().as_secs_f64();
            write_answer(&mut self.out, &timing, self.json, timing_text)?;
        }
        Ok(self.out.flush()?)
    }

    fn print_records(&mut self, mut source: FileSource) -> Result<()> {
        loop {
            match source.poll(POLL_TIMEOUT)? {
                Polled::Record(Incoming { origin, record, .. }) => self.print(&origin, record)?,
                Polled::Unreadable(text) => self.unreadable(&text),
                Polled::Idle => self.out.flush()?,
                Polled::End => return Ok(()),
            }
        }
    }

    /// Prints inputs that are one page each. The URL of a page is its path.
    fn print_files(&mut self, inputs: &[Input]) -> Result<()> {
        for input in inputs {
            let (name, record) = match input {
                Input::File(path) => {
                    let name = path.display().to_string();
                    let record = InputFile::open(path).and_then(|file| record_of(&name, file, &self.limits));
                    (name, record)
                }
                Input::Stdin { .. } => ("-".to_string(), record_of("-", io::stdin().lock(), &self.limits)),
            };
            match record {
                Ok(record) => self.print(&Origin { source: name.into(), partition: 0, offset: 0 }, record)?,
                Err(error) => {
                    let why = without_system_number(&error.to_string());
                    self.unreadable(&format!("{name}: {why}; check the path and its permissions"));
                }
            }
        }
        Ok(())
    }

    fn print(&mut self, origin: &Origin, record: Record) -> Result<()> {
        if let Some(timing) = &mut self.timing {
            let page = page_record(record, &self.limits);
            let begin = Instant::now();
            let outcome = self.sketcher.sketch(&page);
            let took = begin.elapsed();
            timing.add(took, outcome.ok().and_then(|page| page.content).as_deref());
            return Ok(());
        }
        let line = Line::new(origin, self.sketcher.sketch(&record), &self.rule);
        write_answer(&mut self.out, &line, self.json, line_text)
    }

    fn unreadable(&mut self, text: &str) {
        self.is_all_read = false;
        log_line::say(Level::ERROR, PROGRAM, &format!("unreadable: {text}"), json!({}));
    }
}

impl Timing {
    fn add(&mut self, took: Duration, content: Option<&SketchedContent>) {
        match content {
            Some(content) => {
                self.n_pages += 1;
                self.n_bytes += content.n_bytes;
                self.sketching_seconds += took.as_secs_f64();
            }
            None => self.n_others += 1,
        }
    }
}

/// The record with its JSON parsed.
fn page_record(record: Record, limits: &Limits) -> Record {
    match record {
        Record::Json(json) => {
            parse_json_page(&json, limits).map_or_else(Record::Rejected, |page| Record::Page(Box::new(page)))
        }
        Record::Mapped(mapped) => {
            mapped.page(limits).map_or_else(Record::Rejected, |page| Record::Page(Box::new(page)))
        }
        other => other,
    }
}

/// A stream as one page, or its rejection.
fn record_of(name: &str, stream: impl io::Read, limits: &Limits) -> io::Result<Record> {
    let page = read_page(name.to_string(), stream, limits.body_bytes_max)?;
    Ok(page.map(Box::new).map_or_else(|| Record::Rejected(too_large(name, limits)), Record::Page))
}

fn too_large(name: &str, limits: &Limits) -> Rejection {
    let max = limits.body_bytes_max;
    let message = format!("larger than limits.body_bytes_max = {max} bytes; raise it to take such pages");
    Rejection { url: Some(name.to_string()), ..Rejection::new(Reason::TooLarge, message) }
}

impl Line {
    fn new(origin: &Origin, outcome: Result<SketchedPage, Rejection>, rule: &SketchRule) -> Self {
        match outcome {
            Ok(SketchedPage { url, content: Some(content), .. }) => {
                Line::Sketched(Box::new(Sketched::new(url, &content, rule)))
            }
            Ok(SketchedPage { url, redirect_to: Some(redirect_to), .. }) => Line::Redirect { url, redirect_to },
            Ok(SketchedPage { url, .. }) => Line::Gone { url, gone: true },
            Err(Rejection { reason, message, url, .. }) => {
                let (source, offset) = (origin.source.to_string(), origin.offset);
                Line::Rejected { url, source, offset, rejected: reason, message }
            }
        }
    }
}

impl Sketched {
    fn new(url: String, content: &SketchedContent, rule: &SketchRule) -> Self {
        let mut encoded = Vec::new();
        encode(&content.sketch, &mut encoded);
        let (form, n_kept, values, bits) = match &content.sketch.form {
            SketchForm::Sample { values, .. } => ("sample", values.len(), Some(hex(values, rule.bits)), None),
            SketchForm::Whole(tops) => ("whole", tops.len(), Some(hex(tops, u16::BITS)), None),
            SketchForm::Parity(words) => {
                let bytes = words.iter().flat_map(|word| word.to_le_bytes());
                ("parity", words.len() * 64, None, Some(hex(bytes, u8::BITS).concat()))
            }
        };
        let same = content.equivalences;
        Sketched {
            url,
            n_words: content.n_words,
            n_shingles: content.sketch.n_shingles,
            equivalences: Equivalences { identical: same.identical, lexical: same.lexical, shingle: same.shingle },
            form,
            n_kept,
            values,
            bits,
            index: hex(&content.index, rule.bits),
            super_shingles: hex(&content.super_shingles, Shingle::BITS),
            n_encoded_bytes: encoded.len(),
            encoded: hex(&encoded, u8::BITS).concat(),
        }
    }
}

/// Numbers of `bits` bits in hexadecimal, all of one width.
fn hex<T: LowerHex>(numbers: impl IntoIterator<Item = T>, bits: u32) -> Vec<String> {
    let width = bits.div_ceil(4) as usize;
    numbers.into_iter().map(|number| format!("{number:0width$x}")).collect()
}

/// The columns of [`line_text`].
const HEADER: &str = "   words  shingles    kept  form     bytes  index  super  url\n";

/// A line for a record.
fn line_text(line: &Line) -> String {
    match line {
        Line::Sketched(page) => format!(
            "{:>8}  {:>8}  {:>6}  {:<6}  {:>6}  {:>5}  {:>5}  {}\n",
            page.n_words,
            page.n_shingles,
            page.n_kept,
            page.form,
            page.n_encoded_bytes,
            page.index.len(),
            page.super_shingles.len(),
            page.url,
        ),
        Line::Gone { url, .. } => format!("    gone  {url}\n"),
        Line::Redirect { url, redirect_to } => format!("   moved  {url} to {redirect_to}\n"),
        Line::Rejected { url, source, offset, rejected, message } => {
            let place = url.clone().unwrap_or_else(|| format!("{source}: record {offset}"));
            format!("rejected  {}: {message}  {place}\n", rejected.as_str())
        }
    }
}

/// How long sketching took.
fn timing_text(timing: &Timing) -> String {
    let Timing { n_pages, n_bytes, n_others, sketching_seconds, seconds } = *timing;
    let megabytes = n_bytes as f64 / 1e6;
    let mut out = format!(
        "{n_pages} pages, {megabytes:.1} MB of bodies\n\
         to sketches, on one core: {sketching_seconds:.3} s, {:.0} MB/s\n\
         with reading and unpacking: {seconds:.3} s, {:.0} MB/s\n",
        megabytes / sketching_seconds,
        megabytes / seconds,
    );
    if n_others > 0 {
        out += &format!("{n_others} other records: gone, moved or rejected\n");
    }
    out
}
