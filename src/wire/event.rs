//! Events: what happened to each record, one JSON object each.

use super::origin::Origin;
use super::rejection::{Reason, Rejection};
use crate::cluster::{Decision, Merge, Relation};
use crate::document::{ClusterId, DocumentId, FetchTime};
use crate::history::{Move, MoveEvidence};
use serde::de::IntoDeserializer;
use serde::de::value::StrDeserializer;
use serde::{Deserialize, Serialize, Serializer};

/// The version of the event format; `docs/reference/events.md` says which changes keep it.
pub const WIRE_VERSION: u32 = 1;

/// The initial capacity for an event's JSON; hardly any event needs more.
const EVENT_BYTES: usize = 512;

/// What kind of event it is. Every input record gets exactly one terminal event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventType {
    /// A page belongs to a document and a cluster. Terminal.
    Assigned,
    /// The record was not a page that can be sketched. Terminal.
    Rejected,
    /// The page no longer exists. Terminal.
    Gone,
    /// The page is at another URL now. Terminal.
    Redirected,
    /// Records could not be read, from the event's offset up to another one. Terminal for all of them.
    Gap,
    /// Two clusters became one.
    Merged,
    /// Another document is at the URL than before, by the time of fetching.
    Changed,
    /// A URL is gone or lost, and its last copy, or a document of the same cluster, is elsewhere. Once for each
    /// loss.
    Moved,
    /// A sweep closed without having seen the URL, although it should have.
    Lost,
    /// A sweep closed; the `lost` events of its URLs precede.
    SweepClosed,
    /// Clusters were recomputed under another rule, and this one has its own name again: it is no longer part of
    /// the cluster it was merged into.
    Split,
    /// Clusters were recomputed under another rule, and this document belongs to another one, or to its own again.
    /// One event for each URL with the document.
    Reassigned,
    /// Sightings of a URL were forgotten. The event says what stands there by those that are left.
    Forgotten,
}

impl EventType {
    /// The type of a name, as events have it; none where there is no such type.
    pub fn parse(name: &str) -> Option<Self> {
        let name: StrDeserializer<'_, serde::de::value::Error> = name.into_deserializer();
        Self::deserialize(name).ok()
    }

    /// Whether it is the one event that its record gets.
    pub fn is_terminal(self) -> bool {
        match self {
            EventType::Assigned | EventType::Rejected | EventType::Gone | EventType::Redirected | EventType::Gap => {
                true
            }
            EventType::Merged
            | EventType::Changed
            | EventType::Moved
            | EventType::Lost
            | EventType::SweepClosed
            | EventType::Split
            | EventType::Reassigned
            | EventType::Forgotten => false,
        }
    }
}

/// One event.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "EventFields")]
pub struct Event {
    /// The event's number in the store's sequence: dense, from 0.
    pub seq: u64,
    /// The file or topic of the record that caused the event; `sweep NAME` if closing a sweep caused it.
    pub source: String,
    /// The record's partition.
    pub partition: i32,
    /// The record's offset.
    pub offset: i64,
    /// The page's URL, if the record had one.
    pub url: Option<String>,
    /// When the page was seen.
    pub fetched_at: Option<FetchTime>,
    /// The sweep that saw the page.
    pub sweep: Option<String>,
    /// What happened.
    pub body: EventBody,
}

/// What happened, one variant for each [`EventType`]. The order of the fields is their order in the JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum EventBody {
    /// See [`EventType::Assigned`].
    Assigned {
        /// The page's document.
        document: DocumentId,
        /// The document's cluster.
        cluster: ClusterId,
        /// How the page relates to its document and cluster.
        relation: Relation,
        /// The known document that the page matched.
        #[serde(skip_serializing_if = "Option::is_none")]
        matched_document: Option<DocumentId>,
        /// Where that document was first seen.
        #[serde(skip_serializing_if = "Option::is_none")]
        matched_url: Option<String>,
        /// The estimated resemblance to that document, rounded to four places.
        #[serde(skip_serializing_if = "Option::is_none")]
        resemblance: Option<f64>,
    },
    /// See [`EventType::Rejected`].
    Rejected {
        /// Why, as a word that never changes.
        reason: Reason,
        /// Why, for people.
        message: String,
    },
    /// See [`EventType::Gone`].
    Gone {},
    /// See [`EventType::Redirected`].
    Redirected {
        /// Where the page is now.
        redirect_to: String,
    },
    /// See [`EventType::Gap`].
    Gap {
        /// The offset where reading continues.
        gap_to: i64,
        /// Why, as a word that never changes.
        reason: Reason,
        /// Why, for people.
        message: String,
    },
    /// See [`EventType::Merged`].
    Merged {
        /// The same as `winner`.
        cluster: ClusterId,
        /// The cluster whose name ends.
        loser: ClusterId,
        /// The cluster that has its documents now.
        winner: ClusterId,
    },
    /// See [`EventType::Changed`].
    Changed {
        /// The document that is there now.
        document: DocumentId,
        /// The estimated resemblance of the two, rounded to four places.
        resemblance: f64,
        /// The document that was there before.
        previous_document: DocumentId,
    },
    /// See [`EventType::Moved`].
    Moved {
        /// The document at the new place.
        document: DocumentId,
        /// The estimated resemblance of the two, rounded to four places.
        resemblance: f64,
        /// The last copy.
        previous_document: DocumentId,
        /// The URL that is gone or lost.
        from: String,
        /// Where its content is now.
        to: String,
        /// How the move is known.
        evidence: MoveEvidence,
    },
    /// See [`EventType::Lost`].
    Lost {
        /// The last copy.
        document: DocumentId,
    },
    /// See [`EventType::SweepClosed`].
    SweepClosed {
        /// How many URLs the sweep should have seen and did not.
        n_lost: u64,
    },
    /// See [`EventType::Split`].
    Split {
        /// The cluster that has its own name again.
        cluster: ClusterId,
    },
    /// See [`EventType::Reassigned`].
    Reassigned {
        /// The document.
        document: DocumentId,
        /// The document's cluster from now on.
        cluster: ClusterId,
    },
    /// See [`EventType::Forgotten`].
    Forgotten {
        /// The document that stands at the URL by what is left.
        #[serde(skip_serializing_if = "Option::is_none")]
        document: Option<DocumentId>,
        /// That document's cluster.
        #[serde(skip_serializing_if = "Option::is_none")]
        cluster: Option<ClusterId>,
    },
}

/// The fields of every type, from which an [`Event`] is deserialised.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EventFields {
    #[serde(rename = "type")]
    kind: EventType,
    seq: u64,
    source: String,
    partition: i32,
    offset: i64,
    url: Option<String>,
    fetched_at: Option<FetchTime>,
    sweep: Option<String>,
    document: Option<DocumentId>,
    cluster: Option<ClusterId>,
    relation: Option<Relation>,
    matched_document: Option<DocumentId>,
    matched_url: Option<String>,
    resemblance: Option<f64>,
    redirect_to: Option<String>,
    previous_document: Option<DocumentId>,
    from: Option<String>,
    to: Option<String>,
    evidence: Option<MoveEvidence>,
    n_lost: Option<u64>,
    loser: Option<ClusterId>,
    winner: Option<ClusterId>,
    gap_to: Option<i64>,
    reason: Option<Reason>,
    message: Option<String>,
}

/// The event lacks a field that its type requires.
#[derive(Debug, thiserror::Error)]
#[error("the event has no field `{0}`, which its type requires")]
struct MissingField(&'static str);

impl TryFrom<EventFields> for Event {
    type Error = MissingField;

    fn try_from(fields: EventFields) -> Result<Self, MissingField> {
        let document = fields.document.ok_or(MissingField("document"));
        let cluster = fields.cluster.ok_or(MissingField("cluster"));
        let resemblance = fields.resemblance.ok_or(MissingField("resemblance"));
        let previous_document = fields.previous_document.ok_or(MissingField("previous_document"));
        let reason = fields.reason.ok_or(MissingField("reason"));
        let message = fields.message.ok_or(MissingField("message"));
        let body = match fields.kind {
            EventType::Assigned => EventBody::Assigned {
                document: document?,
                cluster: cluster?,
                relation: fields.relation.ok_or(MissingField("relation"))?,
                matched_document: fields.matched_document,
                matched_url: fields.matched_url,
                resemblance: fields.resemblance,
            },
            EventType::Rejected => EventBody::Rejected { reason: reason?, message: message? },
            EventType::Gone => EventBody::Gone {},
            EventType::Redirected => {
                EventBody::Redirected { redirect_to: fields.redirect_to.ok_or(MissingField("redirect_to"))? }
            }
            EventType::Gap => EventBody::Gap {
                gap_to: fields.gap_to.ok_or(MissingField("gap_to"))?,
                reason: reason?,
                message: message?,
            },
            EventType::Merged => EventBody::Merged {
                cluster: cluster?,
                loser: fields.loser.ok_or(MissingField("loser"))?,
                winner: fields.winner.ok_or(MissingField("winner"))?,
            },
            EventType::Changed => EventBody::Changed {
                document: document?,
                resemblance: resemblance?,
                previous_document: previous_document?,
            },
            EventType::Moved => EventBody::Moved {
                document: document?,
                resemblance: resemblance?,
                previous_document: previous_document?,
                from: fields.from.ok_or(MissingField("from"))?,
                to: fields.to.ok_or(MissingField("to"))?,
                evidence: fields.evidence.ok_or(MissingField("evidence"))?,
            },
            EventType::Lost => EventBody::Lost { document: document? },
            EventType::SweepClosed => EventBody::SweepClosed { n_lost: fields.n_lost.ok_or(MissingField("n_lost"))? },
            EventType::Split => EventBody::Split { cluster: cluster? },
            EventType::Reassigned => EventBody::Reassigned { document: document?, cluster: cluster? },
            EventType::Forgotten => EventBody::Forgotten { document: fields.document, cluster: fields.cluster },
        };
        let EventFields { seq, source, partition, offset, url, fetched_at, sweep, .. } = fields;
        Ok(Event { seq, source, partition, offset, url, fetched_at, sweep, body })
    }
}

/// Writes one flat object: the type, the fields that every event has, and those of its type.
impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Line<'a> {
            #[serde(rename = "type")]
            kind: EventType,
            seq: u64,
            source: &'a str,
            partition: i32,
            offset: i64,
            url: Option<&'a str>,
            fetched_at: Option<FetchTime>,
            sweep: Option<&'a str>,
            #[serde(flatten)]
            body: &'a EventBody,
        }
        let Event { seq, source, partition, offset, url, fetched_at, sweep, body } = self;
        let (url, sweep) = (url.as_deref(), sweep.as_deref());
        let (seq, partition, offset, fetched_at) = (*seq, *partition, *offset, *fetched_at);
        Line { kind: self.kind(), seq, source, partition, offset, url, fetched_at, sweep, body }.serialize(serializer)
    }
}

/// The page that an event is about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The page's URL.
    pub url: Option<&'a str>,
    /// When it was seen.
    pub fetched_at: Option<FetchTime>,
    /// The sweep that saw it.
    pub sweep: Option<&'a str>,
}

impl Event {
    fn new(seq: u64, origin: &Origin, subject: Subject<'_>, body: EventBody) -> Self {
        Event {
            seq,
            source: origin.source.to_string(),
            partition: origin.partition,
            offset: origin.offset,
            url: subject.url.map(String::from),
            fetched_at: subject.fetched_at,
            sweep: subject.sweep.map(String::from),
            body,
        }
    }

    /// A page got its place; `matched_url` is where the matched document was first seen.
    pub fn assigned(
        seq: u64,
        origin: &Origin,
        subject: Subject<'_>,
        decision: &Decision,
        matched_url: Option<String>,
    ) -> Self {
        let body = EventBody::Assigned {
            document: decision.document,
            cluster: decision.cluster,
            relation: decision.relation,
            matched_document: decision.matched.map(|found| found.document),
            matched_url,
            resemblance: decision.matched.map(|found| rounded(found.resemblance)),
        };
        Self::new(seq, origin, subject, body)
    }

    /// A page brought two clusters together.
    pub fn merged(seq: u64, origin: &Origin, subject: Subject<'_>, merge: Merge) -> Self {
        let body = EventBody::Merged { cluster: merge.winner, loser: merge.loser, winner: merge.winner };
        Self::new(seq, origin, subject, body)
    }

    /// A cluster has its own name again.
    pub fn split(seq: u64, origin: &Origin, cluster: ClusterId) -> Self {
        let no_subject = Subject { url: None, fetched_at: None, sweep: None };
        Self::new(seq, origin, no_subject, EventBody::Split { cluster })
    }

    /// A document belongs to another cluster; the subject is where the document is, if it is anywhere.
    pub fn reassigned(
        seq: u64,
        origin: &Origin,
        subject: Subject<'_>,
        document: DocumentId,
        cluster: ClusterId,
    ) -> Self {
        Self::new(seq, origin, subject, EventBody::Reassigned { document, cluster })
    }

    /// Sightings of a URL were forgotten; the subject's time and sweep are those of what is left, if anything is.
    pub fn forgotten(seq: u64, origin: &Origin, subject: Subject<'_>, stands: Option<(DocumentId, ClusterId)>) -> Self {
        let body = EventBody::Forgotten {
            document: stands.map(|(document, _)| document),
            cluster: stands.map(|(_, cluster)| cluster),
        };
        Self::new(seq, origin, subject, body)
    }

    /// The page at a URL no longer exists.
    pub fn gone(seq: u64, origin: &Origin, subject: Subject<'_>) -> Self {
        Self::new(seq, origin, subject, EventBody::Gone {})
    }

    /// A URL leads elsewhere now.
    pub fn redirected(seq: u64, origin: &Origin, subject: Subject<'_>, target: &str) -> Self {
        Self::new(seq, origin, subject, EventBody::Redirected { redirect_to: target.to_string() })
    }

    /// Another document is at a URL.
    pub fn changed(
        seq: u64,
        origin: &Origin,
        subject: Subject<'_>,
        (previous_document, document): (DocumentId, DocumentId),
        resemblance: f64,
    ) -> Self {
        let resemblance = rounded(resemblance);
        Self::new(seq, origin, subject, EventBody::Changed { document, resemblance, previous_document })
    }

    /// A content turned up elsewhere; the subject is the page that revealed it.
    pub fn moved(seq: u64, origin: &Origin, subject: Subject<'_>, moved: &Move) -> Self {
        let body = EventBody::Moved {
            document: moved.to_document,
            resemblance: rounded(moved.resemblance),
            previous_document: moved.from_document,
            from: moved.from.clone(),
            to: moved.to.clone(),
            evidence: moved.evidence,
        };
        Self::new(seq, origin, subject, body)
    }

    /// A closed sweep did not see a URL; the subject's time is the sweep's beginning.
    pub fn lost(seq: u64, origin: &Origin, subject: Subject<'_>, last_copy: DocumentId) -> Self {
        Self::new(seq, origin, subject, EventBody::Lost { document: last_copy })
    }

    /// A sweep was closed.
    pub fn sweep_closed(seq: u64, origin: &Origin, subject: Subject<'_>, n_lost: u64) -> Self {
        Self::new(seq, origin, subject, EventBody::SweepClosed { n_lost })
    }

    /// A record was not a page; or a gap, where the rejection has a `gap_to`.
    pub fn rejected(seq: u64, origin: &Origin, rejection: &Rejection) -> Self {
        let subject = Subject {
            url: rejection.url.as_deref(),
            fetched_at: rejection.fetched_at,
            sweep: rejection.sweep.as_deref(),
        };
        let (reason, message) = (rejection.reason, rejection.message.clone());
        let body = match rejection.gap_to {
            Some(gap_to) => EventBody::Gap { gap_to, reason, message },
            None => EventBody::Rejected { reason, message },
        };
        Self::new(seq, origin, subject, body)
    }

    /// One line of JSON, without the line feed.
    pub fn to_json(&self) -> Vec<u8> {
        let mut json = Vec::with_capacity(EVENT_BYTES);
        match serde_json::to_writer(&mut json, self) {
            Ok(()) => json,
            // Serialising fails only for maps with keys that are not strings, and for writers that fail.
            Err(error) => unreachable!("an event could not be written as JSON: {error}"),
        }
    }
}

/// The fields of the body; `None` if the event's type does not have them.
impl Event {
    /// Every URL that the event names.
    pub fn urls(&self) -> impl Iterator<Item = &str> {
        let of_body = match &self.body {
            EventBody::Assigned { matched_url, .. } => [matched_url.as_deref(), None],
            EventBody::Redirected { redirect_to } => [Some(redirect_to.as_str()), None],
            EventBody::Moved { from, to, .. } => [Some(from.as_str()), Some(to)],
            _ => [None, None],
        };
        self.url.as_deref().into_iter().chain(of_body.into_iter().flatten())
    }

    /// What happened, as a word.
    pub fn kind(&self) -> EventType {
        match &self.body {
            EventBody::Assigned { .. } => EventType::Assigned,
            EventBody::Rejected { .. } => EventType::Rejected,
            EventBody::Gone { .. } => EventType::Gone,
            EventBody::Redirected { .. } => EventType::Redirected,
            EventBody::Gap { .. } => EventType::Gap,
            EventBody::Merged { .. } => EventType::Merged,
            EventBody::Changed { .. } => EventType::Changed,
            EventBody::Moved { .. } => EventType::Moved,
            EventBody::Lost { .. } => EventType::Lost,
            EventBody::SweepClosed { .. } => EventType::SweepClosed,
            EventBody::Split { .. } => EventType::Split,
            EventBody::Reassigned { .. } => EventType::Reassigned,
            EventBody::Forgotten { .. } => EventType::Forgotten,
        }
    }

    /// The document that the event is about.
    pub fn document(&self) -> Option<DocumentId> {
        match &self.body {
            EventBody::Assigned { document, .. }
            | EventBody::Changed { document, .. }
            | EventBody::Moved { document, .. }
            | EventBody::Lost { document, .. }
            | EventBody::Reassigned { document, .. } => Some(*document),
            EventBody::Forgotten { document, .. } => *document,
            _ => None,
        }
    }

    /// The cluster that the event is about; of a merge, the winner.
    pub fn cluster(&self) -> Option<ClusterId> {
        match &self.body {
            EventBody::Assigned { cluster, .. }
            | EventBody::Merged { cluster, .. }
            | EventBody::Split { cluster, .. }
            | EventBody::Reassigned { cluster, .. } => Some(*cluster),
            EventBody::Forgotten { cluster, .. } => *cluster,
            _ => None,
        }
    }

    /// Where the matched document was first seen.
    pub fn matched_url(&self) -> Option<&str> {
        match &self.body {
            EventBody::Assigned { matched_url, .. } => matched_url.as_deref(),
            _ => None,
        }
    }

    /// The estimated resemblance to the matched or previous document.
    pub fn resemblance(&self) -> Option<f64> {
        match &self.body {
            EventBody::Changed { resemblance, .. } | EventBody::Moved { resemblance, .. } => Some(*resemblance),
            EventBody::Assigned { resemblance, .. } => *resemblance,
            _ => None,
        }
    }

    /// Where a redirected page is now.
    pub fn redirect_to(&self) -> Option<&str> {
        match &self.body {
            EventBody::Redirected { redirect_to, .. } => Some(redirect_to),
            _ => None,
        }
    }

    /// The document that was there before; of a move, the last copy.
    pub fn previous_document(&self) -> Option<DocumentId> {
        match &self.body {
            EventBody::Changed { previous_document, .. } | EventBody::Moved { previous_document, .. } => {
                Some(*previous_document)
            }
            _ => None,
        }
    }

    /// The URL that a content moved from.
    pub fn from(&self) -> Option<&str> {
        match &self.body {
            EventBody::Moved { from, .. } => Some(from),
            _ => None,
        }
    }

    /// The URL that a content moved to.
    pub fn to(&self) -> Option<&str> {
        match &self.body {
            EventBody::Moved { to, .. } => Some(to),
            _ => None,
        }
    }

    /// How a move is known.
    pub fn evidence(&self) -> Option<MoveEvidence> {
        match &self.body {
            EventBody::Moved { evidence, .. } => Some(*evidence),
            _ => None,
        }
    }

    /// How many URLs a closed sweep did not see.
    pub fn n_lost(&self) -> Option<u64> {
        match &self.body {
            EventBody::SweepClosed { n_lost, .. } => Some(*n_lost),
            _ => None,
        }
    }

    /// The cluster whose name a merge ended.
    pub fn loser(&self) -> Option<ClusterId> {
        match &self.body {
            EventBody::Merged { loser, .. } => Some(*loser),
            _ => None,
        }
    }

    /// The cluster that a merge left.
    pub fn winner(&self) -> Option<ClusterId> {
        match &self.body {
            EventBody::Merged { winner, .. } => Some(*winner),
            _ => None,
        }
    }

    /// The offset where reading went on after a gap.
    pub fn gap_to(&self) -> Option<i64> {
        match &self.body {
            EventBody::Gap { gap_to, .. } => Some(*gap_to),
            _ => None,
        }
    }

    /// Why a record was rejected, or a gap came about, as a word.
    pub fn reason(&self) -> Option<Reason> {
        match &self.body {
            EventBody::Rejected { reason, .. } | EventBody::Gap { reason, .. } => Some(*reason),
            _ => None,
        }
    }

    /// Why a record was rejected, or a gap came about, for people.
    pub fn message(&self) -> Option<&str> {
        match &self.body {
            EventBody::Rejected { message, .. } | EventBody::Gap { message, .. } => Some(message),
            _ => None,
        }
    }
}

fn rounded(share: f64) -> f64 {
    (share * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Match;

    fn origin() -> Origin {
        Origin { source: "/crawl/a.jsonl".into(), partition: 0, offset: 7 }
    }

    const SUBJECT: Subject<'static> =
        Subject { url: Some("http://a/"), fetched_at: Some(FetchTime(0)), sweep: Some("s1") };

    fn check(event: Event, json: &str) {
        assert_eq!(String::from_utf8_lossy(&event.to_json()), json);
        assert_eq!(serde_json::from_str::<Event>(json).expect("an event"), event);
    }

    #[test]
    fn events_need_the_fields_of_their_type_and_no_unknown_ones() {
        let event = |fields: &str| {
            let json = format!(
                r#"{{"type":"lost","seq":1,"source":"s","partition":0,"offset":0,"url":null,"fetched_at":null,"sweep":null{fields}}}"#
            );
            serde_json::from_str::<Event>(&json).map_err(|error| error.to_string())
        };
        assert_eq!(event(r#","document":7"#).map(|event| event.document()), Ok(Some(DocumentId(7))));
        assert_eq!(event("").expect_err("no document"), "the event has no field `document`, which its type requires");
        assert!(event(r#","document":7,"colour":1"#).expect_err("unknown").contains("colour"));
    }

    /// Golden bytes: version 1 of the format.
    #[test]
    fn events_as_json() {
        let decision = Decision {
            document: DocumentId(3),
            cluster: ClusterId(1),
            relation: Relation::Near,
            matched: Some(Match { document: DocumentId(2), resemblance: 2.0 / 3.0 }),
            merges: vec![],
        };
        check(
            Event::assigned(5, &origin(), SUBJECT, &decision, Some("http://b/".into())),
            r#"{"type":"assigned","seq":5,"source":"/crawl/a.jsonl","partition":0,"offset":7,"url":"http://a/","fetched_at":"1970-01-01T00:00:00Z","sweep":"s1","document":3,"cluster":1,"relation":"near","matched_document":2,"matched_url":"http://b/","resemblance":0.6667}"#,
        );
        check(
            Event::merged(6, &origin(), SUBJECT, Merge { loser: ClusterId(2), winner: ClusterId(1) }),
            r#"{"type":"merged","seq":6,"source":"/crawl/a.jsonl","partition":0,"offset":7,"url":"http://a/","fetched_at":"1970-01-01T00:00:00Z","sweep":"s1","cluster":1,"loser":2,"winner":1}"#,
        );
        check(
            Event::rejected(7, &origin(), &Rejection::new(Reason::MissingField, "no url")),
            r#"{"type":"rejected","seq":7,"source":"/crawl/a.jsonl","partition":0,"offset":7,"url":null,"fetched_at":null,"sweep":null,"reason":"missing-field","message":"no url"}"#,
        );
        let gap = Rejection { gap_to: Some(9), ..Rejection::new(Reason::Overtaken, "2 deleted") };
        check(
            Event::rejected(9, &origin(), &gap),
            r#"{"type":"gap","seq":9,"source":"/crawl/a.jsonl","partition":0,"offset":7,"url":null,"fetched_at":null,"sweep":null,"gap_to":9,"reason":"overtaken","message":"2 deleted"}"#,
        );
        check(
            Event::redirected(9, &origin(), SUBJECT, "http://b/"),
            r#"{"type":"redirected","seq":9,"source":"/crawl/a.jsonl","partition":0,"offset":7,"url":"http://a/","fetched_at":"1970-01-01T00:00:00Z","sweep":"s1","redirect_to":"http://b/"}"#,
        );
        check(
            Event::changed(10, &origin(), SUBJECT, (DocumentId(3), DocumentId(4)), 0.25),
            r#"{"type":"changed","seq":10,"source":"/crawl/a.jsonl","partition":0,"offset":7,"url":"http://a/","fetched_at":"1970-01-01T00:00:00Z","sweep":"s1","document":4,"resemblance":0.25,"previous_document":3}"#,
        );
        let moved = Move {
            page: 0,
            from: "http://old/".into(),
            to: "http://a/".into(),
            from_document: DocumentId(3),
            to_document: DocumentId(4),
            resemblance: 0.75,
            evidence: MoveEvidence::Direct,
        };
        check(
            Event::moved(11, &origin(), SUBJECT, &moved),
            r#"{"type":"moved","seq":11,"source":"/crawl/a.jsonl","partition":0,"offset":7,"url":"http://a/","fetched_at":"1970-01-01T00:00:00Z","sweep":"s1","document":4,"resemblance":0.75,"previous_document":3,"from":"http://old/","to":"http://a/","evidence":"direct"}"#,
        );
        let closing = Origin { source: "sweep s1".into(), partition: 0, offset: 0 };
        check(
            Event::lost(12, &closing, SUBJECT, DocumentId(3)),
            r#"{"type":"lost","seq":12,"source":"sweep s1","partition":0,"offset":0,"url":"http://a/","fetched_at":"1970-01-01T00:00:00Z","sweep":"s1","document":3}"#,
        );
        check(
            Event::sweep_closed(13, &closing, Subject { url: None, ..SUBJECT }, 1),
            r#"{"type":"sweep-closed","seq":13,"source":"sweep s1","partition":0,"offset":0,"url":null,"fetched_at":"1970-01-01T00:00:00Z","sweep":"s1","n_lost":1}"#,
        );
        check(
            Event::split(10, &origin(), ClusterId(2)),
            r#"{"type":"split","seq":10,"source":"/crawl/a.jsonl","partition":0,"offset":7,"url":null,"fetched_at":null,"sweep":null,"cluster":2}"#,
        );
        check(
            Event::reassigned(11, &origin(), SUBJECT, DocumentId(3), ClusterId(2)),
            r#"{"type":"reassigned","seq":11,"source":"/crawl/a.jsonl","partition":0,"offset":7,"url":"http://a/","fetched_at":"1970-01-01T00:00:00Z","sweep":"s1","document":3,"cluster":2}"#,
        );
        check(
            Event::gone(8, &origin(), SUBJECT),
            r#"{"type":"gone","seq":8,"source":"/crawl/a.jsonl","partition":0,"offset":7,"url":"http://a/","fetched_at":"1970-01-01T00:00:00Z","sweep":"s1"}"#,
        );
    }
}
