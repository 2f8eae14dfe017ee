//! HTML to text compared with html5gum: the same words on real and broken pages, and no panic on hostile ones.

mod html5gum;
mod pages;

use lookalike::document::{ContentBlocks, append_html_text, append_words};

/// The most pages of a data set that are compared.
const N_PAGES_MAX: usize = 1500;

/// How many mutants each page has.
const N_MUTANTS: u64 = 3;

/// The most mutations of a page.
const N_MUTATIONS_MAX: u64 = 100;

/// How many pages are assembled from [`SCRAPS`], and of how many scraps each.
const N_SOUPS: u64 = 50_000;
const N_SCRAPS: u64 = 24;

/// Markup that changes how the rest of a page is read. SVG and MathML are left out: html5gum alone has no tree
/// builder, and reads scripts and CDATA sections in them as elsewhere.
const SCRAPS: &[&str] = &[
    "<script>",
    "<script",
    "</script>",
    "</script",
    "<!--",
    "-->",
    "--!>",
    "->",
    "-",
    "--",
    ">",
    "<",
    "</",
    "<!",
    "<?",
    "<style>",
    "</style>",
    "</style ",
    "<title>",
    "</title>",
    "<textarea>",
    "</textarea>",
    "<template>",
    "</template>",
    "<noscript>",
    "</noscript>",
    "<iframe>",
    "</iframe>",
    "<xmp>",
    "</xmp>",
    "<p>",
    "<b>",
    "</b>",
    "<br/>",
    "<a",
    "<a b=",
    " c='",
    " d=\"",
    "\"",
    "'",
    "=",
    "/",
    " ",
    "x",
    "y z",
    "é",
    "&",
    "&amp;",
    "&amp",
    "&eacute",
    "&notit;",
    "&#",
    "&#x",
    "&#233;",
    "&#xe9",
    "&#128;",
    ";",
    "1",
    "<![CDATA[",
    "]]>",
    "<!DOCTYPE html",
    "\r\n",
    "\r",
];

/// The characters of markup: only these are deleted, doubled or inserted.
const MARKUP: &[u8] = b"<>&\"'-!/";

#[test]
fn hostile_pages_have_the_same_words() {
    for (name, page) in pages::hostile() {
        assert!(words(&page, append_html_text) == words(&page, html5gum::append_text), "{name}");
    }
}

/// A page that nobody wrote for readers costs no more than its bytes: blocks hold all of its words, once.
#[test]
fn blocks_of_hostile_pages_have_the_same_words() {
    let mut blocks = ContentBlocks::default();
    for (name, page) in pages::hostile() {
        blocks.read_html(&page);
        let join = |_: &str, out: &mut String| blocks.blocks().for_each(|(text, _)| out.extend([text, " "]));
        assert!(words(&page, append_html_text) == words(&page, join), "{name}");
    }
}

/// All known differences. In each case the scanner follows the standard, which has a tree builder; html5gum alone
/// has none.
#[test]
fn known_differences_from_html5gum() {
    for (html, ours, theirs) in [
        // U+0000 is not text.
        ("a\0b", "ab", "a b"),
        // A CDATA section is text in SVG and MathML.
        ("<svg><![CDATA[a>b]]></svg>", "a b", "b"),
        // In SVG, scripts and styles contain markup, and a self-closing one contains nothing.
        ("<svg><style>a<!--</style>-->b</style>c", "c", "bc"),
        ("<template><svg><style></template>a", "a", ""),
        ("<svg><script href='a'/>b</svg>c", "bc", ""),
        // So does a title there.
        ("<svg><title>a<!--b--></title></svg>", "a", "a b"),
    ] {
        assert_eq!(words(html, append_html_text), ours, "{html:?}");
        assert_eq!(words(html, html5gum::append_text), theirs, "{html:?}");
    }
}

#[test]
fn soups_have_the_same_words() {
    for seed in 0..N_SOUPS {
        let mut random = SplitMix(seed);
        let scraps = (0..N_SCRAPS).map(|_| SCRAPS[random.below(SCRAPS.len() as u64) as usize]);
        let soup: String = scraps.collect();
        let (ours, theirs) = (words(&soup, append_html_text), words(&soup, html5gum::append_text));
        assert_eq!(ours, theirs, "{soup:?}");
    }
}

#[test]
fn real_and_broken_pages_have_the_same_words() {
    for (name, files) in pages::data_sets() {
        let pages: Vec<String> = files.iter().flat_map(|file| pages::of_file(file)).collect();
        let stride = pages.len().div_ceil(N_PAGES_MAX).max(1);
        let (mut real, mut broken) = (Tally::default(), Tally::default());
        for (at, page) in pages.iter().enumerate().step_by(stride) {
            real.compare(page);
            for seed in 0..N_MUTANTS {
                broken.compare(&mutant(page, at as u64 * N_MUTANTS + seed));
            }
        }
        println!("{name}: real {real:?}, broken {broken:?}");
        assert!(real.is_good() && broken.is_good(), "{name}");
    }
}

#[derive(Debug, Default)]
struct Tally {
    n_pages: usize,
    n_unequal_pages: usize,
    n_words: usize,
    n_unequal_words: usize,
}

impl Tally {
    fn compare(&mut self, page: &str) {
        let (ours, theirs) = (words(page, append_html_text), words(page, html5gum::append_text));
        let (ours, theirs): (Vec<_>, Vec<_>) = (ours.split(' ').collect(), theirs.split(' ').collect());
        self.n_pages += 1;
        self.n_words += theirs.len();
        if ours != theirs {
            self.n_unequal_pages += 1;
            let n_unequal = n_between_equal_ends(&ours, &theirs);
            self.n_unequal_words += n_unequal;
        }
    }

    fn is_good(&self) -> bool {
        self.n_unequal_words * 1000 <= self.n_words && self.n_unequal_pages * 1000 <= self.n_pages
    }
}

fn words(page: &str, append_text: impl Fn(&str, &mut String)) -> String {
    let (mut text, mut words) = (String::new(), String::new());
    append_text(page, &mut text);
    append_words(&text, &mut words);
    words
}

/// How many words lie between the common beginning and the common end, on the longer side.
fn n_between_equal_ends(a: &[&str], b: &[&str]) -> usize {
    let n_first = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[n_first..], &b[n_first..]);
    let n_last = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    a.len().max(b.len()) - n_last
}

/// The page with some characters of its markup deleted, doubled or inserted.
fn mutant(page: &str, seed: u64) -> String {
    let mut random = SplitMix(seed);
    let mut bytes = page.as_bytes().to_vec();
    for _ in 0..=random.below(N_MUTATIONS_MAX) {
        let from = random.below(bytes.len() as u64 + 1) as usize;
        let Some(len) = bytes[from..].iter().position(|b| MARKUP.contains(b)) else { continue };
        match random.below(3) {
            0 => drop(bytes.remove(from + len)),
            1 => bytes.insert(from + len, bytes[from + len]),
            _ => bytes.insert(from + len, MARKUP[random.below(MARKUP.len() as u64) as usize]),
        }
    }
    String::from_utf8(bytes).expect("only ASCII was touched")
}

/// Vigna's SplitMix64: the same mutants on every run.
struct SplitMix(u64);

impl SplitMix {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}
