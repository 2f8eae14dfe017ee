//! The first phase over what an older store keeps: its texts are sketched by the new rule, and its sightings taken over.
//!
//! ```text
//! older store ─▶ reader ─▶ sketcher ×n ─▶ writer, as for pages
//!                documents with their sightings, by number; then the sightings of no page
//! ```
//! Where the inputs are at hand, their records come first, see [`super::reread`], and only what they lack follows from texts.
//!
//! In that order the new store numbers its documents as the older one does, so that under the same rule clusters keep their
//! names. A sighting's offset is its number in that order.

use super::ingest::{NewDocument, VisitContent, VisitRecord, ingest_without_bodies, new_document};
use super::reread::{RereadSightings, ingested_sightings, reread};
use crate::backfill::checkpoint::Checkpoint;
use crate::backfill::context::Context;
use crate::backfill::error::BackfillError;
use crate::backfill::rows::Visit;
use crate::backfill::sketching::{CHUNK_RECORDS, PageInput};
use crate::document::{CanonicalForm, DocumentId, Seed, host_key, url_key};
use crate::intake::{KeptText, TextRule};
use crate::ports::{Chunk, DocumentText, Snapshot};
use crate::sketch::{SketchRule, Sketcher};
use crate::sweep::{Observation, Seen, Sighting};
use crate::wire::{Origin, Reason, Rejection};
use std::sync::Arc;

/// Sightings of a document that are read at once.
const SIGHTINGS_AT_ONCE: usize = 4096;

/// Bytes of texts that make a chunk full.
const CHUNK_BYTES: usize = 1 << 20;

/// Where the sightings of an older store come from, as the checkpoint names it. No store keeps progress in it.
const SOURCE: &str = "kept texts";

/// An older store whose pages go into a new one.
pub struct KeptInput {
    /// The store at one moment: the same one when the work is resumed.
    pub store: Arc<dyn Snapshot + Send + Sync>,
    /// How the new store keeps texts, where it does.
    pub texts: Option<TextRule>,
    /// Inputs with the store's pages, where these are to be read again.
    pub inputs: Option<PageInput>,
    /// Whether the texts that the store keeps are those of the new rule.
    pub reads_texts: bool,
}

/// A sighting of the older store with its number.
struct KeptSighting {
    offset: i64,
    sighting: Sighting,
    /// What is left of its page; `None` where it saw none.
    document: Option<Arc<KeptDocument>>,
}

/// What the older store keeps of a document.
struct KeptDocument {
    /// Its number there.
    number: DocumentId,
    /// Its text, or why there is none.
    text: Result<String, Rejection>,
    /// Bytes of the page that first had it.
    n_bytes: u64,
    first_url: String,
}

/// Ingests what an older store keeps, unless that is done already. The sightings of a document without its text are rejected.
///
/// # Errors
/// [`BackfillError`]
pub(in crate::backfill) fn ingest_kept(
    checkpoint: &mut Checkpoint,
    context: &Context,
    input: KeptInput,
) -> Result<(), BackfillError> {
    if checkpoint.ingested().is_finished {
        return Ok(());
    }
    let KeptInput { store, texts, inputs, reads_texts } = input;
    let reread = match inputs {
        Some(inputs) => {
            reread(checkpoint, context, inputs, &*store)?;
            Some(ingested_sightings(checkpoint)?)
        }
        None => None,
    };
    let (seed, rule) = (checkpoint.seed()?, checkpoint.rule().clone());
    let source: Arc<str> = SOURCE.into();
    let progress = checkpoint.ingested().progress_map();
    let from = progress.get(&(SOURCE.to_string(), 0)).map_or(0, |progress| progress.next_offset);
    let worker = || {
        let (sketcher, source) = (rule.sketcher(&seed), Arc::clone(&source));
        let mut worker = KeptSketcher { sketcher, rule: &rule.sketch, seed, texts, source, last: None };
        move |chunk: Vec<KeptSighting>| {
            Chunk::Records(chunk.into_iter().map(|sighting| worker.sketch(sighting)).collect())
        }
    };
    let read = |send: &dyn Fn(Vec<KeptSighting>) -> bool| {
        let (store, reread) = (&*store, reread.as_ref());
        KeptReader { store, context, send, reread, reads_texts, from, offset: 0, chunk: Vec::new(), n_bytes: 0 }.read()
    };
    ingest_without_bodies(checkpoint, context, read, worker)
}

/// Sends what a store keeps, in chunks.
struct KeptReader<'a> {
    store: &'a (dyn Snapshot + Send + Sync),
    context: &'a Context,
    send: &'a dyn Fn(Vec<KeptSighting>) -> bool,
    /// Sightings that are ingested from the inputs.
    reread: Option<&'a RereadSightings>,
    reads_texts: bool,
    /// The first sighting that is not ingested yet.
    from: i64,
    /// The number of the next sighting.
    offset: i64,
    chunk: Vec<KeptSighting>,
    /// Bytes of the texts in the chunk.
    n_bytes: usize,
}

impl KeptReader<'_> {
    fn read(mut self) -> Result<(), BackfillError> {
        for number in 1..=self.store.n_documents() {
            self.read_document(DocumentId(number))?;
        }
        let (store, mut read) = (self.store, Ok(()));
        store.each_sighting(&mut |sighting| {
            if sighting.moment.seen.document().is_none() {
                read = self.push(sighting, |_| Ok(None));
            }
            read.is_ok()
        })?;
        read?;
        self.send_chunk()
    }

    fn read_document(&mut self, number: DocumentId) -> Result<(), BackfillError> {
        let (mut after, mut document) = (None, None);
        loop {
            let sightings = self.store.sightings_of_document_after(number, after.as_ref(), SIGHTINGS_AT_ONCE)?;
            let is_last = sightings.len() < SIGHTINGS_AT_ONCE;
            after = sightings.last().cloned();
            for sighting in sightings {
                self.push(sighting, |reader| {
                    if document.is_none() {
                        document = Some(Arc::new(reader.kept_document(number)?));
                    }
                    Ok(document.clone())
                })?;
            }
            if is_last {
                return Ok(());
            }
        }
    }

    fn kept_document(&mut self, number: DocumentId) -> Result<KeptDocument, BackfillError> {
        let missing = |reason, message: &str| Err(Rejection::new(reason, message));
        let text = match self.store.text_of(number)? {
            _ if !self.reads_texts => {
                missing(Reason::NoPage, "its record is not among the inputs, and no text of this [canonical] is kept")
            }
            DocumentText::Kept(text) => Ok(text),
            DocumentText::TooLong(n_bytes) => {
                let message = format!("its text of {n_bytes} bytes was over limits.text_bytes_max when it came");
                missing(Reason::TooLarge, &message)
            }
            DocumentText::NotKept | DocumentText::NeverKept => missing(
                Reason::NoPage,
                "its text is not kept: it came while store.keep_text was \"none\", or as features",
            ),
        };
        self.n_bytes += text.as_ref().map_or(0, String::len);
        let stored = self.store.documents(&[number])?;
        let keys: Vec<_> = stored.iter().map(|stored| stored.first_url).collect();
        let first_url = self.store.urls(&keys)?.pop().unwrap_or_default();
        let n_bytes = stored.first().map_or(0, |stored| stored.n_bytes);
        Ok(KeptDocument { number, text, n_bytes, first_url })
    }

    /// Adds a sighting to the chunk, unless it is ingested already.
    fn push(
        &mut self,
        sighting: Sighting,
        document: impl FnOnce(&mut Self) -> Result<Option<Arc<KeptDocument>>, BackfillError>,
    ) -> Result<(), BackfillError> {
        let offset = self.offset;
        self.offset += 1;
        let Observation { fetched_at, seen, sweep } = &sighting.moment;
        let reread = self.reread.filter(|_| seen.document().is_some());
        let is_reread = |reread: &RereadSightings| reread.contains(&sighting.url, *fetched_at, sweep.as_deref());
        if offset < self.from || reread.is_some_and(is_reread) {
            return Ok(());
        }
        let document = document(self)?;
        self.chunk.push(KeptSighting { offset, sighting, document });
        let is_full = self.chunk.len() == CHUNK_RECORDS || self.n_bytes >= CHUNK_BYTES;
        if is_full { self.send_chunk() } else { Ok(()) }
    }

    fn send_chunk(&mut self) -> Result<(), BackfillError> {
        self.context.check_stop()?;
        self.n_bytes = 0;
        if (self.send)(std::mem::take(&mut self.chunk)) { Ok(()) } else { Err(BackfillError::Stopped) }
    }
}

/// Sketches texts by the new rule.
struct KeptSketcher<'a> {
    sketcher: Sketcher,
    rule: &'a SketchRule,
    seed: Seed,
    texts: Option<TextRule>,
    source: Arc<str>,
    /// The document that was sketched last.
    last: Option<(DocumentId, NewDocument)>,
}

impl KeptSketcher<'_> {
    fn sketch(&mut self, kept: KeptSighting) -> VisitRecord {
        let KeptSighting { offset, sighting: Sighting { url, moment }, document } = kept;
        let origin = Origin { source: Arc::clone(&self.source), partition: 0, offset };
        let content = document.map_or(Ok(VisitContent::None), |document| self.content(&document));
        let outcome = match content {
            Err(why) => {
                let (url, fetched_at, sweep) = (Some(url), Some(moment.fetched_at), moment.sweep);
                Err(Rejection { url, fetched_at, sweep, ..why })
            }
            Ok(content) => {
                // The writer names the document.
                let seen = if moment.seen.document().is_some() { Seen::Gone } else { moment.seen };
                let (key, host) = (url_key(&self.seed, &url), host_key(&self.seed, &url));
                Ok((Visit { url, key, host, observation: Observation { seen, ..moment }, relation: None }, content))
            }
        };
        VisitRecord { origin, chain: 0, n_bytes: 0, outcome }
    }

    fn content(&mut self, document: &KeptDocument) -> Result<VisitContent, Rejection> {
        let text = document.text.as_ref().map_err(Rejection::clone)?;
        let new = match self.last.take().filter(|(number, _)| *number == document.number) {
            Some((_, new)) => new,
            None => {
                let mut content = self.sketcher.sketch_form(&CanonicalForm::from_text(text));
                content.n_bytes = document.n_bytes;
                let kept = self.texts.and_then(|rule| KeptText::of(text, rule));
                new_document(content, kept, url_key(&self.seed, &document.first_url), self.rule)
            }
        };
        self.last = Some((document.number, new.clone()));
        Ok(VisitContent::Sketched(Box::new(new)))
    }
}
