//! `lookalike dlq`: sends rejected messages to the topic of pages again.

use super::args::ReplayArgs;
use super::exit::Exit;
use super::output::print;
use super::telemetry;
use super::wiring::watch_signals;
use crate::config::Config;
use crate::kafka::{self, ReplayPlan, ReplayReport};
use anyhow::Result;
use std::fmt::Write as _;

/// Replays dead letters and prints how many, by reason.
pub(super) fn replay(config: &Config, args: ReplayArgs, json: bool) -> Result<Exit> {
    telemetry::start_logs(&config.log)?;
    let shutdown = watch_signals()?;
    let plan = ReplayPlan {
        from: args.from,
        reasons: args.reason,
        limit: args.limit,
        replays_max: args.replays_max,
        is_dry_run: args.dry_run,
    };
    let report = kafka::replay(&config.kafka, &plan, &shutdown)?;
    print(&report, json, report_text)?;
    Ok(if shutdown.load(std::sync::atomic::Ordering::Relaxed) && !report.complete {
        Exit::Interrupted
    } else if report.not_whole + report.too_often + report.foreign > 0 {
        Exit::Unreadable
    } else {
        Exit::Done
    })
}

fn report_text(report: &ReplayReport) -> String {
    let ReplayReport { dead_letters, pages, .. } = report;
    let n: u64 = report.replayed.values().sum();
    let verb = if report.dry_run { "would be replayed" } else { "replayed" };
    let mut text = format!("messages {verb} from {dead_letters} to {pages}: {n}\n");
    let mut row = |n: u64, what: &str| {
        if n > 0 {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{n:>9} {what}");
        }
    };
    report.replayed.iter().for_each(|(reason, n)| row(*n, reason));
    row(report.not_whole, "left out: value or headers are missing; send the pages again from their source");
    row(report.too_often, "left out: rejected again after --replays-max replays");
    row(report.foreign, "left out: not written by lookalike");
    if !report.complete {
        text += "stopped before the end; the same command goes on\n";
    }
    text
}
