//! Forms <document, document, count> from the lists, for as many documents at a time as their pairs fit in memory.
//!
//! Only mixed lists form pairs: those whose documents are in several clusters. Most families of pages are one cluster once
//! their neighbours are decided, so that mixed lists are few. Most of the documents that are left in them share a shingle or
//! two with others by chance. What is in fewer mixed lists than a candidate must share is left out, which leaves few pairs. The
//! mixed lists are files of their own, and each pass after that reads them.
//!
//! A pair that shares a shingle takes four bytes: the earlier document, in a slot of the later one. One pass counts
//! the slots and a second one fills them, so that nothing grows and all threads fill at once. All threads then sort the
//! slots of each document. A document that stands in several slots shares as many shingles.

use super::posting_lists::PostingFiles;
use crate::backfill::checkpoint::Checkpoint;
use crate::backfill::context::Context;
use crate::backfill::datasets::{Dataset, DatasetFile, LISTS, MIXED_LISTS, MIXED_SUPER_LISTS, SUPER_LISTS};
use crate::backfill::error::{BackfillError, io_error};
use crate::backfill::min_shared::MinShared;
use crate::backfill::rows::{DocumentRange, Pair, Posting};
use crate::backfill::sketching::in_order;
use crate::document::DocumentId;
use crate::extsort::RunFile;
use crate::sketch::Shingle;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

/// Counters for the pairs of all documents, at most. With more documents than that, one counter serves several.
const COUNTERS_MAX: usize = 1 << 16;

/// Slots that a thread sorts at a time, about.
const SLOTS_PER_CHUNK: usize = 1 << 15;

/// Slots of a range of documents that are worth two passes over the mixed lists: so many, and so many for each posting. More
/// would take fresh memory for every slot, which costs as much as the pass that fills it, where less is used again.
const SLOTS_PER_RANGE: u64 = 4 << 20;
const SLOTS_PER_POSTING: u64 = 8;

/// The lists from which pairs are formed.
pub(in crate::backfill) struct Lists {
    index: PostingFiles,
    supers: PostingFiles,
    common_limit: usize,
}

/// The pairs of each few documents, at most.
struct PairCounts {
    n_documents: usize,
    n_documents_each: usize,
    counts: Vec<u64>,
}

impl Lists {
    /// Opens the lists of a backfill.
    pub fn open(checkpoint: &Checkpoint) -> Result<Self, BackfillError> {
        let (index, supers) = (checkpoint.open_dataset(LISTS)?, checkpoint.open_dataset(SUPER_LISTS)?);
        Ok(Self::new(index, supers, checkpoint.rule().cluster.common_limit))
    }

    /// Opens the mixed lists of a backfill.
    pub fn open_mixed(checkpoint: &Checkpoint) -> Result<Self, BackfillError> {
        let (index, supers) = (checkpoint.open_dataset(MIXED_LISTS)?, checkpoint.open_dataset(MIXED_SUPER_LISTS)?);
        Ok(Self::new(index, supers, checkpoint.rule().cluster.common_limit))
    }

    /// Uses the lists in some files. Of a super shingle's list the first `common_limit` and one documents nominate.
    pub fn new(index: PostingFiles, supers: PostingFiles, common_limit: usize) -> Self {
        Lists { index, supers, common_limit }
    }

    /// The earlier documents of a list that the document at `at` is paired with.
    fn n_earlier(&self, at: usize, is_super: bool) -> usize {
        if is_super { at.min(self.common_limit + 1) } else { at }
    }

    /// Writes what forms candidates as long as clusters only grow: the mixed lists, without the documents that are in too few of
    /// them. Returns them and their files.
    pub fn mixed(
        &self,
        context: &Context,
        cluster_of: &[u32],
        min_shared: &MinShared,
    ) -> Result<(Lists, Vec<DatasetFile>), BackfillError> {
        let n_lists: Vec<AtomicU32> = cluster_of.iter().map(|_| AtomicU32::default()).collect();
        let index = copy_mixed(context, &self.index, (MIXED_LISTS, "whole"), cluster_of, |documents: &mut Vec<_>| {
            for document in documents {
                n_lists[document.0 as usize - 1].fetch_add(1, Relaxed);
            }
        })?;
        let pruning = Pruning { n_lists, min_shared };
        let (whole, keep) = (opened(context, MIXED_LISTS, &index)?, |documents: &mut _| pruning.keep(documents));
        let mut files = copy_mixed(context, &whole, (MIXED_LISTS, "kept"), cluster_of, keep)?;
        for DatasetFile { file, .. } in index {
            let path = context.folder.join(&file.name);
            std::fs::remove_file(&path).map_err(io_error(&path))?;
        }
        let supers = copy_mixed(context, &self.supers, (MIXED_SUPER_LISTS, "whole"), cluster_of, |_: &mut _| {})?;
        let lists = Lists {
            index: opened(context, MIXED_LISTS, &files)?,
            supers: opened(context, MIXED_SUPER_LISTS, &supers)?,
            common_limit: self.common_limit,
        };
        files.extend(supers);
        Ok((lists, files))
    }

    /// Splits the documents into ranges whose pairs fit in a quarter of the memory, and are worth a pass over the lists, or that
    /// cannot be split further.
    pub fn document_ranges(&self, context: &Context, cluster_of: &[u32]) -> Result<Vec<DocumentRange>, BackfillError> {
        let n_documents_each = cluster_of.len().div_ceil(COUNTERS_MAX).max(1);
        let n_counters = cluster_of.len().div_ceil(n_documents_each);
        let mut sum = PairCounts { n_documents: cluster_of.len(), n_documents_each, counts: vec![0; n_counters] };
        for (files, is_super) in [(&self.index, false), (&self.supers, true)] {
            let count = |file: &Arc<RunFile<Posting>>| {
                let mut counts = vec![0u64; n_counters];
                each_mixed_list(context, file, cluster_of, |_, documents, _| {
                    for (at, document) in documents.iter().enumerate() {
                        counts[(document.0 as usize - 1) / n_documents_each] += self.n_earlier(at, is_super) as u64;
                    }
                    Ok(())
                })?;
                Ok(counts)
            };
            context.run_parallel(files.iter().collect(), count, |counts| {
                sum.counts.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
                Ok(())
            })?;
        }
        let n_postings: u64 = self.index.iter().chain(&self.supers).map(|file| file.n_rows()).sum();
        let n_slots_max = context.memory / 4 / size_of::<u32>() as u64;
        Ok(sum.ranges(n_slots_max.min(SLOTS_PER_RANGE.max(SLOTS_PER_POSTING * n_postings))))
    }

    /// Forms the pairs of different clusters whose later document is in a range.
    pub fn form_pairs(
        &self,
        context: &Context,
        cluster_of: &[u32],
        range: DocumentRange,
    ) -> Result<FormedPairs, BackfillError> {
        Ok(FormedPairs {
            from: range.from as usize,
            index: self.fill_slots(context, cluster_of, range, false)?,
            supers: self.fill_slots(context, cluster_of, range, true)?,
        })
    }

    fn fill_slots(
        &self,
        context: &Context,
        cluster_of: &[u32],
        range: DocumentRange,
        is_super: bool,
    ) -> Result<Slots, BackfillError> {
        let files = if is_super { &self.supers } else { &self.index };
        if files.is_empty() {
            return Ok(Slots::default());
        }
        let n_documents = (range.to - range.from) as usize;
        let mut positions: Vec<AtomicUsize> = std::iter::repeat_with(AtomicUsize::default).take(n_documents).collect();
        let count = |file: &Arc<RunFile<Posting>>| {
            self.each_later(context, file, is_super, cluster_of, range, |at, earlier| {
                positions[at].fetch_add(earlier.len(), Relaxed);
            })
        };
        context.run_parallel(files.iter().collect(), count, Ok)?;
        let mut n_slots = 0;
        for position in &mut positions {
            n_slots += std::mem::replace(position.get_mut(), n_slots);
        }
        let slots: Vec<AtomicU32> = std::iter::repeat_with(AtomicU32::default).take(n_slots).collect();
        let fill = |file: &Arc<RunFile<Posting>>| {
            self.each_later(context, file, is_super, cluster_of, range, |at, earlier| {
                let first = positions[at].fetch_add(earlier.len(), Relaxed);
                slots[first..].iter().zip(earlier).for_each(|(slot, document)| slot.store(*document, Relaxed));
            })
        };
        context.run_parallel(files.iter().collect(), fill, Ok)?;
        // Filling has moved every document's position from the start of its slots to their end.
        let ends = positions.into_iter().map(AtomicUsize::into_inner).collect();
        Ok(Slots { ends, earlier: slots.into_iter().map(AtomicU32::into_inner).collect() })
    }

    /// Calls `each` with every document of a range in every list: its position in the range, and the earlier
    /// documents of the list that are in other clusters.
    fn each_later(
        &self,
        context: &Context,
        file: &Arc<RunFile<Posting>>,
        is_super: bool,
        cluster_of: &[u32],
        range: DocumentRange,
        mut each: impl FnMut(usize, &[u32]),
    ) -> Result<(), BackfillError> {
        let mut others = Vec::new();
        each_mixed_list(context, file, cluster_of, |_, documents, clusters| {
            let begin = documents.partition_point(|document| document.0 <= range.from);
            let end = documents.partition_point(|document| document.0 <= range.to);
            for at in begin..end {
                let earlier = documents.iter().zip(clusters).take(self.n_earlier(at, is_super));
                others.clear();
                others.extend(earlier.filter(|(_, cluster)| **cluster != clusters[at]).map(|(document, _)| document.0));
                if !others.is_empty() {
                    each((documents[at].0 - 1 - range.from) as usize, &others);
                }
            }
            Ok(())
        })
    }
}

/// Calls `each` with every mixed list: its shingle, its documents, and the cluster of each document.
fn each_mixed_list(
    context: &Context,
    file: &Arc<RunFile<Posting>>,
    cluster_of: &[u32],
    mut each: impl FnMut(Shingle, &[DocumentId], &[u32]) -> Result<(), BackfillError>,
) -> Result<(), BackfillError> {
    let mut rows = file.read_all();
    let (mut shingle, mut documents, mut clusters) = (0, Vec::new(), Vec::new());
    let mut end = |shingle, documents: &mut Vec<DocumentId>| {
        clusters.clear();
        clusters.extend(documents.iter().map(|document| cluster_of[document.0 as usize - 1]));
        if clusters.iter().any(|cluster| *cluster != clusters[0]) {
            each(shingle, documents, &clusters)?;
        }
        documents.clear();
        Ok::<_, BackfillError>(())
    };
    while let Some(posting) = rows.next_row()? {
        if posting.shingle() != shingle {
            end(shingle, &mut documents)?;
            shingle = posting.shingle();
        }
        documents.push(posting.document());
    }
    end(shingle, &mut documents)?;
    context.check_stop()
}

/// Opens files of lists.
fn opened(context: &Context, dataset: Dataset<Posting>, files: &[DatasetFile]) -> Result<PostingFiles, BackfillError> {
    files.iter().map(|file| dataset.open(&context.folder, &file.file)).collect()
}

/// Copies the mixed lists in some files to as many others, whose names have `part` in them. `change` may remove documents of a
/// list.
fn copy_mixed(
    context: &Context,
    files: &PostingFiles,
    (dataset, part): (Dataset<Posting>, &str),
    cluster_of: &[u32],
    change: impl Fn(&mut Vec<DocumentId>) + Sync,
) -> Result<Vec<DatasetFile>, BackfillError> {
    let copy = |(at, file): (usize, &Arc<RunFile<Posting>>)| {
        let mut writer = dataset.create(&context.folder, format_args!("{part}-{at:04}"))?;
        let mut kept = Vec::new();
        each_mixed_list(context, file, cluster_of, |shingle, documents, _| {
            kept.clear();
            kept.extend_from_slice(documents);
            change(&mut kept);
            kept.iter().try_for_each(|document| writer.push(Posting::new(shingle, *document)).map(|_| ()))
        })?;
        writer.finish()
    };
    let mut copies = Vec::new();
    context.run_parallel(files.iter().enumerate().collect(), copy, |copy| {
        copies.push(copy);
        Ok(())
    })?;
    Ok(copies)
}

/// Leaves documents out of mixed lists of index shingles that share too little to be in any pair.
struct Pruning<'a> {
    /// How many mixed lists each document is in, which is as much as it can share with a document of another cluster.
    n_lists: Vec<AtomicU32>,
    min_shared: &'a MinShared,
}

impl Pruning<'_> {
    /// Keeps the documents of a list that may share enough with another one: those in as many lists as the least that one of its
    /// possible later documents needs.
    fn keep(&self, documents: &mut Vec<DocumentId>) {
        let n_lists = |document: &DocumentId| self.n_lists[document.0 as usize - 1].load(Relaxed);
        let needed = documents.iter().map(|document| (self.min_shared.of(*document), n_lists(document)));
        let least = needed.filter(|(needed, n_lists)| n_lists >= needed).map(|(needed, _)| needed).min();
        documents.retain(|document| least.is_some_and(|least| n_lists(document) >= least));
        if documents.len() < 2 {
            documents.clear();
        }
    }
}

/// The earlier documents of each document of a range.
#[derive(Default)]
struct Slots {
    /// Where the slots of each document end and those of the next one begin.
    ends: Vec<usize>,
    earlier: Vec<u32>,
}

impl Slots {
    /// The slots of the documents in the order of their numbers, to be taken a few documents at a time.
    fn of_documents(&mut self) -> SlotsLeft<'_> {
        SlotsLeft { ends: &self.ends, n_taken: 0, earlier: &mut self.earlier }
    }
}

/// Slots that are not taken yet.
#[derive(Default)]
struct SlotsLeft<'a> {
    ends: &'a [usize],
    n_taken: usize,
    earlier: &'a mut [u32],
}

impl<'a> SlotsLeft<'a> {
    /// The number of documents whose slots fill a chunk.
    fn n_documents_in_chunk(&self) -> usize {
        let n = self.ends.partition_point(|end| end - self.n_taken <= SLOTS_PER_CHUNK);
        n.max(1).min(self.ends.len())
    }

    /// Takes the slots of the next documents.
    fn take(&mut self, n_documents: usize) -> Self {
        let (ends, rest) = self.ends.split_at(n_documents.min(self.ends.len()));
        let n_slots = ends.last().map_or(0, |end| end - self.n_taken);
        let (earlier, left) = std::mem::take(&mut self.earlier).split_at_mut(n_slots);
        let taken = SlotsLeft { ends, n_taken: self.n_taken, earlier };
        *self = SlotsLeft { ends: rest, n_taken: self.n_taken + n_slots, earlier: left };
        taken
    }

    /// Sorts the slots of the next document and returns them.
    fn next_sorted(&mut self) -> &'a [u32] {
        let SlotsLeft { earlier, .. } = self.take(1);
        earlier.sort_unstable();
        earlier
    }
}

/// The pairs of a range of documents.
pub(in crate::backfill) struct FormedPairs {
    from: usize,
    index: Slots,
    supers: Slots,
}

/// Some documents of a range, and their slots.
struct PairChunk<'a> {
    from: usize,
    n_documents: usize,
    index: SlotsLeft<'a>,
    supers: SlotsLeft<'a>,
}

impl FormedPairs {
    /// The number of pairs, each counted once for every shingle that it shares.
    pub fn n_shared(&self) -> u64 {
        (self.index.earlier.len() + self.supers.earlier.len()) as u64
    }

    /// Calls `each` with every wanted pair, in order. All threads prepare them.
    pub fn each(
        &mut self,
        context: &Context,
        is_wanted: impl Fn(&Pair) -> bool + Sync,
        mut each: impl FnMut(Pair) -> Result<(), BackfillError>,
    ) -> Result<(), BackfillError> {
        let n_documents = self.index.ends.len().max(self.supers.ends.len());
        let (mut from, to) = (self.from, self.from + n_documents);
        let (mut index, mut supers) = (self.index.of_documents(), self.supers.of_documents());
        let worker = || |chunk: PairChunk<'_>| chunk.pairs(context, &is_wanted);
        let (taken, read) = in_order(
            context,
            |send| {
                while from < to {
                    let most = if index.ends.is_empty() { &supers } else { &index };
                    let n_documents = most.n_documents_in_chunk();
                    let (index, supers) = (index.take(n_documents), supers.take(n_documents));
                    if !send(PairChunk { from, n_documents, index, supers }) {
                        break;
                    }
                    from += n_documents;
                }
                Ok(())
            },
            worker,
            |pairs| pairs.into_iter().try_for_each(&mut each),
        );
        taken.and(read)
    }
}

impl PairChunk<'_> {
    /// The wanted pairs, in order.
    fn pairs(mut self, context: &Context, is_wanted: impl Fn(&Pair) -> bool) -> Vec<Pair> {
        context.progress.advance((self.index.earlier.len() + self.supers.earlier.len()) as u64);
        let mut pairs = Vec::new();
        let mut add = |pair: Pair| pairs.extend(is_wanted(&pair).then_some(pair));
        for at in 0..self.n_documents {
            let later = DocumentId((self.from + at) as u32 + 1);
            let mut supers = self.supers.next_sorted().chunk_by(u32::eq).map(|same| same[0]).peekable();
            for same in self.index.next_sorted().chunk_by(u32::eq) {
                let earlier = same[0];
                while let Some(before) = supers.next_if(|other| *other < earlier) {
                    add(Pair::new(later, DocumentId(before), 0, true));
                }
                let is_nominated = supers.next_if_eq(&earlier).is_some();
                add(Pair::new(later, DocumentId(earlier), same.len() as u32, is_nominated));
            }
            supers.for_each(|earlier| add(Pair::new(later, DocumentId(earlier), 0, true)));
        }
        pairs
    }
}

impl PairCounts {
    /// Ranges of documents whose pairs are within the budget, or that one counter serves.
    fn ranges(&self, n_pairs_max: u64) -> Vec<DocumentRange> {
        let mut ranges = Vec::new();
        let (mut from, mut n_pairs) = (0, 0);
        for (at, n) in self.counts.iter().enumerate() {
            let begin = at * self.n_documents_each;
            if n_pairs > 0 && n_pairs + n > n_pairs_max {
                ranges.push(DocumentRange { from: from as u32, to: begin as u32 });
                (from, n_pairs) = (begin, 0);
            }
            n_pairs += n;
        }
        if n_pairs > 0 {
            ranges.push(DocumentRange { from: from as u32, to: self.n_documents as u32 });
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::MatchRule;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn posting_file<'a>(
        context: &Context,
        lists: impl IntoIterator<Item = (Shingle, impl IntoIterator<Item = &'a u32>)>,
    ) -> PostingFiles {
        let mut writer = LISTS.create(&context.folder, 0).expect("created");
        for (shingle, documents) in lists {
            for document in documents {
                writer.push(Posting::new(shingle, DocumentId(*document))).expect("written");
            }
        }
        vec![LISTS.open(&context.folder, &writer.finish().expect("finished").file).expect("opens")]
    }

    fn context(folder: &tempfile::TempDir) -> Context {
        Context {
            folder: folder.path().to_path_buf(),
            n_threads: 2,
            memory: 1 << 20,
            stop: Arc::default(),
            progress: Arc::default(),
        }
    }

    /// Later and earlier document and how much they share, of the pairs that the mixed lists form and `min_shared` lets through.
    fn candidates(lists: Lists, context: &Context, cluster_of: &[u32], min_shared: &MinShared) -> Vec<(u32, u32, u32)> {
        let (mixed, _) = lists.mixed(context, cluster_of, min_shared).expect("written");
        let mut found = Vec::new();
        for range in mixed.document_ranges(context, cluster_of).expect("counted") {
            let mut pairs = mixed.form_pairs(context, cluster_of, range).expect("formed");
            let add = |pair: Pair| {
                found.push((pair.later().0, pair.earlier().0, pair.n_shared));
                Ok(())
            };
            pairs.each(context, |pair| min_shared.makes_candidate(pair), add).expect("read");
        }
        found
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        /// Lost if this fails: a candidate, because a document that it needs was left out of a list.
        #[test]
        fn lists_without_what_shares_too_little_form_all_candidates(
            lists in prop::collection::vec(prop::collection::btree_set(1u32..=12, 1..8), 0..20),
            cluster_of in prop::collection::vec(1u32..8, 12),
            needed in prop::collection::vec(1u32..5, 12),
        ) {
            let folder = tempfile::tempdir().expect("a folder");
            let context = context(&folder);
            // Documents that must share all of so many shingles.
            let rule = MatchRule { threshold: 1.0, min_shared: 100, ..MatchRule::default() };
            let mut min_shared = MinShared::default();
            needed.iter().for_each(|needed| min_shared.push(&rule, *needed));
            let files = posting_file(&context, (1..).zip(&lists));
            let found = candidates(Lists::new(files, PostingFiles::new(), 1000), &context, &cluster_of, &min_shared);
            let mut expected: BTreeMap<(u32, u32), u32> = BTreeMap::new();
            for list in &lists {
                for later in list {
                    let is_other = |earlier: &&u32| cluster_of[**earlier as usize - 1] != cluster_of[*later as usize - 1];
                    list.range(..later).filter(is_other).for_each(|at| *expected.entry((*later, *at)).or_default() += 1);
                }
            }
            expected.retain(|(later, _), n_shared| *n_shared >= needed[*later as usize - 1]);
            let found: BTreeSet<_> = found.into_iter().collect();
            prop_assert_eq!(found, expected.into_iter().map(|((later, earlier), n)| (later, earlier, n)).collect());
        }
    }

    #[test]
    fn lists_within_one_cluster_are_left_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        let context = context(&folder);
        let lists: [(Shingle, &[u32]); 4] = [(3, &[1, 2]), (5, &[2, 4]), (7, &[1, 2, 4]), (9, &[3, 4])];
        let lists = || Lists::new(posting_file(&context, lists), PostingFiles::new(), 1000);
        // 1 and 2 are one cluster, and so are 3 and 4.
        let (cluster_of, min_shared) = ([1, 1, 3, 3], MinShared::none(4));
        let (_, files) = lists().mixed(&context, &cluster_of, &min_shared).expect("written");
        assert_eq!(files.iter().map(|file| file.file.n_rows).sum::<u64>(), 5, "2 and 4; 1, 2 and 4");
        assert_eq!(candidates(lists(), &context, &cluster_of, &min_shared), [(4, 1, 1), (4, 2, 2)]);
    }
}
