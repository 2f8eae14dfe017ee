//! From a record to a sketched page, whatever is in the record: the first step of every way through the house.

use crate::document::{Content, FetchTime, Fingerprint, Page};
use crate::sketch::{Sketched, SketchedContent, Sketcher, Unsketchable};
use crate::sweep::SweepCut;
use crate::wire::{Limits, Reason, Record, Rejection, page_of_json};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A page and what the clustering needs to know of it.
pub struct SketchedPage {
    /// Its address.
    pub url: String,
    /// When the crawler saw it.
    pub fetched_at: FetchTime,
    /// The walk that it was seen on.
    pub sweep: Option<String>,
    /// None: nothing stands at the URL any more, or it stands elsewhere.
    pub content: Option<SketchedContent>,
    /// Where it stands now; only where there is no content.
    pub redirect_to: Option<String>,
}

/// Turns one record after the other into a sketched page, or a rejection, whatever is in it.
pub struct RecordSketcher {
    fresh: Sketcher,
    sketcher: Sketcher,
    limits: Limits,
    sweep_cut: SweepCut,
}

impl RecordSketcher {
    /// One that sketches as `sketcher` does, and puts pages that name no sweep into those of `sweep_cut`.
    pub fn new(sketcher: Sketcher, limits: Limits, sweep_cut: SweepCut) -> Self {
        RecordSketcher { fresh: sketcher.clone(), sketcher, limits, sweep_cut }
    }

    /// Sketches a record.
    ///
    /// # Errors
    /// A [`Rejection`] of what is no page, or of a page that makes the sketcher panic.
    pub fn sketch(&mut self, record: &Record) -> Result<SketchedPage, Rejection> {
        self.sketch_unless_known(record, |_| None::<()>).map(|(page, _)| page)
    }

    /// Sketches a record, unless something is known of a body of the same bytes, which comes with a page without content.
    ///
    /// # Errors
    /// A [`Rejection`], as of [`Self::sketch`].
    pub fn sketch_unless_known<K>(
        &mut self,
        record: &Record,
        known: impl FnOnce(Fingerprint) -> Option<K>,
    ) -> Result<(SketchedPage, Option<K>), Rejection> {
        let (sketcher, limits, cut) = (&mut self.sketcher, &self.limits, self.sweep_cut);
        let sketched = catch_unwind(AssertUnwindSafe(|| prepare(sketcher, record, limits, cut, known)));
        sketched.unwrap_or_else(|_| {
            self.sketcher = self.fresh.clone();
            let message = "the page made the sketcher panic; please report it with the page";
            Err(Rejection::new(Reason::Internal, message))
        })
    }
}

fn prepare<K>(
    sketcher: &mut Sketcher,
    record: &Record,
    limits: &Limits,
    sweep_cut: SweepCut,
    known: impl FnOnce(Fingerprint) -> Option<K>,
) -> Result<(SketchedPage, Option<K>), Rejection> {
    let decoded;
    let page: &Page = match record {
        Record::Json(json) => {
            decoded = page_of_json(json, limits)?;
            &decoded
        }
        Record::Message(message, format) => {
            decoded = message.page(format, limits)?;
            &decoded
        }
        Record::Page(page) => page,
        Record::Rejected(rejection) => return Err(rejection.clone()),
    };
    match sketcher.sketch_unless_known(page, limits.words_max, known) {
        Ok(sketched) => {
            let (content, known) = match sketched {
                Sketched::Nothing => (None, None),
                Sketched::Known(known) => (None, Some(known)),
                Sketched::Content(content) => (Some(content), None),
            };
            let fetched_at = page.fetched_at;
            let sweep = page.sweep.clone().or_else(|| sweep_cut.name(fetched_at));
            let redirect_to = if let Content::Redirect(target) = &page.content { Some(target.clone()) } else { None };
            Ok((SketchedPage { url: page.url.clone(), fetched_at, sweep, content, redirect_to }, known))
        }
        Err(why) => {
            let reason = match why {
                Unsketchable::NoText(_) => Reason::NotText,
                Unsketchable::TooManyWords { .. } => Reason::TooLarge,
            };
            Err(Rejection::new(reason, why.to_string()).about(page))
        }
    }
}
