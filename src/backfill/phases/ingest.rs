//! The first phase: the source's records to sketches, in parallel, and those equal to one before them told apart.
//!
//! ```text
//! reader ─▶ sketcher ×n ─▶ writer: known documents ─▶ pages, documents, places
//! chunks    who is free      in the order of arrival     piece by piece
//!               ▲                     │
//!               └──── known bytes ────┘
//! ```
//! Bodies of which the writer has seen the bytes before are not sketched again, however far ahead the sketchers are: what
//! the writer knows stood before whatever they have in hand.
//!
//! With each chunk goes a slot for what is made of it, and the writer has the slots in the order of the chunks: whichever
//! sketcher fills them, nothing needs to be put into order again. No more chunks are under way than slots, and one that
//! takes long keeps the others waiting only once all are.

use crate::backfill::checkpoint::{Checkpoint, IngestState, Segment};
use crate::backfill::context::Context;
use crate::backfill::dedup::{BYTES_A_DOCUMENT, KnownBodies, KnownBody, KnownDocuments};
use crate::backfill::error::BackfillError;
use crate::backfill::rows::{DocumentRow, Outcome, PageRow, RowOffset, Visit};
use crate::cluster::{Relation, TooManyDocuments};
use crate::document::{DocumentId, Fingerprint, Seed, host_key};
use crate::extsort::{FinishedFile, RunFile, RunFileWriter};
use crate::intake::{FutureLimit, RecordSketcher, SketchedPage};
use crate::ports::{Incoming, Polled, Progress, ProgressMap, Source, StoreError};
use crate::sketch::{Form, SketchRule, SketchedContent, Sketcher, encode};
use crate::sweep::{Observation, Seen, SweepCut, SweepRow};
use crate::wire::{Limits, Origin, Rejection};
use crossbeam::channel::{Receiver, Sender, bounded};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// A chunk is full with this many records or bytes of them.
const CHUNK_RECORDS: usize = 128;
const CHUNK_BYTES: usize = 1 << 20;

/// Chunks under way, at most, for each sketcher.
const CHUNKS_UNDER_WAY: usize = 16;

/// How long the source may keep the reader from noticing the stop.
const POLL_TIMEOUT: Duration = Duration::from_millis(100);

/// A piece is over with so many bytes of documents, or so many pages: a quarter of what was taken in before, at least the
/// first number and at most the second. So a small input has several pieces, for all threads, and of none a kill costs
/// more than a fifth; a large one has few; and a place in a file of documents is 32 bits.
const PIECE_BYTES: (u64, u64) = (1 << 20, 1 << 30);
const PIECE_PAGES: (u64, u64) = (64 << 10, 4 << 20);

/// Where pages come from and how they are sketched.
pub struct PageInput {
    /// The source, going on after what was taken in already.
    pub source: Box<dyn Source>,
    /// What a record may have.
    pub limits: Limits,
    /// The sweeps of pages that name none.
    pub sweep_cut: SweepCut,
    /// How far ahead of the clock pages may be dated.
    pub future: FutureLimit,
}

/// What the reader hands on.
enum Chunk {
    Records(Vec<Incoming>),
    Unreadable(String),
}

/// A chunk, and where what is made of it goes.
type Job = (Chunk, Sender<Sketched>);

/// What a sketcher makes of it.
enum Sketched {
    Records(Vec<SketchedRecord>),
    Unreadable(String),
}

struct SketchedRecord {
    origin: Origin,
    chain: u64,
    n_bytes: usize,
    outcome: Result<(Visit, Stood), Rejection>,
}

/// What stood where a page was fetched.
enum Stood {
    Nothing,
    /// A body of known bytes.
    Known(KnownBody),
    Content(NewDocument),
}

/// A content as the row that it gets if it is a document of its own.
struct NewDocument {
    row: DocumentRow,
    /// Shingles that may index it.
    n_candidates: usize,
}

/// Takes in all that the source has.
pub(in crate::backfill) fn ingest(
    checkpoint: &mut Checkpoint,
    context: &Context,
    intake: PageInput,
) -> Result<(), BackfillError> {
    if checkpoint.ingested().is_over {
        return Ok(());
    }
    let (seed, rule) = (checkpoint.seed()?, checkpoint.rule().sketch.clone());
    let PageInput { source, limits, sweep_cut, future } = intake;
    let known_bytes = RwLock::new(KnownBodies::new(context.memory / 8));
    let n_under_way = CHUNKS_UNDER_WAY * context.n_threads;
    let ((jobs, jobs_out), (slots, slots_out)) = (bounded(n_under_way), bounded(n_under_way));
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || read(source, &jobs, &slots, context));
        for jobs in vec![jobs_out; context.n_threads] {
            let sketcher = RecordSketcher::new(Sketcher::new(&rule, &seed), limits.clone(), sweep_cut, future);
            let (rule, known) = (&rule, &known_bytes);
            let sketching = Sketching { sketcher, rule, seed, known };
            scope.spawn(move || sketching.run(&jobs));
        }
        let mut writer = Writer::new(checkpoint, context, &known_bytes)?;
        write(&mut writer, checkpoint, slots_out)?;
        // What was sketched is kept, however the reader ended.
        let is_over = reader.join().map_err(|_| BackfillError::Died)?;
        writer.ingested.is_over = matches!(is_over, Ok(true));
        writer.close_piece(checkpoint)?;
        is_over?;
        context.check()
    })
}

/// Takes in pages that were sketched elsewhere, under the name of one source, unless that was done already.
///
/// # Errors
/// [`BackfillError`]
pub fn ingest_sketched(
    checkpoint: &mut Checkpoint,
    context: &Context,
    source: &str,
    pages: impl Iterator<Item = SketchedPage>,
) -> Result<(), BackfillError> {
    if checkpoint.ingested().is_over {
        return Ok(());
    }
    let (seed, rule, source) = (checkpoint.seed()?, checkpoint.rule().sketch.clone(), Arc::from(source));
    // Nothing is asked of it: what was sketched elsewhere has no bytes.
    let known_bytes = RwLock::new(KnownBodies::new(0));
    let mut writer = Writer::new(checkpoint, context, &known_bytes)?;
    let n_taken = writer.ingested.counts.n_records as usize;
    for (offset, page) in (0..).zip(pages).skip(n_taken) {
        let origin = Origin { source: Arc::clone(&source), partition: 0, offset };
        let outcome = Ok(visit(page, None, &seed, &rule));
        writer.take(SketchedRecord { origin, chain: 0, n_bytes: 0, outcome })?;
        if writer.piece.as_ref().is_some_and(OpenPiece::is_full) {
            context.check()?;
            writer.close_piece(checkpoint)?;
        }
    }
    writer.ingested.is_over = true;
    writer.close_piece(checkpoint)
}

/// Reads until the source is over, which it says with true, or nobody wants more.
fn read(
    mut source: Box<dyn Source>,
    jobs: &Sender<Job>,
    slots: &Sender<Receiver<Sketched>>,
    context: &Context,
) -> Result<bool, BackfillError> {
    let (mut records, mut n_bytes) = (Vec::new(), 0);
    let hand_on = |chunk: Chunk| {
        let (slot, filled) = bounded(1);
        slots.send(filled).is_ok() && jobs.send((chunk, slot)).is_ok()
    };
    loop {
        if context.check().is_err() {
            return Ok(false);
        }
        let (unreadable, is_over) = match source.poll(POLL_TIMEOUT)? {
            Polled::Idle => continue,
            Polled::Record(incoming) => {
                n_bytes += incoming.record.n_bytes();
                records.push(incoming);
                (None, false)
            }
            Polled::Unreadable(what) => (Some(what), false),
            Polled::End => (None, true),
        };
        let is_full = records.len() == CHUNK_RECORDS || n_bytes >= CHUNK_BYTES;
        if (is_full || is_over || unreadable.is_some()) && !records.is_empty() {
            n_bytes = 0;
            if !hand_on(Chunk::Records(std::mem::take(&mut records))) {
                return Ok(false);
            }
        }
        if is_over || unreadable.is_some_and(|what| !hand_on(Chunk::Unreadable(what))) {
            return Ok(is_over);
        }
    }
}

/// What a sketcher works with.
struct Sketching<'a> {
    sketcher: RecordSketcher,
    rule: &'a SketchRule,
    seed: Seed,
    known: &'a RwLock<KnownBodies>,
}

impl Sketching<'_> {
    /// SketchFiles until no more chunks come, or nobody wants them.
    fn run(mut self, jobs: &Receiver<Job>) {
        for (chunk, slot) in jobs {
            let sketched = match chunk {
                Chunk::Unreadable(what) => Sketched::Unreadable(what),
                Chunk::Records(records) => {
                    Sketched::Records(records.into_iter().map(|record| self.sketch(record)).collect())
                }
            };
            if slot.send(sketched).is_err() {
                return;
            }
        }
    }

    fn sketch(&mut self, incoming: Incoming) -> SketchedRecord {
        let Incoming { origin, chain, record } = incoming;
        let (n_bytes, known) = (record.n_bytes(), self.known);
        let find = |bytes| known.read().unwrap_or_else(PoisonError::into_inner).find(bytes);
        let sketched = self.sketcher.sketch_unless_known(&record, find);
        let outcome = sketched.map(|(page, known)| visit(page, known, &self.seed, self.rule));
        SketchedRecord { origin, chain, n_bytes, outcome }
    }
}

/// A page as its row, and what stood there.
fn visit(page: SketchedPage, known: Option<KnownBody>, seed: &Seed, rule: &SketchRule) -> (Visit, Stood) {
    let (key, host) = (seed.fingerprint("url", &[page.url.as_bytes()]), host_key(seed, &page.url));
    let stood = match (known, page.content) {
        (Some(known), _) => Stood::Known(known),
        (None, Some(content)) => Stood::Content(new_document(content, key, rule)),
        (None, None) => Stood::Nothing,
    };
    let seen = page.redirect_to.map_or(Seen::Gone, Seen::Redirect);
    let moment = Observation { fetched_at: page.fetched_at, seen, sweep: page.sweep };
    (Visit { url: page.url, key, host, moment, relation: None }, stood)
}

fn new_document(content: SketchedContent, first_url: Fingerprint, rule: &SketchRule) -> NewDocument {
    let mut sketch = Vec::new();
    encode(&content.sketch, &mut sketch);
    let begins_with_index = match &content.sketch.form {
        Form::Sample { values, .. } => values.get(..content.index.len()) == Some(content.index.as_slice()),
        Form::Whole(_) | Form::Parity(_) => false,
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
    NewDocument { row, n_candidates }
}

/// Writes what the sketchers made, piece by piece, and notes each that is full. A slot that nobody fills is an error: were
/// it passed over, its records would be taken for taken in.
fn write(
    writer: &mut Writer<'_>,
    checkpoint: &mut Checkpoint,
    slots: Receiver<Receiver<Sketched>>,
) -> Result<(), BackfillError> {
    for slot in slots {
        match slot.recv().map_err(|_| BackfillError::Died)? {
            Sketched::Unreadable(what) => {
                tracing::error!("{what}");
                writer.ingested.unreadable.insert(what);
            }
            Sketched::Records(records) => {
                writer.context.progress.advance(records.len() as u64);
                records.into_iter().try_for_each(|record| writer.take(record))?;
                writer.tell_known_bytes();
            }
        }
        if writer.piece.as_ref().is_some_and(OpenPiece::is_full) {
            writer.close_piece(checkpoint)?;
        }
    }
    Ok(())
}

struct Writer<'a> {
    context: &'a Context,
    known: KnownDocuments,
    /// Bytes that became known with the records in hand, and where all sketchers find them.
    news: Vec<(Fingerprint, KnownBody)>,
    known_bytes: &'a RwLock<KnownBodies>,
    ingested: IngestState,
    sources: HashMap<Arc<str>, u32>,
    progress: ProgressMap,
    n_index_max: usize,
    piece: Option<OpenPiece>,
}

struct OpenPiece {
    n_documents_before: u32,
    pages: RunFileWriter<PageRow>,
    documents: RunFileWriter<DocumentRow>,
    places: RunFileWriter<RowOffset>,
    n_pages: u64,
    n_bytes_max: u64,
    n_pages_max: u64,
}

impl OpenPiece {
    fn is_full(&self) -> bool {
        self.documents.n_bytes() >= self.n_bytes_max || self.n_pages >= self.n_pages_max
    }
}

impl<'a> Writer<'a> {
    /// A writer that goes on after what was taken in.
    fn new(
        checkpoint: &Checkpoint,
        context: &'a Context,
        known_bytes: &'a RwLock<KnownBodies>,
    ) -> Result<Self, BackfillError> {
        let ingested = checkpoint.ingested().clone();
        let (mut known, mut news) = (KnownDocuments::default(), Vec::new());
        for piece in &ingested.pieces {
            let run: Arc<RunFile<DocumentRow>> = RunFile::open(checkpoint.folder(), &piece.documents, false)?;
            let mut rows = run.read_all();
            while let Some(row) = rows.next()? {
                let document = known.add(&row.equivalences).ok_or(StoreError::Full(TooManyDocuments))?;
                news.push((row.equivalences.identical, KnownBody { document, relation: Relation::Identical }));
            }
            known_bytes.write().unwrap_or_else(PoisonError::into_inner).add(&mut news);
        }
        let sources = ingested.sources.iter().zip(0..).map(|(name, at)| (Arc::from(name.as_str()), at)).collect();
        let index_size = checkpoint.rule().sketch.index_size;
        Ok(Writer {
            context,
            known,
            news,
            known_bytes,
            sources,
            progress: ingested.progress_map(),
            n_index_max: if index_size == 0 { usize::MAX } else { index_size },
            piece: None,
            ingested,
        })
    }

    fn take(&mut self, record: SketchedRecord) -> Result<(), BackfillError> {
        let SketchedRecord { origin, chain, n_bytes, outcome } = record;
        let counts = &mut self.ingested.counts;
        counts.n_records += 1;
        counts.n_bytes += n_bytes as u64;
        let outcome = match outcome {
            Err(why) => {
                counts.n_rejected += 1;
                Outcome::Rejected(why)
            }
            Ok((mut visit, stood)) => {
                if let Some((document, relation)) = self.document(stood)? {
                    visit.moment.seen = Seen::Document(document);
                    visit.relation = Some(relation);
                }
                self.count_sweep(&visit.moment);
                Outcome::Page(visit)
            }
        };
        let progress = Progress { next_offset: origin.offset + 1, chain };
        self.progress.insert((origin.source.to_string(), origin.partition), progress);
        let source = self.source(&origin.source);
        let (partition, offset) = (origin.partition, origin.offset);
        let piece = self.open_piece()?;
        piece.n_pages += 1;
        piece.pages.push(PageRow { source, partition, offset, outcome })?;
        Ok(())
    }

    fn count_sweep(&mut self, moment: &Observation) {
        let Some(name) = &moment.sweep else { return };
        let sweeps = &mut self.ingested.sweeps;
        let row = match sweeps.get_mut(name) {
            Some(row) => row,
            None => sweeps.entry(name.clone()).or_insert_with(|| SweepRow::begun(moment.fetched_at)),
        };
        row.count(moment.fetched_at, moment.seen.document().is_some());
    }

    /// The document that stood there: one that is known, or a new one.
    fn document(&mut self, stood: Stood) -> Result<Option<(DocumentId, Relation)>, BackfillError> {
        let counts = &mut self.ingested.counts;
        let new = match stood {
            Stood::Nothing => {
                counts.n_gone += 1;
                return Ok(None);
            }
            Stood::Known(KnownBody { document, relation }) => {
                counts.n_pages += 1;
                counts.n_equal += 1;
                return Ok(Some((document, relation)));
            }
            Stood::Content(new) => new,
        };
        counts.n_pages += 1;
        let bytes = new.row.equivalences.identical;
        let (document, relation) = match self.known.find(&new.row.equivalences) {
            Some(found) => {
                counts.n_equal += 1;
                found
            }
            None => (self.add(new)?, Relation::New),
        };
        // What brought a document is identical to it.
        let again = if relation == Relation::New { Relation::Identical } else { relation };
        self.news.push((bytes, KnownBody { document, relation: again }));
        Ok(Some((document, relation)))
    }

    /// Lets the sketchers know of the bytes that became known.
    fn tell_known_bytes(&mut self) {
        self.known_bytes.write().unwrap_or_else(PoisonError::into_inner).add(&mut self.news);
    }

    fn add(&mut self, new: NewDocument) -> Result<DocumentId, BackfillError> {
        let NewDocument { row, n_candidates } = new;
        // Before it is added: a piece begins with the documents that are known.
        self.open_piece()?;
        let document = self.known.add(&row.equivalences).ok_or(StoreError::Full(TooManyDocuments))?;
        let n_documents = self.known.len() as u64;
        if n_documents * BYTES_A_DOCUMENT > self.context.memory {
            let mib = (n_documents * BYTES_A_DOCUMENT * 2) >> 20;
            return Err(BackfillError::Memory { n_documents, mib: mib + 1 });
        }
        let n_index = n_candidates.min(self.n_index_max) as u32;
        let piece = self.open_piece()?;
        let offset = piece.documents.push(row)? as u32;
        piece.places.push(RowOffset { offset, n_index })?;
        Ok(document)
    }

    fn source(&mut self, name: &Arc<str>) -> u32 {
        let (ingested, next) = (&mut self.ingested, self.sources.len() as u32);
        *self.sources.entry(Arc::clone(name)).or_insert_with(|| {
            ingested.sources.push(name.to_string());
            next
        })
    }

    fn open_piece(&mut self) -> Result<&mut OpenPiece, BackfillError> {
        if self.piece.is_none() {
            let (folder, number) = (&self.context.folder, self.ingested.pieces.len());
            let sum = |of: fn(&Segment) -> u64| self.ingested.pieces.iter().map(of).sum::<u64>();
            let quarter = |sum: u64, (least, most): (u64, u64)| (sum / 4).clamp(least, most);
            self.piece = Some(OpenPiece {
                n_documents_before: self.known.len() as u32,
                pages: RunFileWriter::create(folder, &format!("pages-{number:04}"), true)?,
                documents: RunFileWriter::create(folder, &format!("documents-{number:04}"), false)?,
                places: RunFileWriter::create(folder, &format!("places-{number:04}"), false)?,
                n_pages: 0,
                n_bytes_max: quarter(sum(|piece| piece.documents.n_bytes), PIECE_BYTES),
                n_pages_max: quarter(sum(|piece| piece.pages.n_rows), PIECE_PAGES),
            });
        }
        self.piece.as_mut().ok_or(BackfillError::Died)
    }

    /// Ends the piece under way and notes it, with how far the sources were read.
    fn close_piece(&mut self, checkpoint: &mut Checkpoint) -> Result<(), BackfillError> {
        if let Some(open) = self.piece.take() {
            let [pages, documents, places]: [FinishedFile; 3] =
                [open.pages.finish()?, open.documents.finish()?, open.places.finish()?];
            let n_documents_before = open.n_documents_before;
            self.ingested.pieces.push(Segment { n_documents_before, pages, documents, places });
        }
        let flat = |((source, partition), progress): (&(String, i32), &Progress)| {
            (source.clone(), *partition, progress.next_offset, progress.chain)
        };
        self.ingested.progress = self.progress.iter().map(flat).collect();
        self.ingested.progress.sort();
        checkpoint.record_ingested(self.ingested.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backfill::tests::{begun, rule};
    use crate::cluster::MatchRule;
    use crate::wire::Reason;

    fn rejected(offset: i64) -> SketchedRecord {
        let origin = Origin { source: "made-up".into(), partition: 0, offset };
        SketchedRecord { origin, chain: 0, n_bytes: 1, outcome: Err(Rejection::new(Reason::InvalidJson, "no JSON")) }
    }

    /// The records of a sketcher that died once counted as taken in: nothing came of them, and no later run read them.
    #[test]
    fn a_sketcher_that_dies_takes_its_records_with_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut checkpoint, context) = begun(folder.path(), &rule(0, MatchRule::default()), 1 << 20);
        let known_bytes = RwLock::new(KnownBodies::new(0));
        let mut writer = Writer::new(&checkpoint, &context, &known_bytes).expect("opens");
        let (slots, slots_out) = bounded(3);
        for records in [Some(vec![rejected(0)]), None, Some(vec![rejected(2)])] {
            let (slot, filled) = bounded(1);
            slots.send(filled).expect("room");
            // Of the second one the sketcher died: its slot is dropped empty.
            records.into_iter().for_each(|records| slot.send(Sketched::Records(records)).expect("room"));
        }
        drop(slots);
        assert!(matches!(write(&mut writer, &mut checkpoint, slots_out), Err(BackfillError::Died)));
        writer.close_piece(&mut checkpoint).expect("noted");
        let next = checkpoint.ingested().progress_map().into_values().map(|progress| progress.next_offset);
        assert_eq!((checkpoint.ingested().counts.n_records, next.collect::<Vec<_>>()), (1, vec![1]));
    }
}
