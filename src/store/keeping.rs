//! Which events stay in the outbox after they were published.

use super::db::{family, get_meta, synced};
use super::rocks_error::{damaged, failed};
use super::schema::{Fields, cf, meta};
use crate::ports::StoreError;
use rocksdb::{DB, WriteBatch};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Which events a store keeps.
pub(super) struct Keeping {
    /// How many of the newest this process wants to keep.
    n_wanted: u64,
    /// The first row of the outbox.
    first: Arc<AtomicU64>,
    /// Whether the store says that it keeps events.
    is_noted: AtomicBool,
    /// The first row that a program left which knows nothing of kept events.
    stale: Option<u64>,
}

impl Keeping {
    /// Reads which events a store keeps.
    pub fn read(db: &DB, published: u64, n_wanted: u64) -> Result<Self, StoreError> {
        let keeping =
            |first: u64, is_noted, stale| Keeping { n_wanted, first: Arc::new(first.into()), is_noted, stale };
        let Some(row) = get_meta(db, meta::KEPT_FROM)? else { return Ok(keeping(published, false.into(), None)) };
        let mut fields = Fields(&row);
        let note = fields.u64().zip(fields.u64()).filter(|(first, noted)| first <= noted);
        let (first, noted) = note.ok_or_else(|| damaged("meta/kept-from"))?;
        Ok(if noted == published {
            keeping(first, true.into(), None)
        } else {
            keeping(published, false.into(), Some(first))
        })
    }

    /// Notes that a batch is written after which the outbox begins here.
    pub fn written(&self, first: u64) {
        self.first.store(first, Ordering::Release);
        self.is_noted.store(self.n_wanted > 0, Ordering::Release);
    }

    /// The first row of the outbox.
    pub fn first(&self) -> u64 {
        self.first.load(Ordering::Acquire)
    }

    /// Adds the note that the outbox begins with `first` to a batch.
    pub fn put(&self, db: &DB, (first, published): (u64, u64), rows: &mut WriteBatch) -> Result<(), StoreError> {
        let metas = family(db, cf::META)?;
        if self.n_wanted > 0 {
            rows.put_cf(metas, meta::KEPT_FROM, [first.to_be_bytes(), published.to_be_bytes()].concat());
        } else if self.stale.is_some() || self.is_noted() {
            rows.delete_cf(metas, meta::KEPT_FROM);
        }
        Ok(())
    }

    /// Begins to keep events, if that is wanted, and deletes what a program left that knows nothing of them. What is kept
    /// without being wanted stays until the next batch: not every command has the settings of `run`.
    pub fn begin(&mut self, db: &DB, published: u64) -> Result<(), StoreError> {
        let begins = self.n_wanted > 0 && !self.is_noted();
        if !begins && self.stale.is_none() {
            return Ok(());
        }
        let (mut rows, first) = (WriteBatch::default(), self.first());
        if let Some(stale) = self.stale {
            rows.delete_range_cf(family(db, cf::OUTBOX)?, stale.to_be_bytes(), first.to_be_bytes());
        }
        self.put(db, (first, published), &mut rows)?;
        db.write_opt(rows, &synced()).map_err(failed)?;
        self.written(first);
        self.stale = None;
        Ok(())
    }

    /// Where the outbox begins once so much is published.
    pub fn first_kept(&self, published: u64, next_seq: u64) -> u64 {
        first_kept(self.n_wanted, published, next_seq)
    }

    /// Whether this process wants to keep events.
    pub fn is_wanted(&self) -> bool {
        self.n_wanted > 0
    }

    /// Whether the store says that it keeps events.
    pub fn is_noted(&self) -> bool {
        self.is_noted.load(Ordering::Acquire)
    }

    /// The first row of the outbox, as it will be.
    pub fn shared_first(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.first)
    }
}

/// Where the outbox begins: it has what is not published, and the newest events.
fn first_kept(n_wanted: u64, published: u64, next_seq: u64) -> u64 {
    published.min(next_seq.saturating_sub(n_wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_published_is_always_kept() {
        for ((n_wanted, published, next_seq), first) in [
            ((0, 7, 9), 7),
            ((0, 9, 9), 9),
            ((1, 9, 9), 8),
            ((1, 5, 9), 5),
            ((3, 7, 9), 6),
            ((9, 9, 9), 0),
            ((100, 9, 9), 0),
            ((u64::MAX, 0, 0), 0),
        ] {
            assert_eq!(first_kept(n_wanted, published, next_seq), first, "{n_wanted} {published} {next_seq}");
        }
    }
}
