//! The row groups of a Parquet file in their order: on machines with many cores they are decoded side by side.

use super::input_file::InputFile;
use super::read_error::ReadError;
use arrow_array::RecordBatch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Rows that are decoded at once.
const BATCH_ROWS: usize = 64;

/// Batches that a thread decodes ahead of the reader.
const N_AHEAD: usize = 4;

/// A thread for each so many cores. On two cores, decoding in a thread of its own took a tenth longer than in the reader's.
const CORES_A_THREAD: usize = 4;

/// Threads for a file: beyond these, making sketches takes longer than decoding.
const N_THREADS_MAX: usize = 4;

/// What a thread sends: a batch, or that a row group has ended.
type Decoded = Result<Option<RecordBatch>, ReadError>;

/// The batches of a file.
pub(super) enum RowGroups {
    /// Decoded as they are read.
    Inline(ParquetRecordBatchReader),
    /// Thread `t` of `n` decodes the row groups `t`, `t + n`, and so on.
    Threads {
        threads: Vec<Receiver<Decoded>>,
        n_groups: usize,
        /// The row group that is read.
        group: usize,
    },
}

impl RowGroups {
    /// Begins to decode these columns of all row groups, in as many threads as the machine has to spare.
    ///
    /// # Errors
    /// [`ReadError`] where the file cannot be opened.
    pub(super) fn new(
        path: &Path,
        metadata: &ArrowReaderMetadata,
        columns: &ProjectionMask,
    ) -> Result<Self, ReadError> {
        let n_cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::in_threads(path, metadata, columns, (n_cores / CORES_A_THREAD).min(N_THREADS_MAX))
    }

    fn in_threads(
        path: &Path,
        metadata: &ArrowReaderMetadata,
        columns: &ProjectionMask,
        n_threads_max: usize,
    ) -> Result<Self, ReadError> {
        let n_groups = metadata.metadata().num_row_groups();
        let n_threads = n_threads_max.min(n_groups);
        let groups = |numbers| Groups {
            path: path.to_path_buf(),
            metadata: metadata.clone(),
            columns: columns.clone(),
            numbers,
        };
        if n_threads == 0 {
            let all = groups((0..n_groups).collect());
            return Ok(RowGroups::Inline(all.open(all.numbers.clone())?));
        }
        let threads = (0..n_threads).map(|first| {
            let groups = groups((first..n_groups).step_by(n_threads).collect());
            let (sender, receiver) = sync_channel(N_AHEAD);
            std::thread::spawn(move || groups.decode(&sender));
            receiver
        });
        Ok(RowGroups::Threads { threads: threads.collect(), n_groups, group: 0 })
    }

    /// The next batch; none at the end of the file.
    ///
    /// # Errors
    /// [`ReadError`] where the file is damaged or cannot be read; nothing comes after it.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>, ReadError> {
        let (threads, n_groups, group) = match self {
            RowGroups::Inline(batches) => {
                return batches.next().transpose().map_err(|error| ReadError::Parquet(error.to_string()));
            }
            RowGroups::Threads { threads, n_groups, group } => (threads, *n_groups, group),
        };
        while *group < n_groups {
            let decoded = threads[*group % threads.len()].recv();
            match decoded.unwrap_or_else(|_| Err(ReadError::Unusable("a thread that decodes has died".into()))) {
                Ok(Some(batch)) => return Ok(Some(batch)),
                Ok(None) => *group += 1,
                Err(error) => {
                    *group = n_groups;
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
    fn open(&self, numbers: Vec<usize>) -> Result<ParquetRecordBatchReader, ReadError> {
        // A file of its own: clones of one share their place.
        let file = InputFile::open(&self.path)?;
        ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
            .with_projection(self.columns.clone())
            .with_row_groups(numbers)
            .with_batch_size(BATCH_ROWS)
            .build()
            .map_err(|error| ReadError::Parquet(error.to_string()))
    }

    /// Decodes until the end, an error, or until the reader is gone.
    fn decode(self, out: &SyncSender<Decoded>) {
        for number in &self.numbers {
            let sent = match self.decode_group(*number, out) {
                Ok(true) => out.send(Ok(None)),
                Ok(false) => return,
                Err(error) => {
                    // If the reader is gone, so is the need for its error.
                    let _ = out.send(Err(error));
                    return;
                }
            };
            if sent.is_err() {
                return;
            }
        }
    }

    /// False if the reader is gone.
    fn decode_group(&self, number: usize, out: &SyncSender<Decoded>) -> Result<bool, ReadError> {
        for batch in self.open(vec![number])? {
            let batch = batch.map_err(|error| ReadError::Parquet(error.to_string()))?;
            if out.send(Ok(Some(batch))).is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{ArrayRef, Int64Array};
    use parquet::arrow::ArrowWriter;
    use parquet::arrow::arrow_reader::ArrowReaderOptions;
    use parquet::file::properties::WriterProperties;
    use std::fs::File;
    use std::sync::Arc;

    /// The numbers that a file yields with so many threads, and whether its end was reached.
    fn read(path: &Path, n_threads: usize) -> (Vec<i64>, bool) {
        let file = File::open(path).expect("a file");
        let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()).expect("Parquet");
        let mut groups = RowGroups::in_threads(path, &metadata, &ProjectionMask::all(), n_threads).expect("opened");
        let mut numbers = Vec::new();
        loop {
            match groups.next() {
                Ok(Some(batch)) => numbers.extend(batch.column(0).as_primitive::<Int64Type>().values()),
                Ok(None) => return (numbers, true),
                Err(_) => return (numbers, false),
            }
        }
    }

    /// Lost if this fails: the order of the rows, by which records are numbered.
    #[test]
    fn rows_keep_their_order_in_any_number_of_threads() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("numbers.parquet");
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..2000));
        let batch = RecordBatch::try_from_iter([("number", column)]).expect("a batch");
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(300)).build();
        let file = File::create(&path).expect("a file");
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).expect("a writer");
        writer.write(&batch).expect("written");
        writer.close().expect("closed");
        for n_threads in [0, 1, 2, 3, 7, 20] {
            assert_eq!(read(&path, n_threads), ((0..2000).collect(), true), "{n_threads} threads");
        }
        // Damage in the middle gives the same rows and the same end in any number of threads. A batch may span two row groups.
        let mut bytes = std::fs::read(&path).expect("read");
        let middle = bytes.len() / 2;
        bytes[middle..middle + 64].fill(0xee);
        std::fs::write(&path, bytes).expect("written");
        let (expected, is_whole) = read(&path, 0);
        for n_threads in [1, 2, 7] {
            let (numbers, ends_whole) = read(&path, n_threads);
            let n_common = numbers.len().min(expected.len());
            assert_eq!(numbers[..n_common], expected[..n_common], "{n_threads} threads");
            assert!(ends_whole == is_whole && numbers.len() - n_common < BATCH_ROWS, "{n_threads} threads");
        }
    }
}
