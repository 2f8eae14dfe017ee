//! `lookalike export`: writes what the store holds, row by row.

use super::args::{ExportArgs, ExportCommand};
use super::exit::{Exit, ending};
use super::table::{Column, TableFormat, TableWriter, chosen, column};
use super::wiring::open_read_only;
use crate::config::Config;
use crate::document::{ClusterId, DocumentId};
use crate::ports::{LinkView, Snapshot, Store, StoreError};
use crate::query::{self, ExportRow, PresentRow};
use crate::sketch::compare;
use crate::store::RocksStore;
use anyhow::Result;
use serde::Serialize;

/// Links whose documents are read at once.
const LINKS_AT_ONCE: usize = 4096;

/// The columns that a table may have, and those that it has where none are named.
pub(super) struct TableColumns {
    pub all: &'static [Column],
    pub default: &'static [&'static str],
}

pub(super) const CLUSTER_COLUMNS: TableColumns = TableColumns {
    all: &[
        column!("url", Text),
        column!("fetched_at", Time),
        column!("sweep", Text),
        column!("document", Number),
        column!("cluster", Number),
        column!("words", Number),
        column!("bytes", Number),
        column!("representative", Flag),
    ],
    default: &["url", "fetched_at", "sweep", "document", "cluster"],
};

const PRESENT_COLUMNS: TableColumns = TableColumns {
    all: &[
        column!("url", Text),
        column!("fetched_at", Time),
        column!("sweep", Text),
        column!("document", Number),
        column!("cluster", Number),
        column!("state", Text),
        column!("words", Number),
        column!("bytes", Number),
        column!("representative", Flag),
    ],
    default: &["url", "fetched_at", "sweep", "document", "cluster", "state"],
};

const LINK_COLUMNS: TableColumns = TableColumns {
    all: &[
        column!("document", Number),
        column!("to", Number),
        column!("resemblance", Share),
        column!("containment", Share),
        column!("url", Text),
        column!("to_url", Text),
        column!("words", Number),
        column!("bytes", Number),
        column!("to_words", Number),
        column!("to_bytes", Number),
    ],
    default: &["document", "to", "resemblance", "containment", "url", "to_url"],
};

const RELATED_COLUMNS: TableColumns = TableColumns {
    all: &[column!("url", Text), column!("related", Text), column!("similarity", Share)],
    default: &["url", "related", "similarity"],
};

const CENTER_COLUMNS: TableColumns =
    TableColumns { all: &[column!("url", Text), column!("center", Text)], default: &["url", "center"] };

/// Exports links, the present state, or clusters.
pub(super) fn export(config: &Config, command: &ExportCommand, json: bool) -> Result<Exit> {
    let store = open_read_only(config)?;
    match command {
        ExportCommand::Links(args) => export_links(&store, table(args, &LINK_COLUMNS, json)?)?,
        ExportCommand::Present(args) => {
            let sizes = Sizes::read(&store, &args.columns)?;
            let row = |row: PresentRow| sizes.detailed(row.document, row.cluster, row);
            write_rows(table(args, &PRESENT_COLUMNS, json)?, row, |write| query::export_present(&store, write))?;
        }
        ExportCommand::Clusters(args) => {
            let sizes = Sizes::read(&store, &args.columns)?;
            let row = |row: ExportRow| sizes.detailed(Some(row.document), Some(row.cluster), row);
            write_rows(table(args, &CLUSTER_COLUMNS, json)?, row, |write| query::export(&store, write))?;
        }
        ExportCommand::Related(args) => {
            require_related_clusters(&store)?;
            write_rows(table(args, &RELATED_COLUMNS, json)?, |row| row, |write| query::export_related(&store, write))?;
        }
        ExportCommand::Centers(args) => {
            require_related_clusters(&store)?;
            write_rows(table(args, &CENTER_COLUMNS, json)?, |row| row, |write| query::export_centers(&store, write))?;
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

fn table(args: &ExportArgs, columns: &TableColumns, json: bool) -> Result<TableWriter> {
    let columns = chosen(columns.all, columns.default, &args.columns)?;
    let out = args.out.as_deref();
    TableWriter::create(out, TableFormat::choose(args.format, json, out), columns)
}

/// Writes every row that `each` hands over, until writing fails.
fn write_rows<R, D: Serialize>(
    mut rows: TableWriter,
    detailed: impl Fn(R) -> D,
    each: impl FnOnce(&mut dyn FnMut(R) -> bool) -> Result<(), StoreError>,
) -> Result<()> {
    let mut written = Ok(());
    each(&mut |row| {
        written = rows.write(&detailed(row));
        written.is_ok()
    })?;
    written?;
    Ok(rows.finish()?)
}

/// The words and bytes of every document, in the order of their numbers; empty where no column asks for them.
struct Sizes(Vec<(u32, u64)>);

/// A row, and what is known of its document.
#[derive(Serialize)]
struct DetailedRow<R> {
    #[serde(flatten)]
    row: R,
    words: Option<u32>,
    bytes: Option<u64>,
    /// Whether the cluster has its name from this document.
    representative: Option<bool>,
}

impl Sizes {
    fn read(store: &RocksStore, columns: &[String]) -> Result<Self, StoreError> {
        let mut sizes = Vec::new();
        if columns.iter().any(|column| ["words", "bytes"].contains(&column.as_str())) {
            sizes.reserve(store.n_documents() as usize);
            store.each_size(&mut |_, n_words, n_bytes| sizes.push((n_words, n_bytes)))?;
        }
        Ok(Sizes(sizes))
    }

    fn detailed<R>(&self, document: Option<DocumentId>, cluster: Option<ClusterId>, row: R) -> DetailedRow<R> {
        let size = document.and_then(|document| self.0.get(document.0 as usize - 1));
        DetailedRow {
            row,
            words: size.map(|size| size.0),
            bytes: size.map(|size| size.1),
            representative: document.zip(cluster).map(|(document, cluster)| document.0 == cluster.0),
        }
    }
}

/// A link as it is exported.
#[derive(Serialize)]
struct LinkRow<'a> {
    document: DocumentId,
    to: DocumentId,
    resemblance: f64,
    containment: f64,
    url: &'a str,
    to_url: &'a str,
    words: u32,
    bytes: u64,
    to_words: u32,
    to_bytes: u64,
}

fn export_links(store: &RocksStore, mut rows: TableWriter) -> Result<()> {
    let mut links = Vec::new();
    store.each_link(&mut |link| {
        links.push(link);
        true
    })?;
    for links in links.chunks(LINKS_AT_ONCE) {
        let documents: Vec<DocumentId> = links.iter().flat_map(|link| [link.document, link.to]).collect();
        let (stored, urls) = (store.documents(&documents)?, store.first_urls(&documents)?);
        let (stored, urls) = (stored.as_chunks::<2>().0, urls.as_chunks::<2>().0);
        for ((link, [a, b]), [url, to_url]) in links.iter().zip(stored).zip(urls) {
            let estimate = compare(&a.sketch, &b.sketch, store.rule().sketch.rule);
            rows.write(&LinkRow {
                document: link.document,
                to: link.to,
                resemblance: link.resemblance,
                containment: estimate.containment_of_first.max(estimate.containment_of_second),
                url,
                to_url,
                words: a.n_words,
                bytes: a.n_bytes,
                to_words: b.n_words,
                to_bytes: b.n_bytes,
            })?;
        }
    }
    Ok(rows.finish()?)
}
