//! `lookalike sketch --page --explain`: which blocks of a page are its content, and why.

use super::exit::{Exit, ending};
use super::output::print;
use super::page_file::{page_of_file, read_page};
use super::visible::visible_line;
use crate::document::{CanonicalRule, Page, PageContent};
use crate::files::Input;
use crate::query::{ContentExplanation, explain_content};
use crate::wire::Limits;
use anyhow::Result;
use std::fmt::Write;
use std::io;

/// Characters of a block that the text for people shows.
const SHOWN_CHARS: usize = 100;

/// Prints the blocks of each input, which is one page.
pub(super) fn explain_pages(inputs: &[Input], rule: &CanonicalRule, limits: &Limits, json: bool) -> Result<Exit> {
    for input in inputs {
        let explanation = explain_content(&read(input, limits)?, rule).map_err(|why| ending(Exit::Failed, why))?;
        print(&explanation, json, text)?;
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

/// A line for each block, and what counts.
fn text(page: &ContentExplanation) -> String {
    let mut out = format!("{}\n", visible_line(&page.url));
    for block in &page.blocks {
        let sign = if block.is_content { '+' } else { '-' };
        let shown: String = block.text.chars().take(SHOWN_CHARS).collect();
        let more = if shown.len() < block.text.len() { "…" } else { "" };
        let _ = writeln!(out, "{sign} {:<13} {:>6}  {}{more}", block.why, block.n_words, visible_line(&shown));
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
