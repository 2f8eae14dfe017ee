//! A page's whole way on one core, from the bytes of its HTML to its finished sketch: as a whole, stage by stage,
//! and with html5gum or lexbor instead of the scanner; also for hostile pages.
//!
//! `LOOKALIKE_DATA` names a directory with further data sets; each of its directories is measured as well, and with
//! all features the WARC files of one named `warc`. lexbor is measured if selectolax is installed (`pip install
//! selectolax`).

#![expect(clippy::expect_used, reason = "a benchmark without its pages has nothing to measure")]

#[path = "../../tests/it/html/html5gum.rs"]
mod html5gum_text;
#[path = "../../tests/it/html/pages.rs"]
mod html_pages;
mod lexbor;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use lexbor::Lexbor;
use lookalike::document::{Body, CanonicalForm, Content, FetchTime, MediaType, Page, Seed};
use lookalike::document::{append_html_text, append_words, decode};
use lookalike::related::{RelatedRule, SaidReader};
use lookalike::sketch::{Rule, SketchRule, Sketcher};
use std::borrow::Cow;
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

/// The most bytes of a data set that are measured.
const BYTES_MAX: usize = 32 << 20;

const SEED: Seed = Seed([1, 2, 3, 4]);

fn pages_of(bodies: impl Iterator<Item = String>) -> Vec<Page> {
    let pages = html_pages::up_to(BYTES_MAX, bodies).into_iter();
    pages.map(|body| page_of(body.into_bytes(), Some("utf-8"))).collect()
}

fn page_of(bytes: Vec<u8>, charset: Option<&str>) -> Page {
    let body = Body::Bytes { bytes, charset: charset.map(String::from) };
    Page {
        url: "http://a.example/".into(),
        fetched_at: FetchTime(0),
        sweep: None,
        content: Content::Body { media_type: MediaType::Html, body },
    }
}

/// The HTML of the WARC files in a folder of the data, as received.
#[cfg(feature = "service")]
fn warc_pages() -> Vec<Page> {
    use lookalike::files::{FileSource, Input};
    use lookalike::ports::{Polled, ProgressMap, Source};
    use lookalike::wire::{Limits, Record};
    let Some(folder) = std::env::var_os("LOOKALIKE_DATA").map(|data| Path::new(&data).join("warc")) else {
        return Vec::new();
    };
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<_> = entries.map(|entry| Input::File(entry.expect("an entry").path())).collect();
    files.sort_by_key(|input| format!("{input:?}"));
    let mut source = FileSource::new(files, ProgressMap::new(), Limits::default(), None);
    let mut pages = Vec::new();
    loop {
        match source.poll(Duration::from_secs(1)).expect("readable files") {
            Polled::Record(incoming) => match incoming.record {
                Record::Page(page) if !html_of(&page).is_empty() => pages.push(*page),
                _ => {}
            },
            Polled::Unreadable(_) | Polled::Idle => {}
            Polled::End => return pages,
        }
    }
}

#[cfg(not(feature = "service"))]
fn warc_pages() -> Vec<Page> {
    Vec::new()
}

fn real_pages(c: &mut Criterion) {
    let bench_data = Path::new(env!("CARGO_MANIFEST_DIR")).join("bench-data/sweep-3-2017-09-01.jsonl.zst");
    measure_set(c, "bench-data", &pages_of(html_pages::of_file(&bench_data)));
    for (name, files) in html_pages::data_sets() {
        measure_set(c, &name, &pages_of(files.iter().flat_map(|file| html_pages::of_file(file))));
    }
    measure_set(c, "warc", &warc_pages());
}

/// Measures hostile pages of one MiB each against a flat one: sketched alone, and read for related pages as well. Pages of
/// letters outside ASCII cost the most, above all in another charset, which needs conversion.
fn hostile_pages(c: &mut Criterion) {
    let mut group = c.benchmark_group("hostile");
    let mut sketcher = Sketcher::new(&SketchRule::default(), &SEED);
    let labelled =
        html_pages::hostile().into_iter().map(|(name, html)| (name, page_of(html.into_bytes(), Some("utf-8"))));
    let bare = html_pages::hostile_bytes().into_iter().map(|(name, bytes)| (name, page_of(bytes, None)));
    for (name, page) in labelled.clone().chain(bare) {
        group.throughput(Throughput::BytesDecimal(html_of(&page).len() as u64));
        each(&mut group, name, &[page], |page| drop(black_box(sketcher.sketch_page(page, usize::MAX))));
    }
    group.finish();
    let mut group = c.benchmark_group("hostile, read for related pages");
    let mut sketcher = sketcher.keeping_marks();
    let mut reader = SaidReader::new(&RelatedRule::default(), &SEED);
    for (name, page) in labelled {
        group.throughput(Throughput::BytesDecimal(html_of(&page).len() as u64));
        each(&mut group, name, &[page], |page| {
            drop(black_box(sketcher.sketch_page(page, usize::MAX)));
            drop(black_box(reader.read_marked(page, sketcher.take_marked())));
        });
    }
}

/// The bytes of a page that is HTML.
fn html_of(page: &Page) -> &[u8] {
    match &page.content {
        Content::Body { media_type: MediaType::Html, body } => body.as_bytes(),
        _ => &[],
    }
}

fn charset_of(page: &Page) -> Option<&str> {
    match &page.content {
        Content::Body { body: Body::Bytes { charset, .. }, .. } => charset.as_deref(),
        _ => None,
    }
}

fn measure_set(c: &mut Criterion, name: &str, pages: &[Page]) {
    if pages.is_empty() {
        return;
    }
    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::BytesDecimal(pages.iter().map(|page| html_of(page).len() as u64).sum()));
    for (profile, rule) in [
        ("page to sketch, default", SketchRule::default()),
        ("page to sketch, accurate", SketchRule { rule: Rule::Adaptive { size: 4096 }, ..SketchRule::default() }),
    ] {
        let mut sketcher = Sketcher::new(&rule, &SEED);
        each(&mut group, profile, pages, |page| drop(black_box(sketcher.sketch_page(page, usize::MAX))));
    }
    measure_stages(&mut group, pages);
    let mut sketcher = Sketcher::new(&SketchRule::default(), &SEED);
    each(&mut group, "page to sketch, html5gum", pages, |page| {
        let mut text = String::new();
        html5gum_text::append_text(&decoded(page), &mut text);
        drop(black_box(sketcher.sketch_form(&CanonicalForm::from_text(&text))));
    });
    measure_lexbor(&mut group, pages);
}

fn decoded(page: &Page) -> Cow<'_, str> {
    decode(html_of(page), charset_of(page), MediaType::Html)
}

/// Measures each stage alone on the output of the stage before; the throughput is that of the HTML.
fn measure_stages(group: &mut BenchmarkGroup<'_, WallTime>, pages: &[Page]) {
    each(group, "1 decode", pages, |page| drop(black_box(decoded(page))));
    let html: Vec<_> = pages.iter().map(decoded).collect();
    let mut out = String::new();
    each(group, "2 html", &html, |html| {
        out.clear();
        append_html_text(html, &mut out);
    });
    let text = |html: &Cow<'_, str>| {
        let mut text = String::new();
        append_html_text(html, &mut text);
        text
    };
    let texts: Vec<String> = html.iter().map(text).collect();
    each(group, "3 words", &texts, |text| {
        out.clear();
        black_box(append_words(text, &mut out));
    });
    let forms: Vec<CanonicalForm> = texts.iter().map(|text| CanonicalForm::from_text(text)).collect();
    let mut sketcher = Sketcher::new(&SketchRule::default(), &SEED);
    each(group, "4 sketch", &forms, |form| drop(black_box(sketcher.sketch_form(form))));
}

/// Measures lexbor's text, from another process that has the pages; the rest of the way is the same.
fn measure_lexbor(group: &mut BenchmarkGroup<'_, WallTime>, pages: &[Page]) {
    let Some((mut lexbor, texts)) = Lexbor::start(pages.iter().map(html_of)) else {
        return println!("skipped: lexbor needs python3 and `pip install selectolax`");
    };
    group.bench_function("1-2 by lexbor", |b| b.iter(|| lexbor.parse()));
    let mut sketcher = Sketcher::new(&SketchRule::default(), &SEED);
    group.bench_function("page to sketch, lexbor", |b| {
        b.iter(|| {
            lexbor.parse();
            texts.iter().for_each(|text| drop(black_box(sketcher.sketch_form(&CanonicalForm::from_text(text)))));
        });
    });
}

fn each<T>(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, items: &[T], mut work: impl FnMut(&T)) {
    group.bench_function(name, |b| b.iter(|| items.iter().for_each(|item| work(black_box(item)))));
}

fn settings() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(1))
}

criterion_group! { name = benches; config = settings(); targets = real_pages, hostile_pages }
criterion_main!(benches);
