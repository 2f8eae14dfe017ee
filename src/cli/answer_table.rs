//! Answers to questions as tables: a row for each thing that an answer lists.

use super::exit::{Exit, usage};
use super::output::write_answer;
use super::table::{Column, TableFormat, TableWriter, column};
use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::io::{self, BufWriter, Stdout, Write, stdout};

/// How an answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AnswerFormat {
    /// Text for people
    Table,
    /// A header, then a line for each row
    Csv,
    /// One JSON object, or one a line for rows
    Json,
}

impl AnswerFormat {
    /// The format that is asked for; otherwise that of `--json`; otherwise text.
    pub(super) fn choose(asked: Option<AnswerFormat>, json: bool) -> Result<AnswerFormat> {
        match (asked, json) {
            (None | Some(AnswerFormat::Json), true) => Ok(AnswerFormat::Json),
            (Some(_), true) => Err(usage("--json and another --format exclude each other; give one")),
            (asked, false) => Ok(asked.unwrap_or(AnswerFormat::Table)),
        }
    }
}

/// The rows that an answer has as a table.
pub(super) struct AnswerTable {
    pub columns: &'static [Column],
    /// Where an answer has the list of its rows; empty: the answer is the row.
    list: &'static str,
    /// What each row gets of the answer: its name in the row, and where the answer has it.
    kept: &'static [(&'static str, &'static str)],
    /// Whether an answer with an empty list is a row all the same.
    is_row_alone: bool,
}

const fn table(columns: &'static [Column], list: &'static str) -> AnswerTable {
    AnswerTable { columns, list, kept: &[], is_row_alone: false }
}

/// A kept text.
pub(super) const TEXT: AnswerTable = table(
    &[column!("document", Number), column!("cluster", Number), column!("n_words", Number), column!("text", Text)],
    "",
);

/// The history of a URL.
pub(super) const URL: AnswerTable = AnswerTable {
    kept: &[("url", "/url")],
    ..table(
        &[
            column!("url", Text),
            column!("fetched_at", Time),
            column!("sweep", Text),
            column!("seen", Text),
            column!("document", Number),
            column!("redirect_to", Text),
            column!("cluster", Number),
        ],
        "/sightings",
    )
};

/// The sightings of a cluster.
pub(super) const CLUSTER: AnswerTable = AnswerTable {
    kept: &[("cluster", "/cluster")],
    ..table(
        &[
            column!("cluster", Number),
            column!("url", Text),
            column!("fetched_at", Time),
            column!("sweep", Text),
            column!("document", Number),
        ],
        "/sightings",
    )
};

/// The members of a cluster of related pages; one without further members has a row, too.
pub(super) const RELATED_CLUSTER: AnswerTable = AnswerTable {
    kept: &[("of", "/of"), ("center", "/center")],
    is_row_alone: true,
    ..table(&[column!("of", Text), column!("center", Text), column!("url", Text)], "/members")
};

/// Where the content of URLs stands now; a URL without such a place has a row, too.
pub(super) const LOST: AnswerTable = AnswerTable {
    kept: &[("of", "/url")],
    is_row_alone: true,
    ..table(
        &[
            column!("of", Text),
            column!("url", Text),
            column!("last_seen", Time),
            column!("sweep", Text),
            column!("document", Number),
            column!("evidence", Text, "/evidence/kind"),
            column!("resemblance", Share),
            column!("containment_of_a_in_b", Share),
            column!("containment_of_b_in_a", Share),
            column!("score", Share),
        ],
        "/details",
    )
};

/// Suspicious clusters.
pub(super) const AUDIT: AnswerTable = table(
    &[
        column!("cluster", Number),
        column!("finding", Text),
        column!("n_documents", Number),
        column!("n_sightings", Number),
        column!("n_names", Number),
        column!("top_name", Text),
        column!("other_names", Share),
        column!("far_from_center", Share),
        column!("weakest_link", Share),
        column!("weak_links", Share),
        column!("remedy", Text, "/remedy/kind"),
        column!("threshold", Share, "/remedy/threshold"),
        column!("n_parts", Number, "/remedy/n_parts"),
        column!("a", Number, "/farthest/0"),
        column!("b", Number, "/farthest/1"),
        column!("farthest_resemblance", Share),
    ],
    "/clusters",
);

/// URLs by their content, in the order of the groups.
pub(super) const GROUP: AnswerTable = AnswerTable {
    kept: &[("cluster", "/cluster")],
    ..table(&[column!("cluster", Number), column!("url", Text)], "/urls")
};

/// The pages that hold a text.
pub(super) const REUSE: AnswerTable = AnswerTable {
    kept: &[("host", "/host")],
    ..table(
        &[
            column!("host", Text),
            column!("url", Text),
            column!("fetched_at", Time),
            column!("sweep", Text),
            column!("document", Number),
            column!("stands", Flag),
            column!("resemblance", Share),
            column!("containment_of_a_in_b", Share),
            column!("containment_of_b_in_a", Share),
        ],
        "/pages",
    )
};

/// Related pages; what is asked about has a row, too, where nothing is related to it.
pub(super) const RELATED: AnswerTable = AnswerTable {
    kept: &[("of", "/of")],
    is_row_alone: true,
    ..table(
        &[column!("of", Text), column!("url", Text), column!("similarity", Share), column!("cluster", Number)],
        "/related",
    )
};

/// The documents most like a file.
pub(super) const SIMILAR: AnswerTable = table(
    &[
        column!("document", Number),
        column!("cluster", Number),
        column!("resemblance", Share),
        column!("error", Share),
        column!("containment_of_a_in_b", Share),
        column!("containment_of_b_in_a", Share),
        column!("url", Text, "/last_seen/url"),
        column!("fetched_at", Time, "/last_seen/fetched_at"),
        column!("sweep", Text, "/last_seen/sweep"),
    ],
    "",
);

/// Two documents against each other.
pub(super) const COMPARISON: AnswerTable = table(
    &[
        column!("resemblance", Share),
        column!("error", Share),
        column!("containment_of_a_in_b", Share),
        column!("error_of_a_in_b", Share),
        column!("containment_of_b_in_a", Share),
        column!("error_of_b_in_a", Share),
    ],
    "",
);

/// The passages that two texts share.
pub(super) const PASSAGES: AnswerTable = table(
    &[
        column!("n_words", Number),
        column!("a_begin", Number),
        column!("a_end", Number),
        column!("b_begin", Number),
        column!("b_end", Number),
        column!("text", Text),
    ],
    "/passages",
);

/// The links between two documents.
pub(super) const EXPLANATION: AnswerTable = table(
    &[
        column!("from", Number),
        column!("from_url", Text),
        column!("to", Number),
        column!("to_url", Text),
        column!("resemblance", Share),
        column!("containment", Share),
        column!("kind", Text),
    ],
    "/links",
);

impl AnswerTable {
    /// The rows of an answer, or of a list of answers.
    fn rows(&self, answer: Value) -> Vec<Value> {
        let answers = match answer {
            Value::Array(answers) => answers,
            answer => vec![answer],
        };
        answers.into_iter().flat_map(|answer| self.rows_of_one(answer)).collect()
    }

    fn rows_of_one(&self, mut answer: Value) -> Vec<Value> {
        if self.list.is_empty() {
            return vec![answer];
        }
        let mut rows = match answer.pointer_mut(self.list).map(Value::take) {
            Some(Value::Array(rows)) => rows,
            _ => Vec::new(),
        };
        if rows.is_empty() && self.is_row_alone {
            rows.push(Value::Object(Map::new()));
        }
        for row in &mut rows {
            if let Value::String(url) = row {
                *row = json!({"url": url});
            }
            for (name, pointer) in self.kept {
                row[*name] = answer.pointer(pointer).cloned().unwrap_or_default();
            }
        }
        rows
    }
}

/// Answers on their way to standard output.
pub(super) enum AnswerWriter {
    Table(Box<TableWriter>, AnswerTable),
    Text(BufWriter<Stdout>),
    Json(BufWriter<Stdout>),
}

impl AnswerWriter {
    /// Begins answers in a format.
    pub fn new(format: AnswerFormat, table: AnswerTable) -> Result<Self> {
        Ok(match format {
            AnswerFormat::Table => AnswerWriter::Text(BufWriter::new(stdout())),
            AnswerFormat::Json => AnswerWriter::Json(BufWriter::new(stdout())),
            AnswerFormat::Csv => {
                let rows = TableWriter::create(None, TableFormat::Csv, table.columns.to_vec())?;
                AnswerWriter::Table(Box::new(rows), table)
            }
        })
    }

    /// Writes an answer.
    pub fn write<T: Serialize>(&mut self, answer: &T, text: impl FnOnce(&T) -> String) -> Result<()> {
        match self {
            AnswerWriter::Text(out) => write_answer(out, answer, false, text),
            AnswerWriter::Json(out) => write_answer(out, answer, true, text),
            AnswerWriter::Table(rows, table) => {
                let answer = serde_json::to_value(answer)?;
                Ok(table.rows(answer).iter().try_for_each(|row| rows.write(row))?)
            }
        }
    }

    /// Writes what is still buffered.
    pub fn finish(self) -> io::Result<()> {
        match self {
            AnswerWriter::Table(rows, _) => rows.finish(),
            AnswerWriter::Text(mut out) | AnswerWriter::Json(mut out) => out.flush(),
        }
    }
}

/// Prints one answer.
pub(super) fn print_as<T: Serialize>(
    answer: &T,
    format: AnswerFormat,
    table: AnswerTable,
    text: impl FnOnce(&T) -> String,
) -> Result<Exit> {
    let mut out = AnswerWriter::new(format, table)?;
    out.write(answer, text)?;
    out.finish()?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_an_answer_is_a_row() {
        let lost = json!([
            {"url": "a", "details": [{"url": "b", "score": 1.0}, {"url": "c", "score": 0.5}]},
            {"url": "d", "details": []},
        ]);
        assert_eq!(
            LOST.rows(lost),
            [
                json!({"of": "a", "url": "b", "score": 1.0}),
                json!({"of": "a", "url": "c", "score": 0.5}),
                json!({"of": "d"})
            ]
        );
        let groups = json!([{"cluster": 7, "urls": ["a", "b"]}, {"cluster": null, "urls": ["c"]}]);
        assert_eq!(
            GROUP.rows(groups),
            [
                json!({"url": "a", "cluster": 7}),
                json!({"url": "b", "cluster": 7}),
                json!({"url": "c", "cluster": null})
            ]
        );
        assert_eq!(SIMILAR.rows(json!([])), Vec::<Value>::new());
        assert_eq!(COMPARISON.rows(json!({"error": 0.0})), [json!({"error": 0.0})]);
    }
}
