//! `lookalike forget` and `compact`: deletes what a store should not hold any longer.

use super::args::ForgetArgs;
use super::backfill::{context, memory_limit};
use super::exit::{Exit, ending, file_error, usage};
use super::output::OutputMode;
use super::wiring::{open_read_only, open_store, watch_signals};
use crate::backfill::{self, BackfillError, Forgetting};
use crate::config::Config;
use crate::dedup::KeptLog;
use crate::document::FetchTime;
use crate::ports::{Forgotten, RelatedView, Snapshot};
use crate::store::RocksStore;
use crate::sweep::Selection;
use anyhow::Result;
use indicatif::{HumanBytes, HumanCount};
use serde::Serialize;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// Sightings that are forgotten in one batch, about. Memory holds them and the lists of their documents: a gigabyte at most.
const SIGHTINGS_AT_ONCE: usize = 500_000;

/// What was forgotten.
#[derive(Default, Serialize)]
struct ForgetSummary {
    /// URLs of which sightings are forgotten.
    n_urls: u64,
    /// Of these, the URLs of which nothing is left.
    n_urls_gone: u64,
    /// Sightings of pages, as `stats` counts them.
    n_sightings: u64,
    /// Sightings that a URL is gone, redirected or lost.
    n_gone: u64,
    n_documents: u64,
    /// Events that wait for the next `run`.
    n_events: u64,
    is_dry_run: bool,
    /// Whether related pages need another `related build`.
    needs_related_build: bool,
}

impl ForgetSummary {
    fn add(&mut self, forgotten: &Forgotten) {
        self.n_urls += forgotten.urls.len() as u64;
        self.n_urls_gone += forgotten.urls.iter().filter(|url| url.after.is_none()).count() as u64;
        for moment in forgotten.urls.iter().flat_map(|url| &url.sightings) {
            let is_page = moment.seen.document().is_some();
            self.n_sightings += u64::from(is_page);
            self.n_gone += u64::from(!is_page);
        }
        self.n_documents += forgotten.documents.len() as u64;
    }
}

/// Forgets what is selected.
pub(super) fn forget(config: &Config, args: &ForgetArgs, mode: OutputMode) -> Result<Exit> {
    let selection = selection(args)?;
    // Opening read-only creates nothing where there is no store.
    let reader = open_read_only(config)?;
    check_can_forget(&reader)?;
    if let Some(sweep) = &selection.sweep
        && !reader.sweeps()?.iter().any(|(name, _)| name == sweep)
    {
        let why = format!("no page names sweep {sweep}; `lookalike sweep list` shows the sweeps");
        return Err(ending(Exit::NotFound, why));
    }
    let mut summary = ForgetSummary { is_dry_run: args.dry_run, ..ForgetSummary::default() };
    if args.dry_run {
        summary.add(&reader.find_selected(&selection, usize::MAX)?);
    } else {
        drop(reader);
        let mut store = open_store(config)?;
        let stop = watch_signals()?;
        store.stops_with(Arc::clone(&stop));
        forget_all(config, &store, &selection, args.memory, &stop, &mut summary)?;
    }
    if summary.n_urls == 0 && !(selection.urls.is_empty() && selection.hosts.is_empty()) {
        return Err(ending(
            Exit::NotFound,
            "the store has no such sightings; URLs and hosts are compared as they stand in the pages' records",
        ));
    }
    mode.summary(&summary, |summary| summary_text(summary, &config.store.path))?;
    Ok(Exit::Done)
}

/// Forgets what is older than `retention.days`, where that is set. Returns the text of what was done, if there was anything to do.
pub(super) fn forget_old(config: &Config, store: &RocksStore, stop: &Arc<AtomicBool>) -> Result<Option<String>> {
    let Some(before) = config.retention.before(SystemTime::now()) else { return Ok(None) };
    check_can_forget(store)?;
    let (selection, mut summary) =
        (Selection { before: Some(before), ..Selection::default() }, ForgetSummary::default());
    forget_all(config, store, &selection, None, stop, &mut summary)?;
    Ok((summary.n_urls > 0).then(|| summary_text(&summary, &config.store.path)))
}

/// Fails where a store holds what `forget` cannot take from it.
fn check_can_forget(store: &RocksStore) -> Result<()> {
    if KeptLog::new(store.path()).is_there() {
        return Err(usage(
            "`dedup` keeps a log of the pages in its corpora in this store, and `forget` cannot delete from that yet; \
             make a new store from the pages that stay",
        ));
    }
    Ok(())
}

fn selection(args: &ForgetArgs) -> Result<Selection> {
    let mut urls = args.named_urls.clone();
    if let Some(path) = &args.urls_from {
        let text = if path == Path::new("-") {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map(|_| text)
        } else {
            std::fs::read_to_string(path)
        };
        let text = text.map_err(|error| usage(format!("--urls-from: {}: {error}", path.display())))?;
        urls.extend(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(String::from));
        if urls.is_empty() {
            return Err(usage(format!("--urls-from: {} names no URL", path.display())));
        }
    }
    let selection = Selection {
        urls: urls.into_iter().collect(),
        hosts: args.hosts.iter().cloned().collect(),
        before: args.before.as_deref().map(time).transpose()?,
        sweep: args.sweep.clone(),
    };
    if selection.is_everything() {
        return Err(usage("say what to forget: URLs, --urls-from, --host, --before or --sweep"));
    }
    Ok(selection)
}

/// A time, or the beginning of a day in UTC.
fn time(text: &str) -> Result<FetchTime> {
    let time = text.parse().or_else(|_| format!("{text}T00:00:00Z").parse());
    time.map_err(|_| usage(format!("--before: {text} is no time; write 2020-01-01 or 2020-01-01T08:00:00Z")))
}

/// Forgets in batches, each of which is whole: a command that was interrupted goes on with what is left.
fn forget_all(
    config: &Config,
    store: &RocksStore,
    selection: &Selection,
    memory: Option<u64>,
    stop: &Arc<AtomicBool>,
    summary: &mut ForgetSummary,
) -> Result<()> {
    loop {
        let forgotten = store.find_selected(selection, SIGHTINGS_AT_ONCE)?;
        if !forgotten.urls.is_empty() {
            summary.n_events += forget_batch(config, store, memory, &forgotten, stop)?;
            summary.add(&forgotten);
            summary.needs_related_build = store.has_related();
        }
        if forgotten.is_all {
            if summary.n_urls > 0 {
                store.count_again()?;
            }
            return Ok(());
        }
        if stop.load(Ordering::Relaxed) {
            return Err(stopped());
        }
    }
}

/// Forgets a batch. Returns the number of events.
fn forget_batch(
    config: &Config,
    store: &RocksStore,
    memory: Option<u64>,
    forgotten: &Forgotten,
    stop: &Arc<AtomicBool>,
) -> Result<u64> {
    let folder = store.path().join("forgetting");
    // A killed run may have left it.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).map_err(|error| file_error("create", &folder, &error))?;
    let context = context(config, folder.clone(), memory_limit(memory), stop, &Arc::default());
    let forgetting = backfill::forget(store, &context, forgotten);
    std::fs::remove_dir_all(&folder).map_err(|error| file_error("remove", &folder, &error))?;
    let Forgetting { remainders, events } = forgetting.map_err(|error| match error {
        BackfillError::Stopped => stopped(),
        error => error.into(),
    })?;
    store.forget(forgotten, &remainders, &events)?;
    Ok(events.len() as u64)
}

fn stopped() -> anyhow::Error {
    ending(Exit::Interrupted, "stopped before everything was forgotten; give the command again to go on")
}

fn summary_text(summary: &ForgetSummary, store: &Path) -> String {
    let store = store.display();
    let ForgetSummary { n_urls, n_urls_gone, n_sightings, n_gone, n_documents, n_events, .. } = summary;
    if *n_urls == 0 {
        return format!("{store} has nothing to forget\n");
    }
    let what = format!(
        "{} sightings of pages and {} that a URL is gone, redirected or lost, of {} URLs, {} of them as a whole, and {} documents",
        HumanCount(*n_sightings),
        HumanCount(*n_gone),
        HumanCount(*n_urls),
        HumanCount(*n_urls_gone),
        HumanCount(*n_documents),
    );
    if summary.is_dry_run {
        return format!("{what} would be forgotten; {store} is unchanged\n");
    }
    let mut text = format!(
        "{store} forgot {what}; the next `run` publishes {} events\n\
         its files may still hold them until that run and `lookalike compact --store {store}` after it\n",
        HumanCount(*n_events)
    );
    if summary.needs_related_build {
        text += &format!("it has no related pages until `lookalike related build --store {store}`\n");
    }
    text
}

/// What compaction did.
#[derive(Serialize)]
struct CompactSummary {
    n_bytes_before: u64,
    n_bytes: u64,
}

/// Rewrites the store's files without what is deleted.
pub(super) fn compact(config: &Config, mode: OutputMode) -> Result<Exit> {
    let n_bytes_before = open_read_only(config)?.n_bytes_on_disk();
    let store = open_store(config)?;
    store.compact()?;
    // RocksDB deletes the old files when the store is closed, if not before.
    drop(store);
    let summary = CompactSummary { n_bytes_before, n_bytes: open_read_only(config)?.n_bytes_on_disk() };
    mode.summary(&summary, |summary| {
        let CompactSummary { n_bytes_before, n_bytes } = summary;
        format!(
            "{} is {} now, {} before\n",
            config.store.path.display(),
            HumanBytes(*n_bytes),
            HumanBytes(*n_bytes_before)
        )
    })?;
    Ok(Exit::Done)
}
