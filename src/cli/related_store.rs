//! `lookalike related build` in a store, and `lookalike query related`, which answers from it.

use super::answer_table::{self, AnswerFormat, AnswerWriter, print_as};
use super::args::BuildArgs;
use super::backfill::memory_limit;
use super::exit::{Exit, RUN_SHOWS_REASONS, ending, file_error, none_accepted};
use super::output::{OutputMode, no_pages_text, unreadable_text};
use super::page_file::page_of_file;
use super::render;
use super::telemetry;
use super::wiring::{file_source, inputs, lines, open_read_only, open_store, watch_signals};
use crate::backfill::related::Difference;
use crate::backfill::{self, BackfillError, Context};
use crate::config::Config;
use crate::document::DocumentId;
use crate::files::FileSource;
use crate::intake::{FutureLimit, RecordSketcher};
use crate::ports::{
    Incoming, Polled, ProgressMap, RelatedBuild, RelatedClusters, RelatedView, Snapshot, Source, Store,
};
use crate::query::{self, NO_RELATED, RelatedQuestion, RelatedTo};
use crate::related::{RelatedRule, Said, SaidReader};
use crate::store::{Finding, Report, RocksStore, ScratchFolder};
use anyhow::Result;
use indicatif::HumanCount;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long to wait for an input.
const POLL_TIMEOUT: Duration = Duration::from_millis(200);

/// Documents whose words are written together.
const DOCUMENTS_TOGETHER: usize = 1024;

/// What a build did.
#[derive(Serialize)]
struct BuildSummary {
    #[serde(flatten)]
    build: RelatedBuild,
    #[serde(flatten)]
    read: FilesRead,
    seconds: f64,
}

/// Makes the bags of a store anew.
pub(super) fn build(mut config: Config, args: BuildArgs, mode: OutputMode) -> Result<Exit> {
    let begun = Instant::now();
    args.page_defaults.override_in(&mut config)?;
    // Before the store is opened: a mistyped path changes nothing.
    let inputs = if args.inputs.is_empty() { Vec::new() } else { inputs(&args.inputs, None)? };
    open_read_only(&config)?;
    config.related.on = true;
    telemetry::start_logs(&config.log)?;
    let stop = watch_signals()?;
    let mut store = open_store(&config)?;
    store.stops_with(Arc::clone(&stop));
    let mut read = FilesRead::default();
    if !inputs.is_empty() {
        let source = file_source(&config, inputs, ProgressMap::new())?;
        read = read_files(&store, &config, source, &stop)?;
        if !read.is_any_accepted && read.n_rejected > 0 {
            return Err(none_accepted(read.n_rejected, RUN_SHOWS_REASONS));
        }
    }
    let folder = work_folder(&config.store.path, ".related");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|error| file_error("remove", &folder, &error))?;
    }
    std::fs::create_dir(&folder).map_err(|error| file_error("create", &folder, &error))?;
    let context = Context {
        folder: folder.clone(),
        n_threads: std::thread::available_parallelism().map_or(1, usize::from),
        memory: memory_limit(args.memory),
        stop,
        progress: Default::default(),
    };
    let built = build_in(&mut store, &config.related, args.clusters, &context);
    std::fs::remove_dir_all(&folder).map_err(|error| file_error("remove", &folder, &error))?;
    let build = match built {
        Err(BackfillError::Stopped) => return Err(ending(Exit::Interrupted, "stopped; the last build stays")),
        built => built?,
    };
    let is_all_read = read.unreadable.is_empty();
    let summary = BuildSummary { build, read, seconds: begun.elapsed().as_secs_f64() };
    mode.summary(&summary, |summary| summary_text(summary, &config.store.path))?;
    Ok(if is_all_read { Exit::Done } else { Exit::Unreadable })
}

fn build_in(
    store: &mut RocksStore,
    rule: &RelatedRule,
    with_clusters: bool,
    context: &Context,
) -> Result<RelatedBuild, BackfillError> {
    let counted = backfill::related::count_related(store, rule, context)?;
    let clusters = with_clusters.then(|| counted.clusters()).transpose()?;
    store.replace_related(|tables| counted.write(tables, clusters.as_ref()))
}

/// The folder lies beside the store, on the same disk.
fn work_folder(store: &Path, end: &str) -> PathBuf {
    let mut name = store.file_name().unwrap_or(store.as_os_str()).to_os_string();
    name.push(end);
    store.with_file_name(name)
}

/// Compares the bags of a store with what its documents say, and adds the differences to a report, or why nothing was
/// compared.
pub(super) fn recount(
    store: &RocksStore,
    findings_max: usize,
    stop: Arc<AtomicBool>,
    report: &mut Report,
) -> Result<(), BackfillError> {
    let build = store.related_build();
    // What cannot be read is a finding already.
    let Ok(Some(build)) = build else { return Ok(()) };
    if !backfill::related::is_up_to_date(store, &build) {
        let why = "bags of related pages against what documents say, which has changed since the last `related build`";
        report.unchecked.push(why.to_string());
        return Ok(());
    }
    if !report.is_sound {
        report
            .unchecked
            .push("bags of related pages against what documents say, because of what was found".to_string());
        return Ok(());
    }
    let folder = work_folder(store.path(), ".verify");
    let folder = match ScratchFolder::beside(&folder) {
        Ok(folder) => folder,
        Err(error) => {
            let what = "bags of related pages against what documents say: cannot create";
            report.unchecked.push(format!("{what} {}: {error}", folder.display()));
            return Ok(());
        }
    };
    let context = Context {
        folder: folder.path().to_path_buf(),
        n_threads: 1,
        memory: memory_limit(None),
        stop,
        progress: Default::default(),
    };
    backfill::related::recount_related(store, &build, &context, &mut |difference| {
        let (family, key, what) = match difference {
            Difference::Bag(target) => ("bags", format!("{:016x}", target.0), "it is not made of what documents say"),
            Difference::Term(term) => ("terms", format!("{:08x}", term.0), "it does not count the bags with a term"),
        };
        report.add_finding(Finding { family, key, what: what.to_string() }, findings_max);
    })
}

/// What the inputs told.
#[derive(Default, Serialize)]
struct FilesRead {
    /// Documents whose words and links were read.
    n_read: u64,
    /// Pages that the store does not hold.
    n_unknown: u64,
    /// Records that are no pages.
    n_rejected: u64,
    #[serde(skip)]
    is_any_accepted: bool,
    unreadable: Vec<String>,
}

/// Keeps what pages say whose documents the store holds and has nothing kept of.
fn read_files(store: &RocksStore, config: &Config, mut source: FileSource, stop: &AtomicBool) -> Result<FilesRead> {
    let sketcher = store.rule().sketcher(store.seed());
    let mut sketcher = RecordSketcher::new(sketcher, config.limits.clone(), config.input.sweep_cut, FutureLimit::NONE)
        .with_said(Some(SaidReader::new(&config.related, store.seed())));
    let (mut read, mut waiting) = (FilesRead::default(), Vec::new());
    while !stop.load(Ordering::Relaxed) {
        match source.poll(POLL_TIMEOUT)? {
            Polled::Record(Incoming { record, .. }) => {
                let Ok(page) = sketcher.sketch(&record) else {
                    read.n_rejected += 1;
                    continue;
                };
                read.is_any_accepted = true;
                let (Some(content), Some(said)) = (page.content, page.said) else { continue };
                let keys: Vec<_> = content.equivalences.keys().collect();
                match store.equal(&keys)?.into_iter().flatten().next() {
                    Some(document) => waiting.push((document, said)),
                    None => read.n_unknown += 1,
                }
            }
            Polled::Unreadable(what) => {
                tracing::error!("unreadable: {what}");
                read.unreadable.push(what.to_string());
            }
            Polled::Idle => {}
            Polled::End => break,
        }
        if waiting.len() >= DOCUMENTS_TOGETHER {
            read.n_read += keep(store, &mut waiting)?;
        }
    }
    if stop.load(Ordering::Relaxed) {
        return Err(ending(Exit::Interrupted, "stopped; the last build stays"));
    }
    read.n_read += keep(store, &mut waiting)?;
    Ok(read)
}

/// Writes what documents say of which nothing is kept; of several pages with one document the first tells.
fn keep(store: &RocksStore, waiting: &mut Vec<(DocumentId, Arc<Said>)>) -> Result<u64> {
    waiting.sort_by_key(|(document, _)| *document);
    waiting.dedup_by_key(|(document, _)| *document);
    let documents: Vec<DocumentId> = waiting.iter().map(|(document, _)| *document).collect();
    let mut known = store.said(&documents)?.into_iter();
    waiting.retain(|_| known.next().is_some_and(|known| known.is_none()));
    store.add_said(waiting)?;
    let n = waiting.len() as u64;
    waiting.clear();
    Ok(n)
}

fn summary_text(summary: &BuildSummary, store: &Path) -> String {
    let BuildSummary { build, read, seconds } = summary;
    let mut text = format!(
        "{} URLs have a bag in {}: {} with a page's words, {} with words of links; {seconds:.1} s\n",
        HumanCount(build.n_urls),
        store.display(),
        HumanCount(build.n_content),
        HumanCount(build.n_anchors),
    );
    if let Some(RelatedClusters { n_pairs, n_clusters, largest }) = build.clusters {
        text += &format!(
            "  {} pairs of related pages, {} clusters of two or more, the largest of {}\n",
            HumanCount(n_pairs),
            HumanCount(n_clusters),
            HumanCount(largest)
        );
    }
    if read.n_read + read.n_unknown > 0 {
        text += &format!(
            "  read for {} documents; {} pages are not in the store\n",
            HumanCount(read.n_read),
            HumanCount(read.n_unknown)
        );
    }
    text + &no_pages_text(0, read.n_rejected, "") + &unreadable_text(&read.unreadable)
}

/// Answers for one file or URL.
pub(super) fn query(config: &Config, of: &str, limit: usize, copies: bool, format: AnswerFormat) -> Result<Exit> {
    let store = open_with_related(config)?;
    let answer = if Path::new(of).is_file() {
        let rule = store.related_rule()?.unwrap_or_else(|| config.related.clone());
        let page = page_of_file(Path::new(of), &config.limits)?;
        let said = SaidReader::new(&rule, store.seed()).read(&page).unwrap_or_default();
        query::related(&store, RelatedQuestion::Said(&said), limit, copies)?
    } else {
        query::related(&store, RelatedQuestion::Url(of), limit, copies)?
    };
    let Some(answer) = answer else {
        let why = format!(
            "nothing is known about {of}: it has no words, and no page links to it; URLs are compared byte by byte"
        );
        return Err(ending(Exit::NotFound, why));
    };
    print_as(&RelatedTo { of, answer }, format, answer_table::RELATED, render::related)
}

/// Shows the cluster of related pages that a URL is in.
pub(super) fn query_cluster(config: &Config, url: &str, limit: usize, format: AnswerFormat) -> Result<Exit> {
    let store = open_with_related(config)?;
    if !query::has_related_clusters(&store)? {
        return Err(ending(Exit::NotFound, query::NO_RELATED_CLUSTERS));
    }
    let cluster = query::related_cluster(&store, url, limit)?;
    let why =
        || format!("the last build of related pages found nothing similar to {url}; URLs are compared byte by byte");
    let cluster = cluster.ok_or_else(|| ending(Exit::NotFound, why()))?;
    print_as(&cluster, format, answer_table::RELATED_CLUSTER, render::related_cluster)
}

/// Answers for many URLs, and prints each answer as soon as it is there.
pub(super) fn query_each(
    config: &Config,
    urls_from: &Path,
    limit: usize,
    copies: bool,
    format: AnswerFormat,
) -> Result<Exit> {
    let store = open_with_related(config)?;
    let mut out = AnswerWriter::new(format, answer_table::RELATED)?;
    for of in &lines(urls_from)? {
        let answer = query::related(&store, RelatedQuestion::Url(of), limit, copies)?;
        let answer = answer.unwrap_or_default();
        out.write(&RelatedTo { of, answer }, render::related)?;
    }
    out.finish()?;
    Ok(Exit::Done)
}

fn open_with_related(config: &Config) -> Result<RocksStore> {
    let store = open_read_only(config)?;
    if store.has_related() {
        return Ok(store);
    }
    Err(ending(Exit::NotFound, NO_RELATED))
}
