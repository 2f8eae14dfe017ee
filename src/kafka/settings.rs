//! What can be set about Kafka, and what cannot because a promise hangs on it.

use super::statistics::STATISTICS_MS;
use crate::ports::SecretReference;
use crate::wire::FieldMap;
use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaConfRes;
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// How pages stand in the topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordFormat {
    /// Key: the URL. Value: the body's bytes. Headers: `content-type`, `content-encoding`, `fetch-time`, `http-status`,
    /// `location`, `sweep`.
    Raw,
    /// Value: a JSON page ([`crate::wire::page_of_json`]), or JSON with its parts where `fields` says.
    #[default]
    Json,
    /// Value: one WARC record, plain, gzip or zstd.
    Warc,
}

/// Where a topic is begun that the store knows nothing of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// At the oldest record that the broker still has.
    #[default]
    Earliest,
    /// Behind the newest record: only what comes from now on.
    Latest,
}

/// Where Kafka is, which topics, and how much of everything. `Debug` and `Serialize` hide the secrets in `properties`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KafkaSettings {
    /// Brokers to ask first, `host:port`, separated by commas.
    pub brokers: String,
    /// The topic that pages come from.
    pub topic: String,
    /// The topic that events go to; empty: none go to Kafka.
    pub events_topic: String,
    /// The compacted topic that says where each URL stands; empty: none does.
    pub assignments_topic: String,
    /// The compacted topic that says which cluster became part of which; empty: none does.
    pub merges_topic: String,
    /// Whether rejected messages go to a topic named as that of the pages, with `.dlq` behind.
    pub dead_letters: bool,
    /// The consumer group under which lag tools find how far we are. Nothing is ever read from it.
    pub group: String,
    /// How pages stand in the topic.
    pub format: RecordFormat,
    /// Where a page's parts stand in JSON.
    pub fields: FieldMap,
    /// Where a topic is begun that the store knows nothing of.
    pub start: Start,
    /// Bytes of one answer of a broker, and so of one batch of records, packed. Not under 1 MiB; not under the brokers'
    /// `message.max.bytes`. A zstd batch that unpacks to more is passed over, which a `gap` tells exactly.
    pub fetch_bytes_max: usize,
    /// Bytes of records read ahead; when they are there, brokers are not asked for more.
    pub queue_bytes_max: usize,
    /// How long a broker may take to answer at the start; then the program gives up.
    pub connect_ms_max: u64,
    /// How long brokers may be away, while events wait to be acknowledged or none can be asked for pages; then the
    /// program stops.
    pub delivery_ms_max: u64,
    /// More settings for librdkafka, by its names: TLS, SASL, timeouts. Those that a promise hangs on are refused. A value
    /// `file:PATH` or `env:NAME` stands for what is in that file or variable.
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
            dead_letters: true,
            group: "lookalike".into(),
            format: RecordFormat::default(),
            fields: FieldMap::default(),
            start: Start::default(),
            fetch_bytes_max: 64 << 20,
            queue_bytes_max: 64 << 20,
            connect_ms_max: 10_000,
            delivery_ms_max: 120_000,
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
            .field("dead_letters", &self.dead_letters)
            .field("group", &self.group)
            .field("format", &self.format)
            .field("fields", &self.fields)
            .field("start", &self.start)
            .field("fetch_bytes_max", &self.fetch_bytes_max)
            .field("queue_bytes_max", &self.queue_bytes_max)
            .field("connect_ms_max", &self.connect_ms_max)
            .field("delivery_ms_max", &self.delivery_ms_max)
            .field("properties", &presentable(&self.properties))
            .finish()
    }
}

/// Settings that do not go together or promise too much.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A field that must say something says nothing.
    #[error("kafka.{0} is empty; set it")]
    Empty(&'static str),
    /// A limit too small to work with.
    #[error("kafka.{field} = {value} is too small; set it to {min} or more")]
    TooSmall {
        /// The field.
        field: &'static str,
        /// What it says.
        value: u64,
        /// What it may say.
        min: u64,
    },
    /// Events would come back as pages, or state would be mistaken for events.
    #[error("kafka.{0} and kafka.{1} name the same topic, {2:?}: name two topics")]
    SameTopic(&'static str, &'static str, String),
    /// A map that leads nowhere.
    #[error("kafka.fields.{0}")]
    Fields(String),
    /// A secret that is not where it should be.
    #[error("kafka.properties: {name} is to be read from {from}: {why}")]
    Secret {
        /// The property.
        name: String,
        /// The file or variable.
        from: String,
        /// Why it cannot be.
        why: String,
    },
    /// A property on which a promise hangs.
    #[error(
        "kafka.properties: {name} is not negotiable (it is {value}, or lookalike could lose or repeat pages); remove it"
    )]
    NotNegotiable {
        /// The property.
        name: String,
        /// What it always is.
        value: &'static str,
    },
    /// A property that has a field of its own.
    #[error("kafka.properties: {name} is set by kafka.{field}; remove it and set that")]
    HasField {
        /// The property.
        name: String,
        /// The field.
        field: &'static str,
    },
    /// A property whose value was printed by us in place of a secret.
    #[error(
        "kafka.properties: {0} is \"{HIDDEN}\", which stands for a secret in printed settings; put the secret there"
    )]
    Hidden(String),
    /// A property that librdkafka does not take.
    #[error("kafka.properties: {0}; see librdkafka's CONFIGURATION.md")]
    Refused(String),
}

/// What stands for a secret in print.
const HIDDEN: &str = "(hidden)";

/// librdkafka 2 refuses to run with less: `fetch.max.bytes` must hold a message of `message.max.bytes`, 1,000,000.
const FETCH_BYTES_MIN: usize = 1 << 20;

/// How often librdkafka asks for the topic's partitions anew.
const METADATA_REFRESH_MS: &str = "10000";

/// Progress is in the store alone, a lost position is an error and never a guess, and what is read is whole, final and
/// from a topic that somebody made on purpose.
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

/// How long a transaction may be open, in milliseconds: as long a dead process holds up who reads committed transactions,
/// unless it is started again.
const TRANSACTION_MS: &str = "60000";

/// How long a message is tried. Less than a transaction's time, so that it is us who give up, and not the brokers, which
/// would look as if somebody else had taken over; and short, because librdkafka may hold a message back for all of it
/// after another one's refusal (OUT_OF_ORDER_SEQUENCE_NUMBER) has spoilt the transaction. What is given up is sent again.
const MESSAGE_MS_MAX: u64 = 10_000;

/// Events keep their order, and are there all or not at all.
const PRODUCER_ALWAYS: [(&str, &str); 5] = [
    ("enable.idempotence", "true"),
    ("acks", "all"),
    ("allow.auto.create.topics", "false"),
    ("transaction.timeout.ms", TRANSACTION_MS),
    ("statistics.interval.ms", STATISTICS_MS),
];

/// Other names of those, and what would undo them.
const ALSO_FIXED: [(&str, &str); 5] = [
    ("auto.commit.enable", "false"),
    ("request.required.acks", "all"),
    ("transactional.id", "made of the store's id"),
    ("group.instance.id", "not set"),
    ("plugin.library.paths", "not set"),
];

/// Properties that are set from fields.
const FROM_FIELDS: [(&str, &str); 10] = [
    ("bootstrap.servers", "brokers"),
    ("metadata.broker.list", "brokers"),
    ("group.id", "group"),
    ("fetch.max.bytes", "fetch_bytes_max"),
    ("receive.message.max.bytes", "fetch_bytes_max"),
    ("message.max.bytes", "fetch_bytes_max"),
    ("queued.max.messages.kbytes", "queue_bytes_max"),
    ("socket.connection.setup.timeout.ms", "connect_ms_max"),
    ("message.timeout.ms", "delivery_ms_max"),
    ("delivery.timeout.ms", "delivery_ms_max"),
];

impl KafkaSettings {
    /// Whether they can be worked with. Needs no broker.
    ///
    /// # Errors
    /// [`SettingsError`], the first one found.
    pub fn check(&self) -> Result<(), SettingsError> {
        for (field, text) in [("brokers", &self.brokers), ("topic", &self.topic), ("group", &self.group)] {
            if text.trim().is_empty() {
                return Err(SettingsError::Empty(field));
            }
        }
        self.check_topics()?;
        if let Some(problem) = self.fields.problem() {
            return Err(SettingsError::Fields(problem));
        }
        for (field, value, min) in [
            ("fetch_bytes_max", self.fetch_bytes_max as u64, FETCH_BYTES_MIN as u64),
            ("queue_bytes_max", self.queue_bytes_max as u64, 1 << 10),
            ("connect_ms_max", self.connect_ms_max, 1_000),
            ("delivery_ms_max", self.delivery_ms_max, 1_000),
        ] {
            if value < min {
                return Err(SettingsError::TooSmall { field, value, min });
            }
        }
        self.properties.iter().try_for_each(|(name, value)| check_property(name, value))?;
        for config in [self.consumer_config()?, self.producer_config("")?] {
            config.create_native_config().map_err(|error| SettingsError::Refused(explain(&error)))?;
        }
        Ok(())
    }

    fn check_topics(&self) -> Result<(), SettingsError> {
        let named = [
            ("topic", &self.topic),
            ("events_topic", &self.events_topic),
            ("assignments_topic", &self.assignments_topic),
            ("merges_topic", &self.merges_topic),
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

    /// How long a broker may take to answer at the start.
    pub(super) fn connect_max(&self) -> Duration {
        Duration::from_millis(self.connect_ms_max)
    }

    /// How long brokers may be away.
    pub(super) fn delivery_max(&self) -> Duration {
        Duration::from_millis(self.delivery_ms_max)
    }

    /// How long one message is tried.
    pub(super) fn message_timeout(&self) -> Duration {
        Duration::from_millis(self.delivery_ms_max.min(MESSAGE_MS_MAX))
    }

    /// What a consumer is made of.
    pub(super) fn consumer_config(&self) -> Result<ClientConfig, SettingsError> {
        let mut config = self.client_config()?;
        config
            .set("group.id", &self.group)
            .set("fetch.max.bytes", self.fetch_bytes_max.to_string())
            .set("receive.message.max.bytes", (self.fetch_bytes_max + ENVELOPE_BYTES).to_string())
            .set("queued.max.messages.kbytes", (self.queue_bytes_max >> 10).to_string())
            // Or a partition would not be asked for a second whenever the queue was found full, and it is empty long before.
            .set("fetch.queue.backoff.ms", "10");
        always(&mut config, &CONSUMER_ALWAYS);
        Ok(config)
    }

    /// What a consumer is made of that fetches one batch after the other, of which each may be the death of the program.
    pub(super) fn wary_config(&self) -> Result<ClientConfig, SettingsError> {
        let mut config = self.consumer_config()?;
        config.set("fetch.message.max.bytes", "1024").set("queued.min.messages", "1");
        // It is full of the batch before until that is taken.
        config.set("fetch.queue.backoff.ms", "1");
        Ok(config)
    }

    /// What a consumer is made of that looks at the ends of the output.
    pub(super) fn tail_config(&self) -> Result<ClientConfig, SettingsError> {
        let mut config = self.consumer_config()?;
        // The end of a partition is told by an empty answer, which a broker holds back for so long.
        config.set("enable.partition.eof", "true").set("fetch.wait.max.ms", "20").set("statistics.interval.ms", "0");
        Ok(config)
    }

    /// What a producer is made of that publishes the events of a store.
    pub(super) fn producer_config(&self, store: &str) -> Result<ClientConfig, SettingsError> {
        let mut config = self.client_config()?;
        if !self.properties.contains_key("partitioner") {
            // As Java's clients do it, so that whoever reads with those finds a key where they expect it.
            config.set("partitioner", "murmur2_random");
        }
        if !["compression.type", "compression.codec"].iter().any(|name| self.properties.contains_key(*name)) {
            config.set("compression.type", "lz4");
        }
        config
            .set("message.timeout.ms", self.message_timeout().as_millis().to_string())
            .set("message.max.bytes", self.fetch_bytes_max.to_string())
            .set("transactional.id", format!("lookalike-{store}"));
        always(&mut config, &PRODUCER_ALWAYS);
        Ok(config)
    }

    /// What a producer is made of that replays messages: each is there once and in order, without a transaction.
    pub(super) fn replay_config(&self) -> Result<ClientConfig, SettingsError> {
        let mut config = self.producer_config("")?;
        config.remove("transactional.id").remove("transaction.timeout.ms");
        config.set("message.timeout.ms", self.delivery_ms_max.to_string()).set("statistics.interval.ms", "0");
        Ok(config)
    }

    /// What any client is made of.
    pub(super) fn client_config(&self) -> Result<ClientConfig, SettingsError> {
        let mut config = ClientConfig::new();
        for (name, value) in &self.properties {
            config.set(name, resolved(name, value)?);
        }
        config
            .set("bootstrap.servers", &self.brokers)
            .set("socket.connection.setup.timeout.ms", self.connect_ms_max.to_string())
            .set_log_level(RDKafkaLogLevel::Info);
        Ok(config)
    }
}

/// A property's value, read from a file or the environment where it says so.
fn resolved(name: &str, value: &str) -> Result<String, SettingsError> {
    let Some(reference) = SecretReference::parse(value) else { return Ok(value.to_string()) };
    reference.read().map_err(|why| SettingsError::Secret { name: name.into(), from: value.into(), why })
}

/// What an answer has around its records; librdkafka wants this much and no less.
const ENVELOPE_BYTES: usize = 512;

fn always(config: &mut ClientConfig, settings: &[(&str, &str)]) {
    for (name, value) in settings {
        config.set(*name, *value);
    }
}

fn check_property(name: &str, value: &str) -> Result<(), SettingsError> {
    let fixed = [&CONSUMER_ALWAYS[..], &PRODUCER_ALWAYS, &ALSO_FIXED].concat();
    if let Some((_, value)) = fixed.iter().find(|(fixed, _)| *fixed == name) {
        return Err(SettingsError::NotNegotiable { name: name.into(), value });
    }
    if let Some((_, field)) = FROM_FIELDS.iter().find(|(taken, _)| *taken == name) {
        return Err(SettingsError::HasField { name: name.into(), field });
    }
    if value == HIDDEN {
        return Err(SettingsError::Hidden(name.into()));
    }
    Ok(())
}

/// Says what is wrong with the settings, without the value: it may be a secret under a misspelled name.
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

/// What may be shown of TLS and SASL; whatever else there is or will be is taken for a secret.
const SHOWN: [&str; 17] = [
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
    if SHOWN.contains(&name.as_str()) {
        return false;
    }
    let telling = ["password", "passphrase", "secret", "token", "credential", "pem", "jaas"];
    name.starts_with("sasl.") || name.starts_with("ssl.") || telling.iter().any(|part| name.contains(part))
}

fn presentable(properties: &BTreeMap<String, String>) -> BTreeMap<&str, &str> {
    properties
        .iter()
        .map(|(name, value)| {
            let is_hidden = is_secret(name) && SecretReference::parse(value).is_none();
            (name.as_str(), if is_hidden { HIDDEN } else { value.as_str() })
        })
        .collect()
}

fn serialize_properties<S: Serializer>(
    properties: &BTreeMap<String, String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    presentable(properties).serialize(serializer)
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
    fn what_a_promise_hangs_on_is_refused() {
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
            assert!(matches!(&error, SettingsError::NotNegotiable { name: told, .. } if told == name), "{error:?}");
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
        assert!(settings.wary_config().expect("a consumer").create_native_config().is_ok());
        let replay = settings.replay_config().expect("a producer");
        assert!(replay.create_native_config().is_ok());
        assert_eq!((replay.get("acks"), replay.get("enable.idempotence")), (Some("all"), Some("true")));
        assert_eq!(replay.get("transactional.id"), None);
        for (name, value) in PRODUCER_ALWAYS {
            assert_eq!(producer.get(name), Some(value));
        }
        assert_eq!((consumer.get("client.id"), producer.get("client.id")), (Some("me"), Some("me")));
    }

    #[test]
    fn senseless_settings_are_refused() {
        let default = KafkaSettings::default;
        for (settings, part) in [
            (KafkaSettings { topic: String::new(), ..default() }, "kafka.topic is empty"),
            (KafkaSettings { brokers: " ".into(), ..default() }, "kafka.brokers is empty"),
            (KafkaSettings { events_topic: "pages".into(), ..default() }, "name two topics"),
            (
                KafkaSettings { merges_topic: default().events_topic, ..default() },
                "events_topic and kafka.merges_topic",
            ),
            (
                KafkaSettings { fields: FieldMap { url: "u".into(), ..FieldMap::default() }, ..default() },
                "kafka.fields.url",
            ),
            (with(&[("sasl.password", "file:/no/such/file")]), "sasl.password is to be read from file:/no/such/file"),
            (with(&[("sasl.password", "env:LOOKALIKE_NO_SUCH_VARIABLE")]), "env:LOOKALIKE_NO_SUCH_VARIABLE"),
            (KafkaSettings { fetch_bytes_max: 1000, ..default() }, "set it to 1048576 or more"),
            (with(&[("socket.keepalive", "true")]), "there is no property socket.keepalive"),
            (with(&[("socket.timeout.ms", "soon")]), "socket.timeout.ms"),
            (with(&[("sasl.password", HIDDEN)]), "stands for a secret"),
        ] {
            let error = settings.check().expect_err(part).to_string();
            assert!(error.contains(part), "{error}");
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
    fn secrets_are_not_shown() {
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
