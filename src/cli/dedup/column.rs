//! The values of the column that `--keep` names: one more pass over the inputs.

use crate::backfill::{Context, PhaseName};
use crate::cli::exit::usage;
use crate::cli::wiring::file_source;
use crate::config::Config;
use crate::dedup::{ColumnValues, DedupError, Keep, ReadInput};
use crate::files::ColumnReader;
use crate::ports::ProgressMap;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

/// Records of the first input among which one must have a value.
const N_LOOKED_AT: i64 = 1000;

fn reader(config: &Config, column: &str) -> Result<ColumnReader> {
    Ok(ColumnReader::new(&file_source(config, Vec::new(), ProgressMap::new())?, column))
}

/// Fails where `--keep` names a column that is not there, before hours go into clusters.
pub(in crate::cli) fn check(config: &Config, keep: &Keep, inputs: &[PathBuf]) -> Result<()> {
    let (Keep::Column(column), Some(first)) = (keep, inputs.first()) else { return Ok(()) };
    let mut has_any = false;
    let mut each = |value: Option<f64>| {
        has_any = value.is_some();
        !has_any
    };
    let unusable = |why: &dyn std::fmt::Display| usage(format!("--keep {column}: {why}"));
    reader(config, column)?.read(first, N_LOOKED_AT, &mut each).map_err(|error| unusable(&error))?;
    if !has_any {
        let first = first.display();
        return Err(unusable(&format_args!(
            "of the first {N_LOOKED_AT} records of {first}, none has a number or a time there; name another column, or give \
             longest, newest or first"
        )));
    }
    Ok(())
}

/// The values of the column for all records; none where `--keep` names no column.
pub(in crate::cli) fn values(
    config: &Config,
    keep: &Keep,
    inputs: &[ReadInput],
    context: &Context,
) -> Result<ColumnValues> {
    let mut values = ColumnValues::default();
    let Keep::Column(column) = keep else { return Ok(values) };
    let reader = reader(config, column)?;
    let n_records = inputs.iter().map(|input| input.n_records as u64).sum();
    context.progress.begin(PhaseName { name: "reading the column", reads_pages: false }, n_records);
    for input in inputs {
        values.begin_input();
        reader.read(Path::new(&input.name), input.n_records, &mut |value| {
            values.push(value);
            context.progress.advance(1);
            !context.stop.load(Relaxed)
        })?;
        if context.stop.load(Relaxed) {
            return Err(super::errors::dedup_error(DedupError::Stopped));
        }
    }
    Ok(values)
}
