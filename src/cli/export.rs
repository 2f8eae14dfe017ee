//! `lookalike export`: writes what the store holds, row by row.

use super::args::{ExportArgs, ExportClustersArgs, ExportCommand, ExportEventsArgs};
use super::exit::{Exit, ending, file_error, usage};
use super::mapping;
use super::output_path::{check_output, check_outside_stores};
use super::table::{TableColumns, TableFile, TableFormat, chosen, column};
use super::wiring::open_read_only;
use crate::config::Config;
use crate::document::{ClusterId, DocumentId};
use crate::files::{input_files, open_text};
use crate::ports::{LinkView, Snapshot, Store, StoreError};
use crate::query::{self, ExportRow, LostSearch, PresentRow};
use crate::sketch::compare;
use crate::store::RocksStore;
use crate::wire::{Event, EventBody};
use anyhow::{Context as _, Result};
use serde::Serialize;
use std::fmt::Display;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

/// Links whose documents are read at once.
const LINKS_AT_ONCE: usize = 4096;

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
        column!("source", Text),
        column!("partition", Number),
        column!("offset", Number),
    ],
    default: &["url", "fetched_at", "sweep", "document", "cluster"],
};

/// The columns of clusters that events alone can tell.
const ORIGIN_COLUMNS: [&str; 3] = ["source", "partition", "offset"];

/// The columns of clusters with events.
const RECORD_COLUMNS: TableColumns = TableColumns {
    all: CLUSTER_COLUMNS.all,
    default: &["source", "offset", "url", "fetched_at", "sweep", "document", "cluster"],
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

const POSITION_COLUMNS: TableColumns = TableColumns {
    all: &[column!("source", Text), column!("partition", Number), column!("next_offset", Number)],
    default: &[],
};

const RELATED_COLUMNS: TableColumns = TableColumns {
    all: &[column!("url", Text), column!("related", Text), column!("similarity", Share)],
    default: &["url", "related", "similarity"],
};

const CENTER_COLUMNS: TableColumns =
    TableColumns { all: &[column!("url", Text), column!("center", Text)], default: &["url", "center"] };

const MOVE_COLUMNS: TableColumns = TableColumns {
    all: &[
        column!("url", Text),
        column!("state", Text),
        column!("fetched_at", Time),
        column!("sweep", Text),
        column!("document", Number),
        column!("last_seen", Time),
        column!("to", Text),
        column!("to_document", Number),
        column!("to_last_seen", Time),
        column!("resemblance", Share),
        column!("evidence", Text),
        column!("score", Share),
    ],
    default: &[],
};

/// In the order of an event's JSON.
const EVENT_COLUMNS: TableColumns = TableColumns {
    all: &[
        column!("type", Text),
        column!("seq", Number),
        column!("source", Text),
        column!("partition", Number),
        column!("offset", Number),
        column!("url", Text),
        column!("fetched_at", Time),
        column!("sweep", Text),
        column!("document", Number),
        column!("cluster", Number),
        column!("relation", Text),
        column!("matched_document", Number),
        column!("matched_url", Text),
        column!("resemblance", Share),
        column!("previous_document", Number),
        column!("from", Text),
        column!("to", Text),
        column!("evidence", Text),
        column!("redirect_to", Text),
        column!("loser", Number),
        column!("winner", Number),
        column!("gap_to", Number),
        column!("n_lost", Number),
        column!("reason", Text),
        column!("message", Text),
    ],
    default: &[],
};

/// Exports what a store holds, or events.
pub(super) fn export(config: &Config, command: &ExportCommand, json: bool) -> Result<Exit> {
    let open = || open_read_only(config);
    match command {
        ExportCommand::Events(args) => export_events(args, json)?,
        ExportCommand::Moves(args) => {
            let store = open()?;
            let search = LostSearch { ranking: config.lost.clone(), ..LostSearch::default() };
            let rows = table(args, &MOVE_COLUMNS, json)?;
            write_rows(rows, |row| row, |write| query::export_moves(&store, &search, write))?;
        }
        ExportCommand::Links(args) => export_links(&open()?, table(args, &LINK_COLUMNS, json)?)?,
        ExportCommand::Present(args) => {
            let store = open()?;
            let sizes = Sizes::read(&store, &args.columns)?;
            let row = |row: PresentRow| sizes.detailed(row.document, row.cluster, row);
            write_rows(table(args, &PRESENT_COLUMNS, json)?, row, |write| query::export_present(&store, write))?;
        }
        ExportCommand::Clusters(args) if args.events.is_empty() => {
            let args = &args.export;
            if let Some(column) = args.columns.iter().find(|column| ORIGIN_COLUMNS.contains(&column.as_str())) {
                let why = "the store does not keep it; name the events of the store with --events FILE";
                return Err(usage(format!("--columns {column}: {why}")));
            }
            let store = open()?;
            let sizes = Sizes::read(&store, &args.columns)?;
            let row = |row: ExportRow| sizes.detailed(Some(row.document), Some(row.cluster), row);
            write_rows(table(args, &CLUSTER_COLUMNS, json)?, row, |write| query::export(&store, write))?;
        }
        ExportCommand::Clusters(args) => export_records(&open()?, args, json)?,
        ExportCommand::Positions(args) => export_positions(&open()?, table(args, &POSITION_COLUMNS, json)?)?,
        ExportCommand::Related(args) => {
            let store = open()?;
            require_related_clusters(&store)?;
            write_rows(table(args, &RELATED_COLUMNS, json)?, |row| row, |write| query::export_related(&store, write))?;
        }
        ExportCommand::Centers(args) => {
            let store = open()?;
            require_related_clusters(&store)?;
            write_rows(table(args, &CENTER_COLUMNS, json)?, |row| row, |write| query::export_centers(&store, write))?;
        }
        ExportCommand::Mapping(args) => mapping::export(config, args, table(&args.export, &mapping::COLUMNS, json)?)?,
    }
    Ok(Exit::Done)
}

fn require_related_clusters(store: &RocksStore) -> Result<()> {
    if query::has_related_clusters(store)? {
        return Ok(());
    }
    Err(ending(Exit::NotFound, query::NO_RELATED_CLUSTERS))
}

fn table(args: &ExportArgs, columns: &TableColumns, json: bool) -> Result<TableFile> {
    let columns = chosen(columns.all, columns.default, &args.columns)?;
    let out = out_file(args);
    out.map_or(Ok(()), |out| check_outside_stores("--out", out))?;
    TableFile::create(out, TableFormat::choose(args.format, json, out)?, columns)
}

/// Where the table goes; none for standard output.
fn out_file(args: &ExportArgs) -> Option<&Path> {
    args.out.as_deref().filter(|out| out.as_os_str() != "-")
}

/// Fails where a table would overwrite one of the files of events that it is made from.
fn check_events(args: &ExportArgs, files: &[PathBuf]) -> Result<()> {
    out_file(args).map_or(Ok(()), |out| check_output("--out", out, files))
}

/// Writes the events of files as they come.
fn export_events(args: &ExportEventsArgs, json: bool) -> Result<()> {
    let files = input_files(&args.files).map_err(usage)?;
    check_events(&args.export, &files)?;
    let mut rows = table(&args.export, &EVENT_COLUMNS, json)?;
    each_event(&files, |event, _| rows.write(&event))?;
    rows.finish()
}

/// Calls `each` with every event of files, and its place.
fn each_event(files: &[PathBuf], mut each: impl FnMut(Event, &dyn Display) -> Result<()>) -> Result<()> {
    for path in files {
        let text = open_text(path).map_err(|error| file_error("read", path, &error))?;
        for (number, line) in (1..).zip(BufReader::new(text).lines()) {
            let line = line.map_err(|error| file_error("read", path, &error))?;
            let place = format_args!("{}: line {number}", path.display());
            let event =
                serde_json::from_str(&line).with_context(|| format!("{place} is no event; give an events file"))?;
            each(event, &place)?;
        }
    }
    Ok(())
}

/// A record that was accepted as a page, and where it came from.
#[derive(Serialize)]
struct RecordRow {
    #[serde(flatten)]
    sighting: ExportRow,
    source: String,
    partition: i32,
    offset: i64,
}

/// Writes a row for each page of the store's events, with the cluster that it has now.
fn export_records(store: &RocksStore, args: &ExportClustersArgs, json: bool) -> Result<()> {
    let files = input_files(&args.events).map_err(usage)?;
    check_events(&args.export, &files)?;
    let sizes = Sizes::read(store, &args.export.columns)?;
    let mut clusters = store.clusters()?;
    let mut rows = table(&args.export, &RECORD_COLUMNS, json)?;
    each_event(&files, |event, place| {
        let EventBody::Assigned { document, .. } = event.body else { return Ok(()) };
        let (Some(url), Some(fetched_at)) = (event.url, event.fetched_at) else { return Ok(()) };
        if document.0 > store.n_documents() {
            return Err(usage(format!("{place} is an event of another store; it names document {document}")));
        }
        let cluster = clusters.cluster_of(document);
        let sighting = ExportRow { url, fetched_at, sweep: event.sweep.unwrap_or_default(), document, cluster };
        let row = RecordRow { sighting, source: event.source, partition: event.partition, offset: event.offset };
        rows.write(&sizes.detailed(Some(document), Some(cluster), row))
    })?;
    rows.finish()
}

/// Writes every row that `each` hands over, until writing fails.
fn write_rows<R, D: Serialize>(
    mut rows: TableFile,
    detailed: impl Fn(R) -> D,
    each: impl FnOnce(&mut dyn FnMut(R) -> bool) -> Result<(), StoreError>,
) -> Result<()> {
    let mut written = Ok(());
    each(&mut |row| {
        written = rows.write(&detailed(row));
        written.is_ok()
    })?;
    written?;
    rows.finish()
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
            sizes.resize(store.n_documents() as usize, (0, 0));
            store.each_size(&mut |document, n_words, n_bytes| {
                // A document that comes while the sizes are read is in no row yet.
                if let Some(size) = sizes.get_mut(document.0 as usize - 1) {
                    *size = (n_words, n_bytes);
                }
            })?;
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

#[derive(Serialize)]
struct PositionRow<'a> {
    source: &'a str,
    partition: i32,
    next_offset: i64,
}

fn export_positions(store: &RocksStore, mut rows: TableFile) -> Result<()> {
    let progress = store.progress()?;
    let mut positions: Vec<_> = progress.iter().collect();
    positions.sort_unstable_by_key(|(place, _)| *place);
    for ((source, partition), progress) in positions {
        rows.write(&PositionRow { source, partition: *partition, next_offset: progress.next_offset })?;
    }
    rows.finish()
}

fn export_links(store: &RocksStore, mut rows: TableFile) -> Result<()> {
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
    rows.finish()
}
