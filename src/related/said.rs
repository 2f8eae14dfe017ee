//! What a page says, as a store keeps it: one row a document.

use super::fragment::{FragmentReader, PageText, Passage};
use super::rule::RelatedRule;
use super::sampling::{FragmentKey, FragmentKeys};
use crate::codec::{
    decode_array, decode_string, decode_string_after, decode_varint, encode_bytes, encode_string_after, encode_varint,
};
use crate::document::{Content, Fingerprint, MarkedText, Page, Seed, mark_text, url_key};
use std::borrow::Cow;

/// Redirects that are followed from a link to the URL that it is about, at most. What leads farther, or in a circle, is about
/// no URL.
pub const REDIRECTS_MAX: usize = 5;

/// A URL as related pages know it: the first 64 bits of its fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target(pub u64);

impl Target {
    /// The target of a URL.
    pub fn of(seed: &Seed, url: &str) -> Self {
        Target::of_key(url_key(seed, url))
    }

    /// The target of a URL with this fingerprint.
    pub fn of_key(key: Fingerprint) -> Self {
        Target((key.0 >> 64) as u64)
    }
}

/// What a page says: its words, where it speaks of URLs, and what tells these passages apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    page: PageText,
    /// The host in all keys.
    host: u32,
    /// What each passage says, in the keys.
    keys: Vec<u64>,
}

impl Said {
    /// The page's own words, each as often as it occurs.
    pub fn content(&self) -> impl Iterator<Item = &str> {
        self.page.content()
    }

    /// The number of fragments.
    pub fn n_fragments(&self) -> usize {
        self.keys.len()
    }

    /// What the page says about URLs, in the order of the page.
    pub fn fragments(&self) -> impl Iterator<Item = (&Passage, FragmentKey)> {
        let key = |said: &u64| FragmentKey { host: self.host, said: *said };
        self.page.passages.iter().zip(self.keys.iter().map(key))
    }

    /// The words of a passage, joined by single spaces.
    pub fn words(&self, passage: &Passage) -> Cow<'_, str> {
        self.page.words(passage)
    }

    /// Appends the row: text, title, host (4); varint n, n passages: URL, varint begin in the text, varint 2 * length + 1
    /// where the title follows, said (8). Texts follow their lengths (varints); a URL is written as what it shares with the
    /// one before it, and the rest. Numbers are little-endian.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode_bytes(self.page.text.as_bytes(), out);
        encode_bytes(self.page.title.as_bytes(), out);
        out.extend(self.host.to_le_bytes());
        encode_varint(self.keys.len() as u64, out);
        let mut before = "";
        for (Passage { target, text, with_title }, said) in self.page.passages.iter().zip(&self.keys) {
            encode_string_after(target, before, out);
            before = target;
            encode_varint(text.start as u64, out);
            encode_varint(2 * text.len() as u64 + u64::from(*with_title), out);
            out.extend(said.to_le_bytes());
        }
    }

    /// Reads what [`Self::encode`] appended; `None` where the bytes are no such row.
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let bytes = &mut bytes;
        let page = PageText { text: decode_string(bytes)?, title: decode_string(bytes)?, passages: Vec::new() };
        let mut said = Said { page, host: u32::from_le_bytes(decode_array(bytes)?), keys: Vec::new() };
        for _ in 0..decode_varint(bytes)? {
            let before = said.page.passages.last().map_or("", |passage| &passage.target);
            let target = decode_string_after(before, bytes)?;
            let begin = usize::try_from(decode_varint(bytes)?).ok()?;
            let length = decode_varint(bytes)?;
            let range = begin..begin.checked_add(usize::try_from(length / 2).ok()?)?;
            said.page.text.get(range.clone())?;
            said.page.passages.push(Passage { target, text: range, with_title: length % 2 == 1 });
            said.keys.push(u64::from_le_bytes(decode_array(bytes)?));
        }
        bytes.is_empty().then_some(said)
    }
}

/// Reads what pages say under one rule and one secret.
#[derive(Clone, Debug)]
pub struct SaidReader {
    rule: RelatedRule,
    seed: Seed,
    reader: FragmentReader,
    text: MarkedText,
}

impl SaidReader {
    /// Creates a reader.
    pub fn new(rule: &RelatedRule, seed: &Seed) -> Self {
        SaidReader { rule: rule.clone(), seed: *seed, reader: FragmentReader::new(rule), text: MarkedText::default() }
    }

    /// What a page says; `None` where nothing stands there, or no text.
    pub fn read(&mut self, page: &Page) -> Option<Said> {
        self.read_marked(page, None)
    }

    /// [`Self::read`], where the page's marked text may have been read before.
    pub fn read_marked(&mut self, page: &Page, marked: Option<&MarkedText>) -> Option<Said> {
        let Content::Body { media_type, body } = &page.content else { return None };
        let marked = match marked {
            Some(marked) => marked,
            None => {
                mark_text(body, *media_type, &mut self.text).ok()?;
                &self.text
            }
        };
        let text = self.reader.read(&page.url, marked);
        let keys = FragmentKeys::new(&page.url, &self.rule, &self.seed);
        let said = |(place, passage): (usize, &Passage)| keys.key(place, &text.words(passage)).said;
        let said = text.passages.iter().enumerate().map(said).collect();
        Some(Said { page: text, host: keys.host(), keys: said })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Body, FetchTime, MediaType};

    #[test]
    fn a_row_is_read_as_it_was_written_and_no_other_bytes_are() {
        let body = Body::Text("<title>Roses</title>red <a href=b>roses of Athens</a> and <a href=/c>thorns</a>".into());
        let content = Content::Body { media_type: MediaType::Html, body };
        let mut page = Page { url: "http://a/".into(), fetched_at: FetchTime(0), sweep: None, content };
        let mut reader = SaidReader::new(&RelatedRule::default(), &Seed([1, 2, 3, 4]));
        let said = reader.read(&page).expect("text");
        assert_eq!(
            said.fragments().map(|(passage, _)| passage.target.as_str()).collect::<Vec<_>>(),
            ["http://a/", "http://a/b", "http://a/c"]
        );
        let mut row = Vec::new();
        said.encode(&mut row);
        assert_eq!(Said::decode(&row).as_ref(), Some(&said));
        for n in 0..row.len() {
            assert_eq!(Said::decode(&row[..n]), None, "{n}");
        }
        row.push(0);
        assert_eq!(Said::decode(&row), None);
        page.content = Content::Gone;
        assert_eq!(reader.read(&page), None);
    }
}
