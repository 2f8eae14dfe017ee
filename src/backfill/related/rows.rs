//! The rows of the intermediate files of a related build: what pages say, counted words, bags, pairs, centers.

use crate::codec::{
    decode_array, decode_bytes, decode_string_after, decode_varint, encode_bytes, encode_string_after, encode_varint,
};
use crate::document::FetchTime;
use crate::extsort::{Row, SortedRow};
use crate::related::{Bag, FragmentKey, Term, TermCounts};
use std::cmp::{Ordering, Reverse};

/// Terms with their frequencies, ascending.
pub type Counts = Box<[(Term, u32)]>;

/// What a page said, in the order of URLs, the newest page of a URL first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageRow {
    /// The page's URL.
    pub url: String,
    /// When the page was fetched.
    pub fetched_at: Reverse<FetchTime>,
    /// What it said. Of two pages of one moment the smaller row counts, so that their order of arrival does not.
    pub said: Said,
}

/// What a page said.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Said {
    /// Terms about itself and about others.
    Terms {
        /// Its own terms.
        content: Counts,
        /// What it says about URLs.
        fragments: Vec<FragmentRow>,
    },
    /// The page is at this URL now.
    Redirect(String),
    /// There is no page, or none with words.
    Nothing,
}

/// What a page says about a URL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FragmentRow {
    /// The URL.
    pub target: String,
    /// What tells fragments about the URL apart.
    pub key: FragmentKey,
    /// The terms with their frequencies, ascending.
    pub terms: Counts,
}

/// What is known about a URL: the terms of its content and those of the sampled fragments about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CountedRow {
    /// The URL.
    pub url: String,
    /// The terms of its content.
    pub content: Counts,
    /// The terms of what links say.
    pub anchors: Counts,
}

/// A redirect, or the content of a URL's newest page.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StateRow {
    /// The URL.
    pub url: String,
    /// Where it leads; `None` where it does not redirect.
    pub redirect_to: Option<String>,
    /// The terms of its content.
    pub content: Counts,
}

/// Where the words of a bag come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The page itself.
    Content,
    /// Links to it.
    Anchors,
}

/// In how many URLs' words of a kind a term occurs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FrequencyRow {
    /// The kind.
    pub kind: Kind,
    /// The term; `None` counts the URLs that have words of the kind.
    pub term: Option<Term>,
    /// URLs.
    pub n: u32,
}

/// A URL and its bag, in the order of URLs. A bag's id is its position among all bags.
#[derive(Clone, Debug, PartialEq)]
pub struct BagRow {
    /// The URL.
    pub url: String,
    /// The bag, which is not empty.
    pub bag: Bag,
}

/// A word of a term: the smallest of those that were read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WordRow {
    /// The term.
    pub term: Term,
    /// The word.
    pub word: String,
}

/// The signatures of some bags that follow each other.
#[derive(Clone, Debug, PartialEq)]
pub struct SignatureRow(pub Vec<u8>);

/// Two bags, the smaller id first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PairRow(u64);

/// A bag and one that is similar to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourRow {
    /// The bag.
    pub of: u32,
    /// The other one.
    pub neighbour: u32,
    /// Their similarity is this number …
    pub shared: u16,
    /// … by this one.
    pub either: u16,
}

/// The center of a bag, in the order of bags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CenterRow(pub u32);

/// The counts in the order of terms.
pub fn sorted(counts: &TermCounts) -> Counts {
    let mut sorted: Counts = counts.iter().map(|(term, n)| (*term, *n)).collect();
    sorted.sort_unstable();
    sorted
}

pub(super) fn encode_counts(counts: &Counts, out: &mut Vec<u8>) {
    encode_varint(counts.len() as u64, out);
    let mut previous = 0;
    for (Term(term), n) in counts {
        encode_varint(u64::from(term - previous), out);
        encode_varint(u64::from(*n), out);
        previous = *term;
    }
}

pub(super) fn decode_counts(bytes: &mut &[u8]) -> Option<Counts> {
    let n = decode_varint(bytes)? as usize;
    let mut counts = Vec::with_capacity(n.min(bytes.len()));
    let mut previous = 0u32;
    for _ in 0..n {
        previous = previous.checked_add(decode_number(bytes)?)?;
        counts.push((Term(previous), decode_number(bytes)?));
    }
    Some(counts.into())
}

fn decode_number(bytes: &mut &[u8]) -> Option<u32> {
    u32::try_from(decode_varint(bytes)?).ok()
}

fn counts_bytes(counts: &Counts) -> usize {
    size_of_val(&**counts)
}

impl Row for FragmentRow {
    fn encode(&self, previous: Option<&Self>, out: &mut Vec<u8>) {
        encode_string_after(&self.target, previous.map_or("", |row| &row.target), out);
        out.extend(self.key.host.to_le_bytes());
        out.extend(self.key.said.to_le_bytes());
        encode_counts(&self.terms, out);
    }

    fn decode(previous: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let target = decode_string_after(previous.map_or("", |row| &row.target), bytes)?;
        let host = u32::from_le_bytes(decode_array(bytes)?);
        let said = u64::from_le_bytes(decode_array(bytes)?);
        Some(FragmentRow { target, key: FragmentKey { host, said }, terms: decode_counts(bytes)? })
    }
}

impl SortedRow for FragmentRow {
    /// One key is one fragment, however often it is read.
    fn absorb(&mut self, next: &Self) -> bool {
        self.key == next.key && self.target == next.target
    }

    fn n_heap_bytes(&self) -> usize {
        self.target.capacity() + counts_bytes(&self.terms)
    }
}

const TERMS: u8 = 0;
const REDIRECT: u8 = 1;
const NOTHING: u8 = 2;

impl Row for PageRow {
    fn encode(&self, previous: Option<&Self>, out: &mut Vec<u8>) {
        encode_string_after(&self.url, previous.map_or("", |row| &row.url), out);
        out.extend(self.fetched_at.0.0.to_le_bytes());
        match &self.said {
            Said::Terms { content, fragments } => {
                out.push(TERMS);
                encode_counts(content, out);
                encode_varint(fragments.len() as u64, out);
                let mut previous = None;
                for fragment in fragments {
                    fragment.encode(previous, out);
                    previous = Some(fragment);
                }
            }
            Said::Redirect(target) => {
                out.push(REDIRECT);
                encode_bytes(target.as_bytes(), out);
            }
            Said::Nothing => out.push(NOTHING),
        }
    }

    fn decode(previous: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let url = decode_string_after(previous.map_or("", |row| &row.url), bytes)?;
        let fetched_at = Reverse(FetchTime(i64::from_le_bytes(decode_array(bytes)?)));
        let said = match decode_array(bytes)? {
            [TERMS] => {
                let content = decode_counts(bytes)?;
                let n = decode_varint(bytes)? as usize;
                let mut fragments: Vec<FragmentRow> = Vec::with_capacity(n.min(bytes.len()));
                for _ in 0..n {
                    let fragment = FragmentRow::decode(fragments.last(), bytes)?;
                    fragments.push(fragment);
                }
                Said::Terms { content, fragments }
            }
            [REDIRECT] => Said::Redirect(String::from_utf8(decode_bytes(bytes)?.to_vec()).ok()?),
            [NOTHING] => Said::Nothing,
            _ => return None,
        };
        Some(PageRow { url, fetched_at, said })
    }
}

impl SortedRow for PageRow {
    /// The newest page of a URL comes first, and older ones do not count.
    fn absorb(&mut self, next: &Self) -> bool {
        self.url == next.url
    }

    fn n_heap_bytes(&self) -> usize {
        let said = match &self.said {
            Said::Terms { content, fragments } => {
                let fragments = fragments.iter().map(|fragment| fragment.n_heap_bytes() + size_of::<FragmentRow>());
                counts_bytes(content) + fragments.sum::<usize>()
            }
            Said::Redirect(target) => target.capacity(),
            Said::Nothing => 0,
        };
        self.url.capacity() + said
    }
}

impl Row for StateRow {
    fn encode(&self, previous: Option<&Self>, out: &mut Vec<u8>) {
        encode_string_after(&self.url, previous.map_or("", |row| &row.url), out);
        encode_bytes(self.redirect_to.as_deref().unwrap_or_default().as_bytes(), out);
        encode_counts(&self.content, out);
    }

    fn decode(previous: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let url = decode_string_after(previous.map_or("", |row| &row.url), bytes)?;
        let redirect_to = String::from_utf8(decode_bytes(bytes)?.to_vec()).ok()?;
        let redirect_to = Some(redirect_to).filter(|target| !target.is_empty());
        Some(StateRow { url, redirect_to, content: decode_counts(bytes)? })
    }
}

impl SortedRow for StateRow {
    fn n_heap_bytes(&self) -> usize {
        self.url.capacity() + self.redirect_to.as_ref().map_or(0, String::capacity) + counts_bytes(&self.content)
    }
}

impl Row for CountedRow {
    fn encode(&self, previous: Option<&Self>, out: &mut Vec<u8>) {
        encode_string_after(&self.url, previous.map_or("", |row| &row.url), out);
        encode_counts(&self.content, out);
        encode_counts(&self.anchors, out);
    }

    fn decode(previous: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let url = decode_string_after(previous.map_or("", |row| &row.url), bytes)?;
        Some(CountedRow { url, content: decode_counts(bytes)?, anchors: decode_counts(bytes)? })
    }
}

impl SortedRow for CountedRow {
    fn n_heap_bytes(&self) -> usize {
        self.url.capacity() + counts_bytes(&self.content) + counts_bytes(&self.anchors)
    }
}

impl Row for FrequencyRow {
    fn encode(&self, _: Option<&Self>, out: &mut Vec<u8>) {
        out.push(u8::from(self.kind == Kind::Anchors));
        encode_varint(self.term.map_or(0, |term| u64::from(term.0) + 1), out);
        encode_varint(u64::from(self.n), out);
    }

    fn decode(_: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let kind = match decode_array(bytes)? {
            [0] => Kind::Content,
            [1] => Kind::Anchors,
            _ => return None,
        };
        let term = match decode_varint(bytes)? {
            0 => None,
            term => Some(Term(u32::try_from(term - 1).ok()?)),
        };
        Some(FrequencyRow { kind, term, n: decode_number(bytes)? })
    }
}

impl SortedRow for FrequencyRow {
    fn absorb(&mut self, next: &Self) -> bool {
        let is_same = self.kind == next.kind && self.term == next.term;
        self.n += if is_same { next.n } else { 0 };
        is_same
    }
}

impl Row for BagRow {
    fn encode(&self, previous: Option<&Self>, out: &mut Vec<u8>) {
        encode_string_after(&self.url, previous.map_or("", |row| &row.url), out);
        encode_counts(&self.bag.weights().iter().map(|(term, n)| (*term, u32::from(*n))).collect(), out);
    }

    fn decode(previous: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let url = decode_string_after(previous.map_or("", |row| &row.url), bytes)?;
        let weights = decode_counts(bytes)?;
        let weight = |(term, n): &(Term, u32)| Some((*term, u8::try_from(*n).ok()?));
        Some(BagRow { url, bag: Bag::new(weights.iter().map(weight).collect::<Option<_>>()?) })
    }
}

impl Row for WordRow {
    fn encode(&self, _: Option<&Self>, out: &mut Vec<u8>) {
        out.extend(self.term.0.to_le_bytes());
        encode_bytes(self.word.as_bytes(), out);
    }

    fn decode(_: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let term = Term(u32::from_le_bytes(decode_array(bytes)?));
        Some(WordRow { term, word: String::from_utf8(decode_bytes(bytes)?.to_vec()).ok()? })
    }
}

impl SortedRow for WordRow {
    fn absorb(&mut self, next: &Self) -> bool {
        self.term == next.term
    }

    fn n_heap_bytes(&self) -> usize {
        self.word.capacity()
    }
}

impl Row for SignatureRow {
    fn encode(&self, _: Option<&Self>, out: &mut Vec<u8>) {
        encode_bytes(&self.0, out);
    }

    fn decode(_: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        Some(SignatureRow(decode_bytes(bytes)?.to_vec()))
    }
}

impl PairRow {
    /// Creates the pair of two bags, the smaller id first.
    pub fn new(first: u32, second: u32) -> Self {
        PairRow(u64::from(first) << 32 | u64::from(second))
    }

    /// The smaller id.
    pub fn first(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The larger id.
    pub fn second(self) -> u32 {
        self.0 as u32
    }
}

/// Appends two ids as their difference to the two before them, which are not larger.
fn encode_ids(ids: [u32; 2], previous: Option<[u32; 2]>, out: &mut Vec<u8>) {
    let [first, second] = previous.unwrap_or_default();
    encode_varint(u64::from(ids[0] - first), out);
    encode_varint(u64::from(ids[1] - if ids[0] == first { second } else { 0 }), out);
}

fn decode_ids(previous: Option<[u32; 2]>, bytes: &mut &[u8]) -> Option<[u32; 2]> {
    let [first, second] = previous.unwrap_or_default();
    let step = decode_number(bytes)?;
    let number = decode_number(bytes)?;
    Some([first.checked_add(step)?, if step == 0 { second.checked_add(number)? } else { number }])
}

impl Row for PairRow {
    fn encode(&self, previous: Option<&Self>, out: &mut Vec<u8>) {
        encode_ids([self.first(), self.second()], previous.map(|pair| [pair.first(), pair.second()]), out);
    }

    fn decode(previous: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let [first, second] = decode_ids(previous.map(|pair| [pair.first(), pair.second()]), bytes)?;
        Some(PairRow::new(first, second))
    }
}

impl SortedRow for PairRow {
    fn absorb(&mut self, next: &Self) -> bool {
        self == next
    }
}

impl NeighbourRow {
    /// The similarity.
    pub fn similarity(self) -> f64 {
        f64::from(self.shared) / f64::from(self.either)
    }

    /// The same pair from its other side.
    pub fn reversed(self) -> Self {
        NeighbourRow { of: self.neighbour, neighbour: self.of, ..self }
    }

    /// The first neighbour that a bag can have.
    pub fn first_of(of: u32) -> Self {
        NeighbourRow { of, neighbour: 0, shared: 0, either: 1 }
    }

    fn ids(&self) -> [u32; 2] {
        [self.of, self.neighbour]
    }
}

impl PartialOrd for NeighbourRow {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for NeighbourRow {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |row: &Self| (u64::from(row.of) << 32 | u64::from(row.neighbour), row.shared, row.either);
        key(self).cmp(&key(other))
    }
}

impl Row for NeighbourRow {
    fn encode(&self, previous: Option<&Self>, out: &mut Vec<u8>) {
        encode_ids(self.ids(), previous.map(NeighbourRow::ids), out);
        encode_varint(u64::from(self.shared), out);
        encode_varint(u64::from(self.either), out);
    }

    fn decode(previous: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let [of, neighbour] = decode_ids(previous.map(NeighbourRow::ids), bytes)?;
        let shared = u16::try_from(decode_varint(bytes)?).ok()?;
        let either = u16::try_from(decode_varint(bytes)?).ok().filter(|either| *either > 0)?;
        Some(NeighbourRow { of, neighbour, shared, either })
    }
}

impl SortedRow for NeighbourRow {}

impl Row for CenterRow {
    fn encode(&self, _: Option<&Self>, out: &mut Vec<u8>) {
        encode_varint(u64::from(self.0), out);
    }

    fn decode(_: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        Some(CenterRow(decode_number(bytes)?))
    }
}
