//! `lookalike changes`: how pages change, as a table, JSON, CSV or a chart.

use super::answer_table::AnswerFormat;
use super::args::ChangesArgs;
use super::exit::{Exit, file_error};
use super::output::print;
use super::output_path::check_outside_stores;
use super::wiring::open_read_only;
use super::{chart, render};
use crate::config::Config;
use crate::files::NewFile;
use crate::query::{self, By, ChangeRow, LostSearch, N_TENTHS};
use anyhow::Result;
use std::io::Write;

/// Prints how pages change.
pub(super) fn changes(config: &Config, args: &ChangesArgs, format: AnswerFormat) -> Result<Exit> {
    args.svg.as_deref().map_or(Ok(()), |svg| check_outside_stores("--svg", svg))?;
    let search = LostSearch { ranking: config.lost.clone(), ..LostSearch::default() };
    let by = args.by.map_or(By::All, By::from);
    let changes = query::changes(&open_read_only(config)?, by, &search)?;
    if let Some(path) = &args.svg {
        let written = NewFile::write_whole(path, chart::svg(&changes, by).as_bytes());
        written.map_err(|error| file_error("write the chart", path, &error))?;
    }
    if format == AnswerFormat::Csv {
        let rows: Vec<&ChangeRow> = std::iter::once(&changes.all).chain(&changes.rows).collect();
        std::io::stdout().write_all(&csv(&rows)?)?;
        return Ok(Exit::Done);
    }
    print(&changes, format == AnswerFormat::Json, render::changes)
}

/// The totals come first, with an empty name.
fn csv(rows: &[&ChangeRow]) -> Result<Vec<u8>> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    let tenths = (0..N_TENTHS).map(|tenth| format!("n_changes_of_resemblance_{}", tenth * 10));
    let names = ["urls", "pages", "revisits", "changes", "births", "deaths", "moved_within", "moved_between"];
    let counts = names.into_iter().chain(["moved_then_lost"]).map(|name| format!("n_{name}"));
    let header =
        std::iter::once("name".to_string()).chain(counts).chain(["mean_resemblance".into(), "median_life_days".into()]);
    csv.write_record(header.chain(tenths))?;
    let number = |number: Option<f64>| number.map_or(String::new(), |number| format!("{number:.4}"));
    for row in rows {
        let counts = [row.n_urls, row.n_pages, row.n_revisits, row.n_changes, row.n_births, row.n_deaths];
        let counts = counts
            .into_iter()
            .chain([row.n_moved_within, row.n_moved_between, row.n_moved_then_lost])
            .map(|count| count.to_string());
        let fields = std::iter::once(row.name.clone()).chain(counts);
        let fields = fields.chain([number(row.mean_resemblance), number(row.median_life_days)]);
        csv.write_record(fields.chain(row.n_changes_by_resemblance.iter().map(u64::to_string)))?;
    }
    Ok(csv.into_inner()?)
}
