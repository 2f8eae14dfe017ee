//! The state of the output topics at a start: whether keys stay in their partitions, and what is missing.

use super::client::{TopicError, end_of, partitions_of};
use crate::ports::{OutputNote, OutputNotes};
use rdkafka::ClientContext;
use rdkafka::client::Client;
use std::time::Duration;

/// An output topic as the brokers report it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OutputTopicState {
    /// Its name.
    pub name: String,
    /// The setting that names it.
    pub field: &'static str,
    /// How many partitions it has.
    pub n_partitions: u32,
    /// Whether the topic has never held a message.
    pub is_new: bool,
}

impl OutputTopicState {
    /// Queries a topic; each request takes at most `within`.
    pub(super) fn fetch<C: ClientContext>(
        client: &Client<C>,
        name: &str,
        field: &'static str,
        within: Duration,
    ) -> Result<Self, TopicError> {
        let partitions = partitions_of(client, name, within)?;
        let mut is_new = true;
        for partition in &partitions {
            // Deleted records leave their offsets behind.
            is_new &= end_of(client, name, *partition, within)? == 0;
        }
        Ok(OutputTopicState { name: name.to_string(), field, n_partitions: partitions.len() as u32, is_new })
    }

    /// The argument of `topics republish` that rewrites this topic, if it holds present state.
    fn republish_target(&self) -> Option<&'static str> {
        match self.field {
            "assignments_topic" => Some("assignments"),
            "merges_topic" => Some("merges"),
            _ => None,
        }
    }

    /// The number of partitions that the store remembers, if it differs from the present number.
    pub(super) fn previous_n_partitions(&self, known: &OutputNotes) -> Option<u32> {
        let note = known.get(&self.name).filter(|_| !self.is_new)?;
        (note.n_partitions != self.n_partitions).then_some(note.n_partitions)
    }
}

/// How far publishing has come, and what the store can still supply.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StorePosition {
    /// The first event not yet published.
    pub next_unpublished: u64,
    /// One past the last event in the events topic; 0 if the topic is empty.
    pub end_of_events: u64,
    /// Events below this number are no longer in the store.
    pub kept_from: u64,
    /// Whether the store knows of any page.
    pub has_pages: bool,
    /// Whether a cluster may have lost its name.
    pub has_merged: bool,
}

/// Why publishing must not start: keys would go to other partitions than before.
pub(super) fn moved_keys(found: &[OutputTopicState], known: &OutputNotes) -> Option<String> {
    found.iter().find_map(|topic| {
        let OutputTopicState { name, field, n_partitions, .. } = topic;
        let (what, had) = topic.republish_target().zip(topic.previous_n_partitions(known))?;
        Some(format!(
            "topic {name:?} has {n_partitions} partitions, and had {had} when this store first published there: keys \
             would move to other partitions, and two partitions would hold a state of one key. Name a new topic in \
             kafka.{field}, create it with `lookalike topics create`, and fill it with `lookalike topics republish \
             {what}`"
        ))
    })
}

/// Why publishing must not go on yet: the events topic lacks events that other topics reflect. The store still has
/// them, and would drop them as published.
pub(super) fn lost_events(topic: &str, at: StorePosition) -> Option<String> {
    let StorePosition { next_unpublished, end_of_events, kept_from, .. } = at;
    let from = end_of_events.max(kept_from);
    (from < next_unpublished).then(|| {
        format!(
            "topic {topic:?} lacks events that other topics reflect, up to {}. The store still has the events from \
             {from} on, but drops them as it goes on: first republish them with `lookalike topics republish \
             events-from {from}`",
            next_unpublished - 1
        )
    })
}

/// What the store must remember of the topics.
pub(super) fn notes(found: &[OutputTopicState], known: &OutputNotes, at: StorePosition) -> OutputNotes {
    let note = |topic: &OutputTopicState| {
        let has_any = if topic.field == "merges_topic" { at.has_merged } else { at.has_pages };
        let is_whole = match known.get(&topic.name) {
            _ if topic.is_new => at.next_unpublished == 0 || !has_any,
            Some(note) => note.is_whole,
            None => true,
        };
        (topic.name.clone(), OutputNote { n_partitions: topic.n_partitions, is_whole })
    };
    found.iter().filter(|topic| topic.field != "dead_letters").map(note).collect()
}

/// What the operator should know of the topics; `notes` is what the store remembers from now on.
pub(super) fn warnings(
    found: &[OutputTopicState],
    known: &OutputNotes,
    notes: &OutputNotes,
    at: StorePosition,
) -> Vec<String> {
    let mut warnings = Vec::new();
    for topic in found {
        let OutputTopicState { name, n_partitions, .. } = topic;
        let is_whole = notes.get(name).is_none_or(|note| note.is_whole);
        if let Some(what) = topic.republish_target().filter(|_| !is_whole) {
            warnings.push(format!(
                "topic {name:?} lacks the state from before the store published there: its readers see only part of \
                 the present state. Stop the program and run `lookalike topics republish {what}`, which writes all of \
                 it"
            ));
        }
        if topic.field == "events_topic" && topic.is_new && at.next_unpublished > 0 {
            warnings.push(format!(
                "topic {name:?} is empty: the events before {} are neither there nor in the store any more",
                at.next_unpublished
            ));
        }
        if let Some(had) = topic.previous_n_partitions(known).filter(|_| topic.field == "events_topic") {
            warnings.push(format!(
                "topic {name:?} has {n_partitions} partitions, and had {had}: the events of one URL may lie in two \
                 partitions. Sort by lookalike-seq where their order matters"
            ));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(field: &'static str, n_partitions: u32, is_new: bool) -> OutputTopicState {
        OutputTopicState { name: field.to_string(), field, n_partitions, is_new }
    }

    fn known(field: &str, n_partitions: u32, is_whole: bool) -> OutputNotes {
        OutputNotes::from([(field.to_string(), OutputNote { n_partitions, is_whole })])
    }

    const NEW_STORE: StorePosition =
        StorePosition { next_unpublished: 0, end_of_events: 0, kept_from: 0, has_pages: false, has_merged: false };
    const OLD_STORE: StorePosition =
        StorePosition { next_unpublished: 100, end_of_events: 100, kept_from: 100, has_pages: true, has_merged: true };

    #[test]
    fn a_recreated_topic_lacks_earlier_state() {
        for field in ["assignments_topic", "merges_topic"] {
            let whole = |is_new, known: &OutputNotes, at| {
                let found = [topic(field, 2, is_new)];
                let notes = notes(&found, known, at);
                let n_warnings = warnings(&found, known, &notes, at).len();
                assert_eq!(notes[field].is_whole, n_warnings == 0);
                notes[field].is_whole
            };
            let none = OutputNotes::new();
            assert!(whole(true, &none, NEW_STORE), "a new store and new topics");
            assert!(whole(true, &none, StorePosition { has_pages: true, ..NEW_STORE }), "nothing is published yet");
            let nothing = StorePosition { has_pages: field == "merges_topic", has_merged: false, ..OLD_STORE };
            assert!(whole(true, &none, nothing), "there is no state");
            assert!(!whole(true, &none, OLD_STORE), "after a backfill, or under a new name");
            assert!(!whole(true, &known(field, 2, true), OLD_STORE), "deleted and recreated");
            assert!(!whole(false, &known(field, 2, false), OLD_STORE), "incomplete until republished");
            assert!(whole(false, &known(field, 2, true), OLD_STORE));
            assert!(whole(false, &none, OLD_STORE), "a store from before notes");
        }
    }

    #[test]
    fn keys_must_stay_in_their_partitions() {
        let other = |field, is_new| moved_keys(&[topic(field, 3, is_new)], &known(field, 2, true));
        assert!(other("assignments_topic", false).is_some_and(|why| why.contains("republish assignments")));
        assert!(other("merges_topic", false).is_some_and(|why| why.contains("3 partitions, and had 2")));
        assert_eq!(other("merges_topic", true), None, "it holds nothing in a wrong partition");
        assert_eq!(other("events_topic", false), None);
        let (found, known) = ([topic("events_topic", 3, false)], known("events_topic", 2, true));
        let notes = notes(&found, &known, OLD_STORE);
        assert_eq!(notes["events_topic"].n_partitions, 3, "the warning is given once");
        assert_eq!(warnings(&found, &known, &notes, OLD_STORE).len(), 1);
    }

    #[test]
    fn events_still_in_the_store_must_be_republished_first() {
        let why =
            |end_of_events, kept_from| lost_events("events", StorePosition { end_of_events, kept_from, ..OLD_STORE });
        assert_eq!((why(100, 90), why(0, 100), lost_events("events", NEW_STORE)), (None, None, None));
        assert!(why(0, 90).is_some_and(|why| why.contains("up to 99") && why.contains("events-from 90`")));
        assert!(why(93, 90).is_some_and(|why| why.contains("events-from 93`")), "killed while republishing");
        let found = [topic("events_topic", 1, true)];
        let n_warnings = |at| warnings(&found, &OutputNotes::new(), &OutputNotes::new(), at).len();
        assert_eq!((n_warnings(OLD_STORE), n_warnings(NEW_STORE)), (1, 0));
    }
}
