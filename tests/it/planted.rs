//! Tests the checks themselves: plants faults in the commit protocol one by one, and expects each to be caught.
//!
//! The real pipeline runs over a real store, between a source and a sink in memory. Wrappers around the store, the
//! source and the sink plant the faults. A crash is an error at the n-th step, after which everything is reopened.
//! Without a fault the checks must pass, wherever the crash happens.

use lookalike::cluster::{self, Decider, EqualCluster, MatchRule, SketchView};
use lookalike::document::{CANONICAL_VERSION, DocumentId, Fingerprint, Seed};
use lookalike::history;
use lookalike::intake::FutureLimit;
use lookalike::pipeline::{self, Pipeline, Stats};
use lookalike::ports::{
    Batch, Incoming, MissingUrl, Outgoing, Polled, ProgressMap, Sink, SinkError, Snapshot, Source, SourceError, Store,
    StoreCounts, StoreError, StoreRule, StoredSighting,
};
use lookalike::sketch::{Shingle, Sketch, SketchRule};
use lookalike::store::{self, RocksStore};
use lookalike::sweep::{Observation, SweepCut, SweepRow, UrlState};
use lookalike::wire::{Event, EventType, Limits, Origin, Record};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A fault of the commit protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    /// Offsets become durable before the rows of their records.
    OffsetsFirst,
    /// Offsets become durable after the rows of their records.
    OffsetsLast,
    /// Events become durable after their documents.
    OutboxApart,
    /// Events count as published as soon as they are written.
    OutboxForgotten,
    /// Events are published before they are durable.
    PublishedFirst,
    /// Every 16 events, a sequence number is skipped.
    HoleInTheNumbers,
    /// Cluster rows are not written.
    MergesUnwritten,
    /// Recovery does not read the end of the output.
    TailUnread,
    /// Recovery takes the output to hold one event more.
    TailTooFar,
    /// A missing acknowledgement counts as a delivery.
    DeliveryAssumed,
    /// After a crash, events are sent twice.
    SentAgain,
    /// After a crash, events get other sequence numbers.
    NumberedAnew,
    /// `merged` events are not sent.
    MergesUnsent,
    /// Events are sent in the wrong order.
    OutOfOrder,
    /// Rejected records have no event.
    RejectionsUntold,
    /// Reading resumes one record too late.
    SeekTooFar,
    /// Reading resumes one record too early.
    SeekTooShort,
}

const BUGS: [Bug; 17] = [
    Bug::OffsetsFirst,
    Bug::OffsetsLast,
    Bug::OutboxApart,
    Bug::OutboxForgotten,
    Bug::PublishedFirst,
    Bug::HoleInTheNumbers,
    Bug::MergesUnwritten,
    Bug::TailUnread,
    Bug::TailTooFar,
    Bug::DeliveryAssumed,
    Bug::SentAgain,
    Bug::NumberedAnew,
    Bug::MergesUnsent,
    Bug::OutOfOrder,
    Bug::RejectionsUntold,
    Bug::SeekTooFar,
    Bug::SeekTooShort,
];

/// What survives a crash outside the program: the output, and the countdowns to the next crash.
#[derive(Clone, Default)]
struct Outside {
    output: Arc<Mutex<Vec<Outgoing>>>,
    commits_left: Arc<Mutex<Option<usize>>>,
    publishes_left: Arc<Mutex<Option<usize>>>,
    /// Whether the first publication after the crash is still to come.
    is_resumed: Arc<Mutex<bool>>,
}

/// Counts down to a crash. Returns true once, when it is due.
fn crashes(left: &Mutex<Option<usize>>) -> bool {
    let mut left = left.lock().expect("no panic");
    *left = left.and_then(|n| n.checked_sub(1));
    let is_here = *left == Some(0);
    if is_here {
        *left = None;
    }
    is_here
}

/// A store with a planted fault.
struct PlantedStore {
    inner: RocksStore,
    outside: Outside,
    bug: Option<Bug>,
}

impl PlantedStore {
    fn commit_in_two(&self, first: &Batch, second: &Batch, is_crash: bool) -> Result<(), StoreError> {
        self.inner.commit(first)?;
        if is_crash { Err(StoreError::Failed("crash".into())) } else { self.inner.commit(second) }
    }
}

impl SketchView for PlantedStore {
    type Error = StoreError;

    fn sketches(&self, documents: &[DocumentId]) -> Result<Vec<Arc<Sketch>>, StoreError> {
        SketchView::sketches(&self.inner, documents)
    }
}

impl cluster::View for PlantedStore {
    fn postings(&self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, StoreError> {
        cluster::View::postings(&self.inner, shingles)
    }

    fn supers(&self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, StoreError> {
        cluster::View::supers(&self.inner, shingles)
    }
}

impl history::View for PlantedStore {
    fn states(&self, urls: &[Fingerprint]) -> Result<Vec<Option<UrlState>>, StoreError> {
        history::View::states(&self.inner, urls)
    }

    fn observations(&self, url: Fingerprint) -> Result<Vec<Observation>, StoreError> {
        history::View::observations(&self.inner, url)
    }

    fn sweeps(&self, names: &[&str]) -> Result<Vec<Option<SweepRow>>, StoreError> {
        history::View::sweeps(&self.inner, names)
    }

    fn urls(&self, keys: &[Fingerprint]) -> Result<Vec<String>, StoreError> {
        history::View::urls(&self.inner, keys)
    }

    fn newest_sightings(&self, documents: &[DocumentId], limit_each: usize) -> Result<Vec<StoredSighting>, StoreError> {
        history::View::newest_sightings(&self.inner, documents, limit_each)
    }

    fn missing_urls(&self) -> Result<Vec<MissingUrl>, StoreError> {
        history::View::missing_urls(&self.inner)
    }

    fn each_state(&self, each: &mut dyn FnMut(Fingerprint, UrlState)) -> Result<(), StoreError> {
        history::View::each_state(&self.inner, each)
    }
}

impl Store for PlantedStore {
    fn counts(&self) -> Result<(StoreCounts, Vec<EqualCluster>), StoreError> {
        Store::counts(&self.inner)
    }

    fn equal(&self, keys: &[Fingerprint]) -> Result<Vec<Option<DocumentId>>, StoreError> {
        Store::equal(&self.inner, keys)
    }
    fn first_url_keys(&self, documents: &[DocumentId]) -> Result<Vec<Fingerprint>, StoreError> {
        Store::first_url_keys(&self.inner, documents)
    }
    fn outbox(&self, from: u64, most: usize) -> Result<Vec<Outgoing>, StoreError> {
        Store::outbox(&self.inner, from, most)
    }
    fn n_bytes(&self) -> u64 {
        Store::n_bytes(&self.inner)
    }

    type Encoded = (Batch, Vec<Outgoing>);
    type Written = ();

    fn encode(&self, batch: &Batch, events: &[Outgoing]) -> Result<Self::Encoded, StoreError> {
        Ok((batch.clone(), events.to_vec()))
    }

    fn write(&self, (batch, outbox): Self::Encoded, published: u64) -> Result<(), StoreError> {
        self.commit(&Batch { outbox, published, ..batch })
    }

    fn index(&self, (): ()) -> Result<(), StoreError> {
        Ok(())
    }

    fn commit(&self, batch: &Batch) -> Result<(), StoreError> {
        let mut batch = batch.clone();
        let is_crash = crashes(&self.outside.commits_left);
        let before = Batch { next_seq: self.inner.next_seq(), published: self.inner.published(), ..Batch::default() };
        match self.bug {
            Some(Bug::OffsetsFirst) => {
                let offsets = Batch { progress: std::mem::take(&mut batch.progress), ..before };
                return self.commit_in_two(&offsets, &batch, is_crash);
            }
            Some(Bug::OffsetsLast) => {
                let progress = std::mem::take(&mut batch.progress);
                let (next_seq, published) = (batch.next_seq, batch.published);
                let offsets = Batch { progress, next_seq, published, ..Batch::default() };
                return self.commit_in_two(&batch, &offsets, is_crash);
            }
            Some(Bug::OutboxApart) => {
                let outbox = std::mem::take(&mut batch.outbox);
                let (next_seq, published) = (batch.next_seq, batch.published);
                let events = Batch { outbox, next_seq, published, ..Batch::default() };
                return self.commit_in_two(&batch, &events, is_crash);
            }
            Some(Bug::PublishedFirst) => {
                self.outside.output.lock().expect("no panic").extend(batch.outbox.iter().cloned());
                if is_crash {
                    return Err(StoreError::Failed("crash".into()));
                }
            }
            Some(Bug::OutboxForgotten) => batch.published = batch.next_seq,
            Some(Bug::MergesUnwritten) => batch.rows.clear(),
            _ => {}
        }
        self.inner.commit(&batch)?;
        if is_crash { Err(StoreError::Failed("crash".into())) } else { Ok(()) }
    }
}

/// A sink in memory with a planted fault. Its end can be read like that of a topic.
struct PlantedSink {
    outside: Outside,
    bug: Option<Bug>,
}

impl PlantedSink {
    fn changed(&self, events: &[Outgoing], is_again: bool) -> Vec<Outgoing> {
        let is_kind =
            |event: &Outgoing, kind| serde_json::from_slice::<Event>(&event.json).expect("an event").kind() == kind;
        let mut events = events.to_vec();
        match self.bug {
            Some(Bug::MergesUnsent) => events.retain(|event| !is_kind(event, EventType::Merged)),
            Some(Bug::RejectionsUntold) => events.retain(|event| !is_kind(event, EventType::Rejected)),
            Some(Bug::OutOfOrder) => events.reverse(),
            Some(Bug::HoleInTheNumbers) => events.iter_mut().for_each(|event| event.seq += event.seq / 16),
            Some(Bug::NumberedAnew) if is_again => events.iter_mut().for_each(|event| event.seq += 1),
            Some(Bug::SentAgain) if is_again => events.extend(events.clone()),
            _ => {}
        }
        events
    }
}

impl Sink for PlantedSink {
    fn last_seq(&mut self) -> Result<Option<u64>, SinkError> {
        let last = self.outside.output.lock().expect("no panic").iter().map(|event| event.seq).max();
        Ok(match self.bug {
            Some(Bug::TailUnread) => None,
            Some(Bug::TailTooFar) => last.map(|last| last + 1),
            _ => last,
        })
    }

    fn publish(&mut self, events: &[Outgoing]) -> Result<(), SinkError> {
        if self.bug == Some(Bug::PublishedFirst) {
            return Ok(());
        }
        let is_crash = crashes(&self.outside.publishes_left);
        if is_crash && self.bug == Some(Bug::DeliveryAssumed) {
            return Ok(());
        }
        let is_again = std::mem::take(&mut *self.outside.is_resumed.lock().expect("no panic"));
        let sent = self.changed(events, is_again);
        self.outside.output.lock().expect("no panic").extend(sent);
        // The crash loses the acknowledgement.
        if is_crash { Err(SinkError::new("crash")) } else { Ok(()) }
    }
}

/// Two partitions of records in memory.
struct Records {
    all: Arc<Vec<Incoming>>,
    progress: ProgressMap,
    at: usize,
}

impl Source for Records {
    fn poll(&mut self, _: Duration) -> Result<Polled, SourceError> {
        while let Some(incoming) = self.all.get(self.at) {
            self.at += 1;
            let Origin { source, partition, offset } = &incoming.origin;
            let next = self.progress.get(&(source.to_string(), *partition)).map_or(0, |progress| progress.next_offset);
            if *offset >= next {
                return Ok(Polled::Record(incoming.clone()));
            }
        }
        Ok(Polled::End)
    }
}

/// Pages in groups of three, of which the third joins the first two. Every fourth record is not a page.
fn records() -> Vec<Incoming> {
    let text = |family: usize, from: usize| {
        (from..from + 60).map(|at| format!("w{family}x{at}")).collect::<Vec<_>>().join(" ")
    };
    let json = |at: usize| match at % 4 {
        3 => format!("no page {at}"),
        third => {
            let from = [0, 20, 10][third];
            crate::harness::page(&format!("http://{at}/"), "2026-11-21T08:00:00Z", "s", &text(at / 4, from))
        }
    };
    let record = |at: usize| Incoming {
        origin: Origin { source: "t".into(), partition: (at % 2) as i32, offset: (at / 2) as i64 },
        from: (at / 2) as i64,
        chain: 0,
        record: Record::Json(json(at).into_bytes()),
    };
    (0..120).map(record).collect()
}

fn rule() -> StoreRule {
    StoreRule {
        canonical_version: CANONICAL_VERSION,
        canonical: Default::default(),
        sketch: SketchRule::default(),
        cluster: MatchRule::default(),
    }
}

fn open(path: &Path) -> RocksStore {
    RocksStore::open(path, &store::Settings::default(), &rule(), Some(Seed([7; 4])), || Seed([7; 4])).expect("a store")
}

/// Runs the program until the input ends or a crash is due.
fn live(path: &Path, all: &Arc<Vec<Incoming>>, outside: &Outside, bug: Option<Bug>) -> Result<(), String> {
    let inner = open(path);
    let mut progress = inner.progress().expect("progress");
    let step = match bug {
        Some(Bug::SeekTooFar) => 1,
        Some(Bug::SeekTooShort) => -1,
        _ => 0,
    };
    progress.values_mut().for_each(|progress| progress.next_offset += step);
    let source = Records { all: Arc::clone(all), progress, at: 0 };
    let mut sink = PlantedSink { outside: outside.clone(), bug };
    let (next_seq, published) = (inner.next_seq(), inner.published());
    let store = PlantedStore { inner, outside: outside.clone(), bug };
    pipeline::recover(&store, &mut sink, published, next_seq).map_err(|error| error.to_string())?;
    let decider = Decider::new(
        rule().cluster,
        &rule().sketch,
        store.inner.clusters().expect("clusters"),
        store.inner.common().expect("common shingles"),
    );
    let pipeline = Pipeline {
        settings: pipeline::Settings { batch_records_max: 8, sketchers: 1, ..pipeline::Settings::default() },
        limits: Limits::default(),
        sweep_cut: SweepCut::default(),
        future: FutureLimit::NONE,
        seed: Seed([7; 4]),
        sketcher: rule().sketcher(&Seed([7; 4])),
        said: None,
        texts: None,
        decider,
        store: &store,
        next_seq,
        source: Box::new(source),
        sink: Some(Box::new(sink)),
        shutdown: Arc::new(AtomicBool::new(false)),
        stats: Arc::new(Stats::default()),
        poison: Arc::default(),
        close_requests: pipeline::CloseRequests::default(),
    };
    pipeline.run().map(drop).map_err(|error| error.to_string())
}

/// Crashes once, at a commit or at a publication, restarts, and checks the result.
fn trial(bug: Option<Bug>, commits: Option<usize>, publishes: Option<usize>) -> Result<(), String> {
    let folder = tempfile::tempdir().expect("a folder");
    let all = Arc::new(records());
    let outside = Outside::default();
    *outside.commits_left.lock().expect("no panic") = commits.map(|n| n + 1);
    *outside.publishes_left.lock().expect("no panic") = publishes.map(|n| n + 1);
    if live(folder.path(), &all, &outside, bug).is_err() {
        *outside.is_resumed.lock().expect("no panic") = true;
        live(folder.path(), &all, &outside, bug)?;
    }
    let output = outside.output.lock().expect("no panic").clone();
    judge(&output, &all, &open(folder.path()))
}

/// Checks sequence numbers, order and coverage, the store, and the events against the store.
fn judge(output: &[Outgoing], sent: &[Incoming], store: &RocksStore) -> Result<(), String> {
    let mut terminal = BTreeSet::new();
    let mut winners: HashMap<u32, u32> = HashMap::new();
    let mut clusters: BTreeMap<DocumentId, u32> = BTreeMap::new();
    for (at, outgoing) in output.iter().enumerate() {
        let event: Event = serde_json::from_slice(&outgoing.json).map_err(|error| error.to_string())?;
        if outgoing.seq != at as u64 || event.seq != outgoing.seq {
            return Err(format!("event {} stands in the place of {at} and calls itself {}", outgoing.seq, event.seq));
        }
        if event.kind().is_terminal() && !terminal.insert((event.partition, event.offset)) {
            return Err(format!("{}@{} has two terminal events", event.partition, event.offset));
        }
        if let (Some(loser), Some(winner)) = (event.loser(), event.winner())
            && (winner >= loser || winners.insert(loser.0, winner.0).is_some())
        {
            return Err(format!("{loser} is merged twice or upwards"));
        }
        if let (Some(document), Some(cluster)) = (event.document(), event.cluster()) {
            clusters.insert(document, cluster.0);
        }
    }
    if let Some(lost) = sent.iter().find(|one| !terminal.contains(&(one.origin.partition, one.origin.offset))) {
        return Err(format!("{} has no terminal event", lost.origin));
    }
    let report = store.check(10);
    if !report.is_sound {
        return Err(format!("the store is damaged: {:?}", report.findings));
    }
    for (document, mut cluster) in clusters {
        while let Some(winner) = winners.get(&cluster) {
            cluster = *winner;
        }
        let stored = store.cluster_of(document).map_err(|error| error.to_string())?;
        if stored.0 != cluster {
            return Err(format!("document {document}: cluster {cluster} by the events, {stored} in the store"));
        }
    }
    Ok(())
}

#[test]
fn without_a_fault_nothing_is_found_wherever_the_crash_falls() {
    for n in 0..6 {
        assert_eq!(trial(None, Some(n), None), Ok(()), "a crash at commit {n}");
        assert_eq!(trial(None, None, Some(n)), Ok(()), "a crash at publication {n}");
    }
}

#[test]
fn every_planted_fault_is_caught() {
    // Waiting batches are published together, so only the first publication is certain.
    let crashes = [(Some(3), None), (None, Some(3)), (None, Some(0))];
    for bug in BUGS {
        let caught: Vec<String> =
            crashes.into_iter().filter_map(|(commits, publishes)| trial(Some(bug), commits, publishes).err()).collect();
        println!("{bug:?}: {}", caught.join(" | "));
        assert!(!caught.is_empty(), "{bug:?} went unnoticed");
    }
}
