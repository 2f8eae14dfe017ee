//! The filter of a run, and its rows.

use super::key::filter_key;
use crate::ports::StoreError;
use crate::store::bloom::FixedBloom;
use crate::store::rocks_error::failed;
use rocksdb::{DB, DBRawIteratorWithThreadMode, SstFileWriter};

/// Writes the filter of a run, behind its blocks: how many blocks it has (8, like all numbers here little-endian), how many lists
/// are in it (8), and then its portions.
pub(super) fn put(file: &mut SstFileWriter<'_>, run: u32, width: usize, filter: &FixedBloom) -> Result<(), StoreError> {
    let size = [filter.n_blocks().to_le_bytes(), filter.n_keys().to_le_bytes()].concat();
    for (at, row) in (0..).zip(std::iter::once(size).chain(filter.portions())) {
        file.put(filter_key(run, at, width), row).map_err(failed)?;
    }
    Ok(())
}

/// Reads the filter of a run. None where its rows are damaged or missing, or cannot be read: then `rows` says why.
pub(super) fn read(rows: &mut DBRawIteratorWithThreadMode<'_, DB>, run: u32, width: usize) -> Option<FixedBloom> {
    rows.seek(filter_key(run, 0, width));
    let (_, size) = rows.item().filter(|(key, _)| *key == filter_key(run, 0, width))?;
    let (n_blocks, n_keys) = size.split_first_chunk::<8>()?;
    let (n_blocks, n_keys) = (u64::from_le_bytes(*n_blocks), u64::from_le_bytes(n_keys.try_into().ok()?));
    let mut filter = FixedBloom::to_fill(n_blocks, n_keys)?;
    for at in 0..filter.n_portions() {
        rows.next();
        let (_, portion) = rows.item().filter(|(key, _)| *key == filter_key(run, at as u32 + 1, width))?;
        filter.fill(at as usize, portion)?;
    }
    Some(filter)
}
