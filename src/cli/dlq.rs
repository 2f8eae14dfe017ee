//! `lookalike dlq`: puts rejected messages back into the topic of pages.

use super::args::ReplayArgs;
use super::query::print;
use super::run::watch_signals;
use super::{Exit, telemetry};
use crate::config::Config;
use crate::kafka::{self, ReplayPlan, ReplayReport};
use anyhow::Result;
use std::fmt::Write as _;

/// Replays dead letters and says how many, by reason.
pub(super) fn replay(config: &Config, args: ReplayArgs) -> Result<Exit> {
    telemetry::start_logs(&config.log.level)?;
    let shutdown = watch_signals()?;
    let plan = ReplayPlan {
        from: args.from,
        reasons: args.reason,
        limit: args.limit,
        replays_max: args.replays_max,
        is_dry_run: args.dry_run,
    };
    let report = kafka::replay(&config.kafka, &plan, &shutdown)?;
    print(&report, args.json, rendered)?;
    Ok(if shutdown.load(std::sync::atomic::Ordering::Relaxed) && !report.complete {
        Exit::Interrupted
    } else if report.not_whole + report.too_often + report.foreign > 0 {
        Exit::Unreadable
    } else {
        Exit::Done
    })
}

fn rendered(report: &ReplayReport) -> String {
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
    row(report.not_whole, "left out: their value or headers are missing; send them again from where they came from");
    row(report.too_often, "left out: rejected again after as many replays as --replays-max allows");
    row(report.foreign, "left out: no dead letters of lookalike's");
    if !report.complete {
        text += "stopped before the end; replay again to go on\n";
    }
    text
}
