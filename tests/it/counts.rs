//! What `stats` shows is kept, not counted, and is what a count of all rows gives.

use crate::harness::{World, page, text};
use serde_json::Value;

const NUMBERS: [&str; 8] = [
    "n_urls",
    "n_sightings",
    "n_gone",
    "n_documents",
    "n_clusters",
    "n_clusters_of_similar",
    "n_clusters_of_equal",
    "n_urls_in_clusters_of_equal",
];

fn stats(world: &World) -> [u64; 8] {
    assert!(world.ask("verify", &[]).starts_with("sound"));
    assert!(!world.ask("stats", &[]).contains("counted just now"));
    let stats: Value = serde_json::from_str(&world.ask("stats --json", &[])).expect("JSON");
    NUMBERS.map(|name| stats[name].as_u64().expect("a number"))
}

fn words(from: u32) -> String {
    (from..from + 200).map(|n| format!("word{n}")).collect::<Vec<_>>().join(" ")
}

/// Takes the pages of a sweep in: each with its URL, day and text; nothing stands at the URL where the text is 0.
fn run(world: &World, name: &str, pages: &[(&str, u32, u32)]) {
    let lines = pages.iter().map(|(url, day, text)| {
        let (url, time) = (format!("http://{url}"), format!("2026-11-{day:02}T00:00:00Z"));
        match text {
            0 => format!(r#"{{"url":"{url}","fetched_at":"{time}","sweep":"{name}","body":null}}"#),
            from => page(&url, &time, name, &words(*from)),
        }
    });
    let file = format!("{name}-{}.jsonl", pages.len());
    world.run(&[world.write(&file, lines.map(|line| line + "\n").collect::<String>())]);
}

/// Every way in which a number changes, page by page and all pages at once.
#[test]
fn counts_are_kept_with_every_batch() {
    for batch in [1, 1000] {
        let world = World::new().with("pipeline.batch_records_max", batch);
        // Two URLs carry one text, another one carries two, and comes back to its first.
        run(&world, "1", &[("a/1", 1, 1000), ("a/2", 1, 1000), ("a/3", 1, 3000), ("a/3", 2, 5000), ("a/3", 3, 3000)]);
        assert_eq!(stats(&world), [3, 5, 0, 3, 3, 0, 1, 2]);
        // The same sightings again are none, and a text that was at a URL before counts no other URL.
        run(&world, "1", &[("a/1", 1, 1000), ("a/3", 4, 5000), ("a/3", 2, 5000)]);
        assert_eq!(stats(&world), [3, 6, 0, 3, 3, 0, 1, 2]);
        // A late page of a known text, and two that are gone.
        run(&world, "2", &[("a/3", 1, 1000), ("a/4", 5, 5000), ("a/1", 6, 0), ("b/1", 6, 0)]);
        assert_eq!(stats(&world), [5, 8, 2, 3, 3, 0, 2, 5]);
        // A text that resembles the one of three URLs joins it.
        run(&world, "3", &[("a/5", 7, 1010), ("a/6", 7, 1000)]);
        assert_eq!(stats(&world), [7, 10, 2, 4, 3, 1, 1, 2]);
        world.ask("sweep close 3", &[]);
        let closed = stats(&world);
        assert!(closed[2] > 2, "URLs are lost: {closed:?}");
        // Forgetting takes the text of three URLs apart from what resembled it.
        world.ask("forget http://a/5", &[]);
        let [n_urls, .., n_similar, n_equal, n_urls_of_equal] = stats(&world);
        assert_eq!((n_urls, n_similar, n_equal, n_urls_of_equal), (6, 0, 2, 6));
        let out = world.path("new.csv").display().to_string();
        world.ask("recluster --apply --threshold 0.9", &["--out", &out]);
        assert_eq!(stats(&world)[5..], [0, 2, 6]);
        world.ask("compact", &[]);
        assert_eq!(stats(&world)[5..], [0, 2, 6]);
    }
}

/// A store that `backfill` loads has its counts, and they are those of the stream.
#[test]
fn a_loaded_store_has_the_counts_of_the_stream() {
    let pages = [("a/1", 1, 1000), ("a/2", 1, 1000), ("a/3", 1, 3000), ("a/4", 2, 3010), ("a/1", 3, 0)];
    let streamed = World::new();
    run(&streamed, "1", &pages);
    let loaded = World::new();
    let [from, to] = [&streamed, &loaded].map(|world| world.path("1-5.jsonl"));
    let input = std::fs::copy(from, &to).map(|_| to);
    let output = loaded.command("backfill -q").arg(input.expect("copied")).output().expect("starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(stats(&loaded), stats(&streamed));
    run(&loaded, "2", &[("a/5", 4, 1000), ("a/6", 4, 5000)]);
    run(&streamed, "2", &[("a/5", 4, 1000), ("a/6", 4, 5000)]);
    assert_eq!(stats(&loaded), stats(&streamed));
}
