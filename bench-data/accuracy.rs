//! Measures how close sketch rules come to the exact clusters, and what they cost.
//!
//! ```sh
//! cargo run --release --no-default-features --example accuracy -- [--seeds N] [--each] [--index N/N] [--comparisons N] [--unconfirmed] [--rule RULE]… [FOLDER]…
//! ```
//! `--index 24/5` indexes the 24 smallest shingles and makes documents that share 5 of them candidates. A RULE is
//! `all`, `adaptive:SIZE`, `min:SIZE`, `mod:MODULUS` or `parity:SIZE:ERROR_PER_MILLE`; without one the default is
//! measured. `--comparisons` limits those of a page (0: no limit), `--unconfirmed` makes sketches without
//! confirmations, and `--each` prints every seed. A folder contains `canon.jsonl.zst`, `sets.csv.zst` and
//! `clusters.csv.zst`, or a folder `exact` that does; the default is `bench-data`. F1 is over pairs of documents in
//! one cluster; each distinct set of shingles counts once.

use lookalike::cluster::{BatchIndex, Clusters, Decider, Effects, MatchRule, SketchView, TooManyDocuments, View};
use lookalike::document::{CanonicalForm, DocumentId, Seed};
use lookalike::sketch::{Rule, Shingle, Sketch, SketchRule, Sketcher, encode};
use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let arguments = Arguments::parse()?;
    for folder in &arguments.folders {
        let corpus = Corpus::read(folder)?;
        println!("{}: {} documents, {} seeds", folder.display(), corpus.forms.len(), arguments.n_seeds);
        println!("  {:<20} {:>6} {:>6}  {:>8} {:>9}", "rule", "mean", "worst", "bytes", "compared");
        for (name, rule) in &arguments.rules {
            let (index_size, min_shared) = arguments.index;
            let confirmation = arguments.is_confirmed;
            let rule = SketchRule { rule: *rule, index_size, confirmation, ..SketchRule::default() };
            let comparisons_max = arguments.comparisons_max;
            let matching = MatchRule { min_shared, comparisons_max, ..MatchRule::default() };
            let seeds = (1..=arguments.n_seeds).map(|n| Seed([n, 2, 3, 4]));
            let found: Vec<Measured> =
                seeds.map(|seed| corpus.measure(&rule, &matching, &seed)).collect::<Result<_>>()?;
            let mean = |of: fn(&Measured) -> f64| found.iter().map(of).sum::<f64>() / found.len() as f64;
            let worst = found.iter().map(|measured| measured.f1).fold(1.0, f64::min);
            let (f1, bytes, compared) = (mean(|m| m.f1), mean(|m| m.sketch_bytes), mean(|m| m.compared));
            println!("  {name:<20} {f1:.4} {worst:.4}  {bytes:>8.1} {compared:>9.1}");
            if arguments.is_each_told {
                let each: Vec<String> = found.iter().map(|measured| format!("{:.4}", measured.f1)).collect();
                println!("    {}", each.join(" "));
            }
        }
    }
    Ok(())
}

struct Arguments {
    n_seeds: u64,
    is_each_told: bool,
    /// Index shingles of a document, and how many of them a candidate shares.
    index: (usize, usize),
    comparisons_max: usize,
    is_confirmed: bool,
    rules: Vec<(String, Rule)>,
    folders: Vec<PathBuf>,
}

impl Arguments {
    fn parse() -> Result<Self> {
        let index = (SketchRule::default().index_size, MatchRule::default().min_shared);
        let mut found = Arguments {
            n_seeds: 5,
            is_each_told: false,
            index,
            comparisons_max: MatchRule::default().comparisons_max,
            is_confirmed: true,
            rules: Vec::new(),
            folders: Vec::new(),
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--unconfirmed" => found.is_confirmed = false,
                "--comparisons" => {
                    found.comparisons_max = arguments.next().ok_or("--comparisons needs a number")?.parse()?;
                }
                "--each" => found.is_each_told = true,
                "--seeds" => found.n_seeds = arguments.next().ok_or("--seeds needs a number")?.parse()?,
                "--index" => {
                    let index = arguments.next().ok_or("--index needs two numbers, such as 24/5")?;
                    let (size, shared) = index.split_once('/').ok_or("--index needs two numbers, such as 24/5")?;
                    found.index = (size.parse()?, shared.parse()?);
                }
                "--rule" => {
                    let name = arguments.next().ok_or("--rule needs a rule")?;
                    let rule = rule_of(&name)?;
                    found.rules.push((name, rule));
                }
                folder => found.folders.push(PathBuf::from(folder)),
            }
        }
        if found.rules.is_empty() {
            found.rules.push(("default".into(), SketchRule::default().rule));
        }
        if found.folders.is_empty() {
            found.folders.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("bench-data"));
        }
        Ok(found)
    }
}

fn rule_of(name: &str) -> Result<Rule> {
    let parts: Vec<&str> = name.split(':').collect();
    Ok(match parts.as_slice() {
        ["all"] => Rule::All,
        ["adaptive", size] => Rule::Adaptive { size: size.parse()? },
        ["min", size] => Rule::Min { size: size.parse()? },
        ["mod", modulus] => Rule::Mod { modulus: modulus.parse()? },
        ["parity", size, error] => Rule::Parity { size: size.parse()?, error_per_mille: error.parse()? },
        _ => return Err(format!("{name} is not a rule").into()),
    })
}

/// The documents of a data set, one for each distinct set of shingles, and their exact clusters.
struct Corpus {
    forms: Vec<CanonicalForm>,
    clusters: Vec<u32>,
}

/// The results of one seed.
struct Measured {
    f1: f64,
    /// Bytes of a stored sketch, on average.
    sketch_bytes: f64,
    /// Sketches compared for a document, on average.
    compared: f64,
}

impl Corpus {
    fn read(folder: &Path) -> Result<Self> {
        let exact = folder.join("exact");
        let at = if exact.is_dir() { exact.as_path() } else { folder };
        let (sets, of_page) = (rows(&at.join("sets.csv.zst"))?, rows(&at.join("clusters.csv.zst"))?);
        let (mut forms, mut clusters) = (Vec::new(), Vec::new());
        for ((line, set), cluster) in lines(&at.join("canon.jsonl.zst"))?.zip(&sets).zip(&of_page) {
            let (page, first, n_words) = (set[0], set[1], set[2]);
            if page == first && n_words > 0 {
                let page: serde_json::Value = serde_json::from_str(&line?)?;
                forms.push(CanonicalForm::from_text(page["body"].as_str().ok_or("a page without a body")?));
                clusters.push(cluster[1]);
            }
        }
        Ok(Corpus { forms, clusters })
    }

    /// Adds the documents in their order, as the stream does.
    fn measure(&self, rule: &SketchRule, matching: &MatchRule, seed: &Seed) -> Result<Measured> {
        let mut sketcher = Sketcher::new(rule, seed);
        let mut decider = Decider::new(matching.clone(), rule, Clusters::default(), HashSet::default());
        let (mut known, mut effects, mut view) = (BatchIndex::default(), Effects::default(), Sketches::default());
        let (mut documents, mut bytes) = (Vec::new(), Vec::new());
        for form in &self.forms {
            let content = sketcher.sketch_form(form);
            encode(&content.sketch, &mut bytes);
            let decision = decider.decide(&content, &mut known, &view, &mut effects)?;
            view.0.extend(effects.documents.drain(..).map(|document| document.sketch));
            documents.push(decision.document);
        }
        let found: Vec<u32> = documents.into_iter().map(|document| decider.clusters().cluster_of(document).0).collect();
        let n = self.forms.len() as f64;
        Ok(Measured {
            f1: f1(&found, &self.clusters),
            sketch_bytes: bytes.len() as f64 / n,
            compared: effects.n_compared as f64 / n,
        })
    }
}

/// All sketches so far. The index is never dropped here, so that nothing else is ever read.
#[derive(Default)]
struct Sketches(Vec<Arc<Sketch>>);

impl SketchView for Sketches {
    type Error = TooManyDocuments;

    fn sketches(&self, documents: &[DocumentId]) -> std::result::Result<Vec<Arc<Sketch>>, TooManyDocuments> {
        Ok(documents.iter().map(|document| self.0[document.0 as usize - 1].clone()).collect())
    }
}

impl View for Sketches {
    fn postings(&self, shingles: &[Shingle]) -> std::result::Result<Vec<Vec<DocumentId>>, TooManyDocuments> {
        Ok(vec![Vec::new(); shingles.len()])
    }

    fn supers(&self, shingles: &[Shingle]) -> std::result::Result<Vec<Vec<DocumentId>>, TooManyDocuments> {
        self.postings(shingles)
    }
}

/// The harmonic mean of precision and recall, over pairs in one cluster.
fn f1(found: &[u32], truth: &[u32]) -> f64 {
    let both: Vec<(u32, u32)> = found.iter().copied().zip(truth.iter().copied()).collect();
    2.0 * n_pairs(&both) / (n_pairs(found) + n_pairs(truth))
}

fn n_pairs<T: std::hash::Hash + Eq>(labels: &[T]) -> f64 {
    let mut sizes: HashMap<&T, usize> = HashMap::new();
    labels.iter().for_each(|label| *sizes.entry(label).or_default() += 1);
    sizes.into_values().map(|n| (n * (n - 1) / 2) as f64).sum()
}

fn lines(path: &Path) -> Result<impl Iterator<Item = std::io::Result<String>>> {
    let file = std::fs::File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut decoder = zstd::Decoder::new(file)?;
    // The canonical pages are compressed with a long window.
    decoder.window_log_max(27)?;
    Ok(BufReader::new(decoder).lines())
}

/// The leading columns, which are whole numbers; text comes last in these files.
fn rows(path: &Path) -> Result<Vec<Vec<u32>>> {
    let numbers = |line: String| line.split(',').map_while(|field| field.parse().ok()).collect();
    lines(path)?.skip(1).map(|line| Ok(numbers(line?))).collect()
}
