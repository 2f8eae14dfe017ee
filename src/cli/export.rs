//! `lookalike export`: writes what the store holds, row by row.

use super::args::{ExportArgs, ExportCommand};
use super::exit::{Exit, ending};
use super::output::RowWriter;
use super::wiring::open_read_only;
use crate::config::Config;
use crate::document::DocumentId;
use crate::ports::{LinkView, Snapshot, Store, StoreError};
use crate::query;
use crate::sketch::compare;
use crate::store::RocksStore;
use anyhow::Result;
use serde::Serialize;

/// Links whose documents are read at once.
const LINKS_AT_ONCE: usize = 4096;

/// Exports links, the present state, or clusters.
pub(super) fn export(config: &Config, command: &ExportCommand, json: bool) -> Result<Exit> {
    let store = open_read_only(config)?;
    match command {
        ExportCommand::Links(args) => export_links(&store, rows(args, json)?)?,
        ExportCommand::Present(args) => {
            write_rows(rows(args, json)?, |write| query::export_present(&store, write))?;
        }
        ExportCommand::Clusters(args) => {
            write_rows(rows(args, json)?, |write| query::export(&store, write))?;
        }
        ExportCommand::Related(args) => {
            require_related_clusters(&store)?;
            write_rows(rows(args, json)?, |write| query::export_related(&store, write))?;
        }
        ExportCommand::Centers(args) => {
            require_related_clusters(&store)?;
            write_rows(rows(args, json)?, |write| query::export_centers(&store, write))?;
        }
    }
    Ok(Exit::Done)
}

fn require_related_clusters(store: &RocksStore) -> Result<()> {
    if query::has_related_clusters(store)? {
        return Ok(());
    }
    Err(ending(Exit::NotFound, query::NO_RELATED_CLUSTERS))
}

fn rows(args: &ExportArgs, json: bool) -> Result<RowWriter> {
    RowWriter::create(args.out.as_deref(), json)
}

/// Writes every row that `each` hands over, until writing fails.
fn write_rows<R: Serialize>(
    mut rows: RowWriter,
    each: impl FnOnce(&mut dyn FnMut(R) -> bool) -> Result<(), StoreError>,
) -> Result<()> {
    let mut written = Ok(());
    each(&mut |row| {
        written = rows.write(&row);
        written.is_ok()
    })?;
    written?;
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

fn export_links(store: &RocksStore, mut rows: RowWriter) -> Result<()> {
    let mut links = Vec::new();
    store.each_link(&mut |link| {
        links.push(link);
        true
    })?;
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
    Ok(rows.finish()?)
}
