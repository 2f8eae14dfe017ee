//! Which blocks of a page are its content, and why.

use crate::document::{BlockVerdict, CanonicalForm, CanonicalRule, Content, Page, PageContent, content_blocks};
use serde::Serialize;

/// A page's blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ContentExplanation {
    /// The page's URL.
    pub url: String,
    /// `canonical.content` of the store or the configuration.
    pub content: PageContent,
    /// Words under `"all"`.
    pub n_words_all: usize,
    /// Words under `"main"`.
    pub n_words_main: usize,
    /// Whether `"main"` takes every word, because the content would be next to nothing.
    pub main_is_all: bool,
    /// The blocks, in the order of the page.
    pub blocks: Vec<BlockRow>,
}

/// A block of a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlockRow {
    /// Whether its words count under `"main"`.
    pub is_content: bool,
    /// Why, in a word or two.
    pub why: &'static str,
    /// Words in it.
    pub n_words: usize,
    /// Its text on one line.
    pub text: String,
}

/// Tells the blocks of a page of HTML.
///
/// # Errors
/// Why it has none, in words.
pub fn explain_content(page: &Page, rule: &CanonicalRule) -> Result<ContentExplanation, String> {
    let url = page.url.clone();
    let Content::Body { media_type, body } = &page.content else { return Err(format!("{url} has no body")) };
    let no_text = |why| format!("{url}: {why}");
    let n_words_all = CanonicalForm::from_body(body, *media_type).map_err(no_text)?.n_words();
    let Some(blocks) = content_blocks(body, *media_type).map_err(no_text)? else {
        return Err(format!("{url} is plain text, all of which counts; give a page of HTML"));
    };
    let row = |(text, verdict): (&str, BlockVerdict)| BlockRow {
        is_content: verdict.is_content(),
        why: why(verdict),
        n_words: n_words(text),
        text: text.split_whitespace().collect::<Vec<_>>().join(" "),
    };
    Ok(ContentExplanation {
        content: rule.content,
        n_words_all,
        n_words_main: blocks.content().map(n_words).sum(),
        main_is_all: blocks.counts_whole(),
        blocks: blocks.blocks().map(row).collect(),
        url,
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
        BlockVerdict::Inherited => "inherited",
        BlockVerdict::List => "list",
        BlockVerdict::Control => "control",
        BlockVerdict::Label => "label",
        BlockVerdict::AmongFrame => "among frame",
        BlockVerdict::EmptyHeading => "empty heading",
    }
}
