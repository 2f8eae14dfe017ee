//! Run files: rows in checksummed blocks, written front to back and read from any block on.
//!
//! ```text
//! block … block | index: for each block its first row, its length, its rows, its checksum | the index's length (8)
//! ```
//! A row is written as its difference to the row before it in its block. A block of a compressed file is one zstd
//! frame. [`FinishedFile`] holds the index's own checksum, so that a reader knows that a file is whole before it uses
//! any row.

use super::error::RunFileError;
use super::row::Row;
use crate::codec::{decode_array, decode_bytes, decode_varint, encode_bytes, encode_varint};
use highway::{HighwayHash, HighwayHasher};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zstd::bulk::Compressor;
use zstd::zstd_safe;

/// Bytes that are written at once, about.
const WRITE_BYTES: usize = 128 << 10;

/// Bytes that a [`Window`] reads from a wanted row on: often the next wanted rows are among them.
const BYTES_AHEAD: u64 = 16 << 10;

/// The fastest level: it halves text, and higher levels gain little.
const ZSTD_LEVEL: i32 = 1;

/// Bytes of the index's length, which end a file.
const TRAILER_BYTES: u64 = 8;

/// What is needed to open a finished file again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishedFile {
    /// The file's name in its folder.
    pub name: String,
    /// The file's size in bytes.
    pub n_bytes: u64,
    /// Rows in the file.
    pub n_rows: u64,
    /// The checksum of the file's index, which holds those of the blocks.
    pub checksum: u64,
}

fn checksum(bytes: &[u8]) -> u64 {
    HighwayHasher::default().hash64(bytes)
}

/// An entry of the index.
struct Block<R> {
    offset: u64,
    n_bytes: usize,
    n_rows: u64,
    checksum: u64,
    first: R,
}

/// Writes a run file.
pub struct RunFileWriter<R> {
    path: PathBuf,
    name: String,
    file: BufWriter<File>,
    /// Where the file is compressed.
    compressor: Option<Compressor<'static>>,
    block: Vec<u8>,
    n_rows_in_block: u64,
    previous: Option<R>,
    /// The index of the blocks so far, encoded.
    index: Vec<u8>,
    n_bytes: u64,
    n_rows: u64,
}

impl<R: Row> RunFileWriter<R> {
    /// Creates a file in a folder, or truncates it.
    ///
    /// # Errors
    /// [`RunFileError::Io`]
    pub fn create(folder: &Path, name: &str, is_compressed: bool) -> Result<Self, RunFileError> {
        let path = folder.join(name);
        let file = File::create(&path).map_err(RunFileError::io(&path))?;
        let compressor = is_compressed.then(|| Compressor::new(ZSTD_LEVEL)).transpose();
        Ok(RunFileWriter {
            name: name.to_string(),
            file: BufWriter::with_capacity(WRITE_BYTES, file),
            compressor: compressor.map_err(RunFileError::io(&path))?,
            block: Vec::with_capacity(R::BLOCK_BYTES + (R::BLOCK_BYTES >> 3)),
            n_rows_in_block: 0,
            previous: None,
            index: Vec::new(),
            n_bytes: 0,
            n_rows: 0,
            path,
        })
    }

    /// Appends a row. Returns the offset at which it begins, which is meaningful in files that are not compressed.
    ///
    /// # Errors
    /// [`RunFileError::Io`]
    pub fn push(&mut self, row: R) -> Result<u64, RunFileError> {
        if self.block.len() >= R::BLOCK_BYTES {
            self.close_block()?;
        }
        let offset = self.n_bytes + self.block.len() as u64;
        row.encode(self.previous.as_ref(), &mut self.block);
        if self.previous.is_none() {
            let mut first = Vec::new();
            row.encode(None, &mut first);
            encode_bytes(&first, &mut self.index);
        }
        self.previous = Some(row);
        self.n_rows_in_block += 1;
        Ok(offset)
    }

    /// Bytes of rows so far.
    pub fn n_bytes(&self) -> u64 {
        self.n_bytes + self.block.len() as u64
    }

    fn close_block(&mut self) -> Result<(), RunFileError> {
        if self.previous.take().is_none() {
            return Ok(());
        }
        let compressed;
        let bytes = if let Some(compressor) = &mut self.compressor {
            compressed = compressor.compress(&self.block).map_err(RunFileError::io(&self.path))?;
            compressed.as_slice()
        } else {
            &self.block
        };
        encode_varint(bytes.len() as u64, &mut self.index);
        encode_varint(self.n_rows_in_block, &mut self.index);
        self.index.extend(checksum(bytes).to_le_bytes());
        self.file.write_all(bytes).map_err(RunFileError::io(&self.path))?;
        self.n_bytes += bytes.len() as u64;
        self.n_rows += std::mem::take(&mut self.n_rows_in_block);
        self.block.clear();
        Ok(())
    }

    /// Ends the file. The caller syncs it where it must outlive a crash.
    ///
    /// # Errors
    /// [`RunFileError::Io`]
    pub fn finish(mut self) -> Result<FinishedFile, RunFileError> {
        self.close_block()?;
        let length = self.index.len() as u64;
        self.file.write_all(&self.index).map_err(RunFileError::io(&self.path))?;
        self.file.write_all(&length.to_le_bytes()).map_err(RunFileError::io(&self.path))?;
        self.file.flush().map_err(RunFileError::io(&self.path))?;
        Ok(FinishedFile {
            name: self.name,
            n_bytes: self.n_bytes + length + TRAILER_BYTES,
            n_rows: self.n_rows,
            checksum: checksum(&self.index),
        })
    }
}

/// An open run file. Any number of readers share it.
pub struct RunFile<R> {
    path: PathBuf,
    file: File,
    is_compressed: bool,
    blocks: Vec<Block<R>>,
}

impl<R: Row> RunFile<R> {
    /// Opens a finished file.
    ///
    /// # Errors
    /// [`RunFileError::Damaged`] where the file's size or index is not what was written.
    pub fn open(folder: &Path, finished: &FinishedFile, is_compressed: bool) -> Result<Arc<Self>, RunFileError> {
        let path = folder.join(&finished.name);
        let file = File::open(&path).map_err(RunFileError::io(&path))?;
        let damaged = || RunFileError::Damaged(path.clone());
        let n_bytes = file.metadata().map_err(RunFileError::io(&path))?.len();
        if n_bytes != finished.n_bytes || n_bytes < TRAILER_BYTES {
            return Err(damaged());
        }
        let mut length = [0; TRAILER_BYTES as usize];
        file.read_exact_at(&mut length, n_bytes - TRAILER_BYTES).map_err(RunFileError::io(&path))?;
        let length = u64::from_le_bytes(length);
        let offset = (n_bytes - TRAILER_BYTES).checked_sub(length).ok_or_else(damaged)?;
        let mut index = vec![0; length as usize];
        file.read_exact_at(&mut index, offset).map_err(RunFileError::io(&path))?;
        if checksum(&index) != finished.checksum {
            return Err(damaged());
        }
        let blocks = decode_index(&index).ok_or_else(damaged)?;
        Ok(Arc::new(RunFile { path, file, is_compressed, blocks }))
    }

    /// Reads rows from the start of the block that would hold `from`, or all of them.
    pub fn read(self: &Arc<Self>, from: Option<&R>) -> RunFileReader<R>
    where
        R: Ord,
    {
        self.read_from_block(from.map_or(0, |from| self.block_of(from)))
    }

    /// The block that would hold a row.
    fn block_of(&self, row: &R) -> usize
    where
        R: Ord,
    {
        self.blocks.partition_point(|block| block.first < *row).saturating_sub(1)
    }

    /// Reads all rows.
    pub fn read_all(self: &Arc<Self>) -> RunFileReader<R> {
        self.read_from_block(0)
    }

    fn read_from_block(self: &Arc<Self>, next_block: usize) -> RunFileReader<R> {
        RunFileReader { file: Arc::clone(self), next_block, rows: Vec::new(), bytes: Vec::new() }
    }

    /// Reads the bytes between two offsets of a file that is not compressed.
    ///
    /// # Errors
    /// [`RunFileError::Damaged`] where `from` lies behind `to`.
    pub fn read_bytes(&self, from: u64, to: u64, bytes: &mut Vec<u8>) -> Result<(), RunFileError> {
        let n_bytes = to.checked_sub(from).ok_or_else(|| RunFileError::Damaged(self.path.clone()))?;
        bytes.resize(n_bytes as usize, 0);
        self.file.read_exact_at(bytes, from).map_err(RunFileError::io(&self.path))
    }

    /// The offset at which the rows end.
    pub fn end_of_rows(&self) -> u64 {
        self.blocks.last().map_or(0, |block| block.offset + block.n_bytes as u64)
    }

    /// Rows in the file.
    pub fn n_rows(&self) -> u64 {
        self.blocks.iter().map(|block| block.n_rows).sum()
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The first row of every block, with the number of rows in the block.
    pub(super) fn block_starts(&self) -> impl Iterator<Item = (&R, u64)> {
        self.blocks.iter().map(|block| (&block.first, block.n_rows))
    }
}

/// The bytes of one or more rows of a file that is not compressed, kept for the next rows.
#[derive(Default)]
pub struct Window {
    n_bytes_min: u64,
    begin: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// A window for rows of which the next ones are often wanted, too. The default is one for rows in any order.
    pub fn ahead() -> Self {
        Window { n_bytes_min: BYTES_AHEAD, ..Self::default() }
    }

    /// Forgets what was read: the next bytes are those of another file.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// The bytes between two offsets.
    ///
    /// # Errors
    /// [`RunFileError::Damaged`] where `from` lies behind `to`.
    pub fn read<R: Row>(&mut self, file: &RunFile<R>, from: u64, to: u64) -> Result<&[u8], RunFileError> {
        if from < self.begin || to > self.begin + self.bytes.len() as u64 {
            file.read_bytes(from, to.max(file.end_of_rows().min(from + self.n_bytes_min)), &mut self.bytes)?;
            self.begin = from;
        }
        let bytes = self.bytes.get((from - self.begin) as usize..to.saturating_sub(self.begin) as usize);
        bytes.ok_or_else(|| RunFileError::Damaged(file.path.clone()))
    }
}

/// The bytes in a frame of zstd that says how many they are.
fn decompress(frame: &[u8]) -> Option<Vec<u8>> {
    let n_bytes = zstd_safe::get_frame_content_size(frame).ok()??;
    zstd::bulk::decompress(frame, usize::try_from(n_bytes).ok()?).ok()
}

fn decode_index<R: Row>(mut index: &[u8]) -> Option<Vec<Block<R>>> {
    let mut blocks = Vec::new();
    let mut offset = 0;
    while !index.is_empty() {
        let first = R::decode(None, &mut decode_bytes(&mut index)?)?;
        let n_bytes = decode_varint(&mut index)? as usize;
        let n_rows = decode_varint(&mut index)?;
        let checksum = u64::from_le_bytes(decode_array(&mut index)?);
        blocks.push(Block { offset, n_bytes, n_rows, checksum, first });
        offset += n_bytes as u64;
    }
    Some(blocks)
}

/// Reads the rows of a run file in their order.
pub struct RunFileReader<R> {
    file: Arc<RunFile<R>>,
    next_block: usize,
    /// The rows of the block that are not read yet, the last one first.
    rows: Vec<R>,
    bytes: Vec<u8>,
}

impl<R: Row> RunFileReader<R> {
    /// The next row, or `None` at the end.
    ///
    /// # Errors
    /// [`RunFileError::Damaged`] where a block's checksum differs.
    pub fn next_row(&mut self) -> Result<Option<R>, RunFileError> {
        while self.rows.is_empty() {
            if !self.load_block()? {
                return Ok(None);
            }
        }
        Ok(self.rows.pop())
    }

    /// Skips the blocks before the one that would hold `row`. Rows before it may still follow.
    pub fn skip_to(&mut self, row: &R)
    where
        R: Ord,
    {
        let at = self.file.block_of(row);
        if at >= self.next_block {
            self.next_block = at;
            self.rows.clear();
        }
    }

    /// Decodes the rows of the next block. Returns false at the end.
    fn load_block(&mut self) -> Result<bool, RunFileError> {
        let RunFileReader { file, next_block, rows, bytes } = self;
        let Some(block) = file.blocks.get(*next_block) else { return Ok(false) };
        file.read_bytes(block.offset, block.offset + block.n_bytes as u64, bytes)?;
        let damaged = || RunFileError::Damaged(file.path.clone());
        if checksum(bytes) != block.checksum {
            return Err(damaged());
        }
        if file.is_compressed {
            *bytes = decompress(bytes).ok_or_else(damaged)?;
        }
        let mut rest = bytes.as_slice();
        for _ in 0..block.n_rows {
            let row = R::decode(rows.last(), &mut rest).ok_or_else(damaged)?;
            rows.push(row);
        }
        rows.reverse();
        *next_block += 1;
        Ok(true)
    }
}
