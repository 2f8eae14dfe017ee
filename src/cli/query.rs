//! `lookalike query` and `lookalike stats`: questions to a store, answered for people or in JSON.

use super::answer_table::{self, AnswerFormat, AnswerWriter, print_as};
use super::args::{CompareArgs, Question};
use super::exit::{Exit, ending};
use super::named::{never_seen, no_page, version};
use super::output::print;
use super::page_file::sketch_file;
use super::passages;
use super::related_store;
use super::render;
use super::wiring::{check_share, lines, open_read_only as open};
use crate::config::Config;
use crate::document::Seed;
use crate::ports::Snapshot;
use crate::query::{self, HostReuse, LostSearch};
use crate::sketch::{Rule, Sketch, SketchRule, SketchedContent, Sketcher};
use crate::wire::Limits;
use anyhow::{Error, Result};
use std::io::{IsTerminal, Write, stdout};
use std::path::Path;
use std::sync::Arc;

/// Answers one question.
pub(super) fn query(config: &Config, question: Question, format: AnswerFormat) -> Result<Exit> {
    match question {
        Question::Url { url } => {
            let store = open(config)?;
            let answer = query::url(&store, &url)?;
            if answer.sightings.is_empty() {
                return Err(never_seen(&store, &url));
            }
            print_as(&answer, format, answer_table::URL, render::url)
        }
        Question::Cluster { of } => {
            let store = open(config)?;
            let id = query::named_cluster(&store, &of)?;
            let answer = id.map(|id| query::cluster(&store, id)).transpose()?.flatten();
            let answer = answer.ok_or_else(|| ending(Exit::NotFound, format!("there is no cluster of {of}")))?;
            print_as(&answer, format, answer_table::CLUSTER, render::cluster)
        }
        Question::Group { file } => {
            let urls = lines(file.as_deref().unwrap_or(Path::new("-")))?;
            let answer = query::group(&open(config)?, &urls)?;
            print_as(&answer, format, answer_table::GROUP, |groups| render::groups(groups))
        }
        Question::Reuse { of, threshold } => {
            let answer = reuse(config, &of, threshold)?;
            print_as(&answer, format, answer_table::REUSE, |hosts| render::reuse(hosts))
        }
        Question::Related { of: Some(url), limit, cluster: true, .. } => {
            related_store::query_cluster(config, &url, limit, format)
        }
        Question::Related { of: Some(of), limit, copies, .. } => {
            related_store::query(config, &of, limit, copies, format)
        }
        Question::Related { urls_from, limit, copies, .. } => {
            related_store::query_each(config, urls_from.as_deref().unwrap_or(Path::new("-")), limit, copies, format)
        }
        Question::Lost { url: Some(url), limit, .. } => {
            let search = LostSearch { ranking: config.lost.clone(), limit };
            let store = open(config)?;
            let answer = query::lost(&store, &url, &search)?;
            if answer.newest.is_none() {
                return Err(never_seen(&store, &url));
            }
            print_as(&answer, format, answer_table::LOST, render::lost)
        }
        Question::Lost { urls_from, limit, .. } => {
            let search = LostSearch { ranking: config.lost.clone(), limit };
            let urls = lines(urls_from.as_deref().unwrap_or(Path::new("-")))?;
            each_lost(&open(config)?, &urls, &search, format)
        }
        Question::Text { of, sweep } => kept_text(config, &of, sweep.as_deref(), format),
        Question::Similar { file, limit } => {
            let store = open(config)?;
            let mut sketcher = store.rule().sketcher(store.seed());
            let content = sketch_words(&file, &mut sketcher, &config.limits)?;
            let answer = query::similar(&store, &content, limit)?;
            print_as(&answer, format, answer_table::SIMILAR, |answer| render::similar(answer))
        }
        Question::Compare(args) if args.passages => passages::compare(config, &args, format),
        Question::Compare(CompareArgs { a, b, .. }) => {
            let answer = compare(config, &a, &b)?;
            print_as(&answer, format, answer_table::COMPARISON, render::comparison)
        }
    }
}

/// The kept text of a page, in a file or a pipe as it is. For people, a missing one is an error that says why.
fn kept_text(config: &Config, of: &str, sweep: Option<&str>, format: AnswerFormat) -> Result<Exit> {
    let store = open(config)?;
    let document = version(&store, of, sweep)?;
    let answer = query::text(&store, document)?;
    if let Some(missing) = answer.missing.filter(|_| format != AnswerFormat::Json) {
        return Err(ending(Exit::NotFound, format!("there is no text of document {document}. {}", missing.reason())));
    }
    if format == AnswerFormat::Table && !stdout().is_terminal() {
        stdout().write_all(render::kept_text(&answer).as_bytes())?;
        return Ok(Exit::Done);
    }
    print_as(&answer, format, answer_table::TEXT, render::kept_text)
}

/// Counts the store.
pub(super) fn stats(config: &Config, json: bool) -> Result<Exit> {
    let status = query::status(&open(config)?)?;
    print(&status, json, render::status)
}

/// The error for a document that nothing can be like.
fn nothing_to_compare(name: &str, n_words: u32, w: usize) -> Error {
    ending(Exit::NotFound, query::nothing_to_compare(name, n_words, w))
}

/// The sketch of a file that has words.
fn sketch_words(path: &Path, sketcher: &mut Sketcher, limits: &Limits) -> Result<SketchedContent> {
    let content = sketch_file(path, sketcher, limits)?;
    if content.n_words == 0 {
        return Err(nothing_to_compare(&path.display().to_string(), 0, 0));
    }
    Ok(content)
}

/// The pages that carry the text of a file, or of a URL.
fn reuse(config: &Config, of: &str, threshold: f64) -> Result<Vec<HostReuse>> {
    check_share("--threshold", threshold, true)?;
    let store = open(config)?;
    let path = Path::new(of);
    if path.is_file() {
        let mut sketcher = store.rule().sketcher(store.seed());
        let content = sketch_words(path, &mut sketcher, &config.limits)?;
        return Ok(query::reuse_of_content(&store, &content, threshold)?);
    }
    match query::document_at(&store, of)? {
        None => Err(neither(&store, of)),
        Some((_, stored)) if stored.n_words == 0 => Err(nothing_to_compare(of, 0, 0)),
        Some((document, stored)) => Ok(query::reuse_of_document(&store, (document, &stored), threshold)?),
    }
}

/// The error for an argument that is neither a file nor a URL of a page.
fn neither(snapshot: &impl Snapshot, name: &str) -> Error {
    no_page(snapshot, name).context(format!("{name} is neither a file nor the URL of a page in the store"))
}

/// Answers for many URLs, and prints each answer as soon as it is there.
fn each_lost(snapshot: &impl Snapshot, urls: &[String], search: &LostSearch, format: AnswerFormat) -> Result<Exit> {
    let mut out = AnswerWriter::new(format, answer_table::LOST)?;
    let mut written = Ok(());
    query::lost_many(snapshot, urls, search, |answer| {
        written = out.write(&answer, render::lost);
        written.is_ok()
    })?;
    written?;
    out.finish()?;
    Ok(Exit::Done)
}

/// Compares two files by all their shingles, or a URL with a file or another URL by the store's sketches.
fn compare(config: &Config, a: &str, b: &str) -> Result<query::Comparison> {
    let limits = &config.limits;
    let comparable = |name: &str, n_words: u32, w: usize, sketch: Arc<Sketch>| {
        if sketch.n_shingles == 0 { Err(nothing_to_compare(name, n_words, w)) } else { Ok(sketch) }
    };
    if Path::new(a).is_file() && Path::new(b).is_file() {
        let configured = config.rule();
        let rule = SketchRule { rule: Rule::All, bits: 64, ..configured.sketch };
        let mut sketcher = Sketcher::new(&rule, &Seed([0; 4])).reading(&configured.canonical);
        let mut sketch = |name: &str| {
            let content = sketch_file(Path::new(name), &mut sketcher, limits)?;
            comparable(name, content.n_words, rule.w, content.sketch)
        };
        return Ok(query::compare_sketches(&*sketch(a)?, &*sketch(b)?, rule.rule));
    }
    let store = open(config)?;
    let rule = &store.rule().sketch;
    let mut sketcher = store.rule().sketcher(store.seed());
    let mut sketch = |name: &str| -> Result<Arc<Sketch>> {
        let path = Path::new(name);
        if path.is_file() {
            let content = sketch_file(path, &mut sketcher, limits)?;
            return comparable(name, content.n_words, rule.w, content.sketch);
        }
        let (_, stored) = query::document_at(&store, name)?.ok_or_else(|| neither(&store, name))?;
        comparable(name, stored.n_words, rule.w, stored.sketch)
    };
    Ok(query::compare_sketches(&*sketch(a)?, &*sketch(b)?, rule.rule))
}
