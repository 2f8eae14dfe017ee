//! `lookalike sweep`: the dated walks of the crawler, and closing one.

use super::args::SweepCommand;
use super::query::{open, print};
use super::run::{open_sink, open_store};
use super::{Exit, ending, render};
use crate::cluster::Decider;
use crate::config::Config;
use crate::pipeline::{self, CloseError, OfflineCloser};
use crate::ports::Snapshot;
use crate::query;
use crate::store::RocksStore;
use anyhow::Result;
use std::sync::Arc;
use std::time::SystemTime;

/// Lists sweeps or closes one.
pub(super) fn sweep(mut config: Config, command: SweepCommand) -> Result<Exit> {
    match command {
        SweepCommand::List { json } => {
            let sweeps = query::sweeps(&open(&config)?)?;
            print(&sweeps, json, |sweeps| render::sweeps(sweeps))
        }
        SweepCommand::Close { name, events, json } => {
            if let Some(events) = events {
                config.events.file = events;
            }
            // Nothing is made where there is no store: a read-only opening says so.
            drop(open(&config)?);
            close(&config, &name, json)
        }
    }
}

fn close(config: &Config, name: &str, json: bool) -> Result<Exit> {
    let begun = SystemTime::now();
    let mut store: RocksStore = open_store(config)?;
    // No signal is watched: closing may be killed at any moment, and goes on when it is asked for again.
    let mut sink = open_sink(config, &store, begun, &Arc::default())?;
    let next_seq = store.next_seq();
    if let Some(sink) = &mut sink {
        pipeline::recover(&store, sink.as_mut(), store.published(), next_seq)?;
    }
    let rule = config.rule();
    let decider = Decider::new(rule.cluster, &rule.sketch, store.clusters()?, store.common()?);
    let seed = *store.seed();
    let closed =
        OfflineCloser { store: &mut store, decider, seed, next_seq, sink }.close(name).map_err(
            |error| match error {
                CloseError::Unknown(_) => ending(Exit::NotFound, error.to_string()),
                other => other.into(),
            },
        )?;
    print(&closed, json, render::closed)
}
