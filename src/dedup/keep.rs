//! The choice: which page of a cluster stays. It depends on the pages alone, not on the order in which they are offered.

use crate::document::{DocumentId, FetchTime};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;

/// Which page of a cluster stays. Among equals, the one that comes first in the inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// The page with most words.
    Longest,
    /// The page fetched last.
    Newest,
    /// The page that comes first in the inputs.
    First,
}

impl Keep {
    /// What a page offers. The highest rank stays.
    fn rank(self, candidate: &Candidate) -> i64 {
        match self {
            Keep::Longest => i64::from(candidate.n_words),
            Keep::Newest => candidate.fetched_at.0,
            Keep::First => 0,
        }
    }
}

impl FromStr for Keep {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "longest" => Ok(Keep::Longest),
            "newest" => Ok(Keep::Newest),
            "first" => Ok(Keep::First),
            _ => Err("what is kept is longest, newest or first".into()),
        }
    }
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Keep::Longest => "longest",
            Keep::Newest => "newest",
            Keep::First => "first",
        })
    }
}

/// A page that may stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The page's number among all records, in the order of the inputs; below 2^62.
    pub number: u64,
    /// Its content.
    pub document: DocumentId,
    /// Its words.
    pub n_words: u32,
    /// When it was fetched.
    pub fetched_at: FetchTime,
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
        Candidate { number, document: DocumentId(number as u32 + 1), n_words, fetched_at: FetchTime(time) }
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
            for keep in [Keep::Longest, Keep::Newest, Keep::First] {
                let kept = chosen(keep, &pages);
                prop_assert_eq!(kept, chosen(keep, &other));
                let key = |page: &&(u64, u32, i64)| match keep {
                    Keep::Longest => (i64::from(page.1), Reverse(page.0)),
                    Keep::Newest => (page.2, Reverse(page.0)),
                    Keep::First => (0, Reverse(page.0)),
                };
                prop_assert_eq!(kept, pages.iter().max_by_key(key).map(|page| Kept::Record(page.0)));
            }
        }
    }
}
