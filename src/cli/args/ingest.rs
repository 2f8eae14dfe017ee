//! The words of the commands that read pages or serve them: `run`, `backfill`, `sketch`, `serve`.

use super::super::exit::usage;
use crate::config::Config;
use crate::files::InputNumber;
use crate::wire::{Part, Preset, TimeFrom, UrlFrom};
use anyhow::Result;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

macro_rules! inputs_help {
    ($standard_input:literal) => {
        concat!(
            "Files of JSONL, a JSON array, CSV, TSV, Parquet, WARC, WET, ARC or WACZ, or of one page of HTML or text; folders; \
             patterns; or URLs (s3://, gs://, az://, https://). Plain or compressed with gzip, zstd, xz or bzip2. A folder \
             yields every file below it in order of names, without hidden ones, images, style sheets and the like; `*`, `?`, \
             `[…]` and `**` match where the shell has not. ",
            $standard_input
        )
    };
}

/// What inputs are, for commands that read pages once.
pub(super) const INPUTS_HELP: &str = inputs_help!("`-` is standard input");

/// What inputs are, for commands that read pages again: in another phase, or to go on after an interruption.
pub(super) const FILES_HELP: &str = inputs_help!("Standard input and pipes cannot be read again; save them to a file");

/// Where records hold the parts of a page, and what a page gets that does not say it itself.
#[derive(Debug, Args)]
pub struct PageDefaults {
    /// The sweep of pages that name none, such as those in WARC files
    #[arg(long, value_name = "NAME")]
    sweep: Option<String>,
    /// The time of records that have none: RFC 3339, or `file-time` for when their file was last changed. In archives,
    /// where no record before them in the file has one
    #[arg(long, value_name = "TIME|file-time")]
    fetched_at: Option<TimeFrom>,
    /// The URL of records that have none: `id`, their id; `path`, the path of their file; `record`, that path with the
    /// record's number
    #[arg(long, value_name = "id|path|record")]
    url_from: Option<UrlFrom>,
    /// Where JSON, CSV, TSV and Parquet have the parts of a page: auto, page, fineweb, c4, the-pile, scrapy, nutch or pointers.
    /// `auto` goes by the first record
    #[arg(long, value_name = "PRESET")]
    fields: Option<Preset>,
    /// Other places of parts, as names of fields or columns or as JSON pointers: url=/meta/url,text=content
    #[arg(long, value_name = "PART=PLACE", value_delimiter = ',', value_parser = mapping)]
    map: Vec<(Part, String)>,
}

/// A part of a page, and its place.
fn mapping(text: &str) -> Result<(Part, String), String> {
    let (part, place) = text.split_once('=').ok_or("write PART=PLACE, such as url=/meta/url")?;
    if place.is_empty() {
        return Err(format!("{part} has no place; write {part}=NAME or {part}=/POINTER"));
    }
    Ok((part.trim().parse()?, place.to_string()))
}

impl PageDefaults {
    /// Overrides the configuration with what was given.
    ///
    /// # Errors
    /// Wrong usage if what results cannot give pages.
    pub fn override_in(&self, config: &mut Config) -> Result<()> {
        if let Some(sweep) = &self.sweep {
            config.input.sweep.clone_from(sweep);
        }
        if let Some(time) = self.fetched_at {
            config.input.fetched_at = time.to_string();
        }
        if let Some(from) = self.url_from {
            config.input.url_from = from.to_string();
        }
        if let Some(preset) = self.fields {
            config.input.fields.preset = preset;
        }
        for (part, place) in &self.map {
            config.input.fields.set(*part, place);
        }
        config.check_fields().map_err(usage)
    }
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  lookalike run crawl-*.warc.gz --sweep 2026-11
  lookalike run crawls/                              every file below the folder
  lookalike run --follow crawls/                     and every one that appears there
  zstd -dc pages.jsonl.zst | lookalike run -
  lookalike run pages.jsonl --events events.jsonl --json
  lookalike run fineweb/*.jsonl.gz                   recognised; c4, the-pile, scrapy and nutch, too
  lookalike run pages.csv --map url=link,text=article --fetched-at file-time
  lookalike run --config config/kafka.toml --http-listen localhost:8080
  lookalike run --config config/kafka.toml --role sketcher

Exit codes:
  0    every input was read; Kafka, --follow: stopped by SIGTERM or SIGINT
  1    failed; the message says why and what to do
  2    wrong usage or configuration, or an input does not exist; nothing was changed
  3    some input could not be read, the rest is taken in; or no record was accepted
  10   Kafka: records were deleted before they were read; see --accept-gap
  11   Kafka: the topic is another one than before; see --accept-gap
  12   the store is older than its output; `lookalike follow --once` brings it up to date
  13   Kafka: another process publishes for this store
  14   Kafka: the brokers were away for too long
  15   Kafka: the store is new and the consumer group is not; see --bootstrap
  16   Kafka: the brokers refuse the name or the password
  17   Kafka, owner: sketched records are missing; the message says where the sketchers are to begin again
  18   Kafka, owner: records were sketched under other settings, or by another version of the program
  19   Kafka: a standby took over and went on otherwise than this store; restore a backup
  130  stopped by SIGTERM or SIGINT before the inputs ended; the same command goes on")]
pub struct RunArgs {
    #[arg(help = INPUTS_HELP, value_name = "INPUT")]
    pub inputs: Vec<PathBuf>,
    /// Go on with what appears in these folders and patterns, until SIGTERM: a file is taken in once it is whole
    #[arg(long, requires = "inputs", conflicts_with_all = ["stdin_name", "role"])]
    pub follow: bool,
    /// Append events to this file; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub events: Option<String>,
    #[command(flatten)]
    pub page_defaults: PageDefaults,
    /// Give standard input a name: records read before under that name are skipped
    #[arg(long, value_name = "NAME")]
    pub stdin_name: Option<String>,
    /// Kafka: do one half of the work. A `sketcher` sketches the pages of its share of the partitions and needs no store; any
    /// number of them may run. The `owner` takes their sketches into the store and publishes events [default: all of it]
    #[arg(long, conflicts_with = "inputs")]
    pub role: Option<Role>,
    /// Kafka: start a new store although the consumer group has read pages before; its output topics must be new, too
    #[arg(long)]
    pub bootstrap: bool,
    /// Kafka: go on without records that the topic no longer has; an event lists exactly which
    #[arg(long)]
    pub accept_gap: bool,
    /// Serve metrics to Prometheus at this address, such as localhost:9464
    #[arg(long, value_name = "HOST:PORT")]
    pub metrics_listen: Option<String>,
    /// Answer questions over HTTP at this address while running, as `serve` does
    #[arg(long, value_name = "HOST:PORT")]
    pub http_listen: Option<String>,
}

/// A part of the work of `run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Reads pages and sends their sketches
    Sketcher,
    /// Takes sketches into the store
    Owner,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  lookalike backfill crawls/ --store crawl.store
  lookalike backfill crawl-*.warc.gz --memory 8192 --verbose
  lookalike backfill pages.jsonl --then-from-kafka 2026-11-21T08:00:00Z
  lookalike backfill --from-sketches sketches/
  lookalike backfill --from-sketches sketches/ --links clusters/links.parquet

Exit codes:
  0    every input was read
  1    failed; the message says why and what to do
  2    wrong usage or configuration, an input does not exist, the store exists already, or the inputs are not those
       that the unfinished backfill began with; nothing was changed
  3    some input could not be read, the rest is taken in; or no record was accepted
  130  stopped by SIGTERM or SIGINT; the same command goes on")]
pub struct BackfillArgs {
    #[arg(help = FILES_HELP, value_name = "INPUT", required_unless_present = "from_sketches")]
    pub inputs: Vec<PathBuf>,
    /// Read no pages: load the files that `sketch --parquet` left in this folder, of all inputs
    #[arg(long, value_name = "DIR", conflicts_with_all = ["inputs", "sweep", "fetched_at", "url_from", "fields", "map"])]
    pub from_sketches: Option<PathBuf>,
    /// Search for no pairs: take the links between the documents of these sketches from this file, which
    /// deploy/spark/link_job.py wrote. Each link is confirmed by the sketches of its documents
    #[arg(long, value_name = "FILE", requires = "from_sketches", conflicts_with = "inputs")]
    pub links: Option<PathBuf>,
    /// Memory for everything that grows with the input [default: a third of the machine's]
    #[arg(long, value_name = "MIB")]
    pub memory: Option<u64>,
    /// Append an event for each record to this file, in order, with the page's final cluster
    #[arg(long, value_name = "FILE")]
    pub events: Option<String>,
    #[command(flatten)]
    pub page_defaults: PageDefaults,
    /// Where `run` is to begin in kafka.topic: at the first message of a time (RFC 3339) or later, or at offsets
    /// (PARTITION=OFFSET,…; other partitions begin at their oldest message)
    #[arg(long, value_name = "TIME|OFFSETS")]
    pub then_from_kafka: Option<String>,
    /// Report every phase beside the paper's, and every intermediate file
    #[arg(long, short)]
    pub verbose: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  lookalike sketch pages.jsonl
  lookalike sketch --page index.html --json
  lookalike sketch --explain --config config/accurate.toml
  lookalike sketch --page --explain index.html
  lookalike sketch --parquet sketches/ crawls/
  lookalike sketch --parquet sketches/ --number 3/64000 crawls/3.warc.gz

Exit codes:
  0    every input was read, rejected records included
  1    failed; the message says why and what to do
  2    wrong usage or configuration, an input does not exist, or DIR holds other sketches of it
  3    some input could not be read; the rest is printed or written
  130  stopped by SIGTERM or SIGINT; with --parquet the same command goes on with the next input")]
pub struct SketchArgs {
    #[arg(help = INPUTS_HELP, value_name = "INPUT")]
    pub inputs: Vec<PathBuf>,
    /// Read each input as one page, HTML or text, instead of a file of pages
    #[arg(long)]
    pub page: bool,
    #[command(flatten)]
    pub page_defaults: PageDefaults,
    /// Sketch nothing; explain what the rule keeps of documents of several sizes, and how sure their resemblance is; with
    /// --page, which blocks of each page are its content, and why
    #[arg(long)]
    pub explain: bool,
    /// Print no sketches; print how long sketching took, apart from reading
    #[arg(long, conflicts_with = "explain")]
    pub time: bool,
    /// Write the records of each input with their sketches into a Parquet file in this folder, for
    /// `backfill --from-sketches`. Inputs whose file is there are passed over, unless they changed after
    /// it was written
    #[arg(long, value_name = "DIR", conflicts_with_all = ["explain", "time", "page"])]
    pub parquet: Option<PathBuf>,
    /// The number of the input among all inputs, from 1, and how many there are; needed where each is sketched by a command
    /// of its own [default: the order of the inputs]
    #[arg(long, value_name = "NUMBER/OF", requires = "parquet")]
    pub number: Option<InputNumber>,
    /// The name of the input, under which a store notes how far it is read; needed for standard input [default: its path]
    #[arg(long, value_name = "NAME", requires = "parquet")]
    pub name: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  lookalike serve
  lookalike serve --store crawl.store --listen localhost:9000

Exit codes:
  0    stopped by SIGTERM or SIGINT
  1    failed; the message says why and what to do
  2    wrong usage or configuration")]
pub struct ServeArgs {
    /// Listen at this address [default: 127.0.0.1:8080]
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
}
