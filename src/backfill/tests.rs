//! Compares the phases with the stream's decision, and with a brute-force reference that shares no code with either.

use super::checkpoint::{BackfillSpec, Checkpoint};
use super::context::Context;
use super::{BackfillError, Handover, cluster_and_load, ingest_sketched, sketched_chunks};
use crate::cluster::{
    BatchIndex, ClusterPolicy, Clusters, Decider, Effects, MatchRule, NewDocument, SketchView, TooManyDocuments, View,
};
use crate::document::{CANONICAL_VERSION, DocumentId, FetchTime, Fingerprint, Seed};
use crate::intake::SketchedPage;
use crate::ports::{EmptyStore, Family, LoadDocument, LoadMetadata, LoadRow, Loader, StoreError, StoreRule, Table};
use crate::sketch::{Equivalences, Rule, Shingle, Sketch, SketchForm, SketchRule, SketchedContent, decode};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A loader that keeps its rows in memory.
#[derive(Default)]
struct MemoryLoader {
    tables: Mutex<BTreeMap<PathBuf, Vec<Row>>>,
    store: Mutex<BTreeMap<Family, Vec<Row>>>,
    metadata: Mutex<LoadMetadata>,
}

/// A row, as far as the tests look at it.
#[derive(Clone, Debug)]
enum Row {
    Document(Document),
    Cluster(crate::cluster::ClusterRow),
    List(Shingle, Vec<DocumentId>),
    Other,
}

/// A loaded document.
#[derive(Clone, Debug)]
struct Document {
    document: DocumentId,
    index: Vec<Shingle>,
    super_shingles: Vec<Shingle>,
    mod_shingles: Vec<Shingle>,
    sketch: Sketch,
}

impl Document {
    fn new(loaded: &LoadDocument<'_>) -> Self {
        Document {
            document: loaded.document,
            index: loaded.index.to_vec(),
            super_shingles: loaded.super_shingles.to_vec(),
            mod_shingles: loaded.mod_shingles.to_vec(),
            sketch: decode(loaded.sketch).expect("a sketch"),
        }
    }
}

struct MemoryTable<'a> {
    loader: &'a MemoryLoader,
    path: PathBuf,
    rows: Vec<Row>,
}

impl Table for MemoryTable<'_> {
    fn put(&mut self, row: LoadRow<'_>) -> Result<(), StoreError> {
        self.rows.push(match row {
            LoadRow::Document(document) => Row::Document(Document::new(document)),
            LoadRow::Cluster(row) => Row::Cluster(*row),
            LoadRow::List(shingle, documents) => Row::List(shingle, documents.to_vec()),
            _ => Row::Other,
        });
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<u64, StoreError> {
        let n_rows = self.rows.len() as u64;
        if n_rows > 0 {
            std::fs::write(&self.path, b"a table").expect("written");
        }
        self.loader.tables.lock().expect("a lock").insert(self.path, self.rows);
        Ok(n_rows)
    }
}

impl Loader for MemoryLoader {
    fn table(&self, _: Family, file: &Path) -> Result<Box<dyn Table + '_>, StoreError> {
        Ok(Box::new(MemoryTable { loader: self, path: file.to_path_buf(), rows: Vec::new() }))
    }

    fn begin(&self, folder: &Path) -> Result<Box<dyn EmptyStore + '_>, StoreError> {
        std::fs::create_dir(folder).expect("a folder");
        Ok(Box::new(self))
    }
}

impl EmptyStore for &MemoryLoader {
    fn ingest(&mut self, tables: &[(Family, Vec<PathBuf>)]) -> Result<(), StoreError> {
        let known = self.tables.lock().expect("a lock");
        let mut store = self.store.lock().expect("a lock");
        for (family, files) in tables {
            let rows = files.iter().flat_map(|file| known[file].clone()).collect();
            assert!(store.insert(*family, rows).is_none(), "a family is ingested once");
        }
        Ok(())
    }

    fn complete(self: Box<Self>, metadata: &LoadMetadata) -> Result<(), StoreError> {
        *self.metadata.lock().expect("a lock") = metadata.clone();
        Ok(())
    }
}

impl MemoryLoader {
    fn rows(&self, family: Family) -> Vec<Row> {
        self.store.lock().expect("a lock")[&family].clone()
    }

    fn documents(&self) -> Vec<Document> {
        let document = |row| if let Row::Document(document) = row { Some(document) } else { None };
        self.rows(Family::Documents).into_iter().filter_map(document).collect()
    }

    fn lists(&self, family: Family) -> BTreeMap<Shingle, Vec<DocumentId>> {
        let list = |row| if let Row::List(shingle, documents) = row { Some((shingle, documents)) } else { None };
        let lists: Vec<_> = self.rows(family).into_iter().filter_map(list).collect();
        assert!(lists.is_sorted_by(|a, b| a.0 < b.0), "each shingle once, ascending");
        lists.into_iter().collect()
    }

    fn clusters(&self) -> Vec<u32> {
        let n_documents = self.metadata.lock().expect("a lock").n_documents;
        let mut clusters = Clusters::alone(n_documents as usize);
        for row in self.rows(Family::Clusters) {
            if let Row::Cluster(row) = row {
                clusters.restore(&row).expect("a row");
            }
        }
        (1..=n_documents).map(|id| clusters.cluster_of(DocumentId(id)).0).collect()
    }
}

/// A view of an empty store: the decider knows all documents from its batch.
struct EmptyView<'a>(&'a [NewDocument]);

impl SketchView for EmptyView<'_> {
    type Error = TooManyDocuments;

    fn sketches(&self, documents: &[DocumentId]) -> Result<Vec<Arc<Sketch>>, TooManyDocuments> {
        Ok(documents.iter().map(|id| Arc::clone(&self.0[id.0 as usize - 1].sketch)).collect())
    }
}

impl View for EmptyView<'_> {
    fn postings(&self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, TooManyDocuments> {
        Ok(vec![Vec::new(); shingles.len()])
    }

    fn supers(&self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, TooManyDocuments> {
        self.postings(shingles)
    }
}

/// Takes the same pages through the stream's decision, one by one.
fn streamed(rule: &StoreRule, pages: &[SketchedPage]) -> (Vec<NewDocument>, Vec<u32>, BTreeSet<Shingle>) {
    let mut decider = Decider::new(rule.cluster.clone(), &rule.sketch, Clusters::default(), Default::default());
    let (mut known, mut effects) = (BatchIndex::default(), Effects::default());
    for content in pages.iter().filter_map(|page| page.content.as_ref()) {
        let decided = effects.documents.clone();
        decider.decide(content, &mut known, &EmptyView(&decided), &mut effects).expect("room");
    }
    let n = effects.documents.len() as u32;
    let names = (1..=n).map(|id| decider.clusters().cluster_of(DocumentId(id)).0).collect();
    (effects.documents, names, effects.common.into_iter().collect())
}

fn page(rule: &StoreRule, number: usize, shingles: BTreeSet<Shingle>, n_supers: usize) -> SketchedPage {
    let key = |kind: usize| {
        Fingerprint(((number << 4 | kind) as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
    };
    let values: Vec<Shingle> = shingles.into_iter().collect();
    // Pages of the same shingles are equal, as they are when they come from a sketcher.
    let of_values = values.iter().fold(7u128, |sum, value| sum.wrapping_mul(31).wrapping_add(u128::from(*value) + 1));
    let shingle = (!values.is_empty()).then_some(Fingerprint(of_values << 1));
    SketchedPage {
        url: format!("http://a/{}", number % 7),
        fetched_at: FetchTime(number as i64 % 5),
        sweep: Some(format!("s{}", number % 3)),
        content: Some(Arc::new(SketchedContent {
            equivalences: Equivalences { identical: key(0), lexical: key(1), shingle },
            index: values[..values.len().min(rule.sketch.index_candidates())].to_vec(),
            mod_shingles: values.iter().copied().filter(|value| value % 3 == 0).collect(),
            super_shingles: values
                .windows(3)
                .map(|run| run.iter().sum())
                .take(n_supers)
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect(),
            n_words: 10,
            n_bytes: 100,
            sketch: Arc::new(Sketch {
                n_shingles: values.len() as u32,
                form: SketchForm::Sample { values, bound: 1 << 40 },
                confirmation: None,
            }),
        })),
        redirect_to: None,
        said: None,
        text: None,
    }
}

/// Opens a work folder inside a folder, and a context for it.
pub(super) fn open_checkpoint(folder: &Path, rule: &StoreRule, memory: u64) -> (Checkpoint, Context) {
    let spec = BackfillSpec { rule: rule.clone(), reading: String::new(), inputs: Vec::new(), events: None };
    let (seed, folder) = (Seed([1, 2, 3, 4]), folder.join("work"));
    let checkpoint = Checkpoint::open(&folder, spec, 8, Some(seed), || seed).expect("opens");
    (checkpoint, Context { folder, n_threads: 2, memory, stop: Arc::default(), progress: Arc::default() })
}

/// Runs the phases over pages.
fn backfilled(rule: &StoreRule, pages: &[SketchedPage], memory: u64) -> MemoryLoader {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut checkpoint, context) = open_checkpoint(folder.path(), rule, memory);
    ingest_sketched(&mut checkpoint, &context, sketched_chunks("synthetic", pages.iter().map(copy))).expect("taken in");
    let loaded = MemoryLoader::default();
    let report =
        cluster_and_load(checkpoint, &context, None, &loaded, &folder.path().join("store"), Handover::default());
    assert_eq!(report.expect("loads").counts.n_records, pages.len() as u64);
    loaded
}

fn copy(page: &SketchedPage) -> SketchedPage {
    SketchedPage {
        url: page.url.clone(),
        fetched_at: page.fetched_at,
        sweep: page.sweep.clone(),
        content: page.content.clone(),
        redirect_to: page.redirect_to.clone(),
        said: page.said.clone(),
        text: page.text.clone(),
    }
}

pub(super) fn rule(index_size: usize, cluster: MatchRule) -> StoreRule {
    let sketch = SketchRule { rule: Rule::All, index_size, index_modulus: 3, ..SketchRule::default() };
    StoreRule { canonical_version: CANONICAL_VERSION, canonical: Default::default(), sketch, cluster }
}

fn pages_of(rule: &StoreRule, sets: Vec<BTreeSet<Shingle>>, n_supers: usize) -> Vec<SketchedPage> {
    sets.into_iter().enumerate().map(|(number, set)| page(rule, number, set, n_supers)).collect()
}

proptest! {
    // Every case writes and syncs some hundred files.
    #![proptest_config(ProptestConfig::with_cases(20))]

    /// Documents, index and clusters are the stream's, even where shingles become common and others replace them in
    /// the index. The memory is so small that everything goes through many files.
    #[test]
    fn the_phases_do_what_the_stream_does(
        sets in prop::collection::vec(prop::collection::btree_set(0u64..40, 0..12), 1..60),
        index_size in 0usize..6,
        min_shared in 1usize..4,
        common_limit in 1usize..12,
        ignore_common in any::<bool>(),
        n_supers in 0usize..3,
    ) {
        let cluster = MatchRule { threshold: 0.5, min_shared, common_limit, comparisons_max: 0, ignore_common, policy: ClusterPolicy::Components };
        let rule = rule(index_size, cluster);
        let pages = pages_of(&rule, sets, n_supers);
        let (documents, names, common) = streamed(&rule, &pages);
        let loaded = backfilled(&rule, &pages, 4096);
        prop_assert_eq!(loaded.clusters(), names);
        let shingles = loaded.metadata.lock().expect("a lock").common.clone();
        prop_assert_eq!(shingles.into_iter().collect::<BTreeSet<_>>(), common);
        let mut postings: BTreeMap<Shingle, Vec<DocumentId>> = BTreeMap::new();
        let mut supers: BTreeMap<Shingle, Vec<DocumentId>> = BTreeMap::new();
        for (ours, theirs) in loaded.documents().iter().zip(&documents) {
            prop_assert_eq!((ours.document, &ours.index), (theirs.document, &theirs.index));
            prop_assert_eq!(&ours.super_shingles, &theirs.super_shingles);
            prop_assert_eq!((&ours.mod_shingles, &ours.sketch), (&theirs.mod_shingles, &*theirs.sketch));
            ours.index.iter().for_each(|shingle| postings.entry(*shingle).or_default().push(ours.document));
            ours.super_shingles.iter().for_each(|shingle| supers.entry(*shingle).or_default().push(ours.document));
        }
        prop_assert_eq!(loaded.documents().len(), documents.len());
        prop_assert_eq!(loaded.lists(Family::Postings), postings);
        prop_assert_eq!(loaded.lists(Family::Supers), supers);
    }

    /// With all shingles in the index and none common, the clusters are the components of the pairs that resemble
    /// each other. The test finds them by comparing every set with every other.
    #[test]
    fn the_phases_find_the_components(sets in prop::collection::vec(prop::collection::btree_set(0u64..30, 1..9), 1..50)) {
        let rule = rule(0, MatchRule { min_shared: 1, common_limit: 1000, ..MatchRule::default() });
        let mut distinct: Vec<BTreeSet<Shingle>> = Vec::new();
        for set in &sets {
            if !distinct.contains(set) {
                distinct.push(set.clone());
            }
        }
        let mut names: Vec<u32> = (1..=distinct.len() as u32).collect();
        // Smaller names spread until none changes.
        loop {
            let before = names.clone();
            for (a, set_a) in distinct.iter().enumerate() {
                for (b, set_b) in distinct.iter().enumerate() {
                    if 2 * set_a.intersection(set_b).count() >= set_a.union(set_b).count() {
                        names[a] = names[a].min(names[b]);
                    }
                }
            }
            if names == before {
                break;
            }
        }
        prop_assert_eq!(backfilled(&rule, &pages_of(&rule, sets, 0), 4096).clusters(), names);
    }
}

/// Lost once: a common shingle nominated documents that came after it was common, where its list held fewer documents
/// than may nominate. Pages were joined that the stream keeps apart.
#[test]
fn a_common_shingle_nominates_only_documents_of_its_list() {
    let cluster = MatchRule { min_shared: 1, common_limit: 3, ignore_common: false, ..MatchRule::default() };
    let rule = rule(0, cluster);
    let sets = [&[0, 30][..], &[1, 30], &[27, 30, 37, 38], &[5, 7, 8, 13, 30], &[30], &[22, 30]];
    let pages = pages_of(&rule, sets.map(|set| set.iter().copied().collect()).into(), 0);
    assert_eq!(backfilled(&rule, &pages, 4096).clusters(), streamed(&rule, &pages).1);
}

/// A byte that changes on disk between two phases is an error in every file, and never a reason for other clusters.
#[test]
fn a_damaged_file_is_an_error() {
    let rule = rule(0, MatchRule::default());
    for name in ["documents", "row-offsets", "pages"] {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut checkpoint, context) = open_checkpoint(folder.path(), &rule, 1 << 20);
        let pages = (0..50).map(|number| page(&rule, number, (number as u64..number as u64 + 9).collect(), 0));
        ingest_sketched(&mut checkpoint, &context, sketched_chunks("synthetic", pages)).expect("taken in");
        let path = context.folder.join(format!("{name}-0000"));
        let mut bytes = std::fs::read(&path).expect("a file");
        let middle = bytes.len() / 3;
        bytes[middle] ^= 0x10;
        std::fs::write(&path, bytes).expect("written");
        let store = folder.path().join("made");
        let error = cluster_and_load(checkpoint, &context, None, &MemoryLoader::default(), &store, Handover::default())
            .expect_err(name);
        assert!(matches!(&error, BackfillError::Damaged(damaged) if *damaged == path), "{name}: {error}");
    }
}

/// 20,000 pages that differ in one shingle of twenty become one cluster after about as many comparisons.
#[test]
fn a_large_family_costs_as_much_as_it_has_pages() {
    let rule = rule(16, MatchRule::default());
    let family = (0..20_000u64).map(|number| (0..19).chain([1000 + number]).collect()).collect();
    let pages = pages_of(&rule, family, 4);
    let loaded = backfilled(&rule, &pages, 64 << 20);
    assert!(loaded.clusters().iter().all(|name| *name == 1));
}

#[test]
fn too_little_memory_says_how_much_is_needed() {
    let folder = tempfile::tempdir().expect("a folder");
    let rule = rule(0, MatchRule::default());
    let (mut checkpoint, context) = open_checkpoint(folder.path(), &rule, 1000);
    let pages = (0..50).map(|number| page(&rule, number, [number as u64].into(), 0));
    let error =
        ingest_sketched(&mut checkpoint, &context, sketched_chunks("synthetic", pages)).expect_err("too little");
    assert!(matches!(error, BackfillError::MemoryLimit { n_documents: 20, .. }), "{error}");
}
