//! The command line: the composition root, the only place that knows everything.

mod answer_table;
mod args;
mod audit;
mod audit_trail;
mod backfill;
mod backup;
mod changes;
mod chart;
mod cluster;
mod config;
mod content_explanation;
mod crash_handler;
mod dedup;
mod dlq;
mod exit;
mod explain;
mod export;
mod follow;
mod forget;
mod heart;
mod input_pages;
mod log_line;
mod manual;
mod mapping;
mod migrate;
mod named;
mod output;
mod output_path;
mod page_file;
mod passages;
mod query;
mod recluster;
mod related;
mod related_store;
mod render;
mod report;
mod republish;
mod roles;
mod rule_explanation;
mod run;
mod serve;
mod sketch;
mod sketch_files;
mod sweep;
mod table;
mod telemetry;
mod topics;
mod verify;
mod visible;
mod wiring;

use crate::config::LogFormat;
use answer_table::AnswerFormat;
use anyhow::Result;
use args::{Args, Command, DlqCommand, TopicsCommand};
use audit_trail::{Change, audited};
use clap::{CommandFactory, FromArgMatches};
use exit::Exit;
use output::OutputMode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::process::ExitCode;

/// Runs the program.
pub fn main() -> ExitCode {
    #[cfg(feature = "failpoints")]
    let _points = fail::FailScenario::setup();
    // Holds until a configuration is loaded.
    log_line::set_format(LogFormat::guess(&[]));
    let args = match parsed_arguments() {
        Ok(args) => args,
        Err(error) => return refuse(&error),
    };
    raise_open_files();
    let as_json = args.global.json || asks_for_json(&args.command);
    let exit = dispatch(args).unwrap_or_else(|error| exit::report(&error, as_json));
    ExitCode::from(exit as u8)
}

/// Whether a question asks for JSON by `--format`, for which `--json` is short: its errors are JSON, too.
fn asks_for_json(command: &Command) -> bool {
    let format = match command {
        Command::Query { format, .. } | Command::Audit { format, .. } | Command::Explain { format, .. } => *format,
        Command::Changes(changes) => changes.format,
        _ => None,
    };
    format == Some(AnswerFormat::Json)
}

/// Reads the command line.
fn parsed_arguments() -> Result<Args, clap::Error> {
    let mut command = taking_negative_numbers(Args::command());
    let mut matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Args::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// Takes `-1` behind a flag for its value, so that the message names the values that the flag allows.
fn taking_negative_numbers(command: clap::Command) -> clap::Command {
    let takes_value = |arg: &clap::Arg| arg.get_action().takes_values() && !arg.is_positional();
    command
        .mut_args(|arg| if takes_value(&arg) { arg.allow_negative_numbers(true) } else { arg })
        .mut_subcommands(taking_negative_numbers)
}

/// Prints help and the version, or what is wrong with the command line.
fn refuse(error: &clap::Error) -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    let has = |words: &[&str]| arguments.windows(words.len()).any(|part| part == words);
    let as_json = has(&["--json"]) || has(&["--format=json"]) || has(&["--format", "json"]);
    if error.use_stderr() && (as_json || log_line::is_json()) {
        let text = error.render().to_string();
        exit::report_message(Exit::Usage, text.trim_start_matches("error: ").trim_end(), true);
    } else {
        // A closed pipe (`lookalike --help | head`) is no failure.
        let _ = error.print();
    }
    ExitCode::from(if error.use_stderr() { Exit::Usage } else { Exit::Done } as u8)
}

/// Raises the limit of open files to what the system allows: a store keeps all of its files open.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // A store with more files than the limit then fails to open, with a message of its own.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

fn dispatch(args: Args) -> Result<Exit> {
    match Change::of(&args.command) {
        Some(change) => {
            let config = config::load(&args.global)?;
            telemetry::start_logs(&config.log)?;
            audited(&config.store.path, &change, || execute(args))
        }
        None => execute(args),
    }
}

fn execute(args: Args) -> Result<Exit> {
    let load = || config::load(&args.global);
    let mode = OutputMode { json: args.global.json, quiet: args.global.quiet, progress: args.global.progress };
    match args.command {
        Command::Run(run) => run::run(load()?, run, mode),
        Command::Follow(follow) => follow::follow(load()?, &follow, mode),
        Command::Backfill(backfill) => backfill::backfill(load()?, backfill, mode),
        Command::Dedup(dedup) => dedup::dedup(load()?, args.global.store.as_deref(), &dedup, mode),
        Command::Cluster(cluster) => cluster::cluster(load()?, &cluster, mode),
        Command::Recluster(recluster) => recluster::recluster(&load()?, &recluster, mode),
        Command::Migrate(migrate) => migrate::migrate(load()?, &migrate, mode),
        Command::Query { format, question } => {
            query::query(&load()?, question, AnswerFormat::choose(format, mode.json)?)
        }
        Command::Report(of) => report::report(&load()?, &of, mode),
        Command::Audit { format, min_documents, limit } => {
            audit::audit(&load()?, min_documents, limit, AnswerFormat::choose(format, mode.json)?)
        }
        Command::Explain { format, a, b } => {
            explain::explain(&load()?, [&a, &b], AnswerFormat::choose(format, mode.json)?)
        }
        Command::Sketch(sketch) => sketch::sketch(load()?, args.global.store.as_deref(), &sketch, mode),
        Command::Backup { to } => backup::backup(&load()?, &to, mode),
        Command::Forget(args) => forget::forget(&load()?, &args, mode),
        Command::Compact => forget::compact(&load()?, mode),
        Command::Restore { backup } => backup::restore(&load()?, &backup, mode),
        Command::Serve(serve) => serve::serve(load()?, serve, mode),
        Command::Changes(changes) => {
            changes::changes(&load()?, &changes, AnswerFormat::choose(changes.format, mode.json)?)
        }
        Command::Sweep { what } => sweep::sweep(load()?, what, mode.json),
        Command::Stats => query::stats(&load()?, mode.json),
        Command::Verify { limit } => verify::verify(&load()?, limit, mode.json),
        Command::Related { what } => related::related(load()?, what, mode),
        Command::Export { what } => export::export(&load()?, &what, mode.json),
        Command::Topics { what: TopicsCommand::Create(topics) } => topics::create(&load()?, &topics, mode.json),
        Command::Topics { what: TopicsCommand::Republish { what } } => republish::republish(&load()?, what, mode.json),
        Command::Dlq { what: DlqCommand::Replay(replay) } => dlq::replay(&load()?, replay, mode.json),
        Command::Config { what } => config::config(&load()?, &what, mode.json),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { folder } => manual::man(folder.as_deref()),
    }
}
