//! `lookalike sketch --parquet`: writes the sketches of inputs to files, for a backfill on any machine.

use super::args::SketchArgs;
use super::backfill::{context, input_sizes, page_input, reading};
use super::exit::{Exit, ending, file_error, usage};
use super::output::{OutputMode, unreadable_text};
use super::output_path::check_outside_stores;
use super::telemetry::Progress;
use super::wiring::{OPEN_SEED, check_local, inputs, watch_signals};
use crate::backfill::{self, BackfillError, Context, PhaseName, PhaseProgress};
use crate::config::Config;
use crate::document::Seed;
use crate::files::{Input, InputNumber, SketchFileWriter, SketchFooter, state_of};
use crate::intake::SketchedRecord;
use crate::ports::{Chunk, ProgressMap, StoreRule};
use anyhow::Result;
use indicatif::HumanCount;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What was written.
#[derive(Debug, Default, Serialize)]
struct Written {
    /// Inputs whose files are new.
    n_inputs: u64,
    /// Inputs whose files were there already.
    n_inputs_there: u64,
    /// Records in new files.
    n_records: u64,
    /// Records that are no pages.
    n_rejected: u64,
    /// Parts of inputs that cannot be read, and why.
    unreadable: Vec<String>,
}

/// Writes a file for each input into a folder.
pub(super) fn write(
    config: &Config,
    (rule, seed): (StoreRule, Seed),
    args: &SketchArgs,
    folder: &Path,
    mode: OutputMode,
) -> Result<Exit> {
    check_local("--parquet", folder)?;
    check_outside_stores("--parquet", folder)?;
    let numbered = numbered(inputs(&args.inputs, None)?, args)?;
    if seed.0 == OPEN_SEED.0 {
        mode.note(
            "store.seed is empty, so these sketches use the public default seed, and pages can be made to deceive them; set \
             store.seed unless you trust the pages",
        );
    }
    std::fs::create_dir_all(folder).map_err(|error| file_error("create", folder, &error))?;
    let shutdown = watch_signals()?;
    let progress = Arc::new(PhaseProgress::default());
    progress.begin(PhaseName { name: "sketching", reads_pages: true }, 0);
    let context = context(config, PathBuf::new(), 0, &shutdown, &progress);
    let writer = FolderWriter { config, folder, rule, seed, name: args.name.as_deref(), context, mode };
    let mut written = Written::default();
    for (input, number) in numbered {
        writer.write(input, number, &mut written)?;
    }
    mode.summary(&written, |written| summary(written, folder))?;
    Ok(if written.unreadable.is_empty() { Exit::Done } else { Exit::Unreadable })
}

/// Writes sketch files into a folder.
struct FolderWriter<'a> {
    config: &'a Config,
    folder: &'a Path,
    rule: StoreRule,
    seed: Seed,
    name: Option<&'a str>,
    context: Context,
    mode: OutputMode,
}

impl FolderWriter<'_> {
    /// Writes the file of an input, if it is not there.
    fn write(&self, input: Input, number: InputNumber, written: &mut Written) -> Result<()> {
        let FolderWriter { config, folder, rule, seed, context, mode, .. } = self;
        let footer = self.footer(&input, number)?;
        if is_there(folder, &footer)? && !self.is_changed(&input, &footer)? {
            written.n_inputs_there += 1;
            return Ok(());
        }
        let mut progress = Progress::new(config.log.progress_seconds, mode.hides_progress());
        let pages = page_input(config, vec![input], ProgressMap::new(), &mut progress)?;
        let path = folder.join(footer.file_name());
        let failed = |error| file_error("write", &path, &error);
        let mut file = SketchFileWriter::create(folder, footer).map_err(failed)?;
        let shown = progress.start_backfill(Arc::clone(&context.progress));
        let sketched = backfill::sketch_records(context, pages, rule, seed, |chunk| {
            written.add(&chunk);
            match chunk {
                Chunk::Unreadable(what) => file.unreadable(&what).map_err(failed),
                Chunk::Records(records) => records.iter().try_for_each(|record| file.record(record)).map_err(failed),
            }
        });
        shown.finish();
        sketched.map_err(|error| match error.downcast() {
            Ok(BackfillError::Stopped) => {
                let begun = path.display();
                ending(
                    Exit::Interrupted,
                    format!("stopped before {begun} was whole; run again to go on with its input"),
                )
            }
            Ok(error) => error.into(),
            Err(error) => error,
        })?;
        file.finish().map_err(failed)?;
        written.n_inputs += 1;
        Ok(())
    }

    /// Whether an input was changed after its sketches were written. What has a name of its own may come from anywhere, at any
    /// time.
    fn is_changed(&self, input: &Input, footer: &SketchFooter) -> Result<bool> {
        let (None, Input::File(input)) = (self.name, input) else { return Ok(false) };
        let changed_at = |path: &Path| -> Result<_> {
            let state = state_of(path).map_err(|error| file_error("read", path, &error))?;
            Ok(state.and_then(|state| state.changed_at))
        };
        Ok(changed_at(input)? > changed_at(&self.folder.join(footer.file_name()))?)
    }

    /// What the file of an input says of itself.
    fn footer(&self, input: &Input, number: InputNumber) -> Result<SketchFooter> {
        let (name, n_bytes) = match (self.name, input) {
            // What has a name of its own may come from anywhere, and gives the same bytes from there.
            (Some(name), _) => (name.to_string(), None),
            (None, Input::File(path)) => {
                let (name, n_bytes) = input_sizes(std::slice::from_ref(path))?.remove(0);
                (name, Some(n_bytes))
            }
            (None, Input::Stdin { .. }) => {
                let why = "standard input needs a name here, under which a store notes how far it is read: give --name";
                return Err(usage(why));
            }
        };
        let rule = (self.rule.canonical_version, self.rule.sketch.clone());
        Ok(SketchFooter::new(number, name, n_bytes, rule, reading(self.config)?, &self.seed))
    }
}

impl Written {
    fn add(&mut self, chunk: &Chunk<SketchedRecord>) {
        match chunk {
            Chunk::Unreadable(what) => {
                tracing::error!("{what}");
                self.unreadable.push(what.clone());
            }
            Chunk::Records(records) => {
                self.n_records += records.len() as u64;
                self.n_rejected += records.iter().filter(|record| record.outcome.is_err()).count() as u64;
            }
        }
    }
}

/// The inputs with their numbers.
fn numbered(inputs: Vec<Input>, args: &SketchArgs) -> Result<Vec<(Input, InputNumber)>> {
    let of = u32::try_from(inputs.len()).map_err(|_| usage("more inputs than 32 bits can number"))?;
    for (flag, is_given) in [("--number", args.number.is_some()), ("--name", args.name.is_some())] {
        if is_given && of > 1 {
            return Err(usage(format!("{flag} is of one input, and {of} are named; name one, or leave {flag} out")));
        }
    }
    let number = |number| args.number.unwrap_or(InputNumber { number, of });
    Ok(inputs.into_iter().zip((1..).map(number)).collect())
}

/// Whether the sketches of an input are there. Those of an input that had another size are not.
fn is_there(folder: &Path, footer: &SketchFooter) -> Result<bool> {
    let path = folder.join(footer.file_name());
    if !path.exists() {
        return Ok(false);
    }
    let found = SketchFooter::read(&path).map_err(usage)?;
    if found == *footer {
        return Ok(true);
    }
    if found.is_of_other_size(footer) {
        return Ok(false);
    }
    let path = path.display();
    Err(usage(format!("{path} holds other sketches than these; remove it, or name another folder for --parquet")))
}

fn summary(written: &Written, folder: &Path) -> String {
    let folder = folder.display();
    let mut text = format!(
        "{} records of {} inputs are sketched in {folder}\n",
        HumanCount(written.n_records),
        HumanCount(written.n_inputs),
    );
    for (n, what) in [
        (written.n_rejected, "records are no pages; a backfill from the sketches counts them"),
        (written.n_inputs_there, "inputs were there already"),
    ] {
        if n > 0 {
            text += &format!("  {} {what}\n", HumanCount(n));
        }
    }
    text + &unreadable_text(&written.unreadable)
}
