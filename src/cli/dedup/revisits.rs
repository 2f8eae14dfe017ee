//! The revisits among the records: one more pass over WARC files, where a revisit could stay instead of its original.

use crate::backfill::{Context, PhaseName};
use crate::cli::exit::{Exit, ending};
use crate::cli::wiring::file_source;
use crate::config::Config;
use crate::dedup::{DedupError, Keep, ReadInput, RecordSet};
use crate::files::read_revisits;
use crate::ports::ProgressMap;
use anyhow::Result;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

/// The revisits, where `--keep` may prefer one to its original. An original comes before its revisits and has as many words, so
/// that `longest` and `first` never do; a WARC file has no columns.
pub(in crate::cli) fn revisits(
    config: &Config,
    keep: &Keep,
    inputs: &[ReadInput],
    context: &Context,
) -> Result<RecordSet> {
    let mut revisits = RecordSet::new(inputs.len());
    if *keep != Keep::Newest {
        return Ok(revisits);
    }
    let source = file_source(config, Vec::new(), ProgressMap::new())?;
    let n_records = inputs.iter().map(|input| input.n_records as u64).sum();
    context.progress.begin(PhaseName { name: "looking for revisits", reads_pages: false }, n_records);
    for (at, input) in inputs.iter().enumerate() {
        let mut offset = 0;
        let mut each = |is_revisit: bool| {
            if is_revisit {
                revisits.insert(at, offset);
            }
            offset += 1;
            context.progress.advance(1);
            !context.stop.load(Relaxed)
        };
        read_revisits(&source, Path::new(&input.name), input.n_records, &mut each)
            .map_err(|error| ending(Exit::Failed, error.message))?;
        if context.stop.load(Relaxed) {
            return Err(super::errors::dedup_error(DedupError::Stopped));
        }
    }
    Ok(revisits)
}
