//! Merges sorted run files, whole or in parts that are read side by side.

use super::error::RunFileError;
use super::row::SortedRow;
use super::run_file::{RunFile, RunFileReader};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;

/// Reads sorted run files as one: the rows from `from` on and before `to`, in order.
pub struct MergeReader<R> {
    readers: Vec<RunFileReader<R>>,
    heads: BinaryHeap<Reverse<(R, usize)>>,
    to: Option<R>,
}

impl<R: SortedRow> MergeReader<R> {
    /// Opens a merge of the rows between `from`, inclusive, and `to`, exclusive. `None` sets no bound.
    ///
    /// # Errors
    /// [`RunFileError`]
    pub fn new(files: &[Arc<RunFile<R>>], from: Option<&R>, to: Option<R>) -> Result<Self, RunFileError> {
        let mut readers: Vec<RunFileReader<R>> = files.iter().map(|file| file.read(from)).collect();
        let mut heads = BinaryHeap::with_capacity(readers.len());
        for (at, reader) in readers.iter_mut().enumerate() {
            let mut head = reader.next_row()?;
            while let (Some(row), Some(from)) = (&head, from)
                && row < from
            {
                head = reader.next_row()?;
            }
            heads.extend(head.map(|row| Reverse((row, at))));
        }
        Ok(MergeReader { readers, heads, to })
    }

    /// The next row, which has absorbed all that it can, or `None` at the end.
    ///
    /// # Errors
    /// [`RunFileError`]
    pub fn next_row(&mut self) -> Result<Option<R>, RunFileError> {
        let Some(mut row) = self.pop()? else { return Ok(None) };
        while let Some(Reverse((head, _))) = self.heads.peek()
            && row.absorb(head)
        {
            self.pop()?;
        }
        Ok(Some(row))
    }

    fn pop(&mut self) -> Result<Option<R>, RunFileError> {
        let Some(mut head) = self.heads.peek_mut() else { return Ok(None) };
        if self.to.as_ref().is_some_and(|to| head.0.0 >= *to) {
            return Ok(None);
        }
        match self.readers[head.0.1].next_row()? {
            Some(row) => Ok(Some(std::mem::replace(&mut head.0.0, row))),
            None => Ok(Some(PeekMut::pop(head).0.0)),
        }
    }
}

/// Splits the rows of sorted files into parts of about `n_rows` rows each. Returns the first rows of all parts but
/// the first, ascending. `floor` moves a row down to where a part may begin.
pub fn split_points<R: SortedRow>(files: &[Arc<RunFile<R>>], n_rows: u64, floor: impl Fn(&R) -> R) -> Vec<R> {
    let mut starts: Vec<(&R, u64)> = files.iter().flat_map(|file| file.block_starts()).collect();
    starts.sort_unstable_by(|a, b| a.0.cmp(b.0));
    let (mut points, mut n_in_part) = (Vec::new(), 0);
    for (first, n) in starts {
        if n_in_part >= n_rows {
            let point = floor(first);
            if points.last().is_none_or(|last| *last < point) {
                points.push(point);
                n_in_part = 0;
            }
        }
        n_in_part += n;
    }
    points
}

#[cfg(test)]
mod tests {
    use super::super::{FinishedFile, Row, RunFile, RunFileError, Sorter};
    use super::*;
    use crate::codec::{decode_varint, encode_varint};
    use proptest::prelude::*;
    use std::path::Path;

    /// A number, and how many equal ones it stands for.
    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Counted {
        number: u64,
        n: u64,
    }

    impl Row for Counted {
        fn encode(&self, previous: Option<&Self>, out: &mut Vec<u8>) {
            encode_varint(self.number - previous.map_or(0, |previous| previous.number), out);
            encode_varint(self.n, out);
        }

        fn decode(previous: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
            let number = previous.map_or(0, |previous| previous.number).checked_add(decode_varint(bytes)?)?;
            Some(Counted { number, n: decode_varint(bytes)? })
        }
    }

    impl SortedRow for Counted {
        fn absorb(&mut self, next: &Self) -> bool {
            let is_same = self.number == next.number;
            self.n += if is_same { next.n } else { 0 };
            is_same
        }
    }

    fn sort(folder: &Path, numbers: &[u64], n_bytes_max: usize, is_compressed: bool) -> Vec<FinishedFile> {
        let mut sorter = Sorter::new(folder, "numbers".into(), n_bytes_max, is_compressed);
        for number in numbers {
            sorter.push(Counted { number: *number, n: 1 }).expect("pushed");
        }
        sorter.finish().expect("finished")
    }

    fn open(folder: &Path, files: &[FinishedFile], is_compressed: bool) -> Vec<Arc<RunFile<Counted>>> {
        files.iter().map(|file| RunFile::open(folder, file, is_compressed).expect("opens")).collect()
    }

    fn merged(files: &[Arc<RunFile<Counted>>], from: Option<&Counted>, to: Option<Counted>) -> Vec<(u64, u64)> {
        let mut merge = MergeReader::new(files, from, to).expect("opens");
        std::iter::from_fn(|| merge.next_row().expect("a row")).map(|row| (row.number, row.n)).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]

        /// However small the memory and wherever the parts begin, every number comes once and counts all its equals.
        #[test]
        fn rows_come_back_sorted_and_counted(
            numbers in prop::collection::vec(0u64..500, 0..3000),
            n_bytes_max in 16usize..20_000,
            n_rows in 1u64..1000,
            is_compressed: bool,
        ) {
            let mut expected = std::collections::BTreeMap::new();
            numbers.iter().for_each(|number| *expected.entry(*number).or_insert(0) += 1);
            let folder = tempfile::tempdir().expect("a folder");
            let finished = sort(folder.path(), &numbers, n_bytes_max.max(numbers.len()), is_compressed);
            let files = open(folder.path(), &finished, is_compressed);
            prop_assert_eq!(merged(&files, None, None), expected.clone().into_iter().collect::<Vec<_>>());
            let floor = |row: &Counted| Counted { number: row.number, n: 0 };
            let points = split_points(&files, n_rows, floor);
            prop_assert!(points.is_sorted_by(|a, b| a < b));
            let ends = points.iter().cloned().map(Some).chain([None]);
            let starts = std::iter::once(None).chain(points.iter().map(Some));
            let parts: Vec<_> = starts.zip(ends).flat_map(|(from, to)| merged(&files, from, to)).collect();
            prop_assert_eq!(parts, expected.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_changed_byte_is_an_error() {
        for is_compressed in [false, true] {
            let folder = tempfile::tempdir().expect("a folder");
            let finished = sort(folder.path(), &(0..100).collect::<Vec<_>>(), 1 << 20, is_compressed);
            let path = folder.path().join(&finished[0].name);
            let whole = std::fs::read(&path).expect("a file");
            for at in 0..whole.len() {
                let mut bytes = whole.clone();
                bytes[at] ^= 0x10;
                std::fs::write(&path, bytes).expect("written");
                let rows = RunFile::<Counted>::open(folder.path(), &finished[0], is_compressed).and_then(|file| {
                    let mut reader = file.read_all();
                    while reader.next_row()?.is_some() {}
                    Ok(())
                });
                assert!(matches!(rows, Err(RunFileError::Damaged(_))), "byte {at} of {}", whole.len());
            }
        }
    }
}
