//! The text of HTML with what its markup says about it: where links begin and end, titles, the texts of images.
//!
//! A second [`TokenSink`] around the one that extracts text, so that readers who want the text alone pay for nothing
//! else.

use super::name::TagName;
use super::reference::{self, CharacterReference};
use super::scanner::{self, ContentModel, TokenSink};
use super::text::TextExtractor;
use crate::document::tag::Tag;
use memchr::memchr;
use std::borrow::Cow;
use std::ops::Range;

/// A text with marks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MarkedText {
    /// The text, as [`append_text`](super::append_text) extracts it.
    pub text: String,
    /// The marks in the order of the text.
    pub marks: Vec<Mark>,
    /// The page's `<base href>`.
    pub base: Option<String>,
}

/// Something that the markup says at a place of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Bytes of the text before it.
    pub at: usize,
    /// What it says.
    pub kind: MarkKind,
}

/// What the markup says. Links do not overlap: a link ends where the next one begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkKind {
    /// The text of a link begins. This is its `href`, which may be relative.
    LinkBegins(String),
    /// The text of a link ends.
    LinkEnds,
    /// The page's title begins.
    TitleBegins,
    /// The page's title ends.
    TitleEnds,
    /// An image has this text in its stead, which is not part of the text.
    Alt(String),
}

impl MarkedText {
    /// Becomes the text and the marks of `html`.
    pub fn read_html(&mut self, html: &str) {
        self.clear();
        let Self { text, marks, base } = self;
        let text = TextExtractor::new(text);
        let mut extractor = MarkExtractor { html, text, marks, base, is_in_link: false, is_in_title: false };
        scanner::scan(html, ContentModel::Data, &mut extractor);
        extractor.end_link();
        extractor.end_title();
    }

    /// Becomes a text without marks.
    pub fn read_text(&mut self, text: &str) {
        self.clear();
        self.text.push_str(text);
    }

    fn clear(&mut self) {
        self.text.clear();
        self.marks.clear();
        self.base = None;
    }
}

const A: TagName = TagName::from_bytes(b"a");
const AREA: TagName = TagName::from_bytes(b"area");
const BASE: TagName = TagName::from_bytes(b"base");
const IMG: TagName = TagName::from_bytes(b"img");
const TITLE: TagName = TagName::from_bytes(b"title");

/// Extracts text and notes marks.
struct MarkExtractor<'h, 'o> {
    html: &'h str,
    text: TextExtractor<'o>,
    marks: &'o mut Vec<Mark>,
    base: &'o mut Option<String>,
    is_in_link: bool,
    is_in_title: bool,
}

impl TokenSink for &mut MarkExtractor<'_, '_> {
    fn text(&mut self, text: &str) {
        self.text.text(text);
    }

    fn start_tag(&mut self, name: TagName, self_closing: bool, tag: Range<usize>) -> ContentModel {
        let is_foreign = self.text.is_foreign();
        let content = self.text.start_tag(name, self_closing, tag.clone());
        if [A, AREA, BASE, IMG, TITLE].contains(&name) && !self.text.is_unseen() {
            self.mark_start(name, &self.html[tag], is_foreign);
        }
        content
    }

    fn end_tag(&mut self, name: TagName) {
        match name {
            A => self.end_link(),
            TITLE => self.end_title(),
            _ => {}
        }
        self.text.end_tag(name);
    }

    fn nul(&self) -> &'static str {
        self.text.nul()
    }

    fn in_foreign_content(&self) -> bool {
        self.text.in_foreign_content()
    }
}

impl MarkExtractor<'_, '_> {
    fn mark_start(&mut self, name: TagName, tag: &str, is_foreign: bool) {
        match name {
            A => {
                self.end_link();
                self.begin_link(attribute(tag, "href"));
            }
            AREA => {
                self.end_link();
                self.begin_link(attribute(tag, "href"));
                self.mark_alt(tag);
                self.end_link();
            }
            IMG => self.mark_alt(tag),
            BASE if self.base.is_none() => *self.base = attribute(tag, "href").map(Cow::into_owned),
            // Drawings have titles of their own.
            TITLE if !is_foreign => {
                self.is_in_title = true;
                self.mark(MarkKind::TitleBegins);
            }
            _ => {}
        }
    }

    fn begin_link(&mut self, href: Option<Cow<'_, str>>) {
        if let Some(href) = href {
            self.is_in_link = true;
            self.mark(MarkKind::LinkBegins(href.into_owned()));
        }
    }

    fn end_link(&mut self) {
        if std::mem::take(&mut self.is_in_link) {
            self.mark(MarkKind::LinkEnds);
        }
    }

    fn end_title(&mut self) {
        if std::mem::take(&mut self.is_in_title) {
            self.mark(MarkKind::TitleEnds);
        }
    }

    fn mark_alt(&mut self, tag: &str) {
        if let Some(alt) = attribute(tag, "alt").filter(|alt| !alt.is_empty()) {
            self.mark(MarkKind::Alt(alt.into_owned()));
        }
    }

    fn mark(&mut self, kind: MarkKind) {
        self.marks.push(Mark { at: self.text.out.len(), kind });
    }
}

/// The value of a tag's first attribute of this name, decoded.
fn attribute<'t>(tag: &'t str, name: &str) -> Option<Cow<'t, str>> {
    let value = Tag::read(tag.as_bytes()).attribute(name)?;
    std::str::from_utf8(value).ok().map(decoded)
}

/// An attribute's value with its character references decoded. A named one without a semicolon is left as it is before
/// `=`, a letter or a digit, where it usually is part of a query (WHATWG HTML, section 13.2.5.73).
fn decoded(value: &str) -> Cow<'_, str> {
    if memchr(b'&', value.as_bytes()).is_none() {
        return Cow::Borrowed(value);
    }
    let mut out = String::with_capacity(value.len());
    let mut pieces = value.split('&');
    out.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let bytes = piece.as_bytes();
        let begins = bytes.first().is_some_and(|first| reference::can_begin_with(*first));
        let decoded = if begins { reference::decode(bytes) } else { None };
        let len = match decoded {
            Some((CharacterReference::Named(text), len)) if bytes[len - 1] == b';' || !continues(bytes.get(len)) => {
                out.push_str(text);
                len
            }
            Some((CharacterReference::Numeric(c), len)) => {
                out.push(c);
                len
            }
            _ => {
                out.push('&');
                0
            }
        };
        out.push_str(&piece[len..]);
    }
    Cow::Owned(out)
}

fn continues(next: Option<&u8>) -> bool {
    next.is_some_and(|next| *next == b'=' || next.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The text with each mark in brackets at its place.
    fn marked(html: &str) -> String {
        let mut marked = MarkedText::default();
        marked.read_html(html);
        let mut out = String::new();
        let mut from = 0;
        for Mark { at, kind } in &marked.marks {
            out += &marked.text[from..*at];
            from = *at;
            out += &match kind {
                MarkKind::LinkBegins(href) => format!("[{href}:"),
                MarkKind::LinkEnds => "]".into(),
                MarkKind::TitleBegins => "{".into(),
                MarkKind::TitleEnds => "}".into(),
                MarkKind::Alt(alt) => format!("({alt})"),
            };
        }
        out + &marked.text[from..]
    }

    #[test]
    fn links_titles_and_images() {
        for (html, expected) in [
            ("<title>A&amp;B</title><p>see <a href=/b>the b</a> now", " {A&B} see [/b:the b] now"),
            ("<a href='/a'>a<a href=\"/b\">b", "[/a:a][/b:b]"),
            ("<a name=x>a</a><a href=>b</a>", "a[:b]"),
            ("<A CLASS=x HREF = /a&amp;b&lt=1&copy2&#47;c>x</A>", "[/a&b&lt=1&copy2/c:x]"),
            ("<img alt='a &quot;rose&quot;' src=x><img alt=''><img>x", "(a \"rose\")x"),
            ("<a href=/a><img alt=home></a>", "[/a:(home)]"),
            ("<map><area href=/a alt='the north'></map>", "[/a:(the north)]"),
            ("<script>'<a href=/a>'</script><template><a href=/a>x</a></template><!-- <a href=/a> -->", ""),
            ("<svg><title>no</title><a href=/a>x</a></svg>", " no [/a:x]"),
            ("<title>a", " {a}"),
            ("<a title='>' href=/a", ""),
        ] {
            assert_eq!(marked(html), expected, "{html}");
        }
    }

    #[test]
    fn the_first_base_counts() {
        let mut text = MarkedText::default();
        text.read_html("<base target=_top><base href='/a/'><base href='/b/'>");
        assert_eq!(text.base.as_deref(), Some("/a/"));
        text.read_text("<base href='/a/'>");
        assert_eq!((text.base, text.text.as_str()), (None, "<base href='/a/'>"));
    }

    proptest! {
        /// Whoever wants the marks reads the same text as everybody else, and each mark lies between two characters of it.
        #[test]
        fn the_text_is_the_same(html in "(<|>|</|a|<a |href=|'|\"|title|<title>|</title>|<svg>|</svg>|<template>|<img alt=|&amp;|ä| ){0,40}") {
            let (mut plain, mut marked) = (String::new(), MarkedText::default());
            super::super::append_text(&html, &mut plain);
            marked.read_html(&html);
            prop_assert_eq!(&marked.text, &plain);
            prop_assert!(marked.marks.is_sorted_by_key(|mark| mark.at));
            prop_assert!(marked.marks.iter().all(|mark| plain.is_char_boundary(mark.at)));
        }
    }
}
