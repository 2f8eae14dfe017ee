//! `lookalike query compare --passages`: the passages that two texts share, from files, kept texts, or the inputs' records.

use super::answer_table::{self, AnswerFormat, print_as};
use super::args::CompareArgs;
use super::exit::{Exit, ending, usage};
use super::input_pages::StoreInputs;
use super::named::version;
use super::page_file::page_of_file;
use super::render::percent;
use super::wiring::open_read_only;
use crate::config::Config;
use crate::document::{CanonicalRule, DocumentId, Page, word_starts};
use crate::files::input_files;
use crate::ports::{InputPages, Snapshot};
use crate::query::{self, ComparedTexts, TextOrigin, sought_page, text_of_page};
use crate::store::RocksStore;
use anyhow::Result;
use std::fmt::Write;
use std::path::Path;

/// Words of a passage that people see at each of its ends.
const SHOWN_WORDS: usize = 12;

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
    let answer = ComparedTexts::new([&a, &b], [a_origin, b_origin], w);
    print_as(&answer, format, answer_table::PASSAGES, text)
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
        let text = text_of_page(&page, rule);
        return text.map(|text| TextOfSide::Known(text, TextOrigin::File)).map_err(|why| ending(Exit::Failed, why));
    };
    let answer = query::text(store, version(store, name, sweep)?)?;
    let document = answer.document;
    Ok(match (answer.text, answer.missing) {
        (Some(text), _) => TextOfSide::Known(text, TextOrigin::Store { document }),
        (None, missing) => TextOfSide::Sought(document, missing.map_or("", query::MissingText::reason)),
    })
}

/// Looks among the records of inputs for the texts that the store does not keep.
fn find_sought(
    config: &Config,
    store: &RocksStore,
    rule: &CanonicalRule,
    args: &CompareArgs,
    sides: &mut [TextOfSide; 2],
) -> Result<()> {
    let mut sought = Vec::new();
    for side in sides.iter() {
        if let TextOfSide::Sought(document, _) = side {
            sought.push(sought_page(store, *document)?);
        }
    }
    if sought.is_empty() {
        return Ok(());
    }
    let inputs = StoreInputs::new(config);
    let paths = match args.from.as_slice() {
        [] => inputs.readable(store.sources()?),
        named => input_files(named).map_err(usage)?,
    };
    let mut sketcher = store.rule().sketcher(store.seed());
    let mut is_page_of = |page: &Page, document| query::is_page_of(store, &mut sketcher, page, document);
    let found = inputs.find(&sought, paths, &mut is_page_of, None)?;
    let missing = sides.iter_mut().filter(|side| matches!(side, TextOfSide::Sought(..)));
    for ((side, sought), found) in missing.zip(sought).zip(found) {
        if let Some(found) = found {
            let text = text_of_page(&found.page, rule).map_err(|why| ending(Exit::Failed, why))?;
            *side = TextOfSide::Known(text, TextOrigin::of_record(sought.document, &found.origin));
        }
    }
    Ok(())
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
