//! The tokenizer of HTML as far as text depends on it: what is text, where tags begin and end, and their names.
//!
//! WHATWG HTML, section 13.2.5. The standard's states that treat text alike are one function here. What a tag means is
//! not known here but to the [`TokenSink`], which in the standard is the tree builder. Every byte is looked at a bounded
//! number of times, whatever the page.

use super::name::{TagName, is_name_end, is_space};
use super::reference::{self, CharacterReference};
use memchr::{memchr, memchr2, memmem};

/// How the tokenizer reads what follows a start tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentModel {
    /// Markup and character references.
    Data,
    /// Character references, and no markup but the end tag of this name.
    Rcdata(&'static str),
    /// No markup but the end tag of this name.
    Rawtext(&'static str),
    /// Like [`ContentModel::Rawtext`], but that comments in it can hide the end tag. The name is always `script`, but for
    /// tests that begin here.
    Script(&'static str),
    /// No markup until `]]>`.
    Cdata,
    /// No markup to the end of the page.
    Plaintext,
}

/// Who makes something of the tokens.
pub(super) trait TokenSink {
    /// Takes a piece of text, character references decoded and line ends normalised.
    fn text(&mut self, text: &str);

    /// Takes a start tag and says how to read what follows it.
    fn start_tag(&mut self, name: TagName, self_closing: bool) -> ContentModel;

    /// Takes an end tag.
    fn end_tag(&mut self, name: TagName);

    /// What a U+0000 becomes in [`ContentModel::Data`] and [`ContentModel::Cdata`]. Elsewhere it is U+FFFD.
    fn nul(&self) -> &'static str;

    /// Whether the current element is one of SVG or MathML, where `<![CDATA[` begins text and not a comment.
    fn in_foreign_content(&self) -> bool;
}

/// Reads `html` to its end.
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

/// What U+0000 becomes outside of [`ContentModel::Data`].
pub(super) const REPLACEMENT: &str = "\u{fffd}";

/// What a U+0000 becomes in the text at hand.
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
    /// Whether there is a carriage return or a U+0000 anywhere; hardly a page has one, and then text is copied as is.
    has_odd_bytes: bool,
    /// Everything before is done with, but for text that the function at work has yet to emit.
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
            // Decided before anything is emitted, so that a lone `<` is part of the text around it.
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
                // At least the two dashes of `<!--` stand before, so this looks at nothing older than the comment.
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

    /// What the `<` at `at` begins; `None` where it is text.
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
            Some(self_closing) => self.sink.start_tag(name, self_closing),
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

    /// Goes from the end of a tag's name past its `>` and says whether the tag closes itself. `None` where the page ends
    /// before: such a tag is none, and nothing of it is text.
    #[inline]
    fn tag_end(&mut self, name_end: usize) -> Option<bool> {
        if self.bytes.get(name_end) == Some(&b'>') {
            self.at = name_end + 1;
            return Some(false);
        }
        self.attributes(name_end)
    }

    /// [`Self::tag_end`] where there is more than a name. An `=` or a `>` matters only outside of values, a quote only as
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
            // An `=` with no name before it begins one itself.
            if matches!(names.iter().rfind(|b| !is_space(**b)), None | Some(b'/')) {
                names_from = stop;
                at = stop + 1;
            } else {
                names_from = self.attribute_value(stop + 1);
                at = names_from;
            }
        }
    }

    /// Where the value after an `=` ends, its closing quote included. Unclosed quotes hold the rest of the page.
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
            // A doctype ends at the first `>` as well, even in quotes.
            self.bogus_comment(from)
        }
    }

    fn bogus_comment(&mut self, from: usize) -> ContentModel {
        let end = memchr(b'>', &self.bytes[from..]).map_or(self.bytes.len(), |len| from + len + 1);
        self.resume(end)
    }

    /// A comment ends at a `>` after `--` or `--!`, and at one right at its beginning, or after a single dash there.
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

    /// Decodes the reference at `at`, if it is one, and returns from where on text is yet to be emitted.
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

    /// Whether the end tag of `name` begins at the `<` at `at`, and its name is complete.
    fn is_end_tag(&self, at: usize, name: &str) -> bool {
        self.bytes.get(at + 1) == Some(&b'/') && self.is_name_at(at + 2, name)
    }

    fn is_name_at(&self, at: usize, name: &str) -> bool {
        let end = at + name.len();
        self.bytes.get(at..end).is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()))
            && self.bytes.get(end).is_some_and(|b| is_name_end(*b))
    }

    // Of the searches, those that can hit byte after byte look at the next byte before they call memchr, and those that
    // mostly hit soon at the next eight: a call costs as much as a whole vector of bytes without a hit.

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

    /// The next `<`, and inside of a script's comment the next `>` as well.
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

    /// Emits text with U+0000 replaced, and carriage returns, with the line feed after them, as line feeds.
    fn emit_odd(&mut self, mut text: &str, nul: NulReplacement) {
        let nul = match nul {
            NulReplacement::FromSink => self.sink.nul(),
            NulReplacement::ReplacementCharacter => REPLACEMENT,
        };
        while let Some(first) = text.bytes().next() {
            let replacement = match first {
                b'\0' => nul,
                // The line feed after it, if there is one, follows as text.
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

/// How deep in comments a script is. `Single` is after `<!--`: the end tag still ends the script. `Double` is after a
/// `<script` in there: the next end tag belongs to that one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ScriptEscape {
    None,
    Single,
    Double,
}

/// Where one of two bytes stands first, from `from` on.
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

/// The highest bit of each byte that is zero. Borrows may set others, but only above the first.
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
