//! What a deduplication did.

use super::plan::Plan;
use crate::cli::output::{counted, no_pages_text, rejections_text, unreadable_text};
use crate::dedup::{Counts, Decided, Finished, RejectedRecords};
use indicatif::{HumanBytes, HumanCount};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

/// What a deduplication did, for programs.
#[derive(Serialize)]
pub(super) struct DedupSummary {
    out: PathBuf,
    removed: Option<PathBuf>,
    n_inputs: usize,
    #[serde(flatten)]
    counts: Counts,
    #[serde(flatten)]
    finished: Finished,
    unreadable: Vec<String>,
    rejected: BTreeMap<String, RejectedRecords>,
}

impl DedupSummary {
    pub fn new(plan: &Plan, decided: &Decided, finished: Finished) -> Self {
        DedupSummary {
            out: plan.out.clone(),
            removed: plan.removed.clone(),
            n_inputs: plan.inputs.len(),
            counts: decided.counts,
            finished,
            unreadable: decided.unreadable.clone(),
            rejected: decided.rejected.clone(),
        }
    }
}

/// Why records were rejected.
pub(super) fn rejections(rejected: &BTreeMap<String, RejectedRecords>) -> String {
    rejections_text(rejected.iter().map(|(reason, RejectedRecords { n, source, offset, message })| {
        (reason.as_str(), *n, Some((*offset, source.as_str(), message.as_str())))
    }))
}

/// The same for people.
pub(super) fn summary_text(summary: &DedupSummary, elapsed: Option<Duration>) -> String {
    let DedupSummary { out, removed, n_inputs, counts, finished, unreadable, rejected } = summary;
    let n = |n: u64| HumanCount(n);
    let time = elapsed.map(|elapsed| format!(" in {:.1} s", elapsed.as_secs_f64())).unwrap_or_default();
    let n_removed = counts.n_removed_identical + counts.n_removed_near;
    let mut text = format!(
        "{} of {}{time}: {} kept in {}, {} removed\n  {} have the same content as a kept page, {} are near one\n  \
         {} of files became {}\n",
        counted(counts.n_pages, "page"),
        counted(*n_inputs as u64, "file"),
        n(counts.n_kept),
        out.display(),
        n(n_removed),
        n(counts.n_removed_identical),
        n(counts.n_removed_near),
        HumanBytes(finished.n_bytes_before),
        HumanBytes(finished.n_bytes_after),
    );
    let advice = if removed.is_some() { "" } else { "; --removed FILE lists each with its reason" };
    text += &no_pages_text(counts.n_gone + counts.n_redirected, counts.n_rejected, advice);
    text += &rejections(rejected);
    if counts.n_read_before > 0 {
        let _ = writeln!(
            text,
            "  read before {}: an earlier corpus of the store has what is kept of them",
            n(counts.n_read_before)
        );
    }
    if let Some(path) = removed {
        let _ = writeln!(text, "  {} says what is not in the corpus, and why", path.display());
    }
    text + &unreadable_text(unreadable)
}
