//! Postings: every document is in the lists that its row tells of, and in no others; common shingles are those whose
//! lists are full.

use super::documents::ExpectedPostings;
use super::{Check, at, hex};
use crate::document::DocumentId;
use crate::sketch::Shingle;
use crate::store::schema::{self, Fields, PostingKind, cf, posting_checksum};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The postings of one document in one family: how many, and the sum of their shares.
type Posts = (u32, u64);

/// What `pending` holds of the documents above the watermark. It is no more than a writer holds in memory.
struct Pending {
    indexed_up_to: u32,
    /// What each document has there.
    documents: HashMap<u32, [Posts; 3]>,
    /// What the lists have of these documents already: of each family all or nothing.
    ingested: HashMap<u32, [Posts; 3]>,
    /// How many documents are in the list of each index shingle.
    lists: BTreeMap<Shingle, Vec<DocumentId>>,
}

impl Check<'_> {
    /// Takes what every list holds off what the documents' rows say; nothing may be left over.
    pub(super) fn postings(&mut self, mut expected: ExpectedPostings) {
        let mut pending = self.pending(&mut expected);
        let mut full = BTreeSet::new();
        self.lists(PostingKind::Index, &mut expected, &mut pending, &mut full);
        self.lists(PostingKind::Super, &mut expected, &mut pending, &mut BTreeSet::new());
        self.mod_postings(&mut expected, &mut pending);
        let limit = self.store.rule.cluster.common_limit;
        full.extend(pending.lists.iter().filter(|(_, documents)| documents.len() > limit).map(|(shingle, _)| *shingle));
        self.common(&full);
        for (document, ingested) in &pending.ingested {
            for (posted, found) in PostingKind::ALL.into_iter().zip(ingested) {
                let wanted = pending.documents.get(document).map_or((0, 0), |posts| posts[posted as usize]);
                if found.0 > 0 && *found != wanted {
                    let what = format!("{} of the {} postings that are pending are in lists", found.0, wanted.0);
                    self.find(posted.family(), format!("document {document}"), what);
                }
            }
        }
        for (at, (counts, checksum)) in expected.counts.iter().zip(expected.checksums).enumerate() {
            for (posted, left) in PostingKind::ALL.into_iter().zip(counts) {
                if *left != 0 {
                    let left = i64::from(*left as i32);
                    let what = format!("it is in {} lists too {}", left.abs(), if left > 0 { "few" } else { "many" });
                    self.find(posted.family(), format!("document {}", at + 1), what);
                }
            }
            if *counts == [0; 3] && checksum != 0 {
                self.find(cf::POSTINGS, format!("document {}", at + 1), "it is in lists of shingles that are not its");
            }
        }
    }

    /// Reads what is pending above the watermark.
    fn pending(&mut self, expected: &mut ExpectedPostings) -> Pending {
        let indexed_up_to = self.store.indexed_up_to().unwrap_or_default();
        let mut pending =
            Pending { indexed_up_to, documents: HashMap::new(), ingested: HashMap::new(), lists: BTreeMap::new() };
        let bits = self.store.rule.sketch.bits;
        let mut rows = self.rows(cf::PENDING);
        while let Some((key, row)) = self.next(&mut rows) {
            let mut postings = Vec::new();
            let mut push = |posted, shingle, document| postings.push((posted, shingle, document));
            if schema::read_pending(&key, &row, bits, &mut push).is_none() {
                self.find(cf::PENDING, hex(&key), "the row cannot be read");
                continue;
            }
            for (posted, shingle, document) in postings {
                if document.0 <= indexed_up_to {
                    continue;
                }
                if !self.is_document(document) {
                    self.find(cf::PENDING, hex(&key), format!("there is no document {document}"));
                    break;
                }
                let share = posting_checksum(posted, shingle);
                expected.take_off(posted, document, share);
                add(&mut pending.documents, posted, document, share);
                if posted == PostingKind::Index {
                    pending.lists.entry(shingle).or_default().push(document);
                }
            }
        }
        pending
    }

    /// Reads a family of lists; those over the limit are put into `full`.
    fn lists(
        &mut self,
        posted: PostingKind,
        expected: &mut ExpectedPostings,
        pending: &mut Pending,
        full: &mut BTreeSet<Shingle>,
    ) {
        let (width, limit) = (posted.width(self.store.rule.sketch.bits), self.store.rule.cluster.common_limit);
        let mut rows = self.rows(posted.family());
        let mut documents = Vec::new();
        while let Some((key, row)) = self.next(&mut rows) {
            let shingle = Fields(&key).shingle(width).filter(|_| key.len() == width);
            documents.clear();
            let read = schema::read_documents(&row, &mut documents);
            let (Some(shingle), Some(())) = (shingle, read) else {
                self.find(posted.family(), hex(&key), "the row cannot be read");
                continue;
            };
            if !documents.is_sorted_by(|a, b| a < b) || documents.is_empty() {
                self.find(posted.family(), hex(&key), "its documents do not ascend");
            }
            for document in &documents {
                self.posting(posted, shingle, *document, &key, expected, pending);
            }
            let newest = match posted {
                PostingKind::Index => pending.lists.remove(&shingle).unwrap_or_default(),
                PostingKind::Super | PostingKind::Mod => Vec::new(),
            };
            documents.extend(newest);
            documents.sort_unstable();
            documents.dedup();
            if documents.len() > limit.saturating_add(1) {
                self.find(posted.family(), hex(&key), format!("it has {} documents, over the limit", documents.len()));
            }
            if documents.len() > limit {
                full.insert(shingle);
            }
        }
    }

    fn mod_postings(&mut self, expected: &mut ExpectedPostings, pending: &mut Pending) {
        let bits = self.store.rule.sketch.bits;
        let mut rows = self.rows(cf::MOD_POSTINGS);
        while let Some((key, _)) = self.next(&mut rows) {
            match schema::read_mod_posting(&key, bits) {
                Some((shingle, document)) => {
                    self.posting(PostingKind::Mod, shingle, document, &key, expected, pending);
                }
                None => self.find(cf::MOD_POSTINGS, hex(&key), "the key cannot be read"),
            }
        }
    }

    /// Takes one posting off what its document's row says, or notes that it is there ahead of the watermark.
    fn posting(
        &mut self,
        posted: PostingKind,
        shingle: Shingle,
        document: DocumentId,
        key: &[u8],
        expected: &mut ExpectedPostings,
        pending: &mut Pending,
    ) {
        let share = posting_checksum(posted, shingle);
        if !self.is_document(document) {
            self.find(posted.family(), hex(key), format!("there is no document {document}"));
        } else if document.0 <= pending.indexed_up_to {
            expected.take_off(posted, document, share);
        } else {
            add(&mut pending.ingested, posted, document, share);
        }
    }

    /// Common are those shingles whose lists are over the limit, and no others.
    fn common(&mut self, full: &BTreeSet<Shingle>) {
        let mut rows = self.rows(cf::COMMON);
        let width = PostingKind::Index.width(self.store.rule.sketch.bits);
        let mut common = BTreeSet::new();
        while let Some((key, _)) = self.next(&mut rows) {
            match Fields(&key).shingle(width).filter(|_| key.len() == width) {
                Some(shingle) => {
                    common.insert(shingle);
                }
                None => self.find(cf::COMMON, hex(&key), "the key is no shingle"),
            }
        }
        for shingle in common.difference(full) {
            self.find(cf::COMMON, hex(&schema::shingle_key(*shingle, width)), "its list is not over the limit");
        }
        for shingle in full.difference(&common) {
            self.find(cf::COMMON, hex(&schema::shingle_key(*shingle, width)), "is missing; its list is over the limit");
        }
    }
}

impl ExpectedPostings {
    fn take_off(&mut self, posted: PostingKind, document: DocumentId, share: u64) {
        let count = &mut self.counts[at(document)][posted as usize];
        *count = count.wrapping_sub(1);
        let checksum = &mut self.checksums[at(document)];
        *checksum = checksum.wrapping_sub(share);
    }
}

fn add(documents: &mut HashMap<u32, [Posts; 3]>, posted: PostingKind, document: DocumentId, share: u64) {
    let posts = &mut documents.entry(document.0).or_default()[posted as usize];
    *posts = (posts.0 + 1, posts.1.wrapping_add(share));
}
