//! The names of runs, and the keys of their rows.

use crate::sketch::Shingle;
use crate::store::schema;

/// The name of a run: its number among those of its kind, which is not used again, and how often it was merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct RunName {
    /// The number, with which its keys begin.
    pub number: u32,
    /// 0 for a part of the posting buffer, one more than its parts for a merged run.
    pub level: u8,
}

/// The number of the run that a backfill loads, the first of each kind.
pub(in crate::store) const LOADED_RUN: u32 = 0;

/// The key of the block whose last shingle this is.
pub(in crate::store) fn block_key(run: u32, last: Shingle, width: usize) -> Vec<u8> {
    let mut key = Vec::with_capacity(size_of::<u32>() + width);
    key.extend_from_slice(&run.to_be_bytes());
    schema::put_shingle(&mut key, last, width);
    key
}

/// The key of a portion of the run's filter, or, the first, of its size. It sorts behind the keys of all blocks.
pub(super) fn filter_key(run: u32, at: u32, width: usize) -> Vec<u8> {
    let mut key = run.to_be_bytes().to_vec();
    key.resize(key.len() + width, 0xff);
    key.extend(at.to_be_bytes());
    key
}

/// Whether a key of a run is that of a block, and not of the filter.
pub(in crate::store) fn is_block(key: &[u8], width: usize) -> bool {
    key.len() == size_of::<u32>() + width
}

/// The keys between which those of a run are.
pub(super) fn keys_of_run(number: u32) -> ([u8; 4], [u8; 4]) {
    (number.to_be_bytes(), number.saturating_add(1).to_be_bytes())
}
