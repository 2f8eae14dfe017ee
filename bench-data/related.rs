//! Related pages of a small set, in memory: bags, exact answers and those of the live query.
//!
//! ```sh
//! cargo run --release --no-default-features --example related -- FOLDER [--set KEY=VALUE]... [--answers FILE] [--bags FILE]
//! ```

use lookalike::document::{Body, MarkedText, MediaType, Seed, mark_text};
use lookalike::related::{
    Bag, FragmentKey, FragmentReader, Frequencies, Nominations, RelatedRule, Source, Term, TermCounts, TermReader, bag,
    champions, sample,
};
use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[derive(Default)]
struct Known {
    content: TermCounts,
    fragments: BTreeMap<FragmentKey, String>,
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().ok_or("usage: related FOLDER [--set KEY=VALUE]...")?;
    let mut rule = serde_json::to_value(RelatedRule::default())?;
    let (mut answers, mut bags_out, mut seed, mut most, mut exact) = (None, None, 0u64, 500usize, false);
    while let Some(arg) = args.next() {
        if arg == "--exact" {
            exact = true;
            continue;
        }
        let value = args.next().ok_or("a value")?;
        match arg.as_str() {
            "--set" => {
                let (key, value) = value.split_once('=').ok_or("KEY=VALUE")?;
                rule[key] = serde_json::from_str(value).unwrap_or_else(|_| value.into());
            }
            "--answers" => answers = Some(value),
            "--bags" => bags_out = Some(value),
            "--seed" => seed = value.parse()?,
            "--most" => most = value.parse()?,
            other => return Err(format!("unknown flag {other}").into()),
        }
    }
    let rule: RelatedRule = serde_json::from_value(rule)?;
    let folder = Path::new(&folder);
    let seed = Seed([seed, 1, 2, 3]);
    let bags = bags(&folder.join("pages.jsonl.zst"), &rule, &seed)?;
    let urls: Vec<&String> = bags.keys().collect();
    let bags: Vec<&Bag> = bags.values().collect();
    let at: HashMap<&String, usize> = urls.iter().enumerate().map(|(at, url)| (*url, at)).collect();
    let mut lists: HashMap<Term, Vec<(usize, u8)>> = HashMap::new();
    let mut all: HashMap<Term, Vec<(usize, u8)>> = HashMap::new();
    for (url, bag) in bags.iter().enumerate() {
        champions(bag, &rule).into_iter().for_each(|(term, weight)| lists.entry(term).or_default().push((url, weight)));
        bag.weights().iter().for_each(|(term, weight)| all.entry(*term).or_default().push((url, *weight)));
    }
    for list in lists.values_mut() {
        list.sort_unstable_by_key(|(url, weight)| (std::cmp::Reverse(*weight), *url));
        list.truncate(rule.list_max);
    }
    let queries = std::fs::read_to_string(folder.join("queries.txt"))?;
    let mut out = answers.map(|path| File::create(path).map(BufWriter::new)).transpose()?;
    let (mut found10, mut n10, mut found02, mut n02) = (0.0, 0, 0, 0);
    for query in queries.lines() {
        let Some(own) = at.get(&query.to_string()) else { continue };
        let mine = bags[*own];
        let rank = |mut of: Vec<usize>| {
            of.retain(|url| url != own);
            let mut ranked: Vec<(f64, usize)> = of.into_iter().map(|url| (mine.similarity(bags[url]), url)).collect();
            ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            ranked
        };
        let nominate = |lists: &HashMap<Term, Vec<(usize, u8)>>, of: &[(Term, u8)], most: usize| {
            let mut nominations = Nominations::default();
            for (term, weight) in of {
                nominations.add(*weight, lists.get(term).into_iter().flatten().copied());
            }
            nominations.best(most)
        };
        let truth = rank(nominate(&all, mine.weights(), usize::MAX));
        let live = rank(nominate(&lists, mine.weights(), rule.verified_max.max(2 * most)));
        let ten: Vec<f64> = truth.iter().map(|(s, _)| *s).filter(|s| *s >= 0.1).take(10).collect();
        if let Some(least) = ten.last() {
            found10 +=
                live.iter().take(10).filter(|(s, _)| s >= least).count().min(ten.len()) as f64 / ten.len() as f64;
            n10 += 1;
        }
        n02 += truth.iter().filter(|(s, _)| *s >= 0.2).count();
        found02 += live.iter().filter(|(s, _)| *s >= 0.2).count();
        if let Some(out) = &mut out {
            let ranked = if exact { &truth } else { &live };
            let list: Vec<_> = ranked
                .iter()
                .take(most)
                .map(|(s, url)| serde_json::json!({"url": urls[*url], "similarity": (s * 1e6).round() / 1e6}))
                .collect();
            writeln!(out, "{}", serde_json::json!({"url": query, "answers": list}))?;
        }
    }
    let terms: usize = bags.iter().map(|bag| bag.weights().len()).sum();
    if let Some(path) = bags_out {
        let mut out = BufWriter::new(File::create(path)?);
        for (url, bag) in urls.iter().zip(&bags) {
            let weights: HashMap<String, u8> = bag.weights().iter().map(|(term, n)| (term.0.to_string(), *n)).collect();
            writeln!(out, "{}", serde_json::json!({"url": url, "bag": weights}))?;
        }
    }
    println!(
        "urls {} terms {:.1} recall@10 {:.4} pairs>=0.2 {:.4}",
        urls.len(),
        terms as f64 / urls.len() as f64,
        found10 / f64::from(n10),
        found02 as f64 / n02 as f64
    );
    Ok(())
}

fn bags(pages: &Path, rule: &RelatedRule, seed: &Seed) -> Result<BTreeMap<String, Bag>> {
    let mut known: BTreeMap<String, Known> = BTreeMap::new();
    let mut reader = FragmentReader::new(rule);
    let mut terms = TermReader::new(rule.stemmer, seed);
    let mut text = MarkedText::default();
    for line in BufReader::new(zstd::Decoder::new(File::open(pages)?)?).lines() {
        let page: serde_json::Value = serde_json::from_str(&line?)?;
        let url = page["url"].as_str().ok_or("a url")?;
        let body = Body::Text(page["body"].as_str().ok_or("a body")?.into());
        mark_text(&body, MediaType::Html, &mut text)?;
        let said = reader.read(url, &text);
        let content = &mut known.entry(url.to_string()).or_default().content;
        for (word, n) in said.content {
            *content.entry(terms.term(&word)).or_default() += n;
        }
        for (place, fragment) in said.fragments.into_iter().enumerate() {
            let key = FragmentKey::new(url, place, &fragment.words, rule, seed);
            known.entry(fragment.target).or_default().fragments.insert(key, fragment.words);
        }
    }
    let (mut of_content, mut of_anchors) = (Frequencies::default(), Frequencies::default());
    let mut counted: BTreeMap<String, (TermCounts, TermCounts)> = BTreeMap::new();
    for (url, known) in known {
        let keys: Vec<FragmentKey> = known.fragments.keys().copied().collect();
        let words: Vec<&String> = known.fragments.values().collect();
        let mut anchors = TermCounts::default();
        for at in sample(&keys, rule) {
            terms.count(words[at], &mut anchors);
        }
        of_content.add(&known.content);
        of_anchors.add(&anchors);
        counted.insert(url, (known.content, anchors));
    }
    let make = |(url, (content, anchors)): (String, (TermCounts, TermCounts))| {
        let content = Source { counts: &content, weight: |term| of_content.weight(term, rule) };
        let anchors = Source { counts: &anchors, weight: |term| of_anchors.weight(term, rule) };
        let bag = bag(content, anchors, rule);
        (url, bag)
    };
    Ok(counted.into_iter().map(make).collect())
}
