//! The run whose blocks a backfill loaded: it still needs its filter.

use super::filter::RunFilter;
use super::group::SharedFilter;
use super::key::{LOADED_RUN, RunName, keys_of_run};
use super::live::{NewRun, PostingRun, PostingRuns};
use super::tiers::level_of;
use crate::ports::StoreError;
use crate::store::column_options::run_options;
use crate::store::db::{family, ingest};
use crate::store::rocks_error::failed;
use crate::store::schema::PostingKind;
use rocksdb::{Range, SstFileWriter};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// About how many bytes of a run the list of an index shingle takes, for nearly all have one document.
const BYTES_OF_LIST: u64 = 7;

/// About how many bytes a run of level 0 has, with the default posting buffer.
const BYTES_OF_FIRST_LEVEL: u64 = 8 << 20;

impl PostingRuns {
    /// The run whose blocks were loaded. Reads it for its filter, which is ingested from a file in `folder`. Its level is that of
    /// a run of its size.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn loaded(&self, kind: PostingKind, folder: &Path) -> Result<NewRun, StoreError> {
        let (from, to) = keys_of_run(LOADED_RUN);
        let n_bytes = self.db.get_approximate_sizes_cf(family(&self.db, kind.family())?, &[Range::new(&from, &to)]);
        let n_bytes: u64 = n_bytes.into_iter().sum();
        let level = level_of(n_bytes / BYTES_OF_FIRST_LEVEL);
        let mut filter = RunFilter::for_lists(kind, n_bytes / BYTES_OF_LIST, level, self.short_max)?;
        self.add_loaded(kind, &mut filter)?;
        let path = folder.join(format!("{}-filter.sst", kind.family()));
        let options = run_options(kind.family());
        let mut file = SstFileWriter::create(&options);
        file.open(&path).map_err(failed)?;
        filter.put(&mut file, LOADED_RUN, self.width(kind))?;
        file.finish().map_err(failed)?;
        ingest(&self.db, kind.family(), vec![path])?;
        let name = RunName { number: LOADED_RUN, level };
        Ok(NewRun { kind, run: PostingRun::new(name, Some(SharedFilter::new(filter)), None) })
    }

    /// Adds the loaded lists to a filter. Each thread reads one file after the other.
    fn add_loaded(&self, kind: PostingKind, filter: &mut RunFilter) -> Result<(), StoreError> {
        let (from, to) = keys_of_run(LOADED_RUN);
        let files = self.db.live_files().map_err(failed)?;
        let files = files.into_iter().filter(|file| file.column_family_name == kind.family());
        let mut starts: Vec<Vec<u8>> = files.filter_map(|file| file.start_key).collect();
        starts.sort_unstable();
        // The first part begins with the run.
        starts.splice(..starts.len().min(1), [from.to_vec()]);
        let ends = starts.iter().skip(1).cloned().chain([to.to_vec()]).collect::<Vec<_>>();
        let n_threads = std::thread::available_parallelism().map_or(1, usize::from).min(starts.len());
        let ranges = Mutex::new(starts.into_iter().zip(ends));
        let next = || -> Option<(Vec<u8>, Vec<u8>)> { ranges.lock().unwrap_or_else(PoisonError::into_inner).next() };
        filter.insert_on_threads(n_threads, |each| {
            while let Some((from, to)) = next() {
                self.each_block_between(kind, LOADED_RUN, (&from, &to), each)?;
            }
            Ok(())
        })
    }
}
