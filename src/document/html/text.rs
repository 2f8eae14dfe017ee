//! HTML to text: the tokenizer's character tokens without those that a reader never sees.
//!
//! Block-level tags and `<br>` separate words; inline tags do not. One pass, no tree, no recursion. The [`scanner`]
//! finds text and tags; the [`TextExtractor`] decides what is visible.
//!
//! Without a tree some broken pages differ from a browser's view. Text directly inside a table stays in its place,
//! as words of its own, instead of moving before the table. `</body>`, `</html>` and an unmatched `</option>`
//! separate words. Text that a browser copies into `<selectedcontent>` is read once. Text inside and after a
//! `<frameset>`, which browsers hide, is kept: in old archives it is often all that a page says.

use super::element::{Element, ElementRole};
use super::name::TagName;
use super::scanner::{self, ContentModel, REPLACEMENT, TokenSink};
use std::ops::Range;

/// Appends the text of `html` to `out`, with a space for each block-level tag. Character references are decoded.
/// Scripts, styles, comments and attributes are left out; the title stays.
pub fn append_text(html: &str, out: &mut String) {
    scanner::scan(html, ContentModel::Data, TextExtractor::new(out));
}

/// Keeps the text that a reader sees.
pub(super) struct TextExtractor<'o> {
    pub(super) out: &'o mut String,
    /// The open elements that change what tags inside them mean, outermost first: templates, `svg` and `math`, and
    /// inside the latter two the integration points and unseen elements. Nothing else of the tree is kept, so an
    /// end tag closes such an element whatever else is open inside it.
    open: Vec<&'static Element>,
    /// How many of `open` are templates.
    n_templates: usize,
    /// Whether the innermost element is an integration point in which an HTML element has begun.
    has_html: bool,
    /// Whether the current text belongs to an unseen raw element. Only its own end tag can follow.
    is_raw_unseen: bool,
}

impl TokenSink for TextExtractor<'_> {
    fn text(&mut self, text: &str) {
        if !self.is_unseen() {
            self.out.push_str(text);
        }
    }

    fn start_tag(&mut self, name: TagName, self_closing: bool, _tag: Range<usize>) -> ContentModel {
        self.start_element(Element::by_name(name), self_closing)
    }

    fn end_tag(&mut self, name: TagName) {
        self.end_element(Element::by_name(name));
    }

    /// The tree builder drops U+0000, except in foreign content.
    fn nul(&self) -> &'static str {
        if self.is_foreign() { REPLACEMENT } else { "" }
    }

    fn in_foreign_content(&self) -> bool {
        // An integration point is itself foreign, but the elements inside it are not.
        self.innermost_role().is_some_and(|role| match role {
            ElementRole::IntegrationPoint => !self.has_html,
            role => role != ElementRole::Template,
        })
    }
}

impl<'o> TextExtractor<'o> {
    pub(super) fn new(out: &'o mut String) -> Self {
        TextExtractor { out, open: Vec::new(), n_templates: 0, has_html: false, is_raw_unseen: false }
    }

    /// [`TokenSink::start_tag`], where the element is known.
    #[inline]
    pub(super) fn start_element(&mut self, element: &'static Element, self_closing: bool) -> ContentModel {
        self.separate(element);
        if !self.open.is_empty() {
            if element.breaks_out {
                self.break_out();
            }
            if self.is_foreign() {
                return self.start_foreign(element, self_closing);
            }
            self.has_html = true;
        }
        match element.role {
            ElementRole::Template => self.push(element),
            ElementRole::Foreign if !self_closing => self.push(element),
            ElementRole::Unseen => self.is_raw_unseen = true,
            ElementRole::Plain | ElementRole::Foreign | ElementRole::IntegrationPoint => {}
        }
        element.content
    }

    /// [`TokenSink::end_tag`], where the element is known.
    #[inline]
    pub(super) fn end_element(&mut self, element: &'static Element) {
        self.separate(element);
        if std::mem::take(&mut self.is_raw_unseen) || self.open.is_empty() {
            return;
        }
        match element.role {
            ElementRole::Template => self.close_template(),
            ElementRole::Foreign => self.close_foreign(element),
            ElementRole::Unseen | ElementRole::IntegrationPoint => self.close_within_foreign(element),
            ElementRole::Plain => {}
        }
    }

    fn separate(&mut self, element: &Element) {
        if element.separates && !self.out.ends_with(' ') {
            self.out.push(' ');
        }
    }

    pub(super) fn is_unseen(&self) -> bool {
        self.is_raw_unseen || self.n_templates > 0 || self.innermost_role() == Some(ElementRole::Unseen)
    }

    /// Whether the rules of SVG and MathML apply: no element changes how its content is tokenized, and a
    /// self-closing tag has no content.
    pub(super) fn is_foreign(&self) -> bool {
        matches!(self.innermost_role(), Some(ElementRole::Foreign | ElementRole::Unseen))
    }

    fn innermost_role(&self) -> Option<ElementRole> {
        self.open.last().map(|element| element.role)
    }

    fn push(&mut self, element: &'static Element) {
        self.open.push(element);
        self.has_html = false;
        self.n_templates += usize::from(element.role == ElementRole::Template);
    }

    /// Leaves SVG and MathML for the surrounding HTML.
    fn break_out(&mut self) {
        while self.is_foreign() {
            self.open.pop();
        }
    }

    fn start_foreign(&mut self, element: &'static Element, self_closing: bool) -> ContentModel {
        if element.role != ElementRole::Plain && !self_closing && self.innermost_role() != Some(ElementRole::Unseen) {
            self.push(element);
        }
        ContentModel::Data
    }

    fn close_template(&mut self) {
        if self.n_templates == 0 {
            return;
        }
        self.n_templates -= 1;
        while self.open.pop().is_some_and(|element| element.role != ElementRole::Template) {}
        self.has_html = true;
    }

    /// Closes `svg` or `math` together with the one element in it that may still be open.
    fn close_foreign(&mut self, element: &Element) {
        let n_closed = match self.open.as_slice() {
            [.., last] if last.name == element.name => 1,
            [.., foreign, last] if foreign.name == element.name && last.role != ElementRole::Template => 2,
            _ => return,
        };
        self.open.truncate(self.open.len() - n_closed);
        self.has_html = true;
    }

    fn close_within_foreign(&mut self, element: &Element) {
        if self.open.last().is_some_and(|last| last.name == element.name) {
            self.open.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cases: &[(&str, &str)]) {
        for (html, text) in cases {
            let mut out = String::new();
            append_text(html, &mut out);
            assert_eq!(out, *text, "{html}");
        }
    }

    #[test]
    fn text_of_html() {
        check(&[
            ("a<b>b</b>c", "abc"),
            ("a<p>b</p>c", "a b c"),
            ("a<BR/>b", "a b"),
            ("<td>1</td><td>2</td>", " 1 2 "),
            ("x<!-- no -->y", "xy"),
            ("&lt;b&gt; &eacute;&#233;&#xe9; &amp", "<b> ééé &"),
            ("<script>if (a</b) </scr</script>z", "z"),
            ("<style>a>b</style>z", "z"),
            ("<title>a<b></title>z", " a<b> z"),
            ("<textarea><p>a</textarea>z", " <p>a z"),
            ("<template>a<template>b</template>c</template>d", "d"),
            ("<noscript>a<p>b</noscript>c", " c"),
            ("<a title='<p>no</p>'>yes</a>", "yes"),
            ("1 < 2 <3", "1 < 2 <3"),
            ("<unclosed attr='", ""),
            ("<!-- unclosed", ""),
            ("<script>unclosed", ""),
        ]);
    }

    #[test]
    fn tags_end_where_the_standard_says() {
        check(&[
            ("<a b='>'c>d", "d"),
            ("<a b=\"'>\">c", "c"),
            ("<a b = '>' >c", "c"),
            ("<a b=c'>d'>e", "d'>e"),
            ("<a '>b'>c", "b'>c"),
            ("<a =\">b\">c", "b\">c"),
            ("<a/=\">b", "b"),
            ("<a b==\">c", "c"),
            ("<a b=>c", "c"),
            ("<a b='c'd='>'>e", "e"),
            ("</a b='>'>c", "c"),
            ("<a\nb\r=\t'>'\x0c>c", "c"),
            ("<a<b>c", "c"),
            ("a<p", "a"),
            ("a</", "a</"),
            ("a</>b", "ab"),
            ("a</ p>b", "ab"),
            ("a<", "a<"),
            ("<é>", "<é>"),
        ]);
    }

    #[test]
    fn comments_and_their_odd_endings() {
        check(&[
            ("a<!-->b", "ab"),
            ("a<!--->b", "ab"),
            ("a<!---->b", "ab"),
            ("a<!--x--!>b", "ab"),
            ("a<!--x--->b", "ab"),
            ("a<!--!>b-->c", "ac"),
            ("a<!--x->b-->c", "ac"),
            ("a<!--x--!->b-->c", "ac"),
            ("a<!--<!-->b", "ab"),
            ("a<!-x>b", "ab"),
            ("a<!>b", "ab"),
            ("a<?php echo '>' ?>b", "a' ?>b"),
            ("<!DOCTYPE html PUBLIC \"-//x>y\">z", "y\">z"),
            ("a<![CDATA[b>c]]>d", "ac]]>d"),
        ]);
    }

    #[test]
    fn raw_elements_end_at_their_own_end_tag() {
        check(&[
            ("<style><!--</style>a", "a"),
            ("<STYLE>a</Style b='>'>c", "c"),
            ("<style>a</styles>b</style/>c", "c"),
            ("<xmp>&amp;<b></xmp>", " &amp;<b> "),
            ("<title>&amp;</titlex></title>", " &</titlex> "),
            ("<plaintext></plaintext>&amp;", " </plaintext>&amp;"),
            ("<noembed>a</noembed>b", "b"),
            ("<iframe>a</iframe>b", " b"),
            ("<noframes>a</noframes>b", " b"),
        ]);
    }

    #[test]
    fn scripts_in_comments_hide_their_end_tag() {
        check(&[
            ("<script><!--</script>a", "a"),
            ("<script><!--<script></script>b--></script>a", "a"),
            ("<script><!--<script>--></script>a", "a"),
            ("<script><!--<script></script></script>a", "a"),
            ("<script><!--><script></script>a", "a"),
            ("<script><!--<scripts></script>a", "a"),
            ("<script><script></script>a", "a"),
            ("<script><!--<script></script>", ""),
        ]);
    }

    #[test]
    fn foreign_content() {
        check(&[
            ("<svg><![CDATA[a<b>&amp;]]></svg>", "a<b>&amp;"),
            ("<math><![CDATA[a", "a"),
            ("<svg/><![CDATA[a]]>", ""),
            ("<svg><title><![CDATA[a]]></title></svg>", " a "),
            ("<svg><p><![CDATA[a]]>b", " b"),
            ("<svg><foreignObject><![CDATA[a]]><p><![CDATA[b]]></foreignObject><![CDATA[c]]>", "a c"),
            ("<svg><foreignObject><svg><desc><![CDATA[a]]></desc></svg><![CDATA[b]]>", "a"),
            ("<svg><title>a<b>c</b></title></svg>d", " ac d"),
            ("<svg><style>a<!--</style>--></style>b", "b"),
            ("<svg><style>a&lt;</style>b", "b"),
            ("<svg><style/>a<script/>b</svg>c", "abc"),
            ("<svg><style>a</svg>b", "b"),
            ("<svg><style>a<p>b", " b"),
            ("<svg><foreignObject><style><p></style>a</foreignObject><style>b</style></svg>c", "ac"),
            ("<svg><template>a</svg>b</template>c</svg>d", "cd"),
            ("<template><svg>a</template>b<![CDATA[c]]>", "b"),
            ("a</template></svg></title>b", "a b"),
        ]);
    }

    #[test]
    fn nul_is_text_only_in_raw_text_and_foreign_content() {
        check(&[
            ("a\0b", "ab"),
            ("<title>a\0b", " a\u{fffd}b"),
            ("<a\0>b", "b"),
            ("<svg>a\0b<desc>a\0b</svg>a\0b", "a\u{fffd}babab"),
            ("<math><![CDATA[a\0b]]>", "a\u{fffd}b"),
        ]);
    }

    #[test]
    fn line_ends_are_line_feeds() {
        check(&[("a\r\nb\rc\nd", "a\nb\nc\nd"), ("a\r", "a\n"), ("a&#13;\n", "a\r\n")]);
    }
}
