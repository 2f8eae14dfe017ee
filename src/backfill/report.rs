//! The final report: what a backfill did, beside the table of the paper (Broder 1997, section 5, "Status").

use super::usage::{Phase, Usage};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// What a backfill did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Counts of the records.
    pub counts: RecordCounts,
    /// Parts of the input that could not be read, and why.
    pub unreadable: Vec<String>,
    /// Counts and sizes of the clusters.
    pub sizes: ClusterSizes,
    /// What each phase took.
    pub phases: Vec<PhaseReport>,
    /// Bytes of the intermediate files by data set, the largest first.
    pub files: Vec<(String, u64)>,
    /// Pairs of sketches compared in this run.
    pub n_compared: u64,
}

/// Counts of the records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordCounts {
    /// All records.
    pub n_records: u64,
    /// Bytes of all records, decompressed.
    pub n_bytes: u64,
    /// Pages with a content.
    pub n_pages: u64,
    /// Pages whose content equals an earlier one.
    pub n_equal: u64,
    /// URLs without a page, or with a redirect.
    pub n_gone: u64,
    /// Records that are no pages.
    pub n_rejected: u64,
}

/// Counts and sizes of the clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterSizes {
    /// Distinct documents.
    pub documents: u64,
    /// Clusters, those of one document included.
    pub clusters: u64,
    /// Clusters of two documents or more.
    pub clusters_of_similar: u64,
    /// Documents in clusters of two or more.
    pub documents_in_clusters_of_similar: u64,
    /// Documents in the largest cluster.
    pub largest: u64,
    /// Clusters of two documents or more whose links all have a resemblance of 1.
    pub clusters_of_identical: u64,
}

/// What a phase took, beside what it took in 1997.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseReport {
    /// The phase.
    pub phase: Phase,
    /// What the phase took.
    #[serde(flatten)]
    pub usage: Usage,
    /// CPU-days for 30 million pages in the paper.
    pub paper_cpu_days: Option<f64>,
}

/// What each phase took, in the order of the phases.
pub(super) fn phase_reports(usage: &BTreeMap<Phase, Usage>) -> Vec<PhaseReport> {
    let report = |phase: Phase| PhaseReport {
        phase,
        usage: usage.get(&phase).copied().unwrap_or_default(),
        paper_cpu_days: phase.paper().1,
    };
    Phase::ALL.into_iter().map(report).collect()
}

impl Report {
    /// What all phases took together.
    pub fn total(&self) -> Usage {
        let mut total = Usage::default();
        self.phases.iter().for_each(|phase| total.add(phase.usage));
        total
    }

    fn fmt_phases(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["CPU s", "wall s", "written", "peak memory", "1997 CPU-days", "parallel"];
        let [cpu, wall, written, memory, days_1997, parallel] = head;
        writeln!(f, "{:<24}{cpu:>10}{wall:>10}{written:>12}{memory:>13}{days_1997:>15}{parallel:>10}", "phase")?;
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
        row(f, "total", self.total(), Some(days), false)
    }

    fn fmt_counts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (counts, sizes) = (&self.counts, &self.sizes);
        writeln!(
            f,
            "{} records: {} pages, {} of them equal to an earlier page; {} gone or redirected; {} rejected",
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
            "{} clusters of similar documents hold identical sketches only; {} pairs of sketches compared",
            sizes.clusters_of_identical, self.n_compared
        )?;
        let files: Vec<String> = self.files.iter().map(|(name, n)| format!("{name} {}", mib(*n))).collect();
        let total = mib(self.files.iter().map(|(_, n_bytes)| n_bytes).sum());
        writeln!(f, "peak on disk {total}, with the tables of the store (table-…): {}", files.join(", "))?;
        self.unreadable.iter().try_for_each(|part| writeln!(f, "not read: {part}"))
    }
}

/// The paper's table with the phases of this run, and the counts of its section 5.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_phases(f)?;
        self.fmt_counts(f)
    }
}

fn mib(n_bytes: u64) -> String {
    format!("{:.1} MiB", n_bytes as f64 / f64::from(1 << 20))
}
