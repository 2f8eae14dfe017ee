//! The paper's batch at the paper's size: synthetic sketches with the structure of its crawl go through all phases
//! but the first. The clusters of the store must be exactly the synthetic ones.
//!
//! ```sh
//! cargo run --release --example bench_paper -- [--documents N] [--memory MIB] [--folder DIR] [--keep]
//! ```
//! In 30 million pages Broder et al. found 3.6 million clusters of 12.3 million documents. Of these, 2.1 million
//! clusters of 5.3 million documents held identical documents only (1997, section 5). With N documents (1,000,000 by
//! default) all numbers shrink alike. Every document has 20 shingles, and all of them are indexed. Copies are not
//! eliminated before, so that all of them go through every phase. Members of the other clusters differ from each
//! other in up to four shingles. Members lie scattered over the whole crawl. One document in twenty has a shingle
//! that a hundred strangers share.

use lookalike::backfill::{self, BackfillSpec, Checkpoint, Context, Handover};
use lookalike::cluster::MatchRule;
use lookalike::document::{CANONICAL_VERSION, DocumentId, FetchTime, Fingerprint, Seed};
use lookalike::intake::SketchedPage;
use lookalike::ports::{Snapshot, StoreRule};
use lookalike::sketch::{Equivalences, Rule, Sketch, SketchForm, SketchRule, SketchedContent};
use lookalike::store::{RocksLoader, RocksStore, Settings};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The program's.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const SHINGLES: usize = 20;
/// The default of `backfill.checkpoint_ms`.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(5);
const SHINGLE_BITS: u32 = 40;

/// The paper's numbers.
const PAPER: Numbers = Numbers {
    documents: 30_000_000,
    identical: Clusters { clusters: 2_100_000, documents: 5_300_000 },
    similar: Clusters { clusters: 1_500_000, documents: 7_000_000 },
};

/// The size of the largest family. Above the common limit of 1000, shingles alone would not find it.
const LARGEST: u64 = 900;

/// One document in so many shares a shingle with strangers, and with so many of them.
const WITH_STRANGERS: u64 = 20;
const STRANGERS: u64 = 100;

#[derive(Clone, Copy)]
struct Numbers {
    documents: u64,
    identical: Clusters,
    similar: Clusters,
}

#[derive(Clone, Copy)]
struct Clusters {
    clusters: u64,
    documents: u64,
}

impl Clusters {
    fn scaled(self, n: u64) -> Self {
        let scaled = |number: u64| number * n / PAPER.documents;
        Clusters { clusters: scaled(self.clusters).max(1), documents: scaled(self.documents).max(4) }
    }

    /// The sizes of the clusters: one large family, and the others as even as possible.
    fn sizes(self) -> impl Iterator<Item = u64> {
        let others = self.clusters - 1;
        let largest = LARGEST.min(self.documents - 2 * others);
        let rest = self.documents - largest;
        let even = move |at: u64| rest / others + u64::from(at < rest % others);
        std::iter::once(largest).chain((0..others).map(even))
    }
}

/// A synthetic crawl.
struct Crawl {
    n: u64,
    /// Member → cluster. Members are numbered cluster by cluster.
    cluster_of: Vec<u32>,
    /// Clusters below this number hold identical documents.
    n_identical: u32,
    /// Documents are this many members apart.
    step: u64,
}

impl Crawl {
    fn new(n: u64) -> Self {
        let (identical, similar) = (PAPER.identical.scaled(n), PAPER.similar.scaled(n));
        let mut cluster_of = Vec::new();
        for (cluster, size) in (0..).zip(identical.sizes().chain(similar.sizes())) {
            cluster_of.extend((0..size).map(|_| cluster));
        }
        // With a prime step the documents visit every member once, and neighbours are far apart.
        let step = [7_368_787, 15_485_863, 32_452_843].into_iter().find(|prime| !n.is_multiple_of(*prime)).unwrap_or(1);
        Crawl { n, cluster_of, n_identical: identical.clusters as u32, step }
    }

    fn member(&self, document: u64) -> u64 {
        (document * self.step + 12_345) % self.n
    }

    fn cluster(&self, document: u64) -> Option<u32> {
        self.cluster_of.get(self.member(document) as usize).copied()
    }

    /// A document's shingles, ascending.
    fn shingles(&self, document: u64) -> Vec<u64> {
        let member = self.member(document);
        let (family, is_similar) = match self.cluster(document) {
            Some(cluster) => (u64::from(cluster), cluster >= self.n_identical),
            None => (1 << 40 | member, false),
        };
        let shingle = |of: u64, at: u64| mixed(of << 8 | at) >> (64 - SHINGLE_BITS);
        let mut shingles: Vec<u64> = (0..SHINGLES as u64).map(|at| shingle(family, at)).collect();
        let die = mixed(member | 2 << 56);
        if is_similar {
            shingles[die as usize % 10] = shingle(1 << 42 | member, 0);
            shingles[10 + (die >> 8) as usize % 10] = shingle(1 << 42 | member, 1);
        }
        if self.cluster(document).is_none() && die.is_multiple_of(WITH_STRANGERS) {
            let n_strange = (self.n / WITH_STRANGERS / STRANGERS).max(1);
            shingles[0] = shingle((1 << 44) | ((die >> 16) % n_strange), 0);
        }
        shingles.sort_unstable();
        shingles.dedup();
        shingles
    }

    fn page(&self, document: u64) -> SketchedPage {
        let values = self.shingles(document);
        let key = |purpose: u64| {
            Fingerprint(
                u128::from(mixed(document << 2 | purpose)) << 64 | u128::from(mixed(!(document << 2 | purpose))),
            )
        };
        let content = SketchedContent {
            equivalences: Equivalences { identical: key(0), lexical: key(1), shingle: Some(key(2)) },
            index: values.clone(),
            mod_shingles: Vec::new(),
            super_shingles: Vec::new(),
            n_words: 200,
            n_bytes: 5_000,
            sketch: Arc::new(Sketch {
                n_shingles: values.len() as u32,
                form: SketchForm::Sample { values, bound: 1 << SHINGLE_BITS },
                confirmation: None,
            }),
        };
        SketchedPage {
            url: format!("http://host-{}.example/page-{document}.html", document % 600_000),
            fetched_at: FetchTime(850_000_000_000_000 + document as i64 * 1000),
            sweep: Some("1996-04".into()),
            content: Some(Arc::new(content)),
            redirect_to: None,
            said: None,
            text: None,
        }
    }
}

/// The mixer of SplitMix64.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

struct Arguments {
    documents: u64,
    memory_mib: u64,
    folder: PathBuf,
    keep: bool,
}

fn arguments() -> Result<Arguments> {
    let mut arguments = Arguments {
        documents: 1_000_000,
        memory_mib: (backfill::machine_memory() / 3) >> 20,
        folder: std::env::temp_dir().join("lookalike-bench-paper"),
        keep: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--documents" => arguments.documents = value()?.parse()?,
            "--memory" => arguments.memory_mib = value()?.parse()?,
            "--folder" => arguments.folder = value()?.into(),
            "--keep" => arguments.keep = true,
            other => return Err(format!("unknown argument {other}").into()),
        }
    }
    if arguments.documents < 1000 {
        return Err("--documents must be 1000 or more".into());
    }
    Ok(arguments)
}

fn main() -> Result<()> {
    let Arguments { documents, memory_mib, folder, keep } = arguments()?;
    let rule = StoreRule {
        canonical_version: CANONICAL_VERSION,
        canonical: Default::default(),
        sketch: SketchRule { rule: Rule::All, index_size: 0, super_shingles: 0, ..SketchRule::default() },
        cluster: MatchRule::default(),
    };
    let (work_folder, store) = (folder.join("work"), folder.join("store"));
    std::fs::create_dir_all(&folder)?;
    let memory = memory_mib << 20;
    let reading = format!("{documents} documents");
    let spec = BackfillSpec { rule: rule.clone(), reading, inputs: Vec::new(), events: None };
    let seed = Seed([1, 2, 3, 4]);
    let checkpoint = Checkpoint::open(&work_folder, spec, backfill::part_rows(memory), Some(seed), || seed)?;
    let mut checkpoint = checkpoint.with_interval(CHECKPOINT_INTERVAL);
    let context = Context {
        folder: work_folder,
        n_threads: std::thread::available_parallelism()?.get(),
        memory,
        stop: Arc::default(),
        progress: Arc::default(),
    };
    let crawl = Crawl::new(documents);
    let begin = Instant::now();
    let pages = (0..documents).map(|document| crawl.page(document));
    backfill::ingest_sketched(&mut checkpoint, &context, backfill::sketched_chunks("synthetic", pages))?;
    println!("generated {documents} documents in {:.0} s", begin.elapsed().as_secs_f64());

    let begin = Instant::now();
    let loader = RocksLoader::new(Settings::default(), rule, seed);
    let report = backfill::cluster_and_load(checkpoint, &context, None, &loader, &store, Handover::default())?;
    let seconds = begin.elapsed().as_secs_f64();
    println!("{report}");
    println!("clustered and loaded in {seconds:.1} s: {:.0} documents a second", documents as f64 / seconds);
    let wrong = check(&crawl, &store)?;
    println!("store: {} MiB; documents in a wrong cluster: {wrong}", bytes_of(&store)? >> 20);
    if !keep {
        std::fs::remove_dir_all(&folder)?;
    }
    if wrong == 0 { Ok(()) } else { Err("the clusters differ from the synthetic ones".into()) }
}

/// Counts the documents that are in another cluster than their synthetic one, which its first document names.
fn check(crawl: &Crawl, store: &Path) -> Result<u64> {
    let mut clusters = RocksStore::open_read_only(store, &Settings::default())?.clusters()?;
    let mut first_of: Vec<u32> = vec![0; crawl.cluster_of.last().map_or(0, |last| *last as usize + 1)];
    let mut wrong = crawl.n.abs_diff(clusters.n_documents() as u64);
    for document in 0..crawl.n.min(clusters.n_documents() as u64) {
        let id = document as u32 + 1;
        let name = match crawl.cluster(document) {
            None => id,
            Some(cluster) => {
                let first = &mut first_of[cluster as usize];
                *first = if *first == 0 { id } else { *first };
                *first
            }
        };
        wrong += u64::from(clusters.cluster_of(DocumentId(id)).0 != name);
    }
    Ok(wrong)
}

fn bytes_of(folder: &Path) -> Result<u64> {
    let files = folder.read_dir()?.map(|file| Ok(file?.metadata()?.len()));
    files.collect::<Result<Vec<u64>>>().map(|bytes| bytes.iter().sum())
}
