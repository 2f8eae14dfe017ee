//! Making the topics: nothing relies on a broker's making them by itself, with settings that fit nobody.

use super::settings::{KafkaSettings, SettingsError, explain};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;

/// What a message has beside a body at the limit: key, headers, the other fields of a JSON page.
const ENVELOPE_BYTES: usize = 1 << 20;

/// What dead letters have beside the original.
const DEAD_LETTER_BYTES: usize = 64 << 10;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// How long dead letters are kept.
const DEAD_LETTERS_DAYS: u64 = 30;

/// How topics are to be made.
#[derive(Clone, Copy, Debug)]
pub struct TopicPlan {
    /// Partitions of the topic of pages.
    pub partitions: i32,
    /// Partitions of each of the others.
    pub output_partitions: i32,
    /// Copies of each partition; none: as the brokers have it.
    pub replication: Option<i32>,
    /// How long events are kept; none: for ever.
    pub events_days: Option<u64>,
    /// Bytes of the largest body.
    pub body_bytes_max: usize,
}

/// A topic and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicMade {
    /// Its name.
    pub name: String,
    /// Whether it was not there before.
    pub is_new: bool,
    /// What of an old one should be otherwise, if anything.
    pub problem: Option<String>,
}

/// A topic as it should be.
struct Plan {
    name: String,
    partitions: i32,
    settings: Vec<(&'static str, String)>,
}

impl Plan {
    fn cleanup(&self) -> &str {
        self.settings.iter().find(|(name, _)| *name == "cleanup.policy").map_or("delete", |(_, value)| value)
    }
}

fn plans(settings: &KafkaSettings, plan: &TopicPlan) -> Vec<Plan> {
    let largest = plan.body_bytes_max + ENVELOPE_BYTES;
    let retention = |days: Option<u64>| days.map_or("-1".to_string(), |days| (days * DAY_MS).to_string());
    let of = |name: &str, partitions, cleanup: &str, more: Vec<(&'static str, String)>| {
        let mut settings = vec![("cleanup.policy", cleanup.to_string())];
        settings.extend(more);
        if plan.replication.is_some_and(|n| n >= 3) {
            // One copy may be away, and what was confirmed is still there when another one fails.
            settings.push(("min.insync.replicas", "2".to_string()));
        }
        Plan { name: name.to_string(), partitions, settings }
    };
    let n = plan.output_partitions;
    let size = |n_bytes: usize| ("max.message.bytes", n_bytes.to_string());
    let mut plans = vec![of(&settings.topic, plan.partitions, "delete", vec![size(largest)])];
    if !settings.events_topic.is_empty() {
        let kept = ("retention.ms", retention(plan.events_days));
        plans.push(of(&settings.events_topic, n, "delete", vec![kept]));
    }
    for compacted in [&settings.assignments_topic, &settings.merges_topic] {
        if !compacted.is_empty() {
            plans.push(of(compacted, n, "compact", vec![]));
        }
    }
    if settings.dead_letters {
        let kept = ("retention.ms", retention(Some(DEAD_LETTERS_DAYS)));
        plans.push(of(&settings.dead_letter_topic(), n, "delete", vec![kept, size(largest + DEAD_LETTER_BYTES)]));
    }
    plans
}

/// Makes the topics that the settings name and that are not there, and looks at those that are.
///
/// # Errors
/// A text that says what the brokers refused and what to do.
pub async fn create_topics(settings: &KafkaSettings, plan: &TopicPlan) -> Result<Vec<TopicMade>, String> {
    settings.check().map_err(|error| error.to_string())?;
    let config = settings.client_config().map_err(|error: SettingsError| error.to_string())?;
    let admin: AdminClient<DefaultClientContext> = config.create().map_err(|error| explain(&error))?;
    let options = AdminOptions::new()
        .request_timeout(Some(settings.connect_max()))
        .operation_timeout(Some(settings.connect_max()));
    let plans = plans(settings, plan);
    let new: Vec<NewTopic<'_>> = plans.iter().map(|wanted| new_topic(wanted, plan)).collect();
    let unreachable = |error: KafkaError| {
        let brokers = &settings.brokers;
        format!(
            "no answer from {brokers}: {error}; check kafka.brokers, the network, and TLS and SASL in kafka.properties"
        )
    };
    let results = admin.create_topics(&new, &options).await.map_err(unreachable)?;
    let mut made = Vec::new();
    for (wanted, result) in plans.iter().zip(results) {
        let (name, is_new) = (wanted.name.clone(), result.is_ok());
        let problem = match result {
            Ok(_) => None,
            Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {
                problem_of(&admin, wanted, &options).await.map_err(unreachable)?
            }
            Err((name, code)) => return Err(format!("the topic {name:?} was not made: {code}")),
        };
        made.push(TopicMade { name, is_new, problem });
    }
    Ok(made)
}

fn new_topic<'a>(wanted: &'a Plan, plan: &TopicPlan) -> NewTopic<'a> {
    // The brokers' own default has the number -1.
    let replication = TopicReplication::Fixed(plan.replication.unwrap_or(-1));
    let topic = NewTopic::new(&wanted.name, wanted.partitions, replication);
    wanted.settings.iter().fold(topic, |topic, (name, value)| topic.set(name, value))
}

/// What should be otherwise in a topic that was there: whether it is compacted decides whether state is lost or kept.
async fn problem_of(
    admin: &AdminClient<DefaultClientContext>,
    wanted: &Plan,
    options: &AdminOptions,
) -> Result<Option<String>, KafkaError> {
    let asked = [ResourceSpecifier::Topic(&wanted.name)];
    let Some(Ok(found)) = admin.describe_configs(&asked, options).await?.into_iter().next() else { return Ok(None) };
    let cleanup = found.get("cleanup.policy").and_then(|entry| entry.value.clone()).unwrap_or_default();
    let should_be = wanted.cleanup();
    Ok((cleanup != should_be).then(|| format!("its cleanup.policy is {cleanup:?} and should be {should_be:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_topic_is_made_for_its_use() {
        let plan = TopicPlan {
            partitions: 6,
            output_partitions: 3,
            replication: Some(3),
            events_days: Some(2),
            body_bytes_max: 1000,
        };
        let plans = plans(&KafkaSettings::default(), &plan);
        let setting = |at: usize, name: &str| {
            plans[at].settings.iter().find(|(other, _)| *other == name).map(|(_, value)| value.as_str())
        };
        let names: Vec<(&str, i32)> = plans.iter().map(|plan| (plan.name.as_str(), plan.partitions)).collect();
        assert_eq!(
            names,
            [
                ("pages", 6),
                ("lookalike.events.v1", 3),
                ("lookalike.assignments.v1", 3),
                ("lookalike.merges.v1", 3),
                ("pages.dlq", 3)
            ]
        );
        assert_eq!((setting(1, "cleanup.policy"), setting(1, "retention.ms")), (Some("delete"), Some("172800000")));
        assert_eq!((setting(2, "cleanup.policy"), setting(2, "retention.ms")), (Some("compact"), None));
        assert_eq!(
            (setting(0, "max.message.bytes"), setting(4, "max.message.bytes")),
            (Some("1049576"), Some("1115112"))
        );
        assert!((0..5).all(|at| setting(at, "min.insync.replicas") == Some("2")));
    }

    #[test]
    fn what_is_switched_off_is_not_made() {
        let plan =
            TopicPlan { partitions: 1, output_partitions: 1, replication: None, events_days: None, body_bytes_max: 1 };
        let off = KafkaSettings {
            assignments_topic: String::new(),
            merges_topic: String::new(),
            dead_letters: false,
            ..KafkaSettings::default()
        };
        let plans = plans(&off, &plan);
        assert_eq!(plans.iter().map(|plan| plan.name.as_str()).collect::<Vec<_>>(), ["pages", "lookalike.events.v1"]);
        assert!(plans.iter().all(|plan| plan.settings.iter().all(|(name, _)| *name != "min.insync.replicas")));
        assert!(plans[1].settings.contains(&("retention.ms", "-1".to_string())));
    }
}
