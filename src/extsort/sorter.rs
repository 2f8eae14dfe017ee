//! Sorts more rows than fit in memory: every full buffer becomes a sorted run file.

use super::error::RunFileError;
use super::row::SortedRow;
use super::run_file::{FinishedFile, RunFileWriter};
use std::path::Path;

/// Bytes of rows for which memory is reserved at first. Most sorters of a small input hold no more, and use again what others have
/// freed, where fresh memory would be cleared for them.
const FIRST_BYTES: usize = 8 << 20;

/// Collects rows into sorted run files.
pub struct Sorter<'a, R> {
    folder: &'a Path,
    name: String,
    is_compressed: bool,
    rows: Vec<R>,
    n_bytes: usize,
    n_bytes_max: usize,
    files: Vec<FinishedFile>,
}

impl<'a, R: SortedRow> Sorter<'a, R> {
    /// Creates a sorter that holds at most `n_bytes_max` of rows. Its files are `{name}-0`, `{name}-1` and so on.
    pub fn new(folder: &'a Path, name: String, n_bytes_max: usize, is_compressed: bool) -> Self {
        Sorter { folder, name, is_compressed, rows: Vec::new(), n_bytes: 0, n_bytes_max, files: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// [`RunFileError::Io`] where the buffer is full and cannot be written.
    pub fn push(&mut self, row: R) -> Result<(), RunFileError> {
        if self.rows.len() == self.rows.capacity() {
            self.reserve();
        }
        self.n_bytes += size_of::<R>() + row.n_heap_bytes();
        self.rows.push(row);
        if self.n_bytes >= self.n_bytes_max { self.spill() } else { Ok(()) }
    }

    /// Reserves memory for the first rows, and then for as many as there may be. Growth by doubling would cost half as much again,
    /// and memory that nothing touches costs nothing.
    fn reserve(&mut self) {
        let n_bytes = if self.rows.capacity() == 0 { FIRST_BYTES.min(self.n_bytes_max) } else { self.n_bytes_max };
        let n_rows = (n_bytes / size_of::<R>() + 1).saturating_sub(self.rows.len());
        // More than the system has is not needed at once.
        let _ = self.rows.try_reserve_exact(n_rows);
    }

    fn spill(&mut self) -> Result<(), RunFileError> {
        self.rows.sort_unstable();
        let name = format!("{}-{}", self.name, self.files.len());
        let mut writer = RunFileWriter::create(self.folder, &name, self.is_compressed)?;
        let mut held: Option<R> = None;
        for row in self.rows.drain(..) {
            if let Some(previous) = &mut held
                && previous.absorb(&row)
            {
                continue;
            }
            if let Some(previous) = held.replace(row) {
                writer.push(previous)?;
            }
        }
        if let Some(last) = held {
            writer.push(last)?;
        }
        self.files.push(writer.finish()?);
        self.n_bytes = 0;
        Ok(())
    }

    /// Writes the last rows and returns all files. Without a row there are none.
    ///
    /// # Errors
    /// [`RunFileError::Io`]
    pub fn finish(mut self) -> Result<Vec<FinishedFile>, RunFileError> {
        if !self.rows.is_empty() {
            self.spill()?;
        }
        Ok(self.files)
    }
}
