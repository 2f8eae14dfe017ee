//! Checks postings: each document is in the lists that its row counts, and common shingles have full lists.

use super::documents::ExpectedPostings;
use super::{Check, hex, index_of};
use crate::document::DocumentId;
use crate::sketch::Shingle;
use crate::store::schema::{self, Fields, PostingKind, cf, posting_checksum};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The postings of one document in one family: their number, and the sum of their checksums.
type Posts = (u32, u64);

/// The rows of `pending` above `meta/indexed-up-to`. They take no more memory than a writer's posting buffer.
struct Pending {
    indexed_up_to: u32,
    /// The pending postings of each document.
    documents: HashMap<u32, [Posts; 3]>,
    /// The postings of these documents that the lists already hold. In each family that is all of them or none.
    ingested: HashMap<u32, [Posts; 3]>,
    /// The pending documents of each index shingle.
    lists: BTreeMap<Shingle, Vec<DocumentId>>,
}

impl Check<'_> {
    /// Subtracts the postings of every list from the numbers in `docs`. Nothing may remain.
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
            for (kind, found) in PostingKind::ALL.into_iter().zip(ingested) {
                let wanted = pending.documents.get(document).map_or((0, 0), |posts| posts[kind as usize]);
                if found.0 > 0 && *found != wanted {
                    let what = format!("the lists hold {} of its {} pending postings", found.0, wanted.0);
                    self.add_finding(kind.family(), format!("document {document}"), what);
                }
            }
        }
        for (at, (counts, checksum)) in expected.counts.iter().zip(expected.checksums).enumerate() {
            for (kind, left) in PostingKind::ALL.into_iter().zip(counts) {
                if *left != 0 {
                    let left = i64::from(*left as i32);
                    let what = format!("it is in {} lists too {}", left.abs(), if left > 0 { "few" } else { "many" });
                    self.add_finding(kind.family(), format!("document {}", at + 1), what);
                }
            }
            if *counts == [0; 3] && checksum != 0 {
                self.add_finding(
                    cf::POSTINGS,
                    format!("document {}", at + 1),
                    "it is in lists of shingles that it does not have",
                );
            }
        }
    }

    /// Reads the rows of `pending` above `meta/indexed-up-to`.
    fn pending(&mut self, expected: &mut ExpectedPostings) -> Pending {
        let indexed_up_to = self.store.indexed_up_to().unwrap_or_default();
        let mut pending =
            Pending { indexed_up_to, documents: HashMap::new(), ingested: HashMap::new(), lists: BTreeMap::new() };
        let bits = self.store.rule.sketch.bits;
        let mut rows = self.rows(cf::PENDING);
        while let Some((key, row)) = self.next(&mut rows) {
            if schema::is_pending_equal(&key) {
                continue;
            }
            let mut postings = Vec::new();
            let mut push = |kind, shingle, document| postings.push((kind, shingle, document));
            if schema::read_pending(&key, &row, bits, &mut push).is_none() {
                self.add_finding(cf::PENDING, hex(&key), "the row cannot be read");
                continue;
            }
            for (kind, shingle, document) in postings {
                if document.0 <= indexed_up_to {
                    continue;
                }
                if !self.is_document(document) {
                    self.add_finding(cf::PENDING, hex(&key), format!("there is no document {document}"));
                    break;
                }
                let share = posting_checksum(kind, shingle);
                expected.take_off(kind, document, share);
                add(&mut pending.documents, kind, document, share);
                if kind == PostingKind::Index {
                    pending.lists.entry(shingle).or_default().push(document);
                }
            }
        }
        pending
    }

    /// Reads a family of lists, and adds to `full` the shingles whose lists exceed the limit.
    fn lists(
        &mut self,
        kind: PostingKind,
        expected: &mut ExpectedPostings,
        pending: &mut Pending,
        full: &mut BTreeSet<Shingle>,
    ) {
        let (family, limit) = (kind.family(), self.store.rule.cluster.common_limit);
        let width = kind.width(self.store.rule.sketch.bits);
        self.report.rows.insert(family, 0);
        for (run, what) in self.store.posting_runs.check_filters(kind) {
            self.add_finding(family, format!("run {}", run.number), what);
        }
        let mut lists = match self.store.posting_runs.all(kind) {
            Ok(lists) => lists,
            Err(error) => return self.add_finding(family, "", format!("the lists cannot be read: {error}")),
        };
        let (mut documents, mut last) = (Vec::new(), None);
        loop {
            let (shingle, list) = match lists.next() {
                Ok(Some(list)) => list,
                Ok(None) => break,
                Err(error) => {
                    let key = last.map(|shingle| hex(&schema::shingle_key(shingle, width))).unwrap_or_default();
                    let what = format!("the lists after this shingle cannot be read: {error}");
                    return self.add_finding(family, key, what);
                }
            };
            last = Some(shingle);
            *self.report.rows.entry(family).or_default() += 1;
            let key = schema::shingle_key(shingle, width);
            documents.clear();
            if schema::read_documents(list, &mut documents).is_none() {
                self.add_finding(family, hex(&key), "the list cannot be read");
                continue;
            }
            if !documents.is_sorted_by(|a, b| a < b) || documents.is_empty() {
                self.add_finding(kind.family(), hex(&key), "its documents do not ascend");
            }
            for document in &documents {
                self.posting(kind, shingle, *document, &key, expected, pending);
            }
            let newest = match kind {
                PostingKind::Index => pending.lists.remove(&shingle).unwrap_or_default(),
                PostingKind::Super | PostingKind::Mod => Vec::new(),
            };
            documents.extend(newest);
            documents.sort_unstable();
            documents.dedup();
            if documents.len() > limit.saturating_add(1) {
                self.add_finding(
                    kind.family(),
                    hex(&key),
                    format!("it has {} documents, more than the limit allows", documents.len()),
                );
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
                None => self.add_finding(cf::MOD_POSTINGS, hex(&key), "the key cannot be read"),
            }
        }
    }

    /// Subtracts one posting from its document's numbers. A posting above `meta/indexed-up-to` is only counted,
    /// because `pending` holds it too.
    fn posting(
        &mut self,
        kind: PostingKind,
        shingle: Shingle,
        document: DocumentId,
        key: &[u8],
        expected: &mut ExpectedPostings,
        pending: &mut Pending,
    ) {
        let share = posting_checksum(kind, shingle);
        if !self.is_document(document) {
            self.add_finding(kind.family(), hex(key), format!("there is no document {document}"));
        } else if document.0 <= pending.indexed_up_to {
            expected.take_off(kind, document, share);
        } else {
            add(&mut pending.ingested, kind, document, share);
        }
    }

    /// A shingle must be common exactly if its list exceeds the limit.
    fn common(&mut self, full: &BTreeSet<Shingle>) {
        let mut rows = self.rows(cf::COMMON);
        let width = PostingKind::Index.width(self.store.rule.sketch.bits);
        let mut common = BTreeSet::new();
        while let Some((key, _)) = self.next(&mut rows) {
            match Fields(&key).shingle(width).filter(|_| key.len() == width) {
                Some(shingle) => {
                    common.insert(shingle);
                }
                None => self.add_finding(cf::COMMON, hex(&key), "the key is not a shingle"),
            }
        }
        // The list of a common shingle was cut, and may have lost documents since.
        let may_lack = self.store.forgotten_documents().is_ok_and(|n| n > 0);
        for shingle in common.difference(full).filter(|_| !may_lack) {
            self.add_finding(
                cf::COMMON,
                hex(&schema::shingle_key(*shingle, width)),
                "its list does not exceed the limit",
            );
        }
        for shingle in full.difference(&common) {
            self.add_finding(
                cf::COMMON,
                hex(&schema::shingle_key(*shingle, width)),
                "is missing, although its list exceeds the limit",
            );
        }
    }
}

impl ExpectedPostings {
    fn take_off(&mut self, kind: PostingKind, document: DocumentId, share: u64) {
        let count = &mut self.counts[index_of(document)][kind as usize];
        *count = count.wrapping_sub(1);
        let checksum = &mut self.checksums[index_of(document)];
        *checksum = checksum.wrapping_sub(share);
    }
}

fn add(documents: &mut HashMap<u32, [Posts; 3]>, kind: PostingKind, document: DocumentId, share: u64) {
    let posts = &mut documents.entry(document.0).or_default()[kind as usize];
    *posts = (posts.0 + 1, posts.1.wrapping_add(share));
}
