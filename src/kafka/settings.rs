//! The settings of Kafka, and the librdkafka properties that are fixed because a promise depends on them.

use super::statistics::STATISTICS_MS;
use crate::ports::{HIDDEN, SecretReference};
use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaConfRes;
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The encoding of pages in the topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordFormat {
    /// Key: the URL. Value: the body's bytes. Headers: `content-type`, `content-encoding`, `fetch-time`, `http-status`,
    /// `location`, `sweep`.
    Raw,
    /// Value: a JSON page ([`crate::wire::parse_json_page`]), or other JSON that a field map describes.
    #[default]
    Json,
    /// Value: one WARC record, plain, gzip or zstd.
    Warc,
}

/// Where to start a topic that the store does not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// At the oldest record that the broker holds.
    #[default]
    Earliest,
    /// Behind the newest record: reads only what arrives from now on.
    Latest,
}

/// The brokers, the topics, and the limits. `Debug` and `Serialize` hide secrets in `properties`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KafkaSettings {
    /// The brokers to contact first: `host:port`, separated by commas.
    pub brokers: String,
    /// The topic of pages.
    pub topic: String,
    /// The topic of events; empty: Kafka receives no events.
    pub events_topic: String,
    /// The compacted topic of assignments, URL → cluster; empty: none is written.
    pub assignments_topic: String,
    /// The compacted topic of merges, cluster → cluster; empty: none is written.
    pub merges_topic: String,
    /// The topic of sketched pages, from `run --role sketcher` to `run --role owner`.
    pub sketches_topic: String,
    /// Whether rejected messages go to a dead letter topic, named like the pages topic with the suffix `.dlq`.
    pub dead_letters: bool,
    /// The consumer group whose offsets show lag tools the progress. The store, not the group, decides where reading
    /// starts. Sketchers are its members and start where it stands.
    pub group: String,
    /// The name of a sketcher within the group; empty: none. A sketcher that returns under its name keeps its partitions.
    pub member: String,
    /// The encoding of pages in the topic.
    pub format: RecordFormat,
    /// Where to start a topic that the store does not know.
    pub start: Start,
    /// The most bytes of one response, and so of one compressed batch. At least 1 MiB, and at least the brokers'
    /// `message.max.bytes`. A zstd batch that decompresses to more is skipped; a `gap` event gives its exact offsets.
    pub fetch_bytes_max: usize,
    /// The most bytes of records to read ahead. At the limit, fetching pauses.
    pub queue_bytes_max: usize,
    /// How long a broker may take to answer at the start. After that, the program stops.
    pub connect_ms_max: u64,
    /// How long brokers may be unavailable while events wait for acknowledgement or pages cannot be fetched. After
    /// that, the program stops.
    pub delivery_ms_max: u64,
    /// How long the owner of a store may be silent before a standby takes over; 0: the owner has no heartbeat, and a
    /// standby takes over only when it is asked to.
    pub takeover_after_ms: u64,
    /// More librdkafka properties: TLS, SASL, timeouts. Properties that a promise depends on are rejected. A value of
    /// `file:PATH` or `env:NAME` is read from that file or variable.
    #[serde(serialize_with = "serialize_properties")]
    pub properties: BTreeMap<String, String>,
}

impl Default for KafkaSettings {
    fn default() -> Self {
        KafkaSettings {
            brokers: "127.0.0.1:9092".into(),
            topic: "pages".into(),
            events_topic: "lookalike.events.v1".into(),
            assignments_topic: "lookalike.assignments.v1".into(),
            merges_topic: "lookalike.merges.v1".into(),
            sketches_topic: "lookalike.sketches.v1".into(),
            dead_letters: true,
            group: "lookalike".into(),
            member: String::new(),
            format: RecordFormat::default(),
            start: Start::default(),
            fetch_bytes_max: 64 << 20,
            queue_bytes_max: 64 << 20,
            connect_ms_max: 10_000,
            delivery_ms_max: 120_000,
            takeover_after_ms: 0,
            properties: BTreeMap::new(),
        }
    }
}

impl fmt::Debug for KafkaSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaSettings")
            .field("brokers", &self.brokers)
            .field("topic", &self.topic)
            .field("events_topic", &self.events_topic)
            .field("assignments_topic", &self.assignments_topic)
            .field("merges_topic", &self.merges_topic)
            .field("sketches_topic", &self.sketches_topic)
            .field("dead_letters", &self.dead_letters)
            .field("group", &self.group)
            .field("member", &self.member)
            .field("format", &self.format)
            .field("start", &self.start)
            .field("fetch_bytes_max", &self.fetch_bytes_max)
            .field("queue_bytes_max", &self.queue_bytes_max)
            .field("connect_ms_max", &self.connect_ms_max)
            .field("delivery_ms_max", &self.delivery_ms_max)
            .field("takeover_after_ms", &self.takeover_after_ms)
            .field("properties", &redacted(&self.properties))
            .finish()
    }
}

/// Settings that conflict, or that would break a promise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A required field is empty.
    #[error("kafka.{0} is empty; set it")]
    Empty(&'static str),
    /// A limit is too small to work.
    #[error("kafka.{field} = {value} is too small; set it to {min} or more")]
    TooSmall {
        /// The field.
        field: &'static str,
        /// The given value.
        value: u64,
        /// The smallest allowed value.
        min: u64,
    },
    /// A limit is too large for librdkafka.
    #[error("kafka.{field} = {value} is too large; set it to {max} or less")]
    TooLarge {
        /// The field.
        field: &'static str,
        /// The given value.
        value: u64,
        /// The largest allowed value.
        max: u64,
    },
    /// Two fields name one topic: events would return as pages, or state would pass for events.
    #[error("kafka.{0} and kafka.{1} name the same topic, {2:?}: name two topics")]
    SameTopic(&'static str, &'static str, String),
    /// A secret cannot be read from its file or variable.
    #[error("kafka.properties: {name} cannot be read from {from}: {why}; correct the path or set the variable")]
    Secret {
        /// The property.
        name: String,
        /// The file or variable.
        from: String,
        /// Why reading failed.
        why: String,
    },
    /// A property is fixed because a promise depends on it.
    #[error(
        "kafka.properties: {name} is not negotiable (it is {value}, or lookalike could lose or repeat pages); \
             remove it"
    )]
    NotNegotiable {
        /// The property.
        name: String,
        /// Its fixed value.
        value: &'static str,
    },
    /// A property has a field of its own.
    #[error("kafka.properties: {name} is set by kafka.{field}; remove it and set that field")]
    HasField {
        /// The property.
        name: String,
        /// The field.
        field: &'static str,
    },
    /// A property has the placeholder that printed settings show instead of a secret.
    #[error(
        "kafka.properties: {0} is \"{HIDDEN}\", which stands for a secret in printed settings; put the secret there"
    )]
    Hidden(String),
    /// librdkafka rejects a property.
    #[error("kafka.properties: {0}; see librdkafka's CONFIGURATION.md")]
    Refused(String),
}

/// librdkafka 2 requires that `fetch.max.bytes` holds a message of `message.max.bytes`, 1,000,000 by default.
const FETCH_BYTES_MIN: usize = 1 << 20;

/// librdkafka has 31 bits for times in milliseconds.
const TIME_MS_MAX: u64 = i32::MAX as u64;

/// A shorter silence would often be that of a broker.
const TAKEOVER_MS_MIN: u64 = 1_000;

/// How often librdkafka refreshes the topic's partitions.
const METADATA_REFRESH_MS: &str = "10000";

/// Fixed properties of every consumer. They keep progress in the store alone, turn a lost position into an error
/// instead of a guess, and admit only intact, committed records of a topic that was created on purpose.
const CONSUMER_ALWAYS: [(&str, &str); 9] = [
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    ("auto.offset.reset", "error"),
    ("check.crcs", "true"),
    ("isolation.level", "read_committed"),
    ("allow.auto.create.topics", "false"),
    ("enable.partition.eof", "false"),
    ("statistics.interval.ms", STATISTICS_MS),
    ("topic.metadata.refresh.interval.ms", METADATA_REFRESH_MS),
];

/// How long a transaction may stay open, in milliseconds. A dead process blocks readers of committed transactions for
/// as long, unless it restarts.
const TRANSACTION_MS: &str = "60000";

/// How long librdkafka retries a message, in milliseconds.
///
/// Shorter than a transaction may last, so that the sink gives up before the brokers do: their abort would look like
/// a takeover. Short, because after one refusal (OUT_OF_ORDER_SEQUENCE_NUMBER) has spoilt the transaction, librdkafka
/// may hold other messages for the whole time. The sink sends again what was given up.
const MESSAGE_MS_MAX: u64 = 10_000;

/// Fixed properties of every producer: events keep their order, and a batch arrives whole or not at all.
const PRODUCER_ALWAYS: [(&str, &str); 5] = [
    ("enable.idempotence", "true"),
    ("acks", "all"),
    ("allow.auto.create.topics", "false"),
    ("transaction.timeout.ms", TRANSACTION_MS),
    ("statistics.interval.ms", STATISTICS_MS),
];

/// How long a message waits for others that go along, in milliseconds; librdkafka's default is 5.
const LINGER_MS: &str = "1";

/// How many bytes of new records a broker gathers before it answers a request for them. With librdkafka's default of 1, each
/// message of a crawler is an answer of its own.
const FETCH_BYTES: &str = "262144";

/// How long a broker gathers them at most, in milliseconds; librdkafka's default is 500.
const FETCH_MS: &str = "10";

/// How sketchers divide the partitions. All of them let go before any gets another one: moving single partitions has lost
/// assignments in librdkafka.
const ASSIGNOR: &str = "range";

/// Aliases of the fixed properties, and properties that would undo them.
const ALSO_FIXED: [(&str, &str); 7] = [
    ("delivery.report.only.error", "false"),
    ("auto.commit.enable", "false"),
    ("request.required.acks", "all"),
    ("transactional.id", "derived from the store's id"),
    ("partition.assignment.strategy", ASSIGNOR),
    ("group.protocol", "classic"),
    ("plugin.library.paths", "not set"),
];

/// Properties that fields set.
const FROM_FIELDS: [(&str, &str); 11] = [
    ("bootstrap.servers", "brokers"),
    ("metadata.broker.list", "brokers"),
    ("group.id", "group"),
    ("group.instance.id", "member"),
    ("fetch.max.bytes", "fetch_bytes_max"),
    ("receive.message.max.bytes", "fetch_bytes_max"),
    ("message.max.bytes", "fetch_bytes_max"),
    ("queued.max.messages.kbytes", "queue_bytes_max"),
    ("socket.connection.setup.timeout.ms", "connect_ms_max"),
    ("message.timeout.ms", "delivery_ms_max"),
    ("delivery.timeout.ms", "delivery_ms_max"),
];

impl KafkaSettings {
    /// Checks the settings; needs no broker.
    ///
    /// # Errors
    /// The first [`SettingsError`] found.
    pub fn check(&self) -> Result<(), SettingsError> {
        for (field, text) in [("brokers", &self.brokers), ("topic", &self.topic), ("group", &self.group)] {
            if text.trim().is_empty() {
                return Err(SettingsError::Empty(field));
            }
        }
        self.check_topics()?;
        // 0 has a meaning of its own.
        let takeover_after_ms = if self.takeover_after_ms == 0 { u64::MAX } else { self.takeover_after_ms };
        for (field, value, min) in [
            ("takeover_after_ms", takeover_after_ms, TAKEOVER_MS_MIN),
            ("fetch_bytes_max", self.fetch_bytes_max as u64, FETCH_BYTES_MIN as u64),
            ("queue_bytes_max", self.queue_bytes_max as u64, 1 << 10),
            ("connect_ms_max", self.connect_ms_max, 1_000),
            ("delivery_ms_max", self.delivery_ms_max, 1_000),
        ] {
            if value < min {
                return Err(SettingsError::TooSmall { field, value, min });
            }
        }
        for (field, value) in [("connect_ms_max", self.connect_ms_max), ("delivery_ms_max", self.delivery_ms_max)] {
            if value > TIME_MS_MAX {
                return Err(SettingsError::TooLarge { field, value, max: TIME_MS_MAX });
            }
        }
        self.properties.iter().try_for_each(|(name, value)| check_property(name, value))?;
        let producer = self.producer_config("")?;
        if producer.get("partitioner") == Some("random") {
            // Compacted topics need each key in one partition, and consumers the events of each URL.
            return Err(SettingsError::NotNegotiable { name: "partitioner".into(), value: "any but random" });
        }
        for config in [self.reader_config()?, producer] {
            config.create_native_config().map_err(|error| SettingsError::Refused(explain(&error)))?;
        }
        Ok(())
    }

    fn check_topics(&self) -> Result<(), SettingsError> {
        let dead_letters = if self.dead_letters { self.dead_letter_topic() } else { String::new() };
        let named = [
            ("topic", &self.topic),
            ("events_topic", &self.events_topic),
            ("assignments_topic", &self.assignments_topic),
            ("merges_topic", &self.merges_topic),
            ("sketches_topic", &self.sketches_topic),
            ("dead_letters", &dead_letters),
        ];
        for (at, (field, topic)) in named.iter().enumerate() {
            let same = named[..at].iter().find(|(_, other)| !topic.is_empty() && other == topic);
            if let Some((other, _)) = same {
                return Err(SettingsError::SameTopic(other, field, (*topic).clone()));
            }
        }
        Ok(())
    }

    /// The topic of rejected messages.
    pub fn dead_letter_topic(&self) -> String {
        format!("{}.dlq", self.topic)
    }

    /// [`Self::connect_ms_max`] as a duration.
    pub(super) fn connect_max(&self) -> Duration {
        Duration::from_millis(self.connect_ms_max)
    }

    /// [`Self::delivery_ms_max`] as a duration.
    pub(super) fn delivery_max(&self) -> Duration {
        Duration::from_millis(self.delivery_ms_max)
    }

    /// How long librdkafka retries one message.
    pub(super) fn message_timeout(&self) -> Duration {
        Duration::from_millis(self.delivery_ms_max.min(MESSAGE_MS_MAX))
    }

    /// The configuration of a consumer of pages that assigns itself partitions.
    pub(super) fn reader_config(&self) -> Result<ClientConfig, SettingsError> {
        let mut config = self.consumer_config()?;
        if !self.has_any(["fetch.min.bytes", "fetch.wait.max.ms"]) {
            config.set("fetch.min.bytes", FETCH_BYTES).set("fetch.wait.max.ms", FETCH_MS);
        }
        Ok(config)
    }

    /// What all consumers have in common.
    pub(super) fn consumer_config(&self) -> Result<ClientConfig, SettingsError> {
        let mut config = self.client_config()?;
        config
            .set("group.id", &self.group)
            .set("fetch.max.bytes", self.fetch_bytes_max.to_string())
            .set("receive.message.max.bytes", (self.fetch_bytes_max + ENVELOPE_BYTES).to_string())
            .set("queued.max.messages.kbytes", (self.queue_bytes_max >> 10).to_string())
            // librdkafka pauses a partition when the queue is full: by default for a second, long after the queue has
            // emptied.
            .set("fetch.queue.backoff.ms", "10");
        set_all(&mut config, &CONSUMER_ALWAYS);
        Ok(config)
    }

    /// The configuration of a member of the group, which gets partitions from it.
    pub(super) fn member_config(&self) -> Result<ClientConfig, SettingsError> {
        let mut config = self.reader_config()?;
        config.set("partition.assignment.strategy", ASSIGNOR);
        if !self.member.is_empty() {
            config.set("group.instance.id", &self.member);
        }
        Ok(config)
    }

    /// The configuration of a cautious consumer: it fetches one batch after the other, since each may crash the
    /// program.
    pub(super) fn cautious_config(&self) -> Result<ClientConfig, SettingsError> {
        let mut config = self.consumer_config()?;
        config.set("fetch.message.max.bytes", "1024").set("queued.min.messages", "1");
        // The queue is full until the previous batch is consumed.
        config.set("fetch.queue.backoff.ms", "1");
        Ok(config)
    }

    /// The configuration of a consumer that reads the end of a topic.
    pub(super) fn tail_config(&self) -> Result<ClientConfig, SettingsError> {
        let mut config = self.consumer_config()?;
        // An empty response marks the end of a partition; a broker delays it by this time.
        config.set("enable.partition.eof", "true").set("fetch.wait.max.ms", "1").set("statistics.interval.ms", "0");
        Ok(config)
    }

    /// Whether the operator has set one of these properties.
    fn has_any(&self, names: [&str; 2]) -> bool {
        names.iter().any(|name| self.properties.contains_key(*name))
    }

    /// The configuration of the producer that publishes the events of a store.
    pub(super) fn producer_config(&self, store: &str) -> Result<ClientConfig, SettingsError> {
        let mut config = self.client_config()?;
        if !self.properties.contains_key("partitioner") {
            // The default of Java clients: those that use it find each key where they expect it.
            config.set("partitioner", "murmur2_random");
        }
        if !self.has_any(["compression.type", "compression.codec"]) {
            config.set("compression.type", "lz4");
        }
        if !self.has_any(["linger.ms", "queue.buffering.max.ms"]) {
            // Messages come in bursts, and each transaction waits for its last one.
            config.set("linger.ms", LINGER_MS);
        }
        config
            .set("message.timeout.ms", self.message_timeout().as_millis().to_string())
            .set("message.max.bytes", self.fetch_bytes_max.to_string())
            .set("transactional.id", format!("lookalike-{store}"));
        set_all(&mut config, &PRODUCER_ALWAYS);
        Ok(config)
    }

    /// The configuration of a producer without transactions, whose messages still arrive once and in order.
    pub(super) fn idempotent_config(&self) -> Result<ClientConfig, SettingsError> {
        let mut config = self.producer_config("")?;
        config.remove("transactional.id").remove("transaction.timeout.ms");
        config.set("message.timeout.ms", self.delivery_ms_max.to_string()).set("statistics.interval.ms", "0");
        Ok(config)
    }

    /// The configuration that all clients share.
    pub(super) fn client_config(&self) -> Result<ClientConfig, SettingsError> {
        let mut config = ClientConfig::new();
        for (name, value) in &self.properties {
            config.set(name, resolve(name, value)?);
        }
        config
            .set("bootstrap.servers", &self.brokers)
            .set("socket.connection.setup.timeout.ms", self.connect_ms_max.to_string())
            .set_log_level(RDKafkaLogLevel::Info);
        Ok(config)
    }
}

/// The value of a property, read from a file or the environment if it says so.
fn resolve(name: &str, value: &str) -> Result<String, SettingsError> {
    let Some(reference) = SecretReference::parse(value) else { return Ok(value.to_string()) };
    reference.read().map_err(|why| SettingsError::Secret { name: name.into(), from: value.into(), why })
}

/// Bytes of a response beside its records; librdkafka requires exactly this margin.
const ENVELOPE_BYTES: usize = 512;

fn set_all(config: &mut ClientConfig, settings: &[(&str, &str)]) {
    for (name, value) in settings {
        config.set(*name, *value);
    }
}

fn check_property(name: &str, value: &str) -> Result<(), SettingsError> {
    let fixed = [&CONSUMER_ALWAYS[..], &PRODUCER_ALWAYS, &ALSO_FIXED].concat();
    if let Some((_, value)) = fixed.iter().find(|(fixed, _)| *fixed == name) {
        return Err(SettingsError::NotNegotiable { name: name.into(), value });
    }
    if let Some((_, field)) = FROM_FIELDS.iter().find(|(property, _)| *property == name) {
        return Err(SettingsError::HasField { name: name.into(), field });
    }
    if value == HIDDEN {
        return Err(SettingsError::Hidden(name.into()));
    }
    Ok(())
}

/// Describes what is wrong with the settings, without the value: it may be a secret under a misspelt name.
pub(super) fn explain(error: &KafkaError) -> String {
    match error {
        KafkaError::ClientConfig(RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN, _, name, _) => {
            format!("there is no property {name}")
        }
        KafkaError::ClientConfig(_, reason, name, _) if !is_secret(name) => format!("{name}: {reason}"),
        KafkaError::ClientConfig(_, _, name, _) => format!("librdkafka cannot use the value of {name}"),
        other => other.to_string(),
    }
}

/// The TLS and SASL properties that may be shown. Any other, present or future, counts as a secret.
const PUBLIC: [&str; 17] = [
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.kerberos.keytab",
    "sasl.kerberos.principal",
    "sasl.kerberos.service.name",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.cipher.suites",
    "ssl.crl.location",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.location",
    "ssl.keystore.location",
];

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    if PUBLIC.contains(&name.as_str()) {
        return false;
    }
    let secret_parts = ["password", "passphrase", "secret", "token", "credential", "pem", "jaas"];
    name.starts_with("sasl.") || name.starts_with("ssl.") || secret_parts.iter().any(|part| name.contains(part))
}

fn redacted(properties: &BTreeMap<String, String>) -> BTreeMap<&str, &str> {
    properties
        .iter()
        .map(|(name, value)| {
            (name.as_str(), if is_secret(name) { SecretReference::shown(value) } else { value.as_str() })
        })
        .collect()
}

fn serialize_properties<S: Serializer>(
    properties: &BTreeMap<String, String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    redacted(properties).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(properties: &[(&str, &str)]) -> KafkaSettings {
        KafkaSettings {
            properties: properties.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            ..KafkaSettings::default()
        }
    }

    #[test]
    fn defaults_are_sound_and_survive_a_round_trip() {
        let settings = KafkaSettings::default();
        assert_eq!(settings.check(), Ok(()));
        let json = serde_json::to_string(&settings).expect("JSON");
        assert_eq!(serde_json::from_str::<KafkaSettings>(&json).expect("settings"), settings);
        assert_eq!(serde_json::from_str::<KafkaSettings>("{}").expect("settings"), settings);
        assert!(serde_json::from_str::<KafkaSettings>(r#"{"broker":"a:1"}"#).is_err());
    }

    #[test]
    fn words_are_kebab_case() {
        let settings: KafkaSettings = serde_json::from_str(r#"{"format":"raw","start":"latest"}"#).expect("settings");
        assert_eq!((settings.format, settings.start), (RecordFormat::Raw, Start::Latest));
    }

    #[test]
    fn fixed_properties_are_rejected() {
        for name in [
            "enable.auto.commit",
            "enable.auto.offset.store",
            "auto.offset.reset",
            "check.crcs",
            "isolation.level",
            "enable.idempotence",
            "acks",
            "request.required.acks",
            "allow.auto.create.topics",
            "transactional.id",
        ] {
            let error = with(&[(name, "true")]).check().expect_err(name);
            assert!(matches!(&error, SettingsError::NotNegotiable { name: found, .. } if found == name), "{error:?}");
            assert!(error.to_string().contains("not negotiable"), "{error}");
        }
        let error = with(&[("bootstrap.servers", "a:1")]).check().expect_err("a field");
        assert_eq!(error, SettingsError::HasField { name: "bootstrap.servers".into(), field: "brokers" });
    }

    #[test]
    fn fixed_settings_reach_the_clients() {
        let settings = with(&[("client.id", "me")]);
        let consumer = settings.consumer_config().expect("a consumer");
        let producer = settings.producer_config("x").expect("a producer");
        assert_eq!(producer.get("transactional.id"), Some("lookalike-x"));
        for (name, value) in CONSUMER_ALWAYS {
            assert_eq!(consumer.get(name), Some(value));
        }
        assert!(settings.cautious_config().expect("a consumer").create_native_config().is_ok());
        let replay = settings.idempotent_config().expect("a producer");
        assert!(replay.create_native_config().is_ok());
        assert_eq!((replay.get("acks"), replay.get("enable.idempotence")), (Some("all"), Some("true")));
        assert_eq!(replay.get("transactional.id"), None);
        for (name, value) in PRODUCER_ALWAYS {
            assert_eq!(producer.get(name), Some(value));
        }
        assert_eq!((consumer.get("client.id"), producer.get("client.id")), (Some("me"), Some("me")));
        assert_eq!(producer.get("linger.ms"), Some(LINGER_MS));
        let patient = with(&[("queue.buffering.max.ms", "20")]).producer_config("x").expect("a producer");
        assert_eq!((patient.get("linger.ms"), patient.get("queue.buffering.max.ms")), (None, Some("20")));
    }

    /// Lost once: a sixth of the CPU of a sketcher and an owner at half of the load. A broker gave 260 answers a second.
    #[test]
    fn brokers_gather_pages_before_they_answer() {
        let fetches = |config: Result<ClientConfig, SettingsError>| {
            let config = config.expect("a consumer");
            ["fetch.min.bytes", "fetch.wait.max.ms"].map(|name| config.get(name).map(str::to_string))
        };
        let (gathered, at_once) = ([FETCH_BYTES, FETCH_MS].map(|value| Some(value.to_string())), None);
        let settings = KafkaSettings::default();
        assert_eq!(fetches(settings.reader_config()), gathered);
        assert_eq!(fetches(settings.member_config()), gathered);
        assert_eq!(fetches(settings.cautious_config())[0], at_once);
        assert_eq!(fetches(settings.tail_config())[0], at_once);
        let patient = with(&[("fetch.wait.max.ms", "500")]);
        assert_eq!(fetches(patient.reader_config()), [None, Some("500".to_string())]);
    }

    #[test]
    fn invalid_settings_are_rejected() {
        let default = KafkaSettings::default;
        for (settings, part) in [
            (KafkaSettings { topic: String::new(), ..default() }, "kafka.topic is empty"),
            (KafkaSettings { brokers: " ".into(), ..default() }, "kafka.brokers is empty"),
            (KafkaSettings { events_topic: "pages".into(), ..default() }, "name two topics"),
            (
                KafkaSettings { merges_topic: default().events_topic, ..default() },
                "events_topic and kafka.merges_topic",
            ),
            // Wrong once: these were valid, and letters and events mixed, keys moved, or nothing could be published.
            (KafkaSettings { events_topic: "pages.dlq".into(), ..default() }, "events_topic and kafka.dead_letters"),
            (KafkaSettings { assignments_topic: "pages.dlq".into(), ..default() }, "same topic, \"pages.dlq\""),
            (KafkaSettings { merges_topic: "pages.dlq".into(), ..default() }, "merges_topic and kafka.dead_letters"),
            (
                KafkaSettings { sketches_topic: "pages.dlq".into(), ..default() },
                "sketches_topic and kafka.dead_letters",
            ),
            (with(&[("partitioner", "random")]), "partitioner is not negotiable (it is any but random"),
            (with(&[("delivery.report.only.error", "true")]), "delivery.report.only.error is not negotiable"),
            (KafkaSettings { delivery_ms_max: 1 << 31, ..default() }, "delivery_ms_max = 2147483648 is too large"),
            (KafkaSettings { connect_ms_max: u64::MAX, ..default() }, "set it to 2147483647 or less"),
            (with(&[("sasl.password", "file:/no/such/file")]), "sasl.password cannot be read from file:/no/such/file"),
            (with(&[("sasl.password", "env:LOOKALIKE_NO_SUCH_VARIABLE")]), "env:LOOKALIKE_NO_SUCH_VARIABLE"),
            (KafkaSettings { fetch_bytes_max: 1000, ..default() }, "set it to 1048576 or more"),
            (KafkaSettings { takeover_after_ms: 999, ..default() }, "set it to 1000 or more"),
            (with(&[("socket.keepalive", "true")]), "there is no property socket.keepalive"),
            (with(&[("socket.timeout.ms", "soon")]), "socket.timeout.ms"),
            (with(&[("sasl.password", HIDDEN)]), "stands for a secret"),
        ] {
            let error = settings.check().expect_err(part).to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn unusual_settings_are_taken() {
        for settings in [
            KafkaSettings { events_topic: "pages.dlq".into(), dead_letters: false, ..KafkaSettings::default() },
            KafkaSettings { delivery_ms_max: TIME_MS_MAX, ..KafkaSettings::default() },
            with(&[("partitioner", "fnv1a")]),
            with(&[("partitioner", "consistent_random")]),
        ] {
            assert_eq!(settings.check(), Ok(()));
            let replay = settings.idempotent_config().expect("a producer");
            assert!(replay.create_native_config().is_ok());
        }
    }

    #[test]
    fn secrets_come_from_files_and_the_environment() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "s3cr3t\n").expect("written");
        let from_file = format!("file:{}", file.path().display());
        let settings = with(&[("sasl.password", &from_file), ("client.id", "env:HOME")]);
        assert_eq!(settings.check(), Ok(()));
        let config = settings.consumer_config().expect("a consumer");
        assert_eq!(config.get("sasl.password"), Some("s3cr3t"));
        assert_eq!(config.get("client.id").map(String::from), std::env::var("HOME").ok());
        let shown = serde_json::to_string(&settings).expect("JSON");
        assert!(shown.contains(&from_file) && !shown.contains("s3cr3t"), "{shown}");
    }

    #[test]
    fn secrets_are_hidden() {
        let secret = "s3cr3t";
        let names = [
            "sasl.password",
            "sasl.pasword",
            "ssl.key.password",
            "ssl.keystore.password",
            "ssl.key.pem",
            "ssl.certificate.pem",
            "sasl.oauthbearer.client.secret",
            "sasl.oauthbearer.config",
            "my.token",
        ];
        let mut properties: Vec<(&str, &str)> = names.iter().map(|name| (*name, secret)).collect();
        properties.push(("sasl.username", "crawler"));
        let settings = with(&properties);
        let json = serde_json::to_string(&settings).expect("JSON");
        for text in [format!("{settings:?}"), format!("{settings:#?}"), json] {
            assert!(!text.contains(secret), "{text}");
            assert!(text.contains(HIDDEN) && text.contains("crawler"), "{text}");
        }
        for name in names {
            if let Err(error) = with(&[(name, secret)]).check() {
                assert!(!format!("{error} {error:?}").contains(secret), "{error}");
            }
        }
    }
}
