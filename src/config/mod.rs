//! Configuration: the built-in defaults, then files, then the environment give one checked [`Config`].

mod environment;
mod error;

pub use error::ConfigError;

use crate::cluster::MatchRule;
use crate::document::{CanonicalRule, FetchTime, Seed};
use crate::intake::{TEXT_BYTES_LIMIT, TextRule};
use crate::kafka::KafkaSettings;
use crate::ports::{SecretReference, StoreRule};
use crate::related::RelatedRule;
use crate::sketch::{Multiplicity, Rule, SketchRule};
use crate::sweep::{Ranking, SweepCut};
use crate::watch::{self, WatchSettings};
use crate::wire::{FieldMap, Part, TimeFrom, UrlFrom};
use crate::{http, pipeline, store, wire};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The built-in configuration, with a default for every key.
pub const DEFAULT: &str = include_str!("../../config/default.toml");

/// Environment variables `LOOKALIKE__SECTION__KEY` override `section.key`.
const ENVIRONMENT_PREFIX: &str = "LOOKALIKE";

/// The whole configuration, checked. It serialises to a file that gives the same configuration, but for the secrets.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `[store]`
    pub store: StoreSection,
    /// `[canonical]`
    pub canonical: CanonicalRule,
    /// `[sketch]`
    pub sketch: SketchSection,
    /// `[cluster]`
    pub cluster: MatchRule,
    /// `[limits]`
    pub limits: wire::Limits,
    /// `[pipeline]`
    pub pipeline: pipeline::Settings,
    /// `[backfill]`
    pub backfill: BackfillSection,
    /// `[input]`
    pub input: InputSection,
    /// `[related]`
    pub related: RelatedRule,
    /// `[lost]`
    pub lost: Ranking,
    /// `[retention]`
    pub retention: RetentionSection,
    /// `[events]`
    pub events: EventsSection,
    /// `[kafka]`
    pub kafka: KafkaSettings,
    /// `[metrics]`
    pub metrics: MetricsSection,
    /// `[http]`
    pub http: http::Settings,
    /// `[log]`
    pub log: LogSection,
    /// `[[watch]]`, any number of times
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watch: Vec<WatchSettings>,
}

/// Where the store is, and how RocksDB uses the machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreSection {
    /// The folder that holds the store.
    pub path: PathBuf,
    /// The seed of a new store; empty for a random one.
    #[serde(serialize_with = "hidden")]
    pub seed: String,
    /// See [`store::Settings::block_cache_mib`].
    pub block_cache_mib: usize,
    /// See [`store::Settings::write_buffer_mib`].
    pub write_buffer_mib: usize,
    /// See [`store::Settings::wal_mib`].
    pub wal_mib: usize,
    /// See [`store::Settings::posting_buffer_mib`].
    pub posting_buffer_mib: usize,
    /// See [`store::Settings::key_filter_mib`].
    pub key_filter_mib: usize,
    /// What the store keeps of texts.
    pub keep_text: KeepText,
    /// See [`store::Settings::background_threads`].
    pub background_threads: i32,
    /// See [`store::Settings::keep_events`].
    pub keep_events: u64,
}

/// What a store keeps of the texts of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeepText {
    /// Nothing.
    None,
    /// What counts of the page that brought a document: the words of its canonical form, as they stand in the page.
    Canonical,
}

/// How documents are sketched: [`SketchRule`], flat, so that each key can be overridden alone.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SketchSection {
    w: usize,
    bits: u32,
    multiplicity: Multiplicity,
    rule: RuleName,
    size: usize,
    modulus: u64,
    error_per_mille: u32,
    index_size: usize,
    index_modulus: u64,
    confirmation: bool,
    super_shingle_length: usize,
    super_shingles: usize,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RuleName {
    Mod,
    Min,
    MinOfMod,
    Adaptive,
    Parity,
    All,
}

/// How `backfill` works.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackfillSection {
    /// Milliseconds between two checkpoints.
    pub checkpoint_ms: u64,
}

/// What `run` reads.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputSection {
    /// Where pages come from.
    pub from: InputKind,
    /// The sweep of pages that name none.
    pub sweep: String,
    /// The time (RFC 3339, or `file-time`) of records that have none; in archives, where no record before them has one;
    /// empty for none.
    pub fetched_at: String,
    /// What makes the URL of records that have none: `id`, `path` or `record`; empty for nothing.
    pub url_from: String,
    /// How the date of a page gives its sweep, where nothing else does.
    pub sweep_cut: SweepCut,
    /// Days ahead of the clock that a page may be dated; 0 for no limit.
    pub future_days_max: u32,
    /// Milliseconds between two looks of `run --follow` at its folders.
    pub follow_ms: u64,
    /// `[input.fields]`: where records hold the parts of a page.
    pub fields: FieldMap,
}

/// Where pages come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InputKind {
    /// Files and standard input.
    Files,
    /// A Kafka topic.
    Kafka,
}

/// How long sightings stay.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetentionSection {
    /// Days after which `run` forgets a sighting; 0: never.
    pub days: u32,
    /// How often a `run` whose source has no end looks for such sightings; 0: only when it starts.
    pub every_ms: u64,
}

impl RetentionSection {
    /// The time before which sightings are forgotten; none where they stay.
    pub fn before(&self, now: SystemTime) -> Option<FetchTime> {
        let kept = Duration::from_secs(u64::from(self.days) * 86_400);
        let since_1970 = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let before = i64::try_from(since_1970.checked_sub(kept)?.as_micros()).ok()?;
        (self.days > 0).then_some(FetchTime(before))
    }
}

/// Where events go instead of Kafka.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventsSection {
    /// A path, `-` for standard output, or empty.
    pub file: String,
}

/// The Prometheus endpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricsSection {
    /// `host:port`, or empty.
    pub listen: String,
}

/// Logging.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogSection {
    /// A level or a filter.
    pub level: String,
    /// What a line on standard error is.
    pub format: LogFormat,
    /// Seconds between two lines of progress; 0 for none.
    pub progress_seconds: u64,
    /// The file that audit lines are appended to; empty for none.
    pub audit_file: PathBuf,
}

/// What a line on standard error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// Text for people.
    Text,
    /// A JSON object.
    Json,
}

impl LogFormat {
    /// The format of what is said about a configuration that cannot be loaded: by the environment, or else by the last file
    /// that names one.
    pub fn guess(files: &[PathBuf]) -> Self {
        let of_file = |file: &PathBuf| {
            // What was a pipe has been read.
            let text = file.is_file().then(|| std::fs::read_to_string(file).ok()).flatten()?;
            let table: toml::Table = toml::from_str(&text).ok()?;
            Some(table.get("log")?.get("format")?.as_str()?.to_string())
        };
        let of_environment = std::env::var(format!("{ENVIRONMENT_PREFIX}__LOG__FORMAT")).ok();
        match of_environment.or_else(|| files.iter().rev().find_map(of_file)).as_deref() {
            Some("json") => LogFormat::Json,
            _ => LogFormat::Text,
        }
    }
}

fn hidden<S: serde::Serializer>(seed: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(if seed.is_empty() { "" } else { "(secret)" })
}

impl LogSection {
    /// A part of the level that names neither a level nor a target with its own: taken for a target, it silences all others.
    fn problem(&self) -> Option<String> {
        const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
        let is_level = |part: &str| LEVELS.iter().any(|level| level.eq_ignore_ascii_case(part));
        // A directive that names spans may hold commas of its own.
        let parts = self.level.split(',').map(str::trim).filter(|_| !self.level.contains('['));
        let wrong = parts
            .filter(|part| !part.is_empty())
            .find(|part| !is_level(part.rsplit_once('=').map_or(*part, |(_, level)| level)))?;
        let (of, levels) = (&self.level, LEVELS.join(", "));
        Some(format!("level is {of:?}, where {wrong:?} is no level; write one of {levels}, or TARGET=LEVEL for a part"))
    }
}

impl SketchSection {
    fn rule(&self) -> SketchRule {
        let (size, modulus) = (self.size, self.modulus);
        SketchRule {
            w: self.w,
            bits: self.bits,
            multiplicity: self.multiplicity,
            rule: match self.rule {
                RuleName::Mod => Rule::Mod { modulus },
                RuleName::Min => Rule::Min { size },
                RuleName::MinOfMod => Rule::MinOfMod { size, modulus },
                RuleName::Adaptive => Rule::Adaptive { size },
                RuleName::Parity => Rule::Parity { size, error_per_mille: self.error_per_mille },
                RuleName::All => Rule::All,
            },
            index_size: self.index_size,
            index_modulus: self.index_modulus,
            confirmation: self.confirmation,
            super_shingle_length: self.super_shingle_length,
            super_shingles: self.super_shingles,
        }
    }
}

impl Config {
    /// The defaults, overridden by files in their order and then by the environment.
    ///
    /// # Errors
    /// [`ConfigError`] that names the file or key and says what is wrong with it.
    pub fn load(files: &[PathBuf]) -> Result<Self, ConfigError> {
        // Variables that are not UTF-8 set nothing here.
        let variables =
            std::env::vars_os().filter_map(|(name, value)| name.into_string().ok().zip(value.into_string().ok()));
        Self::load_over(files, variables.collect())
    }

    /// The same, with variables instead of those of the environment.
    ///
    /// # Errors
    /// [`ConfigError`]
    pub fn load_over(files: &[PathBuf], variables: HashMap<String, String>) -> Result<Self, ConfigError> {
        let names: Vec<String> = variables.keys().cloned().collect();
        let mut builder =
            config::Config::builder().add_source(config::File::from_str(DEFAULT, config::FileFormat::Toml));
        for file in files {
            builder = builder.add_source(config::File::from_str(&read(file)?, config::FileFormat::Toml));
        }
        let environment = config::Environment::with_prefix(ENVIRONMENT_PREFIX)
            .prefix_separator("__")
            .separator("__")
            .source(Some(variables));
        let wrong = |error| ConfigError(format!("the configuration is wrong: {error}"));
        let loaded = builder.add_source(environment).build().map_err(wrong)?;
        environment::check_names(names.iter(), &known_keys()?, &secret_variables(&loaded))?;
        let config: Config = loaded.clone().try_deserialize().map_err(|error| {
            ConfigError(match first_wrong(files) {
                Some((file, with)) => format!("the configuration {}: {}", file.display(), problem_of(error, with)),
                None => format!("the configuration is wrong: {}", problem_of(error, loaded)),
            })
        })?;
        config.check()?;
        Ok(config)
    }

    /// The rule that a store is created with.
    pub fn rule(&self) -> StoreRule {
        StoreRule {
            canonical_version: self.canonical.version(),
            canonical: self.canonical,
            sketch: self.sketch.rule(),
            cluster: self.cluster.clone(),
        }
    }

    /// The seed of a new store, where one is configured.
    ///
    /// # Errors
    /// [`ConfigError`] where the setting is no seed.
    pub fn seed(&self) -> Result<Option<Seed>, ConfigError> {
        if self.store.seed.is_empty() {
            return Ok(None);
        }
        self.store.seed.parse().map(Some).map_err(|error| ConfigError(format!("store.seed: {error}")))
    }

    /// How RocksDB uses the machine.
    pub fn store_settings(&self) -> store::Settings {
        store::Settings {
            block_cache_mib: self.store.block_cache_mib,
            write_buffer_mib: self.store.write_buffer_mib,
            wal_mib: self.store.wal_mib,
            posting_buffer_mib: self.store.posting_buffer_mib,
            key_filter_mib: self.store.key_filter_mib,
            background_threads: self.store.background_threads,
            keep_events: self.store.keep_events,
            related: self.related.on.then(|| self.related.clone()),
            keeps_texts: self.store.keep_text == KeepText::Canonical,
        }
    }

    /// How texts are kept, where they are.
    pub fn text_rule(&self) -> Option<TextRule> {
        let (bytes_max, compress) = (self.limits.text_bytes_max, store::compress_text);
        (self.store.keep_text == KeepText::Canonical).then_some(TextRule { bytes_max, compress })
    }

    /// The time of records that have none, where one is configured.
    ///
    /// # Errors
    /// [`ConfigError`] where the setting is no time.
    pub fn fetched_at(&self) -> Result<Option<TimeFrom>, ConfigError> {
        if self.input.fetched_at.is_empty() {
            return Ok(None);
        }
        let wrong = |error| ConfigError(format!("input.fetched_at: {error}, nor file-time"));
        self.input.fetched_at.parse().map(Some).map_err(wrong)
    }

    /// What makes the URL of records that have none, where something is configured.
    ///
    /// # Errors
    /// [`ConfigError`] where the setting is no such word.
    pub fn url_from(&self) -> Result<Option<UrlFrom>, ConfigError> {
        if self.input.url_from.is_empty() {
            return Ok(None);
        }
        self.input.url_from.parse().map(Some).map_err(|error| ConfigError(format!("input.url_from: {error}")))
    }

    /// Checks what the command line may have changed: where records hold the parts of a page.
    ///
    /// # Errors
    /// [`ConfigError`] that names the key and says what is wrong with it.
    pub fn check_fields(&self) -> Result<(), ConfigError> {
        self.fetched_at()?;
        let wrong = |wrong: wire::Rejection| ConfigError(format!("input.sweep (--sweep): {}", wrong.message));
        self.limits.check_sweep(Some(&self.input.sweep)).map_err(wrong)?;
        let (fields, is_kafka) = (&self.input.fields, self.input.from == InputKind::Kafka);
        let needs_url = self.url_from()?.is_none() || is_kafka;
        if let Some(problem) = fields.problem(needs_url) {
            return Err(ConfigError(format!("input.fields.{problem}")));
        }
        if is_kafka && fields.lacks(Part::Url) {
            let why = "no record of the preset has a URL, and a message needs one: name its place";
            return Err(ConfigError(format!("input.fields.url is empty: {why}")));
        }
        Ok(())
    }

    /// Where the Prometheus endpoint listens, if anywhere. Resolves a host name.
    ///
    /// # Errors
    /// [`ConfigError`] where the name has no address.
    pub fn metrics_address(&self) -> Result<Option<SocketAddr>, ConfigError> {
        if self.metrics.listen.is_empty() {
            Ok(None)
        } else {
            resolve("metrics.listen", &self.metrics.listen).map(Some)
        }
    }

    /// Where the HTTP server listens. Resolves a host name.
    ///
    /// # Errors
    /// [`ConfigError`] where the name has no address.
    pub fn http_address(&self) -> Result<SocketAddr, ConfigError> {
        resolve("http.listen", &self.http.listen)
    }

    fn check(&self) -> Result<(), ConfigError> {
        let problems = [
            ("sketch", self.sketch.rule().problem()),
            ("cluster", self.cluster.problem()),
            ("pipeline", self.pipeline.problem()),
            ("related", self.related.problem()),
            ("lost", self.lost.problem()),
            ("http", self.http.problem()),
            ("log", self.log.problem()),
            ("watch", watch::problem(&self.watch, self.store.keep_events)),
        ];
        for (section, problem) in problems {
            if let Some(problem) = problem {
                return Err(ConfigError(format!("{section}.{problem}")));
            }
        }
        if self.limits.text_bytes_max > TEXT_BYTES_LIMIT {
            return Err(ConfigError(format!("limits.text_bytes_max is over {TEXT_BYTES_LIMIT}; lower it")));
        }
        if self.cluster.ignore_common && matches!(self.sketch.rule, RuleName::Parity) {
            let why = "which needs sketches of whole shingles; sketch.rule = \"parity\" keeps none";
            return Err(ConfigError(format!("cluster.ignore_common is true, {why}")));
        }
        self.seed()?;
        self.check_fields()?;
        if !self.metrics.listen.is_empty() {
            check_address("metrics.listen", &self.metrics.listen)?;
        }
        check_address("http.listen", &self.http.listen)?;
        self.kafka.check().map_err(|error| ConfigError(error.to_string()))
    }
}

/// What is wrong. The loader does not tell which values a key may have; the reader of JSON does. It takes variables of the
/// environment for strings, whatever they are.
fn problem_of(error: config::ConfigError, loaded: config::Config) -> String {
    let problem = error.to_string();
    let Some((_, key)) = problem.rsplit_once(" for key ").filter(|_| problem.contains("enum ")) else { return problem };
    let clearer = loaded.try_deserialize().ok().and_then(|json| serde_json::from_value::<Config>(json).err());
    match clearer.map(|error| error.to_string()) {
        Some(clearer) if !clearer.starts_with("invalid type: string") => format!("{clearer} for key {key}"),
        _ => problem,
    }
}

/// The first file that makes a configuration wrong, and the configuration with it and those before it; none where the
/// environment does.
fn first_wrong(files: &[PathBuf]) -> Option<(&PathBuf, config::Config)> {
    let mut builder = config::Config::builder().add_source(config::File::from_str(DEFAULT, config::FileFormat::Toml));
    files.iter().find_map(|file| {
        let text = read(file).ok()?;
        builder = builder.clone().add_source(config::File::from_str(&text, config::FileFormat::Toml));
        let loaded = builder.build_cloned().ok()?;
        loaded.clone().try_deserialize::<Config>().is_err().then_some((file, loaded))
    })
}

/// All keys, with dots.
fn known_keys() -> Result<BTreeSet<String>, ConfigError> {
    fn walk(prefix: &str, table: &toml::Table, keys: &mut BTreeSet<String>) {
        for (name, value) in table {
            match value.as_table() {
                Some(table) => walk(&format!("{prefix}{name}."), table, keys),
                None => _ = keys.insert(format!("{prefix}{name}")),
            }
        }
    }
    let mut keys = BTreeSet::new();
    let defaults = toml::from_str(DEFAULT).map_err(|error| ConfigError(format!("the built-in defaults: {error}")))?;
    walk("", &defaults, &mut keys);
    Ok(keys)
}

/// The environment variables that a configuration reads secrets from.
fn secret_variables(loaded: &config::Config) -> BTreeSet<String> {
    let properties = loaded.get_table("kafka.properties").unwrap_or_default();
    let properties = properties.into_values().filter_map(|value| value.into_string().ok());
    let secret = |watch: config::Value| watch.into_table().ok()?.remove("secret")?.into_string().ok();
    let secrets = loaded.get_array("watch").unwrap_or_default().into_iter().filter_map(secret);
    let tokens = ["http.read_token", "http.token"].into_iter().filter_map(|key| loaded.get_string(key).ok());
    let settings = properties.chain(tokens).chain(secrets);
    let variable = |setting: String| match SecretReference::parse(&setting) {
        Some(SecretReference::Variable(name)) => Some(name),
        _ => None,
    };
    settings.filter_map(variable).collect()
}

/// Checks that an address is `host:port`, without looking the host up: most commands listen nowhere.
fn check_address(key: &str, listen: &str) -> Result<(), ConfigError> {
    let is_host = |host: &str| !host.is_empty() && !host.contains(char::is_whitespace);
    match listen.rsplit_once(':') {
        Some((host, port)) if is_host(host) && port.parse::<u16>().is_ok() => Ok(()),
        _ => Err(ConfigError(format!("{key} = {listen:?} is no address; write HOST:PORT, such as \"localhost:8080\""))),
    }
}

/// The address of `host:port`; of several, the first of IPv4, which clients try where a name means both.
fn resolve(key: &str, listen: &str) -> Result<SocketAddr, ConfigError> {
    check_address(key, listen)?;
    let unknown =
        |why: &str| ConfigError(format!("{key} = {listen:?} cannot be resolved ({why}); check the host's name"));
    let addresses: Vec<SocketAddr> = listen.to_socket_addrs().map_err(|error| unknown(&error.to_string()))?.collect();
    let first = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
    first.copied().ok_or_else(|| unknown("it has no address"))
}

fn read(file: &Path) -> Result<String, ConfigError> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        ConfigError(format!("cannot read the configuration {}: {error}; check the path", file.display()))
    })?;
    // Errors of the loader below do not name the file.
    toml::from_str::<toml::Table>(&text)
        .map_err(|error| ConfigError(format!("the configuration {}: {error}", file.display())))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::related::BagKind;

    fn with(text: &str) -> Result<Config, ConfigError> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("written");
        Config::load(&[file.path().to_path_buf()])
    }

    fn shipped(name: &str) -> Config {
        Config::load(&[Path::new(env!("CARGO_MANIFEST_DIR")).join("config").join(name)]).expect(name)
    }

    /// Lost once: which values a key may have. The message named a type of the program instead.
    #[test]
    fn a_wrong_value_is_told_with_the_right_ones() {
        for (text, parts) in [
            (
                "[input]\nsweep_cut = 'fortnight'",
                ["`fortnight`, expected one of `none`, `day`, `week`", "`input.sweep_cut`"],
            ),
            ("[related]\nbags = 3", ["integer `3`", "`related.bags`"]),
        ] {
            let problem = with(text).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(parts.iter().all(|part| problem.contains(part)) && !problem.contains("enum"), "{problem}");
        }
        let variable = HashMap::from([("LOOKALIKE__RELATED__BAGS".to_string(), "all".to_string())]);
        let problem = Config::load_over(&[], variable).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(problem.contains("expected one of `content`, `anchors`, `half`"), "{problem}");
    }

    /// Lost once: in a merge, five keys of [kafka], which no variable of the environment could set from then on.
    #[test]
    fn every_setting_of_kafka_is_among_the_defaults() {
        let known = known_keys().expect("the defaults");
        let settings = serde_json::to_value(KafkaSettings::default()).expect("JSON");
        for name in settings.as_object().expect("an object").keys().filter(|name| *name != "properties") {
            assert!(known.contains(&format!("kafka.{name}")), "config/default.toml lacks kafka.{name}");
        }
    }

    /// Lost once: all warnings and errors, to a level that was no level and passed for the name of a module.
    #[test]
    fn a_level_of_the_log_is_a_level() {
        for level in
            ["info", "WARN", "off", "warn,lookalike::kafka=debug", "info, rdkafka=trace", "warn,[a{b=1,c=2}]=info"]
        {
            assert!(with(&format!("[log]\nlevel = {level:?}\n")).is_ok(), "{level}");
        }
        for level in ["loud", "warn,loud", "lookalike=loud"] {
            let error = with(&format!("[log]\nlevel = {level:?}\n")).expect_err("no level").to_string();
            assert!(error.contains("log.level is") && error.contains("write one of off, error, warn"), "{error}");
        }
    }

    #[test]
    fn the_default_file_holds_the_defaults_of_the_code() {
        let config = Config::load(&[]).expect("the default");
        assert_eq!(config.canonical, CanonicalRule::default());
        assert_eq!(config.sketch.rule(), SketchRule::default());
        assert_eq!(config.cluster, MatchRule::default());
        assert_eq!(config.limits, wire::Limits::default());
        assert_eq!(config.lost, Ranking::default());
        assert_eq!(config.related, RelatedRule::default());
        assert_eq!(config.pipeline, pipeline::Settings::default());
        assert_eq!(config.http, http::Settings::default());
        assert_eq!(config.store_settings(), store::Settings::default());
        assert_eq!(config.kafka, KafkaSettings::default());
        assert_eq!(config.input.fields, FieldMap::default());
    }

    #[test]
    fn the_shipped_profiles_load() {
        assert_eq!(shipped("paper-1997.toml").sketch.rule().rule, Rule::Mod { modulus: 25 });
        assert_eq!(shipped("paper-1997.toml").cluster.common_limit, 1000);
        let paper = shipped("paper-2000.toml").related;
        assert_eq!((paper.bags, paper.window, paper.per_host_max), (BagKind::Anchors, 8, 0));
        assert_eq!(shipped("accurate.toml").sketch.rule().rule, Rule::Adaptive { size: 4096 });
        assert_eq!(shipped("exact.toml").sketch.rule().rule, Rule::All);
        assert_eq!(shipped("kafka.toml").input.from, InputKind::Kafka);
        assert_eq!(shipped("small.toml").pipeline.sketch_cache_mib, 32);
    }

    #[test]
    fn what_is_shown_can_be_loaded() {
        let config = Config::load(&[]).expect("the default");
        let shown = toml::to_string(&config).expect("TOML");
        assert_eq!(toml::to_string(&with(&shown).expect("loads")).expect("TOML"), shown);
    }

    /// Lost once: a setting whose name had one underscore too few, without a word.
    #[test]
    fn misspelt_variables_are_refused() {
        for (name, right) in [
            ("LOOKALIKE_STORE_PATH", "LOOKALIKE__STORE__PATH"),
            ("LOOKALIKE__STORE_PATH", "LOOKALIKE__STORE__PATH"),
            ("LOOKALIKE_SKETCH__W", "LOOKALIKE__SKETCH__W"),
        ] {
            let error =
                Config::load_over(&[], [(name.to_string(), "8".to_string())].into()).expect_err(name).to_string();
            assert!(error.contains(name) && error.contains(right), "{error}");
        }
    }

    /// Lost once: `localhost:8080` was no address.
    #[test]
    fn addresses_may_have_names() {
        let config = with("[http]\nlisten = \"localhost:8080\"\n[metrics]\nlisten = \"[::1]:9464\"").expect("loads");
        let address = config.http_address().expect("resolved");
        assert!(address.ip().is_loopback() && address.port() == 8080, "{address}");
        assert_eq!(config.metrics_address().expect("an address"), "[::1]:9464".parse().ok());
    }

    /// Lost once: a seed of digits alone was taken for a number and refused.
    #[test]
    fn the_environment_overrides_and_keeps_text_as_text() {
        let seed = "1".repeat(64);
        let variables = [
            ("LOOKALIKE__STORE__SEED", seed.as_str()),
            ("LOOKALIKE__SKETCH__W", "8"),
            ("LOOKALIKE__CLUSTER__IGNORE_COMMON", "true"),
            ("LOOKALIKE__SKETCH__RULE", "mod"),
            ("LOOKALIKE__KAFKA__TOPIC", "2026"),
            ("LOOKALIKE__HTTP__TOKEN", "env:LOOKALIKE_HTTP_TOKEN"),
            ("LOOKALIKE_HTTP_TOKEN", "a secret by a name of its own"),
            ("LOOKALIKE_OTHER", "not ours"),
        ];
        let variables = variables.map(|(name, value)| (name.to_string(), value.to_string())).into();
        let config = Config::load_over(&[], variables).expect("loads");
        assert_eq!(config.store.seed, seed);
        assert_eq!(config.sketch.rule().w, 8);
        assert!(config.cluster.ignore_common);
        assert_eq!(config.kafka.topic, "2026");
        let unknown = HashMap::from([("LOOKALIKE__SKETCH__WW".to_string(), "8".to_string())]);
        assert!(Config::load_over(&[], unknown).expect_err("unknown").to_string().contains("ww"));
    }

    #[test]
    fn wrong_configurations_are_refused_with_the_key() {
        for (text, key) in [
            ("[sketch]\nww = 1", "ww"),
            ("[sketches]\nw = 1", "sketches"),
            ("[sketch]\nw = 0", "sketch.w"),
            ("[sketch]\nw = \"ten\"", "sketch.w"),
            ("[sketch]\nrule = \"best\"", "sketch.rule"),
            ("[cluster]\nthreshold = 1.5", "cluster.threshold"),
            ("[cluster]\nignore_common = true", "cluster.ignore_common"),
            ("[store]\nseed = \"12\"", "store.seed"),
            ("[http]\nlisten = \"here\"", "http.listen"),
            ("[http]\nlisten = \"localhost:http\"", "http.listen"),
            ("[http]\nrows_max = 0", "http.rows_max"),
            ("[http]\narchive_url = \"https://archive.example/\"", "http.archive_url"),
            ("[http]\nhosts = \"http://a.example\"", "http.hosts"),
            ("[http]\nrequest_head_bytes_max = 100", "http.request_head_bytes_max"),
            ("[log]\nformat = \"xml\"", "log.format"),
            ("[metrics]\nlisten = \"here\"", "metrics.listen"),
            ("[input]\nfetched_at = \"soon\"", "input.fetched_at"),
            ("[input]\nurl_from = \"row\"", "input.url_from"),
            ("[input.fields]\npreset = \"c5\"", "c5"),
            ("[input.fields]\npreset = \"pointers\"", "input.fields.url"),
            ("[input.fields]\npreset = \"pointers\"\nurl = \"u\"", "input.fields.body"),
            ("[input]\nfrom = \"kafka\"\n[input.fields]\npreset = \"the-pile\"", "input.fields.url"),
            ("[kafka.fields]\nurl = \"/u\"", "fields"),
            ("[sketch\n", "line 1"),
        ] {
            let error = with(text).expect_err(text).to_string();
            assert!(error.contains(key), "{text}: {error}");
        }
    }
}
