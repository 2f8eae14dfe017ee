//! What a page says, as a store keeps it: one row a document.

use super::fragment::{FragmentReader, PageWords, WordCounts};
use super::rule::RelatedRule;
use super::sampling::FragmentKey;
use crate::codec::{decode_array, decode_bytes, decode_varint, encode_bytes, encode_varint};
use crate::document::{Content, MarkedText, Page, Seed, mark_text, url_key};

/// A URL as related pages know it: the first 64 bits of its fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target(pub u64);

impl Target {
    /// The target of a URL.
    pub fn of(seed: &Seed, url: &str) -> Self {
        Target((url_key(seed, url).0 >> 64) as u64)
    }
}

/// What a page says about a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaidFragment {
    /// The URL.
    pub url: String,
    /// What tells the fragment apart from others about the URL.
    pub key: FragmentKey,
    /// The words, joined by single spaces.
    pub words: String,
}

/// What a page says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Its own words.
    pub content: WordCounts,
    /// What it says about URLs, in the order of the page.
    pub fragments: Vec<SaidFragment>,
}

impl Said {
    /// Appends the row: varint n, n words with their counts (varints); varint n, n fragments: URL, host (4), said (8),
    /// words. Texts follow their lengths (varints), numbers are little-endian.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode_varint(self.content.len() as u64, out);
        for (word, n) in &self.content {
            encode_bytes(word.as_bytes(), out);
            encode_varint(u64::from(*n), out);
        }
        encode_varint(self.fragments.len() as u64, out);
        for SaidFragment { url, key, words } in &self.fragments {
            encode_bytes(url.as_bytes(), out);
            out.extend(key.host.to_le_bytes());
            out.extend(key.said.to_le_bytes());
            encode_bytes(words.as_bytes(), out);
        }
    }

    /// Reads what [`Self::encode`] appended; `None` where the bytes are no such row.
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let bytes = &mut bytes;
        let mut said = Said::default();
        for _ in 0..decode_varint(bytes)? {
            let word = text(bytes)?;
            said.content.insert(word, u32::try_from(decode_varint(bytes)?).ok()?);
        }
        for _ in 0..decode_varint(bytes)? {
            let url = text(bytes)?;
            let host = u32::from_le_bytes(decode_array(bytes)?);
            let key = FragmentKey { host, said: u64::from_le_bytes(decode_array(bytes)?) };
            said.fragments.push(SaidFragment { url, key, words: text(bytes)? });
        }
        bytes.is_empty().then_some(said)
    }
}

fn text(bytes: &mut &[u8]) -> Option<String> {
    String::from_utf8(decode_bytes(bytes)?.to_vec()).ok()
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
        let Content::Body { media_type, body } = &page.content else { return None };
        mark_text(body, *media_type, &mut self.text).ok()?;
        let PageWords { content, fragments } = self.reader.read(&page.url, &self.text);
        let fragment = |(place, fragment): (usize, super::Fragment)| SaidFragment {
            key: FragmentKey::new(&page.url, place, &fragment.words, &self.rule, &self.seed),
            url: fragment.target,
            words: fragment.words,
        };
        Some(Said { content, fragments: fragments.into_iter().enumerate().map(fragment).collect() })
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
            said.fragments.iter().map(|said| said.url.as_str()).collect::<Vec<_>>(),
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
