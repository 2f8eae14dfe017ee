//! `lookalike related`: related pages of whole files, and what a build found.

use super::args::{BuildArgs, EvaluateArgs, RelatedCommand, SampleArgs, TableArgs};
use super::backfill::{context, input_sizes, memory_limit, page_input, usage_error};
use super::exit::{Exit, RUN_SHOWS_REASONS, ending, file_error, none_accepted, usage};
use super::output::{OutputMode, RowWriter, counted, no_pages_text, print, unreadable_text};
use super::output_path::check_output;
use super::related_store;
use super::telemetry;
use super::wiring::{new_seed, watch_signals};
use crate::backfill::related::{self, BuildReport, BuildSpec, Built, RelatedBuild, UrlTable};
use crate::backfill::{BackfillError, Checkpoint, PhaseProgress};
use crate::config::Config;
use crate::document::path_of;
use crate::files::input_files;
use crate::ports::ProgressMap;
use crate::related::{Classes, Evaluation, Scores, Term};
use anyhow::Result;
use indicatif::{HumanBytes, HumanCount};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Answers a command about related pages.
pub(super) fn related(config: Config, command: RelatedCommand, mode: OutputMode) -> Result<Exit> {
    match command {
        RelatedCommand::Build(args) => match args.out.clone() {
            Some(out) => build(config, args, &out, mode),
            None => related_store::build(config, args, mode),
        },
        RelatedCommand::Table(args) => table(&args, mode.json),
        RelatedCommand::Sample(args) => sample(&args, mode.json),
        RelatedCommand::Evaluate(args) => evaluate(&args, mode.json),
    }
}

/// The folder inside DIR that a build works in.
fn work_folder(out: &Path) -> PathBuf {
    out.join("data")
}

fn build(mut config: Config, args: BuildArgs, out: &Path, mode: OutputMode) -> Result<Exit> {
    let begun = Instant::now();
    args.page_defaults.override_in(&mut config)?;
    // Before the folder is created: a mistyped path must leave nothing behind.
    let inputs = input_files(&args.inputs).map_err(usage)?;
    for table in ["neighbours", "centers"] {
        check_output("--out", &table_path(out, table, mode.json), &inputs)?;
    }
    check_output("--out", &out.join(BAGS), &inputs)?;
    let spec = BuildSpec {
        rule: config.related.clone(),
        reading: {
            let of = &config.input;
            serde_json::to_string(&(&config.limits, &of.fetched_at, &of.url_from, &of.fields, of.future_days_max))?
        },
        inputs: input_sizes(&inputs)?,
    };
    let folder = work_folder(out);
    if Built::open(&folder).is_ok() {
        let why = "holds a finished build; name another folder, or remove it";
        return Err(usage(format!("{} {why}", out.display())));
    }
    telemetry::start_logs(&config.log)?;
    let shutdown = watch_signals()?;
    let memory = memory_limit(args.memory);
    let mut checkpoint = open_checkpoint(&config, &folder, spec, memory)?;
    let phase_progress = Arc::new(PhaseProgress::default());
    let context = context(&config, folder, memory, &shutdown, &phase_progress);
    let n_files = inputs.len();
    let mut progress = telemetry::Progress::new(config.log.progress_seconds, mode.hides_progress());
    let input = page_input(&config, inputs, ProgressMap::new(), &mut progress)?;
    let shown = progress.start_backfill(phase_progress);
    let report = related::build(&mut checkpoint, &context, input);
    shown.finish();
    let report = match report {
        Err(BackfillError::Stopped) if shutdown.load(Ordering::Relaxed) => {
            return Err(ending(Exit::Interrupted, BackfillError::Stopped.to_string()));
        }
        report => report.map_err(usage_error)?,
    };
    write_rows(&Built::of(checkpoint)?, out, &args, mode.json)?;
    mode.summary(&report, |report| summary_text(report, n_files, out, begun.elapsed()))?;
    exit_of(&report)
}

fn open_checkpoint(config: &Config, folder: &Path, spec: BuildSpec, memory: u64) -> Result<Checkpoint<RelatedBuild>> {
    let (seed, random) = (config.seed().map_err(usage)?, new_seed()?);
    let checkpoint = Checkpoint::open(folder, spec, related::part_rows(memory), seed, || random);
    let checkpoint = checkpoint.map_err(|error| match error {
        BackfillError::SpecMismatch { folder, difference } => {
            let why = "finish that one, or remove the folder";
            usage(format!("{} holds an unfinished build with {difference}; {why}", folder.display()))
        }
        other => usage_error(other),
    })?;
    Ok(checkpoint.with_interval(Duration::from_millis(config.backfill.checkpoint_ms)))
}

fn exit_of(report: &BuildReport) -> Result<Exit> {
    let counts = &report.counts;
    if counts.n_pages + counts.n_gone == 0 && counts.n_rejected > 0 {
        return Err(none_accepted(counts.n_rejected, RUN_SHOWS_REASONS));
    }
    Ok(if report.unreadable.is_empty() { Exit::Done } else { Exit::Unreadable })
}

/// How many pages, URLs, pairs and clusters, where they are, and how long it took.
fn summary_text(report: &BuildReport, n_files: usize, out: &Path, elapsed: Duration) -> String {
    let (counts, sizes) = (&report.counts, &report.sizes);
    let mut text = format!(
        "{} of {} in {:.1} s: {} now holds {} pairs of related pages among {} URLs, and {} clusters of two or \
         more, the largest of {}\n",
        counted(counts.n_pages, "page"),
        counted(n_files as u64, "file"),
        elapsed.as_secs_f64(),
        out.display(),
        HumanCount(sizes.pairs),
        HumanCount(sizes.urls),
        HumanCount(sizes.clusters_of_related),
        HumanCount(sizes.largest),
    );
    text += &no_pages_text(counts.n_gone, counts.n_rejected, "; `lookalike run` over the same inputs tells why");
    text + &unreadable_text(&report.unreadable)
}

/// A URL and one that is related to it.
#[derive(Serialize)]
struct NeighbourRow {
    url: String,
    related: String,
    similarity: f64,
}

/// A URL and the center of its cluster.
#[derive(Serialize)]
struct CenterRow {
    url: String,
    center: String,
}

/// A URL and the weights of the words in its bag.
#[derive(Serialize)]
struct BagRow {
    url: String,
    bag: BTreeMap<String, u8>,
}

/// The file of the bags in DIR.
const BAGS: &str = "bags.jsonl";

/// The file of a table in DIR.
fn table_path(out: &Path, table: &str, json: bool) -> PathBuf {
    out.join(format!("{table}.{}", if json { "jsonl" } else { "csv" }))
}

fn write_rows(built: &Built, out: &Path, args: &BuildArgs, json: bool) -> Result<()> {
    let urls = built.urls()?;
    let create = |table: &str, columns: &[&str]| RowWriter::create(Some(&table_path(out, table, json)), json, columns);
    let mut rows = create("neighbours", &["url", "related", "similarity"])?;
    built.each_neighbours::<anyhow::Error>(|id, neighbours| {
        let url = urls.url(id);
        let most = if args.nearest == 0 { usize::MAX } else { args.nearest };
        for neighbour in neighbours.iter().take(most) {
            let (url, related) = (url.clone(), urls.url(neighbour.id));
            rows.write(&NeighbourRow { url, related, similarity: rounded(neighbour.similarity) })?;
        }
        Ok(())
    })?;
    rows.finish()?;
    let mut rows = create("centers", &["url", "center"])?;
    built.each_center::<anyhow::Error>(|id, center| {
        Ok(rows.write(&CenterRow { url: urls.url(id), center: urls.url(center) })?)
    })?;
    rows.finish()?;
    if args.bags {
        let words = built.words()?;
        let mut rows = RowWriter::create(Some(&out.join(BAGS)), true, &[])?;
        built.each_bag::<anyhow::Error>(|url, bag| {
            let weight = |(term, weight): &(Term, u8)| Some((words.get(term)?.clone(), *weight));
            let bag = bag.weights().iter().filter_map(weight).collect();
            Ok(rows.write(&BagRow { url, bag })?)
        })?;
        rows.finish()?;
    }
    Ok(())
}

/// Six digits distinguish any two similarities of whole weights.
fn rounded(similarity: f64) -> f64 {
    (similarity * 1e6).round() / 1e6
}

fn open(out: &Path) -> Result<Built> {
    Built::open(&work_folder(out)).map_err(|error| match error {
        BackfillError::Incomplete(_) => {
            let what = "holds no finished build; `lookalike related build INPUT --out` makes one";
            usage(format!("{} {what}", out.display()))
        }
        other => usage_error(other),
    })
}

fn table(args: &TableArgs, json: bool) -> Result<Exit> {
    let built = open(&args.build)?;
    print(built.report(), json, table_text)
}

/// Table 1 of the paper, with the times of this build.
fn table_text(report: &BuildReport) -> String {
    let mut text = String::new();
    let [wall, cpu, written, memory, hours] = ["wall s", "CPU s", "written", "peak memory", "2000 hours"];
    let _ = writeln!(text, "{:<12}{wall:>10}{cpu:>10}{written:>13}{memory:>13}{hours:>12}", "phase");
    let total = ("total", report.total(), report.phases.iter().map(|phase| phase.paper_hours).sum::<f64>());
    let phases = report.phases.iter().map(|phase| (phase.phase.paper().0, phase.usage, phase.paper_hours));
    for (name, used, hours) in phases.chain([total]) {
        let (written, memory) = (HumanBytes(used.n_bytes).to_string(), HumanBytes(used.peak_memory).to_string());
        let (wall, cpu) = (used.wall_seconds, used.cpu_seconds);
        let _ = writeln!(text, "{name:<12}{wall:>10.1}{cpu:>10.1}{written:>13}{memory:>13}{hours:>12.1}");
    }
    let (counts, sizes) = (&report.counts, &report.sizes);
    let _ = writeln!(
        text,
        "{} pages describe {} URLs by {} terms; 2000: 12,000,000 pages, 35,000,000 URLs, of which 20,000,000 were \
         clustered",
        HumanCount(counts.n_pages),
        HumanCount(sizes.urls),
        HumanCount(sizes.terms)
    );
    let _ = writeln!(
        text,
        "{} of {} candidate pairs are similar; {} clusters, {} of them of two URLs or more, the largest of {}",
        HumanCount(sizes.pairs),
        HumanCount(sizes.candidate_pairs),
        HumanCount(sizes.clusters),
        HumanCount(sizes.clusters_of_related),
        HumanCount(sizes.largest)
    );
    text
}

/// A URL with its nearest neighbours.
#[derive(Serialize)]
struct Sampled {
    url: String,
    neighbours: Vec<Nearest>,
}

#[derive(Serialize)]
struct Nearest {
    url: String,
    similarity: f64,
}

/// Neighbours of a sampled URL, as in section 3 of the paper.
const NEAREST: usize = 10;

fn sample(args: &SampleArgs, json: bool) -> Result<Exit> {
    let built = open(&args.build)?;
    let urls = built.urls()?;
    let mut sampled = Vec::new();
    for id in sampled_ids(&built, &urls, args.limit)? {
        let nearest = built.neighbours(id)?.into_iter().take(NEAREST);
        let nearest = nearest.map(|found| Nearest { url: urls.url(found.id), similarity: rounded(found.similarity) });
        sampled.push(Sampled { url: urls.url(id), neighbours: nearest.collect() });
    }
    print(&sampled, json, |sampled| {
        let mut text = String::new();
        for Sampled { url, neighbours } in sampled {
            let _ = writeln!(text, "{url}");
            for Nearest { url, similarity } in neighbours {
                let _ = writeln!(text, "  {similarity:.3}  {url}");
            }
        }
        text
    })
}

/// Ids of URLs with neighbours and the fewest segments in their paths, evenly spread.
fn sampled_ids(built: &Built, urls: &UrlTable, n: usize) -> Result<Vec<u32>> {
    let mut by_segments: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    built.each_neighbours::<anyhow::Error>(|id, _| {
        let url = urls.url(id);
        let n_segments = path_of(&url).split('/').filter(|segment| !segment.is_empty()).count();
        by_segments.entry(n_segments).or_default().push(id);
        Ok(())
    })?;
    let mut found = Vec::new();
    for ids in by_segments.into_values() {
        let n_wanted = (n - found.len()).min(ids.len());
        found.extend((0..n_wanted).map(|at| ids[at * ids.len() / n_wanted]));
    }
    Ok(found)
}

/// The scores of a build.
#[derive(Serialize)]
struct ScoreRow {
    queries: usize,
    coverage: f64,
    #[serde(rename = "P@10")]
    precision_at_10: Option<f64>,
    #[serde(rename = "sibling_D")]
    sibling_d: Option<f64>,
    gamma: Option<f64>,
}

/// A line of the file of classes.
#[derive(Deserialize)]
struct ClassRow {
    url: String,
    class: String,
}

fn evaluate(args: &EvaluateArgs, json: bool) -> Result<Exit> {
    if args.depth == 0 {
        return Err(usage("--depth 0: it must be at least 1"));
    }
    let built = open(&args.build)?;
    let classes = Classes::new(read_classes(&args.classes)?.into_iter(), args.depth);
    let queries: Vec<String> = match &args.queries {
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|error| file_error("read", path, &error))?;
            text.lines().map(str::trim).filter(|line| !line.is_empty()).map(String::from).collect()
        }
        None => classes.urls().map(String::from).collect(),
    };
    let urls = built.urls()?;
    let mut evaluation = Evaluation::new(&classes);
    for query in queries {
        let neighbours = urls.id(&query).map_or(Ok(Vec::new()), |id| built.neighbours(id))?;
        let answers: Vec<(String, f64)> =
            neighbours.into_iter().map(|found| (urls.url(found.id), found.similarity)).collect();
        evaluation.add(&query, &answers);
    }
    let Scores { queries, coverage, precision_at_10, sibling_d, gamma } = evaluation.scores();
    let [precision_at_10, sibling_d, gamma] = [precision_at_10, sibling_d, gamma].map(|score| score.map(rounded));
    print(&ScoreRow { queries, coverage: rounded(coverage), precision_at_10, sibling_d, gamma }, json, |row| {
        let score = |score: Option<f64>| score.map_or("-".to_string(), |score| format!("{score:.4}"));
        format!(
            "queries    {}\ncoverage   {:.4}\nP@10       {}\nsibling-D  {}\ngamma      {}\n",
            row.queries,
            row.coverage,
            score(row.precision_at_10),
            score(row.sibling_d),
            score(row.gamma)
        )
    })
}

fn read_classes(path: &Path) -> Result<Vec<(String, String)>> {
    let file = std::fs::File::open(path).map_err(|error| file_error("read", path, &error))?;
    let mut rows = csv::Reader::from_reader(file);
    let wrong = |error: csv::Error| {
        usage(format!("{}: {error}; it must be CSV with the columns url and class", path.display()))
    };
    rows.deserialize().map(|row| row.map(|ClassRow { url, class }| (url, class)).map_err(wrong)).collect()
}
