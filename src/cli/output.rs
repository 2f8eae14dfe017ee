//! How commands answer: text for people, JSON for programs, rows as CSV or JSON lines.

use super::exit::{Exit, file_error};
use super::log_line::{self, PROGRAM, SUMMARY};
use super::visible::{visible, visible_line};
use anyhow::Result;
use indicatif::HumanCount;
use serde::Serialize;
use serde_json::json;
use std::fs::File;
use std::io::{self, BufWriter, Write, stdout};
use std::path::Path;
use tracing::Level;

/// What `--json`, `--quiet` and `--progress` ask for.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutputMode {
    /// Answers and errors are JSON.
    pub json: bool,
    /// Only answers, warnings and errors are printed.
    pub quiet: bool,
    /// Progress is printed in any case.
    pub progress: bool,
}

impl OutputMode {
    /// Whether notes and summaries for people stay away.
    pub fn is_silent(self) -> bool {
        self.json || self.quiet
    }

    /// Whether progress stays away.
    pub fn hides_progress(self) -> bool {
        self.is_silent() && !self.progress
    }

    /// Prints a note for people on standard error.
    pub fn note(self, text: &str) {
        if !self.is_silent() {
            log_line::say(Level::INFO, PROGRAM, text, json!({}));
        }
    }

    /// Prints what a command did: for programs on standard output, for people and logs on standard error.
    pub fn summary<T: Serialize>(self, summary: &T, text: impl FnOnce(&T) -> String) -> Result<()> {
        if self.json {
            return write_answer(&mut stdout(), summary, true, text);
        }
        if self.quiet {
            return Ok(());
        }
        let text = text(summary);
        if log_line::is_json() {
            log_line::say(Level::INFO, SUMMARY, text.trim_end(), serde_json::to_value(summary)?);
        } else {
            eprint!("{}", visible(&text));
        }
        Ok(())
    }
}

/// Prints an answer on standard output.
pub(super) fn print<T: Serialize>(answer: &T, json: bool, text: impl FnOnce(&T) -> String) -> Result<Exit> {
    write_answer(&mut stdout(), answer, json, text)?;
    Ok(Exit::Done)
}

/// Writes an answer as text that terminals may show, or as one line of JSON.
pub(super) fn write_answer<T: Serialize>(
    out: &mut impl Write,
    answer: &T,
    json: bool,
    text: impl FnOnce(&T) -> String,
) -> Result<()> {
    let text = if json { serde_json::to_string(answer)? + "\n" } else { visible(&text(answer)).into_owned() };
    Ok(out.write_all(text.as_bytes())?)
}

/// A count with its noun, whose plural adds an s.
pub(super) fn counted(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", HumanCount(n), if n == 1 { "" } else { "s" })
}

/// The lines of a summary about records that are no pages. The advice follows the count of the rejected.
pub(super) fn no_pages_text(n_gone: u64, n_rejected: u64, advice: &str) -> String {
    let line = |what: &str, n: u64, advice: &str| match n {
        0 => String::new(),
        n => format!("  {what} {}{advice}\n", HumanCount(n)),
    };
    line("gone or redirected", n_gone, "") + &line("rejected", n_rejected, advice)
}

/// A line for each reason why records were rejected: how many, and where known the first one's number, input, and what is
/// wrong with it.
pub(super) fn rejections_text<'a>(
    rejected: impl Iterator<Item = (&'a str, u64, Option<(i64, &'a str, &'a str)>)>,
) -> String {
    let first = |(offset, source, message): (i64, &str, &str)| {
        format!(", first record {offset} of {}: {}", visible_line(source), visible_line(message))
    };
    let line = |(reason, n, of_first): (&str, u64, Option<_>)| {
        format!("    {} {reason}{}\n", HumanCount(n), of_first.map(first).unwrap_or_default())
    };
    rejected.map(line).collect()
}

/// The lines of a summary about what could not be read.
pub(super) fn unreadable_text<'a>(unreadable: impl IntoIterator<Item = &'a String>) -> String {
    unreadable.into_iter().map(|what| format!("  unreadable: {}\n", visible_line(what))).collect()
}

/// Rows on their way out, as CSV with a header or one JSON object a line.
pub(super) enum RowWriter {
    Csv(Box<csv::Writer<Box<dyn Write>>>),
    Json(BufWriter<Box<dyn Write>>),
}

impl RowWriter {
    /// Writes to a file, or to standard output. CSV begins with the names of the columns, whether or not there are rows.
    pub fn create(path: Option<&Path>, json: bool, columns: &[&str]) -> Result<Self> {
        let out: Box<dyn Write> = match path {
            None => Box::new(stdout().lock()),
            Some(path) => Box::new(File::create(path).map_err(|error| file_error("write", path, &error))?),
        };
        if json {
            return Ok(RowWriter::Json(BufWriter::new(out)));
        }
        let mut csv = csv::WriterBuilder::new().has_headers(false).from_writer(out);
        csv.write_record(columns).map_err(csv_error)?;
        Ok(RowWriter::Csv(Box::new(csv)))
    }

    /// Writes a row.
    pub fn write(&mut self, row: &impl Serialize) -> io::Result<()> {
        match self {
            RowWriter::Csv(csv) => csv.serialize(row).map_err(csv_error),
            RowWriter::Json(out) => {
                serde_json::to_writer(&mut *out, row).map_err(io::Error::from)?;
                out.write_all(b"\n")
            }
        }
    }

    /// Writes what is still buffered.
    pub fn finish(self) -> io::Result<()> {
        match self {
            RowWriter::Csv(mut csv) => csv.flush(),
            RowWriter::Json(mut out) => out.flush(),
        }
    }
}

pub(super) fn csv_error(error: csv::Error) -> io::Error {
    let text = error.to_string();
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        _ => io::Error::other(text),
    }
}
