//! Forms <document, document, count> from the lists, as many documents at a time as their pairs fit in memory.
//!
//! A pair that shares a shingle takes four bytes: the earlier document, in a slot of the later one. Slots are counted before
//! they are filled, so that nothing grows and all threads fill them at once; then each document's own are sorted, and what
//! stands in several is shared as often.

use crate::backfill::checkpoint::Checkpoint;
use crate::backfill::context::Context;
use crate::backfill::error::BackfillError;
use crate::backfill::phases::lists::{LISTS, Postings, SUPER_LISTS};
use crate::backfill::rows::{Pair, Posting};
use crate::document::DocumentId;
use crate::extsort::RunFile;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

/// Stretches of documents: how many, at most, the pairs are counted in before they are formed.
const STRETCHES_MAX: usize = 1 << 16;

/// The lists that pairs are formed of.
pub(in crate::backfill) struct Lists {
    index: Postings,
    supers: Postings,
    limit: usize,
}

/// How many pairs each stretch of documents has at most.
struct Counts {
    n_documents: usize,
    stretch: usize,
    counts: Vec<u64>,
}

/// The documents after one and not after another.
#[derive(Clone, Copy)]
struct Stretch {
    from: usize,
    to: usize,
}

impl Lists {
    /// Those that the phase before wrote.
    pub fn of(checkpoint: &Checkpoint) -> Result<Self, BackfillError> {
        let (index, supers) = (checkpoint.runs(LISTS.0, LISTS.1)?, checkpoint.runs(SUPER_LISTS.0, SUPER_LISTS.1)?);
        Ok(Self::new(index, supers, checkpoint.rule().cluster.common_limit))
    }

    /// The lists in some files: of index shingles, and of super shingles, of which the first `limit` and one nominate.
    pub fn new(index: Postings, supers: Postings, limit: usize) -> Self {
        Lists { index, supers, limit }
    }

    /// Calls `each` with every list whose documents are not all in one cluster, and the cluster of each of them.
    fn each(
        context: &Context,
        run: &Arc<RunFile<Posting>>,
        names: &[u32],
        mut each: impl FnMut(&[DocumentId], &[u32]),
    ) -> Result<(), BackfillError> {
        let mut rows = run.read_all();
        let (mut shingle, mut documents, mut clusters) = (None, Vec::new(), Vec::new());
        let mut end = |documents: &mut Vec<DocumentId>| {
            clusters.clear();
            clusters.extend(documents.iter().map(|document| names[document.0 as usize - 1]));
            if clusters.iter().any(|cluster| *cluster != clusters[0]) {
                each(documents, &clusters);
            }
            documents.clear();
        };
        while let Some(posting) = rows.next()? {
            if shingle.replace(posting.shingle()) != Some(posting.shingle()) {
                end(&mut documents);
            }
            documents.push(posting.document());
        }
        end(&mut documents);
        context.check()
    }

    /// Of a list of super shingles only the first documents nominate.
    fn n_earlier(&self, at: usize, is_super: bool) -> usize {
        if is_super { at.min(self.limit + 1) } else { at }
    }

    /// The stretches of documents whose pairs fit in a quarter of the memory, or that cannot be cut any more.
    pub fn stretches(&self, context: &Context, names: &[u32]) -> Result<Vec<(usize, usize)>, BackfillError> {
        let stretch = names.len().div_ceil(STRETCHES_MAX).max(1);
        let n_stretches = names.len().div_ceil(stretch);
        let mut counts = Counts { n_documents: names.len(), stretch, counts: vec![0; n_stretches] };
        for (runs, is_super) in [(&self.index, false), (&self.supers, true)] {
            let job = |run: &Arc<RunFile<Posting>>| {
                let mut counts = vec![0u64; n_stretches];
                Self::each(context, run, names, |documents, _| {
                    for (at, document) in documents.iter().enumerate() {
                        counts[(document.0 as usize - 1) / stretch] += self.n_earlier(at, is_super) as u64;
                    }
                })?;
                Ok(counts)
            };
            context.each(runs.iter().collect(), job, |found| {
                counts.counts.iter_mut().zip(found).for_each(|(sum, n)| *sum += n);
                Ok(())
            })?;
        }
        Ok(counts.stretches(context.memory / 4 / size_of::<u32>() as u64))
    }

    /// The pairs of different clusters whose later document is after `from` and not after `to`.
    pub fn pairs(&self, context: &Context, names: &[u32], from: usize, to: usize) -> Result<Formed, BackfillError> {
        let stretch = Stretch { from, to };
        Ok(Formed {
            from,
            index: self.slots(context, names, stretch, false)?,
            supers: self.slots(context, names, stretch, true)?,
        })
    }

    fn slots(
        &self,
        context: &Context,
        names: &[u32],
        stretch: Stretch,
        is_super: bool,
    ) -> Result<Slots, BackfillError> {
        let runs = if is_super { &self.supers } else { &self.index };
        if runs.is_empty() {
            return Ok(Slots::default());
        }
        let mut places: Vec<AtomicUsize> =
            std::iter::repeat_with(AtomicUsize::default).take(stretch.to - stretch.from).collect();
        let count = |run: &Arc<RunFile<Posting>>| {
            self.each_later(context, run, is_super, names, stretch, |at, earlier| {
                places[at].fetch_add(earlier.len(), Relaxed);
            })
        };
        context.each(runs.iter().collect(), count, Ok)?;
        let mut n_slots = 0;
        for place in &mut places {
            n_slots += std::mem::replace(place.get_mut(), n_slots);
        }
        let slots: Vec<AtomicU32> = std::iter::repeat_with(AtomicU32::default).take(n_slots).collect();
        let fill = |run: &Arc<RunFile<Posting>>| {
            self.each_later(context, run, is_super, names, stretch, |at, earlier| {
                let first = places[at].fetch_add(earlier.len(), Relaxed);
                slots[first..].iter().zip(earlier).for_each(|(slot, document)| slot.store(*document, Relaxed));
            })
        };
        context.each(runs.iter().collect(), fill, Ok)?;
        // Where a document's slots were to begin they now end.
        let ends = places.into_iter().map(AtomicUsize::into_inner).collect();
        Ok(Slots { ends, earlier: slots.into_iter().map(AtomicU32::into_inner).collect() })
    }

    /// Calls `each` with every document of a stretch in every list, as its place in the stretch, and the earlier documents
    /// in the list that are of other clusters.
    fn each_later(
        &self,
        context: &Context,
        run: &Arc<RunFile<Posting>>,
        is_super: bool,
        names: &[u32],
        stretch: Stretch,
        mut each: impl FnMut(usize, &[u32]),
    ) -> Result<(), BackfillError> {
        let mut others = Vec::new();
        Self::each(context, run, names, |documents, clusters| {
            let begin = documents.partition_point(|document| document.0 as usize <= stretch.from);
            let end = documents.partition_point(|document| document.0 as usize <= stretch.to);
            for at in begin..end {
                let earlier = documents.iter().zip(clusters).take(self.n_earlier(at, is_super));
                others.clear();
                others.extend(earlier.filter(|(_, cluster)| **cluster != clusters[at]).map(|(document, _)| document.0));
                if !others.is_empty() {
                    each(documents[at].0 as usize - 1 - stretch.from, &others);
                }
            }
        })
    }
}

/// The earlier documents of each document of a stretch.
#[derive(Default)]
struct Slots {
    /// Where the slots of each document end; those of the next one begin there.
    ends: Vec<usize>,
    earlier: Vec<u32>,
}

impl Slots {
    /// The slots of a document, sorted.
    fn sorted(&mut self, at: usize) -> &[u32] {
        let Some(end) = self.ends.get(at) else { return &[] };
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        let slots = &mut self.earlier[begin..*end];
        slots.sort_unstable();
        slots
    }
}

/// The pairs of a stretch of documents.
pub(in crate::backfill) struct Formed {
    from: usize,
    index: Slots,
    supers: Slots,
}

impl Formed {
    /// How many there are, each counted as often as it shares something.
    pub fn n_pairs(&self) -> u64 {
        (self.index.earlier.len() + self.supers.earlier.len()) as u64
    }

    /// Calls `each` with every pair, in their order.
    pub fn each(&mut self, mut each: impl FnMut(Pair) -> Result<(), BackfillError>) -> Result<(), BackfillError> {
        for at in 0..self.index.ends.len().max(self.supers.ends.len()) {
            let later = DocumentId((self.from + at) as u32 + 1);
            let mut supers = self.supers.sorted(at).chunk_by(u32::eq).map(|same| same[0]).peekable();
            for same in self.index.sorted(at).chunk_by(u32::eq) {
                let earlier = same[0];
                while let Some(before) = supers.next_if(|other| *other < earlier) {
                    each(Pair::new(later, DocumentId(before), 0, true))?;
                }
                let is_nominated = supers.next_if_eq(&earlier).is_some();
                each(Pair::new(later, DocumentId(earlier), same.len() as u32, is_nominated))?;
            }
            supers.try_for_each(|earlier| each(Pair::new(later, DocumentId(earlier), 0, true)))?;
        }
        Ok(())
    }
}

impl Counts {
    /// Stretches of documents, each as long as its pairs are within the budget, or one of ours.
    fn stretches(&self, budget: u64) -> Vec<(usize, usize)> {
        let mut stretches = Vec::new();
        let (mut from, mut sum) = (0, 0);
        for (at, n) in self.counts.iter().enumerate() {
            if sum > 0 && sum + n > budget {
                stretches.push((from, at * self.stretch));
                (from, sum) = (at * self.stretch, 0);
            }
            sum += n;
        }
        if sum > 0 {
            stretches.push((from, self.n_documents));
        }
        stretches
    }
}
