//! The lines on standard error: text for people, or one JSON object a line for programs that collect logs.

use super::visible::visible;
use crate::config::LogFormat;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::{self, Debug};
use std::io::{Write, stderr};
use std::panic::{self, PanicHookInfo};
use std::sync::atomic::{AtomicBool, Ordering};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{Format, FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;

/// The target of notes and errors, which come at every level of the log.
pub(super) const PROGRAM: &str = "lookalike";

/// The target of what a command did in all.
pub(super) const SUMMARY: &str = "lookalike::summary";

/// The target of lines about work under way.
pub(super) const PROGRESS: &str = "lookalike::progress";

/// The target of panics.
const PANIC: &str = "lookalike::panic";

/// The format of the process. Its threads, and a panic in any of them, write to one standard error.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Sets the format of every line from now on.
pub(super) fn set_format(format: LogFormat) {
    let is_json = format == LogFormat::Json;
    match (IS_JSON.swap(is_json, Ordering::Relaxed), is_json) {
        (false, true) => panic::set_hook(Box::new(print_panic)),
        (true, false) => drop(panic::take_hook()),
        _ => {}
    }
}

/// Whether lines are JSON.
pub(super) fn is_json() -> bool {
    IS_JSON.load(Ordering::Relaxed)
}

/// A line as JSON.
#[derive(Serialize)]
struct Line<'a> {
    /// In UTC, by RFC 3339.
    timestamp: String,
    level: &'static str,
    target: &'a str,
    message: &'a str,
    #[serde(flatten)]
    failure: Option<Failure>,
    /// An object.
    fields: Value,
}

/// What the last line of a failed command has beside its message: the keys that an error has with `--json`.
#[derive(Serialize)]
struct Failure {
    error: &'static str,
    exit_code: u8,
}

impl<'a> Line<'a> {
    fn new(level: Level, target: &'a str, message: &'a str, fields: Value) -> Self {
        let timestamp = format!("{:.6}", jiff::Timestamp::now());
        Line { timestamp, level: level.as_str(), target, message, failure: None, fields }
    }

    /// Prints the line in one write, so that lines of several threads never mix.
    fn print(&self) {
        let json =
            serde_json::to_string(self).unwrap_or_else(|error| json!({"message": error.to_string()}).to_string());
        // Where standard error is closed, there is nowhere to report it.
        let _ = stderr().write_all((json + "\n").as_bytes());
    }
}

/// Prints a line of the program's own, at any level of the log. The fields are an object, which text leaves out.
pub(super) fn say(level: Level, target: &str, message: &str, fields: Value) {
    if is_json() {
        Line::new(level, target, message, fields).print();
    } else {
        eprintln!("lookalike: {}", visible(message));
    }
}

/// Prints the last line of a failed command, as JSON. `error` is the word that stands for the exit code.
pub(super) fn print_failure(error: &'static str, exit_code: u8, message: &str) {
    let failure = Some(Failure { error, exit_code });
    Line { failure, ..Line::new(Level::ERROR, PROGRAM, message, json!({})) }.print();
}

/// Prints a panic, as JSON.
fn print_panic(panic: &PanicHookInfo<'_>) {
    let mut fields = json!({"thread": std::thread::current().name()});
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        fields["backtrace"] = backtrace.to_string().into();
    }
    Line::new(Level::ERROR, PANIC, &panic.to_string(), fields).print();
}

/// How the log writes an event.
#[derive(Default)]
pub(super) struct EventFormat(Format);

impl<S, N> FormatEvent<S, N> for EventFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        if !is_json() {
            return self.0.format_event(context, writer, event);
        }
        let mut fields = fields_of(event);
        let message = taken(&mut fields, "message").unwrap_or_default();
        // What comes by the crate `log` has the target `log`, and says in such fields where it is from.
        let origin = taken(&mut fields, "log.target");
        fields.retain(|name, _| !name.starts_with("log."));
        let metadata = event.metadata();
        let target = origin.as_deref().unwrap_or_else(|| metadata.target());
        let line = Line::new(*metadata.level(), target, &message, Value::Object(fields));
        let line = serde_json::to_string(&line).map_err(|_| fmt::Error)?;
        writeln!(writer, "{line}")
    }
}

/// Takes a text out of fields.
fn taken(fields: &mut Map<String, Value>, name: &str) -> Option<String> {
    match fields.remove(name)? {
        Value::String(text) => Some(text),
        other => Some(other.to_string()),
    }
}

/// The fields of an event, its message among them.
pub(super) fn fields_of(event: &Event<'_>) -> Map<String, Value> {
    let mut fields = Fields(Map::new());
    event.record(&mut fields);
    fields.0
}

struct Fields(Map<String, Value>);

impl Fields {
    fn add(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().into(), value.into());
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add(field, format!("{value:?}"));
    }
}
