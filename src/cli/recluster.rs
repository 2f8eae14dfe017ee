//! `lookalike recluster`: clusters a store's sketches by another rule.

use super::args::ReclusterArgs;
use super::backfill::memory_limit;
use super::exit::{Exit, ending, file_error, usage};
use super::export::CLUSTER_COLUMNS;
use super::output::OutputMode;
use super::output_path::check_outside_stores;
use super::table::{TableFile, TableFormat, chosen};
use super::wiring::{check_share, open_read_only, open_store, watch_signals};
use crate::backfill::{self, BackfillError, Context, LinkRule, ReclusterPolicy, Reclustered, Representative};
use crate::cluster::Clusters;
use crate::config::Config;
use crate::document::{ClusterId, DocumentId};
use crate::ports::Snapshot;
use crate::query::ExportRow;
use crate::store::{RocksStore, ScratchFolder};
use anyhow::Result;
use indicatif::HumanCount;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a recluster did.
#[derive(Serialize)]
struct ReclusterSummary {
    n_documents: usize,
    n_clusters_before: usize,
    n_clusters: usize,
    /// Events that wait for the next `run`.
    n_events: usize,
    is_applied: bool,
    out: PathBuf,
}

/// Clusters by another rule, writes a row for each sighting, and replaces the store's clusters where asked to.
pub(super) fn recluster(config: &Config, args: &ReclusterArgs, mode: OutputMode) -> Result<Exit> {
    check_share("--threshold", args.threshold, false)?;
    args.containment.map_or(Ok(()), |share| check_share("--containment", share, false))?;
    let policy = policy_of(args)?;
    check_outside_stores("--out", &args.out)?;
    let format = TableFormat::choose(args.format, mode.json, Some(&args.out))?;
    let mut store = match args.apply {
        // The lock is held from before the store is read, so that nothing is taken in meanwhile.
        true if config.store.path.exists() => open_store(config)?,
        _ => open_read_only(config)?,
    };
    let folder = ScratchFolder::beside(&args.out.with_file_name(".lookalike-recluster"));
    let folder = folder.map_err(|error| file_error("create a folder beside", &args.out, &error))?;
    let context = Context {
        folder: folder.path().to_path_buf(),
        n_threads: std::thread::available_parallelism().map_or(1, usize::from),
        memory: memory_limit(args.memory),
        stop: watch_signals()?,
        progress: Default::default(),
    };
    store.stops_with(Arc::clone(&context.stop));
    let rule = LinkRule { threshold: args.threshold, containment: args.containment };
    let reclustered = backfill::recluster(&store, &context, rule, policy);
    drop(folder);
    let reclustered = match reclustered {
        Err(BackfillError::Stopped) => return Err(ending(Exit::Interrupted, "stopped; nothing was written")),
        reclustered => reclustered?,
    };
    let n_clusters_before = store.clusters()?.n_clusters();
    let columns = chosen(CLUSTER_COLUMNS.all, CLUSTER_COLUMNS.default, &[])?;
    write_clusters(&store, &reclustered.names, TableFile::create(Some(&args.out), format, columns)?)?;
    let n_events = if args.apply { apply(&mut store, rule, policy, &reclustered)? } else { 0 };
    let is_first = |(at, name): (usize, &DocumentId)| name.0 as usize == at + 1;
    let summary = ReclusterSummary {
        n_documents: reclustered.names.len(),
        n_clusters_before,
        n_clusters: reclustered.names.iter().enumerate().filter(|pair| is_first(*pair)).count(),
        n_events,
        is_applied: args.apply,
        out: args.out.clone(),
    };
    mode.summary(&summary, |summary| summary_text(summary, &config.store.path))?;
    Ok(Exit::Done)
}

fn policy_of(args: &ReclusterArgs) -> Result<ReclusterPolicy> {
    let Some(representative) = args.representative else { return Ok(args.policy) };
    let policy = args.policy.with_representative(representative);
    policy.ok_or_else(|| usage("--representative needs --policy greedy: clusters of other policies have none"))
}

fn summary_text(summary: &ReclusterSummary, store: &Path) -> String {
    let n = |n: usize| HumanCount(n as u64);
    let ReclusterSummary { n_documents, n_clusters_before, n_clusters, n_events, is_applied, out } = summary;
    let result = format!(
        "{} documents form {} clusters instead of {}, written to {}",
        n(*n_documents),
        n(*n_clusters),
        n(*n_clusters_before),
        out.display(),
    );
    let store = store.display();
    if *is_applied {
        format!("{result}; {store} has them now, and the next `run` publishes {} events\n", n(*n_events))
    } else {
        format!("{result}; {store} is unchanged\n")
    }
}

/// Replaces the store's clusters and returns how many events that makes.
fn apply(store: &mut RocksStore, rule: LinkRule, policy: ReclusterPolicy, reclustered: &Reclustered) -> Result<usize> {
    let mut old = store.clusters()?;
    let names: Vec<_> = old.cluster_of_each().into_iter().map(|cluster| DocumentId(cluster.0)).collect();
    let events = backfill::cluster_diff_events(store, &names, &reclustered.names, store.next_seq())?;
    let mut clusters = Clusters::alone(old.n_documents());
    for link in &reclustered.links {
        clusters.union(link.document, link.to);
    }
    // A link by containment may have any resemblance, and one between members who resemble a representative.
    let is_popular = policy == ReclusterPolicy::Greedy(Representative::Popular);
    let linked_from = if is_popular || rule.containment.is_some() { 0.0 } else { rule.threshold };
    store.replace_clusters(&clusters, &reclustered.links, linked_from, &events)?;
    Ok(events.len())
}

fn write_clusters(store: &RocksStore, names: &[DocumentId], mut rows: TableFile) -> Result<()> {
    let mut failed = None;
    store.each_sighting(&mut |sighting| {
        let Some(document) = sighting.moment.seen.document() else { return true };
        let written = rows.write(&ExportRow {
            url: sighting.url,
            fetched_at: sighting.moment.fetched_at,
            sweep: sighting.moment.sweep.unwrap_or_default(),
            document,
            cluster: ClusterId(names[document.0 as usize - 1].0),
        });
        failed = written.err();
        failed.is_none()
    })?;
    failed.map_or(Ok(()), Err)?;
    rows.finish()
}
