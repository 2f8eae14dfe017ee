//! How the program ends: its exit codes, and what its last message looks like.

use super::log_line;
use super::visible::visible;
use crate::ports::{SinkError, SourceError, StopReason};
use serde::Serialize;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;

/// The exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// The command did everything it was asked to do.
    Done = 0,
    /// The command failed; the message says why and what to do.
    Failed = 1,
    /// The command line, an input path or the configuration is wrong. (clap uses the same code.)
    Usage = 2,
    /// Some input could not be read and the rest is taken in; or no record was accepted.
    Unreadable = 3,
    /// The store does not hold what the command asks about.
    NotFound = 4,
    /// The store can be read and is not sound.
    Unsound = 5,
    /// The topic lost records before the program read them; `run --accept-gap` goes on.
    Overtaken = 10,
    /// The topic is not the one that the store was made from; `run --accept-gap` goes on.
    Replaced = 11,
    /// The output is ahead of the store, or belongs to another store.
    OldStore = 12,
    /// Another process publishes the events of this store.
    Fenced = 13,
    /// The brokers were away for too long.
    Unreachable = 14,
    /// The store is new and the consumer group is not; `run --bootstrap` goes on.
    NoStore = 15,
    /// The brokers refuse the name or the password.
    NotAuthenticated = 16,
    /// Sketched records are missing; the message says where the sketchers are to begin again.
    Hole = 17,
    /// Records were sketched under other settings, or by another version.
    OtherSketches = 18,
    /// The events of the store are not those that are published.
    Diverged = 19,
    /// The store cannot follow what is published; the message says why.
    NotFollowed = 20,
    /// SIGTERM or SIGINT ended the program before the input ended; the same command goes on.
    Interrupted = 130,
}

impl Exit {
    /// The word that stands for the code in JSON. It does not change.
    pub fn word(self) -> &'static str {
        match self {
            Exit::Done => "done",
            Exit::Failed => "failed",
            Exit::Usage => "usage",
            Exit::Unreadable => "unreadable",
            Exit::NotFound => "not-found",
            Exit::Unsound => "unsound",
            Exit::Overtaken => "overtaken",
            Exit::Replaced => "replaced",
            Exit::OldStore => "old-store",
            Exit::Fenced => "fenced",
            Exit::Unreachable => "unreachable",
            Exit::NoStore => "no-store",
            Exit::NotAuthenticated => "not-authenticated",
            Exit::Hole => "hole",
            Exit::OtherSketches => "other-sketches",
            Exit::Diverged => "diverged",
            Exit::NotFollowed => "not-followed",
            Exit::Interrupted => "interrupted",
        }
    }
}

/// An error that has an exit code of its own.
#[derive(Debug)]
struct Ending {
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
pub(super) fn ending(exit: Exit, message: impl Into<String>) -> anyhow::Error {
    Ending { exit, message: message.into() }.into()
}

/// The same for a message that some error already has.
pub(super) fn usage(error: impl fmt::Display) -> anyhow::Error {
    ending(Exit::Usage, error.to_string())
}

/// Where the reasons are for which records were rejected, after commands that do not print them.
pub(super) const RUN_SHOWS_REASONS: &str =
    "`lookalike run` over the same inputs and another store shows the first of each reason";

/// No record of the inputs is a page. The advice has the reasons, or says where they are.
pub(super) fn none_accepted(n_rejected: u64, advice: impl fmt::Display) -> anyhow::Error {
    ending(Exit::Unreadable, format!("no record was accepted: all {n_rejected} were rejected; {advice}"))
}

/// A file that the system refuses to read or write: what happened, where, and what to do.
pub(super) fn file_error(verb: &str, path: &Path, error: &io::Error) -> anyhow::Error {
    let advice = match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory => "check the path",
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => "check its permissions",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free some space and run again",
        ErrorKind::AlreadyExists => "remove it, or give another path",
        ErrorKind::InvalidData => "it must be UTF-8 text",
        // The reader has had enough, which ends the program without a message.
        ErrorKind::BrokenPipe => return io::Error::from(ErrorKind::BrokenPipe).into(),
        _ => "check the disk and the path",
    };
    let why = without_system_number(&error.to_string());
    // A file to read that is not there, or a folder, is a wrong command line, whatever the command.
    let is_no_file = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory);
    let is_mistyped = verb == "read" && is_no_file;
    let exit = if is_mistyped { Exit::Usage } else { Exit::Failed };
    ending(exit, format!("cannot {verb} {}: {why}; {advice}", path.display()))
}

/// The error as an object for programs. The words are those of HTTP answers where both exist.
#[derive(Serialize)]
struct ErrorObject<'a> {
    error: &'static str,
    exit_code: u8,
    message: &'a str,
}

/// Reports the error on standard error and returns the exit code that it brings.
pub(super) fn report(error: &anyhow::Error, as_json: bool) -> Exit {
    if is_closed_pipe(error) {
        return Exit::Done;
    }
    let exit = exit_of(error);
    report_message(exit, &without_system_number(&format!("{error:#}")), as_json);
    exit
}

/// Reports a message as [`report`] does.
pub(super) fn report_message(exit: Exit, message: &str, as_json: bool) {
    if log_line::is_json() {
        log_line::print_failure(exit.word(), exit as u8, message);
        return;
    }
    let object = ErrorObject { error: exit.word(), exit_code: exit as u8, message };
    match serde_json::to_string(&object) {
        Ok(object) if as_json => eprintln!("{object}"),
        _ => eprintln!("lookalike: {}", visible(message)),
    }
}

/// The exit code that an error brings with it.
pub(super) fn exit_of(error: &anyhow::Error) -> Exit {
    let stop_reason = error.chain().find_map(|cause| {
        let of_source = cause.downcast_ref::<SourceError>().map(|error| error.stop_reason);
        of_source.or_else(|| cause.downcast_ref::<SinkError>().map(|error| error.stop_reason))
    });
    match stop_reason {
        Some(StopReason::Usage) => Exit::Usage,
        Some(StopReason::Overtaken) => Exit::Overtaken,
        Some(StopReason::Replaced) => Exit::Replaced,
        Some(StopReason::OldStore) => Exit::OldStore,
        Some(StopReason::NoStore) => Exit::NoStore,
        Some(StopReason::Fenced) => Exit::Fenced,
        Some(StopReason::Unreachable) => Exit::Unreachable,
        Some(StopReason::NotAuthenticated) => Exit::NotAuthenticated,
        Some(StopReason::Hole) => Exit::Hole,
        Some(StopReason::OtherSketches) => Exit::OtherSketches,
        Some(StopReason::Diverged) => Exit::Diverged,
        Some(StopReason::NotFollowed) => Exit::NotFollowed,
        Some(StopReason::Failed) | None => error.downcast_ref::<Ending>().map_or(Exit::Failed, |ending| ending.exit),
    }
}

/// A reader that closes the pipe early (`| head`) is no failure.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let is_closed = |error: &io::Error| error.kind() == ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref().is_some_and(is_closed))
}

/// The text without ` (os error 2)`: the words before it say the same.
pub(super) fn without_system_number(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::new();
    while let Some((before, after)) = rest.split_once(" (os error ") {
        kept += before;
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_numbers_are_left_out() {
        for (text, expected) in [
            ("a: No such file or directory (os error 2); check it", "a: No such file or directory; check it"),
            ("x (os error 2) and y (os error 13)", "x and y"),
            ("no number (here)", "no number (here)"),
            ("cut (os error 2", "cut"),
        ] {
            assert_eq!(without_system_number(text), expected);
        }
    }

    #[test]
    fn a_file_error_says_what_to_do() {
        let error = file_error("read", Path::new("urls.txt"), &io::Error::from_raw_os_error(2)).to_string();
        assert_eq!(error, "cannot read urls.txt: No such file or directory; check the path");
    }
}
