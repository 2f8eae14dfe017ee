//! The id of a topic, which tells it from one that was made anew under the same name.
//!
//! librdkafka fetches by the id, and where the name leads to another topic goes on with that one at the same offset. It
//! says so in its log alone, and nowhere else can the id that it goes by be seen. A line of the log reaches whoever polls
//! before any record that was fetched after it.

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use std::sync::{Mutex, PoisonError};

/// The part of librdkafka's log that names ids.
const DEBUG_CONTEXT: &str = "metadata";

/// The id of a topic of brokers that give none (before Kafka 2.8).
const NO_ID: &str = "AAAAAAAAAAAAAAAAAAAAAA";

/// Has a client name ids in its log, which nobody else needs to see.
pub(super) fn tell_ids(config: &mut ClientConfig) {
    let debug = config.get("debug").map_or(DEBUG_CONTEXT.to_string(), |own| format!("{own},{DEBUG_CONTEXT}"));
    config.set("debug", debug).set_log_level(RDKafkaLogLevel::Debug);
}

/// What the clients of one source were told of the topic's id.
#[derive(Debug)]
pub(super) struct TopicId {
    /// How a line begins that names it.
    told_by: String,
    ids: Mutex<Ids>,
}

#[derive(Debug, Default)]
struct Ids {
    first: Option<String>,
    other: Option<String>,
}

impl TopicId {
    /// None heard of yet.
    pub(super) fn of(topic: &str) -> Self {
        TopicId { told_by: format!("Topic {topic} changed id from "), ids: Mutex::default() }
    }

    /// Takes a line of the log in.
    pub(super) fn hear(&self, line: &str) {
        let Some((_, ids)) = line.split_once(&self.told_by) else { return };
        let Some(id) = ids.split_once(" to ").map(|(_, id)| id.trim()).filter(|id| !id.starts_with(NO_ID)) else {
            return;
        };
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        match &ids.first {
            None => ids.first = Some(id.to_string()),
            Some(first) if first != id => ids.other = Some(id.to_string()),
            Some(_) => {}
        }
    }

    /// The first id and another one, where the topic was made anew.
    pub(super) fn change(&self) -> Option<(String, String)> {
        let ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        let other = ids.other.as_ref()?;
        Some((ids.first.clone()?, other.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_heard_in_librdkafkas_words() {
        let id = TopicId::of("pages");
        let change =
            |from: &str, to: &str| id.hear(&format!("[thrd:main]: Topic pages changed id from {from} to {to}"));
        change(NO_ID, "abc");
        id.hear("[thrd:main]: Topic pages.dlq changed id from x to y");
        id.hear("[thrd:main]: Topic pages [0] Leader 1 Epoch 0");
        change(NO_ID, "abc");
        change("abc", NO_ID);
        assert_eq!(id.change(), None);
        change("abc", "def");
        change("def", "abc");
        assert_eq!(id.change(), Some(("abc".into(), "def".into())));
    }

    #[test]
    fn what_is_asked_of_the_log_anyway_stays() {
        let mut config = ClientConfig::new();
        config.set("debug", "security");
        tell_ids(&mut config);
        assert_eq!(config.get("debug"), Some("security,metadata"));
    }
}
