//! Which documents are known: the one table of the first phase, 48 bytes a document, and one of bytes that saves work.

use crate::cluster::Relation;
use crate::document::{DocumentId, Fingerprint};
use crate::sketch::Equivalences;
use rustc_hash::FxHashMap;

/// Bytes of memory a document: two fingerprints' halves, a whole one, and at most four places of the table.
pub const BYTES_A_DOCUMENT: u64 = 48;

/// Finds the document that a content equals.
///
/// EquivalenceRow bytes have equal words and equal words have equal shingles, so that the widest of the three equivalences that a
/// content has names its class, and the class its document. Of the two narrower ones 64 bits are kept: they tell only
/// how close a content is to the document of its class.
#[derive(Default)]
pub struct KnownDocuments {
    classes: Vec<Fingerprint>,
    closer: Vec<[u64; 2]>,
    /// Open addressing: document ids; 0 is a free place. As many as a power of two, at most half of them taken.
    places: Vec<u32>,
}

fn class_of(equivalences: &Equivalences) -> Fingerprint {
    equivalences.shingle.unwrap_or(equivalences.lexical)
}

fn half(key: Fingerprint) -> u64 {
    key.0 as u64
}

impl KnownDocuments {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.classes.len()
    }

    /// The document that a content equals, and how.
    pub fn find(&self, equivalences: &Equivalences) -> Option<(DocumentId, Relation)> {
        let class = class_of(equivalences);
        let mut place = self.first_place(class);
        loop {
            let id = *self.places.get(place)?;
            let at = (id as usize).checked_sub(1)?;
            if self.classes[at] == class {
                return Some((DocumentId(id), self.relation(at, equivalences)));
            }
            place = (place + 1) & (self.places.len() - 1);
        }
    }

    /// The closest relation that any of the document's fingerprints tells of: as the stream has them in one table, one
    /// that identifies features in their order may be what names the sorted ones.
    fn relation(&self, at: usize, equivalences: &Equivalences) -> Relation {
        let knows = |key| self.closer[at].contains(&half(key));
        match () {
            () if knows(equivalences.identical) => Relation::Identical,
            () if knows(equivalences.lexical) => Relation::Lexical,
            () => Relation::Shingle,
        }
    }

    /// Adds a document that is not known. `None`: 2^32 - 1 documents are there.
    pub fn add(&mut self, equivalences: &Equivalences) -> Option<DocumentId> {
        let id = u32::try_from(self.classes.len() + 1).ok()?;
        self.classes.push(class_of(equivalences));
        self.closer.push([half(equivalences.identical), half(equivalences.lexical)]);
        if self.places.len() < 2 * self.classes.len() {
            self.places = vec![0; (2 * self.classes.len()).next_power_of_two().max(1024)];
            (1..=id).for_each(|id| self.put(id));
        } else {
            self.put(id);
        }
        Some(DocumentId(id))
    }

    /// Where a class is looked for first. The fingerprints are random already.
    fn first_place(&self, class: Fingerprint) -> usize {
        (class.0 >> 64) as usize & self.places.len().saturating_sub(1)
    }

    fn put(&mut self, id: u32) {
        let mut place = self.first_place(self.classes[id as usize - 1]);
        while self.places[place] != 0 {
            place = (place + 1) & (self.places.len() - 1);
        }
        self.places[place] = id;
    }
}

/// What is known of a body's bytes: their document, and how close they are to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownBody {
    /// The document.
    pub document: DocumentId,
    /// How the bytes are equal to what brought it.
    pub relation: Relation,
}

/// Bytes of memory an entry of [`KnownBodies`]: 32, in a table that is between seven sixteenths and seven eighths full.
const BYTES_AN_ENTRY: u64 = 74;

/// Finds bytes that were met before. It holds as many as its memory lets it, and forgets none of these; what it does not
/// hold is sketched, which tells the same.
pub struct KnownBodies {
    known: FxHashMap<Fingerprint, KnownBody>,
    n_max: usize,
}

impl KnownBodies {
    /// One that takes so many bytes of memory at most.
    pub fn new(memory: u64) -> Self {
        KnownBodies { known: FxHashMap::default(), n_max: (memory / BYTES_AN_ENTRY) as usize }
    }

    /// What is known of some bytes.
    pub fn find(&self, bytes: Fingerprint) -> Option<KnownBody> {
        self.known.get(&bytes).copied()
    }

    /// Takes in what became known.
    pub fn add(&mut self, news: &mut Vec<(Fingerprint, KnownBody)>) {
        let room = self.n_max.saturating_sub(self.known.len());
        self.known.extend(news.drain(..).take(room));
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
    fn the_closest_equivalence_is_told() {
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
