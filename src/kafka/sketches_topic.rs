//! The topic between sketchers and the owner: its partitions are those of the topic of pages, one for one.

use super::client::{LastError, TopicError, partitions_of};
use super::settings::KafkaSettings;
use crate::ports::StopReason;
use rdkafka::ClientContext;
use rdkafka::client::Client;

/// Why the two topics cannot be used together.
#[derive(Debug)]
pub(super) enum SketchesTopicError {
    /// The setting, and why its topic cannot be used.
    Topic(&'static str, TopicError),
    /// The topics do not have the same partitions; what to do about it.
    Partitions(String),
}

impl SketchesTopicError {
    /// Why the program stops on this error.
    pub(super) fn stop_reason(&self, last_error: &LastError) -> StopReason {
        match self {
            SketchesTopicError::Topic(_, error) => error.stop_reason(last_error),
            SketchesTopicError::Partitions(_) => StopReason::Failed,
        }
    }

    /// A message with advice.
    pub(super) fn explain(&self, settings: &KafkaSettings, last_error: &LastError) -> String {
        match self {
            SketchesTopicError::Partitions(why) => why.clone(),
            SketchesTopicError::Topic(field, error) => {
                let topic = if *field == "topic" { &settings.topic } else { &settings.sketches_topic };
                let advice = match error {
                    TopicError::Missing if *field == "sketches_topic" => {
                        "; `lookalike topics create --sketches` makes it"
                    }
                    _ => "",
                };
                error.explain(topic, field, &settings.brokers, last_error) + advice
            }
        }
    }
}

/// The partitions that both topics have.
///
/// # Errors
/// [`SketchesTopicError`] where a topic is missing or one has more partitions.
pub(super) fn common_partitions<C: ClientContext>(
    client: &Client<C>,
    settings: &KafkaSettings,
) -> Result<Vec<i32>, SketchesTopicError> {
    let of = |field, topic: &str| {
        partitions_of(client, topic, settings.connect_max()).map_err(|error| SketchesTopicError::Topic(field, error))
    };
    let (pages, sketches) = (of("topic", &settings.topic)?, of("sketches_topic", &settings.sketches_topic)?);
    if pages.len() != sketches.len() {
        return Err(SketchesTopicError::Partitions(unequal(settings, pages.len(), sketches.len())));
    }
    Ok(pages)
}

/// What to do about topics of different numbers of partitions.
pub(super) fn unequal(settings: &KafkaSettings, n_pages: usize, n_sketches: usize) -> String {
    let KafkaSettings { topic, sketches_topic, .. } = settings;
    format!(
        "topic {topic:?} has {n_pages} partitions and topic {sketches_topic:?} has {n_sketches}: each partition of sketches \
         holds those of the same partition of pages. Give both the same number, then start sketchers and owner again"
    )
}
