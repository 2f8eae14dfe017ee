//! Files of rows: written front to back in checksummed blocks, read from any block on, sorted ones merged.
//!
//! ```text
//! block … block | index: for each block its length, its rows, its checksum, its first row | the index's length (8)
//! ```
//! A row is written as its difference to the one before it in its block; a block of a compressed file is one zstd frame.
//! The index's own checksum is in the manifest, so that a file is known to be whole before it is used.

use super::error::{BackfillError, io_error};
use highway::{HighwayHash, HighwayHasher};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of rows after which a block is closed.
const BLOCK_BYTES: usize = 128 << 10;

/// Fast, and half of what text was.
const ZSTD_LEVEL: i32 = 1;

/// Something that is written after others of its kind.
pub trait Row: Sized {
    /// Appends its bytes, given the row before it in the block.
    fn put(&self, before: Option<&Self>, out: &mut Vec<u8>);

    /// Reads what `put` wrote off the front of `bytes`; none where they are no row.
    fn take(before: Option<&Self>, bytes: &mut &[u8]) -> Option<Self>;
}

/// A row that can be sorted.
pub trait SortedRow: Row + Ord + Clone + Send {
    /// Takes in a row that follows it in order and means the same, and says that it did.
    fn absorb(&mut self, _next: &Self) -> bool {
        false
    }

    /// Bytes of memory that it holds beside its own size.
    fn n_bytes_beside(&self) -> usize {
        0
    }
}

/// A finished file, as the manifest knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// Its name in the work folder.
    pub name: String,
    /// Its bytes.
    pub n_bytes: u64,
    /// Its rows.
    pub n_rows: u64,
    /// The checksum of its index, which holds those of its blocks.
    pub checksum: u64,
}

/// Appends a number in LEB128.
pub(super) fn put_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Reads a number off the front.
pub(super) fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Appends bytes with their length before them.
pub(super) fn put_bytes(of: &[u8], out: &mut Vec<u8>) {
    put_number(of.len() as u64, out);
    out.extend_from_slice(of);
}

/// Reads bytes with their length before them.
pub(super) fn take_bytes<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take_number(bytes)?).ok()?;
    let (of, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(of)
}

/// Reads `N` bytes.
pub(super) fn take_array<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (array, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*array)
}

fn checksum(bytes: &[u8]) -> u64 {
    HighwayHasher::default().hash64(bytes)
}

/// Where a block is and what it begins with.
struct Block<R> {
    offset: u64,
    n_bytes: usize,
    n_rows: u64,
    checksum: u64,
    first: R,
}

/// Writes a file of rows.
pub struct RunWriter<R> {
    path: PathBuf,
    name: String,
    file: BufWriter<File>,
    is_compressed: bool,
    block: Vec<u8>,
    n_rows_in_block: u64,
    before: Option<R>,
    /// What is already written of the index.
    index: Vec<u8>,
    n_bytes: u64,
    n_rows: u64,
}

impl<R: Row + Clone> RunWriter<R> {
    /// Begins a file in a folder; what it held is gone.
    pub fn create(folder: &Path, name: &str, is_compressed: bool) -> Result<Self, BackfillError> {
        let path = folder.join(name);
        let file = File::create(&path).map_err(io_error(&path))?;
        Ok(RunWriter {
            name: name.to_string(),
            file: BufWriter::with_capacity(BLOCK_BYTES, file),
            is_compressed,
            block: Vec::with_capacity(BLOCK_BYTES + (BLOCK_BYTES >> 3)),
            n_rows_in_block: 0,
            before: None,
            index: Vec::new(),
            n_bytes: 0,
            n_rows: 0,
            path,
        })
    }

    /// Appends a row and tells where it begins, which means something in files that are not compressed.
    pub fn push(&mut self, row: R) -> Result<u64, BackfillError> {
        if self.block.len() >= BLOCK_BYTES {
            self.close_block()?;
        }
        let at = self.n_bytes + self.block.len() as u64;
        row.put(self.before.as_ref(), &mut self.block);
        if self.before.is_none() {
            let mut first = Vec::new();
            row.put(None, &mut first);
            put_bytes(&first, &mut self.index);
        }
        self.before = Some(row);
        self.n_rows_in_block += 1;
        Ok(at)
    }

    /// The bytes that the file has so far.
    pub fn n_bytes(&self) -> u64 {
        self.n_bytes + self.block.len() as u64
    }

    fn close_block(&mut self) -> Result<(), BackfillError> {
        if self.before.take().is_none() {
            return Ok(());
        }
        let compressed;
        let bytes = if self.is_compressed {
            compressed = zstd::bulk::compress(&self.block, ZSTD_LEVEL).map_err(io_error(&self.path))?;
            compressed.as_slice()
        } else {
            &self.block
        };
        put_number(bytes.len() as u64, &mut self.index);
        put_number(self.n_rows_in_block, &mut self.index);
        self.index.extend(checksum(bytes).to_le_bytes());
        self.file.write_all(bytes).map_err(io_error(&self.path))?;
        self.n_bytes += bytes.len() as u64;
        self.n_rows += std::mem::take(&mut self.n_rows_in_block);
        self.block.clear();
        Ok(())
    }

    /// Ends the file. It is durable once it is noted ([`super::work::Work::record`]).
    pub fn finish(mut self) -> Result<Piece, BackfillError> {
        self.close_block()?;
        let length = self.index.len() as u64;
        self.file.write_all(&self.index).map_err(io_error(&self.path))?;
        self.file.write_all(&length.to_le_bytes()).map_err(io_error(&self.path))?;
        self.file.flush().map_err(io_error(&self.path))?;
        Ok(Piece {
            name: self.name,
            n_bytes: self.n_bytes + length + 8,
            n_rows: self.n_rows,
            checksum: checksum(&self.index),
        })
    }
}

/// A finished file of rows, open to be read by many at once.
pub struct Run<R> {
    path: PathBuf,
    file: File,
    is_compressed: bool,
    blocks: Vec<Block<R>>,
}

impl<R: Row> Run<R> {
    /// Opens the file of a piece.
    pub fn open(folder: &Path, piece: &Piece, is_compressed: bool) -> Result<Arc<Self>, BackfillError> {
        let path = folder.join(&piece.name);
        let file = File::open(&path).map_err(io_error(&path))?;
        let damaged = || BackfillError::Damaged(path.clone());
        let n_bytes = file.metadata().map_err(io_error(&path))?.len();
        if n_bytes != piece.n_bytes || n_bytes < 8 {
            return Err(damaged());
        }
        let mut length = [0; 8];
        file.read_exact_at(&mut length, n_bytes - 8).map_err(io_error(&path))?;
        let length = u64::from_le_bytes(length);
        let at = (n_bytes - 8).checked_sub(length).ok_or_else(damaged)?;
        let mut index = vec![0; length as usize];
        file.read_exact_at(&mut index, at).map_err(io_error(&path))?;
        if checksum(&index) != piece.checksum {
            return Err(damaged());
        }
        let blocks = read_index(&index).ok_or_else(damaged)?;
        Ok(Arc::new(Run { path, file, is_compressed, blocks }))
    }

    /// Reads rows from the block on in which a row like `from` would be.
    pub fn read(self: &Arc<Self>, from: Option<&R>) -> RunReader<R>
    where
        R: Ord,
    {
        let at = from.map_or(0, |from| self.blocks.partition_point(|block| block.first < *from).saturating_sub(1));
        self.read_at(at)
    }

    /// Reads all rows.
    pub fn read_all(self: &Arc<Self>) -> RunReader<R> {
        self.read_at(0)
    }

    fn read_at(self: &Arc<Self>, next_block: usize) -> RunReader<R> {
        RunReader { run: Arc::clone(self), next_block, block: Vec::new(), at: 0, n_left: 0, before: None }
    }

    /// The file's bytes between two places, for files that are not compressed.
    pub fn bytes_at(&self, from: u64, to: u64, bytes: &mut Vec<u8>) -> Result<(), BackfillError> {
        bytes.resize((to - from) as usize, 0);
        self.file.read_exact_at(bytes, from).map_err(io_error(&self.path))
    }

    /// Where the rows end.
    pub fn n_bytes_of_rows(&self) -> u64 {
        self.blocks.last().map_or(0, |block| block.offset + block.n_bytes as u64)
    }

    /// How many rows there are.
    pub fn n_rows(&self) -> u64 {
        self.blocks.iter().map(|block| block.n_rows).sum()
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The first row of every block with the number of rows in it.
    fn samples(&self) -> impl Iterator<Item = (&R, u64)> {
        self.blocks.iter().map(|block| (&block.first, block.n_rows))
    }
}

fn read_index<R: Row>(mut index: &[u8]) -> Option<Vec<Block<R>>> {
    let mut blocks = Vec::new();
    let mut offset = 0;
    while !index.is_empty() {
        let first = R::take(None, &mut take_bytes(&mut index)?)?;
        let n_bytes = take_number(&mut index)? as usize;
        let n_rows = take_number(&mut index)?;
        let checksum = u64::from_le_bytes(take_array(&mut index)?);
        blocks.push(Block { offset, n_bytes, n_rows, checksum, first });
        offset += n_bytes as u64;
    }
    Some(blocks)
}

/// Reads rows in their order.
pub struct RunReader<R> {
    run: Arc<Run<R>>,
    next_block: usize,
    block: Vec<u8>,
    /// Where in the block.
    at: usize,
    /// Rows of the block not yet read.
    n_left: u64,
    before: Option<R>,
}

impl<R: Row + Clone> RunReader<R> {
    /// The next row, or none at the end.
    pub fn next(&mut self) -> Result<Option<R>, BackfillError> {
        if self.n_left == 0 && !self.load()? {
            return Ok(None);
        }
        let mut rest = &self.block[self.at..];
        let Some(row) = R::take(self.before.as_ref(), &mut rest) else {
            return Err(BackfillError::Damaged(self.run.path.clone()));
        };
        self.at = self.block.len() - rest.len();
        self.n_left -= 1;
        self.before = Some(row.clone());
        Ok(Some(row))
    }

    /// Reads the next block; false at the end.
    fn load(&mut self) -> Result<bool, BackfillError> {
        let run = &self.run;
        let Some(block) = run.blocks.get(self.next_block) else { return Ok(false) };
        let mut bytes = std::mem::take(&mut self.block);
        run.bytes_at(block.offset, block.offset + block.n_bytes as u64, &mut bytes)?;
        let damaged = || BackfillError::Damaged(run.path.clone());
        if checksum(&bytes) != block.checksum {
            return Err(damaged());
        }
        self.block = if run.is_compressed { zstd::stream::decode_all(&*bytes).map_err(|_| damaged())? } else { bytes };
        (self.at, self.n_left, self.before) = (0, block.n_rows, None);
        self.next_block += 1;
        Ok(true)
    }
}

/// Merges sorted files: their rows in one order, those between `from` (with it) and `to` (without it).
pub struct Merge<R> {
    readers: Vec<RunReader<R>>,
    heads: BinaryHeap<Reverse<(R, usize)>>,
    to: Option<R>,
}

impl<R: SortedRow> Merge<R> {
    /// A merge of some files.
    pub fn new(runs: &[Arc<Run<R>>], from: Option<&R>, to: Option<R>) -> Result<Self, BackfillError> {
        let mut readers: Vec<RunReader<R>> = runs.iter().map(|run| run.read(from)).collect();
        let mut heads = BinaryHeap::with_capacity(readers.len());
        for (at, reader) in readers.iter_mut().enumerate() {
            let mut head = reader.next()?;
            while let (Some(row), Some(from)) = (&head, from)
                && row < from
            {
                head = reader.next()?;
            }
            heads.extend(head.map(|row| Reverse((row, at))));
        }
        Ok(Merge { readers, heads, to })
    }

    /// The next row in order, equal ones absorbed.
    pub fn next(&mut self) -> Result<Option<R>, BackfillError> {
        let Some(mut row) = self.next_of_any()? else { return Ok(None) };
        while let Some(Reverse((head, _))) = self.heads.peek()
            && row.absorb(head)
        {
            self.next_of_any()?;
        }
        Ok(Some(row))
    }

    fn next_of_any(&mut self) -> Result<Option<R>, BackfillError> {
        let Some(mut head) = self.heads.peek_mut() else { return Ok(None) };
        if self.to.as_ref().is_some_and(|to| head.0.0 >= *to) {
            return Ok(None);
        }
        match self.readers[head.0.1].next()? {
            Some(row) => Ok(Some(std::mem::replace(&mut head.0.0, row))),
            None => Ok(Some(PeekMut::pop(head).0.0)),
        }
    }
}

/// Cuts what some sorted files hold together into parts of about `n_rows` rows; `floor` moves a cut to where it may be.
/// A part is what lies between two cuts; before the first and after the last there is one as well.
pub fn cuts<R: SortedRow>(runs: &[Arc<Run<R>>], n_rows: u64, floor: impl Fn(&R) -> R) -> Vec<R> {
    let mut samples: Vec<(&R, u64)> = runs.iter().flat_map(|run| run.samples()).collect();
    samples.sort_unstable_by(|a, b| a.0.cmp(b.0));
    let (mut cuts, mut n_in_part) = (Vec::new(), 0);
    for (first, n) in samples {
        if n_in_part >= n_rows {
            let cut = floor(first);
            if cuts.last().is_none_or(|last| *last < cut) {
                cuts.push(cut);
                n_in_part = 0;
            }
        }
        n_in_part += n;
    }
    cuts
}

/// Sorts more rows than fit in memory: full buffers become sorted files.
pub struct Sorter<'a, R> {
    folder: &'a Path,
    name: String,
    is_compressed: bool,
    rows: Vec<R>,
    n_bytes: usize,
    n_bytes_max: usize,
    pieces: Vec<Piece>,
}

impl<'a, R: SortedRow> Sorter<'a, R> {
    /// A sorter that holds at most `n_bytes_max` of rows; its files are called `name` with a number.
    pub fn new(folder: &'a Path, name: impl Into<String>, n_bytes_max: usize, is_compressed: bool) -> Self {
        Sorter { folder, name: name.into(), is_compressed, rows: Vec::new(), n_bytes: 0, n_bytes_max, pieces: vec![] }
    }

    /// Takes a row.
    pub fn push(&mut self, row: R) -> Result<(), BackfillError> {
        if self.rows.capacity() == 0 {
            // Memory that is not touched costs nothing; growing by doubling would cost half as much again.
            self.rows.reserve_exact(self.n_bytes_max / size_of::<R>() + 1);
        }
        self.n_bytes += size_of::<R>() + row.n_bytes_beside();
        self.rows.push(row);
        if self.n_bytes >= self.n_bytes_max { self.spill() } else { Ok(()) }
    }

    fn spill(&mut self) -> Result<(), BackfillError> {
        self.rows.sort_unstable();
        let name = format!("{}-{}", self.name, self.pieces.len());
        let mut writer = RunWriter::create(self.folder, &name, self.is_compressed)?;
        let mut held: Option<R> = None;
        for row in self.rows.drain(..) {
            if let Some(before) = &mut held
                && before.absorb(&row)
            {
                continue;
            }
            if let Some(before) = held.replace(row) {
                writer.push(before)?;
            }
        }
        if let Some(last) = held {
            writer.push(last)?;
        }
        self.pieces.push(writer.finish()?);
        self.n_bytes = 0;
        Ok(())
    }

    /// The sorted files.
    pub fn finish(mut self) -> Result<Vec<Piece>, BackfillError> {
        if !self.rows.is_empty() {
            self.spill()?;
        }
        Ok(self.pieces)
    }
}
