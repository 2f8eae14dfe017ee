//! Sends the events of each watch to its hook, one after the other.

use super::backoff::pause;
use super::post::{Hook, Poster};
use super::settings::WatchSettings;
use super::signature::Signer;
use super::wanted::Wanted;
use crate::ports::{KeptEvents, Outgoing, SecretReference, StoreError, WatchPositions, WatchedDocuments};
use crate::sketch::{Rule, Sketch};
use crate::wire::{Event, EventFilter};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Bytes of events that are read at once, about.
const PART_BYTES: usize = 64 << 10;

/// How often a watch that has seen all events looks for more, and one that waits looks whether the program ends.
const POLL: Duration = Duration::from_millis(50);

/// Events that may be looked at in vain before the position is noted.
const UNNOTED_MAX: u64 = 1000;

/// How long the program waits at its end for what is durable and not delivered.
const SHUTDOWN: Duration = Duration::from_secs(5);

/// Sketches the text of a file by the store's rule; what is wrong with it, where it cannot be watched.
pub type ReadText<'a> = dyn FnMut(&Path) -> Result<Arc<Sketch>, String> + 'a;

/// The running watches. When this value is dropped, each sends what is there as long as its hook takes it, for a few seconds.
pub struct Watches {
    closing: Arc<AtomicBool>,
    /// Closed once the last watch has ended.
    ended: Receiver<()>,
}

impl Watches {
    /// Starts a thread for each watch of a store whose sketches have this rule.
    ///
    /// # Errors
    /// What is wrong with the settings, their secrets and texts, or the system.
    pub fn start<S>(
        settings: &[WatchSettings],
        store: S,
        rule: Rule,
        read_text: &mut ReadText<'_>,
    ) -> Result<Self, String>
    where
        S: KeptEvents + WatchPositions + WatchedDocuments + 'static,
    {
        let (closing, store) = (Arc::new(AtomicBool::new(false)), Arc::new(store));
        let (running, ended) = channel();
        for watch in settings {
            let delivery = Delivery {
                name: watch.name.clone(),
                hook: Hook::parse(&watch.url)?,
                poster: Poster::new().map_err(|error| format!("cannot wait for a hook: {error}"))?,
                wanted: wanted(watch, rule, read_text)?,
                signer: signer(watch)?,
                store: Arc::clone(&store),
                closing: Arc::clone(&closing),
                _running: running.clone(),
            };
            let thread = std::thread::Builder::new().name("watch".into());
            thread.spawn(move || delivery.run()).map_err(|error| format!("cannot start a thread: {error}"))?;
        }
        Ok(Watches { closing, ended })
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Release);
        let _ = self.ended.recv_timeout(SHUTDOWN);
    }
}

/// The events that a hook is sent.
fn wanted(watch: &WatchSettings, rule: Rule, read_text: &mut ReadText<'_>) -> Result<Wanted, String> {
    let mut texts = Vec::new();
    for path in &watch.texts {
        texts.push(read_text(path).map_err(|why| format!("cannot watch for a text of {:?}: {why}", watch.name))?);
    }
    let filter = EventFilter {
        types: watch.types.iter().copied().collect(),
        urls: watch.urls.iter().cloned().collect(),
        hosts: watch.hosts.iter().cloned().collect(),
    };
    Ok(Wanted { filter, clusters: watch.clusters.clone(), texts, threshold: watch.threshold, rule })
}

fn signer(watch: &WatchSettings) -> Result<Option<Signer>, String> {
    let Some(reference) = SecretReference::parse(&watch.secret) else { return Ok(None) };
    let secret = reference.read().map_err(|why| format!("cannot read the secret of watch {:?}: {why}", watch.name))?;
    let signer = Signer::new(secret.as_bytes());
    signer.map(Some).map_err(|why| format!("cannot sign with the secret of watch {:?}: {why}", watch.name))
}

/// One watch at work.
struct Delivery<S> {
    name: String,
    hook: Hook,
    poster: Poster,
    wanted: Wanted,
    signer: Option<Signer>,
    store: Arc<S>,
    closing: Arc<AtomicBool>,
    _running: Sender<()>,
}

impl<S: KeptEvents + WatchPositions + WatchedDocuments> Delivery<S> {
    fn run(self) {
        if let Err(error) = self.deliver_all() {
            tracing::error!("watch {} ended, the next `run` goes on with it: {error}", self.name);
        }
    }

    /// Delivers until the program ends.
    fn deliver_all(&self) -> Result<(), StoreError> {
        let mut next = self.begin()?;
        let mut noted = next;
        while self.show_lag(next) || !self.is_closing() {
            if next >= self.store.newest() {
                std::thread::sleep(POLL);
                continue;
            }
            let Some(events) = self.store.read(next, PART_BYTES)? else {
                next = self.skip(next)?;
                continue;
            };
            for event in events {
                if self.is_wanted(&event)? {
                    if !self.deliver(&event) {
                        return self.note(next);
                    }
                    self.note(event.seq + 1)?;
                    noted = event.seq + 1;
                }
                next = event.seq + 1;
            }
            if next - noted >= UNNOTED_MAX {
                self.note(next)?;
                noted = next;
            }
        }
        self.note(next)
    }

    /// Notes the next event. While the disk is full, as the store's writer reports, delivering goes on without notes; a kill
    /// then makes the hook hear events again.
    fn note(&self, next: u64) -> Result<(), StoreError> {
        match self.store.note_position(&self.name, next) {
            Err(StoreError::DiskFull(_)) => Ok(()),
            noted => noted,
        }
    }

    /// Where to go on. A new watch begins with the next event.
    fn begin(&self) -> Result<u64, StoreError> {
        if let Some(next) = self.store.position(&self.name)? {
            return Ok(next);
        }
        let next = self.store.newest();
        self.note(next)?;
        Ok(next)
    }

    /// Passes over what is not kept any more.
    fn skip(&self, next: u64) -> Result<u64, StoreError> {
        let first = self.store.range()?.map_or(next, |kept| kept.start).max(next);
        let n_skipped = first - next;
        tracing::warn!(
            "watch {}: {n_skipped} events from {next} on are not kept any more and were not looked at; raise \
             store.keep_events",
            self.name
        );
        metrics::counter!("lookalike_webhook_skipped_total", "watch" => self.name.clone()).increment(n_skipped);
        self.note(first)?;
        Ok(first)
    }

    fn is_wanted(&self, event: &Outgoing) -> Result<bool, StoreError> {
        // It was forgotten.
        if event.json.is_empty() {
            return Ok(false);
        }
        let read: Event = serde_json::from_slice(&event.json)
            .map_err(|error| StoreError::Damaged(format!("event {}: {error}", event.seq)))?;
        self.wanted.matches(&read, &*self.store)
    }

    /// Posts an event until the hook takes it; false if the program ends before.
    fn deliver(&self, event: &Outgoing) -> bool {
        let headers = self.headers(event);
        for n_failures in 1.. {
            let why = match self.poster.post(&self.hook, &headers, event.json.clone()) {
                Ok(200..300) => {
                    metrics::counter!("lookalike_webhook_delivered_total", "watch" => self.name.clone()).increment(1);
                    return true;
                }
                Ok(status) => format!("its status is {status}"),
                Err(why) => why,
            };
            metrics::counter!("lookalike_webhook_failed_total", "watch" => self.name.clone()).increment(1);
            if n_failures == 1 {
                tracing::warn!("watch {}: the hook does not take event {}: {why}; trying again", self.name, event.seq);
            }
            let mut random = [0];
            // Without randomness, the pause is merely as long as others'.
            let _ = getrandom::fill(&mut random);
            let until = Instant::now() + pause(n_failures, random[0]);
            while Instant::now() < until {
                if self.is_closing() {
                    return false;
                }
                self.show_lag(event.seq);
                std::thread::sleep(POLL.min(until.saturating_duration_since(Instant::now())));
            }
        }
        false
    }

    fn headers(&self, event: &Outgoing) -> Vec<(&'static str, String)> {
        let mut headers = vec![
            ("content-type", "application/json".to_string()),
            ("user-agent", concat!("lookalike/", env!("CARGO_PKG_VERSION")).to_string()),
            ("lookalike-watch", self.name.clone()),
            ("lookalike-seq", event.seq.to_string()),
            ("lookalike-delivery", format!("{}/{}", self.name, event.seq)),
        ];
        if let Some(signer) = &self.signer {
            headers.push(("lookalike-signature", format!("sha256={}", signer.signature(&event.json))));
        }
        headers
    }

    /// Tells how many events are to be looked at; false where none are.
    fn show_lag(&self, next: u64) -> bool {
        let lag = self.store.newest().saturating_sub(next);
        metrics::gauge!("lookalike_webhook_lag_events", "watch" => self.name.clone()).set(lag as f64);
        lag > 0
    }

    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }
}
