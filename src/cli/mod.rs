//! The command line: the composition root, the only place that knows everything.

mod args;
mod backfill;
mod changes;
mod chart;
mod crash_handler;
mod dlq;
mod explain;
mod files;
mod query;
mod recluster;
mod render;
mod republish;
mod run;
mod serve;
mod settings;
mod sketch;
mod sweep;
mod telemetry;
mod topics;
mod verify;

use crate::ports::{SinkError, SourceError, StopReason};
use anyhow::Result;
use args::{Args, Command, ConfigCommand, DlqCommand, ExportCommand, TopicsCommand};
use clap::Parser;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fmt;
use std::io::ErrorKind;
use std::process::ExitCode;

/// What the program's exit code says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All that was asked for was done.
    Done = 0,
    /// It failed; the message says why and what to do.
    Failed = 1,
    /// The command line or the configuration is wrong. (clap uses the same.)
    Usage = 2,
    /// All that could be read was done; some input could not be.
    Unreadable = 3,
    /// What was asked for is not in the store.
    NotFound = 4,
    /// The store was read and is not sound.
    Unsound = 5,
    /// Records were deleted from the topic before they were read; `run --accept-gap` goes on.
    Overtaken = 10,
    /// The topic is not the one that the store was made from; `run --accept-gap` goes on.
    Replaced = 11,
    /// The output is ahead of the store, or another store's.
    OldStore = 12,
    /// Another process publishes the events of this store.
    Fenced = 13,
    /// The brokers were away for too long.
    Unreachable = 14,
    /// The store is new, and the group is not; `run --bootstrap` goes on.
    NoStore = 15,
    /// The brokers refuse the name or the password.
    NotAuthenticated = 16,
    /// Stopped by SIGTERM or SIGINT before the input ended, or by the second of them; run again to go on.
    Interrupted = 130,
}

/// An error that has an exit code of its own.
#[derive(Debug)]
pub(crate) struct Ending {
    exit: Exit,
    message: String,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Ending {}

/// An error that ends the program with this code.
pub(crate) fn ending(exit: Exit, message: impl Into<String>) -> anyhow::Error {
    Ending { exit, message: message.into() }.into()
}

/// Runs the program.
pub fn main() -> ExitCode {
    #[cfg(feature = "failpoints")]
    let _points = fail::FailScenario::setup();
    let args = Args::parse();
    raise_open_files();
    match dispatch(args) {
        Ok(exit) => ExitCode::from(exit as u8),
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lookalike: {error:#}");
            ExitCode::from(exit_of(&error) as u8)
        }
    }
}

/// Lets the process have as many files open as it may have: a store has all of its own open.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // Where that is refused, a store of more files than that cannot be opened, which says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// The exit code that an error brings with it.
fn exit_of(error: &anyhow::Error) -> Exit {
    let stop_reason = error.chain().find_map(|cause| {
        let of_source = cause.downcast_ref::<SourceError>().map(|error| error.stop_reason);
        of_source.or_else(|| cause.downcast_ref::<SinkError>().map(|error| error.stop_reason))
    });
    match stop_reason {
        Some(StopReason::Overtaken) => Exit::Overtaken,
        Some(StopReason::Replaced) => Exit::Replaced,
        Some(StopReason::OldStore) => Exit::OldStore,
        Some(StopReason::NoStore) => Exit::NoStore,
        Some(StopReason::Fenced) => Exit::Fenced,
        Some(StopReason::Unreachable) => Exit::Unreachable,
        Some(StopReason::NotAuthenticated) => Exit::NotAuthenticated,
        Some(StopReason::Failed) | None => error.downcast_ref::<Ending>().map_or(Exit::Failed, |ending| ending.exit),
    }
}

fn dispatch(args: Args) -> Result<Exit> {
    let load = || settings::load(&args.global);
    match args.command {
        Command::Run(run) => run::run(load()?, run),
        Command::Backfill(args) => backfill::backfill(load()?, args),
        Command::Recluster(args) => recluster::recluster(&load()?, &args),
        Command::Query { question, json } => query::query(&load()?, question, json),
        Command::Sketch(sketch) => sketch::sketch(&load()?, args.global.store.as_deref(), &sketch),
        Command::Serve(serve) => serve::serve(load()?, serve),
        Command::Changes(changes) => changes::changes(&load()?, &changes),
        Command::Sweep { what } => sweep::sweep(load()?, what),
        Command::Stats { json } => query::stats(&load()?, json),
        Command::Verify { limit, json } => verify::verify(&load()?, limit, json),
        Command::Export { what: ExportCommand::Links { out, json } } => {
            recluster::export_links(&load()?, out.as_deref(), json)
        }
        Command::Export { what: ExportCommand::Clusters { out, json } } => {
            files::export_clusters(&load()?, out.as_deref(), json)
        }
        Command::Export { what: ExportCommand::Present { out, json } } => {
            files::export_present(&load()?, out.as_deref(), json)
        }
        Command::Topics { what: TopicsCommand::Create(args) } => topics::create(&load()?, &args),
        Command::Dlq { what: DlqCommand::Replay(args) } => dlq::replay(&load()?, args),
        Command::Topics { what: TopicsCommand::Republish { what } } => republish::republish(&load()?, what),
        Command::Config { what: ConfigCommand::Show } => settings::show(&load()?),
        Command::Config { what: ConfigCommand::Validate } => {
            load()?;
            println!("the configuration is valid");
            Ok(Exit::Done)
        }
    }
}

/// Whoever reads our output has had enough (`| head`): not a failure of ours.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe))
}
