//! `lookalike verify`: checks that a store is sound.

use super::exit::{Exit, ending};
use super::output::print;
use super::related_store;
use super::wiring::{open_read_only, watch_signals};
use crate::backfill::BackfillError;
use crate::config::Config;
use crate::store::Report;
use anyhow::Result;

/// Checks the store and prints what is wrong where.
pub(super) fn verify(config: &Config, limit: usize, json: bool) -> Result<Exit> {
    let store = open_read_only(config)?;
    let mut report = store.check(limit);
    match related_store::recount(&store, limit, watch_signals()?, &mut report) {
        Err(BackfillError::Stopped) => return Err(ending(Exit::Interrupted, "stopped")),
        recounted => recounted?,
    }
    print(&report, json, report_text)?;
    Ok(if report.is_sound { Exit::Done } else { Exit::Unsound })
}

fn report_text(report: &Report) -> String {
    let mut text: String = report.findings.iter().map(|finding| format!("{finding}\n")).collect();
    let n_more = report.n_findings - report.findings.len() as u64;
    if n_more > 0 {
        text += &format!("and {n_more} more\n");
    }
    let n_rows: u64 = report.rows.values().sum();
    let read = format!("{} documents, {n_rows} rows in {} families", report.n_documents, report.rows.len());
    text += &match report.n_findings {
        0 => format!("sound: {read}\n"),
        n => format!("not sound: {n} findings in {read}; restore a copy, or make a new store from the pages\n"),
    };
    for unchecked in &report.unchecked {
        text += &format!("  not checked: {unchecked}\n");
    }
    text
}
