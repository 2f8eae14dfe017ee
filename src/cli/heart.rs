//! The heartbeat of the process that owns a store, for its standbys.

use super::exit::{Exit, ending};
use crate::config::{Config, InputKind};
use crate::kafka::{Beat, KafkaHeartbeat};
use crate::ports::SinkError;
use anyhow::{Result, anyhow};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Beats within the silence that standbys wait for.
const BEATS: u64 = 5;

/// The longest time between two beats, in milliseconds.
const INTERVAL_MS_MAX: u64 = 1_000;

/// The time between two beats.
pub(super) fn interval(takeover_after_ms: u64) -> Duration {
    Duration::from_millis((takeover_after_ms / BEATS).min(INTERVAL_MS_MAX))
}

/// A thread that beats while it lives; none where the configuration wants no heartbeat.
pub(super) struct Heart {
    is_replaced: Arc<AtomicBool>,
    /// Dropped, it ends the thread, which is not waited for: a broker may keep it.
    _stop: Option<Sender<()>>,
}

impl Heart {
    /// Beats from now on. Once a later owner beats, `shutdown` is set.
    pub fn start(config: &Config, shutdown: &Arc<AtomicBool>) -> Result<Self> {
        let is_replaced = Arc::new(AtomicBool::new(false));
        let is_publishing = config.input.from == InputKind::Kafka
            && config.events.file.is_empty()
            && !config.kafka.events_topic.is_empty();
        if !is_publishing || config.kafka.takeover_after_ms == 0 {
            return Ok(Heart { is_replaced, _stop: None });
        }
        let heartbeat = KafkaHeartbeat::open(&config.kafka)?;
        let interval = interval(config.kafka.takeover_after_ms);
        let (stop, stopped) = channel();
        let (is_replaced_there, shutdown) = (Arc::clone(&is_replaced), Arc::clone(shutdown));
        std::thread::Builder::new()
            .name("heartbeat".into())
            .spawn(move || {
                if beat(&heartbeat, interval, &stopped) {
                    is_replaced_there.store(true, Ordering::Release);
                    shutdown.store(true, Ordering::Relaxed);
                }
            })
            .map_err(|error| anyhow!("cannot start the heartbeat: {error}"))?;
        Ok(Heart { is_replaced, _stop: Some(stop) })
    }

    /// Ends the heartbeat.
    ///
    /// # Errors
    /// Another process is the owner now.
    pub fn end(self) -> Result<()> {
        if !self.is_replaced.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(ending(
            Exit::Fenced,
            "another process took over this store's output while this one stood still. Leave that process alone; `lookalike \
             follow` makes this one its standby",
        ))
    }
}

/// Beats until it is told to stop. True if a later owner beats.
fn beat(heartbeat: &KafkaHeartbeat, interval: Duration, stopped: &Receiver<()>) -> bool {
    let (mut generation, mut is_failing) = (None, false);
    for n in 0_u64.. {
        let beaten = heartbeat.read().and_then(|last| {
            let last = last.map_or(0, |beat| beat.generation);
            let own = *generation.get_or_insert(last + 1);
            if last > own {
                return Ok(true);
            }
            heartbeat.write(&Beat { generation: own, text: n.to_string() }).map(|()| false)
        });
        match &beaten {
            Ok(true) => return true,
            Ok(false) => is_failing = false,
            Err(error) if !is_failing => {
                is_failing = true;
                warn(error);
            }
            Err(_) => {}
        }
        if stopped.recv_timeout(interval) != Err(RecvTimeoutError::Timeout) {
            break;
        }
    }
    false
}

fn warn(error: &SinkError) {
    tracing::warn!("the heartbeat for standbys cannot be written: {error}; a standby may take over. Trying again");
}
