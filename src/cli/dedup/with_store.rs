//! Clusters in a store: the pages are added to it, by a backfill where it is new and as `run` does where it is not. The events
//! of that, in the work folder, tell which record has which document.

use super::clustered::{Clustered, Known};
use super::errors::{dedup_error, phase_error};
use super::plan::Plan;
use crate::backfill::{self, BackfillInput, Checkpoint, Context, Handover, LinkRule, ReclusterPolicy, recluster};
use crate::cli::args::DedupArgs;
use crate::cli::backfill::{backfill_spec, context as phase_context, open_checkpoint, page_input, work_folder};
use crate::cli::exit::{Exit, ending};
use crate::cli::output::OutputMode;
use crate::cli::run::{Flow, poison_tracker, stream};
use crate::cli::telemetry;
use crate::cli::wiring::{events_sink, file_source, future_limit, open_read_only, open_store};
use crate::config::Config;
use crate::dedup::{Begun, ClusteredRecord, ClusteredRecords, Corpus, DedupError, KeptLog, Outcome, ReadInput};
use crate::document::DocumentId;
use crate::files::Input;
use crate::pipeline::CloseRequests;
use crate::ports::{LinkView, Snapshot, Store, StoreError};
use crate::sketch::{Estimate, compare};
use crate::store::{RocksLoader, RocksStore};
use crate::wire::{Event, EventBody, Rejection};
use anyhow::Result;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Documents that are read together.
const DOCUMENTS_TOGETHER: usize = 4096;

/// Adds the inputs to a store and reads its clusters. Without `store`, a temporary one in the work folder.
pub(super) fn cluster(
    config: &Config,
    store: Option<&Path>,
    plan: &Plan,
    corpus: &mut Corpus,
    context: &Context,
    args: &DedupArgs,
    mode: OutputMode,
) -> Result<Clustered> {
    let mut config = config.clone();
    config.store.path = store.map_or_else(|| context.folder.join("store"), Path::to_path_buf);
    let wanted = LinkRule { threshold: config.cluster.threshold, containment: args.containment };
    let begun = begin(&mut config, plan, corpus)?;
    let own = config.cluster.threshold;
    // A store that has a threshold of its own keeps it, unless another one is asked for.
    let rule = LinkRule { threshold: args.threshold.map_or(own, |_| wanted.threshold), ..wanted };
    let events = context.folder.join("events.jsonl");
    let is_loading =
        begun.is_new && (backfill::is_free(&config.store.path) || Checkpoint::exists(&work_folder(&config.store.path)));
    let mut unreadable = Vec::new();
    if is_loading {
        unreadable = load(&config, plan, context, &events, mode)?;
    }
    let mut store = open_store(&config)?;
    store.stops_with(Arc::clone(&context.stop));
    if !is_loading {
        unreadable = add(&config, plan, &mut store, context, &events, mode)?;
    }
    let clusters = clusters_of(&store, context, rule)?;
    let inputs = inputs_of(&store, plan)?;
    let n_read_before = inputs.iter().filter_map(|input| begun.n_read.get(&input.name)).map(|n| *n as u64).sum();
    let log = KeptLog::new(&config.store.path);
    let records = StoreRecords { store, clusters, events, begun: begun.clone(), inputs };
    // In a temporary store nothing was known before.
    let known = plan.spec.store.is_some().then_some(Known { log, begun });
    Ok(Clustered { records: Box::new(records), known, unreadable, n_read_before })
}

/// What the store held before the pages of this corpus came; asked of the store at the first attempt alone. Takes over the
/// threshold of a store that is there.
fn begin(config: &mut Config, plan: &Plan, corpus: &mut Corpus) -> Result<Begun> {
    let is_there = !backfill::is_free(&config.store.path);
    if !is_there && corpus.begun().is_none() {
        corpus.set_begun(Begun { is_new: true, ..Begun::default() }).map_err(dedup_error)?;
    }
    if is_there {
        let store = open_read_only(config)?;
        config.cluster.threshold = store.rule().cluster.threshold;
        if corpus.begun().is_none() {
            let progress = store.progress()?;
            let read = |(name, _, _): &(String, u64, String)| {
                let read = progress.get(&(name.clone(), 0))?;
                Some((name.clone(), read.next_offset))
            };
            let begun = Begun {
                is_new: false,
                n_documents: store.n_documents(),
                next_seq: store.next_seq(),
                n_read: plan.spec.inputs.iter().filter_map(read).collect(),
            };
            corpus.set_begun(begun).map_err(dedup_error)?;
        }
    }
    Ok(corpus.begun().cloned().unwrap_or_default())
}

/// Loads a new store. Returns what could not be read.
fn load(config: &Config, plan: &Plan, context: &Context, events: &Path, mode: OutputMode) -> Result<Vec<String>> {
    let folder = work_folder(&config.store.path);
    let context = phase_context(config, folder.clone(), context.memory, &context.stop, &context.progress);
    let checkpoint = open_checkpoint(config, &folder, backfill_spec(config, &plan.inputs)?, context.memory)?;
    let loader = RocksLoader::new(config.store_settings(), config.rule(), checkpoint.seed()?);
    let mut progress = telemetry::Progress::new(config.log.progress_seconds, mode.hides_progress());
    let input = page_input(config, plan.inputs.clone(), checkpoint.ingested().progress_map(), &mut progress)?;
    let events = Some(events_sink(&events.to_string_lossy())?);
    let shown = progress.start_backfill(Arc::clone(&context.progress));
    let end = Handover { events, ..Handover::default() };
    let report = backfill::run(checkpoint, &context, BackfillInput::Pages(input), &loader, &config.store.path, end);
    shown.finish();
    Ok(report.map_err(phase_error)?.unreadable)
}

/// Adds what is new to a store. Returns what could not be read.
fn add(
    config: &Config,
    plan: &Plan,
    store: &mut RocksStore,
    context: &Context,
    events: &Path,
    mode: OutputMode,
) -> Result<Vec<String>> {
    let mut progress = telemetry::Progress::new(config.log.progress_seconds, mode.hides_progress());
    let inputs = plan.inputs.iter().cloned().map(Input::File).collect();
    let source = file_source(config, inputs, store.progress()?)?;
    progress.reads(source.read_progress());
    let flow = Flow {
        source: Box::new(source),
        sink: Some(events_sink(&events.to_string_lossy())?),
        poison: Arc::new(poison_tracker(config, store)?),
        close_requests: CloseRequests::default(),
        progress,
        future: future_limit(config),
        stats: Arc::default(),
        stop: Arc::clone(&context.stop),
    };
    let summary = stream(config, store, flow, &context.stop)?;
    if context.stop.load(Relaxed) {
        return Err(ending(Exit::Interrupted, "stopped; run again to resume"));
    }
    Ok(summary.unreadable)
}

/// The cluster of every document: the store's own, or those of another rule, which leaves the store as it is.
fn clusters_of(store: &RocksStore, context: &Context, rule: LinkRule) -> Result<Vec<DocumentId>> {
    let own = LinkRule { threshold: store.rule().cluster.threshold, containment: None };
    if rule != own {
        let folder = context.folder.join("recluster");
        std::fs::create_dir_all(&folder).map_err(|error| dedup_error(DedupError::io(&folder, error)))?;
        let context = Context { folder, ..context.clone() };
        return Ok(recluster(store, &context, rule, ReclusterPolicy::Components).map_err(phase_error)?.names);
    }
    Ok(store.clusters()?.cluster_of_each().into_iter().map(|cluster| DocumentId(cluster.0)).collect())
}

/// The inputs that the store has read records of.
fn inputs_of(store: &RocksStore, plan: &Plan) -> Result<Vec<ReadInput>> {
    let progress = store.progress()?;
    let read = |(name, _, _): &(String, u64, String)| {
        let read = progress.get(&(name.clone(), 0))?;
        Some(ReadInput { name: name.clone(), n_records: read.next_offset, chain: read.chain })
    };
    Ok(plan.spec.inputs.iter().filter_map(read).collect())
}

/// The records of a store's newest events.
struct StoreRecords {
    store: RocksStore,
    clusters: Vec<DocumentId>,
    events: PathBuf,
    begun: Begun,
    inputs: Vec<ReadInput>,
}

fn failed(error: StoreError) -> DedupError {
    DedupError::Records(Box::new(error))
}

impl ClusteredRecords for StoreRecords {
    fn inputs(&self) -> &[ReadInput] {
        &self.inputs
    }

    fn clusters(&self) -> &[DocumentId] {
        &self.clusters
    }

    fn n_words(&self) -> Result<Vec<u32>, DedupError> {
        // Pages of older documents go in favour of what was kept before, however long they are.
        let mut n_words = vec![0; self.begun.n_documents as usize];
        let new: Vec<DocumentId> = (self.begun.n_documents + 1..=self.store.n_documents()).map(DocumentId).collect();
        for documents in new.chunks(DOCUMENTS_TOGETHER) {
            n_words.extend(self.store.documents(documents).map_err(failed)?.iter().map(|document| document.n_words));
        }
        Ok(n_words)
    }

    fn each_record(&self, each: &mut dyn FnMut(ClusteredRecord) -> Result<(), DedupError>) -> Result<(), DedupError> {
        if !self.events.exists() {
            return Ok(());
        }
        let at: HashMap<&str, u32> = self.inputs.iter().map(|input| input.name.as_str()).zip(0..).collect();
        let file = File::open(&self.events).map_err(|error| DedupError::io(&self.events, error))?;
        for line in BufReader::with_capacity(1 << 20, file).split(b'\n') {
            let line = line.map_err(|error| DedupError::io(&self.events, error))?;
            let event: Event = serde_json::from_slice(&line).map_err(|_| DedupError::Damaged(self.events.clone()))?;
            if event.seq >= self.begun.next_seq
                && let Some(input) = at.get(event.source.as_str())
                && let Some(record) = record_of(event, *input)
            {
                each(record)?;
            }
        }
        Ok(())
    }

    fn compare(&mut self, pairs: &[(DocumentId, DocumentId)]) -> Result<Vec<Estimate>, DedupError> {
        let rule = self.store.rule().sketch.rule;
        let documents: Vec<DocumentId> = pairs.iter().flat_map(|(a, b)| [*a, *b]).collect();
        let sketches = self.store.sketches_of(&documents).map_err(failed)?;
        Ok(sketches.as_chunks::<2>().0.iter().map(|[a, b]| compare(a, b, rule)).collect())
    }

    fn first_urls(&self, documents: &[DocumentId]) -> Result<Vec<String>, DedupError> {
        self.store.first_urls(documents).map_err(failed)
    }
}

/// The record of a terminal event.
fn record_of(event: Event, input: u32) -> Option<ClusteredRecord> {
    let outcome = match event.body {
        EventBody::Assigned { document, .. } => Outcome::Page { document, fetched_at: event.fetched_at? },
        EventBody::Gone {} => Outcome::Gone,
        EventBody::Redirected { .. } => Outcome::Redirected,
        EventBody::Rejected { reason, message } => Outcome::Rejected(Box::new(Rejection::new(reason, message))),
        _ => return None,
    };
    Some(ClusteredRecord { input, offset: event.offset, url: event.url, outcome })
}
