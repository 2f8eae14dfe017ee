//! Intake: from a record of any kind to a sketched page, the first step of the stream and of the backfill.

mod continuity;
mod kept_text;
mod sketch_message;
mod sketched_page;

pub use continuity::Continuity;
pub use kept_text::{KeptText, TEXT_BYTES_LIMIT, TextRule};
pub use sketch_message::{SketchHeader, SketchMessage, SketchMessageError};
pub use sketched_page::{SketchedPage, SketchedRecord};

use crate::document::{Content, FetchTime, Fingerprint, Page};
use crate::related::SaidReader;
use crate::sketch::{SketchOutcome, Sketcher, Unsketchable};
use crate::sweep::SweepCut;
use crate::wire::{Limits, Message, Reason, Record, Rejection, parse_json_page, repaired};
use kept_text::TextKeeper;
use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

const DAY_US: i64 = 24 * 60 * 60 * 1_000_000;

/// How far ahead of the clock a page's time may be. A page dated far ahead would stay its URL's newest until then.
/// Such a rejection is final, because its event is durable; if the record arrives again later, it may pass.
#[derive(Clone, Copy, Debug)]
pub struct FutureLimit {
    /// Days ahead; 0 means no limit.
    pub days_max: u32,
    /// The clock.
    pub now: fn() -> FetchTime,
}

impl FutureLimit {
    /// No limit.
    pub const NONE: FutureLimit = FutureLimit { days_max: 0, now: || FetchTime(0) };

    fn check(&self, page: &Page) -> Result<(), Rejection> {
        let latest = || (self.now)().0.saturating_add(i64::from(self.days_max).saturating_mul(DAY_US));
        if self.days_max == 0 || page.fetched_at.0 <= latest() {
            return Ok(());
        }
        let message = format!(
            "the time of the fetch, {}, is more than input.future_days_max = {} days ahead of the clock",
            page.fetched_at, self.days_max
        );
        Err(Rejection::new(Reason::FutureTime, message).about(page))
    }
}

/// Turns records into sketched pages or rejections, whatever is in them.
pub struct RecordSketcher {
    fresh: Sketcher,
    sketcher: Sketcher,
    reader: PageReader,
    sweep_cut: SweepCut,
    said: Option<SaidReader>,
    texts: Option<TextKeeper>,
}

/// Reads pages out of records.
#[derive(Clone)]
pub struct PageReader {
    limits: Limits,
    future: FutureLimit,
    n_repaired: u64,
}

impl PageReader {
    /// Creates a reader with limits on a record and on how far ahead of the clock a page may be dated.
    pub fn new(limits: Limits, future: FutureLimit) -> Self {
        PageReader { limits, future, n_repaired: 0 }
    }

    /// Reads the page in a record. If its JSON is invalid, tries again with the JSON repaired.
    ///
    /// # Errors
    /// A [`Rejection`] if the record is not a page.
    pub fn page<'r>(&mut self, record: &'r Record) -> Result<Cow<'r, Page>, Rejection> {
        let limits = &self.limits;
        let page = match record {
            Record::Json(json) => parse_json_page(json, limits).map(Cow::Owned),
            Record::Mapped(mapped) => mapped.page(limits).map(Cow::Owned),
            Record::Message(message, format) => message.page(format, limits).map(Cow::Owned),
            Record::Page(page) => Ok(Cow::Borrowed(&**page)),
            Record::Rejected(rejection) => Err(rejection.clone()),
            Record::Poison(_, rejection) => Err((**rejection).clone()),
            Record::Sketched(_) => Err(Rejection::new(Reason::Internal, "this record is a sketch, not a page")),
        };
        let page = match page {
            Err(wrong) if wrong.reason == Reason::InvalidJson => self.repaired_page(record).unwrap_or(Err(wrong)),
            page => page,
        }?;
        self.future.check(&page)?;
        Ok(page)
    }

    fn repaired_page<'r>(&mut self, record: &Record) -> Option<Result<Cow<'r, Page>, Rejection>> {
        let page = match record {
            Record::Json(json) => parse_json_page(&repaired(json)?, &self.limits),
            Record::Mapped(mapped) => mapped.page_in(&repaired(&mapped.json)?, &self.limits),
            Record::Message(message, format) => Message::repaired(message, format)?.page(format, &self.limits),
            Record::Page(_) | Record::Rejected(_) | Record::Poison(..) | Record::Sketched(_) => return None,
        };
        self.n_repaired += u64::from(page.is_ok());
        Some(page.map(Cow::Owned))
    }
}

impl RecordSketcher {
    /// Creates a record sketcher. Pages that name no sweep get the one of `sweep_cut`.
    pub fn new(sketcher: Sketcher, limits: Limits, sweep_cut: SweepCut, future: FutureLimit) -> Self {
        let reader = PageReader::new(limits, future);
        RecordSketcher { fresh: sketcher.clone(), sketcher, reader, sweep_cut, said: None, texts: None }
    }

    /// Reads what pages say, too.
    pub fn with_said(self, said: Option<SaidReader>) -> Self {
        let (fresh, sketcher) = match said {
            Some(_) => (self.fresh.keeping_marks(), self.sketcher.keeping_marks()),
            None => (self.fresh, self.sketcher),
        };
        RecordSketcher { fresh, sketcher, said, ..self }
    }

    /// Keeps the texts of pages, too.
    pub fn with_texts(self, rule: Option<TextRule>) -> Self {
        RecordSketcher { texts: rule.map(TextKeeper::new), ..self }
    }

    /// How many pages needed their JSON repaired by [`repaired()`].
    pub fn n_repaired(&self) -> u64 {
        self.reader.n_repaired
    }

    /// Sketches a record.
    ///
    /// # Errors
    /// A [`Rejection`] if the record is not a page, or the page makes the sketcher panic.
    pub fn sketch(&mut self, record: &Record) -> Result<SketchedPage, Rejection> {
        self.sketch_unless_known(record, |_| None::<()>, |_| true).map(|(page, _)| page)
    }

    /// Sketches a record unless `known` returns something for its bytes. That is then returned with a page without
    /// content. What the page says and its text are read only if its content `may_be_new`: they are kept for new documents
    /// alone.
    ///
    /// # Errors
    /// A [`Rejection`], as [`Self::sketch`].
    pub fn sketch_unless_known<K>(
        &mut self,
        record: &Record,
        known: impl FnOnce(Fingerprint) -> Option<K>,
        may_be_new: impl FnOnce(&SketchOutcome<K>) -> bool,
    ) -> Result<(SketchedPage, Option<K>), Rejection> {
        let (sketcher, reader, cut) = (&mut self.sketcher, &mut self.reader, self.sweep_cut);
        let (said, texts) = (self.said.as_mut(), self.texts.as_mut());
        let sketched = catch_unwind(AssertUnwindSafe(|| {
            let page = reader.page(record)?;
            let outcome = sketch_page(sketcher, &page, reader.limits.words_max, known)?;
            let is_wanted = (said.is_some() || texts.is_some()) && may_be_new(&outcome);
            let text = texts.filter(|_| is_wanted).and_then(|keeper| keeper.keep(sketcher, &page));
            let marked = sketcher.take_marked();
            let said = said.filter(|_| is_wanted).and_then(|reader| reader.read_marked(&page, marked));
            let (sketched, known) = sketched_page(&page, outcome, cut);
            Ok((SketchedPage { said: said.map(Arc::new), text, ..sketched }, known))
        }));
        sketched.unwrap_or_else(|_| {
            self.sketcher = self.fresh.clone();
            let message = "the page made the sketcher panic; please report it with the page";
            Err(Rejection::new(Reason::Internal, message))
        })
    }
}

fn sketch_page<K>(
    sketcher: &mut Sketcher,
    page: &Page,
    words_max: usize,
    known: impl FnOnce(Fingerprint) -> Option<K>,
) -> Result<SketchOutcome<K>, Rejection> {
    sketcher.sketch_unless_known(page, words_max, known).map_err(|why| {
        let reason = match why {
            Unsketchable::NoText(_) => Reason::NotText,
            Unsketchable::TooManyWords { .. } => Reason::TooLarge,
        };
        Rejection::new(reason, why.to_string()).about(page)
    })
}

fn sketched_page<K>(page: &Page, outcome: SketchOutcome<K>, sweep_cut: SweepCut) -> (SketchedPage, Option<K>) {
    let (content, known) = match outcome {
        SketchOutcome::Nothing => (None, None),
        SketchOutcome::Known(known) => (None, Some(known)),
        SketchOutcome::Content(content) => (Some(Arc::new(content)), None),
    };
    let fetched_at = page.fetched_at;
    let sweep = page.sweep.clone().or_else(|| sweep_cut.name(fetched_at));
    let redirect_to = if let Content::Redirect(target) = &page.content { Some(target.clone()) } else { None };
    let (url, said, text) = (page.url.clone(), None, None);
    (SketchedPage { url, fetched_at, sweep, content, redirect_to, said, text }, known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Seed;
    use crate::sketch::SketchRule;
    use crate::wire::MessageFormat;

    fn sketcher(days_max: u32) -> RecordSketcher {
        let future = FutureLimit { days_max, now: || FetchTime(10 * DAY_US) };
        let sketcher = Sketcher::new(&SketchRule::default(), &Seed([1, 2, 3, 4]));
        RecordSketcher::new(sketcher, Limits::default(), SweepCut::None, future)
    }

    fn page(time: &str, content: &str) -> Vec<u8> {
        format!(r#"{{"url":"http://a/","fetched_at":"{time}",{content}}}"#).into_bytes()
    }

    /// Lost once: pages dated by mistake stayed their URLs' newest for centuries, and later pages did not count.
    #[test]
    fn times_far_ahead_of_the_clock_are_rejected() {
        for (days_max, time, is_taken) in [
            (1, "1970-01-12T00:00:00Z", true),
            (1, "1970-01-12T00:00:00.000001Z", false),
            (2, "1970-01-12T00:00:00.000001Z", true),
            (0, "2608-01-01T00:00:00Z", true),
            (u32::MAX, "9999-12-30T00:00:00Z", true),
        ] {
            for content in [r#""body":"x""#, r#""gone":true"#, r#""redirect_to":"/b""#] {
                let outcome = sketcher(days_max).sketch(&Record::Json(page(time, content)));
                assert_eq!(outcome.is_ok(), is_taken, "{days_max}, {time}, {content}");
                if let Err(rejection) = outcome {
                    assert_eq!((rejection.reason, rejection.url.as_deref()), (Reason::FutureTime, Some("http://a/")));
                    assert_eq!(rejection.fetched_at.map(|time| time.to_string()).as_deref(), Some(time));
                }
            }
        }
    }

    /// Lost once: a page with one character that was not UTF-8, as Python writes it, and one after a byte order
    /// mark.
    #[test]
    fn repairable_json_does_not_cost_the_page() {
        let mut sketcher = sketcher(0);
        let body =
            |text: &str| page("2020-01-01T00:00:00Z", &format!(r#""content_type":"text/plain","body":"{text}""#));
        let whole = sketcher.sketch(&Record::Json(body("a \\ufffd b"))).expect("a page");
        let marked = [&b"\xef\xbb\xbf"[..], &body("a \\ud800 b")].concat();
        for (at, json) in [body("a \\udfff b"), marked].into_iter().enumerate() {
            let message = Message { value: Some(json.clone()), ..Message::default() };
            let records = [Record::Json(json), Record::Message(Box::new(message), MessageFormat::Json)];
            for record in records {
                assert_eq!(sketcher.sketch(&record).expect("a page").content, whole.content);
            }
            assert_eq!(sketcher.n_repaired(), 2 * (at as u64 + 1));
        }
        let broken = sketcher.sketch(&Record::Json(b"\xef\xbb\xbf{".to_vec())).expect_err("no page");
        assert_eq!((broken.reason, sketcher.n_repaired()), (Reason::InvalidJson, 4));
    }
}
