//! The log of kept pages: what earlier batches kept, in a folder inside the store. It names the pages in whose favour later
//! ones go.
//!
//! Each batch has a file of rows and a description of it, which appears when the rows are durable.

use super::error::{DedupError, io_error};
use super::rows::KeptRow;
use crate::extsort::{FinishedFile, RunFile, RunFileWriter};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Ends the name of a description.
const DESCRIPTION: &str = "json";

/// The log of a store.
pub struct KeptLog {
    folder: PathBuf,
}

/// The rows of a batch under way.
pub(super) struct KeptWriter {
    rows: RunFileWriter<KeptRow>,
}

impl KeptWriter {
    pub fn push(&mut self, row: KeptRow) -> Result<(), DedupError> {
        self.rows.push(row)?;
        Ok(())
    }
}

impl KeptLog {
    /// The log in a store's folder. Creates nothing.
    pub fn new(store: &Path) -> Self {
        KeptLog { folder: store.join("dedup") }
    }

    /// Whether any batch was logged.
    pub fn is_there(&self) -> bool {
        self.folder.exists()
    }

    /// The name of a batch's rows. Names sort in the order of the batches.
    fn name(batch: u64) -> String {
        format!("kept-{batch:020}")
    }

    fn description(&self, batch: u64) -> PathBuf {
        self.folder.join(format!("{}.{DESCRIPTION}", Self::name(batch)))
    }

    /// Begins a batch, which its first event names. What an interrupted run wrote of it is written again: as long as its rows
    /// are not whole, nothing describes them.
    pub(super) fn begin(&self, batch: u64) -> Result<KeptWriter, DedupError> {
        fs::create_dir_all(&self.folder).map_err(io_error(&self.folder))?;
        let description = self.description(batch);
        if description.exists() {
            let remove = || fs::remove_file(&description).and_then(|()| File::open(&self.folder)?.sync_all());
            remove().map_err(io_error(&description))?;
        }
        Ok(KeptWriter { rows: RunFileWriter::create(&self.folder, &Self::name(batch), true)? })
    }

    /// Ends a batch and makes it durable.
    pub(super) fn finish(&self, batch: u64, writer: KeptWriter) -> Result<(), DedupError> {
        let finished = writer.rows.finish()?;
        let path = self.folder.join(&finished.name);
        File::open(&path).and_then(|file| file.sync_all()).map_err(io_error(&path))?;
        let description = self.description(batch);
        let new = description.with_extension("new");
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(&serde_json::to_vec(&finished)?)?;
            file.sync_all()?;
            fs::rename(&new, &description)?;
            File::open(&self.folder)?.sync_all()
        };
        write().map_err(io_error(&description))
    }

    /// Calls `each` with every page that batches before this one kept.
    pub(super) fn each_before(
        &self,
        batch: u64,
        mut each: impl FnMut(KeptRow) -> Result<(), DedupError>,
    ) -> Result<(), DedupError> {
        for description in self.descriptions()? {
            let damaged = || DedupError::Damaged(description.clone());
            let bytes = fs::read(&description).map_err(io_error(&description))?;
            let finished: FinishedFile = serde_json::from_slice(&bytes).map_err(|_| damaged())?;
            if finished.name >= Self::name(batch) {
                continue;
            }
            let mut rows = RunFile::open(&self.folder, &finished, true)?.read_all();
            while let Some(row) = rows.next_row()? {
                each(row)?;
            }
        }
        Ok(())
    }

    /// The descriptions of all batches, in their order.
    fn descriptions(&self) -> Result<Vec<PathBuf>, DedupError> {
        if !self.folder.exists() {
            return Ok(Vec::new());
        }
        let mut descriptions = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(io_error(&self.folder))? {
            let path = entry.map_err(io_error(&self.folder))?.path();
            if path.extension().is_some_and(|extension| extension == DESCRIPTION) {
                descriptions.push(path);
            }
        }
        descriptions.sort();
        Ok(descriptions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::DocumentId;

    #[test]
    fn a_batch_sees_those_before_it() {
        let store = tempfile::tempdir().expect("a folder");
        let log = KeptLog::new(store.path());
        let row = |n: u32| KeptRow {
            document: DocumentId(n),
            url: format!("http://a/{n}"),
            source: "/in".into(),
            offset: i64::from(n),
        };
        let before = |batch| {
            let mut found = Vec::new();
            let all = log.each_before(batch, |row| {
                found.push(row.document.0);
                Ok(())
            });
            all.expect("read");
            found
        };
        assert_eq!(before(7), [0; 0]);
        for (batch, rows) in [(0, vec![1, 2]), (900, vec![5]), (20, vec![9, 4])] {
            let mut writer = log.begin(batch).expect("begun");
            rows.into_iter().for_each(|n| writer.push(row(n)).expect("written"));
            log.finish(batch, writer).expect("finished");
        }
        // Lost once: all later batches. One that began again and failed left cut rows under the description of the whole ones.
        let mut writer = log.begin(900).expect("begun");
        writer.push(row(5)).expect("written");
        drop(writer);
        assert_eq!(before(901), [1, 2, 9, 4]);
        let mut writer = log.begin(900).expect("begun");
        writer.push(row(5)).expect("written");
        log.finish(900, writer).expect("finished");
        // A batch that was killed: no description, no rows.
        drop(log.begin(30).expect("begun"));
        assert_eq!(
            [before(0), before(20), before(900), before(901)],
            [vec![], vec![1, 2], vec![1, 2, 9, 4], vec![1, 2, 9, 4, 5]]
        );
    }
}
