//! `lookalike query` and `lookalike stats`: questions to a store, answers for people or in JSON.

use super::args::Question;
use super::exit::{Exit, ending, file_error};
use super::output::{print, write_answer};
use super::page_file::sketch_file;
use super::render;
use super::wiring::{check_share, open_read_only as open};
use crate::config::Config;
use crate::document::Seed;
use crate::ports::Snapshot;
use crate::query::{self, HostReuse, LostSearch};
use crate::sketch::{Rule, Sketch, SketchRule, Sketcher};
use anyhow::Result;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

/// Answers one question.
pub(super) fn query(config: &Config, question: Question, json: bool) -> Result<Exit> {
    match question {
        Question::Url { url } => {
            let answer = query::url(&open(config)?, &url)?;
            known(!answer.sightings.is_empty(), || format!("{url} was never seen"))?;
            print(&answer, json, render::url)
        }
        Question::Cluster { of } => {
            let store = open(config)?;
            let id = query::named_cluster(&store, &of)?;
            let answer = id.map(|id| query::cluster(&store, id)).transpose()?.flatten();
            let answer = answer.ok_or_else(|| ending(Exit::NotFound, format!("there is no cluster of {of}")))?;
            print(&answer, json, render::cluster)
        }
        Question::Group { file } => {
            let urls = lines(file.as_deref().unwrap_or(Path::new("-")))?;
            let answer = query::group(&open(config)?, &urls)?;
            print(&answer, json, |groups| render::groups(groups))
        }
        Question::Reuse { of, threshold } => {
            let answer = carriers(config, &of, threshold)?;
            print(&answer, json, |hosts| render::carriers(hosts))
        }
        Question::Lost { url: Some(url), limit, .. } => {
            let search = LostSearch { ranking: config.lost.clone(), limit };
            let answer = query::lost(&open(config)?, &url, &search)?;
            known(answer.newest.is_some(), || format!("{url} was never seen"))?;
            print(&answer, json, render::lost)
        }
        Question::Lost { urls_from, limit, .. } => {
            let search = LostSearch { ranking: config.lost.clone(), limit };
            let urls = lines(urls_from.as_deref().unwrap_or(Path::new("-")))?;
            each_lost(&open(config)?, &urls, &search, json)
        }
        Question::Similar { file, limit } => {
            let store = open(config)?;
            let mut sketcher = Sketcher::new(&store.rule().sketch, store.seed());
            let content = sketch_file(&file, &mut sketcher, &config.limits)?;
            let answer = query::similar(&store, &content, limit)?;
            print(&answer, json, |answer| render::similar(answer))
        }
        Question::Compare { a, b } => {
            let answer = compare(config, &a, &b)?;
            print(&answer, json, render::comparison)
        }
    }
}

/// Counts the store.
pub(super) fn stats(config: &Config, json: bool) -> Result<Exit> {
    let status = query::status(&open(config)?)?;
    print(&status, json, render::status)
}

fn known(is_known: bool, message: impl FnOnce() -> String) -> Result<()> {
    if is_known { Ok(()) } else { Err(ending(Exit::NotFound, message())) }
}

/// The pages that carry a file's text, or that of a URL.
fn carriers(config: &Config, of: &str, threshold: f64) -> Result<Vec<HostReuse>> {
    check_share("--threshold", threshold, true)?;
    let store = open(config)?;
    let path = Path::new(of);
    if path.is_file() {
        let mut sketcher = Sketcher::new(&store.rule().sketch, store.seed());
        let content = sketch_file(path, &mut sketcher, &config.limits)?;
        return Ok(query::reuse_of_content(&store, &content, threshold)?);
    }
    query::reuse_of_url(&store, of, threshold)?
        .ok_or_else(|| ending(Exit::NotFound, format!("{of} is neither a file nor a URL that was seen with a content")))
}

/// The lines of a file, or of standard input; blank ones are passed over.
fn lines(path: &Path) -> Result<Vec<String>> {
    let text =
        if path == Path::new("-") { std::io::read_to_string(std::io::stdin()) } else { std::fs::read_to_string(path) };
    let text = text.map_err(|error| file_error("read", path, &error))?;
    Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(String::from).collect())
}

/// Answers for many URLs, each as soon as it is there.
fn each_lost(view: &impl Snapshot, urls: &[String], search: &LostSearch, json: bool) -> Result<Exit> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut written = Ok(());
    query::lost_many(view, urls, search, |answer| {
        written = write_answer(&mut out, &answer, json, render::lost);
        written.is_ok()
    })?;
    written?;
    out.flush()?;
    Ok(Exit::Done)
}

/// Two files are compared by all their shingles; where a URL is one of them, by the store's sketches.
fn compare(config: &Config, a: &str, b: &str) -> Result<query::Comparison> {
    let (path_a, path_b) = (Path::new(a), Path::new(b));
    let limits = &config.limits;
    if path_a.is_file() && path_b.is_file() {
        let rule = SketchRule { rule: Rule::All, bits: 64, ..config.rule().sketch };
        let mut sketcher = Sketcher::new(&rule, &Seed([0; 4]));
        let a = sketch_file(path_a, &mut sketcher, limits)?;
        let b = sketch_file(path_b, &mut sketcher, limits)?;
        return Ok(query::compare_sketches(&a.sketch, &b.sketch, rule.rule));
    }
    let store = open(config)?;
    let mut sketcher = Sketcher::new(&store.rule().sketch, store.seed());
    let mut sketch = |name: &str| -> Result<Arc<Sketch>> {
        let path = Path::new(name);
        if path.is_file() {
            return Ok(sketch_file(path, &mut sketcher, limits)?.sketch);
        }
        query::sketch_of_url(&store, name)?
            .ok_or_else(|| ending(Exit::NotFound, format!("{name} is neither a file nor a URL that was seen")))
    };
    Ok(query::compare_sketches(&*sketch(a)?, &*sketch(b)?, store.rule().sketch.rule))
}
