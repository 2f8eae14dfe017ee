//! Plants every kind of damage in a sound store, and expects the check to find and name it.

use super::{Finding, Report, reported_name};
use crate::backfill::Context;
use crate::backfill::related::{count_related, is_up_to_date, recount_related};
use crate::cluster::{ClusterRow, Decider, EqualCluster, MatchRule};
use crate::document::{CANONICAL_VERSION, DocumentId, Seed};
use crate::intake::{FutureLimit, KeptText, TextRule};
use crate::pipeline::{self, Pipeline, PipelineError, Stats, Summary};
use crate::ports::{
    BagChange, Incoming, Outgoing, Polled, RelatedRefresh, RelatedView, Sink, SinkError, Snapshot, Source, SourceError,
    StoreRule,
};
use crate::related::{Bag, RelatedRule, SaidReader, Target, Term};
use crate::sketch::{Rule, Shingle, SketchRule};
use crate::store::posting_runs::{BlockWriter, lists_of};
use crate::store::schema::{self, cf, meta};
use crate::store::{RocksStore, Settings, compress_text};
use crate::sweep::{SweepCut, SweepRow};
use crate::wire::{Limits, Origin, Record};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tempfile::TempDir;

const COMMON_LIMIT: usize = 20;

fn rule() -> StoreRule {
    StoreRule {
        canonical_version: CANONICAL_VERSION,
        canonical: Default::default(),
        sketch: SketchRule { w: 3, rule: Rule::All, index_size: 0, index_modulus: 5, ..SketchRule::default() },
        cluster: MatchRule { common_limit: COMMON_LIMIT, min_shared: 1, ..MatchRule::default() },
    }
}

/// Too little memory for all postings, so that some are in runs and some are pending.
fn settings() -> Settings {
    Settings { posting_buffer_mib: 1, ..with_related() }
}

fn with_related() -> Settings {
    let related = Some(RelatedRule { on: true, ..RelatedRule::default() });
    Settings { related, keeps_texts: true, ..Settings::default() }
}

/// The first record of the second run: a page that changed.
const LAST: usize = 238;

/// Forty families of three versions each, some with a template, on two sweeps. On the second sweep every tenth page
/// and one whole family are gone, and one page redirects. One page is empty.
fn records() -> Vec<String> {
    let mut records = Vec::new();
    for sweep in 1..=2 {
        for page in 0..120 {
            let (family, version) = (page / 3, page % 3);
            let mut words: Vec<String> = (0..200).map(|n| format!("f{family}n{n}")).collect();
            words[7 * version] = format!("v{version}");
            if records.len() == LAST {
                words[100] = "new".into();
            }
            let template = if page % 4 == 0 { "one same line on many pages of the site" } else { "" };
            let text = if page == 119 { String::new() } else { format!("{template} {}", words.join(" ")) };
            let content = if sweep == 2 && page == 117 {
                "\"redirect_to\":\"http://a/3\"".into()
            } else if sweep == 2 && (page % 10 == 0 || family == 38) {
                "\"body\":null".into()
            } else {
                // The text of a picture is no part of the page's words.
                let letters = [family / 6, family % 6].map(|n| char::from(b'a' + n as u8));
                let picture = format!("<img alt='bush{0} bloom{0}'>", String::from_iter(letters));
                let link = format!("<a href='/{}'>{picture}</a>", (page + 1) % 120);
                format!("\"content_type\":\"text/html\",\"body\":\"{text}{link}\"")
            };
            records.push(format!(
                "{{\"url\":\"http://a/{page}\",\"fetched_at\":\"200{sweep}-01-01T00:00:00Z\",\"sweep\":\"{sweep}\",{content}}}"
            ));
        }
    }
    records
}

struct Memory(std::vec::IntoIter<String>, i64);

impl Source for Memory {
    fn poll(&mut self, _: Duration) -> Result<Polled, SourceError> {
        let Some(json) = self.0.next() else { return Ok(Polled::End) };
        let origin = Origin { source: "memory".into(), partition: 0, offset: self.1 };
        self.1 += 1;
        Ok(Polled::Record(Incoming { from: origin.offset, origin, chain: 0, record: Record::Json(json.into_bytes()) }))
    }
}

/// Accepts all events, or fails at the first.
struct Output {
    is_lost: bool,
}

impl Sink for Output {
    fn last_seq(&mut self) -> Result<Option<u64>, SinkError> {
        Ok(None)
    }

    fn publish(&mut self, _: &[Outgoing]) -> Result<(), SinkError> {
        if self.is_lost { Err(SinkError::new("lost")) } else { Ok(()) }
    }
}

/// Ingests records into a store; the first has this offset.
fn ingest(store: &mut RocksStore, records: Vec<String>, offset: usize, sink: Output) -> Result<Summary, PipelineError> {
    let rule = rule();
    let pipeline = Pipeline {
        settings: pipeline::Settings { batch_records_max: 10, ..Default::default() },
        limits: Limits::default(),
        sweep_cut: SweepCut::default(),
        future: FutureLimit::NONE,
        seed: *store.seed(),
        sketcher: rule.sketcher(store.seed()),
        said: store.has_related().then(|| SaidReader::new(&RelatedRule::default(), store.seed())),
        texts: Some(TextRule { bytes_max: 1 << 20, compress: compress_text }),
        decider: Decider::new(rule.cluster, &rule.sketch, store.clusters()?, store.common()?),
        next_seq: store.next_seq(),
        store,
        source: Box::new(Memory(records.into_iter(), offset as i64)),
        sink: Some(Box::new(sink)),
        shutdown: Arc::new(AtomicBool::new(false)),
        stats: Arc::new(Stats::default()),
        poison: Arc::default(),
        close_requests: pipeline::CloseRequests::default(),
    };
    pipeline.run()
}

/// A store with rows in every family. In the second run the sink fails, so that the outbox keeps events. How many
/// records get in before depends on timing, so no family may need more than the first. Its postings stay pending,
/// because this run has enough memory for them.
fn damageable_store() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let open = |settings: Settings| {
        RocksStore::open(folder.path(), &settings, &rule(), None, || Seed([1, 2, 3, 4])).expect("opens")
    };
    let mut first = records();
    let last = first.split_off(LAST);
    ingest(&mut open(settings()), first, 0, Output { is_lost: false }).expect("all is taken in");
    let mut store = open(with_related());
    ingest(&mut store, last, LAST, Output { is_lost: true }).expect_err("the sink is lost");
    let work = tempfile::tempdir().expect("a folder");
    let context = context(work.path());
    let counted = count_related(&store, &RelatedRule::default(), &context).expect("counted");
    let clusters = counted.clusters().expect("clustered");
    store.replace_related(|tables| counted.write(tables, Some(&clusters))).expect("built");
    drop(store);
    folder
}

fn checked(path: &Path) -> Report {
    let store = RocksStore::open_read_only(path, &settings()).expect("opens");
    let mut report = store.check(100);
    let work = tempfile::tempdir().expect("a folder");
    // What cannot be read is a finding of the check.
    if let Some(build) = store.related_build().ok().flatten().filter(|build| is_up_to_date(&store, build)) {
        _ = recount_related(&store, &build, &context(work.path()), &mut |difference| {
            let finding = Finding { family: cf::BAGS, key: String::new(), what: format!("recounted: {difference:?}") };
            report.add_finding(finding, 100);
        });
    }
    report
}

fn context(folder: &Path) -> Context {
    Context {
        folder: folder.to_path_buf(),
        n_threads: 1,
        memory: 1 << 20,
        stop: Arc::default(),
        progress: Arc::default(),
    }
}

/// A copy of the store with some damage.
fn damaged(sound: &Path, damage: impl FnOnce(&RocksStore)) -> Report {
    let copy = tempfile::tempdir().expect("a folder");
    for file in fs::read_dir(sound).expect("a folder").map(|file| file.expect("a file").path()) {
        if file.is_file() {
            fs::copy(&file, copy.path().join(file.file_name().expect("a name"))).expect("copied");
        }
    }
    let store = RocksStore::open(copy.path(), &settings(), &rule(), None, || Seed([0; 4])).expect("opens");
    damage(&store);
    drop(store);
    checked(copy.path())
}

impl RocksStore {
    fn plant(&self, family: &'static str, key: impl AsRef<[u8]>, row: impl AsRef<[u8]>) {
        self.db.put_cf(self.cf(family).expect("a family"), key, row).expect("put");
    }

    fn cut(&self, family: &'static str, key: impl AsRef<[u8]>) {
        self.db.delete_cf(self.cf(family).expect("a family"), key).expect("deleted");
    }

    /// A row in the middle of those of a family that are `wanted`.
    fn some(&self, family: &'static str, wanted: impl Fn(&[u8]) -> bool) -> (Vec<u8>, Vec<u8>) {
        let mut rows = Vec::new();
        self.scan(family, &[], &mut |key, row| {
            if wanted(key) {
                rows.push((key.to_vec(), row.to_vec()));
            }
            Ok(true)
        })
        .expect("scanned");
        assert!(!rows.is_empty(), "{family} has no row to damage");
        rows.swap_remove(rows.len() / 2)
    }

    /// Any row in the middle of a family.
    fn any(&self, family: &'static str) -> (Vec<u8>, Vec<u8>) {
        self.some(family, |_| true)
    }

    /// The first document of the oldest batch that is in no run.
    fn first_pending(&self) -> DocumentId {
        DocumentId(self.indexed_up_to().expect("a number") + 1)
    }

    fn cut_some(&self, family: &'static str) {
        let (key, _) = self.any(family);
        self.cut(family, key);
    }

    /// Changes the lists of a block, each a shingle and its packed documents.
    fn change_some_lists(&self, family: &'static str, change: impl FnOnce(&mut Vec<(Shingle, Vec<u8>)>)) {
        let (key, block) = self.some(family, |key| !key[4..].starts_with(&[0xff; 5]));
        let list = |list: Option<(Shingle, &[u8])>| list.map(|(shingle, documents)| (shingle, documents.to_vec()));
        let mut lists = lists_of(&block).map(list).collect::<Option<Vec<_>>>().expect("a block");
        assert!(lists.len() > 1 && lists[0].0 > 1);
        change(&mut lists);
        let mut block = BlockWriter::default();
        lists.iter().for_each(|(shingle, documents)| block.put_packed(*shingle, documents));
        self.plant(family, key, block.take().expect("a block").1);
    }

    fn plant_cluster(&self, document: u32, change: impl FnOnce(&mut ClusterRow)) {
        let key = document.to_be_bytes();
        let row = self.db.get_cf(self.cf(cf::CLUSTERS).expect("a family"), key).expect("read").expect("a row");
        let mut row = schema::read_cluster_row(DocumentId(document), &row).expect("a row");
        change(&mut row);
        self.plant(cf::CLUSTERS, key, schema::cluster_row(&row));
    }
}

#[test]
fn a_sound_store_is_found_sound_and_holds_something_in_every_family() {
    let folder = damageable_store();
    let report = checked(folder.path());
    assert!(report.is_sound && report.findings.is_empty(), "{:#?}", report.findings);
    for family in cf::ALL.into_iter().chain(cf::RELATED).chain([cf::TEXTS]) {
        assert!(report.rows[reported_name(family)] > 0, "there is nothing in {family}: {:?}", report.rows);
    }
    let copied = damaged(folder.path(), |_| {});
    assert!(copied.is_sound, "{:#?}", copied.findings);
}

#[test]
fn findings_are_limited_and_their_count_is_not() {
    let folder = damageable_store();
    let report = damaged(folder.path(), |store| {
        (1..=50u32).for_each(|document| store.cut(cf::DOCS, document.to_be_bytes()));
        (1..=9u32).for_each(|n| store.plant(cf::EQUAL, n.to_be_bytes(), []));
    });
    assert!(report.n_findings > 100 && report.findings.len() == 100 && !report.is_sound);
}

type Damage = (&'static str, &'static str, fn(&RocksStore));

/// The family of the finding, a part of its text, and the damage.
const DAMAGES: &[Damage] = &[
    (cf::META, "contradicts the other", |store| store.plant(cf::META, meta::PUBLISHED, u64::MAX.to_be_bytes())),
    (cf::META, "contradicts the other", |store| store.plant(cf::META, meta::INDEXED_UP_TO, 9999u32.to_be_bytes())),
    (cf::META, "the rows add up to", |store| {
        let mut counts = store.counts_if_kept().expect("read").expect("kept");
        counts.history.n_sightings += 1;
        store.plant(cf::META, meta::COUNTS, schema::counts_row(&counts, store.next_seq()));
    }),
    (cf::META, "the rows add up to", |store| {
        let mut counts = store.counts_if_kept().expect("read").expect("kept");
        counts.clusters.n_of_similar -= 1;
        store.plant(cf::META, meta::COUNTS, schema::counts_row(&counts, store.next_seq()));
    }),
    (cf::META, "0 carry it", |store| {
        let row = schema::equal_clusters_row(&[EqualCluster { document: DocumentId(1), n_urls: 9 }]);
        store.plant(cf::META, schema::equal_clusters_key(store.next_seq(), 1), row);
    }),
    (cf::META, "contradicts the other", |store| store.plant(cf::META, meta::COUNTS, [0; 8])),
    (cf::DOCS, "not a document from 1 to", |store| store.plant(cf::META, meta::DOCUMENTS, 50u32.to_be_bytes())),
    (cf::DOCS, "70 documents are missing", |store| {
        store.plant(cf::META, meta::DOCUMENTS, (store.n_documents() + 70).to_be_bytes());
    }),
    (cf::DOCS, "1 documents are missing", |store| store.cut_some(cf::DOCS)),
    (cf::DOCS, "cannot be read", |store| store.plant(cf::DOCS, store.any(cf::DOCS).0, [1, 2, 3])),
    (cf::EQUAL, "lead to this document", |store| store.cut_some(cf::EQUAL)),
    (cf::EQUAL, "lead to this document", |store| store.plant(cf::EQUAL, [7; 16], 3u32.to_be_bytes())),
    (cf::EQUAL, "lead to this document", |store| {
        store.cut(cf::PENDING, schema::pending_equal_key(store.first_pending()));
    }),
    (cf::PENDING, "cannot be read", |store| {
        store.plant(cf::PENDING, schema::pending_equal_key(store.first_pending()), [3]);
    }),
    (cf::TEXTS, "cannot be read", |store| {
        let (key, mut row) = store.any(cf::TEXTS);
        *row.last_mut().expect("bytes") ^= 1;
        store.plant(cf::TEXTS, key, row);
    }),
    (cf::TEXTS, "not those of the document", |store| {
        let (key, _) = store.any(cf::TEXTS);
        let text = KeptText::new(7, &compress_text("a daisy").expect("compressed"));
        store.plant(cf::TEXTS, key, text.as_row());
    }),
    (cf::TEXTS, "the document is missing", |store| store.cut_some(cf::DOCS)),
    (cf::TEXTS, "not a document", |store| store.plant(cf::TEXTS, [0; 4], store.any(cf::TEXTS).1)),
    (cf::EQUAL, "does not lead to a document", |store| store.plant(cf::EQUAL, [7; 16], 0u32.to_be_bytes())),
    (cf::URLS, "another fingerprint", |store| store.plant(cf::URLS, store.any(cf::URLS).0, "http://b/")),
    (cf::URLS, "never seen", |store| {
        let url = store.seed.fingerprint("url", &[b"http://b/"]);
        store.plant(cf::URLS, schema::fingerprint_key(url), "http://b/");
    }),
    (cf::SIGHTINGS, "no URL has this fingerprint", |store| store.cut_some(cf::URLS)),
    (cf::STATES, "never seen", |store| {
        let (_, row) = store.any(cf::STATES);
        store.plant(cf::STATES, [7; 16], row);
    }),
    (cf::STATES, "is missing", |store| store.cut_some(cf::STATES)),
    (cf::STATES, "does not follow from", |store| {
        let (key, mut row) = store.any(cf::STATES);
        row[0] ^= 1;
        store.plant(cf::STATES, key, row);
    }),
    (cf::MISSING_URLS, "is missing", |store| store.cut_some(cf::MISSING_URLS)),
    (cf::MISSING_URLS, "the URL is not missing", |store| {
        let (mut key, _) = store.any(cf::MISSING_URLS);
        key[3] ^= 1;
        store.plant(cf::MISSING_URLS, key, []);
    }),
    (cf::SWEEPS, "is missing", |store| store.cut_some(cf::SWEEPS)),
    (cf::SWEEPS, "it has no sightings", |store| store.plant(cf::SWEEPS, "never", store.any(cf::SWEEPS).1)),
    (cf::SWEEPS, "but it counts", |store| {
        let (key, row) = store.any(cf::SWEEPS);
        let row = schema::read_sweep_row(&row).expect("a row");
        store.plant(cf::SWEEPS, key, schema::sweep_row(&SweepRow { n_pages: row.n_pages - 1, ..row }));
    }),
    (cf::SIGHTINGS, "no such row in sightings-by-document", |store| store.cut_some(cf::SIGHTINGS_BY_DOCUMENT)),
    (cf::SIGHTINGS_BY_DOCUMENT, "no such row in sightings", |store| store.cut_some(cf::SIGHTINGS)),
    (cf::SIGHTINGS_BY_DOCUMENT, "sightings is at its first URL", |store| {
        let mut keys = Vec::new();
        store
            .scan(cf::SIGHTINGS_BY_DOCUMENT, &5u32.to_be_bytes(), &mut |key, _| {
                keys.push(key.to_vec());
                Ok(true)
            })
            .expect("scanned");
        keys.iter().for_each(|key| store.cut(cf::SIGHTINGS_BY_DOCUMENT, key));
    }),
    (cf::SIGHTINGS_BY_DOCUMENT, "not in docs", |store| store.cut_some(cf::DOCS)),
    (cf::CLUSTERS, "the parents form a cycle", |store| {
        store.plant_cluster(2, |row| row.parent = DocumentId(3));
        store.plant_cluster(3, |row| row.parent = DocumentId(2));
    }),
    (cf::CLUSTERS, "does not exist", |store| store.plant_cluster(2, |row| row.next = DocumentId(0))),
    (cf::CLUSTERS, "it is not a root", |store| store.plant_cluster(2, |row| row.size = 2)),
    (cf::CLUSTERS, "but its tree has", |store| store.plant_cluster(1, |row| row.size += 1)),
    (cf::CLUSTERS, "its smallest document is 1", |store| store.plant_cluster(1, |row| row.name = DocumentId(2))),
    (cf::CLUSTERS, "belongs to another cluster", |store| store.plant_cluster(2, |row| row.next = DocumentId(9))),
    (cf::CLUSTERS, "an earlier step of the ring", |store| store.plant_cluster(3, |row| row.next = DocumentId(3))),
    (cf::CLUSTERS, "no ring lists it", |store| store.plant_cluster(1, |row| row.next = DocumentId(1))),
    (cf::LINKS, "no links join it", |store| store.cut_some(cf::LINKS)),
    (cf::LINKS, "two different clusters", |store| {
        store.plant(cf::LINKS, [30u32.to_be_bytes(), 2u32.to_be_bytes()].concat(), 0.7f64.to_be_bytes());
    }),
    (cf::LINKS, "closes a cycle", |store| {
        store.plant(cf::LINKS, [2u32.to_be_bytes(), 1u32.to_be_bytes()].concat(), 0.7f64.to_be_bytes());
        store.plant(cf::LINKS, [3u32.to_be_bytes(), 1u32.to_be_bytes()].concat(), 0.7f64.to_be_bytes());
        store.plant(cf::LINKS, [3u32.to_be_bytes(), 2u32.to_be_bytes()].concat(), 0.7f64.to_be_bytes());
    }),
    (cf::LINKS, "its resemblance", |store| store.plant(cf::LINKS, store.any(cf::LINKS).0, 0.1f64.to_be_bytes())),
    (cf::LINKS, "a later and an earlier", |store| store.plant(cf::LINKS, [0; 8], 0.7f64.to_be_bytes())),
    (cf::POSTINGS, "lists too few", |store| store.change_some_lists(cf::POSTINGS, |lists| lists.truncate(1))),
    (cf::POSTINGS, "lists too many", |store| {
        store.change_some_lists(cf::POSTINGS, |lists| lists.insert(0, (0, vec![1])));
    }),
    (cf::POSTINGS, "shingles that it does not have", |store| {
        store.change_some_lists(cf::POSTINGS, |lists| lists[0].0 -= 1);
    }),
    (cf::POSTINGS, "do not ascend", |store| store.change_some_lists(cf::POSTINGS, |lists| lists[0].1.push(0))),
    (cf::POSTINGS, "no document", |store| {
        store.change_some_lists(cf::POSTINGS, |lists| lists.insert(0, (0, vec![0xff, 0x7f])));
    }),
    (cf::POSTINGS, "the list cannot be read", |store| {
        store.change_some_lists(cf::POSTINGS, |lists| lists[0].1 = vec![0xff]);
    }),
    (cf::POSTINGS, "the lists cannot be read", |store| {
        store.plant(cf::POSTINGS, store.some(cf::POSTINGS, |key| key.len() == 9).0, [0xff]);
    }),
    (cf::POSTINGS, "its filter lacks", |store| {
        let (key, portion) = store.some(cf::POSTINGS, |key| key.len() > 9 && key.ends_with(&[1]));
        store.plant(cf::POSTINGS, key, vec![0; portion.len()]);
    }),
    (cf::SUPERS, "its filter cannot be checked", |store| {
        let (key, _) = store.some(cf::SUPERS, |key| key.len() > 12 && key.ends_with(&[0]));
        store.cut(cf::SUPERS, key);
    }),
    (cf::SUPERS, "lists too few", |store| store.change_some_lists(cf::SUPERS, |lists| lists.truncate(1))),
    (cf::MOD_POSTINGS, "lists too few", |store| store.cut_some(cf::MOD_POSTINGS)),
    (cf::MOD_POSTINGS, "cannot be read", |store| store.plant(cf::MOD_POSTINGS, [0; 3], [])),
    (cf::POSTINGS, "lists too few", |store| store.cut(cf::PENDING, store.first_pending().0.to_be_bytes())),
    (cf::PENDING, "cannot be read", |store| {
        store.plant(cf::PENDING, store.first_pending().0.to_be_bytes(), [255]);
    }),
    (cf::COMMON, "is missing", |store| store.cut_some(cf::COMMON)),
    (cf::COMMON, "does not exceed the limit", |store| store.plant(cf::COMMON, [9; 5], [])),
    (cf::OFFSETS, "not an offset", |store| store.plant(cf::OFFSETS, store.any(cf::OFFSETS).0, [255; 16])),
    (cf::OFFSETS, "not a source", |store| store.plant(cf::OFFSETS, "memory", [0; 16])),
    (cf::SAID, "cannot be read", |store| store.plant(cf::SAID, store.any(cf::SAID).0, [2, 1])),
    (cf::SAID, "not a document", |store| store.plant(cf::SAID, [0; 4], store.any(cf::SAID).1)),
    (cf::FRAGMENTS, "nothing leads to what document", |store| store.cut_some(cf::FRAGMENTS)),
    (cf::FRAGMENTS, "does not say it", |store| store.plant(cf::FRAGMENTS, [7; 20], 3u32.to_be_bytes())),
    (cf::FRAGMENTS, "does not lead to a document", |store| store.plant(cf::FRAGMENTS, [7; 20], [0; 4])),
    (cf::REDIRECTS, "cannot be read", |store| store.plant(cf::REDIRECTS, [7; 3], [])),
    (cf::REDIRECTS, "nothing leads back", |store| store.cut_some(cf::REDIRECTS)),
    (cf::BAGS, "its weights sum to", |store| store.plant(cf::BAGS, store.any(cf::BAGS).0, [0, 0, 0, 1, 7])),
    (cf::BAGS, "cannot be read", |store| store.plant(cf::BAGS, store.any(cf::BAGS).0, [0, 0])),
    (cf::BAGS, "bags, the build made", |store| store.cut_some(cf::BAGS)),
    // Its champions lead to it, and its weights sum to 100.
    (cf::BAGS, "recounted: Bag(", |store| {
        let (key, row) = store.any(cf::BAGS);
        let target = Target(u64::from_be_bytes(key.try_into().expect("a target")));
        let (old, new) = (schema::read_bag(&row).expect("a bag"), Bag::new(vec![(Term(7), 100)]));
        let build = store.related_build().expect("read").expect("built");
        store.replace_bags(&[BagChange { target, old, new }], build.up_to).expect("replaced");
    }),
    (cf::BAGS, "recounted: Term(", |store| {
        let (key, row) = store.any(cf::TERMS);
        store.plant(cf::TERMS, key, [&[0; 4], &row[4..]].concat());
    }),
    (cf::CHAMPIONS, "not those of the bags", |store| store.cut_some(cf::CHAMPIONS)),
    (cf::TERMS, "does not count the bags", |store| store.plant(cf::TERMS, store.any(cf::TERMS).0, [255; 8])),
    (cf::NEIGHBOURS, "cannot be read", |store| store.plant(cf::NEIGHBOURS, store.any(cf::NEIGHBOURS).0, [0; 9])),
    (cf::NEIGHBOURS, "not as similar as it says", |store| {
        let (key, row) = store.any(cf::NEIGHBOURS);
        store.plant(cf::NEIGHBOURS, key, [&row[..16], &0.5f32.to_be_bytes(), &row[20..]].concat());
    }),
    (cf::CENTERS, "not those of the neighbours", |store| store.cut_some(cf::CENTERS)),
    (cf::OUTBOX, "are missing", |store| store.cut_some(cf::OUTBOX)),
    (cf::OUTBOX, "not the event with this number", |store| {
        let (key, _) = store.any(cf::OUTBOX);
        store.plant(cf::OUTBOX, key, schema::outbox_row(&Outgoing::new(0, None, b"{}".to_vec())));
    }),
    (cf::OUTBOX, "already published", |store| {
        let event = Outgoing::new(0, None, b"{}".to_vec());
        store.plant(cf::OUTBOX, 0u64.to_be_bytes(), schema::outbox_row(&event));
    }),
    (cf::OUTBOX, "the outbox ends here", |store| {
        store.plant(cf::META, meta::NEXT_SEQ, (store.next_seq() + 5).to_be_bytes());
    }),
];

/// Every row of a store but those of related pages and its random id. Those of `pending` depend on how records come together in batches.
fn rows_beside_related(settings: &Settings) -> BTreeMap<(&'static str, Vec<u8>), Vec<u8>> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut store = RocksStore::open(folder.path(), settings, &rule(), None, || Seed([1, 2, 3, 4])).expect("opens");
    assert_eq!(store.has_related(), settings.related.is_some());
    ingest(&mut store, records(), 0, Output { is_lost: false }).expect("all is taken in");
    let mut rows = BTreeMap::new();
    for family in cf::ALL.into_iter().filter(|family| *family != cf::PENDING && !cf::RELATED.contains(family)) {
        let mut each = |key: &[u8], row: &[u8]| {
            if family != cf::META || !key.starts_with(b"related") && key != meta::ID {
                rows.insert((family, key.to_vec()), row.to_vec());
            }
            Ok(true)
        };
        store.scan(family, &[], &mut each).expect("read");
    }
    rows
}

/// Related pages cost nothing where they are off, and change nothing else where they are on.
#[test]
fn a_store_has_the_same_bytes_with_related_pages_and_without() {
    let without = Settings { related: None, ..with_related() };
    let (without, with) = (rows_beside_related(&without), rows_beside_related(&with_related()));
    assert!(without.len() > 1000);
    let differing = without.iter().filter(|(key, row)| with.get(*key) != Some(*row)).map(|(key, _)| key);
    let more = with.keys().filter(|key| !without.contains_key(*key));
    assert_eq!(differing.chain(more).collect::<Vec<_>>(), Vec::<&(&str, Vec<u8>)>::new());
}

#[test]
fn planted_damage_is_found_and_named() {
    let folder = damageable_store();
    for (family, what, damage) in DAMAGES {
        let report = damaged(folder.path(), damage);
        let found = report
            .findings
            .iter()
            .any(|finding| finding.family == reported_name(family) && finding.what.contains(what));
        assert!(found && !report.is_sound, "{family}, {what}: {:#?}", report.findings);
    }
}

/// A flipped byte in a table is a finding, and does not end the check.
#[test]
fn unreadable_data_is_a_finding() {
    let folder = damageable_store();
    let store = RocksStore::open(folder.path(), &settings(), &rule(), None, || Seed([0; 4])).expect("opens");
    let document = store.n_documents();
    store.plant(cf::EQUAL, [7; 16], 3u32.to_be_bytes());
    store.db.flush_cf(store.cf(cf::EQUAL).expect("a family")).expect("flushed");
    drop(store);
    let tables = fs::read_dir(folder.path()).expect("a folder").map(|file| file.expect("a file").path());
    let table = tables.filter(|path| path.extension().is_some_and(|end| end == "sst")).max().expect("a table");
    let mut bytes = fs::read(&table).expect("read");
    bytes[20] ^= 1;
    fs::write(&table, bytes).expect("written");
    let report = checked(folder.path());
    let found = report.findings.iter().any(|finding| finding.what.contains("cannot be read"));
    assert!(found && report.n_documents == document, "{:#?}", report.findings);
}
