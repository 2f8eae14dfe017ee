//! What a backfill did, held against the paper's table and its numbers (Broder 1997, section 5, "Status").

use crate::backfill::checkpoint::{Checkpoint, Counts};
use crate::backfill::usage::{Phase, Usage};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a backfill did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What the records were.
    pub counts: Counts,
    /// Parts of the input that could not be read, and why.
    pub unreadable: Vec<String>,
    /// What the clusters are like.
    pub sizes: ClusterSizes,
    /// What each phase took.
    pub phases: Vec<PhaseReport>,
    /// Bytes of the intermediate files, by what they hold.
    pub files: Vec<(String, u64)>,
    /// Pairs of sketches compared in this run.
    pub n_compared: u64,
}

/// What the clusters are like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterSizes {
    /// Distinct documents.
    pub documents: u64,
    /// Clusters, those of one document included.
    pub clusters: u64,
    /// Clusters of two documents or more.
    pub clusters_of_similar: u64,
    /// Documents in them.
    pub documents_in_clusters_of_similar: u64,
    /// The documents of the largest.
    pub largest: u64,
    /// Clusters of two documents or more that are linked by a resemblance of 1 throughout.
    pub clusters_of_identical: u64,
}

/// What a phase took, beside what it took in 1997.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseReport {
    /// Which.
    pub phase: Phase,
    /// What it took.
    #[serde(flatten)]
    pub usage: Usage,
    /// CPU-days for 30 million pages in the paper.
    pub paper_cpu_days: Option<f64>,
}

impl Report {
    /// The report of a work folder whose phases are over.
    pub(super) fn of(checkpoint: &Checkpoint, sizes: ClusterSizes, n_compared: u64) -> Self {
        let phase = |phase: Phase| PhaseReport {
            phase,
            usage: checkpoint.usage().get(&phase).copied().unwrap_or_default(),
            paper_cpu_days: phase.paper().1,
        };
        Report {
            counts: checkpoint.ingested().counts.clone(),
            unreadable: checkpoint.ingested().unreadable.iter().cloned().collect(),
            sizes,
            phases: Phase::ALL.into_iter().map(phase).collect(),
            files: checkpoint.files(),
            n_compared,
        }
    }

    /// All phases together.
    pub fn total(&self) -> Usage {
        let mut total = Usage::default();
        self.phases.iter().for_each(|phase| total.add(phase.usage));
        total
    }
}

/// The paper's table (its CPU-days for 30 million pages), ours, and the numbers of section 5.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["CPU s", "wall s", "written", "peak memory", "1997 CPU-days", "parallel"];
        let [cpu, wall, written, memory, then, parallel] = head;
        writeln!(f, "{:<24}{cpu:>10}{wall:>10}{written:>12}{memory:>13}{then:>15}{parallel:>10}", "phase")?;
        let row = |f: &mut fmt::Formatter<'_>, name: &str, usage: Usage, days: Option<f64>, parallel: bool| {
            let (cpu, wall) = (usage.cpu_seconds, usage.wall_seconds);
            let (written, memory) = (mib(usage.n_bytes), mib(usage.peak_memory));
            let days = days.map_or(String::new(), |days| format!("{days:.1}"));
            let parallel = if parallel { "yes" } else { "" };
            writeln!(f, "{name:<24}{cpu:>10.1}{wall:>10.1}{written:>12}{memory:>13}{days:>15}{parallel:>10}")
        };
        for report in &self.phases {
            let (name, days, parallel) = report.phase.paper();
            row(f, name, report.usage, days, parallel)?;
        }
        let days = self.phases.iter().filter_map(|phase| phase.paper_cpu_days).sum();
        row(f, "in all", self.total(), Some(days), false)?;
        self.fmt_numbers(f)
    }
}

impl Report {
    fn fmt_numbers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (counts, sizes) = (&self.counts, &self.sizes);
        writeln!(
            f,
            "{} records: {} pages, {} of them equal to one before; {} gone or elsewhere; {} rejected",
            counts.n_records, counts.n_pages, counts.n_equal, counts.n_gone, counts.n_rejected
        )?;
        writeln!(
            f,
            "{} documents in {} clusters; {} clusters of similar documents hold {}, the largest {}",
            sizes.documents,
            sizes.clusters,
            sizes.clusters_of_similar,
            sizes.documents_in_clusters_of_similar,
            sizes.largest
        )?;
        writeln!(
            f,
            "{} of them hold identical sketches only; {} pairs of sketches compared",
            sizes.clusters_of_identical, self.n_compared
        )?;
        let files: Vec<String> = self.files.iter().map(|(name, n)| format!("{name} {}", mib(*n))).collect();
        let in_all = mib(self.files.iter().map(|(_, n_bytes)| n_bytes).sum());
        writeln!(f, "on disk at the peak {in_all}, those of the store (table-…) included: {}", files.join(", "))?;
        self.unreadable.iter().try_for_each(|what| writeln!(f, "not read: {what}"))
    }
}

fn mib(n_bytes: u64) -> String {
    format!("{:.1} MiB", n_bytes as f64 / f64::from(1 << 20))
}
