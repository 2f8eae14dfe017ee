//! What the first phase has read so far, as the manifest keeps it.

use super::report::RecordCounts;
use crate::extsort::FinishedFile;
use crate::ports::{Progress, ProgressMap};
use crate::sweep::SweepRow;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What the first phase has ingested.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IngestState {
    /// Whether the source is read to its end.
    pub is_finished: bool,
    /// The names of the sources. A page row holds the position of its source in this list.
    pub sources: Vec<String>,
    /// How far each (source, partition) is read: its next offset and its chain.
    pub progress: Vec<(String, i32, i64, u64)>,
    /// The segments, in the order of arrival.
    pub segments: Vec<Segment>,
    /// Counts of the records.
    pub counts: RecordCounts,
    /// The sweeps of the pages.
    pub sweeps: BTreeMap<String, SweepRow>,
    /// Parts of the input that cannot be read, and why.
    pub unreadable: BTreeSet<String>,
}

/// A stretch of the input, in four files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Documents in earlier segments.
    pub n_documents_before: u32,
    /// The records.
    pub pages: FinishedFile,
    /// The documents that these records brought.
    pub documents: FinishedFile,
    /// Where each document's row begins in its file.
    pub row_offsets: FinishedFile,
    /// The texts of these documents, where they are kept.
    pub texts: FinishedFile,
}

impl Segment {
    /// Documents in the segment.
    pub fn n_documents(&self) -> u32 {
        self.documents.n_rows as u32
    }

    /// The segment's files.
    pub fn files(&self) -> [&FinishedFile; 4] {
        [&self.pages, &self.documents, &self.row_offsets, &self.texts]
    }
}

impl IngestState {
    /// Documents in all segments.
    pub fn n_documents(&self) -> u32 {
        self.segments.last().map_or(0, |last| last.n_documents_before + last.n_documents())
    }

    /// How far the sources are read.
    pub fn progress_map(&self) -> ProgressMap {
        let progress = |(source, partition, next_offset, chain): &(String, i32, i64, u64)| {
            ((source.clone(), *partition), Progress { next_offset: *next_offset, chain: *chain })
        };
        self.progress.iter().map(progress).collect()
    }
}
