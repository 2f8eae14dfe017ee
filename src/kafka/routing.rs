//! The messages of an event: the event itself, its changes to the compacted topics, and a dead letter.

use super::headers::{SEQ_HEADER, STORE_HEADER, VERSION_HEADER, dead_letter};
use super::settings::KafkaSettings;
use crate::document::{ClusterId, DocumentId, FetchTime};
use crate::ports::{Outgoing, Present, PresentChange};
use crate::sweep::Observation;
use crate::wire::{Event, EventType, Message, MessageFault, Reason, WIRE_VERSION};
use rdkafka::message::{Header, OwnedHeaders};
use serde::Serialize;
use std::iter::successors;

/// A message to be sent.
#[derive(Debug)]
pub(super) struct OutputMessage {
    pub topic: String,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: OwnedHeaders,
    pub time_ms: Option<i64>,
    /// Whether less of the message may be sent.
    pub is_dead_letter: bool,
}

/// The value of an assignment; its key is the URL.
#[derive(Serialize)]
struct Assignment<'a> {
    url: &'a str,
    fetched_at: Option<FetchTime>,
    sweep: Option<&'a str>,
    document: DocumentId,
    cluster: ClusterId,
    seq: u64,
}

impl<'a> Assignment<'a> {
    /// The assignment of a URL; `None` if the URL has no page.
    fn new(url: &'a str, present: &'a Present, seq: u64) -> Option<Self> {
        let Present { newest: Observation { fetched_at, seen, sweep }, cluster } = present;
        let (document, cluster) = (seen.document()?, (*cluster)?);
        Some(Assignment { url, fetched_at: Some(*fetched_at), sweep: sweep.as_deref(), document, cluster, seq })
    }
}

/// The value of a merge; its key is the losing cluster.
#[derive(Serialize)]
struct Merged {
    loser: ClusterId,
    winner: ClusterId,
    seq: u64,
}

/// The topics that the sink writes to.
#[derive(Clone, Debug)]
pub(super) struct OutputTopics {
    events: String,
    assignments: Option<String>,
    merges: Option<String>,
    dead_letters: Option<String>,
    store: String,
}

impl OutputTopics {
    /// Takes the topics from the settings; `store` is the id of the store that publishes.
    pub(super) fn new(settings: &KafkaSettings, store: &str) -> Self {
        let named = |topic: &String| Some(topic.clone()).filter(|topic| !topic.is_empty());
        OutputTopics {
            events: settings.events_topic.clone(),
            assignments: named(&settings.assignments_topic),
            merges: named(&settings.merges_topic),
            dead_letters: settings.dead_letters.then(|| settings.dead_letter_topic()),
            store: store.to_string(),
        }
    }

    /// Whether rejected messages go to a dead letter topic.
    pub(super) fn has_dead_letters(&self) -> bool {
        self.dead_letters.is_some()
    }

    /// All topics, each with the setting that names it.
    pub(super) fn topics(&self) -> impl Iterator<Item = (&str, &'static str)> {
        [
            (Some(&self.events), "events_topic"),
            (self.assignments.as_ref(), "assignments_topic"),
            (self.merges.as_ref(), "merges_topic"),
            (self.dead_letters.as_ref(), "dead_letters"),
        ]
        .into_iter()
        .filter_map(|(topic, field)| Some((topic?.as_str(), field)))
    }

    /// The topics whose last messages show what has been published. The events topic may have lost its last events to
    /// retention; a compacted topic keeps its last message for ever.
    pub(super) fn tail_topics(&self) -> impl Iterator<Item = (&str, &'static str)> {
        self.topics().filter(|(_, field)| matches!(*field, "events_topic" | "assignments_topic"))
    }

    /// The messages of an event, in the order in which they are sent. They depend only on what the store wrote with
    /// the batch, so a repeated publication sends the same messages. A dead letter holds the original as it is after
    /// `n_reductions`.
    pub(super) fn messages(&self, outgoing: &Outgoing, n_reductions: usize) -> Vec<OutputMessage> {
        let mut messages = vec![self.event_message(outgoing)];
        // The store wrote the event. One that does not parse is still published, without further messages.
        if let Ok(event) = serde_json::from_slice::<Event>(&outgoing.json) {
            messages.extend(self.state_message(outgoing, &event));
            messages.extend(self.dead_letter_message(outgoing, &event, n_reductions));
        }
        messages
    }

    /// The message of the event itself.
    pub(super) fn event_message(&self, outgoing: &Outgoing) -> OutputMessage {
        OutputMessage {
            topic: self.events.clone(),
            key: outgoing.key.clone().map(String::into_bytes),
            value: Some(outgoing.json.clone()),
            headers: self.headers(outgoing.seq, OwnedHeaders::new_with_capacity(3)),
            time_ms: None,
            is_dead_letter: false,
        }
    }

    fn headers(&self, seq: u64, headers: OwnedHeaders) -> OwnedHeaders {
        let (seq, version) = (seq.to_string(), WIRE_VERSION.to_string());
        headers
            .insert(Header { key: SEQ_HEADER, value: Some(&seq) })
            .insert(Header { key: STORE_HEADER, value: Some(&self.store) })
            .insert(Header { key: VERSION_HEADER, value: Some(&version) })
    }

    /// The change that an event makes to the present state.
    fn state_message(&self, outgoing: &Outgoing, event: &Event) -> Option<OutputMessage> {
        match event.kind() {
            EventType::Assigned
            | EventType::Reassigned
            | EventType::Gone
            | EventType::Redirected
            | EventType::Lost
            | EventType::Forgotten => {
                let (url, seq) = (event.url.as_deref()?, event.seq);
                let assignment = match &outgoing.change {
                    PresentChange::Nothing => return None,
                    PresentChange::To(present) => Assignment::new(url, present, seq),
                    PresentChange::AsTold if matches!(event.kind(), EventType::Assigned | EventType::Reassigned) => {
                        let (fetched_at, sweep) = (event.fetched_at, event.sweep.as_deref());
                        let (document, cluster) = (event.document()?, event.cluster()?);
                        Some(Assignment { url, fetched_at, sweep, document, cluster, seq })
                    }
                    PresentChange::AsTold => None,
                };
                self.assignment(url, assignment.as_ref(), seq)
            }
            EventType::Merged => self.merge(event.loser()?, Some(event.winner()?), event.seq),
            EventType::Split => self.merge(event.cluster()?, None, event.seq),
            EventType::Changed | EventType::Moved | EventType::SweepClosed | EventType::Rejected | EventType::Gap => {
                None
            }
        }
    }

    /// States the present of a URL as of event `seq`.
    pub(super) fn present(&self, url: &str, present: &Present, seq: u64) -> Option<OutputMessage> {
        self.assignment(url, Assignment::new(url, present, seq).as_ref(), seq)
    }

    fn assignment(&self, url: &str, value: Option<&Assignment<'_>>, seq: u64) -> Option<OutputMessage> {
        self.compacted_message(self.assignments.as_ref()?, url.to_string(), value, seq)
    }

    /// States the winner of a merged cluster as of event `seq`; without a winner, the cluster has its name back.
    pub(super) fn merge(&self, loser: ClusterId, winner: Option<ClusterId>, seq: u64) -> Option<OutputMessage> {
        let value = winner.map(|winner| Merged { loser, winner, seq });
        self.compacted_message(self.merges.as_ref()?, loser.0.to_string(), value.as_ref(), seq)
    }

    fn compacted_message(
        &self,
        topic: &str,
        key: String,
        value: Option<&impl Serialize>,
        seq: u64,
    ) -> Option<OutputMessage> {
        Some(OutputMessage {
            topic: topic.to_string(),
            key: Some(key.into_bytes()),
            value: value.map(serde_json::to_vec).transpose().ok()?,
            headers: self.headers(seq, OwnedHeaders::new_with_capacity(3)),
            time_ms: None,
            is_dead_letter: false,
        })
    }

    /// The dead letter of a rejected message; none where even the smallest one is too large for its topic.
    fn dead_letter_message(&self, outgoing: &Outgoing, event: &Event, n_reductions: usize) -> Option<OutputMessage> {
        let (topic, original) = (self.dead_letters.as_ref()?, outgoing.original.as_ref()?);
        let Some(letter) = successors(Some((**original).clone()), Message::reduced).nth(n_reductions) else {
            tracing::warn!(
                "event {} has no dead letter: topic {topic:?} refuses even one without value, key and headers; raise \
                 its max.message.bytes",
                outgoing.seq
            );
            return None;
        };
        let left_out = letter.fault.map(|fault| match fault {
            MessageFault::TooLarge(_) => "value",
            MessageFault::HeaderName => "headers",
            MessageFault::Bare => "all",
        });
        let headers = OwnedHeaders::new_with_capacity(letter.headers.len() + 9);
        // A letter is whole where this header is absent.
        let headers = letter
            .headers
            .iter()
            .filter(|(key, _)| key != dead_letter::LEFT_OUT)
            .fold(headers, |headers, (key, value)| headers.insert(Header { key, value: value.as_deref() }));
        let (partition, offset) = (event.partition.to_string(), event.offset.to_string());
        let reason = event.reason().map_or("", Reason::as_str);
        let mut headers = headers
            .insert(Header { key: dead_letter::SOURCE, value: Some(&event.source) })
            .insert(Header { key: dead_letter::PARTITION, value: Some(&partition) })
            .insert(Header { key: dead_letter::OFFSET, value: Some(&offset) })
            .insert(Header { key: dead_letter::REASON, value: Some(reason) })
            .insert(Header { key: dead_letter::MESSAGE, value: event.message() });
        if let Some(part) = left_out {
            headers = headers.insert(Header { key: dead_letter::LEFT_OUT, value: Some(part) });
        }
        Some(OutputMessage {
            topic: topic.clone(),
            key: letter.key,
            value: letter.value,
            headers: self.headers(outgoing.seq, headers),
            time_ms: letter.time_ms.filter(|time| *time >= 0),
            is_dead_letter: true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdkafka::message::Headers;

    const EVENT: &str = concat!(
        r#"{"type":"rejected","seq":7,"source":"t","partition":0,"offset":3,"url":null,"fetched_at":null,"#,
        r#""sweep":null,"reason":"invalid-json","message":"m"}"#
    );

    /// The headers of a message, one as `name=value`.
    fn headers_of(message: &OutputMessage) -> Vec<String> {
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        let shown = |(key, value): (&str, Option<&[u8]>)| format!("{key}={}", value.map(text).unwrap_or_default());
        message.headers.iter().map(|header| shown((header.key, header.value))).collect()
    }

    /// Lost once: the stream, where the headers of a rejected message were too large for the topic; and letters that
    /// the crawler's own header said were not whole, which no replay sent.
    #[test]
    fn a_dead_letter_says_what_is_left_out() {
        let topics = OutputTopics::new(&KafkaSettings::default(), "s");
        let header = |key: &str, value: &[u8]| (key.to_string(), Some(value.to_vec()));
        let original = Message {
            key: Some(b"k".to_vec()),
            value: Some(b"no JSON".to_vec()),
            headers: vec![header("x", b"1"), header(dead_letter::LEFT_OUT, b"value"), header("x", b"2")],
            time_ms: Some(1_500),
            fault: None,
        };
        let outgoing =
            Outgoing { original: Some(Box::new(original)), ..Outgoing::new(7, None, EVENT.as_bytes().to_vec()) };
        let letter = |n_reductions| topics.messages(&outgoing, n_reductions).into_iter().nth(1);
        let ours = [
            "lookalike-source=t",
            "lookalike-partition=0",
            "lookalike-offset=3",
            "lookalike-reason=invalid-json",
            "lookalike-message=m",
        ];
        let event = ["lookalike-seq=7", "lookalike-store=s", "lookalike-version=1"];
        for (n_reductions, key, value, own, left_out) in [
            (0, Some("k"), Some("no JSON"), &["x=1", "x=2"][..], &[][..]),
            (1, Some("k"), None, &["x=1", "x=2"][..], &["lookalike-left-out=value"][..]),
            (2, None, None, &[][..], &["lookalike-left-out=all"][..]),
        ] {
            let letter = letter(n_reductions).expect("a letter");
            assert_eq!(letter.topic, "pages.dlq");
            assert_eq!(letter.key.as_deref(), key.map(str::as_bytes));
            assert_eq!(letter.value.as_deref(), value.map(str::as_bytes));
            assert_eq!((letter.time_ms, letter.is_dead_letter), (Some(1_500), true));
            assert_eq!(headers_of(&letter), [own, &ours, left_out, &event].concat());
        }
        assert!(letter(3).is_none(), "nothing is left to leave out");
    }
}
