//! Sketches records in parallel, without I/O.

use super::backpressure::Backpressure;
use super::cache::Cache;
use super::ingest::Chunk;
use super::poison::PoisonTracker;
use super::sequencer::Ticketed;
use super::sketched_record::{SketchedChunk, SketchedRecord};
use super::stats::Stats;
use crate::document::Fingerprint;
use crate::intake::{RecordSketcher, SketchMessage, SketchedPage};
use crate::ports::{Incoming, Store};
use crate::sketch::{Equivalences, SketchOutcome, SketchedContent};
use crate::wire::{Message, Reason, Record, Rejection};
use crossbeam::channel::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Sketched contents of recent pages, by the fingerprint of their bytes. A third of the pages of a crawl are byte for byte those
/// of the crawl before.
pub(super) struct Repeats(Mutex<Cache<Fingerprint, Arc<SketchedContent>>>);

impl Repeats {
    /// An empty cache of at most so many bytes.
    pub fn new(n_bytes_max: usize) -> Self {
        Repeats(Mutex::new(Cache::new(n_bytes_max, |content| content.n_bytes_in_memory())))
    }

    /// Sketches a record, unless a page of the same bytes is in the cache. What a page says is read unless its document
    /// `is_stored`.
    fn sketch(
        &self,
        sketcher: &mut RecordSketcher,
        record: &Record,
        is_stored: impl FnOnce(&Equivalences) -> bool,
    ) -> Result<SketchedPage, Rejection> {
        let cache = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let may_be_new = |outcome: &SketchOutcome<Arc<SketchedContent>>| match outcome {
            SketchOutcome::Content(content) => !is_stored(&content.equivalences),
            SketchOutcome::Known(content) => !is_stored(&content.equivalences),
            SketchOutcome::Nothing => false,
        };
        let find = |identical| cache().get(identical);
        let (mut page, repeated) = sketcher.sketch_unless_known(record, find, may_be_new)?;
        if repeated.is_some() {
            page.content = repeated;
        } else if let Some(content) = &page.content {
            cache().insert(content.equivalences.identical, Arc::clone(content));
        }
        Ok(page)
    }
}

/// Runs until no more chunks come, or the gatherer has ended.
#[expect(clippy::too_many_arguments, reason = "called once, where the stream is wired")]
pub(super) fn run(
    mut sketcher: RecordSketcher,
    is_stored: impl Fn(&Equivalences) -> bool,
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
            let mut outcome = poison.poison_rejection(&origin).map_or_else(
                || {
                    let _in_hand = poison.pick_up(&origin);
                    kill_point!("poison-to-sketch", is_poison(&record));
                    match &record {
                        Record::Sketched(message) => decoded(message),
                        record => (repeats.sketch(&mut sketcher, record, &is_stored), None),
                    }
                },
                |rejection| (Err(rejection), None),
            );
            let (outcome, original) = (outcome.0, outcome.1.take().or_else(|| record.into_message()));
            let original = original.filter(|_| keep_originals && outcome.is_err());
            sketch_seconds.record(begin.elapsed());
            kill_point!("sketched");
            SketchedRecord { origin, from, chain, outcome, original }
        };
        let item = SketchedChunk { records: records.into_iter().map(prepare).collect(), has_more };
        stats.mended(sketcher.n_repaired() - n_repaired);
        backpressure.release_bytes(n_bytes);
        if out.send(Ticketed { ticket, item }).is_err() {
            break;
        }
    }
}

/// Whether a document of this content is in a store. The look-up stage reports errors of the store.
pub(super) fn is_stored<S: Store>(store: &S, equivalences: &Equivalences) -> bool {
    let keys: Vec<Fingerprint> = equivalences.keys().collect();
    store.equal(&keys).is_ok_and(|documents| documents.iter().any(Option::is_some))
}

/// What another process made of a record, and the original of a rejected one.
fn decoded(message: &[u8]) -> (Result<SketchedPage, Rejection>, Option<Box<Message>>) {
    match SketchMessage::decode(message) {
        Ok(SketchMessage { outcome, original, .. }) => (outcome, original),
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
        let fresh = || {
            let sketcher = Sketcher::new(&SketchRule::default(), &Seed([1, 2, 3, 4]));
            RecordSketcher::new(sketcher, Limits::default(), SweepCut::None, FutureLimit::NONE)
        };
        for n_mib in [0, 1] {
            let (repeats, mut sketcher) = (Repeats::new(n_mib << 20), fresh());
            for content in contents.iter().chain(&contents) {
                let page =
                    Page { url: "http://a/".into(), fetched_at: FetchTime(0), sweep: None, content: content.clone() };
                let record = Record::Page(Box::new(page));
                let (got, plain) = (repeats.sketch(&mut sketcher, &record, |_| false), fresh().sketch(&record));
                match (got, plain) {
                    (Ok(got), Ok(plain)) => assert_eq!(got.content, plain.content, "{content:?}"),
                    (Err(got), Err(plain)) => assert_eq!(got.reason, plain.reason),
                    _ => panic!("{content:?} is rejected by one alone"),
                }
            }
        }
    }
}
