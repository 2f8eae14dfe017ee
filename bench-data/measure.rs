//! Measures what super shingles and mod shingles find, against exact truth, in order to choose their settings.
//!
//! ```sh
//! cargo run --release --no-default-features --example measure -- [--seeds N] [FOLDER]…
//! ```
//! A folder contains `canon.jsonl.zst`, `sets.csv.zst`, `pairs.csv.zst` and `containment.csv.zst`, or a folder
//! `exact` that does; the default is `bench-data`. Only the first document of each distinct set of shingles counts.

use lookalike::document::{CanonicalForm, Seed};
use lookalike::sketch::{ModCounts, Shingle, SketchRule, SketchedContent, Sketcher, compare};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A pair of documents, the smaller number first.
type Pair = (usize, usize);

const SUPER_LENGTHS: [usize; 5] = [4, 6, 8, 12, 16];
const SUPER_COUNTS: [usize; 3] = [2, 4, 8];
const MODULI: [u64; 3] = [25, 50, 100];

/// Pairs whose smaller document has fewer shingles than this, and their name.
const SIZES: [(&str, u32); 3] = [("all", u32::MAX), ("< 100", 100), ("< 50", 50)];

/// Documents and the truth about them.
struct Corpus {
    name: String,
    /// Document → its text and its number of distinct shingles.
    documents: HashMap<usize, (CanonicalForm, u32)>,
    /// Pairs of r ≥ 0.3 → r.
    resemblances: HashMap<Pair, f64>,
    /// Pairs with a containment of 0.9 or more → r.
    contained: Vec<(Pair, f64)>,
}

fn main() -> Result<()> {
    let (n_seeds, folders) = arguments()?;
    for folder in folders {
        let corpus = Corpus::read(&folder)?;
        println!("\n{}: {} distinct documents, {n_seeds} seeds", corpus.name, corpus.documents.len());
        let seeds: Vec<Seed> = (1..=n_seeds).map(|n| Seed([n, 2, 3, 4])).collect();
        super_shingles(&corpus, &seeds);
        containment(&corpus, &seeds);
    }
    Ok(())
}

fn arguments() -> Result<(u64, Vec<PathBuf>)> {
    let (mut n_seeds, mut folders) = (3, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--seeds" {
            n_seeds = arguments.next().ok_or("--seeds needs a number")?.parse()?;
        } else {
            folders.push(PathBuf::from(argument));
        }
    }
    if folders.is_empty() {
        folders.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("bench-data"));
    }
    Ok((n_seeds, folders))
}

impl Corpus {
    fn read(folder: &Path) -> Result<Self> {
        let exact = folder.join("exact");
        let at = if exact.is_dir() { exact.as_path() } else { folder };
        let sets = rows(&at.join("sets.csv.zst"))?;
        let is_first: HashMap<usize, u32> = sets
            .iter()
            .filter(|row| row[0] == row[1] && row[3] > 0.0)
            .map(|row| (row[0] as usize, row[3] as u32))
            .collect();
        let mut documents = HashMap::new();
        for (number, line) in lines(&at.join("canon.jsonl.zst"))?.enumerate() {
            if let Some(n_shingles) = is_first.get(&number) {
                let page: serde_json::Value = serde_json::from_str(&line?)?;
                let body = page["body"].as_str().ok_or("a page without a body")?;
                documents.insert(number, (CanonicalForm::from_text(body), *n_shingles));
            }
        }
        let pairs = |name: &str| -> Result<Vec<(Pair, f64)>> {
            Ok(rows(&at.join(name))?.iter().map(|row| (ordered(row[0] as usize, row[1] as usize), row[2])).collect())
        };
        Ok(Corpus {
            name: folder.display().to_string(),
            documents,
            resemblances: pairs("pairs.csv.zst")?.into_iter().collect(),
            contained: pairs("containment.csv.zst")?,
        })
    }

    /// Sketches every document under a rule.
    fn sketched(&self, rule: &SketchRule, seed: &Seed) -> HashMap<usize, SketchedContent> {
        let mut sketcher = Sketcher::new(rule, seed);
        self.documents.iter().map(|(number, (form, _))| (*number, sketcher.sketch_form(form))).collect()
    }

    fn resemblance(&self, pair: &Pair) -> f64 {
        self.resemblances.get(pair).copied().unwrap_or(0.0)
    }

    /// The number of shingles of a pair's smaller document.
    fn smaller(&self, (a, b): &Pair) -> u32 {
        self.documents[a].1.min(self.documents[b].1)
    }
}

fn lines(path: &Path) -> Result<impl Iterator<Item = std::io::Result<String>>> {
    let file = std::fs::File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut decoder = zstd::Decoder::new(file)?;
    // The canonical pages are compressed with a long window.
    decoder.window_log_max(27)?;
    Ok(BufReader::new(decoder).lines())
}

/// The leading columns, which are numbers; text comes last in these files.
fn rows(path: &Path) -> Result<Vec<Vec<f64>>> {
    let numbers = |line: String| line.split(',').map_while(|field| field.parse().ok()).collect();
    lines(path)?.skip(1).map(|line| Ok(numbers(line?))).collect()
}

fn ordered(a: usize, b: usize) -> Pair {
    (a.min(b), a.max(b))
}

fn percent(part: usize, whole: usize) -> String {
    if whole == 0 { "–".into() } else { format!("{:.1}", 100.0 * part as f64 / whole as f64) }
}

/// Pairs that share at least `needed` of their keys.
fn sharing<'a>(keys: impl Iterator<Item = (usize, &'a [Shingle])>, needed: usize) -> HashSet<Pair> {
    let mut lists: HashMap<Shingle, BTreeSet<usize>> = HashMap::new();
    for (number, keys) in keys {
        for key in keys {
            lists.entry(*key).or_default().insert(number);
        }
    }
    let mut shared: HashMap<Pair, usize> = HashMap::new();
    for list in lists.values() {
        for (at, a) in list.iter().enumerate() {
            list.iter().skip(at + 1).for_each(|b| *shared.entry((*a, *b)).or_default() += 1);
        }
    }
    shared.into_iter().filter(|(_, n)| *n >= needed).map(|(pair, _)| pair).collect()
}

/// What a way of nominating finds: pairs of r ≥ 0.9 by size, and pairs of r < 0.5.
#[derive(Default)]
struct Nominated {
    found: [usize; SIZES.len()],
    wanted: [usize; SIZES.len()],
    wrong: [usize; SIZES.len()],
}

impl Nominated {
    fn add(&mut self, corpus: &Corpus, nominated: &HashSet<Pair>) {
        for (at, (_, limit)) in SIZES.into_iter().enumerate() {
            let is_of_size = |pair: &Pair| corpus.smaller(pair) < limit;
            let alike = corpus.resemblances.iter().filter(|(pair, r)| **r >= 0.9 && is_of_size(pair));
            for (pair, _) in alike {
                self.wanted[at] += 1;
                self.found[at] += usize::from(nominated.contains(pair));
            }
            let is_wrong = |pair: &&Pair| is_of_size(pair) && corpus.resemblance(pair) < 0.5;
            self.wrong[at] += nominated.iter().filter(is_wrong).count();
        }
    }

    fn print(&self, name: &str, corpus: &Corpus, seeds: &[Seed]) {
        print!("  {name:<22}");
        for at in 0..SIZES.len() {
            let per_thousand = 1000.0 * self.wrong[at] as f64 / (corpus.documents.len() * seeds.len()) as f64;
            print!(" {:>7} {per_thousand:>8.1}  ", percent(self.found[at], self.wanted[at]));
        }
        println!();
    }
}

/// Prints the recall of pairs of r ≥ 0.9 and the wrong nominations, by length and number, next to those of the
/// index shingles.
fn super_shingles(corpus: &Corpus, seeds: &[Seed]) {
    let headings = SIZES.map(|(size, _)| format!("{size:>7} shingles   "));
    println!("  pairs of r ≥ 0.9 found, in %, and pairs of r < 0.5 nominated for 1000 documents; smaller document:");
    println!("  {:<22} {}", "", headings.join(""));
    for length in SUPER_LENGTHS {
        let mut of_counts = SUPER_COUNTS.map(|_| Nominated::default());
        for seed in seeds {
            let most = SUPER_COUNTS[SUPER_COUNTS.len() - 1];
            let rule = SketchRule { super_shingle_length: length, super_shingles: most, ..SketchRule::default() };
            let contents = corpus.sketched(&rule, seed);
            for (count, nominated) in SUPER_COUNTS.iter().zip(&mut of_counts) {
                // A smaller number keeps the smallest of a larger one.
                let keys = contents.iter().map(|(number, content)| {
                    let supers = content.super_shingles.as_slice();
                    (*number, &supers[..supers.len().min(*count)])
                });
                nominated.add(corpus, &sharing(keys, 1));
            }
        }
        for (count, nominated) in SUPER_COUNTS.iter().zip(&of_counts) {
            nominated.print(&format!("length {length}, {count} kept"), corpus, seeds);
        }
    }
    let mut nominated = Nominated::default();
    for seed in seeds {
        nominated.add(corpus, &by_index(&corpus.sketched(&SketchRule::default(), seed), 4));
    }
    nominated.print("16 smallest, 4 shared", corpus, seeds);
}

/// Pairs that the index of the smallest shingles finds.
fn by_index(contents: &HashMap<usize, SketchedContent>, needed: usize) -> HashSet<Pair> {
    let size = SketchRule::default().index_size;
    let keys = |content: &SketchedContent| content.index.len().min(size);
    sharing(contents.iter().map(|(number, content)| (*number, &content.index[..keys(content)])), needed)
}

/// How many of the contained pairs mod shingles find.
#[derive(Default)]
struct Contained {
    n_pairs: usize,
    sharing_one: usize,
    sharing_two: usize,
    estimated: usize,
}

impl Contained {
    fn print(&self, name: &str) {
        let [one, two, estimated] =
            [self.sharing_one, self.sharing_two, self.estimated].map(|n| percent(n, self.n_pairs));
        println!("  {name:<34} {:>7}  {one:>7} {two:>7} {estimated:>12}", self.n_pairs);
    }
}

/// Prints the recall of pairs of containment 0.9 or more, by modulus; also separately for pairs of r < 0.5, which
/// no clustering joins.
fn containment(corpus: &Corpus, seeds: &[Seed]) {
    println!("  pairs of containment ≥ 0.9 found, in %");
    println!("  {:<34} {:>7}  {:>7} {:>7} {:>12}", "", "pairs", "1 shared", "2 shared", "estimated ≥ 0.8");
    for below in [f64::INFINITY, 0.5] {
        let name = if below < 1.0 { "r < 0.5" } else { "all" };
        let pairs: Vec<Pair> = corpus.contained.iter().filter(|(_, r)| *r < below).map(|(pair, _)| *pair).collect();
        for modulus in MODULI {
            let mut counted = Contained::default();
            let rule = SketchRule { index_modulus: modulus, ..SketchRule::default() };
            for seed in seeds {
                let contents = corpus.sketched(&rule, seed);
                pairs.iter().for_each(|(a, b)| count(&mut counted, &contents[a], &contents[b], &rule));
            }
            counted.print(&format!("{name}, mod {modulus}"));
        }
        let mut counted = Contained::default();
        for seed in seeds {
            let contents = corpus.sketched(&SketchRule::default(), seed);
            let [one, two] = [1, 2].map(|needed| by_index(&contents, needed));
            counted.n_pairs += pairs.len();
            counted.sharing_one += pairs.iter().filter(|pair| one.contains(pair)).count();
            counted.sharing_two += pairs.iter().filter(|pair| two.contains(pair)).count();
        }
        counted.print(&format!("{name}, 16 smallest"));
    }
}

/// Adds one pair. It counts as estimated if it is a candidate and its estimate is at least 0.9.
fn count(counted: &mut Contained, a: &SketchedContent, b: &SketchedContent, rule: &SketchRule) {
    let shared = a.mod_shingles.iter().filter(|shingle| b.mod_shingles.binary_search(shingle).is_ok()).count();
    let counts = ModCounts {
        n_first: a.mod_shingles.len() as u32,
        n_second: b.mod_shingles.len() as u32,
        n_shared: shared as u32,
    };
    let estimate = compare(&a.sketch, &b.sketch, rule.rule).refined(&a.sketch, &b.sketch, counts);
    let containment = estimate.containment_of_first.max(estimate.containment_of_second);
    counted.n_pairs += 1;
    counted.sharing_one += usize::from(shared >= 1);
    counted.sharing_two += usize::from(shared >= 2);
    counted.estimated += usize::from(shared >= 1 && containment >= 0.8);
}
