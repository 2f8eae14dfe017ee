//! What the stream counts: for the summary, the progress bar and the metrics endpoint.

use super::size_alarm::Alarm;
use crate::cluster::Relation;
use crate::ports::Reading;
use crate::wire::{Origin, Rejection};
use metrics::{Histogram, counter, gauge, histogram};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many of the places that could not be read the summary names; the log has all.
const UNREADABLE_TOLD_MAX: usize = 20;

/// Counts of one run. Shared by all stages.
pub struct Stats {
    begin: Instant,
    counts: Mutex<Summary>,
}

/// What one run did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Records taken off the source.
    pub n_records_read: u64,
    /// Their bytes, decompressed.
    pub n_bytes_read: u64,
    /// Records that are durable: the sum of the three below.
    pub n_records: u64,
    /// Pages that got a document and a cluster, by how.
    pub assigned: BTreeMap<&'static str, u64>,
    /// Records that say that nothing stands at a URL any more, or that it redirects.
    pub n_gone: u64,
    /// Records that were no pages, by reason.
    pub rejected: BTreeMap<&'static str, u64>,
    /// The first of them, by reason.
    pub first_rejections: BTreeMap<&'static str, FirstRejection>,
    /// Clusters that lost their name to another one.
    pub n_merged: u64,
    /// Pairs of sketches compared.
    pub n_compared: u64,
    /// Pages of which `cluster.comparisons_max` left candidates uncompared.
    pub n_limited: u64,
    /// Micro-batches written.
    pub n_batches: u64,
    /// Parts of the input that could not be read.
    pub n_unreadable: u64,
    /// The first of them, and why.
    pub unreadable: Vec<String>,
    /// Records between here and the source's end, where known.
    pub lag: Option<u64>,
    /// Wall time.
    pub seconds: f64,
}

/// The first record of a run that was rejected for some reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FirstRejection {
    /// Its file or topic.
    pub source: String,
    /// Its partition there.
    pub partition: i32,
    /// Its offset, or its number in the file, from 0.
    pub offset: i64,
    /// What is wrong with it.
    pub message: String,
}

impl Summary {
    /// Pages that got a document and a cluster.
    pub fn n_assigned(&self) -> u64 {
        self.assigned.values().sum()
    }

    /// Records that were no pages.
    pub fn n_rejected(&self) -> u64 {
        self.rejected.values().sum()
    }
}

/// What one batch did.
#[derive(Default)]
pub(super) struct BatchCounts {
    pub relations: BTreeMap<Relation, u64>,
    pub gone: u64,
    /// How many records were rejected for each reason, and the first of them.
    pub rejected: BTreeMap<&'static str, (u64, FirstRejection)>,
    pub merged: u64,
    pub compared: u64,
    pub limited: u64,
    /// Fragments that new documents say, where pages are read for related pages.
    pub fragments: u64,
}

impl BatchCounts {
    /// Counts a rejected record.
    pub fn reject(&mut self, origin: &Origin, rejection: &Rejection) {
        let first = || FirstRejection {
            source: origin.source.to_string(),
            partition: origin.partition,
            offset: origin.offset,
            message: rejection.message.clone(),
        };
        self.rejected.entry(rejection.reason.as_str()).or_insert_with(|| (0, first())).0 += 1;
    }

    /// How many records were rejected.
    pub fn n_rejected(&self) -> u64 {
        self.rejected.values().map(|(n, _)| n).sum()
    }
}

/// The word for a relation in counts and metrics.
fn relation_name(relation: Relation) -> &'static str {
    match relation {
        Relation::Identical => "identical",
        Relation::Lexical => "lexical",
        Relation::Shingle => "shingle",
        Relation::Near => "near",
        Relation::New => "new",
    }
}

impl Default for Stats {
    fn default() -> Self {
        Stats { begin: Instant::now(), counts: Mutex::default() }
    }
}

impl Stats {
    /// The counts so far.
    pub fn summary(&self) -> Summary {
        Summary { seconds: self.begin.elapsed().as_secs_f64(), ..self.counts().clone() }
    }

    /// Counts stay valid whatever panics elsewhere.
    fn counts(&self) -> MutexGuard<'_, Summary> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn records_read(&self, n_records: usize, n_bytes: usize) {
        let mut counts = self.counts();
        counts.n_records_read += n_records as u64;
        counts.n_bytes_read += n_bytes as u64;
        counter!("lookalike_input_bytes_total").increment(n_bytes as u64);
    }

    pub(super) fn unreadable(&self, what: String) {
        counter!("lookalike_unreadable_inputs_total").increment(1);
        tracing::error!("{what}");
        let mut counts = self.counts();
        counts.n_unreadable += 1;
        if counts.unreadable.len() < UNREADABLE_TOLD_MAX {
            counts.unreadable.push(what);
        }
    }

    /// Counts records whose sketches are with the brokers.
    pub(super) fn acknowledged(&self, n_records: usize) {
        counter!("lookalike_sketches_total").increment(n_records as u64);
        self.counts().n_records += n_records as u64;
    }

    /// Counts a record that is no page, where it is sketched.
    pub(super) fn reject(&self, origin: &Origin, rejection: &Rejection) {
        let mut batch = BatchCounts::default();
        batch.reject(origin, rejection);
        self.count_rejected(&mut self.counts(), &batch);
    }

    fn count_rejected(&self, counts: &mut Summary, batch: &BatchCounts) {
        for (reason, (n, first)) in &batch.rejected {
            counter!("lookalike_pages_total", "outcome" => "rejected").increment(*n);
            counter!("lookalike_rejected_total", "reason" => *reason).increment(*n);
            *counts.rejected.entry(reason).or_default() += n;
            counts.first_rejections.entry(reason).or_insert_with(|| first.clone());
        }
    }

    /// Counts pages whose JSON was mended before it could be read.
    pub(super) fn mended(&self, n: u64) {
        counter!("lookalike_repaired_pages_total").increment(n);
    }

    pub(super) fn set_lag(&self, lag: u64) {
        gauge!("lookalike_lag_records").set(lag as f64);
        self.counts().lag = Some(lag);
    }

    pub(super) fn readings(&self, readings: Vec<Reading>) {
        for Reading { name, labels, value } in readings {
            gauge!(name, &labels).set(value);
        }
    }

    /// Where a sketcher counts what each record takes it: looked up once.
    pub(super) fn sketch_seconds(&self) -> Histogram {
        histogram!("lookalike_stage_seconds", "stage" => "sketch")
    }

    pub(super) fn synced(&self, elapsed: Duration) {
        histogram!("lookalike_stage_seconds", "stage" => "sync").record(elapsed);
    }

    pub(super) fn batch(&self, n_records: usize, batch: &BatchCounts, decide: Duration, write: Duration) {
        histogram!("lookalike_batch_records").record(n_records as f64);
        histogram!("lookalike_stage_seconds", "stage" => "decide").record(decide);
        histogram!("lookalike_stage_seconds", "stage" => "write").record(write);
        counter!("lookalike_pages_total", "outcome" => "gone").increment(batch.gone);
        counter!("lookalike_merges_total").increment(batch.merged);
        counter!("lookalike_comparisons_total").increment(batch.compared);
        counter!("lookalike_comparisons_limited_total").increment(batch.limited);
        counter!("lookalike_fragments_total").increment(batch.fragments);
        let mut counts = self.counts();
        counts.n_batches += 1;
        counts.n_records += n_records as u64;
        counts.n_gone += batch.gone;
        counts.n_merged += batch.merged;
        counts.n_compared += batch.compared;
        counts.n_limited += batch.limited;
        for (relation, n) in &batch.relations {
            let name = relation_name(*relation);
            counter!("lookalike_pages_total", "outcome" => name).increment(*n);
            *counts.assigned.entry(name).or_default() += n;
        }
        self.count_rejected(&mut counts, batch);
    }

    pub(super) fn clusters(&self, n_documents: usize, n_clusters: usize) {
        gauge!("lookalike_documents").set(n_documents as f64);
        gauge!("lookalike_clusters").set(n_clusters as f64);
    }

    pub(super) fn largest_cluster(&self, n_documents: u32) {
        gauge!("lookalike_largest_cluster_documents").set(f64::from(n_documents));
    }

    pub(super) fn alarm(&self, alarm: &Alarm) {
        let Alarm { cluster, n_documents } = alarm;
        counter!("lookalike_cluster_size_alarms_total").increment(1);
        tracing::error!(
            "cluster {cluster} has grown to {n_documents} documents (pipeline.cluster_size_alarm): a template or a chain \
             may hold together what does not belong together; `lookalike query cluster {cluster}` shows it, a store made \
             with a higher cluster.threshold or with cluster.policy = \"star\" would not have it"
        );
    }

    pub(super) fn store_bytes(&self, n_bytes: u64) {
        gauge!("lookalike_store_bytes").set(n_bytes as f64);
    }
}
