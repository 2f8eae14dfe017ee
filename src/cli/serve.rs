//! `lookalike serve`, and `run --http-listen`: the HTTP door before a store that somebody else writes to.

use super::args::ServeArgs;
use super::run::watch_signals;
use super::telemetry::{self, Metrics};
use super::{Exit, ending};
use crate::backfill::machine_memory;
use crate::config::Config;
use crate::http::{self, Service, WriteAccess};
use crate::store::{self, Follower};
use anyhow::{Context, Result};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

/// How often it is looked whether a signal came.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// Serves until a signal comes.
pub(super) fn serve(mut config: Config, args: ServeArgs) -> Result<Exit> {
    if let Some(listen) = args.listen {
        config.http.listen = listen;
    }
    telemetry::start_logs(&config.log.level)?;
    let shutdown = watch_signals()?;
    let door = Server::open(&config, &Metrics::start(None)?, WriteAccess::Elsewhere)?;
    while !shutdown.load(Ordering::Relaxed) {
        std::thread::sleep(SIGNAL_INTERVAL);
    }
    drop(door);
    Ok(Exit::Done)
}

/// A door that is open for as long as it lives.
pub(super) struct Server {
    runtime: Runtime,
    close: Option<oneshot::Sender<()>>,
    closed: oneshot::Receiver<()>,
}

impl Server {
    /// Opens the configured store to read it, and the door before it.
    pub fn open(config: &Config, metrics: &Metrics, changes: WriteAccess) -> Result<Self> {
        let address = config.http_address().map_err(|error| ending(Exit::Usage, error.to_string()))?;
        let interval = Duration::from_millis(config.http.refresh_ms);
        let block_cache_mib = match config.http.block_cache_mib {
            0 => config.store.block_cache_mib.max((machine_memory() >> 22) as usize),
            mib => mib,
        };
        let settings = store::Settings { block_cache_mib, ..config.store_settings() };
        let snapshots = Follower::open(&config.store.path, &settings, interval)?;
        let metrics = metrics.handle();
        let (settings, limits, ranking) = (config.http.clone(), config.limits.clone(), config.lost.clone());
        let house = Service::new(snapshots, settings, limits, ranking, changes, move || metrics.render());
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind(address)).with_context(|| {
            format!("{address} cannot be listened at; give another one with --listen, --http-listen or http.listen")
        })?;
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() {
            tracing::warn!("{address} can be reached from other machines; whoever reaches it can read the store");
        }
        eprintln!("lookalike: {} at http://{address}/", config.store.path.display());
        let (close, closing) = oneshot::channel();
        let (has_closed, closed) = oneshot::channel();
        runtime.spawn(async move {
            let closing = async {
                let _ = closing.await;
            };
            http::serve(listener, house, closing).await;
            let _ = has_closed.send(());
        });
        Ok(Server { runtime, close: Some(close), closed })
    }
}

impl Drop for Server {
    /// Ends what is under way, which [`http::serve`] limits.
    fn drop(&mut self) {
        self.close = None;
        let _ = self.runtime.block_on(&mut self.closed);
    }
}
