//! Files that the command line reads and writes: exports out, documents to compare in.

use super::Exit;
use super::query::open;
use crate::config::Config;
use crate::document::{Body, Content, FetchTime, MediaType, Page};
use crate::ports::StoreError;
use crate::query;
use crate::sketch::{SketchedContent, Sketcher};
use crate::wire::Limits;
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::fs::File;
use std::io::{BufWriter, Read, Write, stdout};
use std::path::Path;

/// Rows on their way out, as CSV with a header or one JSON object a line.
pub(super) enum Rows {
    Csv(Box<csv::Writer<Box<dyn Write>>>),
    Json(BufWriter<Box<dyn Write>>),
}

/// Where rows go: a file, or standard output.
pub(super) fn rows_to(output: Option<&Path>, json: bool) -> Result<Rows> {
    let out: Box<dyn Write> = match output {
        None => Box::new(stdout().lock()),
        Some(path) => Box::new(File::create(path).with_context(|| format!("{} cannot be written", path.display()))?),
    };
    Ok(if json { Rows::Json(BufWriter::new(out)) } else { Rows::Csv(Box::new(csv::Writer::from_writer(out))) })
}

impl Rows {
    /// Writes a row.
    pub fn write(&mut self, row: &impl Serialize) -> std::io::Result<()> {
        match self {
            Rows::Csv(csv) => csv.serialize(row).map_err(csv_error),
            Rows::Json(out) => {
                serde_json::to_writer(&mut *out, row).map_err(std::io::Error::from)?;
                out.write_all(b"\n")
            }
        }
    }

    /// Writes what is not yet written.
    pub fn finish(self) -> std::io::Result<()> {
        match self {
            Rows::Csv(mut csv) => csv.flush(),
            Rows::Json(mut out) => out.flush(),
        }
    }
}

/// Writes one row for each sighting.
pub(super) fn export_clusters(config: &Config, output: Option<&Path>, json: bool) -> Result<Exit> {
    let store = open(config)?;
    export(output, json, |write| query::export(&store, write))
}

/// Writes one row for each URL.
pub(super) fn export_present(config: &Config, output: Option<&Path>, json: bool) -> Result<Exit> {
    let store = open(config)?;
    export(output, json, |write| query::export_present(&store, write))
}

/// Writes every row that `each` hands over; false tells it to stop.
fn export<R: Serialize>(
    output: Option<&Path>,
    json: bool,
    each: impl FnOnce(&mut dyn FnMut(R) -> bool) -> Result<(), StoreError>,
) -> Result<Exit> {
    let mut rows = rows_to(output, json)?;
    let mut failed = None;
    each(&mut |row| {
        failed = rows.write(&row).err();
        failed.is_none()
    })?;
    failed.map_or(Ok(()), Err)?;
    rows.finish()?;
    Ok(Exit::Done)
}

fn csv_error(error: csv::Error) -> std::io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => std::io::Error::other(format!("{other:?}")),
    }
}

/// Reads a stream to its end as one page of HTML or text; none where it is larger than `bytes_max`.
pub(super) fn read_page(name: String, stream: impl Read, bytes_max: usize) -> std::io::Result<Option<Page>> {
    let mut bytes = Vec::new();
    stream.take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
    let is_bearable = bytes.len() <= bytes_max;
    Ok(is_bearable.then_some(Page {
        url: name,
        fetched_at: FetchTime(0),
        sweep: None,
        content: Content::Body { media_type: MediaType::Unknown, body: Body::Bytes { bytes, charset: None } },
    }))
}

/// Sketches a file of HTML or text, told apart by its content.
pub(super) fn sketch_file(path: &Path, sketcher: &mut Sketcher, limits: &Limits) -> Result<SketchedContent> {
    let bytes_max = limits.body_bytes_max;
    let file = File::open(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let Some(page) = read_page(path.display().to_string(), file, bytes_max)? else {
        bail!("{} is larger than limits.body_bytes_max = {bytes_max} bytes", path.display());
    };
    match sketcher.sketch_page(&page, limits.words_max) {
        Ok(Some(content)) => Ok(content),
        Ok(None) => bail!("{} has no content", path.display()),
        Err(why) => bail!("{}: {why}", path.display()),
    }
}
