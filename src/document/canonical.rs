//! The canonical form: a page's words, without markup and case.

use super::decode::decode;
use super::html::{ContentBlocks, MarkedText, append_text as append_html_text};
use super::page::{Body, MediaType, binary_sign};
use super::words::append_words;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The version of the canonical form that holds every word of a page. It changes only when some page's words change.
pub const CANONICAL_VERSION: u32 = 1;

/// The version of the canonical form that holds the words of a page's own content. Versions are never used again for
/// another form; 2 took names as a list from eight on, and knew no labels; 3 counted every word of an index; 4 took
/// inherited members as content.
const MAIN_VERSION: u32 = 5;

/// Which words of a page its canonical form holds. A store keeps the rule it was created with.
///
/// The serde names are part of the store's format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CanonicalRule {
    /// Which words of an HTML page count. Of plain text, all do.
    #[serde(rename = "content")]
    pub content: PageContent,
}

/// Which words of an HTML page count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PageContent {
    /// Every word that a reader sees, and the title, as in the paper.
    #[default]
    #[serde(rename = "all")]
    All,
    /// Those of the page's own content, see [`ContentBlocks`].
    #[serde(rename = "main")]
    Main,
}

impl CanonicalRule {
    /// The version of the canonical form.
    pub fn version(&self) -> u32 {
        match self.content {
            PageContent::All => CANONICAL_VERSION,
            PageContent::Main => MAIN_VERSION,
        }
    }

    /// Whether this is the rule of a store that names none.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Why a page has no canonical form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoText {
    /// The bytes are not text in any charset, for example a PDF or an image labelled as text.
    #[error("the body is not text: {0}")]
    Binary(&'static str),
}

/// A page's words, lower-cased, joined by single spaces (Broder 1997, section 3.1: "canonical sequence of tokens").
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CanonicalForm {
    text: String,
    n_words: usize,
}

/// Returns the text of a body that counts by a rule, as a reader sees it: decoded and without markup.
///
/// # Errors
/// [`NoText`] if the bytes are not text.
pub fn plain_text<'b>(body: &'b Body, media_type: MediaType, rule: &CanonicalRule) -> Result<Cow<'b, str>, NoText> {
    let (text, is_html) = decoded(body, media_type)?;
    if !is_html {
        return Ok(text);
    }
    let mut plain = String::with_capacity(text.len() / 4);
    match rule.content {
        PageContent::All => append_html_text(&text, &mut plain),
        PageContent::Main => {
            let mut blocks = ContentBlocks::default();
            blocks.read_html(&text);
            blocks.content().for_each(|text| plain.extend([text, "\n"]));
        }
    }
    Ok(plain.into())
}

/// Returns [`plain_text`] as people store it: of markup, each run of blanks is one blank, or one line end where it holds one.
/// Plain text stays as it is.
///
/// # Errors
/// [`NoText`] if the bytes are not text.
pub fn tidy_text<'b>(body: &'b Body, media_type: MediaType, rule: &CanonicalRule) -> Result<Cow<'b, str>, NoText> {
    let text = plain_text(body, media_type, rule)?;
    if media_type == MediaType::PlainText {
        return Ok(text);
    }
    let mut tidy = String::with_capacity(text.len());
    append_tidy(&text, &mut tidy);
    Ok(tidy.into())
}

/// Appends a text with one blank, or one line end, for each run of blanks, and none at either end.
fn append_tidy(text: &str, tidy: &mut String) {
    let (begin, mut blank) = (tidy.len(), None);
    for c in text.chars() {
        match c {
            '\n' | '\r' => blank = Some('\n'),
            ' ' | '\t' | '\u{c}' | '\u{a0}' => blank = blank.or(Some(' ')),
            c => {
                tidy.extend(blank.take().filter(|_| tidy.len() > begin));
                tidy.push(c);
            }
        }
    }
}

/// Returns the blocks of a body and which of them are its content; `None` for plain text, all of which counts.
///
/// # Errors
/// [`NoText`] if the bytes are not text.
pub fn content_blocks(body: &Body, media_type: MediaType) -> Result<Option<ContentBlocks>, NoText> {
    let (text, is_html) = decoded(body, media_type)?;
    Ok(is_html.then(|| {
        let mut blocks = ContentBlocks::default();
        blocks.read_html(&text);
        blocks
    }))
}

/// Reads a body's text into `marked`, with the links and titles of HTML. Plain text has none.
///
/// # Errors
/// [`NoText`] if the bytes are not text; `marked` is then as it was.
pub fn mark_text(body: &Body, media_type: MediaType, marked: &mut MarkedText) -> Result<(), NoText> {
    let (text, is_html) = decoded(body, media_type)?;
    if is_html {
        marked.read_html(&text);
    } else {
        marked.read_text(&text);
    }
    Ok(())
}

/// Decodes a body. Returns its text and whether the text is HTML.
fn decoded(body: &Body, media_type: MediaType) -> Result<(Cow<'_, str>, bool), NoText> {
    let text = match body {
        Body::Text(text) => Cow::Borrowed(text.as_str()),
        Body::Bytes { bytes, charset } => decode(bytes, charset.as_deref(), media_type),
    };
    match binary_sign(&text) {
        Some(why) => Err(NoText::Binary(why)),
        None => {
            let is_html = media_type.or_sniffed(&text) == MediaType::Html;
            Ok((text, is_html))
        }
    }
}

impl CanonicalForm {
    /// Creates the canonical form of plain text.
    pub fn from_text(text: &str) -> Self {
        let mut form = Self::default();
        form.push_text(text);
        form
    }

    /// Creates the canonical form of a body.
    ///
    /// # Errors
    /// [`NoText`] if the bytes are not text.
    pub fn from_body(body: &Body, media_type: MediaType) -> Result<Self, NoText> {
        let mut canonicaliser = Canonicaliser::default();
        canonicaliser.read(body, media_type)?;
        Ok(canonicaliser.form)
    }

    fn push_text(&mut self, text: &str) {
        self.n_words += append_words(text, &mut self.text);
    }

    /// The words joined by single spaces.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The number of words.
    pub fn n_words(&self) -> usize {
        self.n_words
    }

    /// The words in order.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.text.split(' ').filter(|word| !word.is_empty())
    }
}

/// Turns bodies into canonical forms with buffers that it reuses, each as large as the largest body so far needed.
#[derive(Clone, Debug, Default)]
pub struct Canonicaliser {
    rule: CanonicalRule,
    keeps_marks: bool,
    /// Whether `plain` is the whole text of the last body, with its marks.
    is_marked: bool,
    /// Whether `plain` is the text of the last body that counts.
    is_plain: bool,
    plain: MarkedText,
    blocks: ContentBlocks,
    form: CanonicalForm,
}

impl Canonicaliser {
    /// Creates a canonicaliser of a rule.
    pub fn new(rule: &CanonicalRule) -> Self {
        Canonicaliser { rule: *rule, ..Self::default() }
    }

    /// Keeps the marks of HTML for [`Self::take_marked`] where they cost little: where its whole text is read.
    #[must_use]
    pub fn keeping_marks(self) -> Self {
        Canonicaliser { keeps_marks: true, ..self }
    }

    /// The marked text of the last body, once: what [`mark_text`] reads. `None` where it was not kept.
    pub fn take_marked(&mut self) -> Option<&MarkedText> {
        std::mem::take(&mut self.is_marked).then_some(&self.plain)
    }

    /// No longer has a text of the last body for [`Self::take_marked`] and [`Self::append_text`].
    pub fn forget(&mut self) {
        (self.is_marked, self.is_plain) = (false, false);
    }

    /// Appends the [`tidy_text`] of a body: the one that was read last, or any after [`Self::forget`]. Its canonical form is
    /// that of the body.
    ///
    /// # Errors
    /// [`NoText`] if the bytes are not text.
    pub fn append_text(&self, body: &Body, media_type: MediaType, tidy: &mut String) -> Result<(), NoText> {
        if self.is_plain {
            append_tidy(&self.plain.text, tidy);
        } else {
            tidy.push_str(&tidy_text(body, media_type, &self.rule)?);
        }
        Ok(())
    }

    /// Returns the canonical form of a body.
    ///
    /// # Errors
    /// [`NoText`] if the bytes are not text.
    pub fn read(&mut self, body: &Body, media_type: MediaType) -> Result<&CanonicalForm, NoText> {
        self.forget();
        let (text, is_html) = decoded(body, media_type)?;
        self.form.text.clear();
        self.form.n_words = 0;
        match (is_html, self.rule.content) {
            (true, PageContent::All) => {
                self.is_plain = true;
                if self.keeps_marks {
                    self.plain.read_html(&text);
                    self.is_marked = true;
                } else {
                    self.plain.text.clear();
                    append_html_text(&text, &mut self.plain.text);
                }
                self.form.push_text(&self.plain.text);
            }
            (true, PageContent::Main) => {
                self.blocks.read_html(&text);
                self.blocks.content().for_each(|text| self.form.push_text(text));
            }
            (false, _) => self.form.push_text(&text),
        }
        Ok(&self.form)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Nothing of one body appears in the next, although they share buffers.
    #[test]
    fn bodies_share_buffers_but_no_text() {
        let mut canonicaliser = Canonicaliser::default();
        for (body, media_type, words) in [
            ("<p>A rose is a rose", MediaType::Html, "a rose is a rose"),
            ("<p>is", MediaType::Html, "is"),
            ("a <p> rose", MediaType::PlainText, "a p rose"),
            ("", MediaType::Unknown, ""),
        ] {
            let body = Body::Text(body.into());
            let expected = CanonicalForm::from_text(words);
            assert_eq!(canonicaliser.read(&body, media_type), Ok(&expected));
            assert_eq!(CanonicalForm::from_body(&body, media_type), Ok(expected));
        }
    }

    fn html_words(html: &str) -> String {
        CanonicalForm::from_body(&Body::Text(html.into()), MediaType::Html).expect("text").text
    }

    #[test]
    fn html_bodies_become_words() {
        for (html, words) in [
            ("<p>A <b>Rose</b> is</p><p>a&nbsp;rose", "a rose is a rose"),
            ("<title>Un</title>bro<i>ken</i> li<br>ne", "un broken li ne"),
            ("<script>var x = 1 < 2;</script>kept<style>p{}</style>", "kept"),
            ("", ""),
        ] {
            assert_eq!(html_words(html), words, "{html}");
        }
    }

    #[test]
    fn a_body_without_label_is_sniffed() {
        let of =
            |text: &str| CanonicalForm::from_body(&Body::Text(text.into()), MediaType::Unknown).expect("text").text;
        assert_eq!(of("  <!doctype html><p>one</p>two"), "one two");
        assert_eq!(of("1 <b 2"), "1 b 2");
    }

    #[test]
    fn a_pdf_labelled_as_html_is_not_text() {
        let body = Body::Bytes { bytes: b"%PDF-1.4 \xff\xfe\x00".to_vec(), charset: None };
        assert!(CanonicalForm::from_body(&body, MediaType::Html).is_err());
    }

    #[test]
    fn n_words_counts_the_words() {
        let form = CanonicalForm::from_text("Ärger, 東京 2024 — x.y");
        assert_eq!(form.words().collect::<Vec<_>>(), ["ärger", "東", "京", "2024", "x", "y"]);
        assert_eq!(form.n_words(), 6);
    }

    proptest! {
        /// Lost if this fails: a kept text shows other words than those that made its document.
        #[test]
        fn the_words_of_a_tidy_text_are_those_of_its_body(
            html in "([ -~]|[\\n\\t\u{a0}\u{c}äßé東]|<p>|<b>|</b>|<br>|<li>|<nav>|</nav>|&nbsp;|&amp;){0,60}",
            is_html in any::<bool>(),
            is_main in any::<bool>(),
        ) {
            let content = if is_main { PageContent::Main } else { PageContent::All };
            let mut canonicaliser = Canonicaliser::new(&CanonicalRule { content });
            let (body, media_type) = (Body::Text(html), if is_html { MediaType::Html } else { MediaType::Unknown });
            let mut texts = Vec::new();
            let Ok(form) = canonicaliser.read(&body, media_type).cloned() else { return Ok(()) };
            for _ in 0..2 {
                let mut text = String::new();
                canonicaliser.append_text(&body, media_type, &mut text).expect("text");
                texts.push(text);
                canonicaliser.forget();
            }
            prop_assert_eq!(CanonicalForm::from_text(&texts[0]), form);
            prop_assert_eq!(&texts[0], &texts[1], "read again, it is the same");
        }
    }
}
