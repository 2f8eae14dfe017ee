//! Keeps events in the outbox after they were published: the newest, as many as the settings say, without those that tell of
//! something forgotten.

use super::cluster_tree::cluster_of;
use super::db::{family, get_meta, synced};
use super::open::RocksStore;
use super::rocks_error::{damaged, failed};
use super::schema::{self, Fields, cf, meta};
use crate::document::{ClusterId, DocumentId, url_key};
use crate::ports::{Forgotten, KeptEvents, Outgoing, StoreError, WatchPositions, WatchedDocuments};
use crate::sketch::Sketch;
use crate::wire::{Event, EventType};
use rocksdb::{DB, Direction, IteratorMode, WriteBatch};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The rows of an outbox from a number on, and their sizes.
pub(super) fn outbox(
    db: &DB,
    from: u64,
) -> Result<impl Iterator<Item = Result<(Outgoing, usize), StoreError>> + '_, StoreError> {
    let mode = IteratorMode::From(&from.to_be_bytes(), Direction::Forward);
    Ok(db.iterator_cf(family(db, cf::OUTBOX)?, mode).map(|row| {
        let (key, row) = row.map_err(failed)?;
        let event = schema::read_outbox(&key, &row).ok_or_else(|| damaged("a row of outbox"))?;
        Ok((event, row.len()))
    }))
}

/// The events below `until`, from a number on, as [`KeptEvents::read`] returns them.
fn read_kept(db: &DB, from: u64, until: u64, n_bytes: usize) -> Result<Option<Vec<Outgoing>>, StoreError> {
    let (mut events, mut n_read) = (Vec::new(), 0);
    if from >= until {
        return Ok(Some(events));
    }
    for row in outbox(db, from)? {
        let (event, n_row) = row?;
        // The iterator sees one moment: what is missing at the beginning was deleted before it.
        if event.seq != from + events.len() as u64 || event.seq >= until {
            break;
        }
        n_read += n_row;
        events.push(event);
        if n_read >= n_bytes {
            break;
        }
    }
    Ok(Some(events).filter(|events| !events.is_empty()))
}

/// The kept events of a store and the documents that they tell of, for other threads of the process that writes it.
pub struct WriterEvents {
    db: Arc<DB>,
    durable: Arc<AtomicU64>,
    first: Arc<AtomicU64>,
    is_keeping: bool,
}

impl KeptEvents for WriterEvents {
    fn newest(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    fn range(&self) -> Result<Option<Range<u64>>, StoreError> {
        Ok(self.is_keeping.then(|| self.first.load(Ordering::Acquire)..self.newest()))
    }

    fn read(&self, from: u64, n_bytes: usize) -> Result<Option<Vec<Outgoing>>, StoreError> {
        read_kept(&self.db, from, self.newest(), n_bytes)
    }
}

impl WatchPositions for WriterEvents {
    fn position(&self, watch: &str) -> Result<Option<u64>, StoreError> {
        let row = get_meta(&self.db, &[meta::WATCH, watch.as_bytes()].concat())?;
        row.map(|row| Fields(&row).u64().ok_or_else(|| damaged(format!("meta/watch/{watch}")))).transpose()
    }

    fn note_position(&self, watch: &str, next: u64) -> Result<(), StoreError> {
        let key = [meta::WATCH, watch.as_bytes()].concat();
        self.db.put_cf(family(&self.db, cf::META)?, key, next.to_be_bytes()).map_err(failed)
    }
}

impl WatchedDocuments for WriterEvents {
    fn sketch_of(&self, document: DocumentId) -> Result<Option<Arc<Sketch>>, StoreError> {
        let row = self.db.get_pinned_cf(family(&self.db, cf::DOCS)?, document.0.to_be_bytes()).map_err(failed)?;
        let Some(row) = row else { return Ok(None) };
        let stored = schema::read_document(&row).ok_or_else(|| damaged(format!("the row of document {document}")))?;
        Ok(Some(stored.sketch))
    }

    fn cluster_of(&self, document: DocumentId) -> Result<ClusterId, StoreError> {
        cluster_of(&self.db, document)
    }
}

impl RocksStore {
    /// Reads the kept events from other threads, as soon as they are durable.
    pub fn writer_events(&self) -> WriterEvents {
        WriterEvents {
            db: Arc::clone(&self.db),
            durable: Arc::clone(&self.durable),
            first: self.keeping.shared_first(),
            is_keeping: self.keeping.is_wanted(),
        }
    }

    /// The events that this snapshot has, where the store keeps events.
    pub(super) fn kept_range(&self) -> Option<Range<u64>> {
        self.keeping.is_noted().then(|| self.keeping.first()..self.next_seq())
    }

    /// The events that this snapshot has, from a number on, as [`KeptEvents::read`] returns them.
    pub(super) fn read_kept(&self, from: u64, n_bytes: usize) -> Result<Option<Vec<Outgoing>>, StoreError> {
        read_kept(&self.db, from, self.next_seq(), n_bytes)
    }

    /// Notes how far publishing came, and drops what is published and not kept from the outbox. Returns its first row.
    pub(super) fn put_published(
        &self,
        published: u64,
        next_seq: u64,
        rows: &mut WriteBatch,
    ) -> Result<u64, StoreError> {
        let (outbox, metas) = (self.cf(cf::OUTBOX)?, self.cf(cf::META)?);
        let before = self.keeping.first();
        let first = before.max(self.keeping.first_kept(published, next_seq));
        if first > before {
            rows.delete_range_cf(outbox, before.to_be_bytes(), first.to_be_bytes());
        }
        rows.put_cf(metas, meta::PUBLISHED, published.to_be_bytes());
        self.keeping.put(&self.db, (first, published), rows)?;
        Ok(first)
    }

    /// Takes the bytes of published events that tell of something forgotten.
    pub(super) fn redact_forgotten(&self, forgotten: &Forgotten, rows: &mut WriteBatch) -> Result<(), StoreError> {
        let urls: HashMap<&str, _> = forgotten.urls.iter().map(|url| (url.url.as_str(), url)).collect();
        let is_forgotten = |event: &Event| {
            let is_gone = |url: &str| urls.get(url).is_some_and(|url| url.after.is_none());
            let sightings = event.url.as_deref().and_then(|url| urls.get(url)).map(|url| url.sightings.iter());
            let mut times = sightings.into_iter().flatten().map(|sighting| Some(sighting.fetched_at));
            event.urls().any(is_gone) || times.any(|time| time == event.fetched_at)
        };
        self.redact(is_forgotten, rows)
    }

    /// Takes the bytes of published events that name a URL of which the store, after an event that says so, holds nothing any
    /// more. Durable on return.
    pub(super) fn redact_told(&self) -> Result<(), StoreError> {
        let mut urls = HashSet::new();
        self.each_published(&mut |event| {
            if event.kind() == EventType::Forgotten {
                urls.extend(event.url);
            }
            Ok(())
        })?;
        let known = self.states_of(&urls.iter().map(|url| url_key(&self.seed, url)).collect::<Vec<_>>())?;
        let gone: HashSet<&str> =
            urls.iter().zip(known).filter(|(_, state)| state.is_none()).map(|(url, _)| url.as_str()).collect();
        let mut rows = WriteBatch::default();
        self.redact(|event| event.urls().any(|url| gone.contains(url)), &mut rows)?;
        self.db.write_opt(rows, &synced()).map_err(failed)
    }

    fn redact(&self, is_forgotten: impl Fn(&Event) -> bool, rows: &mut WriteBatch) -> Result<(), StoreError> {
        let family = self.cf(cf::OUTBOX)?;
        self.each_published(&mut |event| {
            if is_forgotten(&event) {
                let redacted = schema::outbox_row(&Outgoing::new(event.seq, None, Vec::new()));
                rows.put_cf(family, event.seq.to_be_bytes(), redacted);
            }
            Ok(())
        })
    }

    /// Calls `each` with the published events that are kept, but for forgotten ones.
    fn each_published(&self, each: &mut dyn FnMut(Event) -> Result<(), StoreError>) -> Result<(), StoreError> {
        for row in outbox(&self.db, self.keeping.first())? {
            let (Outgoing { seq, json, .. }, _) = row?;
            if seq >= self.published() {
                break;
            }
            if !json.is_empty() {
                each(serde_json::from_slice(&json).map_err(|error| damaged(format!("event {seq}: {error}")))?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::document::Seed;
    use crate::ports::{Batch, Remainders, Store, StoreRule};
    use crate::store::Settings;
    use std::path::Path;

    fn open(path: &Path, keep_events: u64) -> RocksStore {
        let rule = StoreRule {
            canonical_version: crate::document::CANONICAL_VERSION,
            canonical: Default::default(),
            sketch: Default::default(),
            cluster: Default::default(),
        };
        let settings = Settings { keep_events, ..Settings::default() };
        RocksStore::open(path, &settings, &rule, None, || Seed([1, 2, 3, 4])).expect("opened")
    }

    /// Writes some events, of which those below `published` are out.
    fn write(store: &RocksStore, n: u64, published: u64) {
        let first = store.next_seq();
        let json = |seq| {
            format!(
                r#"{{"type":"gone","seq":{seq},"source":"s","partition":0,"offset":{seq},"url":"http://a/{seq}","fetched_at":null,"sweep":null}}"#
            )
        };
        let outbox = (first..first + n).map(|seq| Outgoing::new(seq, None, json(seq).into())).collect();
        store.commit(&Batch { next_seq: first + n, outbox, published, ..Batch::default() }).expect("written");
    }

    /// The numbers of the rows.
    fn rows(store: &RocksStore) -> Range<u64> {
        let events = store.outbox(0, usize::MAX).expect("read");
        let first = events.first().map_or(store.next_seq(), |event| event.seq);
        assert!(events.iter().map(|event| event.seq).eq(first..first + events.len() as u64));
        assert_eq!(store.check(9).n_findings, 0);
        first..first + events.len() as u64
    }

    #[test]
    fn the_number_is_raised_and_lowered() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        let store = open(path, 0);
        write(&store, 10, 4);
        assert_eq!((rows(&store), store.writer_events().range().expect("read")), (4..10, None));
        drop(store);
        let store = open(path, 3);
        let events = store.writer_events();
        assert_eq!(events.range().expect("read"), Some(4..10));
        write(&store, 10, 20);
        assert_eq!((rows(&store), events.range().expect("read")), (17..20, Some(17..20)));
        assert_eq!(events.read(16, 1 << 20).expect("read"), None);
        assert_eq!(events.read(18, 1 << 20).expect("read").map(|events| events.len()), Some(2));
        assert_eq!(events.read(18, 1).expect("read").map(|events| events.len()), Some(1));
        assert_eq!(events.read(20, 1).expect("read"), Some(vec![]));
        // What is not published stays, whatever the number.
        write(&store, 10, 21);
        assert_eq!(rows(&store), 21..30);
        drop((store, events));
        let store = open(path, 100);
        write(&store, 10, 40);
        assert_eq!(rows(&store), 21..40);
        drop(store);
        // A command without the setting takes nothing away; a batch does.
        let store = open(path, 0);
        assert_eq!((rows(&store), store.kept_range()), (21..40, Some(21..40)));
        write(&store, 1, 41);
        assert_eq!((rows(&store), store.kept_range()), (41..41, None));
    }

    /// Lost once: what a run forgot, to those who ask for events, until the next page came.
    #[test]
    fn what_tells_of_something_forgotten_can_be_read_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open(folder.path(), 100);
        write(&store, 2, 2);
        let event = Outgoing::new(2, None, r#"{"type":"forgotten","seq":2}"#.into());
        store.forget(&Forgotten::default(), &Remainders::default(), &[event]).expect("forgotten");
        assert_eq!(store.writer_events().range().expect("read"), Some(0..3));
    }

    /// Lost if this fails: a reader would take what an older program left for all events, and miss those in between.
    #[test]
    fn what_a_program_left_that_keeps_no_events_is_not_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        let store = open(path, 100);
        write(&store, 10, 10);
        // It goes on from what it knows to be published, and deletes from there on.
        let mut batch = WriteBatch::default();
        let metas = store.cf(cf::META).expect("there");
        for key in [meta::PUBLISHED, meta::NEXT_SEQ] {
            batch.put_cf(metas, key, 15u64.to_be_bytes());
        }
        store.db.write(batch).expect("written");
        drop(store);
        let reader = RocksStore::open_read_only(path, &Settings::default()).expect("opened");
        assert_eq!(reader.kept_range(), None);
        drop(reader);
        let store = open(path, 100);
        assert_eq!((rows(&store), store.kept_range()), (15..15, Some(15..15)));
        write(&store, 2, 17);
        assert_eq!((rows(&store), store.kept_range()), (15..17, Some(15..17)));
    }
}
