//! Groups: small runs that will be merged into one run share a filter, and each has one of its own besides.
//!
//! ```text
//! group's filter ─────────────────▶ filter of the merged run
//! ├─ run and its filter ─┐
//! ├─ run and its filter ─┼─ … ────▶ merged run
//! └─ …                   ┘
//! ```
//! A look-up asks the group's filter first. It says of most shingles that no run of the group has them, so that one read from memory
//! does for up to fourteen runs. The filter is as large as the merged run needs it, and becomes that run's own: it takes memory
//! earlier than it would otherwise, and no more of it.

use super::filter::RunFilter;
use super::tiers::LARGE;
use crate::ports::StoreError;
use crate::store::schema::PostingKind;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A filter that is asked while it is filled.
#[derive(Clone)]
pub(super) struct SharedFilter(Arc<RwLock<RunFilter>>);

impl SharedFilter {
    /// Shares a filter.
    pub fn new(filter: RunFilter) -> Self {
        SharedFilter(Arc::new(RwLock::new(filter)))
    }

    /// The filter, to ask it.
    pub fn read(&self) -> RwLockReadGuard<'_, RunFilter> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The filter, to add to it.
    pub fn write(&self) -> RwLockWriteGuard<'_, RunFilter> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this is the same filter.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// What a run that is being written has to do with a group.
pub(super) enum Membership {
    /// Nothing.
    None,
    /// Its lists are new in the group.
    Joins(SharedFilter),
    /// It is merged from some runs of the group.
    Stays(SharedFilter),
    /// It is merged from all runs of the group, and takes over the filter.
    Completes(SharedFilter),
}

/// A group that has room for more runs.
pub(super) struct OpenGroup {
    filter: SharedFilter,
    /// Parts of the posting buffer that may still join.
    parts_left: u64,
    /// Lists that may still be added: at first a quarter more than expected, because parts differ.
    lists_left: u64,
}

impl OpenGroup {
    /// An empty group, for so many parts of the posting buffer, with so many lists each. Those of more than `short_max` documents
    /// are long.
    ///
    /// # Errors
    /// [`StoreError`] without memory for the filter.
    pub fn new(kind: PostingKind, parts: u64, lists_of_part: u64, short_max: u64) -> Result<Self, StoreError> {
        let n_lists = lists_of_part.saturating_mul(parts);
        // As of a large run, which is in no group: what it lets through is not asked further.
        let filter = SharedFilter::new(RunFilter::for_lists(kind, n_lists, LARGE, short_max)?);
        Ok(OpenGroup { filter, parts_left: parts, lists_left: n_lists.saturating_add(n_lists / 4) })
    }

    /// Whether a run of so many parts and lists may join.
    pub fn has_room(&self, parts: u64, n_lists: u64) -> bool {
        parts <= self.parts_left && n_lists <= self.lists_left
    }

    /// Takes a run into the group. Returns the filter, which must have the run's lists before the run says that it is in the group.
    pub fn join(&mut self, parts: u64, n_lists: u64) -> SharedFilter {
        self.parts_left = self.parts_left.saturating_sub(parts);
        self.lists_left = self.lists_left.saturating_sub(n_lists);
        self.filter.clone()
    }

    /// Whether no other run can join.
    pub fn is_full(&self) -> bool {
        self.parts_left == 0
    }

    /// Whether this filter is the group's.
    pub fn has(&self, filter: &SharedFilter) -> bool {
        self.filter.is(filter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_room_for_so_many_parts_and_lists() {
        let mut group = OpenGroup::new(PostingKind::Index, 8, 100, 7).expect("memory");
        let filter = group.join(6, 600);
        assert!(group.has(&filter) && group.has_room(2, 400) && !group.is_full());
        assert!(!group.has_room(3, 100) && !group.has_room(1, 401));
        group.join(2, 200);
        assert!(group.is_full() && !group.has_room(1, 1));
    }
}
