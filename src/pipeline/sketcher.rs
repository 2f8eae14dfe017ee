//! Turns records into sketched pages or rejections, in parallel and without I/O.

use super::gate::Gate;
use super::ingest::Work;
use super::sequencer::Ticketed;
use super::stats::Stats;
use crate::document::{FetchTime, Page};
use crate::sketch::{SketchedContent, Sketcher, Unsketchable};
use crate::wire::{Limits, Origin, Reason, Record, Rejection, page_of_json};
use crossbeam::channel::{Receiver, Sender};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// A record that only waits for its turn.
pub(super) struct Prepared {
    /// Where it came from.
    pub origin: Origin,
    /// The progress of its partition after it.
    pub chain: u64,
    /// The page, sketched, or why it is none.
    pub outcome: Result<SketchedPage, Rejection>,
}

/// A page and what the clustering needs to know of it.
pub(super) struct SketchedPage {
    pub url: String,
    pub fetched_at: FetchTime,
    pub sweep: Option<String>,
    /// None: nothing stands at the URL any more.
    pub content: Option<SketchedContent>,
}

/// Runs until there is no more work or nobody wants it.
pub(super) fn run(
    fresh: Sketcher,
    limits: &Limits,
    work: &Receiver<Work>,
    out: &Sender<Ticketed<Prepared>>,
    gate: &Gate,
    stats: &Stats,
) {
    let mut sketcher = fresh.clone();
    for Work { ticket, incoming, n_bytes } in work {
        let begin = Instant::now();
        let prepared = catch_unwind(AssertUnwindSafe(|| prepare(&mut sketcher, incoming.record, limits)));
        let outcome = prepared.unwrap_or_else(|_| {
            sketcher = fresh.clone();
            Err(Rejection::new(Reason::Internal, "the page made the sketcher panic; please report it with the page"))
        });
        stats.sketched(begin.elapsed());
        gate.release_bytes(n_bytes);
        let item = Prepared { origin: incoming.origin, chain: incoming.chain, outcome };
        if out.send(Ticketed { ticket, item }).is_err() {
            break;
        }
    }
}

fn prepare(sketcher: &mut Sketcher, record: Record, limits: &Limits) -> Result<SketchedPage, Rejection> {
    let page = match record {
        Record::Json(json) => page_of_json(&json, limits)?,
        Record::Page(page) => *page,
        Record::Rejected(rejection) => return Err(rejection),
    };
    match sketcher.sketch_page(&page, limits.words_max) {
        Ok(content) => {
            let Page { url, fetched_at, sweep, .. } = page;
            Ok(SketchedPage { url, fetched_at, sweep, content })
        }
        Err(why) => {
            let reason = match why {
                Unsketchable::NoText(_) => Reason::NotText,
                Unsketchable::TooManyWords { .. } => Reason::TooLarge,
            };
            Err(Rejection::new(reason, why.to_string()).about(&page))
        }
    }
}
