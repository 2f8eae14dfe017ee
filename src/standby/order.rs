//! What a published event says about the order in which its owner took records and closed sweeps.

use crate::ports::PublishedEvent;
use crate::wire::{Event, EventBody, EventType, Reason, Rejection};

/// What stands before the name of a sweep in the source of the events that its closing causes.
const SWEEP_SOURCE: &str = "sweep ";

/// What the owner did.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// It took this record.
    Take {
        partition: i32,
        offset: i64,
        /// Why the record is no page, where the record itself does not say so.
        told: Option<Rejection>,
    },
    /// The event follows from a record that was told before.
    Follows,
    /// It closed this sweep, or began to.
    Close { sweep: String },
}

/// What the owner of the pages in `topic` did.
///
/// # Errors
/// Why no stream of these pages can give the event.
pub(super) fn step(event: &PublishedEvent, topic: &str) -> Result<Step, String> {
    let json = event.message.value.as_deref().unwrap_or_default();
    let event: Event = serde_json::from_slice(json).map_err(|error| format!("it cannot be read: {error}"))?;
    let kind = event.kind();
    if matches!(kind, EventType::Forgotten | EventType::Split | EventType::Reassigned) {
        return Err("`forget` or `recluster` caused it, which no page tells".into());
    }
    if let Some(sweep) = event.source.strip_prefix(SWEEP_SOURCE) {
        return Ok(Step::Close { sweep: sweep.to_string() });
    }
    if event.source != topic {
        return Err(format!("its page came from {:?}, and this configuration reads topic {topic:?}", event.source));
    }
    if !kind.is_terminal() {
        return Ok(Step::Follows);
    }
    let (partition, offset) = (event.partition, event.offset);
    Ok(Step::Take { partition, offset, told: told_rejection(event) })
}

/// The rejection that depends on more than the record: on a clock, a crash, or on records that are gone.
fn told_rejection(event: Event) -> Option<Rejection> {
    let (reason, message, gap_to) = match event.body {
        EventBody::Gap { gap_to, reason, message } => (reason, message, Some(gap_to)),
        EventBody::Rejected { reason: reason @ (Reason::Poison | Reason::FutureTime), message } => {
            (reason, message, None)
        }
        _ => return None,
    };
    Some(Rejection { reason, message, url: event.url, fetched_at: event.fetched_at, sweep: event.sweep, gap_to })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Message, Origin};

    fn published(json: &str) -> PublishedEvent {
        let place = Origin { source: "events".into(), partition: 0, offset: 9 };
        let message = Message { value: Some(json.as_bytes().to_vec()), ..Message::default() };
        PublishedEvent { place, seq: 7, message }
    }

    fn of(kind: &str, source: &str, rest: &str) -> Result<Step, String> {
        let json = format!(
            r#"{{"type":"{kind}","seq":7,"source":"{source}","partition":2,"offset":5,"url":null,"fetched_at":null,
                "sweep":null{rest}}}"#
        );
        step(&published(&json), "pages")
    }

    #[test]
    fn terminal_events_of_the_topic_tell_the_order() {
        let take = |told| Ok(Step::Take { partition: 2, offset: 5, told });
        assert_eq!(of("gone", "pages", ""), take(None));
        assert_eq!(of("rejected", "pages", r#","reason":"media-type","message":"m""#), take(None));
        assert_eq!(of("merged", "pages", r#","cluster":1,"loser":2,"winner":1"#), Ok(Step::Follows));
    }

    #[test]
    fn what_no_record_says_is_taken_from_the_event() {
        for reason in [Reason::Poison, Reason::FutureTime] {
            let told = of("rejected", "pages", &format!(r#","reason":"{}","message":"m""#, reason.as_str()));
            let rejection = Rejection::new(reason, "m");
            assert_eq!(told, Ok(Step::Take { partition: 2, offset: 5, told: Some(rejection) }));
        }
        let told = of("gap", "pages", r#","gap_to":9,"reason":"overtaken","message":"m""#);
        let rejection = Rejection { gap_to: Some(9), ..Rejection::new(Reason::Overtaken, "m") };
        assert_eq!(told, Ok(Step::Take { partition: 2, offset: 5, told: Some(rejection) }));
    }

    #[test]
    fn sweeps_are_closed_where_the_events_say_so() {
        let close = Ok(Step::Close { sweep: "s 1".into() });
        assert_eq!(of("lost", "sweep s 1", r#","document":3"#), close);
        assert_eq!(of("sweep-closed", "sweep s 1", r#","n_lost":3"#), close);
    }

    /// Lost if this fails: the promise of equal bytes, where a store follows what its pages cannot give.
    #[test]
    fn what_pages_cannot_give_is_refused() {
        assert!(of("forgotten", "forget", "").is_err_and(|why| why.contains("forget")));
        assert!(of("split", "recluster", r#","cluster":3"#).is_err());
        assert!(of("gone", "other", "").is_err_and(|why| why.contains("\"other\"")));
        assert!(step(&published("no JSON"), "pages").is_err());
    }
}
