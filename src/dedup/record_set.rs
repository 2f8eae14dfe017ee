//! A set of records: a bit for each record of each input, which can be kept in a file.

use super::error::{DedupError, io_error};
use crate::codec::{decode_array, decode_bytes, decode_varint, encode_bytes, encode_varint};
use highway::{HighwayHash, HighwayHasher};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// Records of inputs, by their number in each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordSet {
    inputs: Vec<Vec<u8>>,
}

impl RecordSet {
    /// Creates an empty set over inputs.
    pub fn new(n_inputs: usize) -> Self {
        RecordSet { inputs: vec![Vec::new(); n_inputs] }
    }

    /// Adds a record.
    pub fn insert(&mut self, input: usize, offset: i64) {
        let (Some(bits), Ok(offset)) = (self.inputs.get_mut(input), usize::try_from(offset)) else { return };
        if bits.len() <= offset / 8 {
            bits.resize(offset / 8 + 1, 0);
        }
        bits[offset / 8] |= 1 << (offset % 8);
    }

    /// Whether a record is in it.
    pub fn contains(&self, input: usize, offset: i64) -> bool {
        let byte = usize::try_from(offset).ok().and_then(|at| self.inputs.get(input)?.get(at / 8));
        byte.is_some_and(|byte| byte >> (offset % 8) & 1 == 1)
    }

    /// How many records of an input are in it.
    pub fn n_records(&self, input: usize) -> u64 {
        self.inputs.get(input).map_or(0, |bits| bits.iter().map(|byte| u64::from(byte.count_ones())).sum())
    }

    /// Writes the set to a file, in one step.
    ///
    /// # Errors
    /// [`DedupError::Io`] or [`DedupError::DiskFull`]
    pub fn write(&self, path: &Path) -> Result<(), DedupError> {
        let mut bytes = Vec::new();
        encode_varint(self.inputs.len() as u64, &mut bytes);
        self.inputs.iter().for_each(|bits| encode_bytes(bits, &mut bytes));
        bytes.extend(HighwayHasher::default().hash64(&bytes).to_le_bytes());
        let new = path.with_extension("new");
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(&new, path)
        };
        write().map_err(io_error(path))
    }

    /// Reads the set that [`RecordSet::write`] wrote.
    ///
    /// # Errors
    /// [`DedupError::Damaged`] where the file holds something else.
    pub fn read(path: &Path) -> Result<Self, DedupError> {
        let bytes = fs::read(path).map_err(io_error(path))?;
        decode(&bytes).ok_or_else(|| DedupError::Damaged(path.to_path_buf()))
    }
}

fn decode(bytes: &[u8]) -> Option<RecordSet> {
    let (mut rows, mut checksum) = bytes.split_at(bytes.len().checked_sub(8)?);
    if HighwayHasher::default().hash64(rows) != u64::from_le_bytes(decode_array(&mut checksum)?) {
        return None;
    }
    let n_inputs = decode_varint(&mut rows)?;
    let inputs = (0..n_inputs).map(|_| decode_bytes(&mut rows).map(<[u8]>::to_vec)).collect::<Option<_>>()?;
    rows.is_empty().then_some(RecordSet { inputs })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_holds_what_was_inserted(records in prop::collection::btree_set((0usize..3, 0i64..300), 0..200)) {
            let mut set = RecordSet::new(3);
            records.iter().for_each(|(input, offset)| set.insert(*input, *offset));
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("kept");
            set.write(&path).expect("written");
            let read = RecordSet::read(&path).expect("read");
            let found: BTreeSet<(usize, i64)> = (0..4)
                .flat_map(|input| (-1..301).map(move |offset| (input, offset)))
                .filter(|(input, offset)| read.contains(*input, *offset))
                .collect();
            prop_assert_eq!(&found, &records);
            prop_assert_eq!((0..3).map(|input| set.n_records(input)).sum::<u64>(), records.len() as u64);
            let mut bytes = fs::read(&path).expect("bytes");
            let at = bytes.len() / 2;
            bytes[at] ^= 4;
            fs::write(&path, bytes).expect("written");
            prop_assert!(matches!(RecordSet::read(&path), Err(DedupError::Damaged(_))));
        }
    }
}
