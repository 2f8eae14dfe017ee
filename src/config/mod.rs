//! Configuration: the built-in defaults, then files, then the environment; one checked [`Config`] comes out.

use crate::cluster::MatchRule;
use crate::document::{CANONICAL_VERSION, FetchTime, Seed};
use crate::kafka::KafkaSettings;
use crate::ports::StoreRule;
use crate::sketch::{Multiplicity, Rule, SketchRule};
use crate::sweep::{Ranking, SweepCut};
use crate::{http, pipeline, store, wire};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The built-in configuration: every key has its default here.
pub const DEFAULT: &str = include_str!("../../config/default.toml");

/// Environment variables `LOOKALIKE__SECTION__KEY` override `section.key`.
const ENVIRONMENT_PREFIX: &str = "LOOKALIKE";

/// A configuration that cannot be used, and what to change.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

/// The whole configuration, checked. It serialises as the file that would give it, secrets left out.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `[store]`
    pub store: StoreSection,
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
    /// `[lost]`
    pub lost: Ranking,
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
}

/// Where the store is, and how RocksDB uses the machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreSection {
    /// The folder.
    pub path: PathBuf,
    /// The seed of a new store; empty: random.
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
    /// See [`store::Settings::background_threads`].
    pub background_threads: i32,
}

/// How documents are sketched: [`SketchRule`], flat, so that every key can be overridden alone.
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
    /// Milliseconds from one note of what is finished to the next.
    pub checkpoint_ms: u64,
}

/// What `run` reads.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputSection {
    /// Files or Kafka.
    pub from: InputKind,
    /// The sweep of pages that name none themselves.
    pub sweep: String,
    /// The time of WARC records that tell none themselves and follow on none that does, in RFC 3339; empty: none.
    pub fetched_at: String,
    /// How pages that still have none are put into sweeps by their date.
    pub sweep_cut: SweepCut,
    /// Days ahead of the clock that a page may be dated; 0: without limit.
    pub future_days_max: u32,
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

/// Where events go beside Kafka.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventsSection {
    /// A path, `-`, or empty.
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
    /// How often a line tells the progress; 0: never.
    pub progress_seconds: u64,
}

fn hidden<S: serde::Serializer>(seed: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(if seed.is_empty() { "" } else { "(secret)" })
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
        Self::load_over(files, std::env::vars().collect())
    }

    fn load_over(files: &[PathBuf], variables: HashMap<String, String>) -> Result<Self, ConfigError> {
        let mut builder =
            config::Config::builder().add_source(config::File::from_str(DEFAULT, config::FileFormat::Toml));
        for file in files {
            builder = builder.add_source(config::File::from_str(&read(file)?, config::FileFormat::Toml));
        }
        let environment = config::Environment::with_prefix(ENVIRONMENT_PREFIX)
            .prefix_separator("__")
            .separator("__")
            .source(Some(variables));
        let config: Config = builder
            .add_source(environment)
            .build()
            .and_then(config::Config::try_deserialize)
            .map_err(|error| ConfigError(format!("the configuration is wrong: {error}")))?;
        config.check()?;
        Ok(config)
    }

    /// The rules that a store is made with.
    pub fn rule(&self) -> StoreRule {
        StoreRule { canonical_version: CANONICAL_VERSION, sketch: self.sketch.rule(), cluster: self.cluster.clone() }
    }

    /// The seed of a new store, where one is configured.
    ///
    /// # Errors
    /// [`ConfigError`] where it is no seed.
    pub fn seed(&self) -> Result<Option<Seed>, ConfigError> {
        if self.store.seed.is_empty() {
            return Ok(None);
        }
        self.store.seed.parse().map(Some).map_err(|error| ConfigError(format!("store.seed: {error}")))
    }

    /// How RocksDB is to use the machine.
    pub fn store_settings(&self) -> store::Settings {
        store::Settings {
            block_cache_mib: self.store.block_cache_mib,
            write_buffer_mib: self.store.write_buffer_mib,
            wal_mib: self.store.wal_mib,
            posting_buffer_mib: self.store.posting_buffer_mib,
            background_threads: self.store.background_threads,
        }
    }

    /// The time of records that tell none, where one is configured.
    ///
    /// # Errors
    /// [`ConfigError`] where it is no time.
    pub fn fetched_at(&self) -> Result<Option<FetchTime>, ConfigError> {
        if self.input.fetched_at.is_empty() {
            return Ok(None);
        }
        self.input.fetched_at.parse().map(Some).map_err(|error| ConfigError(format!("input.fetched_at: {error}")))
    }

    /// Where the Prometheus endpoint listens, if anywhere.
    ///
    /// # Errors
    /// [`ConfigError`] where it is no address.
    pub fn metrics_address(&self) -> Result<Option<SocketAddr>, ConfigError> {
        if self.metrics.listen.is_empty() {
            return Ok(None);
        }
        let address = self.metrics.listen.parse();
        address.map(Some).map_err(|error| ConfigError(format!("metrics.listen = {:?}: {error}", self.metrics.listen)))
    }

    /// Where the HTTP door listens.
    ///
    /// # Errors
    /// [`ConfigError`] where it is no address.
    pub fn http_address(&self) -> Result<SocketAddr, ConfigError> {
        let listen = &self.http.listen;
        listen.parse().map_err(|error| ConfigError(format!("http.listen = {listen:?}: {error}")))
    }

    fn check(&self) -> Result<(), ConfigError> {
        let problems = [
            ("sketch", self.sketch.rule().problem()),
            ("cluster", self.cluster.problem()),
            ("pipeline", self.pipeline.problem()),
            ("lost", self.lost.problem()),
            ("http", self.http.problem()),
        ];
        for (section, problem) in problems {
            if let Some(problem) = problem {
                return Err(ConfigError(format!("{section}.{problem}")));
            }
        }
        if self.cluster.ignore_common && matches!(self.sketch.rule, RuleName::Parity) {
            let why = "which needs sketches of whole shingles; sketch.rule = \"parity\" keeps none";
            return Err(ConfigError(format!("cluster.ignore_common is true, {why}")));
        }
        self.seed()?;
        self.fetched_at()?;
        self.metrics_address()?;
        self.http_address()?;
        self.kafka.check().map_err(|error| ConfigError(error.to_string()))
    }
}

fn read(file: &Path) -> Result<String, ConfigError> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| ConfigError(format!("the configuration {} cannot be read: {error}", file.display())))?;
    // Parsed here as well, because only here its name is known.
    toml::from_str::<toml::Table>(&text)
        .map_err(|error| ConfigError(format!("the configuration {}: {error}", file.display())))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str) -> Result<Config, ConfigError> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("written");
        Config::load(&[file.path().to_path_buf()])
    }

    fn shipped(name: &str) -> Config {
        Config::load(&[Path::new(env!("CARGO_MANIFEST_DIR")).join("config").join(name)]).expect(name)
    }

    #[test]
    fn the_default_file_holds_the_defaults_of_the_code() {
        let config = Config::load(&[]).expect("the default");
        assert_eq!(config.sketch.rule(), SketchRule::default());
        assert_eq!(config.cluster, MatchRule::default());
        assert_eq!(config.limits, wire::Limits::default());
        assert_eq!(config.lost, Ranking::default());
        assert_eq!(config.pipeline, pipeline::Settings::default());
        assert_eq!(config.http, http::Settings::default());
        assert_eq!(config.store_settings(), store::Settings::default());
        assert_eq!(config.kafka, KafkaSettings::default());
    }

    #[test]
    fn the_shipped_profiles_load() {
        assert_eq!(shipped("paper-1997.toml").sketch.rule().rule, Rule::Mod { modulus: 25 });
        assert_eq!(shipped("paper-1997.toml").cluster.common_limit, 1000);
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
            ("[http]\nrows_max = 0", "http.rows_max"),
            ("[http]\nhosts = \"http://a.example\"", "http.hosts"),
            ("[http]\nhead_bytes_max = 100", "http.request_head_bytes_max"),
            ("[metrics]\nlisten = \"here\"", "metrics.listen"),
            ("[sketch\n", "line 1"),
        ] {
            let error = with(text).expect_err(text).to_string();
            assert!(error.contains(key), "{text}: {error}");
        }
    }
}
