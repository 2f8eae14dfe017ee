//! `lookalike verify`: whether a store is sound, and what is wrong where.

use super::Exit;
use crate::config::Config;
use crate::store::{Report, RocksStore};
use anyhow::Result;
use std::io::Write;

/// Checks the store and tells what was found.
pub(super) fn verify(config: &Config, most: usize, json: bool) -> Result<Exit> {
    let store = RocksStore::open_read_only(&config.store.path, &config.store_settings())?;
    let report = store.check(most);
    let text = if json { serde_json::to_string(&report)? + "\n" } else { render(&report) };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(if report.is_sound { Exit::Done } else { Exit::Unsound })
}

fn render(report: &Report) -> String {
    let mut text: String = report.findings.iter().map(|finding| format!("{finding}\n")).collect();
    let untold = report.n_findings - report.findings.len() as u64;
    if untold > 0 {
        text += &format!("and {untold} more\n");
    }
    let n_rows: u64 = report.rows.values().sum();
    let read = format!("{} documents, {n_rows} rows in {} families", report.n_documents, report.rows.len());
    text += &match report.n_findings {
        0 => format!("sound: {read}\n"),
        n => format!("not sound: {n} finding(s) in {read}; restore a copy, or make a new store from the pages\n"),
    };
    text
}
