//! `lookalike sweep`: lists the crawler's sweeps, or closes one.

use super::args::SweepCommand;
use super::exit::{Exit, ending};
use super::output::print;
use super::render;
use super::wiring::{open_read_only, open_sink, open_store};
use crate::cluster::Decider;
use crate::config::Config;
use crate::pipeline::{self, CloseError, OfflineCloser};
use crate::ports::{ClosedSweep, Snapshot};
use crate::query;
use crate::store::RocksStore;
use anyhow::Result;
use indicatif::HumanCount;
use std::sync::Arc;
use std::time::SystemTime;

/// Lists sweeps or closes one.
pub(super) fn sweep(mut config: Config, command: SweepCommand, json: bool) -> Result<Exit> {
    match command {
        SweepCommand::List => {
            let sweeps = query::sweeps(&open_read_only(&config)?)?;
            print(&sweeps, json, |sweeps| render::sweeps(sweeps))
        }
        SweepCommand::Close { name, events } => {
            if let Some(events) = events {
                config.events.file = events;
            }
            // Opening read-only creates nothing where there is no store.
            drop(open_read_only(&config)?);
            close(&config, &name, json)
        }
    }
}

fn close(config: &Config, name: &str, json: bool) -> Result<Exit> {
    let begun = SystemTime::now();
    let store: RocksStore = open_store(config)?;
    // No signal is watched: a kill at any moment is harmless, and the same command goes on.
    let mut sink = open_sink(config, &store, begun, &Arc::default())?;
    let next_seq = store.next_seq();
    if let Some(sink) = &mut sink {
        pipeline::recover(&store, sink.as_mut(), store.published(), next_seq)?;
    }
    let rule = config.rule();
    let decider = Decider::new(rule.cluster, &rule.sketch, store.clusters()?, store.common()?);
    let seed = *store.seed();
    let closed =
        OfflineCloser { store: &store, decider, seed, next_seq, sink }.close(name).map_err(|error| match error {
            CloseError::Unknown(_) => ending(Exit::NotFound, error.to_string()),
            other => other.into(),
        })?;
    print(&closed, json, closed_text)
}

/// What closing a sweep did.
fn closed_text(closed: &ClosedSweep) -> String {
    let ClosedSweep { sweep, n_hosts, n_lost, n_moved } = closed;
    if *n_lost == 0 {
        return format!("sweep {sweep} is closed; no URL is newly lost\n");
    }
    let moved = n_moved.map_or(String::new(), |n| format!("; the content of {} stands elsewhere", HumanCount(n)));
    format!("sweep {sweep} is closed: {} URLs on {} hosts are lost{moved}\n", HumanCount(*n_lost), HumanCount(*n_hosts))
}
