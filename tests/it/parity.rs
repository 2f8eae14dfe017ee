//! The same pages form the same clusters: in any order, batch and number of threads, and as plain references find
//! them.

use crate::harness::{Partition, World, check_events, fold, page_key, root, sweeps};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::BufRead;
use std::path::{Path, PathBuf};

fn records(sources: &[PathBuf], counts: &[i64]) -> BTreeMap<String, i64> {
    sources.iter().map(|path| path.display().to_string()).zip(counts.iter().copied()).collect()
}

const SWEEP_COUNTS: [i64; 3] = [164, 255, 227];

#[test]
fn order_batching_and_threads_do_not_matter() {
    let reference = World::new();
    reference.run(&sweeps());
    let expected = reference.partition();
    assert_eq!(expected.iter().map(BTreeSet::len).sum::<usize>(), 646);
    for (order, batch, sketchers) in
        [([2, 1, 0], 1024, 1), ([1, 0, 2], 7, 2), ([0, 2, 1], 1, 3), ([0, 1, 2], 100_000, 2)]
    {
        let world = World::new().with("pipeline.batch_records_max", batch).with("pipeline.sketchers", sketchers);
        let inputs = order.map(|at: usize| sweeps()[at].clone());
        world.run(&inputs);
        assert_eq!(world.partition(), expected, "{order:?} in batches of {batch}");
        check_events(&world.events(), &records(&sweeps(), &SWEEP_COUNTS));
        assert_eq!(fold(&world.events()), expected, "the events tell the same");
    }
}

#[test]
fn sweep_after_sweep_is_the_same_as_all_at_once() {
    let (at_once, one_by_one) = (World::new(), World::new());
    at_once.run(&sweeps());
    for sweep in sweeps() {
        one_by_one.run(&[sweep]);
    }
    assert_eq!(one_by_one.partition(), at_once.partition());
    assert_eq!(one_by_one.events(), at_once.events());
}

#[test]
fn equal_inputs_give_equal_bytes_whatever_the_batches() {
    let bytes = |world: World| {
        world.run(&sweeps());
        std::fs::read(world.path("events.jsonl")).expect("events")
    };
    let expected = bytes(World::new());
    assert!(bytes(World::new().with("pipeline.batch_records_max", 13).with("pipeline.sketchers", 4)) == expected);
    assert!(bytes(World::new().with("pipeline.batch_records_max", 1).with("pipeline.sketchers", 1)) == expected);
    for (batch, threads) in [(1, 8), (13, 1), (13, 5), (1024, 2), (1024, 8), (64, 3)] {
        let world = World::new().with("pipeline.batch_records_max", batch).with("pipeline.sketchers", threads);
        let world = world.with("pipeline.look_ups", threads).with("pipeline.encoders", threads);
        assert!(bytes(world) == expected, "batches of {batch}, {threads} threads");
    }
    // Without memory for the newest postings, every batch makes a run of its own.
    assert!(bytes(World::new().with("pipeline.batch_records_max", 50).with("store.posting_buffer_mib", 0)) == expected);
}

/// Lost once: most pages, if there was no output, and with them the soundness of the store.
#[test]
fn running_without_output_changes_no_cluster() {
    let heard = World::new();
    heard.run(&sweeps());
    for (batch, posting_buffer_mib) in [(1024, 192), (7, 0)] {
        let unheard =
            World::new().with("pipeline.batch_records_max", batch).with("store.posting_buffer_mib", posting_buffer_mib);
        for inputs in [&sweeps()[..1], &sweeps()] {
            let status = unheard.run_unheard_command(inputs).status().expect("the program starts");
            assert!(status.success());
            assert!(unheard.command("verify").output().expect("starts").status.success(), "the store is not sound");
        }
        assert_eq!(unheard.partition(), heard.partition(), "batches of {batch}");
    }
}

/// More shingles find pages inside others, and nothing else changes, not a byte of the events.
#[test]
fn an_index_of_mod_shingles_changes_no_cluster() {
    let (off, on) = (World::new(), World::new().with("sketch.index_modulus", 25));
    for world in [&off, &on] {
        world.run(&sweeps());
    }
    assert_eq!(on.partition(), off.partition());
    let events = [&off, &on].map(|world| std::fs::read(world.path("events.jsonl")).expect("events"));
    assert!(events[0] == events[1], "the events differ");
}

/// A page of `canon.jsonl.zst`. Its words are separated already, so that the test shingles it without the library.
struct Canonical {
    key: String,
    words: Vec<String>,
}

fn zstd_lines(path: &Path) -> impl Iterator<Item = String> {
    let file = std::fs::File::open(path).expect("a file");
    let decoder = zstd::Decoder::new(file).expect("zstd");
    std::io::BufReader::new(decoder).lines().map(|line| line.expect("a line"))
}

fn canonical(path: &Path) -> Vec<Canonical> {
    let page = |line: String| {
        let page: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        let field = |name: &str| page[name].as_str().unwrap_or_default().to_string();
        Canonical {
            key: page_key(&field("url"), &field("fetched_at"), &field("sweep")),
            words: field("body").split_whitespace().map(String::from).collect(),
        }
    };
    zstd_lines(path).map(page).collect()
}

/// The plain reference: sets of shingles as strings, every pair with a common shingle, breadth-first search.
fn reference(pages: &[Canonical]) -> Partition {
    let sets: Vec<BTreeSet<String>> =
        pages.iter().map(|page| page.words.windows(10).map(|words| words.join(" ")).collect()).collect();
    let mut pages_of: HashMap<&str, Vec<usize>> = HashMap::new();
    for (page, set) in sets.iter().enumerate() {
        for shingle in set {
            pages_of.entry(shingle).or_default().push(page);
        }
    }
    let mut links: Vec<Vec<usize>> = vec![Vec::new(); pages.len()];
    for (page, set) in sets.iter().enumerate() {
        let mut common: HashMap<usize, usize> = HashMap::new();
        for other in set.iter().flat_map(|shingle| &pages_of[shingle.as_str()]) {
            *common.entry(*other).or_default() += 1;
        }
        let resembles = |(other, n): &(usize, usize)| 2 * n >= set.len() + sets[*other].len() - n;
        links[page].extend(common.into_iter().filter(resembles).map(|(other, _)| other));
    }
    // Pages too short for a shingle belong with those of the same words.
    let mut short: HashMap<&[String], usize> = HashMap::new();
    for (page, canonical) in pages.iter().enumerate().filter(|(page, _)| sets[*page].is_empty()) {
        let first = *short.entry(&canonical.words).or_insert(page);
        links[page].push(first);
        links[first].push(page);
    }
    components(&links)
        .into_iter()
        .map(|component| component.into_iter().map(|page| pages[page].key.clone()).collect())
        .collect()
}

fn components(links: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut seen = vec![false; links.len()];
    let mut components = Vec::new();
    for first in 0..links.len() {
        if std::mem::replace(&mut seen[first], true) {
            continue;
        }
        let (mut component, mut next) = (vec![first], 0);
        while next < component.len() {
            for other in &links[component[next]] {
                if !std::mem::replace(&mut seen[*other], true) {
                    component.push(*other);
                }
            }
            next += 1;
        }
        components.push(component);
    }
    components
}

#[test]
fn the_exact_profile_agrees_with_the_plain_reference() {
    let canon = root().join("bench-data/exact/canon.jsonl.zst");
    let world = World::new().with_config("exact.toml");
    world.run(std::slice::from_ref(&canon));
    assert_eq!(world.partition(), reference(&canonical(&canon)));
}

/// The clusters that another author's program in another language found, and the keys of the pages in them.
fn truth_of(exact: &Path) -> Partition {
    let column = |name: &str, field: &str| -> Vec<String> {
        let file = std::fs::File::open(exact.join(name)).expect("a file");
        let mut rows = csv::Reader::from_reader(zstd::Decoder::new(file).expect("zstd"));
        let at = rows.headers().expect("headers").iter().position(|name| name == field).expect(field);
        rows.records().map(|row| row.expect("a row")[at].to_string()).collect()
    };
    let keys: HashMap<(String, String), String> = canonical(&exact.join("canon.jsonl.zst"))
        .into_iter()
        .map(|page| {
            let mut parts = page.key.split(' ');
            let (url, _, sweep) = (parts.next(), parts.next(), parts.next());
            ((url.expect("url").to_string(), sweep.expect("sweep").to_string()), page.key.clone())
        })
        .collect();
    let mut truth: HashMap<String, BTreeSet<String>> = HashMap::new();
    let pages = column("sets.csv.zst", "url").into_iter().zip(column("sets.csv.zst", "sweep"));
    for (page, cluster) in pages.zip(column("clusters.csv.zst", "cluster")) {
        truth.entry(cluster).or_default().insert(keys[&page].clone());
    }
    truth.into_values().collect()
}

#[test]
fn the_exact_profile_agrees_with_the_shipped_truth() {
    let world = World::new().with_config("exact.toml");
    world.run(&sweeps());
    assert_eq!(world.partition(), truth_of(&root().join("bench-data/exact")));
}

/// `LOOKALIKE_TEST_EXACT=DIR:DIR` names folders with a canon.jsonl.zst and its truth, as in bench-data/exact.
#[test]
fn the_exact_profile_agrees_with_the_truth_of_larger_sets() {
    let Ok(folders) = std::env::var("LOOKALIKE_TEST_EXACT") else {
        println!("skipped: LOOKALIKE_TEST_EXACT names no folders");
        return;
    };
    for exact in std::env::split_paths(&folders) {
        let world = World::new().with_config("exact.toml");
        world.run(&[exact.join("canon.jsonl.zst")]);
        let (found, truth) = (world.partition(), truth_of(&exact));
        println!("{}: {} clusters of {} in truth", exact.display(), found.len(), truth.len());
        assert_eq!(found.difference(&truth).count(), 0, "{}: clusters that are none", exact.display());
        assert_eq!(found.len(), truth.len());
    }
}

/// Precision, recall and F1 over pairs of pages in one cluster.
fn f1(found: &Partition, truth: &Partition) -> f64 {
    let cluster_of = |partition: &Partition| -> HashMap<String, usize> {
        partition.iter().enumerate().flat_map(|(at, set)| set.iter().map(move |key| (key.clone(), at))).collect()
    };
    let (of_found, of_truth) = (cluster_of(found), cluster_of(truth));
    let pairs = |sizes: &mut dyn Iterator<Item = usize>| sizes.map(|n| n * (n - 1) / 2).sum::<usize>() as f64;
    let mut both: HashMap<(usize, usize), usize> = HashMap::new();
    for (key, at) in &of_found {
        *both.entry((*at, of_truth[key])).or_default() += 1;
    }
    let both = pairs(&mut both.into_values());
    2.0 * both / (pairs(&mut found.iter().map(BTreeSet::len)) + pairs(&mut truth.iter().map(BTreeSet::len)))
}

#[test]
fn the_sampled_profiles_come_near_the_truth() {
    let canon = root().join("bench-data/exact/canon.jsonl.zst");
    let truth = reference(&canonical(&canon));
    for (profile, least) in [("default.toml", 0.98), ("accurate.toml", 0.99), ("paper-1997.toml", 0.85)] {
        let world = World::new().with_config(profile);
        world.run(std::slice::from_ref(&canon));
        let f1 = f1(&world.partition(), &truth);
        assert!(f1 >= least, "{profile}: F1 is {f1}, should be {least} or more");
    }
}
