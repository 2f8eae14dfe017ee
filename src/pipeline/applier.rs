//! The one writer: decides over a micro-batch of pages, writes what that changes, and lets its events go.

use super::cache::Cache;
use super::close::Closing;
use super::close_requests::{CloseReply, CloseRequest, CloseRequests};
use super::moves::Moves;
use super::news::{News, Resemblances, as_told};
use super::poison::PoisonTracker;
use super::sequencer::{Sequencer, Ticketed};
use super::size_alarm::SizeAlarm;
use super::sketcher::SketchedRecord;
use super::stats::{BatchCounts, Stats};
use super::syncer::Written;
use super::timeline::Timeline;
use super::{PipelineError, Settings};
use crate::cluster::{BatchIndex, Clusters, Decider, Decision, Effects, View};
use crate::document::{ClusterId, DocumentId, Fingerprint, Seed};
use crate::intake::SketchedPage;
use crate::ports::{
    Batch, CloseFailure, Outgoing, PoisonGuard, Present, PresentChange, Progress, ProgressMap, Store, StoreError,
};
use crate::sketch::{Shingle, Sketch, SketchedContent};
use crate::sweep::Observation;
use crate::wire::{Event, Message, Origin, Subject};
use crossbeam::channel::{Receiver, RecvError, RecvTimeoutError, Sender, TryRecvError};
use crossbeam::select;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often the store's size on disk is measured: it means to look at every file.
const WEIGH_INTERVAL: Duration = Duration::from_secs(5);

/// Decoded sketches.
type SketchCache = Cache<DocumentId, Arc<Sketch>>;

/// What the applier does next.
enum Next {
    /// Takes in some pages.
    Pages(Vec<SketchedRecord>),
    /// Closes a sweep.
    Close(CloseRequest),
}

/// Decides and writes.
pub(super) struct Applier<'a, S: Store> {
    store: &'a mut S,
    decider: Decider,
    guard: SizeAlarm,
    seed: Seed,
    next_seq: u64,
    published: Arc<AtomicU64>,
    listening: bool,
    cache: SketchCache,
    moves: Moves,
    batch_records_max: usize,
    batch_latency: Duration,
    stats: Arc<Stats>,
    tries: Arc<PoisonTracker>,
    /// When the store's size was last measured.
    weighed: Option<Instant>,
}

impl<'a, S: Store> Applier<'a, S> {
    #[expect(clippy::too_many_arguments, reason = "called once, where the stream is wired")]
    pub fn new(
        store: &'a mut S,
        mut decider: Decider,
        seed: Seed,
        settings: &Settings,
        next_seq: u64,
        published: Arc<AtomicU64>,
        listening: bool,
        stats: Arc<Stats>,
        tries: Arc<PoisonTracker>,
    ) -> Self {
        Applier {
            store,
            guard: SizeAlarm::new(settings.cluster_size_alarm, decider.clusters().sizes()),
            decider,
            seed,
            next_seq,
            published,
            listening,
            cache: Cache::new(settings.sketch_cache_mib << 20, |sketch| sketch.n_bytes()),
            moves: Moves::default(),
            batch_records_max: settings.batch_records_max,
            batch_latency: Duration::from_millis(settings.batch_latency_ms_max),
            stats,
            tries,
            weighed: None,
        }
    }

    /// Runs until no more pages come, or nobody makes durable what it writes.
    pub fn run(
        &mut self,
        pages: &Receiver<Ticketed<Vec<SketchedRecord>>>,
        mut closings: CloseRequests,
        written: Sender<Written>,
    ) -> Result<(), PipelineError> {
        let (mut sequencer, mut ready) = (Sequencer::new(), VecDeque::new());
        if self.listening {
            self.moves = Moves::of_store(&*self.store, self.decider.clusters())?;
        }
        while let Some(next) = self.gather(pages, &mut closings, &mut sequencer, &mut ready) {
            let batch = match next {
                Next::Pages(batch) => batch,
                Next::Close(CloseRequest { sweep, answer }) => {
                    if !self.close(&sweep, answer, &written)? {
                        break;
                    }
                    continue;
                }
            };
            kill_point!("gathered");
            let applied = self.apply(batch)?;
            kill_point!("applied");
            if written.send(applied).is_err() {
                break;
            }
            kill_point!("handed-over");
        }
        Ok(())
    }

    /// Closes a sweep, batch by batch; pages wait meanwhile. False where nobody makes durable what it writes.
    fn close(&mut self, sweep: &str, answer: CloseReply, written: &Sender<Written>) -> Result<bool, PipelineError> {
        let Some(mut closing) = Closing::begin(&*self.store, sweep, self.listening)? else {
            answer.tell(Err(CloseFailure::Unknown));
            return Ok(true);
        };
        while let Some(mut batch) = closing.next(&*self.store, &mut self.decider, &mut self.moves, self.next_seq)? {
            batch.published = if self.listening { self.n_published() } else { batch.next_seq };
            self.store.write(&batch)?;
            self.next_seq = batch.next_seq;
            if written.send(Written { outbox: batch.outbox, ..Written::default() }).is_err() {
                return Ok(false);
            }
        }
        let told = (answer, closing.closed(), self.next_seq);
        Ok(written.send(Written { closed: Some(told), ..Written::default() }).is_ok())
    }

    /// Writes how far publishing came, so that the next run need not look.
    pub fn finish(&mut self) -> Result<(), PipelineError> {
        // Where nobody listens, nothing is left to be published.
        let published = if self.listening { self.n_published() } else { self.next_seq };
        let batch = Batch { next_seq: self.next_seq, published, ..Batch::default() };
        kill_point!("finishing");
        self.store.commit(&batch)?;
        kill_point!("finished");
        Ok(())
    }

    /// The next micro-batch, in order: full, or as much as came in time; or a sweep that is to be closed before it. None at
    /// the end. `ready` is what came with it and is for the next one.
    fn gather(
        &self,
        pages: &Receiver<Ticketed<Vec<SketchedRecord>>>,
        closings: &mut CloseRequests,
        sequencer: &mut Sequencer<Vec<SketchedRecord>>,
        ready: &mut VecDeque<SketchedRecord>,
    ) -> Option<Next> {
        let mut deadline = None;
        match closings.requests().try_recv() {
            Ok(request) => return Some(Next::Close(request)),
            Err(TryRecvError::Disconnected) => closings.end(),
            Err(TryRecvError::Empty) => {}
        }
        loop {
            while let Some(prepared) = sequencer.pop() {
                ready.extend(prepared);
            }
            let n_max = if self.tries.is_cautious() { 1 } else { self.batch_records_max };
            if ready.len() >= n_max {
                return Some(Next::Pages(ready.drain(..n_max).collect()));
            }
            let received = if ready.is_empty() {
                select! {
                    recv(pages) -> received => received.map_err(|RecvError| RecvTimeoutError::Disconnected),
                    recv(closings.requests()) -> request => {
                        match request {
                            Ok(request) => return Some(Next::Close(request)),
                            Err(RecvError) => closings.end(),
                        }
                        continue;
                    }
                }
            } else {
                pages.recv_deadline(*deadline.get_or_insert_with(|| Instant::now() + self.batch_latency))
            };
            match received {
                Ok(ticketed) => sequencer.push(ticketed),
                Err(_) if ready.is_empty() => return None,
                Err(_) => return Some(Next::Pages(ready.drain(..).collect())),
            }
        }
    }

    /// Decides over a batch and writes what it changes.
    fn apply(&mut self, pages: Vec<SketchedRecord>) -> Result<Written, PipelineError> {
        let begin = Instant::now();
        let (batch, counts) = self.decided_batch(&pages)?;
        let deciding = begin.elapsed();
        let begin = Instant::now();
        self.store.write(&batch)?;
        self.next_seq = batch.next_seq;
        self.tries.written(pages.len());
        self.measure(&batch);
        Ok(Written {
            n_records: pages.len(),
            counts,
            deciding,
            writing: begin.elapsed(),
            progress: batch.progress,
            outbox: batch.outbox,
            closed: None,
        })
    }

    /// What a batch of pages changes, and what there is to count in it.
    fn decided_batch(&mut self, pages: &[SketchedRecord]) -> Result<(Batch, BatchCounts), PipelineError> {
        let tries = Arc::clone(&self.tries);
        let _taken_up = match pages {
            [page] if tries.is_cautious() => Some(tries.take_up(&page.origin)),
            _ => None,
        };
        kill_point!("poison-to-decide", pages.iter().any(is_poison));
        let decided = self.decide(pages)?;
        kill_point!("decided");
        let mut counts = decided.counts();
        for page in pages {
            if let Err(rejection) = &page.outcome {
                counts.reject(&page.origin, rejection);
            }
        }
        counts.gone = pages.len() as u64 - counts.relations.values().sum::<u64>() - counts.n_rejected();
        let mut timeline = Timeline::of(&*self.store, &self.seed, pages, &decided.decisions)?;
        let mut outbox = Vec::new();
        if self.listening {
            let news = self.news(pages, &decided, &mut timeline)?;
            let mut late = late_changes(&timeline, self.decider.clusters());
            outbox = self.events(pages, &decided.decisions, &news, &mut late)?;
        }
        // Where nobody listens, the numbers of what would have been told at least are left out.
        let n_events = if self.listening { outbox.len() as u64 } else { pages.len() as u64 + counts.merged };
        let mut batch = self.batch(pages, decided);
        timeline.write(&mut batch);
        batch.outbox = outbox;
        batch.next_seq = self.next_seq + n_events;
        batch.published = if self.listening { self.n_published() } else { batch.next_seq };
        Ok((batch, counts))
    }

    /// Tells how large everything has become.
    fn measure(&mut self, batch: &Batch) {
        let clusters = self.decider.clusters();
        self.stats.clusters(clusters.n_documents(), clusters.n_clusters());
        for row in batch.rows.iter().filter(|row| row.parent == row.document) {
            if let Some(alarm) = self.guard.grown(ClusterId(row.name.0), row.size) {
                self.stats.alarm(&alarm);
            }
        }
        self.stats.largest_cluster(self.guard.largest());
        if self.weighed.is_none_or(|weighed| weighed.elapsed() >= WEIGH_INTERVAL) {
            self.stats.store_bytes(self.store.n_bytes());
            self.weighed = Some(Instant::now());
        }
    }

    /// Decides over a batch, page by page in order; each sees what those before it changed.
    fn decide(&mut self, pages: &[SketchedRecord]) -> Result<Decided, StoreError> {
        let mut known = self.known_equals(pages.iter().filter_map(content_of))?;
        let mut effects = Effects::default();
        let mut view = BatchView { store: &*self.store, cache: &mut self.cache, fresh: FxHashMap::default() };
        self.decider.learn(pages.iter().filter_map(content_of), &mut known, &mut view)?;
        let mut decisions = Vec::with_capacity(pages.len());
        for page in pages {
            let before = effects.documents.len();
            let decision = content_of(page)
                .map(|content| self.decider.decide(content, &mut known, &mut view, &mut effects))
                .transpose()?;
            view.fresh.extend(effects.documents[before..].iter().map(|new| (new.document, Arc::clone(&new.sketch))));
            decisions.push(decision);
        }
        let fresh = view.fresh;
        for (document, sketch) in fresh {
            self.cache.insert(document, sketch);
        }
        Ok(Decided { decisions, effects })
    }

    fn known_equals<'p>(&self, contents: impl Iterator<Item = &'p SketchedContent>) -> Result<BatchIndex, StoreError> {
        let mut keys: Vec<Fingerprint> = contents.flat_map(|content| content.equivalences.keys()).collect();
        keys.sort_unstable();
        keys.dedup();
        let documents = self.store.equal(&keys)?;
        let equal = keys.into_iter().zip(documents).filter_map(|(key, document)| Some((key, document?))).collect();
        Ok(BatchIndex { equal, ..BatchIndex::default() })
    }

    /// The events of a batch, numbered; `late` says what those of late pages change.
    fn events(
        &self,
        pages: &[SketchedRecord],
        decisions: &[Option<Decision>],
        news: &News,
        late: &mut HashMap<usize, PresentChange>,
    ) -> Result<Vec<Outgoing>, StoreError> {
        let first_urls = self.matched_urls(pages, decisions)?;
        let mut events = Vec::with_capacity(pages.len());
        for (at, (page, decision)) in pages.iter().zip(decisions).enumerate() {
            let first = events.len();
            self.push_events(at, page, decision.as_ref(), &first_urls, news, &mut events);
            if let Some(change) = late.remove(&at) {
                events[first].change = change;
            }
        }
        Ok(events)
    }

    /// The events of a page, its own first; its merges follow on it.
    fn push_events(
        &self,
        at: usize,
        page: &SketchedRecord,
        decision: Option<&Decision>,
        first_urls: &FxHashMap<DocumentId, String>,
        news: &News,
        events: &mut Vec<Outgoing>,
    ) {
        let mut push = |key: Option<&str>, original: Option<&Message>, make: &dyn Fn(u64) -> Event| {
            let seq = self.next_seq + events.len() as u64;
            let original = original.cloned().map(Box::new);
            events.push(Outgoing { original, ..Outgoing::new(seq, key.map(String::from), make(seq).to_json()) });
        };
        let origin = &page.origin;
        let sketched = match &page.outcome {
            Ok(sketched) => sketched,
            Err(why) => {
                push(why.url.as_deref(), page.original.as_deref(), &|seq| Event::rejected(seq, origin, why));
                return;
            }
        };
        let (key, subject) = (Some(sketched.url.as_str()), subject_of(sketched));
        let Some(decision) = decision else {
            push(key, None, &|seq| match &sketched.redirect_to {
                Some(target) => Event::redirected(seq, origin, subject, target),
                None => Event::gone(seq, origin, subject),
            });
            push_moves(&mut push, origin, subject, news, (at, self.decider.threshold()));
            return;
        };
        let url = decision.matched.and_then(|found| first_urls.get(&found.document));
        push(key, None, &|seq| Event::assigned(seq, origin, subject, decision, url.cloned()));
        for merge in &decision.merges {
            push(key, None, &|seq| Event::merged(seq, origin, subject, *merge));
        }
        if let Some(pair) = news.change_of(at) {
            push(key, None, &|seq| Event::changed(seq, origin, subject, pair, news.resemblance(pair)));
        }
        push_moves(&mut push, origin, subject, news, (at, self.decider.threshold()));
    }

    /// What the batch tells beside each page's place.
    fn news(
        &mut self,
        pages: &[SketchedRecord],
        decided: &Decided,
        timeline: &mut Timeline,
    ) -> Result<News, StoreError> {
        let mut urls: HashMap<Fingerprint, &str> = HashMap::new();
        for (sighting, page) in timeline.sightings.iter().zip(pages) {
            if let (Some(sighting), Ok(page)) = (sighting, &page.outcome) {
                urls.insert(sighting.url, &page.url);
            }
        }
        let (store, clusters) = (&*self.store, self.decider.clusters());
        let moves = self.moves.follow(store, clusters, timeline, &decided.decisions, &urls)?;
        let mut news = News { moves, ..News::default() };
        for (at, (before, decision)) in timeline.before.iter().zip(&decided.decisions).enumerate() {
            if let (Some(before), Some(decision)) = (before, decision)
                && *before != decision.document
            {
                news.changed.push((at, *before, decision.document));
            }
        }
        news.resemblances = self.resemblances(decided, news.pairs().collect())?;
        Ok(news)
    }

    /// The resemblances of pairs of documents, of which some may be this batch's.
    fn resemblances(
        &mut self,
        decided: &Decided,
        pairs: HashSet<(DocumentId, DocumentId)>,
    ) -> Result<Resemblances, StoreError> {
        let of_batch = decided.effects.documents.iter().map(|new| (new.document, Arc::clone(&new.sketch)));
        let mut documents: Vec<DocumentId> = pairs.iter().flat_map(|(a, b)| [*a, *b]).collect();
        documents.sort_unstable();
        documents.dedup();
        let fresh = if documents.is_empty() { FxHashMap::default() } else { of_batch.collect() };
        let mut view = BatchView { store: &*self.store, cache: &mut self.cache, fresh };
        let sketches: HashMap<DocumentId, Arc<Sketch>> =
            documents.iter().copied().zip(view.sketches(&documents)?).collect();
        let resemblance = |pair: (DocumentId, DocumentId)| {
            let alike = || Some(self.decider.resemblance(sketches.get(&pair.0)?, sketches.get(&pair.1)?));
            (pair, if pair.0 == pair.1 { 1.0 } else { alike().unwrap_or(0.0) })
        };
        Ok(pairs.into_iter().map(resemblance).collect())
    }

    /// Where each document that a decision names as its match was first seen: in the store, or in this very batch.
    fn matched_urls(
        &self,
        pages: &[SketchedRecord],
        decisions: &[Option<Decision>],
    ) -> Result<FxHashMap<DocumentId, String>, StoreError> {
        let mut urls: FxHashMap<DocumentId, String> = FxHashMap::default();
        let mut asked = Vec::new();
        for (page, decision) in pages.iter().zip(decisions) {
            let (Ok(sketched), Some(decision)) = (&page.outcome, decision) else { continue };
            if let Some(found) = decision.matched
                && !urls.contains_key(&found.document)
            {
                asked.push(found.document);
            }
            if decision.is_new_document() {
                urls.insert(decision.document, sketched.url.clone());
            }
        }
        asked.sort_unstable();
        asked.dedup();
        let found = self.store.first_urls(&asked)?;
        urls.extend(asked.into_iter().zip(found));
        Ok(urls)
    }

    /// What a batch changes, but for its events.
    fn batch(&self, pages: &[SketchedRecord], decided: Decided) -> Batch {
        let Decided { decisions, effects } = decided;
        let mut batch = Batch { links: effects.links, common: effects.common, ..Batch::default() };
        batch.rows = effects.rows.into_values().collect();
        batch.rows.sort_unstable_by_key(|row| row.document);
        batch.progress = progress_after(pages);
        let mut new_documents = effects.documents.into_iter();
        for (page, decision) in pages.iter().zip(&decisions) {
            let Ok(sketched) = &page.outcome else { continue };
            if decision.as_ref().is_some_and(Decision::is_new_document) {
                let url = self.seed.fingerprint("url", &[sketched.url.as_bytes()]);
                batch.documents.extend(new_documents.next().map(|document| (document, url)));
            }
        }
        batch
    }

    fn n_published(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }
}

/// A batch of decisions and what they change.
struct Decided {
    /// One for each page that has a content.
    decisions: Vec<Option<Decision>>,
    effects: Effects,
}

impl Decided {
    fn counts(&self) -> BatchCounts {
        let decisions = || self.decisions.iter().flatten();
        let mut relations = BTreeMap::new();
        for decision in decisions() {
            *relations.entry(decision.relation).or_default() += 1;
        }
        BatchCounts {
            relations,
            merged: decisions().map(|decision| decision.merges.len() as u64).sum(),
            compared: self.effects.n_compared,
            limited: self.effects.n_limited,
            ..BatchCounts::default()
        }
    }
}

/// What the pages of a batch that come late change in the present state, by their number.
fn late_changes(timeline: &Timeline, clusters: &mut Clusters) -> HashMap<usize, PresentChange> {
    let mut change = |newest: &Option<Observation>| match newest {
        None => PresentChange::Nothing,
        Some(newest) => {
            let cluster = newest.seen.document().map(|document| clusters.cluster_of(document));
            PresentChange::To(Present { newest: newest.clone(), cluster })
        }
    };
    timeline.late.iter().map(|(at, newest)| (*at, change(newest))).collect()
}

/// How far some pages take their partitions: the last one of each counts.
fn progress_after(pages: &[SketchedRecord]) -> ProgressMap {
    let mut progress = ProgressMap::new();
    let of_one_partition = |a: &SketchedRecord, b: &SketchedRecord| {
        a.origin.partition == b.origin.partition && a.origin.source == b.origin.source
    };
    for pages in pages.chunk_by(of_one_partition) {
        let Some(last @ SketchedRecord { origin, chain, .. }) = pages.last() else { continue };
        let after = Progress { next_offset: last.next_offset(), chain: *chain };
        progress.insert((origin.source.to_string(), origin.partition), after);
    }
    progress
}

/// The moves that a page tells.
fn push_moves<'p>(
    push: &mut impl FnMut(Option<&str>, Option<&Message>, &dyn Fn(u64) -> Event),
    origin: &Origin,
    subject: Subject<'p>,
    news: &News,
    (at, threshold): (usize, f64),
) {
    for found in news.moves_of(at) {
        let moved = as_told(found, news.resemblance((found.from_document, found.to_document)), threshold);
        push(Some(found.from.as_str()), None, &|seq| Event::moved(seq, origin, subject, moved));
    }
}

fn content_of(page: &SketchedRecord) -> Option<&SketchedContent> {
    page.outcome.as_ref().ok()?.content.as_ref()
}

fn subject_of(page: &SketchedPage) -> Subject<'_> {
    Subject { url: Some(&page.url), fetched_at: Some(page.fetched_at), sweep: page.sweep.as_deref() }
}

/// What the decisions see: the store, the sketches at hand, and those of the batch under way.
struct BatchView<'v, S: Store> {
    store: &'v S,
    cache: &'v mut SketchCache,
    /// Sketches that the store does not have yet.
    fresh: FxHashMap<DocumentId, Arc<Sketch>>,
}

impl<S: Store> View for BatchView<'_, S> {
    type Error = StoreError;

    fn postings(&mut self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, StoreError> {
        self.store.postings(shingles)
    }

    fn supers(&mut self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, StoreError> {
        self.store.supers(shingles)
    }

    fn sketches(&mut self, documents: &[DocumentId]) -> Result<Vec<Arc<Sketch>>, StoreError> {
        let mut found: Vec<Option<Arc<Sketch>>> = documents
            .iter()
            .map(|document| self.fresh.get(document).cloned().or_else(|| self.cache.get(*document)))
            .collect();
        let missing: Vec<usize> = (0..found.len()).filter(|at| found[*at].is_none()).collect();
        let asked: Vec<DocumentId> = missing.iter().map(|at| documents[*at]).collect();
        for (at, sketch) in missing.into_iter().zip(self.store.sketches(&asked)?) {
            self.cache.insert(documents[at], Arc::clone(&sketch));
            found[at] = Some(sketch);
        }
        Ok(found.into_iter().flatten().collect())
    }
}

/// Whether a page is one that kills in the tests.
#[cfg(feature = "failpoints")]
fn is_poison(page: &SketchedRecord) -> bool {
    page.outcome.as_ref().is_ok_and(|page| page.url.contains("poison-to-decide"))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::ports::{MissingUrl, NothingToSync, StoredSighting, Syncer};
    use crate::sweep::{SweepRow, UrlState};
    use std::collections::{BTreeSet, HashMap};

    /// A store in memory, for the tests of the stages around it.
    #[derive(Default)]
    pub struct MemoryStore {
        pub equal: HashMap<Fingerprint, DocumentId>,
        pub postings: HashMap<Shingle, Vec<DocumentId>>,
        pub supers: HashMap<Shingle, Vec<DocumentId>>,
        pub sketches: HashMap<DocumentId, Arc<Sketch>>,
        pub first_urls: HashMap<DocumentId, Fingerprint>,
        pub urls: HashMap<Fingerprint, String>,
        pub outbox: Vec<Outgoing>,
        pub sightings: Vec<StoredSighting>,
        pub states: HashMap<Fingerprint, UrlState>,
        pub sought: BTreeSet<MissingUrl>,
        pub sweeps: BTreeMap<String, SweepRow>,
        pub progress: ProgressMap,
        pub sync_fails: bool,
    }

    struct FailingSync;

    impl Syncer for FailingSync {
        fn sync(&self) -> Result<(), StoreError> {
            Err(StoreError::Failed("fsync".into()))
        }
    }

    impl Store for MemoryStore {
        fn syncer(&self) -> Box<dyn Syncer> {
            if self.sync_fails { Box::new(FailingSync) } else { Box::new(NothingToSync) }
        }

        fn equal(&self, keys: &[Fingerprint]) -> Result<Vec<Option<DocumentId>>, StoreError> {
            Ok(keys.iter().map(|key| self.equal.get(key).copied()).collect())
        }

        fn postings(&self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, StoreError> {
            let list = |shingle| self.postings.get(shingle).cloned().unwrap_or_default();
            Ok(shingles.iter().map(list).collect())
        }

        fn supers(&self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, StoreError> {
            let list = |shingle| self.supers.get(shingle).cloned().unwrap_or_default();
            Ok(shingles.iter().map(list).collect())
        }

        fn sketches(&self, documents: &[DocumentId]) -> Result<Vec<Arc<Sketch>>, StoreError> {
            Ok(documents.iter().map(|document| Arc::clone(&self.sketches[document])).collect())
        }

        fn first_urls(&self, documents: &[DocumentId]) -> Result<Vec<String>, StoreError> {
            Ok(documents.iter().map(|document| self.urls[&self.first_urls[document]].clone()).collect())
        }

        fn states(&self, urls: &[Fingerprint]) -> Result<Vec<Option<UrlState>>, StoreError> {
            Ok(urls.iter().map(|url| self.states.get(url).cloned()).collect())
        }

        fn history(&self, url: Fingerprint) -> Result<Vec<Observation>, StoreError> {
            let of_url = self.sightings.iter().filter(|sighting| sighting.url == url);
            let mut moments: Vec<Observation> = of_url.map(|sighting| sighting.moment.clone()).collect();
            moments.sort();
            Ok(moments)
        }

        fn sweeps(&self, names: &[&str]) -> Result<Vec<Option<SweepRow>>, StoreError> {
            Ok(names.iter().map(|name| self.sweeps.get(*name).copied()).collect())
        }

        fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
            for (document, url) in &batch.documents {
                self.equal.extend(document.equivalences.keys().map(|key| (key, document.document)));
                self.sketches.insert(document.document, Arc::clone(&document.sketch));
                self.first_urls.insert(document.document, *url);
                for shingle in &document.index {
                    self.postings.entry(*shingle).or_default().push(document.document);
                }
                for shingle in &document.super_shingles {
                    self.supers.entry(*shingle).or_default().push(document.document);
                }
            }
            self.urls.extend(batch.urls.iter().cloned());
            self.sightings.extend(batch.sightings.iter().cloned());
            self.states.extend(batch.states.iter().cloned());
            self.sought.retain(|sought| !batch.not_sought.contains(sought));
            self.sought.extend(&batch.sought);
            self.sweeps.extend(batch.sweeps.iter().cloned());
            self.progress.extend(batch.progress.clone());
            self.outbox.retain(|event| event.seq >= batch.published);
            self.outbox.extend(batch.outbox.iter().cloned());
            Ok(())
        }

        fn urls(&self, keys: &[Fingerprint]) -> Result<Vec<String>, StoreError> {
            Ok(keys.iter().map(|key| self.urls[key].clone()).collect())
        }

        fn standings(&self, documents: &[DocumentId], _: usize) -> Result<Vec<StoredSighting>, StoreError> {
            let stood = |sighting: &&StoredSighting| {
                sighting.moment.seen.document().is_some_and(|document| documents.contains(&document))
            };
            Ok(self.sightings.iter().filter(stood).cloned().collect())
        }

        fn sought(&self) -> Result<Vec<MissingUrl>, StoreError> {
            Ok(self.sought.iter().copied().collect())
        }

        fn each_state(&self, each: &mut dyn FnMut(Fingerprint, UrlState)) -> Result<(), StoreError> {
            self.states.iter().for_each(|(url, state)| each(*url, state.clone()));
            Ok(())
        }

        fn n_bytes(&self) -> u64 {
            0
        }

        fn outbox(&self, from: u64, most: usize) -> Result<Vec<Outgoing>, StoreError> {
            Ok(self.outbox.iter().filter(|event| event.seq >= from).take(most).cloned().collect())
        }
    }
}
