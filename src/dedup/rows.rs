//! The rows that the list of removed records is sorted and joined by.

use super::keep::Kept;
use crate::codec::{decode_array, decode_bytes, decode_varint, encode_bytes, encode_varint};
use crate::document::DocumentId;
use crate::extsort::{Row, SortedRow};
use std::cmp::Ordering;

/// Where a page is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PageSource {
    /// An input of these records.
    Input(u32),
    /// An input of earlier ones.
    Named(String),
    /// Not recorded.
    Unknown,
}

/// A record as the list names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PageName {
    pub url: Option<String>,
    pub source: PageSource,
    pub offset: i64,
}

impl PageName {
    fn n_heap_bytes(&self) -> usize {
        let named = if let PageSource::Named(name) = &self.source { name.len() } else { 0 };
        self.url.as_ref().map_or(0, String::len) + named
    }

    fn encode(&self, out: &mut Vec<u8>) {
        encode_text(self.url.as_deref(), out);
        match &self.source {
            PageSource::Input(input) => {
                out.push(0);
                encode_varint(u64::from(*input), out);
            }
            PageSource::Named(name) => {
                out.push(1);
                encode_bytes(name.as_bytes(), out);
            }
            PageSource::Unknown => out.push(2),
        }
        out.extend(self.offset.to_le_bytes());
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let url = decode_text(bytes)?;
        let source = match decode_array(bytes)? {
            [0] => PageSource::Input(u32::try_from(decode_varint(bytes)?).ok()?),
            [1] => PageSource::Named(decode_string(bytes)?),
            [2] => PageSource::Unknown,
            _ => return None,
        };
        Some(PageName { url, source, offset: i64::from_le_bytes(decode_array(bytes)?) })
    }
}

fn encode_text(text: Option<&str>, out: &mut Vec<u8>) {
    out.push(u8::from(text.is_some()));
    encode_bytes(text.unwrap_or_default().as_bytes(), out);
}

fn decode_text(bytes: &mut &[u8]) -> Option<Option<String>> {
    let [is_some] = decode_array(bytes)?;
    let text = decode_string(bytes)?;
    Some((is_some == 1).then_some(text))
}

fn decode_string(bytes: &mut &[u8]) -> Option<String> {
    String::from_utf8(decode_bytes(bytes)?.to_vec()).ok()
}

/// A page under the page that stays in its cluster. The latter comes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ByKept {
    pub kept: Kept,
    /// The page's number; `None`: it is the page that stays.
    pub number: Option<u64>,
    pub document: DocumentId,
    pub page: PageName,
}

impl ByKept {
    fn key(&self) -> (Kept, Option<u64>) {
        (self.kept, self.number)
    }
}

impl PartialOrd for ByKept {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByKept {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl Row for ByKept {
    fn encode(&self, _: Option<&Self>, out: &mut Vec<u8>) {
        let (is_known, kept) = match self.kept {
            Kept::Record(number) => (0, number),
            Kept::Known(document) => (1, u64::from(document.0)),
        };
        out.push(is_known);
        encode_varint(kept, out);
        encode_varint(self.number.map_or(0, |number| number + 1), out);
        encode_varint(u64::from(self.document.0), out);
        self.page.encode(out);
    }

    fn decode(_: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let [is_known] = decode_array(bytes)?;
        let kept = decode_varint(bytes)?;
        let kept = match is_known {
            0 => Kept::Record(kept),
            _ => Kept::Known(DocumentId(u32::try_from(kept).ok()?)),
        };
        let number = decode_varint(bytes)?.checked_sub(1);
        let document = DocumentId(u32::try_from(decode_varint(bytes)?).ok()?);
        Some(ByKept { kept, number, document, page: PageName::decode(bytes)? })
    }
}

impl SortedRow for ByKept {
    fn n_heap_bytes(&self) -> usize {
        self.page.n_heap_bytes()
    }
}

/// Why a record is not in the corpus.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Why {
    /// Another page of its cluster stays.
    Removed {
        is_identical: bool,
        resemblance: f64,
        containment: f64,
        kept: PageName,
    },
    Gone,
    Redirected,
    Rejected {
        reason: String,
        message: String,
    },
}

/// A record that is not in the corpus, in the order of the inputs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Listed {
    pub number: u64,
    pub page: PageName,
    pub why: Why,
}

impl Eq for Listed {}

impl PartialOrd for Listed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Listed {
    fn cmp(&self, other: &Self) -> Ordering {
        self.number.cmp(&other.number)
    }
}

impl Row for Listed {
    fn encode(&self, _: Option<&Self>, out: &mut Vec<u8>) {
        encode_varint(self.number, out);
        self.page.encode(out);
        match &self.why {
            Why::Removed { is_identical, resemblance, containment, kept } => {
                out.push(u8::from(*is_identical));
                out.extend(resemblance.to_le_bytes());
                out.extend(containment.to_le_bytes());
                kept.encode(out);
            }
            Why::Gone => out.push(2),
            Why::Redirected => out.push(3),
            Why::Rejected { reason, message } => {
                out.push(4);
                encode_bytes(reason.as_bytes(), out);
                encode_bytes(message.as_bytes(), out);
            }
        }
    }

    fn decode(_: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let number = decode_varint(bytes)?;
        let page = PageName::decode(bytes)?;
        let why = match decode_array(bytes)? {
            [is_identical @ (0 | 1)] => Why::Removed {
                is_identical: is_identical == 1,
                resemblance: f64::from_le_bytes(decode_array(bytes)?),
                containment: f64::from_le_bytes(decode_array(bytes)?),
                kept: PageName::decode(bytes)?,
            },
            [2] => Why::Gone,
            [3] => Why::Redirected,
            [4] => Why::Rejected { reason: decode_string(bytes)?, message: decode_string(bytes)? },
            _ => return None,
        };
        Some(Listed { number, page, why })
    }
}

impl SortedRow for Listed {
    fn n_heap_bytes(&self) -> usize {
        let why = match &self.why {
            Why::Removed { kept, .. } => kept.n_heap_bytes(),
            Why::Rejected { reason, message } => reason.len() + message.len(),
            Why::Gone | Why::Redirected => 0,
        };
        self.page.n_heap_bytes() + why
    }
}

/// A page that was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeptRow {
    pub document: DocumentId,
    pub url: String,
    pub source: String,
    pub offset: i64,
}

impl Row for KeptRow {
    fn encode(&self, _: Option<&Self>, out: &mut Vec<u8>) {
        encode_varint(u64::from(self.document.0), out);
        encode_bytes(self.url.as_bytes(), out);
        encode_bytes(self.source.as_bytes(), out);
        out.extend(self.offset.to_le_bytes());
    }

    fn decode(_: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        Some(KeptRow {
            document: DocumentId(u32::try_from(decode_varint(bytes)?).ok()?),
            url: decode_string(bytes)?,
            source: decode_string(bytes)?,
            offset: i64::from_le_bytes(decode_array(bytes)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    fn comes_back<R: Row + PartialEq + Debug>(row: &R) {
        let mut bytes = Vec::new();
        row.encode(None, &mut bytes);
        let whole = bytes.len();
        bytes.push(7);
        let mut rest = bytes.as_slice();
        assert_eq!(R::decode(None, &mut rest).as_ref(), Some(row));
        assert_eq!(rest, [7]);
        for n in 0..whole {
            assert_eq!(R::decode(None, &mut &bytes[..n]), None, "{n} bytes of {row:?}");
        }
    }

    #[test]
    fn rows_come_back_and_cut_ones_do_not() {
        let url = Some("http://a/".to_string());
        let page = PageName { url: url.clone(), source: PageSource::Input(3), offset: 300 };
        let named = PageName { url: None, source: PageSource::Named("/b".into()), offset: 0 };
        let unknown = PageName { url, source: PageSource::Unknown, offset: -1 };
        for page in [page.clone(), named.clone(), unknown] {
            for (kept, number) in [(Kept::Record(9), None), (Kept::Known(DocumentId(8)), Some(0))] {
                comes_back(&ByKept { kept, number, document: DocumentId(5), page: page.clone() });
            }
            let removed =
                |is_identical| Why::Removed { is_identical, resemblance: 0.5, containment: 0.75, kept: named.clone() };
            let rejected = Why::Rejected { reason: "no-page".into(), message: "it is none".into() };
            for why in [removed(true), removed(false), Why::Gone, Why::Redirected, rejected] {
                comes_back(&Listed { number: 1 << 40, page: page.clone(), why });
            }
        }
        comes_back(&KeptRow { document: DocumentId(1), url: "u".into(), source: "s".into(), offset: 4 });
    }

    #[test]
    fn the_page_that_stays_comes_before_those_that_go() {
        let row = |kept, number| ByKept {
            kept,
            number,
            document: DocumentId(1),
            page: PageName { url: None, source: PageSource::Unknown, offset: 0 },
        };
        let sorted = [
            row(Kept::Record(1), None),
            row(Kept::Record(1), Some(0)),
            row(Kept::Record(1), Some(4)),
            row(Kept::Record(2), None),
            row(Kept::Known(DocumentId(1)), None),
            row(Kept::Known(DocumentId(1)), Some(0)),
        ];
        assert!(sorted.is_sorted());
    }
}
