//! The part of the HTML tokenizer that text depends on: what is text, where tags begin and end, and their names.
//!
//! WHATWG HTML, section 13.2.5. States of the standard that treat text alike are one function here. Only the
//! [`TokenSink`], the standard's tree builder, knows what a tag means. Each byte is examined a bounded number of
//! times, whatever the page.

use super::name::{TagName, is_name_end, is_space};
use super::reference::{self, CharacterReference};
use memchr::{memchr, memchr2, memmem};
use std::ops::Range;

/// How to tokenize what follows a start tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentModel {
    /// Markup and character references.
    Data,
    /// Character references, and no markup but the end tag with this name.
    Rcdata(&'static str),
    /// No markup but the end tag with this name.
    Rawtext(&'static str),
    /// As [`ContentModel::Rawtext`], but comments in it can hide the end tag. The name is always `script`, except
    /// in tests that begin here.
    Script(&'static str),
    /// No markup until `]]>`.
    Cdata,
    /// No markup until the end of the page.
    Plaintext,
}

/// Receives the tokens.
pub(super) trait TokenSink {
    /// Receives a piece of text with character references decoded and line ends normalised.
    fn text(&mut self, text: &str);

    /// Receives a start tag and returns how to read what follows it. `tag` is the place of the tag on the page, from the
    /// first letter of its name to its end.
    fn start_tag(&mut self, name: TagName, self_closing: bool, tag: Range<usize>) -> ContentModel;

    /// Receives an end tag.
    fn end_tag(&mut self, name: TagName);

    /// The replacement for U+0000 in [`ContentModel::Data`] and [`ContentModel::Cdata`]. Elsewhere it is U+FFFD.
    fn nul(&self) -> &'static str;

    /// Whether the current element belongs to SVG or MathML, where `<![CDATA[` begins text and not a comment.
    fn in_foreign_content(&self) -> bool;
}

/// Tokenizes all of `html`.
pub(super) fn scan<S: TokenSink>(html: &str, mut content: ContentModel, sink: S) {
    let bytes = html.as_bytes();
    let has_odd_bytes = memchr2(b'\r', b'\0', bytes).is_some();
    let mut scanner = Scanner { html, bytes, has_odd_bytes, at: 0, sink };
    while scanner.at < bytes.len() {
        content = match content {
            ContentModel::Data => scanner.data(),
            ContentModel::Rcdata(name) => scanner.rcdata(name),
            ContentModel::Rawtext(name) => scanner.rawtext(name),
            ContentModel::Script(name) => scanner.script(name),
            ContentModel::Cdata => scanner.cdata(),
            ContentModel::Plaintext => scanner.plaintext(),
        };
    }
}

/// The replacement for U+0000 outside of [`ContentModel::Data`].
pub(super) const REPLACEMENT: &str = "\u{fffd}";

/// The replacement for U+0000 in the current text.
#[derive(Clone, Copy)]
enum NulReplacement {
    /// [`TokenSink::nul`]
    FromSink,
    /// [`REPLACEMENT`]
    ReplacementCharacter,
}

struct Scanner<'h, S> {
    html: &'h str,
    bytes: &'h [u8],
    /// Whether the page contains a carriage return or a U+0000. Hardly any does; text is then copied unchanged.
    has_odd_bytes: bool,
    /// The scanner has processed everything before, except text that the current function has yet to emit.
    at: usize,
    sink: S,
}

impl<S: TokenSink> Scanner<'_, S> {
    fn data(&mut self) -> ContentModel {
        let mut text_from = self.at;
        while let Some(at) = self.find_markup_or_reference() {
            if self.bytes[at] == b'&' {
                text_from = self.reference(text_from, at, NulReplacement::FromSink);
                continue;
            }
            // Decided before anything is emitted, so that a lone `<` stays part of the text around it.
            let Some(markup) = self.markup(at) else {
                self.at = at + 1;
                continue;
            };
            self.emit(text_from, at, NulReplacement::FromSink);
            let content = match markup {
                Markup::StartTag => self.start_tag(at + 1),
                Markup::EndTag => self.end_tag(at + 2),
                Markup::NamelessEndTag => self.resume(at + 3),
                Markup::Declaration => self.declaration(at + 2),
                Markup::BogusComment => self.bogus_comment(at + 2),
            };
            if content != ContentModel::Data {
                return content;
            }
            text_from = self.at;
        }
        self.rest_is_text(text_from, NulReplacement::FromSink)
    }

    fn rcdata(&mut self, name: &'static str) -> ContentModel {
        let mut text_from = self.at;
        while let Some(at) = self.find_markup_or_reference() {
            if self.bytes[at] == b'&' {
                text_from = self.reference(text_from, at, NulReplacement::ReplacementCharacter);
            } else if self.is_end_tag(at, name) {
                self.emit(text_from, at, NulReplacement::ReplacementCharacter);
                return self.end_tag(at + 2);
            } else {
                self.at = at + 1;
            }
        }
        self.rest_is_text(text_from, NulReplacement::ReplacementCharacter)
    }

    fn rawtext(&mut self, name: &'static str) -> ContentModel {
        let text_from = self.at;
        while let Some(at) = self.find(b'<') {
            if self.is_end_tag(at, name) {
                self.emit(text_from, at, NulReplacement::ReplacementCharacter);
                return self.end_tag(at + 2);
            }
            self.at = at + 1;
        }
        self.rest_is_text(text_from, NulReplacement::ReplacementCharacter)
    }

    fn script(&mut self, name: &'static str) -> ContentModel {
        let text_from = self.at;
        let mut escape = ScriptEscape::None;
        while let Some(at) = self.find_in_script(escape) {
            self.at = at + 1;
            if self.bytes[at] == b'>' {
                // At least the two dashes of `<!--` precede, so this never looks at bytes before the comment.
                if self.bytes[..at].ends_with(b"--") {
                    escape = ScriptEscape::None;
                }
            } else if self.is_end_tag(at, name) {
                if escape != ScriptEscape::Double {
                    self.emit(text_from, at, NulReplacement::ReplacementCharacter);
                    return self.end_tag(at + 2);
                }
                escape = ScriptEscape::Single;
            } else if escape == ScriptEscape::None && self.bytes[at..].starts_with(b"<!--") {
                escape = ScriptEscape::Single;
                self.at = at + 4;
            } else if escape == ScriptEscape::Single && self.is_name_at(at + 1, "script") {
                escape = ScriptEscape::Double;
            }
        }
        self.rest_is_text(text_from, NulReplacement::ReplacementCharacter)
    }

    fn cdata(&mut self) -> ContentModel {
        let text_from = self.at;
        let Some(len) = memmem::find(&self.bytes[text_from..], b"]]>") else {
            return self.rest_is_text(text_from, NulReplacement::FromSink);
        };
        self.emit(text_from, text_from + len, NulReplacement::FromSink);
        self.resume(text_from + len + 3)
    }

    fn plaintext(&mut self) -> ContentModel {
        self.rest_is_text(self.at, NulReplacement::ReplacementCharacter)
    }

    /// What the `<` at `at` begins; `None` if it is text.
    fn markup(&self, at: usize) -> Option<Markup> {
        match self.bytes.get(at + 1)? {
            b'/' => match self.bytes.get(at + 2)? {
                b'>' => Some(Markup::NamelessEndTag),
                b if b.is_ascii_alphabetic() => Some(Markup::EndTag),
                _ => Some(Markup::BogusComment),
            },
            b'!' => Some(Markup::Declaration),
            b'?' => Some(Markup::BogusComment),
            b if b.is_ascii_alphabetic() => Some(Markup::StartTag),
            _ => None,
        }
    }

    fn start_tag(&mut self, name_at: usize) -> ContentModel {
        let (name, len) = TagName::read(&self.bytes[name_at..]);
        match self.tag_end(name_at + len) {
            Some(self_closing) => self.sink.start_tag(name, self_closing, name_at..self.at),
            None => ContentModel::Data,
        }
    }

    fn end_tag(&mut self, name_at: usize) -> ContentModel {
        let (name, len) = TagName::read(&self.bytes[name_at..]);
        if self.tag_end(name_at + len).is_some() {
            self.sink.end_tag(name);
        }
        ContentModel::Data
    }

    /// Moves from the end of a tag's name past its `>` and returns whether the tag is self-closing. Returns `None`
    /// if the page ends first; then there is neither tag nor text.
    #[inline]
    fn tag_end(&mut self, name_end: usize) -> Option<bool> {
        if self.bytes.get(name_end) == Some(&b'>') {
            self.at = name_end + 1;
            return Some(false);
        }
        self.attributes(name_end)
    }

    /// [`Self::tag_end`] for tags with more than a name. `=` and `>` count only outside of values, a quote only as
    /// the first character of one.
    fn attributes(&mut self, name_end: usize) -> Option<bool> {
        let mut names_from = name_end;
        let mut at = name_end;
        loop {
            let Some(stop) = self.find_equals_or_tag_end(at) else {
                self.at = self.bytes.len();
                return None;
            };
            let names = &self.bytes[names_from..stop];
            if self.bytes[stop] == b'>' {
                self.at = stop + 1;
                return Some(names.last() == Some(&b'/'));
            }
            // An `=` without a name before it begins a name itself.
            if matches!(names.iter().rfind(|b| !is_space(**b)), None | Some(b'/')) {
                names_from = stop;
                at = stop + 1;
            } else {
                names_from = self.attribute_value(stop + 1);
                at = names_from;
            }
        }
    }

    /// Returns the end of the value after an `=`, including its closing quote. An unclosed quote extends to the end
    /// of the page.
    fn attribute_value(&self, after_equals: usize) -> usize {
        let Some(from) = position(self.bytes, after_equals, |b| !is_space(b)) else {
            return self.bytes.len();
        };
        match self.bytes[from] {
            quote @ (b'"' | b'\'') if self.bytes.get(from + 1) == Some(&quote) => from + 2,
            quote @ (b'"' | b'\'') => {
                memchr(quote, &self.bytes[from + 1..]).map_or(self.bytes.len(), |len| from + 1 + len + 1)
            }
            _ => position(self.bytes, from, |b| b == b'>' || is_space(b)).unwrap_or(self.bytes.len()),
        }
    }

    fn declaration(&mut self, from: usize) -> ContentModel {
        let rest = &self.bytes[from..];
        if rest.starts_with(b"--") {
            self.comment(from + 2)
        } else if rest.starts_with(b"[CDATA[") && self.sink.in_foreign_content() {
            self.at = from + 7;
            ContentModel::Cdata
        } else {
            // A doctype also ends at the first `>`, even in quotes.
            self.bogus_comment(from)
        }
    }

    fn bogus_comment(&mut self, from: usize) -> ContentModel {
        let end = memchr(b'>', &self.bytes[from..]).map_or(self.bytes.len(), |len| from + len + 1);
        self.resume(end)
    }

    /// A comment ends at a `>` after `--` or `--!`, at its very beginning, or after a single dash there.
    fn comment(&mut self, from: usize) -> ContentModel {
        self.at = from;
        while let Some(at) = self.find(b'>') {
            self.at = at + 1;
            let comment = &self.bytes[from..at];
            if comment.ends_with(b"--") || comment.ends_with(b"--!") || matches!(comment, b"" | b"-") {
                return ContentModel::Data;
            }
        }
        self.resume(self.bytes.len())
    }

    /// Decodes the reference at `at`, if it is one. Returns the offset from which text is yet to be emitted.
    fn reference(&mut self, text_from: usize, at: usize, nul: NulReplacement) -> usize {
        self.at = at + 1;
        if !self.bytes.get(self.at).is_some_and(|b| reference::can_begin_with(*b)) {
            return text_from;
        }
        let Some((decoded, len)) = reference::decode(&self.bytes[self.at..]) else {
            return text_from;
        };
        self.emit(text_from, at, nul);
        match decoded {
            CharacterReference::Named(text) => self.sink.text(text),
            CharacterReference::Numeric(c) => self.sink.text(c.encode_utf8(&mut [0; 4])),
        }
        self.at += len;
        self.at
    }

    /// Whether the end tag of `name` begins at the `<` at `at` and its name is complete.
    fn is_end_tag(&self, at: usize, name: &str) -> bool {
        self.bytes.get(at + 1) == Some(&b'/') && self.is_name_at(at + 2, name)
    }

    fn is_name_at(&self, at: usize, name: &str) -> bool {
        let end = at + name.len();
        self.bytes.get(at..end).is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()))
            && self.bytes.get(end).is_some_and(|b| is_name_end(*b))
    }

    // A memchr call costs as much as scanning a whole vector without a hit. Searches that may hit at every byte
    // check the next byte first; searches that usually hit soon check the next eight.

    fn find_markup_or_reference(&self) -> Option<usize> {
        match self.bytes.get(self.at)? {
            b'<' | b'&' => Some(self.at),
            _ => either(b'<', b'&', self.bytes, self.at),
        }
    }

    fn find(&self, byte: u8) -> Option<usize> {
        match self.bytes.get(self.at)? {
            first if *first == byte => Some(self.at),
            _ => either(byte, byte, self.bytes, self.at),
        }
    }

    /// The next `<`; inside a script's comment also the next `>`.
    fn find_in_script(&self, escape: ScriptEscape) -> Option<usize> {
        if escape == ScriptEscape::None {
            return self.find(b'<');
        }
        match self.bytes.get(self.at)? {
            b'<' | b'>' => Some(self.at),
            _ => memchr2(b'<', b'>', &self.bytes[self.at..]).map(|len| self.at + len),
        }
    }

    fn find_equals_or_tag_end(&self, from: usize) -> Option<usize> {
        match self.bytes.get(from)? {
            b'>' => Some(from),
            _ => either(b'=', b'>', self.bytes, from),
        }
    }

    fn resume(&mut self, at: usize) -> ContentModel {
        self.at = at;
        ContentModel::Data
    }

    fn rest_is_text(&mut self, from: usize, nul: NulReplacement) -> ContentModel {
        self.emit(from, self.bytes.len(), nul);
        self.resume(self.bytes.len())
    }

    #[inline]
    fn emit(&mut self, from: usize, to: usize, nul: NulReplacement) {
        // Tags often follow one another.
        if from != to {
            self.emit_some(from, to, nul);
        }
    }

    fn emit_some(&mut self, from: usize, to: usize, nul: NulReplacement) {
        let text = &self.html[from..to];
        if self.has_odd_bytes {
            self.emit_odd(text, nul);
        } else {
            self.sink.text(text);
        }
    }

    /// Emits text with U+0000 replaced, and CR and CR LF as LF.
    fn emit_odd(&mut self, mut text: &str, nul: NulReplacement) {
        let nul = match nul {
            NulReplacement::FromSink => self.sink.nul(),
            NulReplacement::ReplacementCharacter => REPLACEMENT,
        };
        while let Some(first) = text.bytes().next() {
            let replacement = match first {
                b'\0' => nul,
                // The line feed that follows is emitted as text.
                b'\r' if text.as_bytes().get(1) == Some(&b'\n') => "",
                b'\r' => "\n",
                _ => {
                    let len = memchr2(b'\r', b'\0', text.as_bytes()).unwrap_or(text.len());
                    self.sink.text(&text[..len]);
                    text = &text[len..];
                    continue;
                }
            };
            self.sink.text(replacement);
            text = &text[1..];
        }
    }
}

/// What a `<` in [`ContentModel::Data`] can begin.
enum Markup {
    StartTag,
    EndTag,
    NamelessEndTag,
    Declaration,
    BogusComment,
}

/// How deep in comments a script is. After `<!--` it is `Single`: the end tag still ends the script. After a
/// `<script` in there it is `Double`: the next end tag belongs to that one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ScriptEscape {
    None,
    Single,
    Double,
}

/// The first of two bytes at or after `from`.
#[inline]
fn either(one: u8, other: u8, bytes: &[u8], from: usize) -> Option<usize> {
    let rest = &bytes[from..];
    let Some(soon) = rest.first_chunk() else {
        return memchr2(one, other, rest).map(|len| from + len);
    };
    let soon = u64::from_le_bytes(*soon);
    let hits = zeros(soon ^ (ONES * u64::from(one))) | zeros(soon ^ (ONES * u64::from(other)));
    if hits != 0 {
        return Some(from + hits.trailing_zeros() as usize / 8);
    }
    memchr2(one, other, &rest[8..]).map(|len| from + 8 + len)
}

/// The lowest bit of each of eight bytes.
const ONES: u64 = u64::from_le_bytes([1; 8]);

/// The highest bit of each zero byte. Borrows may set others, but only above the first.
#[inline]
fn zeros(bytes: u64) -> u64 {
    bytes.wrapping_sub(ONES) & !bytes & (ONES << 7)
}

fn position(bytes: &[u8], from: usize, is_it: impl Fn(u8) -> bool) -> Option<usize> {
    bytes.get(from..)?.iter().position(|b| is_it(*b)).map(|len| from + len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_of_either(bytes in proptest::collection::vec(0x3au8..0x40, 0..40), from in 0usize..40) {
            let from = from.min(bytes.len());
            let expected = (from..bytes.len()).find(|at| b"=>".contains(&bytes[*at]));
            prop_assert_eq!(either(b'=', b'>', &bytes, from), expected);
            let blank: Vec<u8> = bytes.iter().map(|b| if *b == b'<' { 0xbd } else { *b }).collect();
            prop_assert_eq!(either(b'=', b'>', &blank, from), expected);
        }
    }
}
