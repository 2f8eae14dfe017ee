//! `lookalike serve`, and `run --http-listen`: the HTTP server over a store that another process or thread writes.

use super::args::ServeArgs;
use super::exit::{Exit, usage};
use super::input_pages::StoreInputs;
use super::log_line::{self, PROGRAM};
use super::output::{OutputMode, print};
use super::telemetry::{self, Metrics};
use super::wiring::watch_signals;
use crate::backfill::machine_memory;
use crate::config::Config;
use crate::http::{self, Access, Service, Token, WriteAccess};
use crate::ports::KeptEvents;
use crate::store::{self, Follower, WriterEvents};
use anyhow::{Result, anyhow};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tracing::Level;

/// How often the main thread looks for a signal.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// Serves until a signal comes.
pub(super) fn serve(mut config: Config, args: ServeArgs, mode: OutputMode) -> Result<Exit> {
    if let Some(listen) = args.listen {
        config.http.listen = listen;
    }
    telemetry::start_logs(&config.log)?;
    if !config.watch.is_empty() {
        tracing::warn!("`serve` posts to no web hooks, so that each event has one sender: the `run` of this store");
    }
    let shutdown = watch_signals()?;
    // Only where a token is needed to read.
    let place = if config.http.read_token.is_empty() { "" } else { &config.http.token };
    let operator = Token::read("http.token", place).map_err(usage)?;
    let server = Server::open(&config, &Metrics::start(None)?, WriteAccess::Elsewhere(operator), None)?;
    if mode.json {
        let started = serde_json::json!({"store": config.store.path, "url": server.url()});
        print(&started, true, |_| String::new())?;
    } else {
        server.announce(&config);
    }
    while !shutdown.load(Ordering::Relaxed) {
        std::thread::sleep(SIGNAL_INTERVAL);
    }
    drop(server);
    Ok(Exit::Done)
}

/// A server that answers for as long as it lives.
pub(super) struct Server {
    runtime: Runtime,
    address: SocketAddr,
    close: Option<oneshot::Sender<()>>,
    closed: oneshot::Receiver<()>,
}

impl Server {
    /// Opens the configured store to read it, and answers questions about it. Where this process writes the store, `events` are
    /// read as soon as they are durable.
    pub fn open(
        config: &Config,
        metrics: &Metrics,
        write_access: WriteAccess,
        events: Option<WriterEvents>,
    ) -> Result<Self> {
        let address = config.http_address().map_err(usage)?;
        let interval = Duration::from_millis(config.http.refresh_ms);
        let block_cache_mib = match config.http.block_cache_mib {
            0 => config.store.block_cache_mib.max((machine_memory() >> 22) as usize),
            mib => mib,
        };
        let settings = store::Settings { block_cache_mib, ..config.store_settings() };
        let snapshots = Follower::open(&config.store.path, &settings, interval)?;
        let metrics = metrics.handle();
        let (settings, limits, ranking) = (config.http.clone(), config.limits.clone(), config.lost.clone());
        let events: Box<dyn KeptEvents> = match events {
            Some(events) => Box::new(events),
            None => Box::new(snapshots.events()),
        };
        let access = Access::new(&settings.read_token, write_access).map_err(usage)?;
        let is_open = access.is_open();
        let mut service =
            Service::new((snapshots, events), settings, limits, ranking, access, move || metrics.render());
        if config.http.read_inputs {
            service = service.with_inputs(StoreInputs::of_files(config));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind(address)).map_err(|error| {
            anyhow!(
                "cannot listen on {address}: {error}; give another address with --listen, --http-listen or http.listen"
            )
        })?;
        let address = listener.local_addr()?;
        if is_open && !address.ip().is_loopback() {
            tracing::warn!("other machines can reach {address}; every client that does can read the store");
        }
        let (close, closing) = oneshot::channel();
        let (has_closed, closed) = oneshot::channel();
        runtime.spawn(async move {
            let closing = async {
                let _ = closing.await;
            };
            http::serve(listener, service, closing).await;
            let _ = has_closed.send(());
        });
        Ok(Server { runtime, address, close: Some(close), closed })
    }

    /// Where browsers find it.
    fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Prints the address, also where `--quiet` is given: with port 0 nothing else tells it.
    pub fn announce(&self, config: &Config) {
        let (store, url) = (config.store.path.display().to_string(), self.url());
        log_line::say(Level::INFO, PROGRAM, &format!("{store} at {url}"), json!({"store": store, "url": url}));
    }
}

impl Drop for Server {
    /// Waits for the answers under way; [`http::serve`] limits how long.
    fn drop(&mut self) {
        self.close = None;
        let _ = self.runtime.block_on(&mut self.closed);
    }
}
