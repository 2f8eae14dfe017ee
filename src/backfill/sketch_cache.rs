//! The sketches of any documents, read where the first phase wrote them.

use crate::backfill::checkpoint::Checkpoint;
use crate::backfill::context::Context;
use crate::backfill::error::BackfillError;
use crate::backfill::rows::{DocumentRow, RowOffset, ShortenedIndex, sketch_bytes};
use crate::cluster::MatchRule;
use crate::document::DocumentId;
use crate::extsort::RunFile;
use crate::sketch::{Sketch, decode};
use std::collections::HashMap;
use std::sync::Arc;

/// Where every document's sketch is, four bytes a document.
pub(super) struct SketchFiles {
    files: Vec<SketchFile>,
}

struct SketchFile {
    n_documents_before: u32,
    run: Arc<RunFile<DocumentRow>>,
    offsets: Vec<u32>,
}

/// How many index shingles each document must share with an earlier one to be compared, two bytes a document.
pub(super) struct MinShared(Vec<u16>);

impl MinShared {
    /// Whether a document shares enough.
    pub fn is_met(&self, document: DocumentId, n_shared: u32) -> bool {
        n_shared >= u32::from(self.0[document.0 as usize - 1])
    }
}

/// Reads where the sketches are and what is needed of each document.
pub(super) fn open(
    checkpoint: &Checkpoint,
    shortened: (&str, bool),
) -> Result<(Arc<SketchFiles>, MinShared), BackfillError> {
    let rule: &MatchRule = &checkpoint.rule().cluster;
    let needed_of = |n_index: u32| u16::try_from(rule.shared_needed(n_index as usize)).unwrap_or(u16::MAX);
    let n_documents = checkpoint.ingested().n_documents() as usize;
    let mut needed = Vec::with_capacity(n_documents);
    let mut files = Vec::new();
    for piece in &checkpoint.ingested().pieces {
        let mut offsets = Vec::with_capacity(piece.n_documents() as usize);
        let mut places = RunFile::<RowOffset>::open(checkpoint.folder(), &piece.places, false)?.read_all();
        while let Some(place) = places.next()? {
            offsets.push(place.offset);
            needed.push(needed_of(place.n_index));
        }
        let run = RunFile::open(checkpoint.folder(), &piece.documents, false)?;
        files.push(SketchFile { n_documents_before: piece.n_documents_before, run, offsets });
    }
    for run in checkpoint.runs::<ShortenedIndex>(shortened.0, shortened.1)? {
        let mut rows = run.read_all();
        while let Some(row) = rows.next()? {
            needed[row.document.0 as usize - 1] = needed_of(row.n_index);
        }
    }
    Ok((Arc::new(SketchFiles { files }), MinShared(needed)))
}

impl SketchFiles {
    fn read(&self, document: DocumentId, bytes: &mut Vec<u8>) -> Result<Sketch, BackfillError> {
        let at = self.files.partition_point(|file| file.n_documents_before < document.0) - 1;
        let file = &self.files[at];
        let row = (document.0 - file.n_documents_before) as usize - 1;
        let end = file.offsets.get(row + 1).map_or(file.run.end_of_rows(), |offset| u64::from(*offset));
        file.run.read_bytes(u64::from(file.offsets[row]), end, bytes)?;
        let sketch = sketch_bytes(bytes).and_then(|bytes| decode(bytes).ok());
        sketch.ok_or_else(|| BackfillError::Damaged(file.run.path().to_path_buf()))
    }
}

/// SketchFiles at hand: those of the pairs under way come again and again.
pub(super) struct SketchCache {
    sketches: Arc<SketchFiles>,
    at_hand: HashMap<DocumentId, Arc<Sketch>>,
    n_bytes: usize,
    n_bytes_max: usize,
    buffer: Vec<u8>,
}

impl SketchCache {
    /// None yet; each thread may keep its share of the memory.
    pub fn new(sketches: &Arc<SketchFiles>, context: &Context) -> Self {
        let (sketches, n_bytes_max) = (Arc::clone(sketches), context.sorter_bytes() / 4);
        SketchCache { sketches, at_hand: HashMap::new(), n_bytes: 0, n_bytes_max, buffer: Vec::new() }
    }

    /// A document's sketch.
    pub fn get(&mut self, document: DocumentId) -> Result<Arc<Sketch>, BackfillError> {
        if let Some(sketch) = self.at_hand.get(&document) {
            return Ok(Arc::clone(sketch));
        }
        let sketch = Arc::new(self.sketches.read(document, &mut self.buffer)?);
        if self.n_bytes > self.n_bytes_max {
            self.at_hand.clear();
            self.n_bytes = 0;
        }
        self.n_bytes += sketch.n_bytes();
        self.at_hand.insert(document, Arc::clone(&sketch));
        Ok(sketch)
    }
}
