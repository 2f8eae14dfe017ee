//! Clusters without a store: the phases of a backfill up to the links.

use super::clustered::Clustered;
use super::errors::phase_error;
use crate::backfill::{self, BackfillError, ClusteredPages, Context, PageRow};
use crate::cli::backfill::{backfill_spec, note_disk_space, open_phases, page_input};
use crate::cli::output::OutputMode;
use crate::cli::telemetry;
use crate::config::Config;
use crate::dedup::{ClusteredRecord, ClusteredRecords, DedupError, Outcome, ReadInput};
use crate::document::DocumentId;
use crate::sketch::Estimate;
use crate::sweep::Seen;
use anyhow::Result;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Reads and clusters the inputs in the work folder.
pub(in crate::cli) fn cluster(
    config: &Config,
    inputs: Vec<PathBuf>,
    context: &Context,
    mode: OutputMode,
) -> Result<Clustered> {
    let context = Context { folder: context.folder.join("clusters"), ..context.clone() };
    let spec = backfill_spec(config, &inputs)?;
    let checkpoint = open_phases(config, &context.folder, spec.clone(), context.memory)?;
    note_disk_space(&context.folder, &spec.inputs, mode)?;
    let mut progress = telemetry::Progress::new(config.log.progress_seconds, mode.hides_progress());
    let input = page_input(config, inputs, checkpoint.ingested().progress_map(), &mut progress)?;
    let shown = progress.start_backfill(Arc::clone(&context.progress));
    let pages = backfill::cluster(checkpoint, &context, input);
    shown.finish();
    let pages = pages.map_err(phase_error)?;
    let unreadable = pages.ingested().unreadable.iter().cloned().collect();
    let records = Box::new(PageRecords { inputs: inputs_of(&pages), pages });
    Ok(Clustered { records, known: None, unreadable, n_read_before: 0 })
}

/// The sources that had records, in the order in which pages number them.
fn inputs_of(pages: &ClusteredPages) -> Vec<ReadInput> {
    let ingested = pages.ingested();
    let progress: HashMap<&str, (i64, u64)> =
        ingested.progress.iter().map(|(name, _, next_offset, chain)| (name.as_str(), (*next_offset, *chain))).collect();
    let read = |name: &String| {
        let (n_records, chain) = progress.get(name.as_str()).copied().unwrap_or_default();
        ReadInput { name: name.clone(), n_records, chain }
    };
    ingested.sources.iter().map(read).collect()
}

/// The pages of a work folder.
struct PageRecords {
    pages: ClusteredPages,
    inputs: Vec<ReadInput>,
}

/// An error of reading pages, or of the function that receives them.
struct PageError(DedupError);

impl From<BackfillError> for PageError {
    fn from(error: BackfillError) -> Self {
        PageError(failed(error))
    }
}

fn failed(error: BackfillError) -> DedupError {
    DedupError::Records(Box::new(error))
}

impl ClusteredRecords for PageRecords {
    fn inputs(&self) -> &[ReadInput] {
        &self.inputs
    }

    fn clusters(&self) -> &[DocumentId] {
        self.pages.clusters()
    }

    fn n_words(&self) -> Result<Vec<u32>, DedupError> {
        self.pages.n_words().map_err(failed)
    }

    fn each_record(&self, each: &mut dyn FnMut(ClusteredRecord) -> Result<(), DedupError>) -> Result<(), DedupError> {
        self.pages.each_page(|page| each(record_of(page)).map_err(PageError)).map_err(|PageError(error)| error)
    }

    fn compare(&mut self, pairs: &[(DocumentId, DocumentId)]) -> Result<Vec<Estimate>, DedupError> {
        pairs.iter().map(|(a, b)| self.pages.compare(*a, *b).map_err(failed)).collect()
    }

    fn first_urls(&self, documents: &[DocumentId]) -> Result<Vec<String>, DedupError> {
        // Nothing is from before.
        Ok(vec![String::new(); documents.len()])
    }
}

fn record_of(page: PageRow) -> ClusteredRecord {
    let PageRow { source, offset, outcome, .. } = page;
    let (url, outcome) = match outcome {
        backfill::Outcome::Rejected(why) => (why.url.clone(), Outcome::Rejected(Box::new(why))),
        backfill::Outcome::Page(visit) => {
            let fetched_at = visit.observation.fetched_at;
            let outcome = match visit.observation.seen {
                Seen::Document(document) => Outcome::Page { document, fetched_at },
                Seen::Redirect(_) => Outcome::Redirected,
                Seen::Gone | Seen::Lost => Outcome::Gone,
            };
            (Some(visit.url), outcome)
        }
    };
    ClusteredRecord { input: source, offset, url, outcome }
}
