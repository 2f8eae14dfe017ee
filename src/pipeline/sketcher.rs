//! Sketches records in parallel, except pages that are identical to a document of the store.

use super::backpressure::Backpressure;
use super::cache::Cache;
use super::ingest::Chunk;
use super::poison::PoisonTracker;
use super::sequencer::Ticketed;
use super::sketched_record::{SketchedChunk, SketchedRecord};
use super::stats::Stats;
use crate::document::{DocumentId, Fingerprint};
use crate::intake::{RecordSketcher, SketchMessage, SketchedPage};
use crate::ports::{Incoming, Store};
use crate::sketch::{Equivalences, SketchOutcome, SketchedContent};
use crate::wire::{Message, Reason, Record, Rejection};
use crossbeam::channel::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// What sketchers ask a store: which pages need no sketch.
pub(super) trait StoredDocuments {
    /// The document with this equivalence fingerprint.
    fn find(&self, key: Fingerprint) -> Option<DocumentId>;
}

/// The look-up stage reports errors of the store.
impl<S: Store> StoredDocuments for &S {
    fn find(&self, key: Fingerprint) -> Option<DocumentId> {
        self.equal(&[key]).ok()?.pop()?
    }
}

/// No store: which documents there are only its owner knows.
impl StoredDocuments for () {
    fn find(&self, _: Fingerprint) -> Option<DocumentId> {
        None
    }
}

/// A page. If it was not sketched because the store has a document with the same bytes, that document.
type Sketched = (SketchedPage, Option<DocumentId>);

/// Why a page is not sketched.
enum Known {
    /// A recent page of the same bytes had this content.
    Content(Arc<SketchedContent>),
    /// This document has the same bytes.
    Stored(DocumentId),
}

/// Sketched contents of recent pages, by the fingerprint of their bytes. A third of the pages of a crawl are byte for byte those
/// of the crawl before.
pub(super) struct Repeats(Mutex<Cache<Fingerprint, Arc<SketchedContent>>>);

impl Repeats {
    /// An empty cache of at most so many bytes.
    pub fn new(n_bytes_max: usize) -> Self {
        Repeats(Mutex::new(Cache::new(n_bytes_max, |content| content.n_bytes_in_memory())))
    }

    /// Sketches a record, unless a page of the same bytes is in the cache or is a document, which is then returned. What a page
    /// says is read unless its document is stored.
    fn sketch(
        &self,
        sketcher: &mut RecordSketcher,
        record: &Record,
        store: &impl StoredDocuments,
    ) -> Result<Sketched, Rejection> {
        let cache = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_stored = |equivalences: &Equivalences| store.find(equivalences.widest()).is_some();
        let may_be_new = |outcome: &SketchOutcome<Known>| match outcome {
            SketchOutcome::Content(content) => !is_stored(&content.equivalences),
            SketchOutcome::Known(Known::Content(content)) => !is_stored(&content.equivalences),
            SketchOutcome::Known(Known::Stored(_)) | SketchOutcome::Nothing => false,
        };
        let find = |identical| {
            let repeated = cache().get(identical).map(Known::Content);
            repeated.or_else(|| store.find(identical).map(Known::Stored))
        };
        let (mut page, known) = sketcher.sketch_unless_known(record, find, may_be_new)?;
        match known {
            Some(Known::Stored(document)) => return Ok((page, Some(document))),
            Some(Known::Content(content)) => page.content = Some(content),
            None => {
                if let Some(content) = &page.content {
                    cache().insert(content.equivalences.identical, Arc::clone(content));
                }
            }
        }
        Ok((page, None))
    }
}

/// Runs until no more chunks come, or the gatherer has ended.
#[expect(clippy::too_many_arguments, reason = "called once, where the stream is wired")]
pub(super) fn run(
    mut sketcher: RecordSketcher,
    store: impl StoredDocuments,
    work: &Receiver<Chunk>,
    out: &Sender<Ticketed<SketchedChunk>>,
    keep_originals: bool,
    repeats: &Repeats,
    backpressure: &Backpressure,
    stats: &Stats,
    poison: &PoisonTracker,
) {
    let sketch_seconds = stats.sketch_seconds();
    for Chunk { ticket, records, n_bytes, has_more } in work {
        let n_repaired = sketcher.n_repaired();
        let prepare = |incoming: Incoming| {
            let begin = Instant::now();
            let Incoming { origin, from, chain, record } = incoming;
            let (sketched, original) = match poison.poison_rejection(&origin) {
                Some(rejection) => (Err(rejection), None),
                None => {
                    let _in_hand = poison.pick_up(&origin);
                    kill_point!("poison-to-sketch", is_poison(&record));
                    match &record {
                        Record::Sketched(message) => decoded(message),
                        record => (repeats.sketch(&mut sketcher, record, &store), None),
                    }
                }
            };
            let original = original.or_else(|| record.into_message()).filter(|_| keep_originals && sketched.is_err());
            let (outcome, stored) = match sketched {
                Ok((page, stored)) => (Ok(page), stored),
                Err(rejection) => (Err(rejection), None),
            };
            sketch_seconds.record(begin.elapsed());
            kill_point!("sketched");
            SketchedRecord { origin, from, chain, outcome, stored, original }
        };
        let item = SketchedChunk { records: records.into_iter().map(prepare).collect(), has_more };
        stats.mended(sketcher.n_repaired() - n_repaired);
        backpressure.release_bytes(n_bytes);
        if out.send(Ticketed { ticket, item }).is_err() {
            break;
        }
    }
}

/// What another process made of a record, and the original of a rejected one.
fn decoded(message: &[u8]) -> (Result<Sketched, Rejection>, Option<Box<Message>>) {
    match SketchMessage::decode(message) {
        Ok(SketchMessage { outcome, original, .. }) => (outcome.map(|page| (page, None)), original),
        Err(error) => {
            let why = format!("the sketch of this record cannot be read ({error}), which is a bug; please report it");
            (Err(Rejection::new(Reason::Internal, why)), None)
        }
    }
}

/// Whether a record is one that crashes in the tests.
#[cfg(feature = "failpoints")]
fn is_poison(record: &crate::wire::Record) -> bool {
    use crate::wire::Record;
    let bytes = match record {
        Record::Json(json) => json,
        Record::Mapped(mapped) => &mapped.json,
        Record::Message(message, _) => message.value.as_deref().unwrap_or_default(),
        Record::Page(_) | Record::Rejected(_) | Record::Poison(..) | Record::Sketched(_) => return false,
    };
    memchr::memmem::find(bytes, b"poison-to-sketch").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Body, Content, FetchTime, MediaType, Page, Seed};
    use crate::intake::FutureLimit;
    use crate::sketch::{SketchRule, Sketcher};
    use crate::sweep::SweepCut;
    use crate::wire::Limits;

    fn record(content: &Content) -> Record {
        let (url, content) = ("http://a/".into(), content.clone());
        Record::Page(Box::new(Page { url, fetched_at: FetchTime(0), sweep: None, content }))
    }

    fn fresh() -> RecordSketcher {
        let sketcher = Sketcher::new(&SketchRule::default(), &Seed([1, 2, 3, 4]));
        RecordSketcher::new(sketcher, Limits::default(), SweepCut::None, FutureLimit::NONE)
    }

    /// Equal bytes of another media type are another content; features have no bytes.
    #[test]
    fn what_comes_again_is_what_it_was() {
        let body = |media_type, text: &str| Content::Body { media_type, body: Body::Text(text.into()) };
        let text = "<p>one two three four five six seven eight nine ten eleven twelve";
        let contents = [
            body(MediaType::Html, text),
            body(MediaType::PlainText, text),
            Content::Gone,
            body(MediaType::Html, &text[3..]),
            body(MediaType::PlainText, "\0\0\0\0"),
            Content::Features(vec!["a".into(), "b".into()]),
        ];
        for n_mib in [0, 1] {
            let (repeats, mut sketcher) = (Repeats::new(n_mib << 20), fresh());
            for content in contents.iter().chain(&contents) {
                let record = record(content);
                let (got, plain) = (repeats.sketch(&mut sketcher, &record, &()), fresh().sketch(&record));
                match (got, plain) {
                    (Ok((got, None)), Ok(plain)) => assert_eq!(got.content, plain.content, "{content:?}"),
                    (Err(got), Err(plain)) => assert_eq!(got.reason, plain.reason),
                    _ => panic!("{content:?} is rejected by one alone"),
                }
            }
        }
    }

    /// A store of one document.
    struct One(Fingerprint);

    impl StoredDocuments for One {
        fn find(&self, key: Fingerprint) -> Option<DocumentId> {
            (key == self.0).then_some(DocumentId(7))
        }
    }

    /// A page that is identical to a stored document comes without a sketch.
    #[test]
    fn what_is_stored_is_not_sketched() {
        let body = |text: &str| Content::Body { media_type: MediaType::Html, body: Body::Text(text.into()) };
        let [known, other] = [record(&body("<p>one two three four five")), record(&body("<p>six"))];
        let plain = fresh().sketch(&known).expect("a page").content.expect("content");
        let (repeats, store) = (Repeats::new(1 << 20), One(plain.equivalences.identical));
        let sketch = |record, store: &One| repeats.sketch(&mut fresh(), record, store).expect("a page");
        let (page, stored) = sketch(&known, &store);
        assert_eq!((page.url.as_str(), page.content, stored), ("http://a/", None, Some(DocumentId(7))));
        let (page, stored) = sketch(&other, &store);
        assert!(page.content.is_some() && stored.is_none());
        let (page, stored) = sketch(&known, &One(Fingerprint(0)));
        assert_eq!((page.content, stored), (Some(plain), None));
    }
}
