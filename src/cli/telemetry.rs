//! What the program reports while it runs: logs, metrics, progress.

use super::audit_trail::{self, AuditFile};
use super::exit::usage;
use super::log_line::{self, EventFormat, PROGRESS};
use crate::backfill::{PhaseProgress, ProgressSnapshot};
use crate::config::LogSection;
use crate::files::ReadProgress;
use crate::pipeline::Stats;
use anyhow::{Result, anyhow};
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use serde_json::json;
use std::io::{IsTerminal, stderr};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tracing::Level;
use tracing_subscriber::filter::{EnvFilter, Targets};
use tracing_subscriber::fmt::writer::MakeWriterExt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// How often the bar on a terminal is redrawn.
const BAR_INTERVAL: Duration = Duration::from_millis(200);

/// How often samples are summed up, so that they do not pile up while no scrape comes.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Buckets of the stage times, in seconds.
const STAGE_SECONDS: [f64; 9] = [0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0];

/// Buckets of HTTP response times, in seconds.
const HTTP_SECONDS: [f64; 10] = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 1.0, 10.0];

/// Buckets of the batch sizes, in records.
const BATCH_RECORDS: [f64; 6] = [1.0, 8.0, 64.0, 256.0, 1024.0, 4096.0];

/// Starts the log on standard error, and the file of the audit trail, unless they are started already.
///
/// One filter stands before both. Filters of their own lose lines: what librdkafka's wrapper asks about its own lines
/// decides about the next line of anybody (<https://github.com/tokio-rs/tracing/issues/2519>).
pub(super) fn start_logs(log: &LogSection) -> Result<()> {
    let LogSection { level, audit_file, .. } = log;
    let audit_file = (!audit_file.as_os_str().is_empty()).then(|| AuditFile::create(audit_file)).transpose()?;
    let mut directives = vec![level.clone()];
    directives.extend(audit_trail::kept_at_any_level(audit_file.is_some()).map(|target| format!("{target}=info")));
    let filter =
        EnvFilter::try_new(directives.join(",")).map_err(|error| usage(format!("log.level = {level:?}: {error}")))?;
    // Directives that name spans are more than `Targets` reads. Whoever gives those may see these lines, too.
    let shows_commands =
        level.parse().map_or(true, |level: Targets| level.would_enable(audit_trail::COMMANDS, &Level::INFO));
    let writer = stderr.with_filter(move |line| shows_commands || line.target() != audit_trail::COMMANDS);
    let on_stderr = tracing_subscriber::fmt::layer()
        .event_format(EventFormat::default())
        .with_writer(writer)
        .with_ansi(has_colours());
    let _ = tracing_subscriber::registry().with(filter).with(on_stderr).with(audit_file).try_init();
    Ok(())
}

/// Whether standard error takes colours, by the conventions of <https://no-color.org> and <https://bixense.com/clicolors>.
fn has_colours() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !is_set("NO_COLOR") && (stderr().is_terminal() || is_set("CLICOLOR_FORCE"))
}

/// The metrics recorder of the process, served to Prometheus at `http://ADDRESS/metrics` where there is an address.
pub(super) struct Metrics {
    handle: PrometheusHandle,
    _runtime: Runtime,
}

impl Metrics {
    /// Installs the recorder.
    pub fn start(listen: Option<SocketAddr>) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let builder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Full("lookalike_stage_seconds".into()), &STAGE_SECONDS)?
            .set_buckets_for_metric(Matcher::Full("lookalike_http_seconds".into()), &HTTP_SECONDS)?
            .set_buckets_for_metric(Matcher::Full("lookalike_batch_records".into()), &BATCH_RECORDS)?;
        let recorder = if let Some(address) = listen {
            let (recorder, exporter) = {
                let _inside = runtime.enter();
                let builder = builder.with_http_listener(address);
                builder.build().map_err(|error| {
                    anyhow!(
                        "cannot serve metrics on {address}: {error}; give another --metrics-listen or metrics.listen"
                    )
                })?
            };
            runtime.spawn(exporter);
            recorder
        } else {
            builder.build_recorder()
        };
        let handle = recorder.handle();
        metrics::set_global_recorder(recorder).map_err(|error| anyhow!("metrics: {error}"))?;
        let upkeep = handle.clone();
        runtime.spawn(async move {
            loop {
                tokio::time::sleep(UPKEEP_INTERVAL).await;
                upkeep.run_upkeep();
            }
        });
        Ok(Metrics { handle, _runtime: runtime })
    }

    /// Renders the metrics in Prometheus' text format.
    pub fn handle(&self) -> PrometheusHandle {
        self.handle.clone()
    }
}

/// Progress of a run: a bar on a terminal, a line every few seconds elsewhere and where lines are JSON.
pub(super) struct Progress {
    line_interval: Duration,
    is_silent: bool,
    read: Option<Arc<ReadProgress>>,
}

/// Progress on show, until it is finished.
pub(super) struct ProgressDisplay {
    stop: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    pub fn new(line_seconds: u64, is_silent: bool) -> Self {
        Progress { line_interval: Duration::from_secs(line_seconds), is_silent, read: None }
    }

    /// Gives the bar its length: the bytes of the input files.
    pub fn reads(&mut self, read: Arc<ReadProgress>) {
        self.read = Some(read);
    }

    /// Shows a stream.
    pub fn start(self, stats: Arc<Stats>) -> ProgressDisplay {
        self.start_with(move |progress, bar, elapsed| progress.show(bar, &stats, elapsed))
    }

    /// Shows a backfill.
    pub fn start_backfill(self, backfill: Arc<PhaseProgress>) -> ProgressDisplay {
        self.start_with(move |progress, bar, _| progress.show_backfill(bar, &backfill))
    }

    fn start_with(self, show: impl Fn(&Self, Option<&ProgressBar>, Duration) + Send + 'static) -> ProgressDisplay {
        let (stop, stopped) = channel();
        let terminal = stderr().is_terminal() && !log_line::is_json();
        if self.is_silent || (!terminal && self.line_interval.is_zero()) {
            return ProgressDisplay { stop, thread: None };
        }
        let interval = if terminal { BAR_INTERVAL } else { self.line_interval };
        let thread = std::thread::spawn(move || {
            let bar = terminal.then(|| self.bar());
            let begin = Instant::now();
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                show(&self, bar.as_ref(), begin.elapsed());
            }
            if let Some(bar) = bar {
                bar.finish_and_clear();
            }
        });
        ProgressDisplay { stop, thread: Some(thread) }
    }

    /// Shows the phase under way: how much the first one has read, how many jobs the others have done.
    fn show_backfill(&self, bar: Option<&ProgressBar>, backfill: &PhaseProgress) {
        let Some(ProgressSnapshot { phase, n_done, n_total, usage }) = backfill.snapshot() else { return };
        let read = self.read.as_ref().filter(|_| phase.reads_pages);
        let read = read.map(|read| (read.n_bytes_read.load(Relaxed), read.n_bytes_total.load(Relaxed)));
        let (done, total) = read.unwrap_or((n_done, n_total));
        let count = match phase.reads_pages {
            true => format!(": {n_done} pages"),
            false if n_total > 0 => format!(": {n_done} of {n_total}"),
            false => String::new(),
        };
        let (wall, cpu, memory) = (usage.wall_seconds, usage.cpu_seconds, HumanBytes(usage.peak_memory));
        let text = format!("{}{count} ({wall:.0} s, CPU {cpu:.0} s, {memory})", phase.name);
        match bar {
            Some(bar) => {
                bar.set_length(total.max(1));
                bar.set_position(done);
                bar.set_message(text);
            }
            None => {
                let fields = json!({
                    "phase": phase.name,
                    "n_done": n_done,
                    "n_total": (n_total > 0).then_some(n_total),
                    "n_bytes_read": read.map(|(n_read, _)| n_read),
                    "n_bytes_total": read.map(|(_, n_total)| n_total),
                    "wall_seconds": wall,
                    "cpu_seconds": cpu,
                    "peak_memory_bytes": usage.peak_memory,
                });
                log_line::say(Level::INFO, PROGRESS, &text, fields);
            }
        }
    }

    fn bar(&self) -> ProgressBar {
        let total = self.read.as_ref().map_or(0, |read| read.n_bytes_total.load(Relaxed));
        if total == 0 {
            return ProgressBar::new_spinner();
        }
        let bar = ProgressBar::new(total);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3}%  {msg}") {
            bar.set_style(style);
        }
        bar
    }

    fn show(&self, bar: Option<&ProgressBar>, stats: &Stats, elapsed: Duration) {
        let counts = stats.summary();
        let rate = counts.n_records as f64 / elapsed.as_secs_f64().max(0.001);
        let lag = counts.lag.map(|lag| format!(", {lag} records behind")).unwrap_or_default();
        let text = format!("{} pages, {rate:.0}/s, {}{lag}", counts.n_records, HumanBytes(counts.n_bytes_read));
        let read = self.read.as_ref().map_or(0, |read| read.n_bytes_read.load(Relaxed));
        match bar {
            Some(bar) => {
                bar.set_position(read);
                bar.set_message(text);
            }
            None => {
                let fields = json!({
                    "n_records": counts.n_records,
                    "records_per_second": rate.round(),
                    "n_bytes_read": counts.n_bytes_read,
                    "lag_records": counts.lag,
                });
                log_line::say(Level::INFO, PROGRESS, &text, fields);
            }
        }
    }
}

impl ProgressDisplay {
    /// Stops showing, and removes the bar.
    pub fn finish(mut self) {
        let _ = self.stop.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
