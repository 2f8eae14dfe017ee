//! `lookalike topics republish`: what output topics lack and the store still has.

use super::args::Republished;
use super::query::open;
use super::run::{kafka_sink, open_store, watch_signals};
use super::{Exit, ending, telemetry};
use crate::cluster::Merge;
use crate::config::{Config, InputKind};
use crate::document::{ClusterId, DocumentId};
use crate::kafka::{Fact, KafkaSettings, KafkaSink};
use crate::pipeline;
use crate::ports::{Batch, OutputNote, OutputNotes, Sink, Snapshot, Store};
use crate::query;
use crate::store::RocksStore;
use anyhow::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// Parts of the state, or events, that go out in one transaction.
const AT_ONCE: usize = 8192;

/// Writes what is asked for. What waits to be published goes out before it.
pub(super) fn republish(config: &Config, what: Option<Republished>) -> Result<Exit> {
    check(config, what)?;
    telemetry::start_logs(&config.log.level)?;
    // Nothing is made where there is no store: a read-only opening says so.
    drop(open(config)?);
    let shutdown = watch_signals()?;
    let begun = SystemTime::now();
    let mut store = open_store(config)?;
    if let Some(Republished::EventsFrom { seq }) = what {
        republish_events(config, &store, begun, seq, &shutdown)?;
    }
    let mut sink = kafka_sink(&config.kafka, &store, begun, &shutdown)?;
    sink.check_events()?;
    store.note_outputs(&sink.notes())?;
    let next_seq = store.next_seq();
    pipeline::recover(&store, &mut sink, store.published(), next_seq)?;
    store.commit(&Batch { next_seq, published: next_seq, ..Batch::default() })?;
    let KafkaSettings { assignments_topic, merges_topic, .. } = &config.kafka;
    let notes = sink.notes();
    let mut anew = Anew { sink, next_seq, facts: Vec::new(), n_facts: 0, shutdown: &shutdown };
    if matches!(what, None | Some(Republished::Assignments)) && !assignments_topic.is_empty() {
        anew.assignments(&store)?;
        println!("{assignments_topic}: where {} URLs stand", anew.finish(&store, &notes, assignments_topic)?);
    }
    if matches!(what, None | Some(Republished::Merges)) && !merges_topic.is_empty() {
        anew.merges(&store)?;
        println!("{merges_topic}: {} documents of others' clusters", anew.finish(&store, &notes, merges_topic)?);
    }
    Ok(Exit::Done)
}

fn check(config: &Config, what: Option<Republished>) -> Result<()> {
    let KafkaSettings { events_topic, assignments_topic, merges_topic, .. } = &config.kafka;
    let is_for_kafka = config.input.from == InputKind::Kafka && config.events.file.is_empty();
    let missing = match what {
        _ if !is_for_kafka => "the events of this configuration do not go to Kafka; give the one that `run` is given",
        _ if events_topic.is_empty() => "kafka.events_topic is empty; set it",
        Some(Republished::Assignments) if assignments_topic.is_empty() => "kafka.assignments_topic is empty; set it",
        Some(Republished::Merges) if merges_topic.is_empty() => "kafka.merges_topic is empty; set it",
        _ => return Ok(()),
    };
    Err(ending(Exit::Usage, missing))
}

/// Publishes events to the topic of events alone, each once. Those that are not out in any topic follow as of `run`.
fn republish_events(
    config: &Config,
    store: &RocksStore,
    begun: SystemTime,
    from: u64,
    shutdown: &Arc<AtomicBool>,
) -> Result<()> {
    // How far all topics together tell that publishing has come: what follows goes to all of them.
    let until = kafka_sink(&config.kafka, store, begun, shutdown)?.last_seq()?.map_or(0, |last| last + 1);
    let (kept_from, next_seq) = (store.published(), store.next_seq());
    if !(kept_from..next_seq).contains(&from) {
        let kept = if kept_from < next_seq {
            format!("the store only has those from {kept_from} to {}", next_seq - 1)
        } else {
            "the store has none: all were published, and forgotten".to_string()
        };
        let why = format!(
            "event {from} cannot be republished: {kept}. Take older ones from a copy of the topic; or make all anew, from \
             the pages, with a new store and new topics. The present state is there: `lookalike topics republish`"
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
            "topic {:?} holds events up to {last}: events-from {} is the least",
            events_only.events_topic,
            last + 1
        );
        return Err(ending(Exit::Usage, why));
    }
    while next < until {
        let mut events = store.outbox(next, AT_ONCE)?;
        events.retain(|event| event.seq < until);
        let Some(last) = events.last() else { break };
        next = last.seq + 1;
        sink.publish(&events)?;
    }
    println!("{}: {} events", events_only.events_topic, next - from);
    Ok(())
}

/// Writes the present state, a transaction at a time.
struct Anew<'a> {
    sink: KafkaSink,
    next_seq: u64,
    facts: Vec<Fact>,
    n_facts: usize,
    shutdown: &'a AtomicBool,
}

impl Anew<'_> {
    /// Where every URL stands.
    fn assignments(&mut self, store: &RocksStore) -> Result<()> {
        let mut written = Ok(());
        query::present(store, |url, present| {
            written = self.push(Fact::Stands(url, present));
            written.is_ok()
        })?;
        written
    }

    /// The cluster of every document that does not name its own. Which of them ever named one is not remembered; the name of
    /// one that did not is asked for by nobody.
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
            return Err(ending(Exit::Interrupted, "stopped before all was written; give the command again"));
        }
        self.sink.republish(&self.facts, self.next_seq)?;
        self.n_facts += self.facts.len();
        self.facts.clear();
        Ok(())
    }

    /// Writes the rest of a topic, which holds all of its state then, and tells how much that was.
    fn finish(&mut self, store: &RocksStore, notes: &OutputNotes, topic: &str) -> Result<usize> {
        self.write()?;
        if let Some(note) = notes.get(topic) {
            store.note_outputs(&OutputNotes::from([(topic.to_string(), OutputNote { is_whole: true, ..*note })]))?;
        }
        Ok(std::mem::take(&mut self.n_facts))
    }
}
