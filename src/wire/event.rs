//! Events: what happened to each record, one JSON object each.

use super::record::Reason;
use super::{Origin, Rejection};
use crate::cluster::{Decision, Merge, Relation};
use crate::document::{ClusterId, DocumentId, FetchTime};
use crate::history::MoveEvidence;
use serde::{Deserialize, Serialize};

/// The version of the event format; `docs/reference/events.md` says which changes it bears.
pub const WIRE_VERSION: u32 = 1;

/// What an event is given room for at first: nearly all need no more.
const EVENT_BYTES: usize = 512;

/// What an event tells. Every input record gets exactly one of the terminal ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventType {
    /// A page belongs to a document and a cluster. Terminal.
    Assigned,
    /// The record was not a page that can be sketched. Terminal.
    Rejected,
    /// Nothing stands at the URL any more. Terminal.
    Gone,
    /// The page stands at another URL now. Terminal.
    Redirected,
    /// Records that could not be read, from the event's offset up to another one. Terminal for all of them.
    Gap,
    /// Two clusters became one.
    Merged,
    /// Another document stands at the URL than before, by the time of fetching.
    Changed,
    /// The last copy of a URL that is gone or lost, or what belongs to its cluster, stands elsewhere. Once for each loss.
    Moved,
    /// A sweep was closed that should have seen the URL and did not.
    Lost,
    /// A sweep was closed; the `lost` events of its URLs came before.
    SweepClosed,
    /// Clusters were made anew under another rule, and this one has a name that others had taken: what was merged into
    /// them under its name is so no more.
    Split,
    /// Clusters were made anew under another rule, and this document belongs to another one, or to its own as before: once
    /// for each URL at which it stands.
    Reassigned,
}

impl EventType {
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
            | EventType::Reassigned => false,
        }
    }
}

/// One event. Fields that do not belong to its type are absent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// What it tells.
    #[serde(rename = "type")]
    pub kind: EventType,
    /// Its number in the store's sequence: dense, from 0.
    pub seq: u64,
    /// The record that caused it: file or topic; or `sweep NAME` that was closed.
    pub source: String,
    /// The record's partition.
    pub partition: i32,
    /// The record's offset.
    pub offset: i64,
    /// The page's URL, where the record had one.
    pub url: Option<String>,
    /// When the page was seen.
    pub fetched_at: Option<FetchTime>,
    /// The sweep it was seen on.
    pub sweep: Option<String>,
    /// `assigned`, `changed`: the page's document. `moved`: the one at the new place. `lost`: the last copy.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub document: Option<DocumentId>,
    /// `assigned`: the document's cluster. `merged`: the winner.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cluster: Option<ClusterId>,
    /// `assigned`: how the page came to its document and cluster.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub relation: Option<Relation>,
    /// `assigned`: the known document that it was matched with.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub matched_document: Option<DocumentId>,
    /// `assigned`: where that document was first seen.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub matched_url: Option<String>,
    /// `assigned`, `changed`, `moved`: the estimated resemblance to that document, or to the one before, rounded to four
    /// places.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub resemblance: Option<f64>,
    /// `redirected`: where the page stands now.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub redirect_to: Option<String>,
    /// `changed`: the document that stood there before. `moved`: the last copy.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub previous_document: Option<DocumentId>,
    /// `moved`: the URL that is gone or lost.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub from: Option<String>,
    /// `moved`: where its content stands now.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub to: Option<String>,
    /// `moved`: how that is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub evidence: Option<MoveEvidence>,
    /// `sweep-closed`: how many URLs it should have seen and did not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub n_lost: Option<u64>,
    /// `merged`: the cluster whose name is gone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub loser: Option<ClusterId>,
    /// `merged`: the cluster that its documents belong to now.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub winner: Option<ClusterId>,
    /// `gap`: the offset where reading went on.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gap_to: Option<i64>,
    /// `rejected`, `gap`: why, as a word that does not change.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<Reason>,
    /// `rejected`, `gap`: why, for a person.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
}

/// A content that turned up elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct Moved<'a> {
    /// The URL that is gone or lost.
    pub from: &'a str,
    /// Where its content stands now.
    pub to: &'a str,
    /// The last copy.
    pub from_document: DocumentId,
    /// What stands at the new place.
    pub to_document: DocumentId,
    /// Their estimated resemblance.
    pub resemblance: f64,
    /// How the move is known.
    pub evidence: MoveEvidence,
}

/// The page that an event is about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Its URL.
    pub url: Option<&'a str>,
    /// When it was seen.
    pub fetched_at: Option<FetchTime>,
    /// On which sweep.
    pub sweep: Option<&'a str>,
}

impl Event {
    fn bare(kind: EventType, seq: u64, origin: &Origin, subject: Subject<'_>) -> Self {
        Event {
            kind,
            seq,
            source: origin.source.to_string(),
            partition: origin.partition,
            offset: origin.offset,
            url: subject.url.map(String::from),
            fetched_at: subject.fetched_at,
            sweep: subject.sweep.map(String::from),
            document: None,
            cluster: None,
            relation: None,
            matched_document: None,
            matched_url: None,
            resemblance: None,
            redirect_to: None,
            previous_document: None,
            from: None,
            to: None,
            evidence: None,
            n_lost: None,
            loser: None,
            winner: None,
            gap_to: None,
            reason: None,
            message: None,
        }
    }

    /// The event of a page that got its place; `matched_url` is where the matched document was first seen.
    pub fn assigned(
        seq: u64,
        origin: &Origin,
        subject: Subject<'_>,
        decision: &Decision,
        matched_url: Option<String>,
    ) -> Self {
        Event {
            document: Some(decision.document),
            cluster: Some(decision.cluster),
            relation: Some(decision.relation),
            matched_document: decision.matched.map(|found| found.document),
            matched_url,
            resemblance: decision.matched.map(|found| rounded(found.resemblance)),
            ..Self::bare(EventType::Assigned, seq, origin, subject)
        }
    }

    /// The event of two clusters that a page brought together.
    pub fn merged(seq: u64, origin: &Origin, subject: Subject<'_>, merge: Merge) -> Self {
        Event {
            cluster: Some(merge.winner),
            loser: Some(merge.loser),
            winner: Some(merge.winner),
            ..Self::bare(EventType::Merged, seq, origin, subject)
        }
    }

    /// The event of a cluster that has its own name again.
    pub fn split(seq: u64, origin: &Origin, cluster: ClusterId) -> Self {
        let nobody = Subject { url: None, fetched_at: None, sweep: None };
        Event { cluster: Some(cluster), ..Self::bare(EventType::Split, seq, origin, nobody) }
    }

    /// The event of a document whose cluster is told anew; its subject is where it stands, if it does anywhere.
    pub fn reassigned(
        seq: u64,
        origin: &Origin,
        subject: Subject<'_>,
        document: DocumentId,
        cluster: ClusterId,
    ) -> Self {
        Event {
            document: Some(document),
            cluster: Some(cluster),
            ..Self::bare(EventType::Reassigned, seq, origin, subject)
        }
    }

    /// The event of a URL at which nothing stands any more.
    pub fn gone(seq: u64, origin: &Origin, subject: Subject<'_>) -> Self {
        Self::bare(EventType::Gone, seq, origin, subject)
    }

    /// The event of a URL that leads elsewhere now.
    pub fn redirected(seq: u64, origin: &Origin, subject: Subject<'_>, target: &str) -> Self {
        Event { redirect_to: Some(target.to_string()), ..Self::bare(EventType::Redirected, seq, origin, subject) }
    }

    /// The event of another document at a URL.
    pub fn changed(
        seq: u64,
        origin: &Origin,
        subject: Subject<'_>,
        (previous, document): (DocumentId, DocumentId),
        resemblance: f64,
    ) -> Self {
        Event {
            document: Some(document),
            previous_document: Some(previous),
            resemblance: Some(rounded(resemblance)),
            ..Self::bare(EventType::Changed, seq, origin, subject)
        }
    }

    /// The event of a content that turned up elsewhere; its subject is the page that told it.
    pub fn moved(seq: u64, origin: &Origin, subject: Subject<'_>, moved: Moved<'_>) -> Self {
        Event {
            document: Some(moved.to_document),
            previous_document: Some(moved.from_document),
            resemblance: Some(rounded(moved.resemblance)),
            from: Some(moved.from.to_string()),
            to: Some(moved.to.to_string()),
            evidence: Some(moved.evidence),
            ..Self::bare(EventType::Moved, seq, origin, subject)
        }
    }

    /// The event of a URL that a closed sweep did not see; its subject tells when the sweep began.
    pub fn lost(seq: u64, origin: &Origin, subject: Subject<'_>, last_copy: DocumentId) -> Self {
        Event { document: Some(last_copy), ..Self::bare(EventType::Lost, seq, origin, subject) }
    }

    /// The event of a closed sweep.
    pub fn sweep_closed(seq: u64, origin: &Origin, subject: Subject<'_>, n_lost: u64) -> Self {
        Event { n_lost: Some(n_lost), ..Self::bare(EventType::SweepClosed, seq, origin, subject) }
    }

    /// The event of a record that was no page, or of a gap.
    pub fn rejected(seq: u64, origin: &Origin, rejection: &Rejection) -> Self {
        let subject = Subject {
            url: rejection.url.as_deref(),
            fetched_at: rejection.fetched_at,
            sweep: rejection.sweep.as_deref(),
        };
        let kind = if rejection.gap_to.is_some() { EventType::Gap } else { EventType::Rejected };
        Event {
            gap_to: rejection.gap_to,
            reason: Some(rejection.reason),
            message: Some(rejection.message.clone()),
            ..Self::bare(kind, seq, origin, subject)
        }
    }

    /// One line of JSON, without the line feed.
    pub fn to_json(&self) -> Vec<u8> {
        let mut json = Vec::with_capacity(EVENT_BYTES);
        // Only maps with odd keys and failing writers make serde_json fail; there are none here.
        let written = serde_json::to_writer(&mut json, self);
        written.map_or_else(|_| Vec::new(), |()| json)
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

    /// Golden bytes: what version 1 looks like.
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
        let moved = Moved {
            from: "http://old/",
            to: "http://a/",
            from_document: DocumentId(3),
            to_document: DocumentId(4),
            resemblance: 0.75,
            evidence: MoveEvidence::Direct,
        };
        check(
            Event::moved(11, &origin(), SUBJECT, moved),
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
