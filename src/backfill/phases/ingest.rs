//! The first phase: sketches the source's records in parallel, and finds those that equal an earlier one.
//!
//! ```text
//! reader ─▶ sketcher ×n ─▶ writer: known documents ─▶ pages, documents, row offsets
//! chunks                    in the order of arrival     segment by segment
//!               ▲                     │
//!               └──── known bodies ───┘
//! ```
//! A sketcher skips bodies that the writer has seen. However far ahead the sketchers are, what the writer knows came
//! before what they hold.

use crate::backfill::checkpoint::Checkpoint;
use crate::backfill::context::Context;
use crate::backfill::datasets::{DOCUMENTS, DatasetWriter, PAGES, ROW_OFFSETS, TEXTS};
use crate::backfill::dedup::{BYTES_PER_DOCUMENT, KnownBodies, KnownBody, KnownDocuments};
use crate::backfill::error::BackfillError;
use crate::backfill::ingest_state::{IngestState, Segment};
use crate::backfill::rows::{DocumentRow, Outcome, PageRow, RowOffset, TextRow, Visit};
use crate::backfill::sketching::{CHUNK_RECORDS, PageInput, in_order, read_chunks};
use crate::cluster::{Relation, TooManyDocuments};
use crate::document::{DocumentId, Fingerprint, Seed, host_key};
use crate::intake::{KeptText, RecordSketcher, SketchedPage, SketchedRecord};
use crate::ports::{Chunk, Incoming, Progress, ProgressMap, SourceError, StoreError};
use crate::sketch::{SketchForm, SketchRule, SketchedContent, encode};
use crate::sweep::{Observation, Seen, SweepRow};
use crate::wire::{Origin, Rejection};
use rustc_hash::FxHashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// A segment is full with so many bytes of documents, or so many pages: an eighth of what earlier segments hold, at
/// least the first number and at most the second. Small and large inputs thus have few segments, and a kill costs the first
/// number or a ninth of the input. The offset of a row in a file of documents fits in 32 bits.
const SEGMENT_BYTES: (u64, u64) = (16 << 20, 1 << 30);
const SEGMENT_PAGES: (u64, u64) = (64 << 10, 4 << 20);

/// A record with what its page and its content become.
pub(super) struct VisitRecord {
    pub origin: Origin,
    pub chain: u64,
    pub n_bytes: usize,
    pub outcome: Result<(Visit, VisitContent), Rejection>,
}

/// The content that a visit found.
pub(super) enum VisitContent {
    None,
    Known(KnownBody),
    Sketched(Box<NewDocument>),
}

/// A content as the row that it gets if it is a new document.
#[derive(Clone)]
pub(super) struct NewDocument {
    row: DocumentRow,
    /// Shingles that may index the document.
    n_candidates: usize,
    /// The text to keep.
    text: Option<KeptText>,
}

/// Ingests all that the source has.
pub(in crate::backfill) fn ingest(
    checkpoint: &mut Checkpoint,
    context: &Context,
    input: PageInput,
) -> Result<(), BackfillError> {
    if checkpoint.ingested().is_finished {
        return Ok(());
    }
    let (seed, rule) = (checkpoint.seed()?, checkpoint.rule().clone());
    let PageInput { source, limits, sweep_cut, future, texts } = input;
    let known_bodies = RwLock::new(KnownBodies::within(context));
    let worker = || {
        let sketcher = RecordSketcher::new(rule.sketcher(&seed), limits.clone(), sweep_cut, future).with_texts(texts);
        let mut worker = SketchWorker { sketcher, rule: &rule.sketch, seed, known: &known_bodies };
        move |chunk: Chunk<Incoming>| chunk.map(|record| worker.sketch(record))
    };
    let mut writer = IngestWriter::resume(checkpoint, context, &known_bodies)?;
    let read = |send: &dyn Fn(Chunk<Incoming>) -> bool| read_chunks(source, context, send);
    let (written, reached_end) = in_order(context, read, worker, |chunk| writer.take(chunk, checkpoint));
    written?;
    // What is sketched is kept, even if the reader failed.
    writer.finish(checkpoint, reached_end)?;
    context.check_stop()
}

/// Ingests records that were sketched elsewhere, unless that is done already. Records that are ingested are skipped.
///
/// # Errors
/// [`BackfillError`]
pub fn ingest_sketched(
    checkpoint: &mut Checkpoint,
    context: &Context,
    mut chunks: impl Iterator<Item = Result<Chunk<SketchedRecord>, SourceError>> + Send,
) -> Result<(), BackfillError> {
    if checkpoint.ingested().is_finished {
        return Ok(());
    }
    let (seed, rule) = (checkpoint.seed()?, checkpoint.rule().sketch.clone());
    let worker = || {
        |chunk: Chunk<SketchedRecord>| {
            chunk.map(|SketchedRecord { origin, chain, n_bytes, outcome }| {
                let outcome = outcome.map(|page| visit(page, None, &seed, &rule));
                VisitRecord { origin, chain, n_bytes, outcome }
            })
        }
    };
    let ingested = checkpoint.ingested().progress_map();
    let read = |send: &dyn Fn(Chunk<SketchedRecord>) -> bool| {
        chunks.try_for_each(|chunk| {
            let mut chunk = chunk?;
            if let Chunk::Records(records) = &mut chunk {
                skip_ingested(records, &ingested);
            }
            context.check_stop()?;
            if send(chunk) { Ok(()) } else { Err(BackfillError::Stopped) }
        })
    };
    ingest_without_bodies(checkpoint, context, read, worker)
}

/// Ingests what `read` sends, as of [`in_order`]: records that have no bodies to look up.
pub(super) fn ingest_without_bodies<C: Send, W: FnMut(C) -> Chunk<VisitRecord> + Send>(
    checkpoint: &mut Checkpoint,
    context: &Context,
    read: impl FnOnce(&dyn Fn(C) -> bool) -> Result<(), BackfillError> + Send,
    worker: impl Fn() -> W,
) -> Result<(), BackfillError> {
    let known_bodies = RwLock::new(KnownBodies::new(0));
    let mut writer = IngestWriter::resume(checkpoint, context, &known_bodies)?;
    let (written, read) = in_order(context, read, worker, |chunk| writer.take(chunk, checkpoint));
    written?;
    writer.finish(checkpoint, read.map(|()| true))
}

/// Drops the records, all of one source, that are ingested.
fn skip_ingested(records: &mut Vec<SketchedRecord>, ingested: &ProgressMap) {
    let Some(Origin { source, partition, .. }) = records.first().map(|record| &record.origin) else { return };
    if let Some(progress) = ingested.get(&(source.to_string(), *partition)) {
        records.retain(|record| record.origin.offset >= progress.next_offset);
    }
}

/// Pages as records of one source, numbered from 0, in chunks for [`ingest_sketched`].
pub fn sketched_chunks(
    source: &str,
    pages: impl Iterator<Item = SketchedPage>,
) -> impl Iterator<Item = Result<Chunk<SketchedRecord>, SourceError>> {
    let source: Arc<str> = source.into();
    let mut records = (0..).zip(pages).map(move |(offset, page)| {
        let origin = Origin { source: Arc::clone(&source), partition: 0, offset };
        SketchedRecord { origin, chain: 0, n_bytes: 0, outcome: Ok(page) }
    });
    std::iter::from_fn(move || {
        let chunk: Vec<_> = records.by_ref().take(CHUNK_RECORDS).collect();
        (!chunk.is_empty()).then_some(Ok(Chunk::Records(chunk)))
    })
}

/// A sketcher and what it reads.
pub(super) struct SketchWorker<'a> {
    pub sketcher: RecordSketcher,
    pub rule: &'a SketchRule,
    pub seed: Seed,
    pub known: &'a RwLock<KnownBodies>,
}

impl SketchWorker<'_> {
    pub fn sketch(&mut self, incoming: Incoming) -> VisitRecord {
        let Incoming { origin, chain, record, .. } = incoming;
        let (n_bytes, known) = (record.n_bytes(), self.known);
        let find = |bytes| known.read().unwrap_or_else(PoisonError::into_inner).find(bytes);
        let sketched = self.sketcher.sketch_unless_known(&record, find, |_| true);
        let outcome = sketched.map(|(page, known)| visit(page, known, &self.seed, self.rule));
        VisitRecord { origin, chain, n_bytes, outcome }
    }
}

/// Splits a page into its visit and the content that it found.
fn visit(page: SketchedPage, known: Option<KnownBody>, seed: &Seed, rule: &SketchRule) -> (Visit, VisitContent) {
    let (key, host) = (seed.fingerprint("url", &[page.url.as_bytes()]), host_key(seed, &page.url));
    let content = match (known, page.content) {
        (Some(known), _) => VisitContent::Known(known),
        (None, Some(content)) => {
            let content = Arc::unwrap_or_clone(content);
            VisitContent::Sketched(Box::new(new_document(content, page.text, key, rule)))
        }
        (None, None) => VisitContent::None,
    };
    let seen = page.redirect_to.map_or(Seen::Gone, Seen::Redirect);
    let observation = Observation { fetched_at: page.fetched_at, seen, sweep: page.sweep };
    (Visit { url: page.url, key, host, observation, relation: None }, content)
}

pub(super) fn new_document(
    content: SketchedContent,
    text: Option<KeptText>,
    first_url: Fingerprint,
    rule: &SketchRule,
) -> NewDocument {
    let mut sketch = Vec::new();
    encode(&content.sketch, &mut sketch);
    let begins_with_index = match &content.sketch.form {
        SketchForm::Sample { values, .. } => values.get(..content.index.len()) == Some(content.index.as_slice()),
        SketchForm::Whole(_) | SketchForm::Parity(_) => false,
    };
    debug_assert!(content.index.len() <= rule.index_candidates());
    let n_candidates = content.index.len();
    let row = DocumentRow {
        equivalences: content.equivalences,
        first_url,
        n_words: content.n_words,
        n_bytes: content.n_bytes,
        sketch,
        index: (!begins_with_index).then_some(content.index),
        super_shingles: content.super_shingles,
        mod_shingles: content.mod_shingles,
    };
    NewDocument { row, n_candidates, text }
}

/// Assigns document ids and writes segments.
pub(super) struct IngestWriter<'a> {
    context: &'a Context,
    known: KnownDocuments,
    /// Bodies that the sketchers do not know yet.
    new_bodies: Vec<(Fingerprint, KnownBody)>,
    known_bodies: &'a RwLock<KnownBodies>,
    state: IngestState,
    /// The numbers of the sources: their positions in the state.
    sources: FxHashMap<Arc<str>, u32>,
    /// How far each (source, partition) is read.
    progress: FxHashMap<(u32, i32), Progress>,
    n_index_max: usize,
    segment: Option<OpenSegment>,
}

/// The segment under way.
struct OpenSegment {
    n_documents_before: u32,
    pages: DatasetWriter<PageRow>,
    documents: DatasetWriter<DocumentRow>,
    row_offsets: DatasetWriter<RowOffset>,
    texts: DatasetWriter<TextRow>,
    n_pages: u64,
    n_bytes_max: u64,
    n_pages_max: u64,
}

impl OpenSegment {
    /// Creates the files of the next segment.
    fn create(context: &Context, state: &IngestState, n_documents_before: u32) -> Result<Self, BackfillError> {
        let (folder, number) = (&context.folder, state.segments.len());
        let sum = |of: fn(&Segment) -> u64| state.segments.iter().map(of).sum::<u64>();
        let eighth = |sum: u64, (least, most): (u64, u64)| (sum / 8).clamp(least, most);
        Ok(OpenSegment {
            n_documents_before,
            pages: PAGES.create(folder, format_args!("{number:04}"))?,
            documents: DOCUMENTS.create(folder, format_args!("{number:04}"))?,
            row_offsets: ROW_OFFSETS.create(folder, format_args!("{number:04}"))?,
            texts: TEXTS.create(folder, format_args!("{number:04}"))?,
            n_pages: 0,
            n_bytes_max: eighth(sum(|segment| segment.documents.n_bytes), SEGMENT_BYTES),
            n_pages_max: eighth(sum(|segment| segment.pages.n_rows), SEGMENT_PAGES),
        })
    }

    fn is_full(&self) -> bool {
        self.documents.n_bytes() >= self.n_bytes_max || self.n_pages >= self.n_pages_max
    }

    fn finish(self) -> Result<Segment, BackfillError> {
        Ok(Segment {
            n_documents_before: self.n_documents_before,
            pages: self.pages.finish()?.file,
            documents: self.documents.finish()?.file,
            row_offsets: self.row_offsets.finish()?.file,
            texts: self.texts.finish()?.file,
        })
    }
}

impl<'a> IngestWriter<'a> {
    /// Resumes after the segments of the checkpoint, whose documents are known.
    pub fn resume(
        checkpoint: &Checkpoint,
        context: &'a Context,
        known_bodies: &'a RwLock<KnownBodies>,
    ) -> Result<Self, BackfillError> {
        let state = checkpoint.ingested().clone();
        let (mut known, mut new_bodies) = (KnownDocuments::default(), Vec::new());
        for segment in &state.segments {
            let mut rows = DOCUMENTS.open(checkpoint.folder(), &segment.documents)?.read_all();
            while let Some(row) = rows.next_row()? {
                let document = known.add(&row.equivalences).ok_or(StoreError::Full(TooManyDocuments))?;
                let body = KnownBody { document, relation: Relation::Identical };
                new_bodies.push((row.equivalences.identical, body));
            }
            known_bodies.write().unwrap_or_else(PoisonError::into_inner).add(&mut new_bodies);
        }
        let sources = state.sources.iter().zip(0..).map(|(name, at)| (Arc::from(name.as_str()), at));
        let index_size = checkpoint.rule().sketch.index_size;
        let mut writer = IngestWriter {
            context,
            known,
            new_bodies,
            known_bodies,
            sources: sources.collect(),
            progress: FxHashMap::default(),
            n_index_max: if index_size == 0 { usize::MAX } else { index_size },
            segment: None,
            state,
        };
        for ((source, partition), progress) in checkpoint.ingested().progress_map() {
            let source = writer.source_number(&Arc::from(source));
            writer.progress.insert((source, partition), progress);
        }
        Ok(writer)
    }

    /// Writes a chunk, and records the segment if that fills it.
    pub fn take(&mut self, chunk: Chunk<VisitRecord>, checkpoint: &mut Checkpoint) -> Result<(), BackfillError> {
        match chunk {
            Chunk::Unreadable(what) => {
                tracing::error!("{what}");
                self.state.unreadable.insert(what);
            }
            Chunk::Records(records) => {
                self.context.progress.advance(records.len() as u64);
                records.into_iter().try_for_each(|record| self.add(record))?;
                self.share_known_bodies();
            }
        }
        if self.segment.as_ref().is_some_and(OpenSegment::is_full) {
            self.close_segment(checkpoint)?;
        }
        Ok(())
    }

    /// Records the last segment, and whether the source is read to its end.
    pub fn finish(
        mut self,
        checkpoint: &mut Checkpoint,
        reached_end: Result<bool, BackfillError>,
    ) -> Result<(), BackfillError> {
        self.state.is_finished = matches!(reached_end, Ok(true));
        self.close_segment(checkpoint)?;
        reached_end.map(drop)
    }

    fn add(&mut self, record: VisitRecord) -> Result<(), BackfillError> {
        let VisitRecord { origin, chain, n_bytes, outcome } = record;
        let counts = &mut self.state.counts;
        counts.n_bytes += n_bytes as u64;
        let outcome = match outcome {
            Err(why) => {
                counts.n_records += 1;
                counts.n_rejected += 1;
                Outcome::Rejected(why)
            }
            // Closing a sweep made the mark, and no record.
            Ok((visit, _)) if visit.observation.seen == Seen::Lost => Outcome::Page(visit),
            Ok((mut visit, content)) => {
                counts.n_records += 1;
                if let Some((document, relation)) = self.document_of(content)? {
                    visit.observation.seen = Seen::Document(document);
                    visit.relation = Some(relation);
                }
                self.count_sweep(&visit.observation);
                Outcome::Page(visit)
            }
        };
        let (source, partition, offset) = (self.source_number(&origin.source), origin.partition, origin.offset);
        self.progress.insert((source, partition), Progress { next_offset: offset + 1, chain });
        let segment = self.open_segment()?;
        segment.n_pages += 1;
        segment.pages.push(PageRow { source, partition, offset, outcome })?;
        Ok(())
    }

    fn count_sweep(&mut self, observation: &Observation) {
        let Some(name) = &observation.sweep else { return };
        let sweeps = &mut self.state.sweeps;
        let row = match sweeps.get_mut(name) {
            Some(row) => row,
            None => sweeps.entry(name.clone()).or_insert_with(|| SweepRow::begun(observation.fetched_at)),
        };
        row.count(observation.fetched_at, observation.seen.document().is_some());
    }

    /// The document of a content, known or new, and how the content equals it.
    fn document_of(&mut self, content: VisitContent) -> Result<Option<(DocumentId, Relation)>, BackfillError> {
        let counts = &mut self.state.counts;
        let new = match content {
            VisitContent::None => {
                counts.n_gone += 1;
                return Ok(None);
            }
            VisitContent::Known(KnownBody { document, relation }) => {
                counts.n_pages += 1;
                counts.n_equal += 1;
                return Ok(Some((document, relation)));
            }
            VisitContent::Sketched(new) => new,
        };
        counts.n_pages += 1;
        let bytes = new.row.equivalences.identical;
        let (document, relation) = match self.known.find(&new.row.equivalences) {
            Some(found) => {
                counts.n_equal += 1;
                found
            }
            None => (self.add_document(*new)?, Relation::New),
        };
        // A body that brought a document is identical to it when it comes again.
        let again = if relation == Relation::New { Relation::Identical } else { relation };
        self.new_bodies.push((bytes, KnownBody { document, relation: again }));
        Ok(Some((document, relation)))
    }

    /// Makes new bodies known to the sketchers.
    fn share_known_bodies(&mut self) {
        self.known_bodies.write().unwrap_or_else(PoisonError::into_inner).add(&mut self.new_bodies);
    }

    fn add_document(&mut self, new: NewDocument) -> Result<DocumentId, BackfillError> {
        let NewDocument { row, n_candidates, text } = new;
        // A segment counts the documents before it when it opens, so that it must open before the document is added.
        self.open_segment()?;
        let document = self.known.add(&row.equivalences).ok_or(StoreError::Full(TooManyDocuments))?;
        let n_documents = self.known.len() as u64;
        if n_documents * BYTES_PER_DOCUMENT > self.context.memory {
            let mib = (n_documents * BYTES_PER_DOCUMENT * 2) >> 20;
            return Err(BackfillError::MemoryLimit { n_documents: n_documents - 1, mib: mib + 1 });
        }
        let n_index = n_candidates.min(self.n_index_max) as u32;
        let segment = self.open_segment()?;
        let offset = segment.documents.push(row)? as u32;
        segment.row_offsets.push(RowOffset { offset, n_index })?;
        if let Some(text) = text {
            segment.texts.push(TextRow { document, text })?;
        }
        Ok(document)
    }

    fn source_number(&mut self, name: &Arc<str>) -> u32 {
        if let Some(number) = self.sources.get(name) {
            return *number;
        }
        let number = self.sources.len() as u32;
        self.sources.insert(Arc::clone(name), number);
        self.state.sources.push(name.to_string());
        number
    }

    /// The segment under way. Opens the next one if there is none.
    fn open_segment(&mut self) -> Result<&mut OpenSegment, BackfillError> {
        match &mut self.segment {
            Some(segment) => Ok(segment),
            none => Ok(none.insert(OpenSegment::create(self.context, &self.state, self.known.len() as u32)?)),
        }
    }

    /// Ends the segment under way and records it, with how far the sources are read.
    fn close_segment(&mut self, checkpoint: &mut Checkpoint) -> Result<(), BackfillError> {
        if let Some(open) = self.segment.take() {
            self.state.segments.push(open.finish()?);
        }
        let sources = &self.state.sources;
        let flat = |((source, partition), progress): (&(u32, i32), &Progress)| {
            (sources[*source as usize].clone(), *partition, progress.next_offset, progress.chain)
        };
        self.state.progress = self.progress.iter().map(flat).collect();
        self.state.progress.sort();
        checkpoint.record_ingested(self.state.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backfill::tests::{open_checkpoint, rule};
    use crate::cluster::MatchRule;
    use crate::wire::Reason;

    fn rejected(offset: i64) -> VisitRecord {
        let origin = Origin { source: "synthetic".into(), partition: 0, offset };
        VisitRecord { origin, chain: 0, n_bytes: 1, outcome: Err(Rejection::new(Reason::InvalidJson, "no JSON")) }
    }

    /// Lost once: the records of a sketcher that panicked counted as ingested. They had no result, and no later run
    /// read them.
    #[test]
    fn records_of_a_sketcher_that_panics_are_not_ingested() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut checkpoint, context) = open_checkpoint(folder.path(), &rule(0, MatchRule::default()), 1 << 20);
        let known_bodies = RwLock::new(KnownBodies::new(0));
        let mut writer = IngestWriter::resume(&checkpoint, &context, &known_bodies).expect("opens");
        let send_three = |send: &dyn Fn(i64) -> bool| Ok((0..3).all(send));
        let worker = || {
            |offset: i64| {
                assert_ne!(offset, 1, "this panic is part of the test");
                Chunk::Records(vec![rejected(offset)])
            }
        };
        let (written, _) = in_order(&context, send_three, worker, |chunk| writer.take(chunk, &mut checkpoint));
        assert!(matches!(written, Err(BackfillError::WorkerPanicked)));
        writer.close_segment(&mut checkpoint).expect("recorded");
        let next = checkpoint.ingested().progress_map().into_values().map(|progress| progress.next_offset);
        assert_eq!((checkpoint.ingested().counts.n_records, next.collect::<Vec<_>>()), (1, vec![1]));
    }
}
