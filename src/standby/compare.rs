//! Compares what the stream would publish with what is published, byte by byte.

use super::published_events::{Answer, PublishedEvents};
use crate::ports::{Outgoing, PublishedEvent, Sink, SinkError, SourceError, StopReason, Store};
use crate::wire::Message;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How the message of an event looks in the output.
pub type ExpectedMessage = Box<dyn Fn(&Outgoing) -> Message + Send>;

/// How long an event may take to show after the events of its record did: the partitions of the output show a transaction
/// one after the other.
const ABSENT_AFTER: Duration = Duration::from_secs(10);

/// How long one look for an event may keep from noticing a shutdown.
const WAIT: Duration = Duration::from_millis(100);

/// Events that are compared at once.
const AT_ONCE: usize = 4096;

/// Bytes that a message about a difference shows of each side.
const SHOWN_MAX: usize = 120;

/// A sink that publishes nothing: every event must be published already, with these very bytes.
pub struct ComparingSink {
    published: Arc<PublishedEvents>,
    expected: ExpectedMessage,
}

impl ComparingSink {
    /// Compares with what is published.
    pub fn new(published: Arc<PublishedEvents>, expected: ExpectedMessage) -> Self {
        ComparingSink { published, expected }
    }

    /// Compares one event; false where it is behind the end or `stop` asks to wait no longer.
    fn compare(&self, event: &Outgoing, mut stop: impl FnMut(bool) -> bool) -> Result<bool, SinkError> {
        loop {
            match self.published.event(event.seq, WAIT).map_err(sink_error)? {
                Answer::Event(published) => {
                    let expected = (self.expected)(event);
                    if let Some(why) = difference(&expected, &published.message) {
                        return Err(diverged(&published, &expected, &why));
                    }
                    self.published.compared(event.seq + 1);
                    return Ok(true);
                }
                Answer::End => return Ok(false),
                Answer::Unknown { is_at_end } if stop(is_at_end) => return Ok(false),
                Answer::Unknown { .. } => {}
            }
        }
    }
}

impl Sink for ComparingSink {
    fn last_seq(&mut self) -> Result<Option<u64>, SinkError> {
        Ok(self.published.next().checked_sub(1))
    }

    fn publish(&mut self, events: &[Outgoing]) -> Result<(), SinkError> {
        for event in events {
            let mut at_end_since = None;
            let is_absent = |is_at_end: bool| {
                at_end_since = is_at_end.then(|| at_end_since.unwrap_or_else(Instant::now));
                at_end_since.is_some_and(|since| since.elapsed() >= ABSENT_AFTER)
            };
            if !self.compare(event, is_absent)? {
                return Err(SinkError {
                    stop_reason: StopReason::Diverged,
                    message: format!(
                        "the store gives event {}, {}, and the topic of events ends before it. {ADVICE}",
                        event.seq,
                        shown(&event.json, 0)
                    ),
                });
            }
        }
        Ok(())
    }
}

/// What to do about a difference.
const ADVICE: &str = "Either this store, its seed, rules or settings are not those of the owner, or one of the two is \
                      damaged, or this store decided events that another process overtook. Nothing was published. Check \
                      the settings and `lookalike verify` on both stores; then start from a newer backup of the owner's \
                      store";

/// Compares the events that a store has and does not know to be published, up to `next_seq`. Waits for events that are not
/// published; false where `shutdown` or the end comes first.
///
/// # Errors
/// [`SinkError`] where one differs, or the output or the store cannot be read.
pub fn compare_outbox<S: Store>(
    store: &S,
    sink: &ComparingSink,
    next_seq: u64,
    shutdown: &AtomicBool,
) -> Result<bool, SinkError> {
    loop {
        let from = sink.published.next();
        if from >= next_seq {
            return Ok(true);
        }
        let events = store.outbox(from, AT_ONCE).map_err(|error| SinkError::new(error.to_string()))?;
        if events.first().is_none_or(|first| first.seq != from) {
            return Err(SinkError::new(format!("the store is damaged: its outbox lacks event {from}")));
        }
        for event in &events {
            if !sink.compare(event, |_| shutdown.load(Ordering::Relaxed))? {
                return Ok(false);
            }
        }
    }
}

/// How a published message differs from the expected one; none where every byte is the same. Times do not count.
pub fn difference(expected: &Message, published: &Message) -> Option<String> {
    if expected.key != published.key {
        return Some("the key differs".into());
    }
    if expected.value != published.value {
        let [ours, theirs] = [expected, published].map(|message| message.value.as_deref().unwrap_or_default());
        let at = ours.iter().zip(theirs).take_while(|(one, other)| one == other).count();
        return Some(format!("byte {at} differs: published {}, expected {}", shown(theirs, at), shown(ours, at)));
    }
    let differing = expected.headers.iter().zip(&published.headers).find(|(one, other)| one != other);
    let name = differing.map(|((name, _), _)| format!("the header {name} differs"));
    name.or_else(|| (expected.headers.len() != published.headers.len()).then(|| "the headers differ".into()))
}

/// The bytes around a place, as text.
fn shown(bytes: &[u8], at: usize) -> String {
    let from = at.saturating_sub(SHOWN_MAX / 3).min(bytes.len());
    let to = (from + SHOWN_MAX).min(bytes.len());
    let [before, after] = [from > 0, to < bytes.len()].map(|is_cut| if is_cut { "…" } else { "" });
    format!("{before}{}{after}", String::from_utf8_lossy(&bytes[from..to]))
}

fn diverged(published: &PublishedEvent, expected: &Message, why: &str) -> SinkError {
    let PublishedEvent { place, seq, .. } = published;
    let value = expected.value.as_deref().unwrap_or_default();
    let of = serde_json::from_slice::<crate::wire::Event>(value).map_or_else(
        |_| String::new(),
        |event| format!(" about {}, partition {}, offset {},", event.source, event.partition, event.offset),
    );
    SinkError {
        stop_reason: StopReason::Diverged,
        message: format!("event {seq},{of} is not what this store gives: {why} (in {place}). {ADVICE}"),
    }
}

fn sink_error(error: SourceError) -> SinkError {
    SinkError { stop_reason: error.stop_reason, message: error.message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Origin;

    fn message() -> Message {
        Message {
            key: Some(b"http://a/".to_vec()),
            value: Some(br#"{"type":"gone","seq":3}"#.to_vec()),
            headers: vec![("lookalike-seq".into(), Some(b"3".to_vec())), ("lookalike-store".into(), None)],
            ..Message::default()
        }
    }

    /// Lost if this fails: the comparison, which is the whole proof.
    #[test]
    fn every_byte_is_compared() {
        assert_eq!(difference(&message(), &Message { time_ms: Some(5), ..message() }), None);
        let value = |text: &str| Message { value: Some(text.as_bytes().to_vec()), ..message() };
        for (other, part) in [
            (value(r#"{"type":"gone","seq":4}"#), "byte 21"),
            (value(r#"{"type":"gone","seq":3} "#), "byte 23"),
            (Message { value: None, ..message() }, "byte 0"),
            (Message { key: None, ..message() }, "key"),
            (Message { headers: vec![], ..message() }, "headers"),
            (Message { headers: message().headers[..1].to_vec(), ..message() }, "headers"),
        ] {
            let why = difference(&message(), &other).expect("a difference");
            assert!(why.contains(part), "{why}");
        }
        let mut other = message();
        other.headers[0].1 = Some(b"4".to_vec());
        assert_eq!(difference(&message(), &other).as_deref(), Some("the header lookalike-seq differs"));
    }

    fn published(seq: u64, json: &str) -> PublishedEvent {
        let place = Origin { source: "events".into(), partition: 0, offset: 40 };
        PublishedEvent { place, seq, message: Message { value: Some(json.into()), ..Message::default() } }
    }

    #[test]
    fn a_difference_names_the_event_and_the_record() {
        let json = r#"{"type":"gone","seq":3,"source":"pages","partition":2,"offset":5,"url":null,"fetched_at":null,"sweep":null}"#;
        let expected = Message { value: Some(json.into()), ..Message::default() };
        let error = diverged(&published(3, "x"), &expected, "why");
        assert_eq!(error.stop_reason, StopReason::Diverged);
        for part in ["event 3", "pages, partition 2, offset 5", "events[0]@40", "backup"] {
            assert!(error.message.contains(part), "{part}: {}", error.message);
        }
    }
}
