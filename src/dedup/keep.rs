//! The choice: which page of a cluster stays. It depends on the pages alone, not on the order in which they are offered.

use super::record_set::RecordSet;
use crate::document::{DocumentId, FetchTime};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

/// Which page of a cluster stays. Among equals, the one that comes first in the inputs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// The page with most words.
    Longest,
    /// The page fetched last.
    Newest,
    /// The page that comes first in the inputs.
    First,
    /// The page with the highest value in a column: its name, or a JSON pointer. A page without a value comes last.
    Column(String),
}

impl Keep {
    /// What a page offers. The highest rank stays.
    fn rank(&self, candidate: &Candidate) -> i64 {
        match self {
            _ if candidate.is_revisit => i64::MIN,
            Keep::Longest => i64::from(candidate.n_words),
            Keep::Newest => candidate.fetched_at.0,
            Keep::First => 0,
            Keep::Column(_) => candidate.value.map_or(i64::MIN, ordered),
        }
    }
}

/// The integer that is ordered among others as the number is among numbers.
fn ordered(number: f64) -> i64 {
    // One zero is no less than the other.
    let bits = (number + 0.0).to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

impl FromStr for Keep {
    type Err = Infallible;

    fn from_str(word: &str) -> Result<Self, Infallible> {
        Ok(match word {
            "longest" => Keep::Longest,
            "newest" => Keep::Newest,
            "first" => Keep::First,
            column => Keep::Column(column.into()),
        })
    }
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Keep::Longest => "longest",
            Keep::Newest => "newest",
            Keep::First => "first",
            Keep::Column(column) => column,
        })
    }
}

/// A page that may stay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The page's number among all records, in the order of the inputs; below 2^62.
    pub number: u64,
    /// Its content.
    pub document: DocumentId,
    /// Its words.
    pub n_words: u32,
    /// When it was fetched.
    pub fetched_at: FetchTime,
    /// Its value in the column of [`Keep::Column`].
    pub value: Option<f64>,
    /// Whether it is of [`Preference::revisits`].
    pub is_revisit: bool,
}

/// The values of a column, for the records of all inputs in their order; 8 bytes each. None are kept as NaN.
#[derive(Default)]
pub struct ColumnValues(Vec<Vec<f64>>);

impl ColumnValues {
    /// Begins the next input.
    pub fn begin_input(&mut self) {
        self.0.push(Vec::new());
    }

    /// Adds the value of the next record of that input.
    pub fn push(&mut self, value: Option<f64>) {
        if let Some(values) = self.0.last_mut() {
            values.push(value.unwrap_or(f64::NAN));
        }
    }

    /// The value of a record, by its input and its number there.
    pub fn get(&self, input: u32, offset: i64) -> Option<f64> {
        let value = *self.0.get(input as usize)?.get(usize::try_from(offset).ok()?)?;
        Some(value).filter(|value| !value.is_nan())
    }
}

/// Which page of a cluster stays, and what is known of the records for that.
#[derive(Clone, Copy)]
pub struct Preference<'a> {
    /// Which page stays.
    pub keep: &'a Keep,
    /// The values of the column; none for any other choice.
    pub values: &'a ColumnValues,
    /// Records that refer to the content of another one and are copied without it. They come after all other pages.
    pub revisits: &'a RecordSet,
}

/// The page that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kept {
    /// The record of this number.
    Record(u64),
    /// A page with this document, which was kept before these records came.
    Known(DocumentId),
}

/// What a cluster has been offered.
#[derive(Clone, Copy)]
struct Choice {
    rank: i64,
    /// The number of the best page, with the flags below.
    page: u64,
}

/// The cluster keeps a page from before.
const IS_KNOWN: u64 = 1 << 63;
/// The cluster has more pages than the one that stays.
const HAS_OTHERS: u64 = 1 << 62;
const NUMBER: u64 = HAS_OTHERS - 1;
/// Nothing was offered yet.
const NONE: Choice = Choice { rank: i64::MIN, page: NUMBER };

/// Chooses for every cluster the page that stays.
pub struct Chooser {
    keep: Keep,
    /// By cluster, whose name is a document's.
    choices: Vec<Choice>,
    /// The content of the page that stays.
    documents: Vec<DocumentId>,
}

fn at(cluster: DocumentId) -> usize {
    (cluster.0 as usize).saturating_sub(1)
}

impl Chooser {
    /// Creates a chooser for the clusters of so many documents.
    pub fn new(keep: Keep, n_documents: usize) -> Self {
        Chooser { keep, choices: vec![NONE; n_documents], documents: vec![DocumentId(0); n_documents] }
    }

    /// Says that a cluster has kept a page with this document before, which comes before all offers. Of several documents
    /// the smallest counts.
    pub fn keep_known(&mut self, cluster: DocumentId, document: DocumentId) {
        let Some((choice, kept)) = self.choices.get_mut(at(cluster)).zip(self.documents.get_mut(at(cluster))) else {
            return;
        };
        if choice.page & IS_KNOWN == 0 || document < *kept {
            *kept = document;
        }
        choice.page = IS_KNOWN;
    }

    /// Offers a page of a cluster.
    pub fn offer(&mut self, cluster: DocumentId, candidate: &Candidate) {
        let rank = self.keep.rank(candidate);
        let Some((choice, kept)) = self.choices.get_mut(at(cluster)).zip(self.documents.get_mut(at(cluster))) else {
            return;
        };
        let is_first = choice.page == NUMBER;
        let is_known = choice.page & IS_KNOWN != 0;
        let number = choice.page & NUMBER;
        if is_first || (!is_known && (rank, Reverse(candidate.number)) > (choice.rank, Reverse(number))) {
            *choice = Choice { rank, page: candidate.number | (choice.page & HAS_OTHERS) };
            *kept = candidate.document;
        }
        if !is_first {
            choice.page |= HAS_OTHERS;
        }
    }

    /// The page of a cluster that stays; `None` where no page was offered.
    pub fn kept(&self, cluster: DocumentId) -> Option<Kept> {
        let Choice { page, .. } = *self.choices.get(at(cluster))?;
        match page {
            NUMBER => None,
            page if page & IS_KNOWN != 0 => self.kept_document(cluster).map(Kept::Known),
            page => Some(Kept::Record(page & NUMBER)),
        }
    }

    /// The content of the page of a cluster that stays. Meaningless where no page was offered.
    pub fn kept_document(&self, cluster: DocumentId) -> Option<DocumentId> {
        self.documents.get(at(cluster)).copied()
    }

    /// Whether pages of a cluster go in favour of another one.
    pub fn removes_any(&self, cluster: DocumentId) -> bool {
        self.choices.get(at(cluster)).is_some_and(|choice| choice.page & HAS_OTHERS != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CLUSTER: DocumentId = DocumentId(3);

    fn candidate((number, n_words, time): (u64, u32, i64)) -> Candidate {
        let value = (n_words != 3).then(|| f64::from(n_words) - 1.5);
        let (document, fetched_at) = (DocumentId(number as u32 + 1), FetchTime(time));
        Candidate { number, document, n_words, fetched_at, value, is_revisit: false }
    }

    fn chosen(keep: Keep, pages: &[(u64, u32, i64)]) -> Option<Kept> {
        let mut chooser = Chooser::new(keep, 5);
        pages.iter().for_each(|page| chooser.offer(CLUSTER, &candidate(*page)));
        chooser.kept(CLUSTER)
    }

    #[test]
    fn each_way_has_its_page_and_the_first_of_equals() {
        let pages = [(4, 10, 7), (5, 30, 5), (6, 30, 9), (7, 2, 9)];
        assert_eq!(chosen(Keep::First, &pages), Some(Kept::Record(4)));
        assert_eq!(chosen(Keep::Longest, &pages), Some(Kept::Record(5)));
        assert_eq!(chosen(Keep::Newest, &pages), Some(Kept::Record(6)));
        assert_eq!(chosen(Keep::Newest, &[]), None);
        let mut chooser = Chooser::new(Keep::Longest, 5);
        pages.iter().for_each(|page| chooser.offer(CLUSTER, &candidate(*page)));
        assert_eq!(chooser.kept_document(CLUSTER), Some(DocumentId(6)));
        assert!(chooser.removes_any(CLUSTER));
    }

    /// Lost once: the content of a page of which a newer revisit stayed, a record without it.
    #[test]
    fn a_revisit_stays_where_there_is_nothing_else() {
        let revisit = |page| Candidate { is_revisit: true, ..candidate(page) };
        let chosen = |pages: &[Candidate]| {
            let mut chooser = Chooser::new(Keep::Newest, 5);
            pages.iter().for_each(|page| chooser.offer(CLUSTER, page));
            chooser.kept(CLUSTER)
        };
        let (older, newer) = (candidate((4, 10, -7)), candidate((6, 10, -5)));
        assert_eq!(chosen(&[older, revisit((5, 10, 9)), newer, revisit((7, 10, 8))]), Some(Kept::Record(6)));
        assert_eq!(chosen(&[revisit((5, 10, 8)), revisit((7, 10, 9))]), Some(Kept::Record(5)));
    }

    #[test]
    fn what_was_kept_before_stays() {
        let mut chooser = Chooser::new(Keep::Longest, 5);
        chooser.keep_known(CLUSTER, DocumentId(2));
        assert!(!chooser.removes_any(CLUSTER));
        chooser.offer(CLUSTER, &candidate((0, 1000, 0)));
        chooser.keep_known(DocumentId(5), DocumentId(5));
        chooser.keep_known(DocumentId(5), DocumentId(4));
        assert_eq!(chooser.kept(CLUSTER), Some(Kept::Known(DocumentId(2))));
        assert!(chooser.removes_any(CLUSTER));
        assert_eq!(chooser.kept(DocumentId(5)), Some(Kept::Known(DocumentId(4))));
        assert_eq!(chooser.kept(DocumentId(9)), None);
    }

    #[test]
    fn numbers_stay_in_their_order() {
        let numbers = [f64::NEG_INFINITY, -1e300, -2.0, -1e-300, 0.0, 1e-300, 1.0, 1.5, 1e300, f64::INFINITY];
        assert!(numbers.is_sorted_by(|a, b| ordered(*a) < ordered(*b)));
        assert_eq!(ordered(0.0), ordered(-0.0));
        assert!(ordered(f64::NEG_INFINITY) > i64::MIN, "any number comes before none");
    }

    proptest! {
        #[test]
        fn the_order_of_offers_does_not_matter(
            pages in prop::collection::vec((0u32..4, -3i64..3), 1..12).prop_map(|pages| {
                (0..).zip(pages).map(|(number, (n_words, time))| (number, n_words, time)).collect::<Vec<_>>()
            }),
            shuffle in any::<prop::sample::Index>(),
        ) {
            let mut other = pages.clone();
            other.rotate_left(shuffle.index(pages.len()));
            other.reverse();
            for keep in [Keep::Longest, Keep::Newest, Keep::First, Keep::Column("c".into())] {
                let kept = chosen(keep.clone(), &pages);
                prop_assert_eq!(kept, chosen(keep.clone(), &other));
                let key = |page: &&(u64, u32, i64)| match &keep {
                    Keep::Longest => (i64::from(page.1), Reverse(page.0)),
                    Keep::Newest => (page.2, Reverse(page.0)),
                    Keep::First => (0, Reverse(page.0)),
                    // A page of 3 words has no value.
                    Keep::Column(_) => (if page.1 == 3 { -1 } else { i64::from(page.1) }, Reverse(page.0)),
                };
                prop_assert_eq!(kept, pages.iter().max_by_key(key).map(|page| Kept::Record(page.0)));
            }
        }
    }
}
