//! `lookalike recluster` and `lookalike export links`: what the sketches of a store say under another rule, and what its
//! clusters rest on.

use super::args::ReclusterArgs;
use super::files::{Rows, rows_to};
use super::run::{open_store, watch_signals};
use super::{Exit, ending};
use crate::backfill::{self, BackfillError, LinkRule, Reclustered};
use crate::cluster::Clusters;
use crate::config::Config;
use crate::document::{ClusterId, DocumentId};
use crate::ports::{LinkView, Snapshot, Store};
use crate::query::ExportRow;
use crate::sketch::compare;
use crate::store::RocksStore;
use anyhow::{Context, Result};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;

/// Links whose documents are read at once.
const LINKS_AT_ONCE: usize = 4096;

/// Clusters anew and writes one row for each sighting.
pub(super) fn recluster(config: &Config, args: &ReclusterArgs) -> Result<Exit> {
    let is_share = |number: f64| number > 0.0 && number <= 1.0;
    if !is_share(args.threshold) || !args.containment.is_none_or(is_share) {
        return Err(ending(Exit::Usage, "--threshold and --containment are over 0 and at most 1"));
    }
    let mut store = match args.apply {
        // OffsetRange from before it is read, so that nothing is taken in meanwhile.
        true if config.store.path.exists() => open_store(config)?,
        _ => RocksStore::open_read_only(&config.store.path, &config.store_settings())?,
    };
    let beside = args.out.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = beside.join(format!(".lookalike-recluster-{}", std::process::id()));
    std::fs::create_dir(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    let context = backfill::Context {
        folder: folder.clone(),
        n_threads: std::thread::available_parallelism().map_or(1, usize::from),
        memory: args.memory.map_or_else(|| backfill::machine_memory() / 3, |mib| mib << 20).max(1 << 20),
        stop: watch_signals()?,
        progress: Default::default(),
    };
    store.stops_with(Arc::clone(&context.stop));
    let rule = LinkRule { threshold: args.threshold, containment: args.containment };
    let anew = backfill::recluster(&store, &context, rule, args.policy);
    std::fs::remove_dir_all(&folder).with_context(|| format!("{} cannot be removed", folder.display()))?;
    let anew = match anew {
        Err(BackfillError::Stopped) => return Err(ending(Exit::Interrupted, "stopped; nothing was written")),
        anew => anew?,
    };
    write_clusters(&store, &anew.names, rows_to(Some(&args.out), args.json)?)?;
    if args.apply {
        apply(&mut store, rule, &anew)?;
    }
    Ok(Exit::Done)
}

/// Swaps the store's clusters for new ones.
fn apply(store: &mut RocksStore, rule: LinkRule, anew: &Reclustered) -> Result<()> {
    let mut old = store.clusters()?;
    let names = |clusters: &mut Clusters| -> Vec<DocumentId> {
        (1..=store.n_documents()).map(|id| DocumentId(clusters.cluster_of(DocumentId(id)).0)).collect()
    };
    let events = backfill::cluster_diff_events(store, &names(&mut old), &anew.names, store.next_seq())?;
    let mut clusters = Clusters::alone(old.n_documents());
    for link in &anew.links {
        clusters.union(link.document, link.to);
    }
    // Of a link by containment any resemblance is right.
    let linked_from = if rule.containment.is_some() { 0.0 } else { rule.threshold };
    Ok(store.replace_clusters(&clusters, &anew.links, linked_from, &events)?)
}

fn write_clusters(store: &RocksStore, names: &[DocumentId], mut rows: Rows) -> Result<()> {
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
    Ok(rows.finish()?)
}

/// A link as it is exported.
#[derive(Serialize)]
struct LinkRow {
    document: DocumentId,
    to: DocumentId,
    resemblance: f64,
    containment: f64,
    url: String,
    to_url: String,
}

/// Writes one row for each link.
pub(super) fn export_links(config: &Config, output: Option<&Path>, json: bool) -> Result<Exit> {
    let store = RocksStore::open_read_only(&config.store.path, &config.store_settings())?;
    let mut links = Vec::new();
    store.each_link(&mut |link| {
        links.push(link);
        true
    })?;
    let mut rows = rows_to(output, json)?;
    for links in links.chunks(LINKS_AT_ONCE) {
        let documents: Vec<DocumentId> = links.iter().flat_map(|link| [link.document, link.to]).collect();
        let (sketches, urls) = (store.sketches_of(&documents)?, store.first_urls(&documents)?);
        let (sketches, urls) = (sketches.as_chunks::<2>().0, urls.as_chunks::<2>().0);
        for ((link, [a, b]), [url, to_url]) in links.iter().zip(sketches).zip(urls) {
            let estimate = compare(a, b, store.rule().sketch.rule);
            rows.write(&LinkRow {
                document: link.document,
                to: link.to,
                resemblance: link.resemblance,
                containment: estimate.containment_of_first.max(estimate.containment_of_second),
                url: url.clone(),
                to_url: to_url.clone(),
            })?;
        }
    }
    rows.finish()?;
    Ok(Exit::Done)
}
