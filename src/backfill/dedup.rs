//! Duplicate elimination: finds the document that a content equals, and remembers bodies to skip their sketching.

use super::context::Context;
use crate::cluster::Relation;
use crate::document::{DocumentId, Fingerprint};
use crate::sketch::Equivalences;
use rustc_hash::FxHashMap;

/// Bytes of memory a document: one fingerprint, halves of two more, and up to four slots of the table.
pub const BYTES_PER_DOCUMENT: u64 = 48;

/// Finds the document that a content equals.
///
/// Equal bytes have equal words, and equal words have equal shingles. The widest of a content's equivalences
/// therefore identifies its class, and the class its document. Of the two narrower fingerprints the table keeps 64
/// bits each: they only tell how close a content is to the document of its class.
#[derive(Default)]
pub struct KnownDocuments {
    classes: Vec<Fingerprint>,
    narrower: Vec<[u64; 2]>,
    /// Open addressing over document ids, with 0 for a free slot. The length is a power of two, at most half in use.
    slots: Vec<u32>,
}

fn half(key: Fingerprint) -> u64 {
    key.0 as u64
}

impl KnownDocuments {
    /// The number of documents.
    pub fn len(&self) -> usize {
        self.classes.len()
    }

    /// The document that a content equals, and how.
    pub fn find(&self, equivalences: &Equivalences) -> Option<(DocumentId, Relation)> {
        let class = equivalences.widest();
        let mut slot = self.first_slot(class);
        loop {
            let id = *self.slots.get(slot)?;
            let at = (id as usize).checked_sub(1)?;
            if self.classes[at] == class {
                return Some((DocumentId(id), self.relation(at, equivalences)));
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    /// The closest relation of a content to the document at `at`. The stream keeps all kinds of fingerprints in one
    /// table, so that a content's identical fingerprint may match a document's lexical one; here it may, too.
    fn relation(&self, at: usize, equivalences: &Equivalences) -> Relation {
        let matches = |key| self.narrower[at].contains(&half(key));
        match () {
            () if matches(equivalences.identical) => Relation::Identical,
            () if matches(equivalences.lexical) => Relation::Lexical,
            () => Relation::Shingle,
        }
    }

    /// Adds a document that is not known. Returns `None` at 2^32 - 1 documents.
    pub fn add(&mut self, equivalences: &Equivalences) -> Option<DocumentId> {
        let id = u32::try_from(self.classes.len() + 1).ok()?;
        self.classes.push(equivalences.widest());
        self.narrower.push([half(equivalences.identical), half(equivalences.lexical)]);
        if self.slots.len() < 2 * self.classes.len() {
            self.slots = vec![0; (2 * self.classes.len()).next_power_of_two().max(1024)];
            (1..=id).for_each(|id| self.insert(id));
        } else {
            self.insert(id);
        }
        Some(DocumentId(id))
    }

    /// The slot at which the search for a class begins. Fingerprints are random, so that their bits need no mixing.
    fn first_slot(&self, class: Fingerprint) -> usize {
        (class.0 >> 64) as usize & self.slots.len().saturating_sub(1)
    }

    fn insert(&mut self, id: u32) {
        let mut slot = self.first_slot(self.classes[id as usize - 1]);
        while self.slots[slot] != 0 {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        self.slots[slot] = id;
    }
}

/// The document of a body that was ingested before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownBody {
    /// The document.
    pub document: DocumentId,
    /// How the body equals the document's content.
    pub relation: Relation,
}

/// Bytes of memory an entry of [`KnownBodies`]: 32, in a table between 7/16 and 7/8 full.
const BYTES_PER_BODY: u64 = 74;

/// Finds bodies that were ingested before. The map stops growing at its limit and never forgets. A body that it
/// misses is sketched again, with the same result.
pub struct KnownBodies {
    bodies: FxHashMap<Fingerprint, KnownBody>,
    n_max: usize,
}

/// The share of the memory that known bodies take.
const KNOWN_BODIES_SHARE: u64 = 8;

impl KnownBodies {
    /// Creates a map that takes its share of the memory.
    pub fn within(context: &Context) -> Self {
        KnownBodies::new(context.memory / KNOWN_BODIES_SHARE)
    }

    /// Creates a map that takes at most so many bytes of memory.
    pub fn new(memory: u64) -> Self {
        KnownBodies { bodies: FxHashMap::default(), n_max: (memory / BYTES_PER_BODY) as usize }
    }

    /// Finds a body by the fingerprint of its bytes.
    pub fn find(&self, bytes: Fingerprint) -> Option<KnownBody> {
        self.bodies.get(&bytes).copied()
    }

    /// Moves new bodies into the map, as many as fit, and empties `new`.
    pub fn add(&mut self, new: &mut Vec<(Fingerprint, KnownBody)>) {
        let n_free = self.n_max.saturating_sub(self.bodies.len());
        self.bodies.extend(new.drain(..).take(n_free));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn equivalences(identical: u128, lexical: u128, shingle: Option<u128>) -> Equivalences {
        let key = |n: u128| Fingerprint(n.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
        Equivalences { identical: key(identical), lexical: key(lexical), shingle: shingle.map(key) }
    }

    #[test]
    fn find_returns_the_closest_relation() {
        let mut known = KnownDocuments::default();
        assert_eq!(known.find(&equivalences(1, 2, Some(3))), None);
        assert_eq!(known.add(&equivalences(1, 2, Some(3))), Some(DocumentId(1)));
        assert_eq!(known.add(&equivalences(4, 5, None)), Some(DocumentId(2)));
        let found = |identical, lexical, shingle| known.find(&equivalences(identical, lexical, shingle));
        assert_eq!(found(1, 2, Some(3)), Some((DocumentId(1), Relation::Identical)));
        assert_eq!(found(7, 2, Some(3)), Some((DocumentId(1), Relation::Lexical)));
        assert_eq!(found(7, 8, Some(3)), Some((DocumentId(1), Relation::Shingle)));
        assert_eq!(found(4, 5, None), Some((DocumentId(2), Relation::Identical)));
        assert_eq!(found(6, 5, None), Some((DocumentId(2), Relation::Lexical)));
        assert_eq!(found(7, 8, Some(9)), None);
    }

    #[test]
    fn many_documents_are_found_again() {
        let mut known = KnownDocuments::default();
        for n in 1..=10_000 {
            let keys = equivalences(3 * n, 3 * n + 1, Some(3 * n + 2));
            assert_eq!(known.find(&keys), None);
            assert_eq!(known.add(&keys), Some(DocumentId(n as u32)));
        }
        for n in 1..=10_000 {
            let keys = equivalences(3 * n, 3 * n + 1, Some(3 * n + 2));
            assert_eq!(known.find(&keys), Some((DocumentId(n as u32), Relation::Identical)));
        }
        assert_eq!(known.len(), 10_000);
    }
}
