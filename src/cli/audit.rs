//! `lookalike audit`: clusters that look as if a template or a chain had made them.

use super::answer_table::{self, AnswerFormat, print_as};
use super::exit::Exit;
use super::render::percent;
use super::wiring::open_read_only;
use crate::config::Config;
use crate::query::{self, AuditRow, Finding, Remedy};
use anyhow::Result;
use indicatif::HumanCount;
use serde::Serialize;
use std::fmt::Write;

/// The suspicious clusters, for programs.
#[derive(Serialize)]
struct Audit {
    /// How many there are.
    n_suspicious: usize,
    /// The first of them.
    clusters: Vec<AuditRow>,
}

/// Prints the suspicious clusters.
pub(super) fn audit(config: &Config, n_documents_min: usize, limit: usize, format: AnswerFormat) -> Result<Exit> {
    let mut clusters = query::audit(&open_read_only(config)?, n_documents_min)?;
    let n_suspicious = clusters.len();
    clusters.truncate(limit);
    print_as(&Audit { n_suspicious, clusters }, format, answer_table::AUDIT, |audit| text_of(audit, n_documents_min))
}

fn text_of(audit: &Audit, n_documents_min: usize) -> String {
    let Audit { n_suspicious, clusters } = audit;
    if *n_suspicious == 0 {
        return format!(
            "no cluster of {n_documents_min} documents or more looks as if a template or a chain had made it\n"
        );
    }
    let mut text = String::new();
    for row in clusters {
        let AuditRow { cluster, n_documents, n_names, top_name, other_names, far_from_center, .. } = row;
        let n_documents = HumanCount(*n_documents as u64);
        let _ = match row.finding {
            Finding::Template => writeln!(
                text,
                "cluster {cluster}: {n_documents} documents of {n_names} names; {} have another than {top_name:?}",
                percent(*other_names)
            ),
            Finding::Chain => writeln!(
                text,
                "cluster {cluster}: {n_documents} versions of {top_name:?}; {} do not resemble the one in the middle",
                percent(*far_from_center)
            ),
        };
        let AuditRow { weakest_link, weak_links, farthest: [a, b], farthest_resemblance, .. } = row;
        let _ = writeln!(
            text,
            "  weakest link {}, {} of the links are weak; documents {a} and {b} resemble each other by {}: lookalike \
             explain {a} {b}",
            percent(*weakest_link),
            percent(*weak_links),
            percent(*farthest_resemblance)
        );
        let _ = match row.remedy {
            Remedy::Threshold { threshold, n_parts } => writeln!(
                text,
                "  under --threshold {threshold} it comes apart into {n_parts} parts of one name each: lookalike recluster"
            ),
            Remedy::Star => writeln!(text, "  under --policy star each page resembles its center: lookalike recluster"),
            Remedy::MainContent => writeln!(
                text,
                "  no threshold separates the names; canonical.content = \"main\" in a new store leaves the frame out"
            ),
        };
    }
    if *n_suspicious > clusters.len() {
        let _ = writeln!(text, "{} more; --limit shows them", HumanCount((n_suspicious - clusters.len()) as u64));
    }
    text
}
