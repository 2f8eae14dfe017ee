//! A finished build: its URLs, bags, neighbours and centers, as files that are read again.

use super::collect::read_frequencies;
use super::datasets::{BAGS, CENTERS, NEIGHBOURS, WORDS};
use super::rows::{BagRow, CenterRow, NeighbourRow, WordRow};
use super::url_table::UrlTable;
use super::work::{BuildReport, BuildSpec, RelatedBuild};
use crate::backfill::checkpoint::Checkpoint;
use crate::backfill::error::BackfillError;
use crate::extsort::{MergeReader, RunFile};
use crate::related::{Bag, Frequencies, Term};
use rustc_hash::FxHashMap;
use std::path::Path;
use std::sync::Arc;

/// A URL that is related to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbour {
    /// Its id.
    pub id: u32,
    /// Its similarity.
    pub similarity: f64,
}

/// A finished build. URLs have ids from 0, in the order of URLs.
pub struct Built {
    checkpoint: Checkpoint<RelatedBuild>,
    report: BuildReport,
    neighbours: Vec<Arc<RunFile<NeighbourRow>>>,
}

impl Built {
    /// Opens the work folder of a finished build.
    ///
    /// # Errors
    /// [`BackfillError::Incomplete`] where the build is not finished.
    pub fn open(folder: &Path) -> Result<Self, BackfillError> {
        Self::of(Checkpoint::open_complete(folder)?)
    }

    /// Reads the results of a build that has just finished.
    ///
    /// # Errors
    /// [`BackfillError::Incomplete`] where it has not.
    pub fn of(checkpoint: Checkpoint<RelatedBuild>) -> Result<Self, BackfillError> {
        let incomplete = || BackfillError::Incomplete(checkpoint.folder().to_path_buf());
        let report = checkpoint.report().cloned().ok_or_else(incomplete)?;
        let neighbours = checkpoint.open_dataset(NEIGHBOURS)?;
        Ok(Built { checkpoint, report, neighbours })
    }

    /// What the build did.
    pub fn report(&self) -> &BuildReport {
        &self.report
    }

    /// What the build is of.
    pub fn spec(&self) -> &BuildSpec {
        self.checkpoint.spec()
    }

    /// N and df of the words of pages and of what links say, of the terms that the rule may keep.
    ///
    /// # Errors
    /// [`BackfillError`] where a file cannot be read.
    pub fn frequencies(&self) -> Result<[Frequencies; 2], BackfillError> {
        read_frequencies(&self.checkpoint)
    }

    /// Gives every URL with its bag, in the order of ids.
    ///
    /// # Errors
    /// [`BackfillError`] where a file cannot be read, and any error of `found`.
    pub fn each_bag<E: From<BackfillError>>(
        &self,
        mut found: impl FnMut(String, Bag) -> Result<(), E>,
    ) -> Result<(), E> {
        for file in self.checkpoint.open_dataset(BAGS)? {
            let mut rows = file.read_all();
            while let Some(BagRow { url, bag }) = rows.next_row().map_err(BackfillError::from)? {
                found(url, bag)?;
            }
        }
        Ok(())
    }

    /// A word of each term that a bag holds, in memory: of several words with one term, the smallest. A build that was given
    /// terms has none.
    ///
    /// # Errors
    /// [`BackfillError`] where a file cannot be read.
    pub fn words(&self) -> Result<FxHashMap<Term, String>, BackfillError> {
        let mut words: FxHashMap<Term, String> = FxHashMap::default();
        self.each_bag::<BackfillError>(|_, bag| {
            words.extend(bag.weights().iter().map(|(term, _)| (*term, String::new())));
            Ok(())
        })?;
        let mut rows = MergeReader::new(&self.checkpoint.open_dataset(WORDS)?, None, None)?;
        while let Some(WordRow { term, word }) = rows.next_row()? {
            if let Some(found) = words.get_mut(&term) {
                *found = word;
            }
        }
        words.retain(|_, word| !word.is_empty());
        Ok(words)
    }

    /// All URLs, in memory.
    ///
    /// # Errors
    /// [`BackfillError`] where a file cannot be read.
    pub fn urls(&self) -> Result<UrlTable, BackfillError> {
        let mut urls = UrlTable::default();
        self.each_bag::<BackfillError>(|url, _| {
            urls.push(&url);
            Ok(())
        })?;
        Ok(urls)
    }

    /// Gives the center of every URL, in the order of ids.
    ///
    /// # Errors
    /// [`BackfillError`] where a file cannot be read, and any error of `found`.
    pub fn each_center<E: From<BackfillError>>(
        &self,
        mut found: impl FnMut(u32, u32) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut id = 0;
        for file in self.checkpoint.open_dataset(CENTERS)? {
            let mut rows = file.read_all();
            while let Some(CenterRow(center)) = rows.next_row().map_err(BackfillError::from)? {
                found(id, center)?;
                id += 1;
            }
        }
        Ok(())
    }

    /// The neighbours of a URL, the most similar first, and the smallest id first among equals.
    ///
    /// # Errors
    /// [`BackfillError`] where a file cannot be read.
    pub fn neighbours(&self, id: u32) -> Result<Vec<Neighbour>, BackfillError> {
        let (from, to) = (NeighbourRow::first_of(id), NeighbourRow::first_of(id + 1));
        let mut rows = MergeReader::new(&self.neighbours, Some(&from), Some(to))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next_row()? {
            found.push(neighbour(row));
        }
        rank(&mut found);
        Ok(found)
    }

    /// Gives the neighbours of every URL that has any, in the order of ids, as [`neighbours`](Self::neighbours) does.
    ///
    /// # Errors
    /// [`BackfillError`] where a file cannot be read, and any error of `found`.
    pub fn each_neighbours<E: From<BackfillError>>(
        &self,
        mut found: impl FnMut(u32, &[Neighbour]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rows = MergeReader::new(&self.neighbours, None, None).map_err(BackfillError::from)?;
        let (mut of, mut group) = (0, Vec::new());
        loop {
            let row = rows.next_row().map_err(BackfillError::from)?;
            if !group.is_empty() && row.is_none_or(|row| row.of != of) {
                rank(&mut group);
                found(of, &group)?;
                group.clear();
            }
            let Some(row) = row else { return Ok(()) };
            of = row.of;
            group.push(neighbour(row));
        }
    }
}

fn neighbour(row: NeighbourRow) -> Neighbour {
    Neighbour { id: row.neighbour, similarity: row.similarity() }
}

fn rank(neighbours: &mut [Neighbour]) {
    neighbours.sort_by(|a, b| b.similarity.total_cmp(&a.similarity).then(a.id.cmp(&b.id)));
}
