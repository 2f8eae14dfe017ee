//! Compares the phases with plain code in memory: all pairs of bags, and keys one by one.

use super::{
    BuildPhase, BuildReport, BuildSpec, Built, KnownUrl, KnownUrls, RelatedBuild, build, build_known, part_rows,
};
use crate::backfill::checkpoint::Checkpoint;
use crate::backfill::context::Context;
use crate::backfill::error::BackfillError;
use crate::backfill::sketching::PageInput;
use crate::document::{Body, Content, FetchTime, MediaType, Page, Seed};
use crate::intake::FutureLimit;
use crate::ports::{Incoming, Polled, Source as PageSource, SourceError};
use crate::related::{
    Bag, BagKind, Centers, FragmentKey, Frequencies, PairFilter, Positions, RelatedRule, SaidReader, Signature, Signer,
    Source, TermCounts, TermReader, bag, sample,
};
use crate::sweep::SweepCut;
use crate::wire::{Limits, Origin, Record};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const SEED: Seed = Seed([1, 2, 3, 4]);
const N_PAGES: usize = 60;

fn url(n: usize) -> String {
    format!("http://h{}/p{n}", n % 7)
}

/// A page of a small crawl: links to some others, with words of its topic around them.
fn body(n: usize, day: usize) -> String {
    let words =
        |first: usize| (first..first + 6).map(|at| spelled(&format!("topic{}word{} ", n % 6, at % 15))).collect();
    let words: &dyn Fn(usize) -> String = &words;
    let link = |step: usize| {
        let to = (n + 6 * step) % (N_PAGES + 20);
        format!("{} <a href={}>{}</a> ", words(to), url(to), words(n + step))
    };
    let links: String = (1..5).map(link).collect();
    format!("<title>{}</title>{links} {}", words(n), spelled(&format!("day{day}")))
}

/// Digits as letters, which words may have.
fn spelled(text: &str) -> String {
    text.chars().map(|c| c.to_digit(10).map_or(c, |digit| (b'a' + digit as u8) as char)).collect()
}

/// Pages as JSON lines: each URL twice, some gone, one moved.
fn pages() -> Vec<Vec<u8>> {
    let line = |url: &str, time: &str, what: serde_json::Value| {
        let mut line = serde_json::json!({"url": url, "fetched_at": time});
        line.as_object_mut().expect("an object").extend(what.as_object().expect("an object").clone());
        line.to_string().into_bytes()
    };
    let mut lines = Vec::new();
    for n in 0..N_PAGES {
        lines.push(line(&url(n), "2026-11-01T00:00:00Z", serde_json::json!({"body": body(n + 1, 1)})));
        let newest = match n {
            7 => serde_json::json!({"gone": true}),
            8 => serde_json::json!({"redirect_to": "http://h2/p9"}),
            _ => serde_json::json!({"body": body(n, 2)}),
        };
        lines.push(line(&url(n), "2026-11-02T00:00:00Z", newest));
    }
    lines
}

struct Lines {
    lines: Vec<Vec<u8>>,
    at: usize,
    /// Sets the flag after so many records.
    stop: Option<(usize, Arc<AtomicBool>)>,
}

impl PageSource for Lines {
    fn poll(&mut self, _: Duration) -> Result<Polled, SourceError> {
        if let Some((after, flag)) = &self.stop
            && self.at >= *after
        {
            flag.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        let Some(line) = self.lines.get(self.at) else { return Ok(Polled::End) };
        let origin = Origin { source: Arc::from("lines"), partition: 0, offset: self.at as i64 };
        self.at += 1;
        Ok(Polled::Record(Incoming { from: origin.offset, origin, chain: 0, record: Record::Json(line.clone()) }))
    }
}

fn input(lines: Vec<Vec<u8>>) -> PageInput {
    PageInput {
        source: Box::new(Lines { lines, at: 0, stop: None }),
        limits: Limits::default(),
        sweep_cut: SweepCut::None,
        future: FutureLimit::NONE,
        texts: None,
    }
}

fn open(folder: &Path, rule: &RelatedRule, memory: u64) -> (Checkpoint<RelatedBuild>, Context) {
    let spec = BuildSpec { rule: rule.clone(), reading: String::new(), inputs: Vec::new() };
    let folder = folder.join("data");
    let checkpoint = Checkpoint::open(&folder, spec, part_rows(memory), Some(SEED), || SEED).expect("opens");
    (checkpoint, Context { folder, n_threads: 2, memory, stop: Arc::default(), progress: Arc::default() })
}

/// What a build finds, as values that are compared.
#[derive(Debug, PartialEq)]
struct Found {
    bags: Vec<(String, Bag)>,
    neighbours: BTreeMap<(u32, u32), String>,
    centers: Vec<u32>,
    frequencies: [Frequencies; 2],
}

fn found(checkpoint: Checkpoint<RelatedBuild>) -> Found {
    let built = Built::of(checkpoint).expect("finished");
    let (mut bags, mut neighbours, mut centers) = (Vec::new(), BTreeMap::new(), Vec::new());
    let done = |result: Result<(), BackfillError>| result.expect("read");
    done(built.each_bag(|url, bag| {
        bags.push((url, bag));
        Ok(())
    }));
    done(built.each_neighbours(|of, found| {
        assert_eq!(found, built.neighbours(of)?);
        assert!(found.is_sorted_by(|a, b| a.similarity >= b.similarity));
        neighbours.extend(found.iter().map(|found| ((of, found.id), format!("{:.6}", found.similarity))));
        Ok(())
    }));
    done(built.each_center(|_, center| {
        centers.push(center);
        Ok(())
    }));
    let urls = built.urls().expect("read");
    assert!(bags.iter().enumerate().all(|(id, (url, _))| urls.id(url) == Some(id as u32)));
    // A caller that gives terms knows no words.
    let (words, mut reader) = (built.words().expect("read"), TermReader::new(built.spec().rule.stemmer, &SEED));
    let mut terms = bags.iter().flat_map(|(_, bag)| bag.weights());
    assert!(words.is_empty() || terms.all(|(term, _)| reader.term(&words[term]) == *term));
    Found { bags, neighbours, centers, frequencies: built.frequencies().expect("read") }
}

fn built(rule: &RelatedRule, lines: Vec<Vec<u8>>, memory: u64) -> (Found, BuildReport) {
    let folder = tempfile::tempdir().expect("a folder");
    let (checkpoint, context) = open(folder.path(), rule, memory);
    // A sync after each of many small jobs would take longer than they do.
    let mut checkpoint = checkpoint.with_interval(Duration::from_secs(60));
    let report = build(&mut checkpoint, &context, input(lines)).expect("built");
    (found(checkpoint), report)
}

/// The words of the newest pages, collected the plain way.
fn known(rule: &RelatedRule) -> BTreeMap<String, (TermCounts, TermCounts)> {
    let mut newest: BTreeMap<String, serde_json::Value> = BTreeMap::new();
    for line in pages() {
        let page: serde_json::Value = serde_json::from_slice(&line).expect("JSON");
        newest.insert(page["url"].as_str().expect("a URL").to_string(), page);
    }
    let mut terms = TermReader::new(rule.stemmer, &SEED);
    let mut reader = SaidReader::new(rule, &SEED);
    let mut content: BTreeMap<String, TermCounts> = BTreeMap::new();
    let mut fragments: BTreeMap<String, BTreeMap<FragmentKey, String>> = BTreeMap::new();
    for (url, page) in &newest {
        let Some(body) = page["body"].as_str() else { continue };
        let body = Content::Body { media_type: MediaType::Html, body: Body::Text(body.into()) };
        let page = Page { url: url.clone(), fetched_at: FetchTime(0), sweep: None, content: body };
        let said = reader.read(&page).expect("text");
        terms.count(said.content(), content.entry(url.clone()).or_default());
        for (passage, key) in said.fragments() {
            let moved = newest.get(&passage.target).and_then(|page| page["redirect_to"].as_str());
            let target = moved.unwrap_or(&passage.target).to_string();
            fragments.entry(target).or_default().insert(key, said.words(passage).into());
        }
    }
    let urls: BTreeSet<&String> = content.keys().chain(fragments.keys()).collect();
    let about = |url: &&String| {
        let (keys, words): (Vec<_>, Vec<_>) = fragments.get(*url).cloned().unwrap_or_default().into_iter().unzip();
        let mut anchors = TermCounts::default();
        let mut terms = TermReader::new(rule.stemmer, &SEED);
        sample(&keys, rule).into_iter().for_each(|at| terms.count(words[at].split(' '), &mut anchors));
        ((*url).clone(), (content.get(*url).cloned().unwrap_or_default(), anchors))
    };
    urls.iter().map(about).collect()
}

/// What a build must find.
fn expected(rule: &RelatedRule) -> Found {
    let known = known(rule);
    let mut frequencies: [Frequencies; 2] = Default::default();
    for (content, anchors) in known.values() {
        frequencies[0].add(content);
        frequencies[1].add(anchors);
    }
    let bag_of = |(content, anchors): &(TermCounts, TermCounts)| {
        let [of_content, of_anchors] = &frequencies;
        let content = Source { counts: content, weight: |term| of_content.weight(term, rule) };
        bag(content, Source { counts: anchors, weight: |term| of_anchors.weight(term, rule) }, rule)
    };
    let bags: Vec<(String, Bag)> = known.iter().map(|(url, known)| (url.clone(), bag_of(known))).collect();
    let bags: Vec<(String, Bag)> = bags.into_iter().filter(|(_, bag)| bag.mass() > 0).collect();
    let mut signer = Signer::new(&rule.signature(), &SEED);
    let positions = Positions::new(&rule.candidates(), &rule.signature(), &SEED);
    let signatures: Vec<Signature> = bags.iter().map(|(_, bag)| signer.sign(bag).expect("a signature")).collect();
    let mut neighbours = BTreeMap::new();
    let mut centers = Centers::new(bags.len() as u32);
    for (u, a) in signatures.iter().enumerate() {
        for (v, b) in signatures.iter().enumerate().filter(|(v, _)| *v != u) {
            let meet = (0..rule.rounds).any(|round| positions.key(a, round) == positions.key(b, round));
            let similarity = match rule.filter {
                PairFilter::Bags => bags[u].1.similarity(&bags[v].1),
                PairFilter::Signatures => a.agreement(b),
            };
            if meet && similarity >= rule.min_similarity {
                neighbours.insert((u as u32, v as u32), format!("{similarity:.6}"));
                centers.push(u as u32, v as u32);
            }
        }
    }
    for of_kind in &mut frequencies {
        of_kind.n_with.retain(|_, n| *n >= rule.low_df);
    }
    Found { bags, neighbours, centers: centers.finish(), frequencies }
}

fn rules() -> Vec<RelatedRule> {
    let rule = RelatedRule { high_df: 0.6, reach: 0, ..RelatedRule::default() };
    let paper = RelatedRule {
        bags: BagKind::Anchors,
        per_host_max: 0,
        per_target_max: 0,
        per_page_max: 0,
        filter: PairFilter::Signatures,
        min_similarity: 0.3,
        ..rule.clone()
    };
    vec![rule.clone(), paper, RelatedRule { rounds: 12, per_host_max: 1, ..rule }]
}

#[test]
fn builds_agree_with_all_pairs_in_memory() {
    for rule in rules() {
        let (found, report) = built(&rule, pages(), 1 << 26);
        let expected = expected(&rule);
        assert!(expected.neighbours.len() > 20, "{} pairs", expected.neighbours.len());
        assert_eq!(found, expected, "{rule:?}");
        let counts = report.counts;
        assert_eq!((counts.n_records, counts.n_pages, counts.n_gone), (2 * N_PAGES as u64, 2 * N_PAGES as u64 - 2, 2));
        assert_eq!(report.sizes.urls as usize, found.bags.len());
        assert_eq!(report.sizes.pairs as usize * 2, found.neighbours.len());
        assert!(report.sizes.candidate_pairs >= report.sizes.pairs);
        let mut sizes: BTreeMap<u32, u64> = BTreeMap::new();
        found.centers.iter().for_each(|center| *sizes.entry(*center).or_default() += 1);
        assert_eq!((report.sizes.clusters, Some(&report.sizes.largest)), (sizes.len() as u64, sizes.values().max()));
        assert_eq!(report.phases.len(), BuildPhase::ALL.len());
    }
}

#[test]
fn neither_order_nor_memory_change_anything() {
    for rule in rules() {
        let expected = expected(&rule);
        let mut lines = pages();
        lines.reverse();
        // Memory for a few rows: many runs, key ranges and blocks.
        assert_eq!(built(&rule, lines.clone(), 1 << 13).0, expected);
        lines.rotate_left(31);
        lines.extend(pages());
        assert_eq!(built(&rule, lines, 1 << 14).0, expected);
    }
}

#[test]
fn a_stopped_build_resumes() {
    let rule = &rules()[0];
    let expected = expected(rule);
    let folder = tempfile::tempdir().expect("a folder");
    let (mut checkpoint, context) = open(folder.path(), rule, 1 << 16);
    let stops = PageInput {
        source: Box::new(Lines { lines: pages(), at: 0, stop: Some((20, Arc::clone(&context.stop))) }),
        ..input(Vec::new())
    };
    assert!(matches!(build(&mut checkpoint, &context, stops), Err(BackfillError::Stopped)));
    drop(checkpoint);
    // Whatever a kill leaves unfinished, the next run has only the manifest to go by: here each run gets a little further.
    let mut n_runs = 0;
    loop {
        let (mut checkpoint, context) = open(folder.path(), rule, 1 << 16);
        let stop = Arc::clone(&context.stop);
        let progress = Arc::clone(&context.progress);
        let is_done = AtomicBool::new(false);
        let report = std::thread::scope(|scope| {
            let done = &is_done;
            scope.spawn(move || {
                // Stops as soon as a phase after the first is under way, a later one each time.
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    let phase = progress.snapshot().map(|shown| shown.phase.name);
                    let at = BuildPhase::ALL.iter().position(|of| Some(of.paper().0) == phase);
                    if at.is_some_and(|at| at > n_runs) {
                        stop.store(true, std::sync::atomic::Ordering::Relaxed);
                    }
                    std::thread::yield_now();
                }
            });
            let report = build(&mut checkpoint, &context, input(pages()));
            is_done.store(true, std::sync::atomic::Ordering::Relaxed);
            report
        });
        n_runs += 1;
        match report {
            Ok(report) => {
                assert_eq!(report.counts.n_records, 2 * N_PAGES as u64);
                assert_eq!(found(checkpoint), expected);
                break;
            }
            Err(error) => assert!(matches!(error, BackfillError::Stopped), "{error}"),
        }
        assert!(n_runs < 20);
    }
}

/// What a caller knows, in two parts.
struct Given(Vec<KnownUrl>);

impl KnownUrls for Given {
    fn n_parts(&self) -> usize {
        2
    }

    fn read(
        &self,
        part: usize,
        found: &mut dyn FnMut(KnownUrl) -> Result<(), BackfillError>,
    ) -> Result<(), BackfillError> {
        let (first, second) = self.0.split_at(self.0.len() / 2);
        [first, second][part].iter().cloned().try_for_each(found)
    }
}

#[test]
fn a_caller_may_give_what_it_knows() {
    let rule = &rules()[0];
    let urls = known(rule).into_iter().map(|(url, (content, anchors))| KnownUrl { url, content, anchors }).collect();
    let folder = tempfile::tempdir().expect("a folder");
    let (mut checkpoint, context) = open(folder.path(), rule, 1 << 20);
    build_known(&mut checkpoint, &context, Some(&Given(urls))).expect("built");
    assert_eq!(found(checkpoint), expected(rule));
}
