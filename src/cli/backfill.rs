//! `lookalike backfill`: puts inputs, work folder and a new store together and lets the phases run.

use super::args::BackfillArgs;
use super::run::{events_sink, future_limit, new_seed, watch_signals};
use super::telemetry;
use super::{Exit, ending};
use crate::backfill::{
    self, BackfillError, BackfillSpec, Checkpoint, Context, DiskSpace, Handover, PageInput, PhaseProgress,
};
use crate::cluster::ClusterPolicy;
use crate::config::Config;
use crate::files::{FileSource, Input};
use crate::kafka::TopicPosition;
use crate::ports::Progress;
use crate::store::RocksLoader;
use anyhow::Result;
use indicatif::HumanBytes;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Takes whole inputs through all phases into a new store.
pub(super) fn backfill(mut config: Config, args: BackfillArgs) -> Result<Exit> {
    if let Some(sweep) = &args.sweep {
        config.input.sweep.clone_from(sweep);
    }
    if let Some(time) = args.fetched_at {
        config.input.fetched_at = time.to_string();
    }
    if config.cluster.policy == ClusterPolicy::Star {
        let told = "cluster.policy is \"star\", whose clusters depend on the order of the pages: `lookalike run` makes such a \
                    store; or backfill with \"components\", and `recluster --policy star` shows the stars in it";
        return Err(ending(Exit::Usage, told));
    }
    telemetry::start_logs(&config.log.level)?;
    let shutdown = watch_signals()?;
    let then = args.then_from_kafka.as_deref().map(|place| then_from_kafka(&config, place)).transpose()?;
    let seed = config.seed().map_err(|error| ending(Exit::Usage, error.to_string()))?;
    let memory = args.memory.map_or_else(|| backfill::machine_memory() / 3, |mib| mib << 20).max(1 << 20);
    let folder = work_folder(&config.store.path);
    if !Checkpoint::exists(&folder) && !backfill::is_free(&config.store.path) {
        // What is left of the folder by a run that was killed at its very last step; one that holds anything stays.
        let _ = std::fs::remove_dir(&folder);
        return Err(usage_error(BackfillError::StoreExists(config.store.path)));
    }
    let random = new_seed()?;
    let spec = backfill_spec(&config, &args.inputs)?;
    let inputs = spec.inputs.clone();
    let checkpoint = Checkpoint::open(&folder, spec, backfill::part_rows(memory), seed, || random);
    let checkpoint =
        checkpoint.map_err(usage_error)?.with_interval(Duration::from_millis(config.backfill.checkpoint_ms));
    tell_room(&folder, &inputs, args.quiet)?;

    let phase_progress = Arc::new(PhaseProgress::default());
    let context = Context {
        folder,
        n_threads: match config.pipeline.sketchers {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        },
        memory,
        stop: Arc::clone(&shutdown),
        progress: Arc::clone(&phase_progress),
    };
    let sweep = Some(config.input.sweep.clone()).filter(|sweep| !sweep.is_empty());
    let inputs = args.inputs.iter().cloned().map(Input::File).collect();
    let source = FileSource::new(inputs, checkpoint.ingested().progress_map(), config.limits.clone(), sweep)
        .with_fetched_at(config.fetched_at()?);
    let mut progress = telemetry::Progress::new(config.log.progress_seconds, args.quiet);
    progress.reads(source.read_progress());
    let intake = PageInput {
        source: Box::new(source),
        limits: config.limits.clone(),
        sweep_cut: config.input.sweep_cut,
        future: future_limit(&config),
    };
    let loader = RocksLoader::new(config.store_settings(), config.rule(), checkpoint.seed()?);
    let events = args.events.as_deref().map(events_sink).transpose()?;
    let end = Handover { events, ..then.unwrap_or_default() };
    let showing = progress.start_backfill(phase_progress);
    let report = backfill::run(checkpoint, &context, intake, &loader, &config.store.path, end);
    showing.finish();
    let report = match report {
        Err(BackfillError::Stopped) if shutdown.load(Ordering::Relaxed) => {
            return Err(ending(Exit::Interrupted, BackfillError::Stopped.to_string()));
        }
        report => report.map_err(usage_error)?,
    };
    if args.json {
        println!("{}", serde_json::to_string(&report)?);
    } else if !args.quiet {
        eprint!("{report}");
    }
    Ok(if report.unreadable.is_empty() { Exit::Done } else { Exit::Unreadable })
}

/// What a person gave wrong is wrong usage.
fn usage_error(error: BackfillError) -> anyhow::Error {
    match error {
        BackfillError::SpecMismatch { .. }
        | BackfillError::OtherFormat { .. }
        | BackfillError::FolderInUse(_)
        | BackfillError::StoreExists(_) => ending(Exit::Usage, error.to_string()),
        other => other.into(),
    }
}

/// Beside the store, so that it can be moved there in one step.
fn work_folder(store: &Path) -> PathBuf {
    let mut name = store.file_name().unwrap_or(store.as_os_str()).to_os_string();
    name.push(".backfill");
    store.with_file_name(name)
}

/// Says how much room on the disk may be needed. It is a guess; where it is wrong, what is finished stays.
fn tell_room(folder: &Path, inputs: &[(String, u64)], is_quiet: bool) -> Result<()> {
    let inputs = inputs.iter().map(|(name, n_bytes)| (*n_bytes, is_compressed(Path::new(name))));
    let room = DiskSpace::for_inputs(folder, inputs)?;
    let (needed, free, folder) = (HumanBytes(room.needed), HumanBytes(room.free), folder.display());
    if room.is_insufficient() {
        let advice = "should it fill up, make room and run again";
        eprintln!("lookalike: {folder} may need up to {needed} of disk, and {free} are free; {advice}");
    } else if !is_quiet {
        eprintln!("lookalike: {folder} may need up to {needed} of disk; {free} are free");
    }
    Ok(())
}

fn is_compressed(path: &Path) -> bool {
    let mut magic = [0; 4];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && (magic.starts_with(&[0x1f, 0x8b]) || magic == [0x28, 0xb5, 0x2f, 0xfd])
}

fn backfill_spec(config: &Config, inputs: &[PathBuf]) -> Result<BackfillSpec> {
    let input = |path: &PathBuf| -> Result<(String, u64)> {
        let unread = |error: std::io::Error| ending(Exit::Usage, format!("{} cannot be read: {error}", path.display()));
        let whole = path.canonicalize().map_err(unread)?;
        let metadata = whole.metadata().map_err(unread)?;
        if !metadata.is_file() {
            return Err(ending(Exit::Usage, format!("{} is no file; a backfill reads files", path.display())));
        }
        Ok((whole.to_string_lossy().into_owned(), metadata.len()))
    };
    let of = &config.input;
    let reading = (&config.limits, &of.sweep, &of.fetched_at, of.sweep_cut, of.future_days_max);
    Ok(BackfillSpec {
        rule: config.rule(),
        reading: serde_json::to_string(&reading)?,
        inputs: inputs.iter().map(input).collect::<Result<_>>()?,
    })
}

/// Where the stream is to begin in the configured topic: at a time, or `PARTITION=OFFSET,…`.
fn then_from_kafka(config: &Config, place: &str) -> Result<Handover> {
    let topic = config.kafka.topic.clone();
    let position = place.parse::<TopicPosition>();
    match position.map_err(|error| ending(Exit::Usage, format!("--then-from-kafka {place}: {error}")))? {
        TopicPosition::Time(time) => Ok(Handover { start_times: [(topic, time)].into(), ..Handover::default() }),
        TopicPosition::Offsets(offsets) => {
            let progress = |(partition, next_offset)| ((topic.clone(), partition), Progress { next_offset, chain: 0 });
            Ok(Handover { progress: offsets.into_iter().map(progress).collect(), ..Handover::default() })
        }
    }
}
