//! What a related build is of, its phases, and its report beside the table of the paper (Haveliwala, Gionis and Indyk
//! 2000, section 6).

use crate::backfill::checkpoint::Work;
use crate::backfill::progress::PhaseName;
use crate::backfill::report::RecordCounts;
use crate::backfill::usage::Usage;
use crate::related::RelatedRule;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The work that finds related pages.
pub struct RelatedBuild;

/// What a build is of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BuildSpec {
    /// How bags are made and compared.
    pub rule: RelatedRule,
    /// All settings that change how records are read, as text.
    pub reading: String,
    /// The inputs: the name and the size in bytes of each.
    pub inputs: Vec<(String, u64)>,
}

impl Work for RelatedBuild {
    type Spec = BuildSpec;
    type Phase = BuildPhase;
    type Report = BuildReport;

    fn difference(found: &BuildSpec, wanted: &BuildSpec, _: bool) -> Option<&'static str> {
        match () {
            () if found.rule != wanted.rule => Some("another rule"),
            () if found.reading != wanted.reading => Some("other limits"),
            () if found.inputs != wanted.inputs => Some("other inputs"),
            () => None,
        }
    }
}

/// The phases, as the paper's table has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BuildPhase {
    /// Reads what pages say about themselves and about others.
    Bags,
    /// Sorts it by URL, counts terms and weighs them.
    BagSort,
    /// Signs the bags.
    Signatures,
    /// Finds the bags whose signatures agree in the values of a round.
    Pairs,
    /// Keeps the pairs that are similar.
    Filter,
    /// Sorts the pairs both ways.
    Sort,
    /// Scans the pairs for centers.
    Center,
}

impl BuildPhase {
    /// All phases, in the order in which they run.
    pub const ALL: [BuildPhase; 7] = [
        BuildPhase::Bags,
        BuildPhase::BagSort,
        BuildPhase::Signatures,
        BuildPhase::Pairs,
        BuildPhase::Filter,
        BuildPhase::Sort,
        BuildPhase::Center,
    ];

    /// The phase's name, and from the paper's table its hours for 20 million of 35 million URLs.
    pub fn paper(self) -> (&'static str, f64) {
        match self {
            BuildPhase::Bags => ("bags", 23.0),
            BuildPhase::BagSort => ("bag sort", 4.7),
            BuildPhase::Signatures => ("signatures", 26.0),
            BuildPhase::Pairs => ("pairs", 16.0),
            BuildPhase::Filter => ("filter", 83.0),
            BuildPhase::Sort => ("sort", 107.0),
            BuildPhase::Center => ("CENTER", 18.0),
        }
    }
}

impl From<BuildPhase> for PhaseName {
    fn from(phase: BuildPhase) -> Self {
        PhaseName { name: phase.paper().0, reads_pages: phase == BuildPhase::Bags }
    }
}

/// What a build did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BuildReport {
    /// Counts of the records.
    pub counts: RecordCounts,
    /// Parts of the input that could not be read, and why.
    pub unreadable: Vec<String>,
    /// Counts of the URLs, pairs and clusters.
    pub sizes: BuildSizes,
    /// What each phase took.
    pub phases: Vec<BuildPhaseReport>,
}

/// Counts of the URLs, pairs and clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildSizes {
    /// URLs with a bag.
    pub urls: u64,
    /// Terms in all bags.
    pub terms: u64,
    /// Pairs of bags whose signatures agree in the values of a round.
    pub candidate_pairs: u64,
    /// Pairs of similar bags.
    pub pairs: u64,
    /// Clusters, those of one URL included: each has one center.
    pub clusters: u64,
    /// Clusters of two URLs or more.
    pub clusters_of_related: u64,
    /// URLs in the largest cluster.
    pub largest: u64,
}

/// What a phase took, beside what it took in 2000.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BuildPhaseReport {
    /// The phase.
    pub phase: BuildPhase,
    /// What the phase took.
    #[serde(flatten)]
    pub usage: Usage,
    /// Hours for 20 million of 35 million URLs in the paper.
    pub paper_hours: f64,
}

/// What each phase took, in the order of the phases.
pub(super) fn phase_reports(usage: &BTreeMap<BuildPhase, Usage>) -> Vec<BuildPhaseReport> {
    let report = |phase: BuildPhase| BuildPhaseReport {
        phase,
        usage: usage.get(&phase).copied().unwrap_or_default(),
        paper_hours: phase.paper().1,
    };
    BuildPhase::ALL.into_iter().map(report).collect()
}

impl BuildReport {
    /// What all phases took together.
    pub fn total(&self) -> Usage {
        let mut total = Usage::default();
        self.phases.iter().for_each(|phase| total.add(phase.usage));
        total
    }
}
