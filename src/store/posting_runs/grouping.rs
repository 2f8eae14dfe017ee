//! Which runs are in which group.

use super::group::{Membership, OpenGroup, SharedFilter};
use super::key::RunName;
use super::live::{PostingRun, PostingRuns};
use super::tiers::{LARGE, n_parts};
use super::writer::{RunSize, RunWriter};
use crate::ports::StoreError;
use crate::store::schema::PostingKind;
use rocksdb::Options;
use std::path::Path;
use std::sync::{Arc, MutexGuard, PoisonError};

/// Parts of the posting buffer that some runs hold.
fn n_parts_of(runs: &[Arc<PostingRun>]) -> u64 {
    runs.iter().map(|run| n_parts(run.name.level)).sum()
}

/// The level of the run that a group becomes. In a small store it is a small run, whose filter takes little memory.
fn level_of_groups(runs: &[Arc<PostingRun>]) -> u8 {
    if runs.iter().any(|run| run.name.level > 0) { LARGE } else { 1 }
}

/// The runs at the end that will be merged into a run of a level, with those to come.
fn below(runs: &[Arc<PostingRun>], level: u8) -> &[Arc<PostingRun>] {
    let first = runs.iter().rposition(|run| run.name.level >= level).map_or(0, |last| last + 1);
    &runs[first..]
}

impl PostingRuns {
    /// A run of level 0 for so many lists, which joins the group of new runs. Its files will be in `folder`.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn new_run<'o>(
        &self,
        kind: PostingKind,
        n_lists: u64,
        folder: &Path,
        options: &'o Options,
    ) -> Result<RunWriter<'o>, StoreError> {
        let name = RunName { number: self.new_number(), level: 0 };
        let membership = Membership::Joins(self.join_group(kind, n_lists)?);
        let files = folder.join(format!("new-{}", kind.family()));
        RunWriter::new(name, membership, self.size(kind, n_lists), files, options)
    }

    /// A run for the lists of some runs. Its files will be in `folder`.
    pub(super) fn merged_run<'o>(
        &self,
        kind: PostingKind,
        runs: &[Arc<PostingRun>],
        folder: &Path,
        options: &'o Options,
    ) -> Result<RunWriter<'o>, StoreError> {
        let level = runs.iter().map(|run| run.name.level).max().unwrap_or_default().saturating_add(1);
        let name = RunName { number: self.new_number(), level };
        let n_lists = runs.iter().map(|run| run.n_lists()).sum();
        let files = folder.join(format!("merged-{}", kind.family()));
        RunWriter::new(name, self.membership(kind, runs, level), self.size(kind, n_lists), files, options)
    }

    /// What is known of the lists of a new run.
    fn size(&self, kind: PostingKind, n_lists: u64) -> RunSize {
        RunSize { kind, width: self.width(kind), n_lists, short_max: self.short_max }
    }

    /// The group of new runs.
    fn open_group(&self, kind: PostingKind) -> MutexGuard<'_, Option<OpenGroup>> {
        self.groups[kind as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a new run of so many lists join a group. Returns the group's filter, to which the lists must be added before the run counts.
    fn join_group(&self, kind: PostingKind, n_lists: u64) -> Result<SharedFilter, StoreError> {
        let mut open = self.open_group(kind);
        let mut group = match open.take().filter(|group| group.has_room(1, n_lists)) {
            Some(group) => group,
            None => {
                let runs = self.of(kind);
                let level = level_of_groups(&runs);
                // It ends with the run that those before it will be a part of, too.
                let before = n_parts_of(below(&runs, level)) % n_parts(level);
                OpenGroup::new(kind, n_parts(level) - before, n_lists, self.short_max)?
            }
        };
        let filter = group.join(1, n_lists);
        *open = Some(group).filter(|group| !group.is_full());
        Ok(filter)
    }

    /// What the run of this level has to do with a group that some runs are merged into.
    fn membership(&self, kind: PostingKind, merged: &[Arc<PostingRun>], level: u8) -> Membership {
        let group = merged.first().and_then(|run| run.group.get());
        let Some(group) = group.filter(|group| merged.iter().all(|run| run.is_in(group))) else {
            return Membership::None;
        };
        let is_merged = |run: &Arc<PostingRun>| merged.iter().any(|other| Arc::ptr_eq(run, other));
        let is_open = self.open_group(kind).as_ref().is_some_and(|open| open.has(group));
        if !is_open && self.of(kind).iter().all(|run| !run.is_in(group) || is_merged(run)) {
            Membership::Completes(group.clone())
        } else if level < LARGE {
            Membership::Stays(group.clone())
        } else {
            Membership::None
        }
    }

    /// Makes a group of the small runs at the end, which a start finds without their group. Makes none if `should_stop` says so.
    pub(super) fn regroup(&self, kind: PostingKind, should_stop: impl Fn() -> bool) -> Result<(), StoreError> {
        // New runs wait.
        let mut open = self.open_group(kind);
        let runs = self.of(kind);
        let level = level_of_groups(&runs);
        let small = below(&runs, level);
        if open.is_some() || small.is_empty() {
            return Ok(());
        }
        let (parts, n_lists) = (n_parts_of(small), small.iter().map(|run| run.n_lists()).sum::<u64>());
        let mut group = OpenGroup::new(kind, n_parts(level), n_lists.div_ceil(parts), self.short_max)?;
        if !group.has_room(parts, n_lists) {
            // Merging lags behind.
            return Ok(());
        }
        let filter = group.join(parts, n_lists);
        for run in small {
            if should_stop() {
                return Ok(());
            }
            self.each_block(kind, run.name.number, &mut |hashes| filter.write().insert_all(hashes))?;
        }
        // Only now that all lists are there.
        for run in small {
            let _ = run.group.set(filter.clone());
        }
        *open = Some(group).filter(|group| !group.is_full());
        Ok(())
    }

    /// Whether all small runs of index shingles at the end are in a group.
    #[cfg(test)]
    pub fn has_groups(&self) -> bool {
        let runs = self.of(PostingKind::Index);
        below(&runs, level_of_groups(&runs)).iter().all(|run| run.group.get().is_some())
    }
}
