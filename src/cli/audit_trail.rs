//! The audit trail: who changed a store by hand, over HTTP or by a command, and who was refused.
//!
//! Its lines are events of the log. The file has the same events, each as a line of JSON. A line that tells of a change is on the
//! disk before the client has its answer, or the command ends.

use super::args::{Command, DlqCommand, ForgetArgs, RelatedCommand, Republished, SweepCommand, TopicsCommand};
use super::exit::{Exit, exit_of, usage, without_system_number};
use super::log_line::{self, PROGRAM, fields_of};
use anyhow::Result;
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tracing::{Event, Level};
use tracing_subscriber::layer::{Context, Layer};

/// The target of lines about requests over HTTP, which the log has at any level.
const REQUESTS: &str = "audit";

/// The target of lines about commands. Who gives a command sees what comes of it, so the log has them at level "info".
pub(super) const COMMANDS: &str = "lookalike::audit";

/// The targets whose lines are kept whatever the level of the log is, with a file of the audit trail and without one.
pub(super) fn kept_at_any_level(has_file: bool) -> impl Iterator<Item = &'static str> {
    std::iter::once(REQUESTS).chain(has_file.then_some(COMMANDS))
}

/// Appends audit lines to a file. It is opened for each of them, so that it can be rotated at any time.
pub(super) struct AuditFile {
    path: PathBuf,
    /// Lines of this process come one after the other.
    turn: Mutex<()>,
}

impl AuditFile {
    /// Checks that the file can be written, and creates it where there is none.
    pub fn create(path: &Path) -> Result<Self> {
        open(path).map_err(|error| {
            let why = without_system_number(&error.to_string());
            usage(format!(
                "log.audit_file: cannot append to {}: {why}; name a file that can be written",
                path.display()
            ))
        })?;
        Ok(AuditFile { path: path.into(), turn: Mutex::default() })
    }

    fn append(&self, line: &str, is_kept: bool) -> io::Result<()> {
        let mut file = open(&self.path)?;
        // What a full disk or a crash cut off must not spoil this line.
        let separator = if ends_with_line(&mut file)? { "" } else { "\n" };
        // One write, so that lines of several processes never mix.
        file.write_all(format!("{separator}{line}\n").as_bytes())?;
        if is_kept { file.sync_data() } else { Ok(()) }
    }
}

/// Opens a file to append to it. One that is new can be read by its user and group alone, and survives a crash of the machine.
fn open(path: &Path) -> io::Result<File> {
    let is_new = !path.exists();
    let file = OpenOptions::new().create(true).read(true).append(true).mode(0o640).open(path)?;
    if is_new {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()?;
    }
    Ok(file)
}

fn ends_with_line(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

impl<S: tracing::Subscriber> Layer<S> for AuditFile {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if ![REQUESTS, COMMANDS].contains(&event.metadata().target()) {
            return;
        }
        let mut fields = fields_of(event);
        fields.insert("time".into(), jiff::Timestamp::now().to_string().into());
        // A refusal changes nothing, and waiting for the disk would make it dear.
        let is_kept = fields.get("outcome").is_none_or(|outcome| outcome != "refused");
        let line = Value::from(fields).to_string();
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = self.append(&line, is_kept) {
            // The change is made, and the service goes on; an alarm tells of the counter.
            metrics::counter!("lookalike_audit_lines_lost_total").increment(1);
            let (path, why) = (self.path.display(), without_system_number(&error.to_string()));
            let message = format!("log.audit_file: cannot append to {path}: {why}; it lacks this line: {line}");
            log_line::say(Level::ERROR, PROGRAM, &message, json!({}));
        }
    }
}

/// A command that changes by hand what stands in a store, or what others read of it.
pub(super) struct Change {
    command: &'static str,
    /// What it changes, without any URL or host: those that are forgotten would stay in the file.
    what: String,
}

impl Change {
    /// The change that a command makes, if it makes one. What takes pages in, as `run` does, is none.
    pub fn of(command: &Command) -> Option<Self> {
        let (command, what) = match command {
            Command::Forget(args) if !args.dry_run => ("forget", forgotten(args)),
            Command::Compact => ("compact", String::new()),
            Command::Sweep { what: SweepCommand::Close { name, .. } } => ("sweep close", format!("sweep {name}")),
            Command::Recluster(args) if args.apply => ("recluster", format!("threshold {}", args.threshold)),
            Command::Restore { backup } => ("restore", format!("from {}", backup.display())),
            Command::Migrate(args) => ("migrate", format!("to {}", args.to.display())),
            Command::Related { what: RelatedCommand::Build(args) } if args.out.is_none() => {
                ("related build", format!("{} inputs", args.inputs.len()))
            }
            Command::Dlq { what: DlqCommand::Replay(args) } if !args.dry_run => ("dlq replay", String::new()),
            Command::Topics { what: TopicsCommand::Republish { what } } => ("topics republish", republished(*what)),
            _ => return None,
        };
        Some(Change { command, what })
    }
}

/// What `forget` is to forget.
fn forgotten(args: &ForgetArgs) -> String {
    let mut conditions = Vec::new();
    for (n, what) in [(args.named_urls.len(), "URLs"), (args.hosts.len(), "hosts")] {
        conditions.extend((n > 0).then(|| format!("{n} {what}")));
    }
    conditions.extend(args.urls_from.as_ref().map(|path| format!("URLs of {}", path.display())));
    conditions.extend(args.before.as_ref().map(|before| format!("before {before}")));
    conditions.extend(args.sweep.as_ref().map(|sweep| format!("sweep {sweep}")));
    conditions.join(", ")
}

fn republished(what: Option<Republished>) -> String {
    match what {
        None => "assignments, merges".into(),
        Some(Republished::Assignments) => "assignments".into(),
        Some(Republished::Merges) => "merges".into(),
        Some(Republished::EventsFrom { seq }) => format!("events from {seq}"),
    }
}

/// Makes a change, with a line before and one after it: a command that is killed may have changed something, too.
pub(super) fn audited(store: &Path, change: &Change, run: impl FnOnce() -> Result<Exit>) -> Result<Exit> {
    let Change { command, what } = change;
    let store = std::path::absolute(store).unwrap_or_else(|_| store.into());
    let (store, uid, pid) = (store.display().to_string(), rustix::process::getuid().as_raw(), std::process::id());
    let log = |outcome: &str| tracing::info!(target: COMMANDS, command, what = &**what, store, uid, pid, outcome);
    log("begun");
    let changed = run();
    log(changed.as_ref().map_or_else(exit_of, |exit| *exit).word());
    changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Lost if this fails: the line after one that a full disk or a crash cut off.
    #[test]
    fn a_line_stands_alone_after_one_that_was_cut_off() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.jsonl");
        let file = AuditFile::create(&path).expect("created");
        file.append("one", true).expect("written");
        fs::write(&path, "one\ntw").expect("written");
        file.append("three", false).expect("written");
        file.append("four", false).expect("written");
        assert_eq!(fs::read_to_string(&path).expect("text"), "one\ntw\nthree\nfour\n");
        fs::rename(&path, folder.path().join("audit.jsonl.1")).expect("rotated");
        file.append("five", true).expect("written");
        assert_eq!(fs::read_to_string(&path).expect("text"), "five\n");
        fs::remove_dir_all(folder.path()).expect("removed");
        assert!(file.append("six", true).is_err());
    }
}
