//! Looks shingles up in all runs.

use super::cursor::Cursor;
use super::filter::{Key, RunFilter};
use super::live::{PostingRun, PostingRuns};
use super::unneeded::unneeded;
use crate::cluster::{IndexQuery, PostingList, UnreadIn};
use crate::document::DocumentId;
use crate::ports::StoreError;
use crate::sketch::Shingle;
use crate::store::rocks_error::damaged;
use crate::store::schema::{self, PostingKind};
use std::borrow::Cow;
use std::sync::Arc;

/// Keys that all filters are asked for before the next ones, so that what was computed of them stays in the processor's caches.
const KEYS_TOGETHER: usize = 256;

/// Runs in row that share a filter, or a run that shares none.
type Place = [Arc<PostingRun>];

/// The places of some runs, in order.
fn places(runs: &[Arc<PostingRun>]) -> Vec<&Place> {
    let share_filter = |a: &Arc<PostingRun>, b: &Arc<PostingRun>| b.group.get().is_some_and(|group| a.is_in(group));
    runs.chunk_by(share_filter).collect()
}

impl PostingRuns {
    /// The documents of each shingle, ascending.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn look_up(&self, kind: PostingKind, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, StoreError> {
        let runs = self.of(kind);
        let places = places(&runs);
        let possible = self.possible(kind, &places, shingles)?;
        self.read_lists(kind, &places, shingles, &possible)
    }

    /// The documents of each index shingle, ascending, except those of lists that `pages` do not need. `buffered` are those in the
    /// posting buffer.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn look_up_for(
        &self,
        shingles: &[Shingle],
        buffered: &[Vec<DocumentId>],
        pages: &[IndexQuery],
    ) -> Result<Vec<PostingList>, StoreError> {
        let kind = PostingKind::Index;
        let runs = self.of(kind);
        let places = places(&runs);
        let mut possible = self.possible(kind, &places, shingles)?;
        let mut unread = unneeded(shingles, buffered, &possible, pages);
        let may_be_unread = self.short_max.saturating_mul(runs.len() as u64) <= self.unread_max;
        for (place, possible) in places.iter().zip(&possible) {
            let has_short = |filter: &RunFilter, at: usize| {
                filter.short_max() <= self.short_max && !filter.may_contain(&Key::of(shingles[at]).of_long())
            };
            self.with_filter(kind, place, possible.len(), |filter| {
                for at in possible {
                    let is_short = |_: &UnreadIn| may_be_unread && filter.is_some_and(|filter| has_short(filter, *at));
                    unread[*at] = unread[*at].filter(is_short);
                }
            })?;
        }
        possible.iter_mut().for_each(|possible| possible.retain(|at| unread[*at].is_none()));
        let lists = self.read_lists(kind, &places, shingles, &possible)?;
        let list = |(documents, unread)| match unread {
            Some(parts) => PostingList::Unread(parts),
            None => PostingList::Read(documents),
        };
        Ok(lists.into_iter().zip(unread).map(list).collect())
    }

    /// For each place, where in `shingles` those are that it may hold.
    fn possible(
        &self,
        kind: PostingKind,
        places: &[&Place],
        shingles: &[Shingle],
    ) -> Result<Vec<Vec<usize>>, StoreError> {
        let mut possible = vec![Vec::new(); places.len()];
        for (first, shingles) in (0..).step_by(KEYS_TOGETHER).zip(shingles.chunks(KEYS_TOGETHER)) {
            let keys: Vec<Key> = shingles.iter().copied().map(Key::of).collect();
            for (place, possible) in places.iter().zip(&mut possible) {
                self.with_filter(kind, place, keys.len(), |filter| match filter {
                    Some(filter) => possible.extend(filter.possible(&keys).into_iter().map(|at| first + at)),
                    None => possible.extend(first..first + keys.len()),
                })?;
            }
        }
        Ok(possible)
    }

    /// Calls `ask` with the filter of a place, for so many keys. It has none where a read-only store has not read that of its run.
    fn with_filter(
        &self,
        kind: PostingKind,
        place: &Place,
        n_keys: usize,
        ask: impl FnOnce(Option<&RunFilter>),
    ) -> Result<(), StoreError> {
        let Some(run) = place.first() else { return Ok(()) };
        let filter = match run.group.get() {
            Some(group) => Some(group),
            None => self.filter_of(kind, run, n_keys)?,
        };
        ask(filter.map(|filter| filter.read()).as_deref());
        Ok(())
    }

    /// The lists of some shingles. `possible` says of each place where in `shingles` those are that it may hold.
    fn read_lists(
        &self,
        kind: PostingKind,
        places: &[&Place],
        shingles: &[Shingle],
        possible: &[Vec<usize>],
    ) -> Result<Vec<Vec<DocumentId>>, StoreError> {
        let mut lists = vec![Vec::new(); shingles.len()];
        let mut cursor = None;
        for (place, possible) in places.iter().zip(possible) {
            // A run that shares no filter was asked already.
            let is_group = place.first().is_some_and(|run| run.group.get().is_some());
            let of_group = if is_group { &possible[..] } else { &[] };
            let keys: Vec<Key> = of_group.iter().map(|at| Key::of(shingles[*at])).collect();
            for run in place.iter() {
                let own = if is_group { self.filter_of(kind, run, 0)? } else { None };
                let of_run: Cow<'_, [usize]> = match own {
                    Some(filter) => filter.read().possible(&keys).into_iter().map(|at| possible[at]).collect(),
                    None => Cow::Borrowed(possible),
                };
                for at in of_run.iter().copied() {
                    let cursor = match &mut cursor {
                        Some(cursor) => cursor,
                        none => none.insert(Cursor::new(self.rows(kind, false)?, kind, self.width(kind))),
                    };
                    if let Some(documents) = cursor.find(run.name.number, shingles[at])? {
                        let read = schema::read_documents(documents, &mut lists[at]);
                        read.ok_or_else(|| damaged(format!("a list of {}", kind.family())))?;
                    }
                }
            }
        }
        Ok(lists)
    }
}
