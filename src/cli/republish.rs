//! `lookalike topics republish`: writes to output topics what they lack and the store still has.

use super::args::Republished;
use super::exit::{Exit, ending, usage};
use super::output::print;
use super::telemetry;
use super::wiring::{kafka_sink, open_read_only, open_store, watch_signals};
use crate::cluster::Merge;
use crate::config::{Config, InputKind};
use crate::document::{ClusterId, DocumentId};
use crate::kafka::{Fact, KafkaSettings, KafkaSink};
use crate::pipeline;
use crate::ports::{Batch, OutputNote, OutputNotes, Sink, Snapshot, Store};
use crate::query;
use crate::store::RocksStore;
use anyhow::Result;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// Parts of the state, or events, in one transaction.
const AT_ONCE: usize = 8192;

/// What one topic was given.
#[derive(Serialize)]
struct RepublishedRow<'a> {
    topic: &'a str,
    n_written: u64,
    /// What was written, for people.
    #[serde(skip)]
    what: &'static str,
}

impl RepublishedRow<'_> {
    fn text(&self) -> String {
        format!("{}: {} {}\n", self.topic, self.n_written, self.what)
    }
}

/// Writes what is asked for, after the events that wait to be published.
pub(super) fn republish(config: &Config, what: Option<Republished>, json: bool) -> Result<Exit> {
    check(config, what)?;
    telemetry::start_logs(&config.log)?;
    // Opening read-only creates nothing where there is no store.
    drop(open_read_only(config)?);
    let shutdown = watch_signals()?;
    let begun = SystemTime::now();
    let store = open_store(config)?;
    if let Some(Republished::EventsFrom { seq }) = what {
        republish_events(config, &store, begun, seq, &shutdown, json)?;
    }
    let mut sink = kafka_sink(&config.kafka, &store, begun, &shutdown)?;
    sink.check_events()?;
    store.note_outputs(&sink.notes())?;
    let next_seq = store.next_seq();
    pipeline::recover(&store, &mut sink, store.published(), next_seq)?;
    store.commit(&Batch { next_seq, published: next_seq, ..Batch::default() })?;
    let KafkaSettings { assignments_topic, merges_topic, .. } = &config.kafka;
    let notes = sink.notes();
    let mut state = StateWriter { sink, next_seq, facts: Vec::new(), n_facts: 0, shutdown: &shutdown };
    if matches!(what, None | Some(Republished::Assignments)) && !assignments_topic.is_empty() {
        state.assignments(&store)?;
        let n_written = state.finish(&store, &notes, assignments_topic)?;
        let row = RepublishedRow { topic: assignments_topic, n_written, what: "URLs" };
        print(&row, json, RepublishedRow::text)?;
    }
    if matches!(what, None | Some(Republished::Merges)) && !merges_topic.is_empty() {
        state.merges(&store)?;
        let n_written = state.finish(&store, &notes, merges_topic)?;
        let row = RepublishedRow { topic: merges_topic, n_written, what: "merges" };
        print(&row, json, RepublishedRow::text)?;
    }
    Ok(Exit::Done)
}

fn check(config: &Config, what: Option<Republished>) -> Result<()> {
    let KafkaSettings { events_topic, assignments_topic, merges_topic, .. } = &config.kafka;
    let is_for_kafka = config.input.from == InputKind::Kafka && config.events.file.is_empty();
    let missing = match what {
        _ if !is_for_kafka => "this configuration sends no events to Kafka; give the one that `run` is given",
        _ if events_topic.is_empty() => "kafka.events_topic is empty; set it",
        Some(Republished::Assignments) if assignments_topic.is_empty() => "kafka.assignments_topic is empty; set it",
        Some(Republished::Merges) if merges_topic.is_empty() => "kafka.merges_topic is empty; set it",
        _ => return Ok(()),
    };
    Err(usage(missing))
}

/// Publishes events to the topic of events alone, each once. Events that no topic has yet go out afterwards, to all.
fn republish_events(
    config: &Config,
    store: &RocksStore,
    begun: SystemTime,
    from: u64,
    shutdown: &Arc<AtomicBool>,
    json: bool,
) -> Result<()> {
    // Up to here some topic has the events; what follows goes to all topics.
    let until = kafka_sink(&config.kafka, store, begun, shutdown)?.last_seq()?.map_or(0, |last| last + 1);
    let (kept_from, next_seq) = (store.published(), store.next_seq());
    if !(kept_from..next_seq).contains(&from) {
        let kept = if kept_from < next_seq {
            format!("the store has only events {kept_from} to {}", next_seq - 1)
        } else {
            "the store has published all of its events and forgotten them".to_string()
        };
        let why = format!(
            "cannot republish event {from}: {kept}. Take older events from a copy of the topic, or make a new store and new \
             topics from the pages. `lookalike topics republish` writes the present state"
        );
        return Err(ending(Exit::NotFound, why));
    }
    let events_only = KafkaSettings {
        assignments_topic: String::new(),
        merges_topic: String::new(),
        dead_letters: false,
        ..config.kafka.clone()
    };
    let mut sink = kafka_sink(&events_only, store, begun, shutdown)?;
    let mut next = from;
    if let Some(last) = sink.last_seq()?.filter(|last| *last >= from) {
        let why = format!(
            "topic {:?} already holds events up to {last}; begin at {} or later",
            events_only.events_topic,
            last + 1
        );
        return Err(usage(why));
    }
    while next < until {
        let mut events = store.outbox(next, AT_ONCE)?;
        events.retain(|event| event.seq < until);
        let Some(last) = events.last() else { break };
        next = last.seq + 1;
        sink.publish(&events)?;
    }
    let row = RepublishedRow { topic: &events_only.events_topic, n_written: next - from, what: "events" };
    print(&row, json, RepublishedRow::text)?;
    Ok(())
}

/// Writes the present state, a transaction at a time.
struct StateWriter<'a> {
    sink: KafkaSink,
    next_seq: u64,
    facts: Vec<Fact>,
    n_facts: u64,
    shutdown: &'a AtomicBool,
}

impl StateWriter<'_> {
    /// Where every URL stands.
    fn assignments(&mut self, store: &RocksStore) -> Result<()> {
        let mut written = Ok(());
        query::present(store, |url, present| {
            written = self.push(Fact::Stands(url, present));
            written.is_ok()
        })?;
        written
    }

    /// The cluster of every document that does not name its own. The store does not remember which of them ever named one;
    /// no consumer asks for a name that no event had.
    fn merges(&mut self, store: &RocksStore) -> Result<()> {
        let mut clusters = store.clusters()?;
        for id in 1..=store.n_documents() {
            let (loser, winner) = (ClusterId(id), clusters.cluster_of(DocumentId(id)));
            if loser != winner {
                self.push(Fact::Merged(Merge { loser, winner }))?;
            }
        }
        Ok(())
    }

    fn push(&mut self, fact: Fact) -> Result<()> {
        self.facts.push(fact);
        if self.facts.len() < AT_ONCE { Ok(()) } else { self.write() }
    }

    fn write(&mut self) -> Result<()> {
        if self.facts.is_empty() {
            return Ok(());
        }
        if self.shutdown.load(Ordering::Relaxed) {
            return Err(ending(Exit::Interrupted, "stopped before everything was written; give the command again"));
        }
        self.sink.republish(&self.facts, self.next_seq)?;
        self.n_facts += self.facts.len() as u64;
        self.facts.clear();
        Ok(())
    }

    /// Writes the rest of a topic, which then holds all of its state, and returns how much that was.
    fn finish(&mut self, store: &RocksStore, notes: &OutputNotes, topic: &str) -> Result<u64> {
        self.write()?;
        if let Some(note) = notes.get(topic) {
            store.note_outputs(&OutputNotes::from([(topic.to_string(), OutputNote { is_whole: true, ..*note })]))?;
        }
        Ok(std::mem::take(&mut self.n_facts))
    }
}
