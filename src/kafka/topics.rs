//! Creates the topics: automatic creation by a broker would choose unsuitable settings, so nothing relies on it.

use super::client::LastError;
use super::output_state::OutputTopicState;
use super::settings::{KafkaSettings, SettingsError, explain};
use crate::ports::OutputNotes;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;
use std::collections::HashMap;
use std::time::Duration;

/// Bytes of a message beside the largest body: key, headers, the other fields of a JSON page.
const ENVELOPE_BYTES: usize = 1 << 20;

/// Bytes of a dead letter beside the original message.
const DEAD_LETTER_BYTES: usize = 64 << 10;

/// Bytes of a message of sketches beside the original of a rejected one.
const SKETCH_BYTES: usize = 128 << 10;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// How long dead letters are kept, in days.
const DEAD_LETTERS_DAYS: u64 = 30;

/// The parameters of topic creation.
#[derive(Clone, Copy, Debug)]
pub struct TopicPlan {
    /// Partitions of the pages topic; `None`: one, or those of the existing topic.
    pub partitions: Option<i32>,
    /// Partitions of each other topic; `None`: one, or those of the existing topic.
    pub output_partitions: Option<i32>,
    /// Replicas of each partition; `None`: the brokers' default.
    pub replication: Option<i32>,
    /// How long pages are kept, in days; `None`: the brokers' default.
    pub pages_days: Option<u64>,
    /// How long events are kept, in days; `None`: for ever.
    pub events_days: Option<u64>,
    /// Bytes of the largest body.
    pub body_bytes_max: usize,
    /// Whether the topic of sketches is wanted, for `run --role`.
    pub with_sketches: bool,
}

/// The outcome for one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicOutcome {
    /// Its name.
    pub name: String,
    /// Whether this run created the topic.
    pub is_new: bool,
    /// What is wrong with the topic; empty if it fits.
    pub problems: Vec<String>,
}

/// The desired state of a topic.
struct Plan {
    name: String,
    partitions: Option<i32>,
    settings: Vec<(&'static str, String)>,
}

/// The replicas that must confirm a write. With three or more, one may be down while another fails.
fn min_insync(n_replicas: i32) -> &'static str {
    if n_replicas >= 3 { "2" } else { "1" }
}

/// The desired topics. `of_pages` is how many partitions the topic of pages has already.
fn plans(settings: &KafkaSettings, plan: &TopicPlan, of_pages: Option<i32>) -> Vec<Plan> {
    let largest = plan.body_bytes_max.saturating_add(ENVELOPE_BYTES);
    let planned = |name: &str, partitions, cleanup: &str, more: Vec<(&'static str, String)>| {
        let mut settings = vec![("cleanup.policy", cleanup.to_string())];
        settings.extend(more);
        Plan { name: name.to_string(), partitions, settings }
    };
    let retention = |days: Option<u64>| {
        let ms = |days: u64| i64::try_from(days.saturating_mul(DAY_MS)).unwrap_or(i64::MAX);
        let time = days.map_or("-1".to_string(), |days| ms(days).to_string());
        vec![("retention.ms", time), ("retention.bytes", "-1".to_string())]
    };
    let n = plan.output_partitions;
    // Kafka has 32 bits for it.
    let size = |n_bytes: usize| vec![("max.message.bytes", i32::try_from(n_bytes).unwrap_or(i32::MAX).to_string())];
    let pages_kept = plan.pages_days.map_or(Vec::new(), |days| retention(Some(days)));
    let mut plans =
        vec![planned(&settings.topic, plan.partitions, "delete", [size(largest), pages_kept.clone()].concat())];
    if !settings.events_topic.is_empty() {
        plans.push(planned(&settings.events_topic, n, "delete", retention(plan.events_days)));
    }
    for compacted in [&settings.assignments_topic, &settings.merges_topic] {
        if !compacted.is_empty() {
            plans.push(planned(compacted, n, "compact", vec![]));
        }
    }
    if settings.dead_letters {
        let more = [retention(Some(DEAD_LETTERS_DAYS)), size(largest.saturating_add(DEAD_LETTER_BYTES))].concat();
        plans.push(planned(&settings.dead_letter_topic(), n, "delete", more));
    }
    if plan.with_sketches {
        // A rejected message goes along as it came.
        let more = [size(largest.saturating_add(SKETCH_BYTES)), pages_kept].concat();
        plans.push(planned(&settings.sketches_topic, plan.partitions.or(of_pages), "delete", more));
    }
    plans
}

/// Creates the topics that the settings name and the brokers lack, and checks the existing ones. `known` is what a
/// store remembers of the topics.
///
/// # Errors
/// A text that says what the brokers refused and what to do.
pub async fn create_topics(
    settings: &KafkaSettings,
    plan: &TopicPlan,
    known: &OutputNotes,
) -> Result<Vec<TopicOutcome>, String> {
    settings.check().map_err(|error| error.to_string())?;
    let config = settings.client_config().map_err(|error: SettingsError| error.to_string())?;
    let client: AdminClient<DefaultClientContext> = config.create().map_err(|error| explain(&error))?;
    let within = settings.connect_max();
    let options = AdminOptions::new().request_timeout(Some(within)).operation_timeout(Some(within));
    let admin = Admin { client, options, within, brokers: &settings.brokers };
    let of_pages = if plan.with_sketches { admin.n_partitions(&settings.topic)? } else { None };
    let plans = plans(settings, plan, of_pages);
    let n_replicas = match plan.replication {
        None => admin.default_replication().await?,
        given => given,
    };
    let new: Vec<NewTopic<'_>> = plans.iter().map(|wanted| new_topic(wanted, plan.replication, n_replicas)).collect();
    let response = admin.client.create_topics(&new, &admin.options).await;
    let results = response.map_err(|error| admin.unreachable(&error))?;
    let mut outcomes = Vec::new();
    for (wanted, result) in plans.iter().zip(results) {
        let (name, is_new) = (wanted.name.clone(), result.is_ok());
        let problems = match result {
            Ok(_) if n_replicas.is_none() => vec![
                "the brokers do not report its replicas, so min.insync.replicas is their default: set --replication"
                    .to_string(),
            ],
            Ok(_) => Vec::new(),
            Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => admin.check_existing(wanted, known).await?,
            Err((name, code)) => {
                return Err(format!(
                    "cannot create topic {name:?}: {code}; check the brokers' log and the permissions of the user"
                ));
            }
        };
        outcomes.push(TopicOutcome { name, is_new, problems });
    }
    Ok(outcomes)
}

fn new_topic(wanted: &Plan, replication: Option<i32>, n_replicas: Option<i32>) -> NewTopic<'_> {
    // -1 selects the brokers' default.
    let replication = TopicReplication::Fixed(replication.unwrap_or(-1));
    let topic = NewTopic::new(&wanted.name, wanted.partitions.unwrap_or(1), replication);
    let topic = wanted.settings.iter().fold(topic, |topic, (name, value)| topic.set(name, value));
    n_replicas.map(min_insync).into_iter().fold(topic, |topic, n| topic.set("min.insync.replicas", n))
}

/// A client for questions about topics.
struct Admin<'a> {
    client: AdminClient<DefaultClientContext>,
    options: AdminOptions,
    within: Duration,
    brokers: &'a str,
}

impl Admin<'_> {
    /// The number of partitions of a topic; `None` if there is no such topic.
    fn n_partitions(&self, topic: &str) -> Result<Option<i32>, String> {
        let metadata = self.client.inner().fetch_metadata(Some(topic), self.within);
        let metadata = metadata.map_err(|error| self.unreachable(&error))?;
        let n = metadata.topics().first().map_or(0, |topic| topic.partitions().len());
        Ok(i32::try_from(n).ok().filter(|n| *n > 0))
    }

    /// The brokers' default number of replicas; `None` if they do not report it.
    async fn default_replication(&self) -> Result<Option<i32>, String> {
        let metadata = self.client.inner().fetch_metadata(None, self.within);
        let metadata = metadata.map_err(|error| self.unreachable(&error))?;
        let Some(broker) = metadata.brokers().first() else { return Ok(None) };
        let found = self.settings_of(ResourceSpecifier::Broker(broker.id())).await?;
        Ok(found.get("default.replication.factor").and_then(|n| n.parse().ok()))
    }

    /// Checks an existing topic against the plan.
    async fn check_existing(&self, wanted: &Plan, known: &OutputNotes) -> Result<Vec<String>, String> {
        let settings = self.settings_of(ResourceSpecifier::Topic(&wanted.name)).await?;
        let topic = OutputTopicState::fetch(self.client.inner(), &wanted.name, "topic", self.within)
            .map_err(|error| error.explain(&wanted.name, "topic", self.brokers, &LastError::default()))?;
        let metadata = self.client.inner().fetch_metadata(Some(&wanted.name), self.within);
        let metadata = metadata.map_err(|error| self.unreachable(&error))?;
        let partitions = metadata.topics().first().map_or(&[][..], |topic| topic.partitions());
        let n_replicas = partitions.iter().map(|partition| partition.replicas().len()).min();
        Ok(differences(wanted, &topic, topic.previous_n_partitions(known), &settings, n_replicas.unwrap_or(0)))
    }

    /// The settings of a topic or broker, as far as the brokers report them.
    async fn settings_of(&self, of: ResourceSpecifier<'_>) -> Result<HashMap<String, String>, String> {
        let response = self.client.describe_configs(&[of], &self.options).await;
        let found = response.map_err(|error| self.unreachable(&error))?.into_iter().next();
        let entries = found.and_then(Result::ok).map_or(Vec::new(), |found| found.entries);
        Ok(entries.into_iter().filter_map(|entry| Some((entry.name, entry.value?))).collect())
    }

    fn unreachable(&self, error: &KafkaError) -> String {
        let brokers = self.brokers;
        format!(
            "no answer from {brokers}: {error}; check kafka.brokers, the network, and TLS and SASL in kafka.properties"
        )
    }
}

/// Lists how an existing topic falls short of the plan. Larger sizes and longer retention are no differences. A
/// different number of partitions is a difference: it would move keys.
fn differences(
    wanted: &Plan,
    topic: &OutputTopicState,
    had: Option<u32>,
    found: &HashMap<String, String>,
    n_replicas: usize,
) -> Vec<String> {
    let (mut differences, n_partitions) = (Vec::new(), topic.n_partitions);
    if let Some(n) = wanted.partitions.filter(|n| *n as u32 != n_partitions) {
        differences.push(format!("it has {n_partitions} partitions and should have {n}"));
    }
    if let Some(had) = had {
        differences.push(format!(
            "it has {n_partitions} partitions, and had {had} when the store first published there: keys would move to \
             other partitions. Name a new topic, and fill it with `lookalike topics republish`"
        ));
    }
    let min_insync = ("min.insync.replicas", min_insync(n_replicas as i32).to_string());
    for (name, should_be) in wanted.settings.iter().chain([&min_insync]) {
        // Brokers leave out settings that the user may not read.
        let Some(is) = found.get(*name) else { continue };
        let enough = |value: &str| match value.parse::<i64>() {
            Ok(-1) => Some(i64::MAX),
            number => number.ok(),
        };
        let fits = match enough(is).zip(enough(should_be)) {
            Some((is, should_be)) => is >= should_be,
            None => is == should_be,
        };
        if !fits {
            differences.push(format!("its {name} is {is:?} and should be {should_be:?}"));
        }
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: TopicPlan = TopicPlan {
        partitions: Some(6),
        output_partitions: Some(3),
        replication: Some(3),
        pages_days: None,
        events_days: Some(2),
        body_bytes_max: 1000,
        with_sketches: false,
    };

    #[test]
    fn each_topic_is_made_for_its_use() {
        let plans = plans(&KafkaSettings::default(), &PLAN, None);
        let setting = |at: usize, name: &str| {
            plans[at].settings.iter().find(|(other, _)| *other == name).map(|(_, value)| value.as_str())
        };
        let names: Vec<(&str, Option<i32>)> = plans.iter().map(|plan| (plan.name.as_str(), plan.partitions)).collect();
        assert_eq!(
            names,
            [
                ("pages", Some(6)),
                ("lookalike.events.v1", Some(3)),
                ("lookalike.assignments.v1", Some(3)),
                ("lookalike.merges.v1", Some(3)),
                ("pages.dlq", Some(3))
            ]
        );
        assert_eq!((setting(1, "cleanup.policy"), setting(1, "retention.ms")), (Some("delete"), Some("172800000")));
        assert_eq!((setting(0, "retention.ms"), setting(1, "retention.bytes")), (None, Some("-1")));
        assert_eq!((setting(2, "cleanup.policy"), setting(2, "retention.ms")), (Some("compact"), None));
        assert_eq!(
            (setting(0, "max.message.bytes"), setting(4, "max.message.bytes")),
            (Some("1049576"), Some("1115112"))
        );
        assert_eq!([1, 2, 3, 5].map(min_insync), ["1", "1", "2", "2"]);
    }

    #[test]
    fn disabled_topics_are_not_created() {
        let plan = TopicPlan { events_days: None, pages_days: Some(7), ..PLAN };
        let off = KafkaSettings {
            assignments_topic: String::new(),
            merges_topic: String::new(),
            dead_letters: false,
            ..KafkaSettings::default()
        };
        let plans = plans(&off, &plan, None);
        assert_eq!(plans.iter().map(|plan| plan.name.as_str()).collect::<Vec<_>>(), ["pages", "lookalike.events.v1"]);
        assert!(plans[0].settings.contains(&("retention.ms", "604800000".to_string())));
        assert!(plans[1].settings.contains(&("retention.ms", "-1".to_string())));
    }

    /// Wrong once: what exceeds 64 bits wrapped, to topics that keep events for hours and take messages of 1 MB.
    #[test]
    fn large_settings_do_not_wrap() {
        for body_bytes_max in [1 << 31, usize::MAX] {
            let days = Some(213_503_982_335);
            let plan = TopicPlan { body_bytes_max, events_days: days, pages_days: days, with_sketches: true, ..PLAN };
            let plans = plans(&KafkaSettings::default(), &plan, None);
            let values = |name: &str| {
                let settings = plans.iter().flat_map(|plan| &plan.settings);
                settings.filter(|(other, _)| *other == name).map(|(_, value)| value.clone()).collect::<Vec<_>>()
            };
            // Of pages, dead letters and sketches.
            assert_eq!(values("max.message.bytes"), ["2147483647"; 3]);
            let longest = "9223372036854775807";
            // Of pages, events, dead letters and sketches.
            assert_eq!(values("retention.ms"), [longest, longest, "2592000000", longest]);
        }
    }

    #[test]
    fn sketches_have_the_partitions_of_pages() {
        for (partitions, of_pages, expected) in
            [(None, Some(8), Some(8)), (Some(6), Some(8), Some(6)), (None, None, None)]
        {
            let plan = TopicPlan { partitions, with_sketches: true, ..PLAN };
            let plans = plans(&KafkaSettings::default(), &plan, of_pages);
            let sketches = plans.last().expect("a topic");
            assert_eq!((sketches.name.as_str(), sketches.partitions), ("lookalike.sketches.v1", expected));
            // As large as a dead letter, and a sketch beside it.
            assert!(
                sketches.settings.contains(&("max.message.bytes", "1180648".to_string())),
                "{:?}",
                sketches.settings
            );
        }
    }

    #[test]
    fn shortfalls_of_an_existing_topic_are_listed() {
        let plans = plans(&KafkaSettings::default(), &PLAN, None);
        let (events, assignments) = (&plans[1], &plans[2]);
        let listed = |plan: &Plan, settings: &[(&str, &str)], n_partitions, had| {
            let found = settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
            let topic = OutputTopicState { name: plan.name.clone(), field: "topic", n_partitions, is_new: false };
            differences(plan, &topic, had, &found, 3).join("; ")
        };
        let right = [("cleanup.policy", "delete"), ("retention.ms", "-1"), ("min.insync.replicas", "3")];
        assert_eq!(listed(events, &right, 3, None), "", "larger is fine");
        assert_eq!(listed(events, &[], 3, None), "", "unreported settings are fine");
        let short = listed(events, &[("retention.ms", "1000"), ("min.insync.replicas", "1")], 3, None);
        assert!(
            short.contains("retention.ms is \"1000\"") && short.contains("min.insync.replicas is \"1\""),
            "{short}"
        );
        let kept = listed(assignments, &[("cleanup.policy", "delete")], 3, None);
        assert_eq!(kept, "its cleanup.policy is \"delete\" and should be \"compact\"");
        assert!(listed(assignments, &[], 4, Some(3)).contains("has 4 partitions and should have 3; it has 4"));
    }
}
