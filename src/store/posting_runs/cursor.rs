//! Finds lists in runs.

use super::block::lists_of;
use super::key::{block_key, is_block};
use crate::ports::StoreError;
use crate::sketch::Shingle;
use crate::store::rocks_error::{damaged, failed};
use crate::store::schema::{Fields, PostingKind};
use rocksdb::{DB, DBRawIteratorWithThreadMode};

/// Says that something of a run is damaged.
pub(super) fn damaged_in(run: u32, kind: PostingKind, what: &str) -> StoreError {
    damaged(format!("{what} of run {run} of {}", kind.family()))
}

/// The block of a run that `rows` stand at, behind the last shingle that it may have; none where they stand at something else.
pub(super) fn block_at<'r>(
    rows: &'r DBRawIteratorWithThreadMode<'_, DB>,
    run: u32,
    kind: PostingKind,
    width: usize,
) -> Result<Option<(Shingle, &'r [u8])>, StoreError> {
    let Some((key, block)) = rows.item().filter(|(key, _)| is_block(key, width)) else {
        return rows.status().map(|()| None).map_err(failed);
    };
    let mut key = Fields(key);
    let (of_block, last) = key.u32().zip(key.shingle(width)).ok_or_else(|| damaged_in(run, kind, "a key"))?;
    Ok((of_block == run).then_some((last, block)))
}

/// Finds the list of a shingle in a run.
pub(super) struct Cursor<'d> {
    rows: DBRawIteratorWithThreadMode<'d, DB>,
    kind: PostingKind,
    /// Bytes of a shingle in a key.
    width: usize,
}

impl<'d> Cursor<'d> {
    /// A cursor over the rows of a kind.
    pub fn new(rows: DBRawIteratorWithThreadMode<'d, DB>, kind: PostingKind, width: usize) -> Self {
        Cursor { rows, kind, width }
    }

    /// The packed documents of a shingle in a run, if it has the shingle.
    pub fn find(&mut self, run: u32, shingle: Shingle) -> Result<Option<&[u8]>, StoreError> {
        self.rows.seek(block_key(run, shingle, self.width));
        let Some((last, block)) = block_at(&self.rows, run, self.kind, self.width)? else { return Ok(None) };
        for list in lists_of(block) {
            let list = list.filter(|(other, _)| *other <= last);
            let (other, documents) = list.ok_or_else(|| damaged_in(run, self.kind, "a block"))?;
            if other >= shingle {
                return Ok((other == shingle).then_some(documents));
            }
        }
        // The key says that the block has a list as far as this.
        Err(damaged_in(run, self.kind, "a block"))
    }
}
