//! `lookalike query compare --passages`: the passages that two texts share, from files, kept texts, or the inputs' records.

use super::answer_table::{self, AnswerFormat, print_as};
use super::args::CompareArgs;
use super::exit::{Exit, ending, usage};
use super::named::version;
use super::page_file::page_of_file;
use super::render::percent;
use super::wiring::{file_source, open_read_only};
use crate::config::Config;
use crate::document::{CanonicalRule, Content, DocumentId, FetchTime, Page, tidy_text, word_starts};
use crate::files::{Input, input_files, url_of};
use crate::intake::{FutureLimit, PageReader};
use crate::ports::{Polled, ProgressMap, Snapshot, Source};
use crate::query::{self, Passage, SharedPassages, shared_passages};
use crate::store::RocksStore;
use anyhow::Result;
use serde::Serialize;
use std::collections::HashSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Words of a passage that people see at each of its ends.
const SHOWN_WORDS: usize = 12;

/// How long one look at the inputs may take before the next.
const POLL: Duration = Duration::from_millis(100);

/// Two texts against each other, exactly.
#[derive(Serialize)]
pub(super) struct ComparedTexts {
    resemblance: f64,
    containment_of_a_in_b: f64,
    containment_of_b_in_a: f64,
    /// Where each text comes from.
    a: TextOrigin,
    b: TextOrigin,
    /// What both have, in the order of A.
    passages: Vec<PassageRow>,
}

/// Where a text comes from.
#[derive(Clone, Serialize)]
#[serde(rename_all = "kebab-case", tag = "from")]
enum TextOrigin {
    /// A file.
    File,
    /// The store, which keeps it.
    Store { document: DocumentId },
    /// A record of an input.
    Input { document: DocumentId, source: String, partition: i32, offset: i64 },
}

/// A run of words that both texts have.
#[derive(Serialize)]
struct PassageRow {
    n_words: usize,
    /// Where A has it, in bytes of its text.
    a_begin: usize,
    a_end: usize,
    /// Where B has it, or more around it.
    b_begin: usize,
    b_end: usize,
    /// As it stands in A.
    text: String,
}

/// A text, or what of it is to be looked for.
enum TextOfSide {
    Known(String, TextOrigin),
    /// A document whose text is not kept, and why.
    Sought(DocumentId, &'static str),
}

/// Compares the texts of two files or pages.
pub(super) fn compare(config: &Config, args: &CompareArgs, format: AnswerFormat) -> Result<Exit> {
    let are_files = [&args.a, &args.b].iter().all(|name| Path::new(name).is_file());
    let store = (!are_files).then(|| open_read_only(config)).transpose()?;
    let rule = store.as_ref().map_or_else(|| config.rule(), |store| store.rule().clone());
    let side = |name: &str, sweep: Option<&str>| side(config, store.as_ref(), &rule.canonical, name, sweep);
    let mut sides = [side(&args.a, args.a_sweep.as_deref())?, side(&args.b, args.b_sweep.as_deref())?];
    if let Some(store) = &store {
        find_sought(config, store, &rule.canonical, args, &mut sides)?;
    }
    let [(a, a_origin), (b, b_origin)] = known(sides)?;
    let w = rule.sketch.w;
    for (name, text) in [(&args.a, &a), (&args.b, &b)] {
        let n_words = word_starts(text).len();
        if n_words < w {
            return Err(ending(Exit::NotFound, query::nothing_to_compare(name, n_words as u32, w)));
        }
    }
    let shared = shared_passages(&a, &b, w);
    let answer = ComparedTexts {
        resemblance: shared.resemblance(),
        containment_of_a_in_b: shared.containment_of_a_in_b(),
        containment_of_b_in_a: shared.containment_of_b_in_a(),
        a: a_origin,
        b: b_origin,
        passages: rows(&a, &shared),
    };
    print_as(&answer, format, answer_table::PASSAGES, text)
}

fn rows(a: &str, SharedPassages { passages_of_a, passages_of_b, .. }: &SharedPassages) -> Vec<PassageRow> {
    let row = |Passage { range, n_words, counterpart }: &Passage| {
        let other = passages_of_b.get(*counterpart).map_or(0..0, |other| other.range.clone());
        let text = a[range.clone()].to_string();
        let (a_begin, a_end) = (range.start, range.end);
        PassageRow { n_words: *n_words, a_begin, a_end, b_begin: other.start, b_end: other.end, text }
    };
    passages_of_a.iter().map(row).collect()
}

/// The text of a file, or of a page of the store.
fn side(
    config: &Config,
    store: Option<&RocksStore>,
    rule: &CanonicalRule,
    name: &str,
    sweep: Option<&str>,
) -> Result<TextOfSide> {
    let Some(store) = store.filter(|_| !Path::new(name).is_file()) else {
        let page = page_of_file(Path::new(name), &config.limits)?;
        let text = text_of(&page, rule).unwrap_or_else(|| Err(format!("{name} has no content")));
        return text.map(|text| TextOfSide::Known(text, TextOrigin::File)).map_err(|why| ending(Exit::Failed, why));
    };
    let answer = query::text(store, version(store, name, sweep)?)?;
    let document = answer.document;
    Ok(match (answer.text, answer.missing) {
        (Some(text), _) => TextOfSide::Known(text, TextOrigin::Store { document }),
        (None, missing) => TextOfSide::Sought(document, missing.map_or("", query::MissingText::reason)),
    })
}

/// The text of a page that counts; none where it has no content.
fn text_of(page: &Page, rule: &CanonicalRule) -> Option<Result<String, String>> {
    let Content::Body { media_type, body } = &page.content else { return None };
    let text = tidy_text(body, *media_type, rule).map(std::borrow::Cow::into_owned);
    Some(text.map_err(|why| format!("{}: {why}", page.url)))
}

/// Looks among the records of inputs for the texts that the store does not keep.
fn find_sought(
    config: &Config,
    store: &RocksStore,
    rule: &CanonicalRule,
    args: &CompareArgs,
    sides: &mut [TextOfSide; 2],
) -> Result<()> {
    if sides.iter().all(|side| matches!(side, TextOfSide::Known(..))) {
        return Ok(());
    }
    let inputs = inputs(store, &args.from)?;
    if inputs.is_empty() {
        return Ok(());
    }
    let mut sought = Vec::new();
    for side in sides.iter() {
        sought.push(match side {
            TextOfSide::Known(..) => HashSet::new(),
            TextOfSide::Sought(document, _) => places(store, *document)?,
        });
    }
    let mut source = file_source(config, inputs.into_iter().map(Input::File).collect(), ProgressMap::new())?;
    let mut reader = PageReader::new(config.limits.clone(), FutureLimit::NONE);
    while sides.iter().any(|side| matches!(side, TextOfSide::Sought(..))) {
        let incoming = match source.poll(POLL)? {
            Polled::Record(incoming) => incoming,
            Polled::Idle | Polled::Unreadable(_) => continue,
            Polled::End => break,
        };
        let Ok(page) = reader.page(&incoming.record) else { continue };
        let key = (page.url.clone(), page.fetched_at);
        for (side, places) in sides.iter_mut().zip(&sought) {
            let TextOfSide::Sought(document, _) = *side else { continue };
            if let Some(Ok(text)) = places.contains(&key).then(|| text_of(&page, rule)).flatten() {
                let (source, partition) = (incoming.origin.source.to_string(), incoming.origin.partition);
                let origin = TextOrigin::Input { document, source, partition, offset: incoming.origin.offset };
                *side = TextOfSide::Known(text, origin);
            }
        }
    }
    Ok(())
}

/// The named inputs; or those that the store has read and that are still there.
fn inputs(store: &RocksStore, named: &[PathBuf]) -> Result<Vec<PathBuf>> {
    if !named.is_empty() {
        return input_files(named).map_err(usage);
    }
    let mut names: Vec<String> = store.progress()?.into_keys().map(|(source, _)| source).collect();
    names.dedup();
    let is_there = |path: &PathBuf| path.is_file() || url_of(path).is_some();
    Ok(names.into_iter().map(PathBuf::from).filter(is_there).collect())
}

/// Where and when a document stood.
fn places(store: &RocksStore, document: DocumentId) -> Result<HashSet<(String, FetchTime)>> {
    let sightings = store.sightings_of_document(document)?;
    Ok(sightings.into_iter().map(|sighting| (sighting.url, sighting.moment.fetched_at)).collect())
}

fn known(sides: [TextOfSide; 2]) -> Result<[(String, TextOrigin); 2]> {
    let [a, b] = sides.map(|side| match side {
        TextOfSide::Known(text, origin) => Ok((text, origin)),
        TextOfSide::Sought(document, why) => Err(ending(
            Exit::NotFound,
            format!(
                "there is no text of document {document}. {why} No input that was read holds a record of it: name those \
                 that do with --from"
            ),
        )),
    });
    Ok([a?, b?])
}

/// The shares, and the passages by their ends.
fn text(answer: &ComparedTexts) -> String {
    let n_words: usize = answer.passages.iter().map(|passage| passage.n_words).sum();
    let mut text = format!(
        "resemblance           {}\ncontainment of A in B {}\ncontainment of B in A {}\n{} passages of A, {n_words} words\n",
        percent(answer.resemblance),
        percent(answer.containment_of_a_in_b),
        percent(answer.containment_of_b_in_a),
        answer.passages.len(),
    );
    for (number, passage) in (1..).zip(&answer.passages) {
        let _ = writeln!(text, "{number:>4}  {:>6} words  {}", passage.n_words, ends(&passage.text));
    }
    text
}

/// A passage on one line; of a long one its ends.
fn ends(passage: &str) -> String {
    let words: Vec<&str> = passage.split_whitespace().collect();
    if words.len() <= 2 * SHOWN_WORDS {
        return words.join(" ");
    }
    format!("{} … {}", words[..SHOWN_WORDS].join(" "), words[words.len() - SHOWN_WORDS..].join(" "))
}
