//! The id of a topic, which distinguishes it from a topic recreated under the same name.
//!
//! librdkafka fetches by id. If the name comes to mean another topic, it silently goes on there, at the same offset.
//! Only its log mentions the change, and only the log names the id in use. The log line reaches the polling thread
//! before any record fetched from the new topic.

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use std::sync::{Mutex, PoisonError};

/// The debug context of librdkafka whose log lines name topic ids.
const DEBUG_CONTEXT: &str = "metadata";

/// The id that brokers before Kafka 2.8 report: they have none.
const NO_ID: &str = "AAAAAAAAAAAAAAAAAAAAAA";

/// Makes a client log topic ids; the lines go to [`TopicId::observe`] and nowhere else.
pub(super) fn log_topic_ids(config: &mut ClientConfig) {
    let debug = config.get("debug").map_or(DEBUG_CONTEXT.to_string(), |own| format!("{own},{DEBUG_CONTEXT}"));
    config.set("debug", debug).set_log_level(RDKafkaLogLevel::Debug);
}

/// The ids that the clients of one source have logged for its topic.
#[derive(Debug)]
pub(super) struct TopicId {
    /// The text before the ids in a log line.
    prefix: String,
    ids: Mutex<Ids>,
}

#[derive(Debug, Default)]
struct Ids {
    first: Option<String>,
    other: Option<String>,
}

impl TopicId {
    /// Creates a record without any id.
    pub(super) fn new(topic: &str) -> Self {
        TopicId { prefix: format!("Topic {topic} changed id from "), ids: Mutex::default() }
    }

    /// Records the id that a log line names, if any.
    pub(super) fn observe(&self, line: &str) {
        let Some((_, ids)) = line.split_once(&self.prefix) else { return };
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

    /// The first id and a different one, if the topic was recreated.
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
    fn ids_are_parsed_from_the_log() {
        let id = TopicId::new("pages");
        let change =
            |from: &str, to: &str| id.observe(&format!("[thrd:main]: Topic pages changed id from {from} to {to}"));
        change(NO_ID, "abc");
        id.observe("[thrd:main]: Topic pages.dlq changed id from x to y");
        id.observe("[thrd:main]: Topic pages [0] Leader 1 Epoch 0");
        change(NO_ID, "abc");
        change("abc", NO_ID);
        assert_eq!(id.change(), None);
        change("abc", "def");
        change("def", "abc");
        assert_eq!(id.change(), Some(("abc".into(), "def".into())));
    }

    #[test]
    fn configured_debug_contexts_are_kept() {
        let mut config = ClientConfig::new();
        config.set("debug", "security");
        log_topic_ids(&mut config);
        assert_eq!(config.get("debug"), Some("security,metadata"));
    }
}
