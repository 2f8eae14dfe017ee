//! Related pages at scale: generated bags of many URLs through all phases of a build after reading.
//!
//! ```sh
//! cargo run --release --example related_scale -- FOLDER N_URLS [MEMORY_MIB [bags|signatures]]
//! ```
//! URLs have topics of 30, of which each takes two thirds of its words, and copies: of ten URLs one has the words of the
//! one before it. Words are drawn by a power law, so that some are frequent.

use lookalike::backfill::related::{self, BuildSpec, KnownUrl, KnownUrls};
use lookalike::backfill::{BackfillError, Checkpoint, Context, PhaseProgress};
use lookalike::document::Seed;
use lookalike::related::{PairFilter, RelatedRule, Term, TermCounts};
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The program's.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const PARTS: usize = 32;
const TOPIC_URLS: u64 = 30;
const TOPIC_WORDS: u64 = 30;
const OWN_WORDS: u64 = 20;
const VOCABULARY: f64 = 3_000_000.0;
const COPY_OF_TEN: u64 = 9;

struct Generated {
    n: u64,
}

fn mix(mut n: u64) -> u64 {
    n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ n >> 31
}

/// A word by its rank: half of all that is drawn are the most frequent of a few thousand.
fn word(random: u64) -> Term {
    let share = (mix(random) >> 11) as f64 / (1u64 << 53) as f64;
    Term(mix(VOCABULARY.powf(share) as u64) as u32)
}

impl Generated {
    fn url(&self, id: u64) -> KnownUrl {
        let source = if id % 10 == COPY_OF_TEN { id - 1 } else { id };
        // The URLs of a topic lie anywhere.
        let topic = mix(source) % self.n.div_ceil(TOPIC_URLS);
        let mut anchors = TermCounts::default();
        for at in 0..TOPIC_WORDS {
            let draw = mix(source << 8 | at);
            if !draw.is_multiple_of(3) {
                *anchors.entry(word(topic << 8 | at | 1 << 60)).or_default() += 1 + (draw >> 32) as u32 % 4;
            }
        }
        for at in 0..OWN_WORDS {
            *anchors.entry(word(source << 8 | at)).or_default() += 1;
        }
        let url = format!("http://host{:06}.example/folder{:03}/page{id:09}.html", id / 1000, id / 50 % 20);
        KnownUrl { url, content: TermCounts::default(), anchors }
    }
}

impl KnownUrls for Generated {
    fn n_parts(&self) -> usize {
        PARTS
    }

    fn read(
        &self,
        part: usize,
        found: &mut dyn FnMut(KnownUrl) -> Result<(), BackfillError>,
    ) -> Result<(), BackfillError> {
        let bound = |part: usize| self.n / 1000 * part as u64 / PARTS as u64 * 1000;
        let end = if part + 1 == PARTS { self.n } else { bound(part + 1) };
        let mut urls: Vec<u64> = (bound(part)..end).collect();
        for of_host in urls.chunk_by_mut(|a, b| a / 1000 == b / 1000) {
            of_host.sort_unstable_by_key(|id| (id / 50 % 20, *id));
        }
        urls.into_iter().try_for_each(|id| found(self.url(id)))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder, n, rest @ ..] = args.as_slice() else {
        return Err("usage: related_scale FOLDER N [MIB [FILTER]]".into());
    };
    let memory = rest.first().map_or(Ok(4096), |mib| mib.parse::<u64>())? << 20;
    let mut rule = RelatedRule::default();
    if rest.get(1).is_some_and(|filter| filter == "signatures") {
        rule.filter = PairFilter::Signatures;
    }
    let folder = PathBuf::from(folder);
    let spec = BuildSpec { rule, reading: String::new(), inputs: Vec::new() };
    let seed = Seed([1, 2, 3, 4]);
    let part_rows = related::part_rows(memory);
    let checkpoint = Checkpoint::open(&folder, spec, part_rows, Some(seed), || seed)?;
    let mut checkpoint = checkpoint.with_interval(Duration::from_secs(1));
    let n_threads = std::thread::available_parallelism()?.get();
    let progress = Arc::new(PhaseProgress::default());
    let context = Context { folder, n_threads, memory, stop: Arc::default(), progress };
    let report = related::build_known(&mut checkpoint, &context, Some(&Generated { n: n.parse()? }))?;
    for phase in &report.phases {
        let used = phase.usage;
        println!(
            "{:<12}{:>9.1} s {:>9.1} CPU s {:>9.1} MiB written {:>9.1} MiB peak",
            phase.phase.paper().0,
            used.wall_seconds,
            used.cpu_seconds,
            used.n_bytes as f64 / f64::from(1 << 20),
            used.peak_memory as f64 / f64::from(1 << 20)
        );
    }
    println!("{:?}", report.sizes);
    Ok(())
}
