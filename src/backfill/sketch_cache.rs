//! Reads the sketch of any document from the files of the first phase, and keeps the sketches that pairs need again.

use super::checkpoint::Checkpoint;
use super::context::Context;
use super::datasets::{DOCUMENTS, ROW_OFFSETS, SHORTENED_INDEXES};
use super::error::BackfillError;
use super::min_shared::MinShared;
use super::rows::{DocumentRow, sketch_bytes};
use crate::cluster::MatchRule;
use crate::document::DocumentId;
use crate::extsort::{RunFile, Window};
use crate::sketch::{Sketch, decode};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Where every document's sketch is: four bytes of memory a document.
pub(super) struct SketchFiles {
    segments: Vec<SketchFile>,
}

struct SketchFile {
    n_documents_before: u32,
    documents: Arc<RunFile<DocumentRow>>,
    offsets: Vec<u32>,
}

/// Reads where the sketches are and what each document must share.
pub(super) fn open_sketches(checkpoint: &Checkpoint) -> Result<(Arc<SketchFiles>, MinShared), BackfillError> {
    let rule: &MatchRule = &checkpoint.rule().cluster;
    let ingested = checkpoint.ingested();
    let mut min_shared = MinShared::default();
    let mut segments = Vec::with_capacity(ingested.segments.len());
    for segment in &ingested.segments {
        let mut offsets = Vec::with_capacity(segment.n_documents() as usize);
        let mut rows = ROW_OFFSETS.open(checkpoint.folder(), &segment.row_offsets)?.read_all();
        while let Some(row) = rows.next_row()? {
            offsets.push(row.offset);
            min_shared.push(rule, row.n_index);
        }
        let documents = DOCUMENTS.open(checkpoint.folder(), &segment.documents)?;
        segments.push(SketchFile { n_documents_before: segment.n_documents_before, documents, offsets });
    }
    for file in checkpoint.open_dataset(SHORTENED_INDEXES)? {
        let mut rows = file.read_all();
        while let Some(row) = rows.next_row()? {
            min_shared.set(row.document, rule, row.n_index);
        }
    }
    Ok((Arc::new(SketchFiles { segments }), min_shared))
}

impl SketchFiles {
    /// Reads a sketch through a window on one segment.
    fn read(&self, document: DocumentId, (segment, window): &mut (usize, Window)) -> Result<Sketch, BackfillError> {
        let at = self.segments.partition_point(|segment| segment.n_documents_before < document.0) - 1;
        if std::mem::replace(segment, at) != at {
            window.clear();
        }
        let SketchFile { n_documents_before, documents, offsets } = &self.segments[at];
        let row = (document.0 - n_documents_before) as usize - 1;
        let end = offsets.get(row + 1).map_or(documents.end_of_rows(), |offset| u64::from(*offset));
        let bytes = window.read(documents, u64::from(offsets[row]), end)?;
        let sketch = sketch_bytes(bytes).and_then(|bytes| decode(bytes).ok());
        sketch.ok_or_else(|| BackfillError::Damaged(documents.path().to_path_buf()))
    }
}

/// The sketches that one thread has read lately. Pairs under way need the same ones again and again.
pub(super) struct SketchCache {
    files: Arc<SketchFiles>,
    sketches: FxHashMap<DocumentId, Arc<Sketch>>,
    n_bytes: usize,
    n_bytes_max: usize,
    /// The segment that [`Self::get_next`] read last, and the window on it.
    ahead: (usize, Window),
    /// The same of [`Self::get`].
    any: (usize, Window),
}

impl SketchCache {
    /// Creates an empty cache. It holds a quarter of what its thread's sorters may hold.
    pub fn new(files: &Arc<SketchFiles>, context: &Context) -> Self {
        let (files, n_bytes_max) = (Arc::clone(files), context.sorter_bytes() / 4);
        let (ahead, any) = ((0, Window::ahead()), (0, Window::default()));
        SketchCache { files, sketches: FxHashMap::default(), n_bytes: 0, n_bytes_max, ahead, any }
    }

    /// The sketch of a document.
    pub fn get(&mut self, document: DocumentId) -> Result<Arc<Sketch>, BackfillError> {
        self.find(document, false)
    }

    /// The sketch of a document whose successors are asked for soon.
    pub fn get_next(&mut self, document: DocumentId) -> Result<Arc<Sketch>, BackfillError> {
        self.find(document, true)
    }

    fn find(&mut self, document: DocumentId, reads_ahead: bool) -> Result<Arc<Sketch>, BackfillError> {
        if let Some(sketch) = self.sketches.get(&document) {
            return Ok(Arc::clone(sketch));
        }
        let window = if reads_ahead { &mut self.ahead } else { &mut self.any };
        let sketch = Arc::new(self.files.read(document, window)?);
        if self.n_bytes > self.n_bytes_max {
            self.sketches.clear();
            self.n_bytes = 0;
        }
        self.n_bytes += sketch.n_bytes();
        self.sketches.insert(document, Arc::clone(&sketch));
        Ok(sketch)
    }
}
