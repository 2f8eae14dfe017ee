//! Tables: rows of named columns, as CSV with a header, JSON lines, or Parquet.

use super::exit::{file_error, usage};
use super::output::csv_error;
use crate::files::{ColumnKind, NewFile, ParquetWriter, url_of};
#[cfg(feature = "object-store")]
use crate::objects::NewObject;
use anyhow::{Error, Result};
use clap::ValueEnum;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;
use std::io::{self, BufWriter, IsTerminal, Write, stdout};
use std::path::{Path, PathBuf};

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TableFormat {
    /// A header, then a line for each row
    Csv,
    /// A JSON object on each line
    Jsonl,
    /// Columns, compressed with zstd
    Parquet,
}

impl TableFormat {
    /// The format that is asked for; otherwise that of `--json`; otherwise what the file's name ends in; CSV where there is no
    /// file, or its name has no ending. Any other ending is refused: the file would not be what its name says.
    pub(super) fn choose(asked: Option<TableFormat>, json: bool, out: Option<&Path>) -> Result<TableFormat> {
        if let Some(format) = asked.or(json.then_some(TableFormat::Jsonl)) {
            return Ok(format);
        }
        let Some(out) = out else { return Ok(TableFormat::Csv) };
        match ending_of(out).as_deref() {
            None | Some("csv") => Ok(TableFormat::Csv),
            Some("jsonl" | "ndjson") => Ok(TableFormat::Jsonl),
            Some("parquet") => Ok(TableFormat::Parquet),
            Some(_) => {
                let known = "the name must end in .csv, .jsonl, .ndjson or .parquet, or --format must say how to write";
                Err(usage(format!("--out {}: {known}", out.display())))
            }
        }
    }
}

/// What a file's name ends in, after its last full stop, in lower case. None where there is none.
pub(super) fn ending_of(path: &Path) -> Option<String> {
    Some(path.extension()?.to_string_lossy().to_ascii_lowercase())
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    /// Its name.
    pub name: &'static str,
    /// What its cells hold.
    pub kind: ColumnKind,
    /// Where a row's JSON has the cell, as a JSON pointer.
    pub pointer: &'static str,
}

/// The columns that a table may have, and those that it has where none are named: all of them, if there is no such list.
pub(super) struct TableColumns {
    pub all: &'static [Column],
    pub default: &'static [&'static str],
}

/// A column whose name is the field's: `column!("url", Text)`; another field is a pointer: `column!("url", Text, "/a/url")`.
macro_rules! column {
    ($name:literal, $kind:ident) => {
        $crate::cli::table::column!($name, $kind, concat!("/", $name))
    };
    ($name:literal, $kind:ident, $pointer:expr) => {
        $crate::cli::table::Column { name: $name, kind: $crate::files::ColumnKind::$kind, pointer: $pointer }
    };
}
pub(super) use column;

/// The columns of these names, in their order. Where none are named, the `default` ones; where there are none of these, all.
pub(super) fn chosen(all: &[Column], default: &[&str], names: &[String]) -> Result<Vec<Column>> {
    let find = |name: &str| {
        all.iter().find(|column| column.name == name).copied().ok_or_else(|| {
            let all: Vec<&str> = all.iter().map(|column| column.name).collect();
            usage(format!("--columns: there is no column {name}; there are {}", all.join(", ")))
        })
    };
    match names {
        [] if default.is_empty() => Ok(all.to_vec()),
        [] => default.iter().map(|name| find(name)).collect(),
        names => {
            if let Some(twice) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
                return Err(usage(format!("--columns: {} is named twice; name it once", twice.1)));
            }
            names.iter().map(|name| find(name.as_str())).collect()
        }
    }
}

/// Where a table goes.
enum Destination {
    File(NewFile),
    #[cfg(feature = "object-store")]
    Object(NewObject),
    Stdout(io::Stdout),
}

impl Destination {
    fn create(path: &Path) -> io::Result<Self> {
        match url_of(path) {
            None => Ok(Destination::File(NewFile::create(path)?)),
            #[cfg(feature = "object-store")]
            Some(url) => Ok(Destination::Object(NewObject::create(url)?)),
            #[cfg(not(feature = "object-store"))]
            Some(_) => Err(crate::files::no_objects()),
        }
    }
}

/// A table on its way out. A file gets its name when it is whole, and an object is stored then.
pub(super) struct TableWriter {
    columns: Vec<Column>,
    body: TableBody,
}

enum TableBody {
    Csv(Box<csv::Writer<Destination>>),
    Jsonl(BufWriter<Destination>),
    Parquet(Box<ParquetWriter<BufWriter<Destination>>>),
}

impl TableWriter {
    /// Begins a table in a file, or on standard output.
    pub fn create(out: Option<&Path>, format: TableFormat, columns: Vec<Column>) -> Result<Self> {
        let destination = match out {
            Some(path) => Destination::create(path).map_err(|error| file_error("write", path, &error))?,
            None if format == TableFormat::Parquet && stdout().is_terminal() => {
                return Err(usage("Parquet is not for a terminal; give --out FILE, or a pipe"));
            }
            None => Destination::Stdout(stdout()),
        };
        let body = match format {
            TableFormat::Csv => {
                let mut csv = csv::Writer::from_writer(destination);
                csv.write_record(columns.iter().map(|column| column.name)).map_err(csv_error)?;
                TableBody::Csv(Box::new(csv))
            }
            TableFormat::Jsonl => TableBody::Jsonl(BufWriter::new(destination)),
            TableFormat::Parquet => {
                let kinds: Vec<_> = columns.iter().map(|column| (column.name, column.kind)).collect();
                TableBody::Parquet(Box::new(ParquetWriter::new(BufWriter::new(destination), &kinds)?))
            }
        };
        Ok(TableWriter { columns, body })
    }

    /// Whether it has a column of this name.
    pub fn has(&self, column: &str) -> bool {
        self.columns.iter().any(|own| own.name == column)
    }

    /// Writes a row. A column that the row's JSON does not have is empty.
    pub fn write(&mut self, row: &impl Serialize) -> io::Result<()> {
        let mut row = serde_json::to_value(row)?;
        let cell = |column: &Column| row.pointer_mut(column.pointer).map(Value::take).unwrap_or_default();
        let cells: Vec<Value> = self.columns.iter().map(cell).collect();
        match &mut self.body {
            TableBody::Csv(csv) => csv.serialize(cells).map_err(csv_error),
            TableBody::Jsonl(out) => {
                serde_json::to_writer(&mut *out, &JsonRow { columns: &self.columns, cells: &cells })?;
                out.write_all(b"\n")
            }
            TableBody::Parquet(parquet) => parquet.write(&cells),
        }
    }

    /// Writes what is still buffered, and gives the file its name.
    pub fn finish(self) -> io::Result<()> {
        let destination = match self.body {
            TableBody::Csv(csv) => csv.into_inner().map_err(|error| error.into_error())?,
            TableBody::Jsonl(out) => out.into_inner().map_err(io::IntoInnerError::into_error)?,
            TableBody::Parquet(parquet) => parquet.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?,
        };
        match destination {
            Destination::File(file) => file.finish(),
            #[cfg(feature = "object-store")]
            Destination::Object(object) => object.finish(),
            Destination::Stdout(mut stdout) => stdout.flush(),
        }
    }
}

/// A table that somebody asked for by its path, which every error names.
pub(super) struct TableFile {
    table: TableWriter,
    /// None for standard output.
    path: Option<PathBuf>,
}

impl TableFile {
    /// Begins a table as [`TableWriter::create`] does.
    pub fn create(out: Option<&Path>, format: TableFormat, columns: Vec<Column>) -> Result<Self> {
        Ok(TableFile { table: TableWriter::create(out, format, columns)?, path: out.map(Path::to_path_buf) })
    }

    /// Writes a row as [`TableWriter::write`] does.
    pub fn write(&mut self, row: &impl Serialize) -> Result<()> {
        self.table.write(row).map_err(|error| named(self.path.as_deref(), error))
    }

    /// Writes what is still buffered, and gives the file its name.
    pub fn finish(self) -> Result<()> {
        self.table.finish().map_err(|error| named(self.path.as_deref(), error))
    }
}

fn named(path: Option<&Path>, error: io::Error) -> Error {
    match path {
        Some(path) => file_error("write", path, &error),
        None => error.into(),
    }
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Destination::File(file) => file.write(bytes),
            #[cfg(feature = "object-store")]
            Destination::Object(object) => object.write(bytes),
            Destination::Stdout(stdout) => stdout.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Destination::File(file) => file.flush(),
            #[cfg(feature = "object-store")]
            Destination::Object(object) => object.flush(),
            Destination::Stdout(stdout) => stdout.flush(),
        }
    }
}

/// A row as an object whose fields are in the order of the columns.
struct JsonRow<'a> {
    columns: &'a [Column],
    cells: &'a [Value],
}

impl Serialize for JsonRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(Some(self.columns.len()))?;
        for (column, cell) in self.columns.iter().zip(self.cells) {
            fields.serialize_entry(column.name, cell)?;
        }
        fields.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const COLUMNS: &[Column] =
        &[column!("url", Text), column!("document", Number), column!("seen_at", Text, "/last_seen/url")];

    fn written(format: TableFormat, names: &[&str]) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out");
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let columns = chosen(COLUMNS, &["url", "document", "seen_at"], &names).expect("columns");
        let mut table = TableWriter::create(Some(&path), format, columns).expect("created");
        table.write(&json!({"document": 1, "url": "a,\"b", "last_seen": {"url": "x"}, "more": [1]})).expect("written");
        table.write(&json!({"document": null, "url": "c", "last_seen": null})).expect("written");
        table.finish().expect("finished");
        std::fs::read_to_string(path).expect("text")
    }

    #[test]
    fn rows_in_every_format() {
        assert_eq!(written(TableFormat::Csv, &[]), "url,document,seen_at\n\"a,\"\"b\",1,x\nc,,\n");
        assert_eq!(
            written(TableFormat::Jsonl, &[]),
            "{\"url\":\"a,\\\"b\",\"document\":1,\"seen_at\":\"x\"}\n{\"url\":\"c\",\"document\":null,\"seen_at\":null}\n"
        );
        assert_eq!(written(TableFormat::Csv, &["seen_at", "url"]), "seen_at,url\nx,\"a,\"\"b\"\n,c\n");
    }

    #[test]
    fn wrong_columns_are_named() {
        for (names, wrong) in [(["url", "size"], "no column size; there are url, document"), (["url", "url"], "twice")]
        {
            let error = chosen(COLUMNS, &["url"], &names.map(String::from)).expect_err("wrong");
            assert!(error.to_string().contains(wrong), "{error}");
        }
    }

    #[test]
    fn the_name_of_a_file_tells_its_format() {
        let chosen = |asked, json, out: &str| TableFormat::choose(asked, json, Some(Path::new(out)));
        let choose = |asked, json, out: &str| chosen(asked, json, out).expect("a format");
        assert_eq!(choose(None, false, "a.parquet"), TableFormat::Parquet);
        assert_eq!(choose(None, false, "a.jsonl"), TableFormat::Jsonl);
        assert_eq!(choose(None, true, "a.parquet"), TableFormat::Jsonl);
        assert_eq!(choose(Some(TableFormat::Csv), true, "a.parquet"), TableFormat::Csv);
        assert_eq!(TableFormat::choose(None, false, None).expect("a format"), TableFormat::Csv);
        // Lost once: the columns' types, to a file of CSV that was named A.PARQUET; and tools failed on x.json and x.csv.gz.
        assert_eq!(choose(None, false, "A.PARQUET"), TableFormat::Parquet);
        assert_eq!(["a", "/dev/stdout", "a.CSV"].map(|out| choose(None, false, out)), [TableFormat::Csv; 3]);
        for out in ["a.json", "a.csv.gz", "a.xlsx"] {
            let error = chosen(None, false, out).expect_err("unknown").to_string();
            assert!(error.contains(".csv, .jsonl, .ndjson or .parquet"), "{error}");
            assert_eq!(choose(Some(TableFormat::Csv), false, out), TableFormat::Csv);
        }
    }
}
