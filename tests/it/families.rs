//! Families of pages that break near-duplicate detection elsewhere: copies, templates, chains, pages of a few words.
//!
//! ```sh
//! cargo test --release --test it families                                                # reduced, as in CI
//! LOOKALIKE_TEST_FAMILIES=full cargo test --release --test it families -- --nocapture    # up to a million pages each
//! ```

use crate::harness::{Partition, World, page, text};
use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// The size of a family, reduced or full.
fn size(reduced: usize, full: usize) -> usize {
    if std::env::var("LOOKALIKE_TEST_FAMILIES").is_ok_and(|size| size == "full") { full } else { reduced }
}

/// The result of a run over some pages.
struct Outcome {
    n_documents: u64,
    n_clusters: u64,
    /// Documents in the largest cluster.
    largest: u64,
    n_compared: u64,
    n_limited: u64,
    seconds: f64,
}

fn outcome(world: &World, input: PathBuf, what: &str) -> Outcome {
    let json = |text: &str| -> serde_json::Value { serde_json::from_str(text).expect(text) };
    let output = world.command("run -q --json").arg(&input).output().expect("the program starts");
    assert!(output.status.success(), "{what}: {}", text(&output.stderr));
    let (summary, stats) = (json(&text(&output.stdout)), json(&world.ask("stats", &["--json"])));
    let number = |of: &serde_json::Value, field: &str| of[field].as_u64().unwrap_or_else(|| panic!("{field}: {of}"));
    let outcome = Outcome {
        n_documents: number(&stats, "n_documents"),
        n_clusters: number(&stats, "n_clusters"),
        largest: number(&stats, "n_documents_in_largest_cluster"),
        n_compared: number(&summary, "n_compared"),
        n_limited: number(&summary, "n_limited"),
        seconds: summary["seconds"].as_f64().expect("seconds"),
    };
    println!(
        "{what}: {} pages in {:.1} s, {} documents in {} clusters, the largest holds {}, {:.1} compared a page",
        number(&summary, "n_records"),
        outcome.seconds,
        outcome.n_documents,
        outcome.n_clusters,
        outcome.largest,
        outcome.n_compared as f64 / number(&summary, "n_records") as f64
    );
    std::fs::remove_file(input).expect("removed");
    outcome
}

/// Pages with these texts, each at a URL with its number.
fn pages(world: &World, texts: impl Iterator<Item = String>) -> PathBuf {
    let path = world.path("pages.jsonl");
    let mut file = BufWriter::new(File::create(&path).expect("a file"));
    for (number, text) in texts.enumerate() {
        let line = page(&format!("http://a/{number}"), "2026-01-01T00:00:00Z", "1", &text);
        writeln!(file, "{line}").expect("written");
    }
    file.flush().expect("written");
    path
}

/// A word that depends only on `numbers`.
fn word(numbers: [usize; 3]) -> String {
    let mix = |hash: u64, number: &usize| (hash ^ *number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    format!("w{:x}", numbers.iter().fold(0x1997, mix) >> 24)
}

fn words(family: usize, places: impl Iterator<Item = usize>) -> Vec<String> {
    places.map(|place| word([family, place, 0])).collect()
}

/// The numbers of the pages in each cluster.
fn clusters(world: &World) -> BTreeSet<BTreeSet<usize>> {
    let number = |page: &String| page.split(' ').next().and_then(|url| url["http://a/".len()..].parse().ok());
    let partition: Partition = world.partition();
    partition.iter().map(|cluster| cluster.iter().map(|page| number(page).expect("a number")).collect()).collect()
}

#[test]
fn identical_pages_are_one_document_and_cost_no_comparison() {
    let n = size(5_000, 100_000);
    let world = World::new();
    let body = words(1, 0..300).join(" ");
    let found = outcome(&world, pages(&world, (0..n).map(|_| body.clone())), "identical");
    assert_eq!((found.n_documents, found.n_clusters, found.n_compared), (1, 1, 0));
}

/// Each page has two words of its own; most of their shingles soon become common.
#[test]
fn nearly_identical_pages_are_one_cluster() {
    let n = size(4_000, 10_000);
    let world = World::new().with("pipeline.cluster_size_alarm", 1000);
    let body = |number| {
        let mut words = words(1, 0..300);
        for nth in [1, 2] {
            words[number * nth * 7919 % 300] = word([2, number, nth]);
        }
        words.join(" ")
    };
    let found = outcome(&world, pages(&world, (0..n).map(body)), "nearly identical");
    assert_eq!((found.n_documents, found.n_clusters), (n as u64, 1));
    assert!(found.n_compared < 20 * n as u64);
}

/// The mean resemblance of some pages of a family, from their whole shingle sets.
fn resemblance(path: &PathBuf) -> f64 {
    let text = std::fs::read_to_string(path).expect("pages");
    let sets: Vec<HashSet<String>> = text
        .lines()
        .take(40)
        .map(|line| {
            let page: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let words: Vec<&str> = page["text"].as_str().expect("a text").split_whitespace().collect();
            words.windows(10).map(|words| words.join(" ")).collect()
        })
        .collect();
    let of = |pair: &[HashSet<String>]| {
        let common = pair[0].intersection(&pair[1]).count();
        common as f64 / (pair[0].len() + pair[1].len() - common) as f64
    };
    sets.windows(2).map(of).sum::<f64>() / (sets.len() - 1) as f64
}

/// Lost once: nine tenths or more of a family whose pages resemble each other, because its template's shingles were
/// common and nominated no page. If the pages do not resemble each other, they must not form a cluster. In neither
/// case may the cost of a page grow with the family.
#[test]
fn pages_of_one_template_are_together_only_where_they_resemble_each_other() {
    let n = size(3_000, 1_000_000);
    for (template, words) in [(0.5, 5.5), (0.6, 5.5), (0.6, 7.05), (0.75, 5.5), (0.75, 7.05), (0.9, 5.5)] {
        let world = World::new();
        let path = world.path("pages.jsonl");
        let arguments = format!(
            "--profile small --form text --sweeps 1 --copies 0 --sigma 0 --mu {words} --template {template} \
             --pages {n} --site-pages {n}"
        );
        crate::generate::pages(&arguments, BufWriter::new(File::create(&path).expect("a file"))).expect("pages");
        let sample = world.path("sample.jsonl");
        crate::generate::pages(&format!("{arguments} --pages 40"), File::create(&sample).expect("a file"))
            .expect("pages");
        let r = resemblance(&sample);
        let what = format!("template of {template}, e^{words} words, resemblance {r:.3}");
        let found = outcome(&world, path, &what);
        assert_eq!(found.n_documents, n as u64);
        if r < 0.5 {
            assert!(found.largest <= (n as u64 / 10_000).max(2), "{what}: a false cluster of {}", found.largest);
        } else {
            assert!(found.largest as f64 >= 0.99 * n as f64, "{what}: only {} of {n} are together", found.largest);
        }
        // A family's pages meet each other until its shingles are common, and shingles that index few pages become
        // common late. Measured: 36 a page at 10^5 pages, 25 at 10^6.
        assert!(found.n_compared <= 1_500_000 + 40 * n as u64, "{what}: {} compared", found.n_compared);
    }
}

/// Lost once: the bound on a page's cost. Templates that alternate become common late, so that each page was
/// compared with hundreds of pages of its own template and resembled none of them.
#[test]
fn pages_of_templates_that_take_turns_cost_a_bounded_number_of_comparisons() {
    let n = size(6_000, 1_000_000);
    // Enough templates to keep each under the common limit.
    let n_templates = n / 600;
    let world = World::new();
    let body = |number: usize| {
        let template = words(number % n_templates, 0..110);
        template.into_iter().chain((0..90).map(|place| word([3, number, place]))).collect::<Vec<_>>().join(" ")
    };
    let found = outcome(&world, pages(&world, (0..n).map(body)), "templates that take turns");
    assert_eq!((found.n_documents, found.n_clusters), (n as u64, n as u64));
    assert!(found.n_compared <= COMPARISONS_MAX * n as u64, "{} compared", found.n_compared);
    assert!(found.n_limited > n as u64 / 2, "{} pages met the limit", found.n_limited);
}

/// The default of `cluster.comparisons_max`.
const COMPARISONS_MAX: u64 = 128;

/// The pages of one template do not resemble each other, but each has a version that does; those pairs are
/// clusters. Early pages were indexed by shingles of the template that became common later, some of them by fewer
/// than `min_shared` others: such a page may miss its version.
#[test]
fn versions_of_a_templates_pages_are_found() {
    let n = size(1_500, 100_000);
    let world = World::new();
    let body = |number: usize| {
        let (content, version) = (number % n, number / n);
        let mut all = words(1, 0..150);
        all.extend(words(2 + content, 0..120));
        if version > 0 {
            all[200] = word([0, number, 0]);
        }
        all.join(" ")
    };
    let found = outcome(&world, pages(&world, (0..2 * n).map(body)), "versions of a template's pages");
    assert_eq!((found.n_documents, found.largest), (2 * n as u64, 2));
    assert!(found.n_clusters as f64 <= 1.002 * n as f64, "{} of {n} pages are without their version", found.n_clusters);
}

/// Page k resembles its neighbours (0.6) and no other page (0.33 for the next but one).
fn chain(order: &[usize]) -> impl Iterator<Item = String> {
    order.iter().map(|k| words(1, 25 * k..25 * k + 109).join(" "))
}

#[test]
fn a_chain_is_one_component_but_not_a_star() {
    let along: Vec<usize> = (0..26).collect();
    let back: Vec<usize> = (0..26).rev().collect();
    let from_within: Vec<usize> = (0..26).map(|k| k * 7 % 26).collect();
    for order in [&along, &back] {
        let world = World::new();
        let found = outcome(&world, pages(&world, chain(order)), "chain");
        assert_eq!((found.n_clusters, found.largest), (1, 26));
    }
    // The order determines a star's founder, and so the clusters.
    for (order, n_clusters) in [(&along, 13), (&back, 13)] {
        let world = World::new().with("cluster.policy", "star");
        let found = outcome(&world, pages(&world, chain(order)), "chain, policy star");
        assert_eq!((found.n_clusters, found.largest), (n_clusters, 2));
    }
    let world = World::new().with("cluster.policy", "star");
    outcome(&world, pages(&world, chain(&from_within)), "chain from within, policy star");
    for cluster in clusters(&world) {
        let places: Vec<usize> = cluster.iter().map(|page| from_within[*page]).collect();
        assert!(places.iter().all(|place| place.abs_diff(places[0]) <= 1), "{places:?} do not resemble the first");
    }
    assert!(world.command("verify").output().expect("starts").status.success());
}

/// Where resemblance is transitive, the order does not matter to stars either; batches and threads never do.
#[test]
fn stars_of_families_are_the_same_in_any_order() {
    let body = |number: usize| {
        let mut words = words(number % 40, 0..200);
        words[number % 97] = word([100, number, 0]);
        words.join(" ")
    };
    let run = |step: usize, batch: usize, sketchers: usize| {
        let world = World::new()
            .with("cluster.policy", "star")
            .with("pipeline.batch_records_max", batch)
            .with("pipeline.sketchers", sketchers);
        let order: Vec<usize> = (0..400).map(|nth| nth * step % 400).collect();
        outcome(&world, pages(&world, order.iter().map(|number| body(*number))), "stars");
        let named = |cluster: BTreeSet<usize>| cluster.into_iter().map(|nth| order[nth]).collect::<BTreeSet<_>>();
        clusters(&world).into_iter().map(named).collect::<BTreeSet<_>>()
    };
    let expected: BTreeSet<BTreeSet<usize>> =
        (0..40).map(|family| (0..400).filter(|number| number % 40 == family).collect()).collect();
    for (step, batch, sketchers) in [(1, 1024, 2), (7, 1, 1), (133, 64, 3), (399, 17, 2)] {
        assert_eq!(run(step, batch, sketchers), expected, "step {step}");
    }
}

#[test]
fn a_store_with_another_policy_is_refused() {
    let world = World::new();
    world.run(&crate::harness::sweeps()[..1]);
    let star = world.with("cluster.policy", "star");
    let output = star.run_command(&crate::harness::sweeps()).output().expect("starts");
    assert_eq!(output.status.code(), Some(2));
    let told = text(&output.stderr);
    assert!(told.contains("cluster.policy is \"components\" there and \"star\" here"), "{told}");
    assert!(told.contains("or create a new store"), "{told}");
    // The backfill only forms components, and says so.
    let world = World::new().with("cluster.policy", "star");
    let output = world.command("backfill -q").args(crate::harness::sweeps()).output().expect("starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("recluster --policy star"), "{}", text(&output.stderr));
    assert!(!world.path("store").exists());
}

#[test]
fn a_cluster_that_exceeds_the_alarm_size_is_reported() {
    let told = |alarm: usize| {
        let world = World::new().with("pipeline.cluster_size_alarm", alarm).with("pipeline.batch_records_max", 10);
        let body = |number| {
            let mut words = words(1, 0..200);
            words[number % 97] = word([2, number, 0]);
            words.join(" ")
        };
        let path = pages(&world, (0..100).map(body));
        let output = world.command("run -q").arg(path).output().expect("starts");
        assert!(output.status.success());
        alarms(&text(&output.stderr))
    };
    assert_eq!(told(1000), Vec::<String>::new());
    assert_eq!(told(0), Vec::<String>::new());
    assert_eq!(
        told(20),
        [
            "cluster 1 has grown to 20 documents",
            "cluster 1 has grown to 40 documents",
            "cluster 1 has grown to 80 documents"
        ]
    );
}

fn alarms(log: &str) -> Vec<String> {
    let alarm = |line: &str| Some(line[line.find("cluster 1 has grown")?..].split(" (").next()?.to_string());
    log.lines().filter_map(alarm).collect()
}

/// A page of fewer than ten words has no shingles. It belongs only with pages of the same words.
#[test]
fn pages_shorter_than_a_shingle_belong_with_lexically_equal_ones_only() {
    let n = size(2_000, 100_000);
    let world = World::new();
    let body = |number: usize| match number {
        number if number >= n => format!("One, two, three: {}!", word([1, number - n, 0])),
        number => format!("one two THREE {}", word([1, number, 0])),
    };
    let found = outcome(&world, pages(&world, (0..2 * n).map(body)), "short");
    assert_eq!((found.n_documents, found.n_clusters, found.largest, found.n_compared), (n as u64, n as u64, 1, 0));
    let nine = |number: usize| format!("a b c d e f g h {}", ["", "i", "j", "i k"][number]);
    let world = World::new();
    let found = outcome(&world, pages(&world, (0..4).map(nine)), "eight to ten words");
    assert_eq!((found.n_documents, found.n_clusters), (4, 4));
}
