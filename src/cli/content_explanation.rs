//! `lookalike sketch --page --explain`: which blocks of a page are its content, and why.

use super::exit::{Exit, ending};
use super::output::print;
use super::page_file::{page_of_file, read_page};
use crate::document::{BlockVerdict, CanonicalForm, CanonicalRule, Content, Page, PageContent, content_blocks};
use crate::files::Input;
use crate::wire::Limits;
use anyhow::Result;
use serde::Serialize;
use std::fmt::Write;
use std::io;

/// Characters of a block that the text for people shows.
const SHOWN_CHARS: usize = 100;

/// A page's blocks.
#[derive(Debug, Serialize)]
struct PageExplanation {
    pub url: String,
    /// `canonical.content` of the store or the configuration.
    pub content: PageContent,
    /// Words under `"all"`.
    pub n_words_all: usize,
    /// Words under `"main"`.
    pub n_words_main: usize,
    /// Whether `"main"` takes every word, because the content would be next to nothing.
    pub main_is_all: bool,
    pub blocks: Vec<BlockRow>,
}

#[derive(Debug, Serialize)]
struct BlockRow {
    pub is_content: bool,
    pub why: &'static str,
    pub n_words: usize,
    pub text: String,
}

/// Prints the blocks of each input, which is one page.
pub(super) fn explain_pages(inputs: &[Input], rule: &CanonicalRule, limits: &Limits, json: bool) -> Result<Exit> {
    for input in inputs {
        print(&explanation(&read(input, limits)?, rule)?, json, text)?;
    }
    Ok(Exit::Done)
}

fn read(input: &Input, limits: &Limits) -> Result<Page> {
    match input {
        Input::File(path) => page_of_file(path, limits),
        Input::Stdin { .. } => {
            let bytes_max = limits.body_bytes_max;
            let why = format!("standard input has more than limits.body_bytes_max = {bytes_max} bytes; raise it");
            read_page("-".into(), io::stdin().lock(), bytes_max)?.ok_or_else(|| ending(Exit::Failed, why))
        }
    }
}

fn explanation(page: &Page, rule: &CanonicalRule) -> Result<PageExplanation> {
    let url = page.url.clone();
    let Content::Body { media_type, body } = &page.content else {
        return Err(ending(Exit::Failed, format!("{url} has no body")));
    };
    let no_text = |why| ending(Exit::Failed, format!("{url}: {why}"));
    let n_words_all = CanonicalForm::from_body(body, *media_type).map_err(no_text)?.n_words();
    let Some(blocks) = content_blocks(body, *media_type).map_err(no_text)? else {
        return Err(ending(Exit::Failed, format!("{url} is plain text, all of which counts; give a page of HTML")));
    };
    let row = |(text, verdict): (&str, BlockVerdict)| BlockRow {
        is_content: verdict.is_content(),
        why: why(verdict),
        n_words: n_words(text),
        text: text.split_whitespace().collect::<Vec<_>>().join(" "),
    };
    Ok(PageExplanation {
        url: page.url.clone(),
        content: rule.content,
        n_words_all,
        n_words_main: blocks.content().map(n_words).sum(),
        main_is_all: blocks.counts_whole(),
        blocks: blocks.blocks().map(row).collect(),
    })
}

fn n_words(text: &str) -> usize {
    CanonicalForm::from_text(text).n_words()
}

/// A word or two on a verdict; part of the JSON answer.
fn why(verdict: BlockVerdict) -> &'static str {
    match verdict {
        BlockVerdict::Text => "text",
        BlockVerdict::Heading => "heading",
        BlockVerdict::Title => "title",
        BlockVerdict::Landmark => "landmark",
        BlockVerdict::Named => "named frame",
        BlockVerdict::OutsideMain => "outside main",
        BlockVerdict::List => "list",
        BlockVerdict::Label => "label",
        BlockVerdict::AmongFrame => "among frame",
        BlockVerdict::EmptyHeading => "empty heading",
    }
}

/// A line for each block, and what counts.
fn text(page: &PageExplanation) -> String {
    let mut out = format!("{}\n", page.url);
    for block in &page.blocks {
        let sign = if block.is_content { '+' } else { '-' };
        let shown: String = block.text.chars().take(SHOWN_CHARS).collect();
        let more = if shown.len() < block.text.len() { "…" } else { "" };
        let _ = writeln!(out, "{sign} {:<13} {:>6}  {shown}{more}", block.why, block.n_words);
    }
    let (main, all) = (page.n_words_main, page.n_words_all);
    out += &match (page.content, page.main_is_all) {
        (_, true) => format!("all {all} words count: the content would be next to nothing\n"),
        (PageContent::Main, false) => format!("{main} of {all} words count\n"),
        (PageContent::All, false) => {
            format!("all {all} words count; with canonical.content = \"main\", {main} would\n")
        }
    };
    out
}
