//! The values of the column that `--keep` names: one more pass over the inputs.

use crate::backfill::{Context, PhaseName};
use crate::cli::exit::usage;
use crate::cli::wiring::file_source;
use crate::config::Config;
use crate::dedup::{ColumnValues, DedupError, Keep, ReadInput};
use crate::files::{ColumnError, ColumnReader};
use crate::ports::ProgressMap;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

/// Records of each input among which one must have a value, in one of the inputs.
const N_LOOKED_AT: i64 = 1000;

fn reader(config: &Config, column: &str) -> Result<ColumnReader> {
    Ok(ColumnReader::new(&file_source(config, Vec::new(), ProgressMap::new())?, column))
}

/// Fails where `--keep` names a column that no input has, before hours go into clusters.
pub(in crate::cli) fn check(config: &Config, keep: &Keep, inputs: &[PathBuf]) -> Result<()> {
    let Keep::Column(column) = keep else { return Ok(()) };
    let reader = reader(config, column)?;
    let mut problem = None;
    for input in inputs {
        let mut has_any = false;
        let mut each = |value: Option<f64>| {
            has_any = value.is_some();
            !has_any
        };
        let read = reader.read(input, N_LOOKED_AT, &mut each);
        if has_any {
            return Ok(());
        }
        problem = problem.or(read.err());
    }
    let why = problem.map_or_else(
        || {
            format!(
                "of the first {N_LOOKED_AT} records of each input, none has a number or a time there; name another column, or \
                 give longest, newest or first"
            )
        },
        |problem| problem.to_string(),
    );
    Err(usage(format!("--keep {column}: {why}")))
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
        if input.n_records == 0 {
            continue;
        }
        let read = reader.read(Path::new(&input.name), input.n_records, &mut |value| {
            values.push(value);
            context.progress.advance(1);
            !context.stop.load(Relaxed)
        });
        match read {
            Ok(()) => {}
            // Its records have no values: those of others go before them.
            Err(ColumnError::Missing { .. }) => context.progress.advance(input.n_records as u64),
            Err(error) => return Err(error.into()),
        }
        if context.stop.load(Relaxed) {
            return Err(super::errors::dedup_error(DedupError::Stopped));
        }
    }
    Ok(values)
}
