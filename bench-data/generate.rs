//! Generates any number of pages with the measured statistics of real crawls, the same for the same settings.
//!
//! ```sh
//! cargo run --release --no-default-features --example generate -- --help
//! ```
//! Every page is a function of the settings and its number alone. Nothing is kept, `--skip` costs nothing, and a
//! million pages can be made in pieces. A page's words form blocks of about 24. A version of a page has other words
//! in some blocks, so that the share of common blocks determines the resemblance of two versions.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const HELP: &str = "Makes pages as JSON lines, the same for the same settings.

usage: generate [--KEY VALUE]…

  --profile P       site   words log-normal 5.8 ± 1.2, 14,000 bytes (the default): a generated documentation site
                    news   words log-normal 7.05 ± 0.77, 143,000 bytes: news pages
                    small  words log-normal 5.5 ± 0.5, 5,000 bytes
                    tiny   words log-normal 4.1 ± 0.3, plain text: for stores of tens of millions of documents
  --pages N         pages in all (10000)
  --skip N          leave out the first N of them (0)
  --sweeps N        sweeps; each sees the same URLs, but for pages that moved or are new (4)
  --seed N          another seed makes other pages (1)
  --form F          html, text or features (html; tiny: text)
  --bytes N         mean bytes of a page in HTML: markup fills it up
  --mu X --sigma X  of the logarithm of a page's words, its site's template included
  --template X      the share of a median page's words that all pages of its site have (0.15)
  --site-pages N    URLs a site (5000)
  --same X          the share of pages that the next sweep finds unchanged (0.55)
  --copies X        the share of URLs that show the content of another one of their site, or nearly (0.1)
  --out FILE     instead of standard output
  --zstd LEVEL      compressed";

/// Words in the vocabulary, a power of two.
const N_WORDS: usize = 1 << 15;
/// Bytes that a word may take, including the space after it.
const SLOT: usize = 16;
/// The most words of a page.
const WORDS_MAX: f64 = 200_000.0;
/// A block has from this many words to twice as many.
const BLOCK_WORDS: usize = 16;
/// Pieces of markup that fill pages.
const N_FRAGMENTS: usize = 256;
/// Of the pages that a sweep finds changed: the shares gone, moved and rewritten; the rest has small changes.
const GONE: f64 = 0.04;
const MOVED: f64 = 0.08;
const REWRITTEN: f64 = 0.20;
/// A page with small changes changes up to this share of its blocks, mostly far fewer.
const NEAR: f64 = 0.25;
/// The share of unchanged pages whose bytes differ all the same, for example in a date in a comment.
const RESTAMPED: f64 = 0.15;
/// The year of the first sweep; each sweep is a year later than the one before.
const FIRST_YEAR: u64 = 2001;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        println!("{HELP}");
        return Ok(());
    }
    let settings = Settings::parse(&arguments)?;
    let out: Box<dyn Write> = match &settings.output {
        Some(path) => Box::new(File::create(path).map_err(|error| format!("{path}: {error}"))?),
        None => Box::new(std::io::stdout()),
    };
    let written = match settings.zstd {
        Some(level) => zstd::Encoder::new(out, level).and_then(|encoder| write(&settings, encoder.auto_finish())),
        None => write(&settings, BufWriter::with_capacity(1 << 20, out)),
    };
    match written {
        // The reader has closed the pipe.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Writes the pages for some arguments; the caller handles `--out` and `--zstd`.
pub fn pages(arguments: &str, out: impl Write) -> Result<()> {
    let arguments: Vec<String> = arguments.split_whitespace().map(String::from).collect();
    Ok(write(&Settings::parse(&arguments)?, out)?)
}

fn write(settings: &Settings, mut out: impl Write) -> std::io::Result<()> {
    let crawl = Crawl::new(settings.clone());
    let mut line = Line::default();
    for number in settings.skip..settings.pages {
        crawl.page(number, &mut line);
        out.write_all(line.bytes())?;
    }
    out.flush()
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum PageFormat {
    Html,
    Text,
    Features,
}

#[derive(Clone, Debug)]
struct Settings {
    pages: u64,
    skip: u64,
    sweeps: u64,
    seed: u64,
    form: PageFormat,
    bytes: f64,
    mu: f64,
    sigma: f64,
    template: f64,
    site_pages: u64,
    same: f64,
    copies: f64,
    output: Option<String>,
    zstd: Option<i32>,
}

impl Settings {
    fn of_profile(name: &str) -> Result<Self> {
        let (form, mu, sigma, bytes) = match name {
            "site" => (PageFormat::Html, 5.8, 1.2, 14_000.0),
            "news" => (PageFormat::Html, 7.05, 0.77, 143_000.0),
            "small" => (PageFormat::Html, 5.5, 0.5, 5_000.0),
            "tiny" => (PageFormat::Text, 4.1, 0.3, 0.0),
            _ => return Err(format!("--profile {name}: site, news, small or tiny").into()),
        };
        Ok(Settings {
            pages: 10_000,
            skip: 0,
            sweeps: 4,
            seed: 1,
            form,
            bytes,
            mu,
            sigma,
            template: 0.15,
            site_pages: 5_000,
            same: 0.55,
            copies: 0.1,
            output: None,
            zstd: None,
        })
    }

    fn parse(arguments: &[String]) -> Result<Self> {
        let pairs: Vec<(&str, &str)> = arguments
            .chunks(2)
            .map(|pair| match pair {
                [key, value] => Ok((key.as_str(), value.as_str())),
                _ => Err(format!("{} has no value; see --help", pair[0])),
            })
            .collect::<std::result::Result<_, _>>()?;
        let profile = pairs.iter().rev().find(|(key, _)| *key == "--profile").map_or("site", |(_, name)| name);
        let mut settings = Settings::of_profile(profile)?;
        for (key, value) in pairs {
            settings.set(key, value).map_err(|error| format!("{key} {value}: {error}"))?;
        }
        if settings.sweeps == 0 || settings.site_pages == 0 {
            return Err("--sweeps and --site-pages must be at least 1".into());
        }
        Ok(settings)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "--profile" => {}
            "--pages" => self.pages = value.parse()?,
            "--skip" => self.skip = value.parse()?,
            "--sweeps" => self.sweeps = value.parse()?,
            "--seed" => self.seed = value.parse()?,
            "--bytes" => self.bytes = value.parse()?,
            "--mu" => self.mu = value.parse()?,
            "--sigma" => self.sigma = value.parse()?,
            "--template" => self.template = value.parse()?,
            "--site-pages" => self.site_pages = value.parse()?,
            "--same" => self.same = value.parse()?,
            "--copies" => self.copies = value.parse()?,
            "--out" => self.output = Some(value.to_string()),
            "--zstd" => self.zstd = Some(value.parse()?),
            "--form" => {
                self.form = match value {
                    "html" => PageFormat::Html,
                    "text" => PageFormat::Text,
                    "features" => PageFormat::Features,
                    _ => return Err("html, text or features".into()),
                }
            }
            _ => return Err("there is no such key; see --help".into()),
        }
        Ok(())
    }

    /// The number of URLs that each sweep sees.
    fn urls(&self) -> u64 {
        self.pages.div_ceil(self.sweeps).max(1)
    }
}

/// Steele, Lea and Flood's SplitMix64. Its state is one number, so that a generator for every block costs nothing.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// In [0, 1).
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// Box and Muller's standard normal.
    fn normal(&mut self) -> f64 {
        let (radius, angle) = (1.0 - self.unit(), self.unit());
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A number that depends on all of `numbers`.
fn hash(numbers: &[u64]) -> u64 {
    numbers.iter().fold(0x1997, |hash, number| mix(hash ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(1))
}

fn unit_of(numbers: &[u64]) -> f64 {
    Random(hash(numbers)).unit()
}

/// The current line. Copying whole slots is several times faster than copying words by their length.
#[derive(Default)]
struct Line {
    bytes: Vec<u8>,
    length: usize,
}

impl Line {
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn reserve(&mut self, n_bytes: usize) {
        if self.bytes.len() < self.length + n_bytes {
            self.bytes.resize((self.length + n_bytes).next_power_of_two(), 0);
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    /// Appends a slot's first bytes; the caller has reserved room for the whole slot.
    fn push_slot(&mut self, slot: &[u8; SLOT], length: u8) {
        self.bytes[self.length..self.length + SLOT].copy_from_slice(slot);
        self.length += usize::from(length);
    }
}

/// Words with Zipf's frequencies, drawn by Walker's alias method.
struct Vocabulary {
    /// Each word with a space.
    words: Vec<([u8; SLOT], u8)>,
    /// If 16 random bits are below the first number, the current word counts, otherwise the second one.
    alias: Vec<(u32, u32)>,
}

impl Vocabulary {
    fn new() -> Self {
        let mut random = Random(1949);
        let mut words = Vec::with_capacity(N_WORDS);
        let mut seen = std::collections::HashSet::new();
        while words.len() < N_WORDS {
            let word = Self::word(words.len(), &mut random);
            if seen.insert(word.clone()) {
                let mut slot = [b' '; SLOT];
                slot[..word.len()].copy_from_slice(word.as_bytes());
                words.push((slot, word.len() as u8 + 1));
            }
        }
        let weights: Vec<f64> = (0..N_WORDS).map(|rank| 1.0 / (rank as f64 + 2.7)).collect();
        Vocabulary { words, alias: aliases(&weights) }
    }

    /// Makes a word of syllables: frequent words are short, one in thirty is not ASCII.
    fn word(rank: usize, random: &mut Random) -> String {
        const ONSETS: [&str; 16] = ["b", "c", "d", "f", "g", "h", "l", "m", "n", "p", "r", "s", "t", "v", "st", "tr"];
        const NUCLEI: [&str; 8] = ["a", "e", "i", "o", "u", "ai", "ea", "ou"];
        const CODAS: [&str; 8] = ["", "", "n", "r", "s", "t", "l", "ng"];
        let n_syllables = match rank {
            0..200 => 1,
            200..4000 => 2,
            _ => 2 + random.below(2),
        };
        let mut word = String::new();
        for _ in 0..n_syllables {
            word += ONSETS[random.below(16) as usize];
            word += if random.below(60) == 0 { "é" } else { NUCLEI[random.below(8) as usize] };
            word += CODAS[random.below(8) as usize];
        }
        while word.len() > SLOT - 1 {
            word.pop();
        }
        word
    }

    fn push_words(&self, n_words: usize, random: &mut Random, line: &mut Line) {
        line.reserve((n_words + 2) * SLOT);
        for at in 0..n_words.div_ceil(2) {
            let bits = random.next();
            self.push_word(bits as u32, line);
            if 2 * at + 1 < n_words {
                self.push_word((bits >> 32) as u32, line);
            }
        }
    }

    fn push_word(&self, bits: u32, line: &mut Line) {
        let at = bits as usize % N_WORDS;
        let (limit, other) = self.alias[at];
        let word = if bits >> 16 < limit { at } else { other as usize };
        let (slot, length) = &self.words[word];
        line.push_slot(slot, *length);
    }
}

/// Vose's tables for the alias method, in units of 2^-16.
fn aliases(weights: &[f64]) -> Vec<(u32, u32)> {
    let mean = weights.iter().sum::<f64>() / weights.len() as f64;
    let mut shares: Vec<f64> = weights.iter().map(|weight| weight / mean).collect();
    let mut table = vec![(1 << 16, 0); weights.len()];
    let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..weights.len()).partition(|at| shares[*at] < 1.0);
    while let (Some(less), Some(more)) = (small.pop(), large.pop()) {
        table[less] = ((shares[less] * 65536.0) as u32, more as u32);
        shares[more] -= 1.0 - shares[less];
        if shares[more] < 1.0 { small.push(more) } else { large.push(more) }
    }
    table
}

/// Markup without words, escaped for JSON: the filling of real pages.
fn fragments() -> Vec<Vec<u8>> {
    let mut random = Random(1997);
    let hex =
        |random: &mut Random, n: u64| -> String { (0..n).map(|_| format!("{:08x}", random.next() as u32)).collect() };
    (0..N_FRAGMENTS)
        .map(|_| {
            let n = 1 + random.below(24);
            let filling = hex(&mut random, n);
            let name = hex(&mut random, 1);
            let fragment = match random.below(6) {
                0 => format!("<script>(function(){{var a=\\\"{filling}\\\";if(a<1&&b>2){{c(a)}}}})();</script>\\n"),
                1 => format!("<div class=\\\"c-{name} {filling}\\\" data-v=\\\"{filling}\\\"><span id=\\\"{name}\\\"></span></div>\\n"),
                2 => format!("<!-- {filling} -->"),
                3 => format!("<svg viewBox=\\\"0 0 24 24\\\"><path d=\\\"M{filling}z\\\"/></svg>"),
                4 => format!("<img src=\\\"https://cdn.example/{name}/{filling}.jpg\\\" alt=\\\"\\\" loading=\\\"lazy\\\">\\n"),
                _ => format!("<ul class=\\\"{name}\\\"><li><a href=\\\"/{name}?{filling}\\\"></a></li></ul>\\n"),
            };
            fragment.into_bytes()
        })
        .collect()
}

/// The content of a URL on a sweep.
struct Content {
    /// Pages of one family are versions of each other.
    family: u64,
    /// The share of blocks that each version changed.
    versions: Vec<f64>,
    /// Distinguishes the URLs that a page had.
    address: u64,
    /// Changes the bytes around the same words.
    stamp: u64,
    gone: bool,
}

struct Crawl {
    settings: Settings,
    vocabulary: Vocabulary,
    fragments: Vec<Vec<u8>>,
    template_words: usize,
    filling: f64,
}

impl Crawl {
    fn new(settings: Settings) -> Self {
        let fragments = fragments();
        let mean_words = (settings.mu + settings.sigma * settings.sigma / 2.0).exp();
        // A word takes 6.3 bytes, and its share of the tags of its block.
        let filling = (settings.bytes - 7.0 * mean_words - 400.0).max(0.0);
        let template_words = (settings.template * settings.mu.exp()) as usize;
        Crawl { settings, vocabulary: Vocabulary::new(), fragments, template_words, filling }
    }

    /// Writes one page, a line of JSON.
    fn page(&self, number: u64, line: &mut Line) {
        line.length = 0;
        let (sweep, url) = (number / self.settings.urls(), number % self.settings.urls());
        let content = self.content(url, sweep);
        let (site, second) = (url / self.settings.site_pages, url % 86_400);
        let year = FIRST_YEAR + sweep;
        let media_type = if self.settings.form == PageFormat::Html { "html" } else { "plain" };
        let head = format!(
            "{{\"url\":\"https://site{site}.example/page-{url}-{:x}\",\"fetched_at\":\"{year}-06-01T{:02}:{:02}:{:02}Z\",\
             \"sweep\":\"{year}\",\"content_type\":\"text/{media_type}; charset=utf-8\",",
            content.address,
            second / 3600,
            second / 60 % 60,
            second % 60
        );
        line.push(head.as_bytes());
        if content.gone {
            line.push(b"\"http_status\":404,\"body\":null}\n");
            return;
        }
        let site_seed = hash(&[self.settings.seed, 2, site]);
        match self.settings.form {
            PageFormat::Html => self.html(site_seed, &content, line),
            PageFormat::Text => self.text(site_seed, &content, line),
            PageFormat::Features => self.features(site_seed, &content, line),
        }
    }

    /// The content of a URL on a sweep, found by following the URL's fate from the first sweep.
    fn content(&self, url: u64, sweep: u64) -> Content {
        let Settings { seed, same, .. } = self.settings;
        let mut content = self.born(url, 0);
        for at in 1..=sweep {
            let mut random = Random(hash(&[seed, 3, url, at]));
            if content.gone {
                content = self.born(url, at);
                continue;
            }
            if random.unit() < same {
                if random.unit() < RESTAMPED {
                    content.stamp = at;
                }
                continue;
            }
            let fate = random.unit();
            if fate < GONE {
                content.gone = true;
            } else if fate < GONE + MOVED {
                content.address = at;
            } else if fate < GONE + MOVED + REWRITTEN {
                content.versions.push(0.5 + 0.5 * random.unit());
            } else {
                content.versions.push(NEAR * random.unit() * random.unit());
            }
        }
        content
    }

    /// A page that is new on a sweep: a family of its own, or a copy from another site.
    fn born(&self, url: u64, sweep: u64) -> Content {
        let Settings { seed, site_pages, copies, .. } = self.settings;
        let family = |of: u64| hash(&[seed, 4, of, sweep]);
        let mut content = Content { family: family(url), versions: Vec::new(), address: sweep, stamp: 0, gone: false };
        let before = url % site_pages;
        let mut random = Random(hash(&[seed, 5, url, sweep]));
        if before > 0 && random.unit() < copies {
            content.family = family(url - 1 - random.below(before));
            if random.unit() < 0.5 {
                // Versions are numbered; a copy's own version must differ from that of the page it was copied from.
                content.versions = vec![0.0; 1 + url as usize % 7];
                content.versions.push(NEAR * random.unit() * random.unit());
            }
        }
        content
    }

    /// The number of a page's words without its site's template.
    fn n_own_words(&self, family: u64) -> usize {
        let Settings { mu, sigma, template, .. } = self.settings;
        let words = (mu + sigma * Random(hash(&[family, 6])).normal()).exp().min(WORDS_MAX);
        (words * (1.0 - template)).round() as usize
    }

    /// Calls `each` with the words and the generator of every block of a page. The first and the last block are the
    /// halves of its site's template.
    fn blocks(&self, site_seed: u64, content: &Content, mut each: impl FnMut(usize, &mut Random)) {
        let half = self.template_words / 2;
        each(half, &mut Random(hash(&[site_seed, 7])));
        let mut left = self.n_own_words(content.family);
        let mut at = 0;
        while left > 0 {
            let changed = |(version, share): (usize, &f64)| {
                (unit_of(&[content.family, 8, at, version as u64]) < *share).then_some(version as u64 + 1)
            };
            let epoch = content.versions.iter().enumerate().rev().find_map(changed).unwrap_or(0);
            let mut random = Random(hash(&[content.family, 9, at, epoch]));
            let n_words = (BLOCK_WORDS + random.below(BLOCK_WORDS as u64 + 1) as usize).min(left);
            each(n_words, &mut random);
            left -= n_words;
            at += 1;
        }
        each(self.template_words - half, &mut Random(hash(&[site_seed, 10])));
    }

    fn html(&self, site_seed: u64, content: &Content, line: &mut Line) {
        line.push(b"\"http_status\":200,\"body\":\"<!doctype html>\\n<html lang=\\\"en\\\"><head><meta charset=\\\"utf-8\\\"><title>");
        self.vocabulary.push_words(5, &mut Random(content.family), line);
        line.push(b"</title></head>\\n<body>\\n");
        line.push(format!("<!-- {} -->\\n", content.stamp).as_bytes());
        let mut markup = Random(hash(&[content.family, 11]));
        let filling = self.filling * (0.5 + markup.unit());
        let n_blocks = 2.0 + self.n_own_words(content.family) as f64 / (1.5 * BLOCK_WORDS as f64);
        let (mut filled, mut wanted) = (0, 0.0);
        self.blocks(site_seed, content, |n_words, random| {
            line.push(b"<p>");
            let first = n_words / 3;
            self.vocabulary.push_words(first, random, line);
            line.push(b"<a href=\\\"/page?id=1&amp;x=2\\\">");
            self.vocabulary.push_words(n_words - first, random, line);
            line.push(b"</a>.</p>\\n");
            wanted += filling / n_blocks;
            while (filled as f64) < wanted {
                let fragment = &self.fragments[markup.below(N_FRAGMENTS as u64) as usize];
                line.push(fragment);
                filled += fragment.len();
            }
        });
        line.push(b"</body></html>\"}\n");
    }

    fn text(&self, site_seed: u64, content: &Content, line: &mut Line) {
        line.push(b"\"text\":\"");
        line.push("\\n".repeat(content.stamp as usize).as_bytes());
        self.blocks(site_seed, content, |n_words, random| {
            self.vocabulary.push_words(n_words, random, line);
            line.push(b"\\n");
        });
        line.push(b"\"}\n");
    }

    /// Writes numbers instead of words, each a feature of its own.
    fn features(&self, site_seed: u64, content: &Content, line: &mut Line) {
        line.push(b"\"features\":[\"");
        self.blocks(site_seed, content, |n_words, random| {
            for _ in 0..n_words {
                line.push(format!("{:012x}\",\"", random.next() >> 16).as_bytes());
            }
        });
        line.push(b"end\"]}\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lookalike::document::{Body, CanonicalForm, Content as PageContent, MediaType, Page, Seed};
    use lookalike::sketch::{Rule, SketchRule, SketchedContent, Sketcher, compare};
    use lookalike::wire::{Limits, parse_json_page};
    use std::collections::{HashMap, HashSet};

    fn lines(arguments: &str) -> Vec<String> {
        let mut out = Vec::new();
        super::pages(arguments, &mut out).expect("written");
        String::from_utf8(out).expect("UTF-8").lines().map(String::from).collect()
    }

    fn pages(arguments: &str) -> Vec<Page> {
        let page = |line: String| parse_json_page(line.as_bytes(), &Limits::default()).expect("a page");
        lines(arguments).into_iter().map(page).collect()
    }

    /// Keeps whole shingle sets, so that the resemblance is exact.
    fn sketched(pages: &[Page]) -> Vec<Option<SketchedContent>> {
        let rule = SketchRule { rule: Rule::All, bits: 64, ..SketchRule::default() };
        let mut sketcher = Sketcher::new(&rule, &Seed([1; 4]));
        pages.iter().map(|page| sketcher.sketch_page(page, usize::MAX).expect("a sketch")).collect()
    }

    #[test]
    fn the_same_settings_make_the_same_pages_and_pieces_fit() {
        let whole = lines("--pages 300 --sweeps 3");
        assert_eq!(whole.len(), 300);
        assert_eq!(whole, lines("--pages 300 --sweeps 3"));
        assert_eq!(whole[170..], lines("--pages 300 --sweeps 3 --skip 170"));
        assert_ne!(whole, lines("--pages 300 --sweeps 3 --seed 2"));
    }

    #[test]
    fn every_form_is_pages() {
        for form in ["html", "text", "features"] {
            let pages = pages(&format!("--pages 200 --form {form}"));
            assert_eq!(pages.len(), 200);
            let addresses: HashSet<_> = pages.iter().map(|page| (&page.url, &page.sweep)).collect();
            assert_eq!(addresses.len(), 200, "a URL is seen once on a sweep");
        }
        assert!(Settings::parse(&["--pages".into()]).is_err());
        assert!(Settings::parse(&["--page".into(), "1".into()]).is_err());
    }

    #[test]
    fn sizes_are_as_wanted() {
        for (profile, bytes, mu) in [("site", 14_000.0, 5.8), ("news", 143_000.0, 7.05), ("small", 5_000.0, 5.5)] {
            let pages = pages(&format!("--pages 600 --sweeps 1 --profile {profile}"));
            let (mut n_bytes, mut logarithms) = (0, Vec::new());
            for page in &pages {
                let PageContent::Body { body, .. } = &page.content else { panic!("a body") };
                let Body::Text(html) = body else { panic!("text") };
                n_bytes += html.len();
                let form = CanonicalForm::from_body(body, MediaType::Html).expect("text");
                logarithms.push((form.n_words() as f64).ln());
            }
            let mean = n_bytes as f64 / pages.len() as f64;
            assert!((0.8..1.2).contains(&(mean / bytes)), "{profile}: {mean} bytes a page");
            logarithms.sort_by(f64::total_cmp);
            let median = logarithms[logarithms.len() / 2];
            assert!((median - mu).abs() < 0.25, "{profile}: the median of ln(words) is {median}");
        }
    }

    /// As on the measured sites, 49 to 84 % of the sightings equal one on another sweep.
    #[test]
    fn sweeps_see_what_real_ones_see() {
        let pages = pages("--pages 3000 --sweeps 4");
        let contents = sketched(&pages);
        let mut sweeps_of: HashMap<_, HashSet<_>> = HashMap::new();
        for (page, content) in pages.iter().zip(&contents) {
            if let Some(content) = content {
                sweeps_of.entry(content.equivalences.identical).or_default().insert(&page.sweep);
            }
        }
        let found = contents.iter().flatten().filter(|content| sweeps_of[&content.equivalences.identical].len() > 1);
        let share = found.count() as f64 / pages.len() as f64;
        assert!((0.49..0.84).contains(&share), "{share} are identical to one on another sweep");
        let gone = contents.iter().filter(|content| content.is_none()).count();
        assert!(gone > 0 && gone < 100, "{gone} are gone");
    }

    #[test]
    fn versions_resemble_each_other_in_every_degree_and_strangers_do_not() {
        let pages = pages("--pages 3000 --sweeps 3 --sigma 0.3");
        let contents = sketched(&pages);
        let resemblance = |a: usize, b: usize| {
            let (a, b) = (contents[a].as_ref()?, contents[b].as_ref()?);
            Some(compare(&a.sketch, &b.sketch, Rule::All).resemblance)
        };
        let of_sweeps: Vec<f64> = (0..1000).filter_map(|url| resemblance(url, url + 1000)).collect();
        for (from, to) in [(0.0, 0.5), (0.5, 0.8), (0.8, 0.99), (1.0, 1.1)] {
            let n = of_sweeps.iter().filter(|r| (from..to).contains(*r)).count();
            assert!(n >= 20, "{n} of {} have a resemblance of {from} to {to}", of_sweeps.len());
        }
        let strangers: Vec<f64> = (0..500).filter_map(|url| resemblance(url, 999 - url)).collect();
        let alike = strangers.iter().filter(|r| **r > 0.3).count();
        assert!(alike < 15, "{alike} strangers are alike");
    }

    /// Two pages of equal length, of which the template is a share t, resemble each other by t / (2 - t).
    #[test]
    fn a_template_is_the_share_that_was_asked_for() {
        for (template, expected) in [(0.5, 0.333), (0.9, 0.818)] {
            let arguments = "--pages 20 --sweeps 1 --copies 0 --form text --mu 7 --sigma 0 --template";
            let contents = sketched(&pages(&format!("{arguments} {template}")));
            for pair in contents.windows(2) {
                let [Some(a), Some(b)] = pair else { panic!("two pages") };
                let r = compare(&a.sketch, &b.sketch, Rule::All).resemblance;
                assert!((r - expected).abs() < 0.03, "{r} instead of {expected}");
            }
        }
    }
}
