//! `lookalike run --role sketcher`: sketches pages for the process that owns the store.

use super::backfill::reading;
use super::exit::{Exit, usage};
use super::output::OutputMode;
use super::telemetry::{self, Metrics, Progress};
use super::wiring::{future_limit, watch_signals};
use crate::config::Config;
use crate::document::{Fingerprint, Seed};
use crate::files::{decode_content, parse_warc_page};
use crate::kafka::{KafkaSketchSink, KafkaSource, StartOptions};
use crate::pipeline::{PoisonTracker, SketchStream, Stats, Summary};
use crate::ports::ProgressMap;
use crate::related::SaidReader;
use anyhow::Result;
use indicatif::HumanCount;
use std::net::SocketAddr;
use std::sync::Arc;

/// The id of all settings that sketchers and the owner must share: what changes how records are read and sketched, and the
/// secret.
pub(super) fn sketch_rule_id(config: &Config, seed: &Seed) -> Result<Fingerprint> {
    let rule = config.rule();
    let related = config.related.on.then_some(&config.related);
    let rule = (rule.canonical_version, rule.canonical, rule.sketch, related);
    let settings = serde_json::to_string(&(rule, reading(config)?, config.kafka.format, config.text_rule().is_some()))?;
    Ok(seed.fingerprint("sketch messages", &[settings.as_bytes()]))
}

/// Sketches pages until a signal comes.
pub(super) fn sketch(config: &Config, metrics: Option<SocketAddr>, accept_gap: bool, mode: OutputMode) -> Result<Exit> {
    let Some(seed) = config.seed().map_err(usage)? else {
        return Err(usage(
            "store.seed is empty: a sketcher needs the seed of the store that its owner writes to. Set the same store.seed \
             for the owner's new store and for every sketcher",
        ));
    };
    telemetry::start_logs(&config.log)?;
    let _metrics = metrics.map(|address| Metrics::start(Some(address))).transpose()?;
    let shutdown = watch_signals()?;
    let options = StartOptions {
        stored: &ProgressMap::new(),
        since: None,
        bootstrap: true,
        accept_gap,
        poison_guard: Arc::new(PoisonTracker::default()),
        fields: &config.input.fields,
        warc: parse_warc_page,
        undo: decode_content,
    };
    let sink = KafkaSketchSink::open(&config.kafka)?;
    let in_hand_max = config.pipeline.skip_poison_records.then_some(config.pipeline.in_flight_records_max);
    let source = KafkaSource::join(&config.kafka, &config.limits, &options, in_hand_max)?;
    let stats = Arc::new(Stats::default());
    let stream = SketchStream {
        settings: config.pipeline.clone(),
        limits: config.limits.clone(),
        sweep_cut: config.input.sweep_cut,
        future: future_limit(config),
        sketcher: config.rule().sketcher(&seed),
        said: config.related.on.then(|| SaidReader::new(&config.related, &seed)),
        texts: config.text_rule(),
        rule: sketch_rule_id(config, &seed)?,
        keeps_originals: config.kafka.dead_letters,
        source: Box::new(source),
        sink: Box::new(sink),
        shutdown,
        stats: Arc::clone(&stats),
    };
    let shown = Progress::new(config.log.progress_seconds, mode.hides_progress()).start(stats);
    let summary = stream.run();
    shown.finish();
    mode.summary(&summary?, |summary| summary_text(summary, &config.kafka.sketches_topic))?;
    Ok(Exit::Done)
}

fn summary_text(summary: &Summary, topic: &str) -> String {
    let seconds = summary.seconds.max(0.001);
    format!(
        "{} records sketched for topic {topic:?} in {seconds:.1} s ({:.0} a second), {} of them rejected\n",
        HumanCount(summary.n_records),
        summary.n_records as f64 / seconds,
        HumanCount(summary.n_rejected()),
    )
}
