//! The row groups of a Parquet file, decoded side by side and handed over in their order.

use super::input_file::InputFile;
use super::read_error::ReadError;
use arrow_array::RecordBatch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Rows that are decoded at once.
const BATCH_ROWS: usize = 64;

/// Batches that a thread decodes ahead of the reader.
const N_AHEAD: usize = 4;

/// Threads for a file: beyond these, making sketches takes longer than decoding.
const N_THREADS_MAX: usize = 4;

/// What a thread sends: a batch, or that a row group has ended.
type Decoded = Result<Option<RecordBatch>, ReadError>;

/// The batches of a file. Thread `t` of `n` decodes the row groups `t`, `t + n`, and so on.
pub(super) struct RowGroups {
    threads: Vec<Receiver<Decoded>>,
    n_groups: usize,
    /// The row group that is read.
    group: usize,
}

impl RowGroups {
    /// Begins to decode these columns of all row groups.
    pub(super) fn new(path: &Path, metadata: &ArrowReaderMetadata, columns: &ProjectionMask) -> Self {
        let n_groups = metadata.metadata().num_row_groups();
        let n_cores = std::thread::available_parallelism().map_or(1, usize::from);
        let n_threads = n_cores.div_ceil(2).min(N_THREADS_MAX).min(n_groups);
        let threads = (0..n_threads).map(|first| {
            let groups = Groups {
                path: path.to_path_buf(),
                metadata: metadata.clone(),
                columns: columns.clone(),
                numbers: (first..n_groups).step_by(n_threads).collect(),
            };
            let (sender, receiver) = sync_channel(N_AHEAD);
            std::thread::spawn(move || groups.decode(&sender));
            receiver
        });
        RowGroups { threads: threads.collect(), n_groups, group: 0 }
    }

    /// The next batch; none at the end of the file.
    ///
    /// # Errors
    /// [`ReadError`] where the file is damaged or cannot be read; nothing comes after it.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>, ReadError> {
        while self.group < self.n_groups {
            let thread = &self.threads[self.group % self.threads.len()];
            let decoded =
                thread.recv().unwrap_or_else(|_| Err(ReadError::Unusable("a thread that decodes has died".into())));
            match decoded {
                Ok(Some(batch)) => return Ok(Some(batch)),
                Ok(None) => self.group += 1,
                Err(error) => {
                    self.group = self.n_groups;
                    return Err(error);
                }
            }
        }
        Ok(None)
    }
}

/// The row groups of one thread.
struct Groups {
    path: PathBuf,
    metadata: ArrowReaderMetadata,
    columns: ProjectionMask,
    numbers: Vec<usize>,
}

impl Groups {
    /// Decodes until the end, an error, or until nobody reads any more.
    fn decode(self, out: &SyncSender<Decoded>) {
        for number in &self.numbers {
            let sent = match self.decode_group(*number, out) {
                Ok(true) => out.send(Ok(None)),
                Ok(false) => return,
                Err(error) => {
                    // Where nobody reads, nobody wants to know.
                    let _ = out.send(Err(error));
                    return;
                }
            };
            if sent.is_err() {
                return;
            }
        }
    }

    /// False if nobody reads any more.
    fn decode_group(&self, number: usize, out: &SyncSender<Decoded>) -> Result<bool, ReadError> {
        // A file of its own: clones of one share their place.
        let file = InputFile::open(&self.path)?;
        let batches = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
            .with_projection(self.columns.clone())
            .with_row_groups(vec![number])
            .with_batch_size(BATCH_ROWS)
            .build()
            .map_err(|error| ReadError::Parquet(error.to_string()))?;
        for batch in batches {
            let batch = batch.map_err(|error| ReadError::Parquet(error.to_string()))?;
            if out.send(Ok(Some(batch))).is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
