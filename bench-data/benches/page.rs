//! A page's whole way, from the bytes of its HTML to its finished sketch, on one core: all of it, stage by stage, and
//! with html5gum in the scanner's place.
//!
//! `LOOKALIKE_DATA` names a directory of further data sets; each of its directories is measured as well.

#![expect(clippy::expect_used, reason = "a benchmark without its pages has nothing to measure")]

#[path = "../../tests/html5gum/mod.rs"]
mod html5gum_text;
#[path = "../../tests/html_pages/mod.rs"]
mod html_pages;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use lookalike::document::{Body, CanonicalForm, Content, FetchTime, MediaType, Page, Seed};
use lookalike::document::{append_html_text, append_words, decode};
use lookalike::sketch::{Rule, SketchRule, Sketcher};
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

/// As much of a data set as is measured.
const BYTES_MAX: usize = 32 << 20;

const SEED: Seed = Seed([1, 2, 3, 4]);

fn pages_of(bodies: Vec<String>) -> Vec<Page> {
    let mut n_bytes = 0;
    let bodies = bodies.into_iter().take_while(|body| {
        n_bytes += body.len();
        n_bytes <= BYTES_MAX
    });
    let page = |body: String| Page {
        url: "http://a.example/".into(),
        fetched_at: FetchTime(0),
        sweep: None,
        content: Content::Body {
            media_type: MediaType::Html,
            body: Body::Bytes { bytes: body.into_bytes(), charset: Some("utf-8".into()) },
        },
    };
    bodies.map(page).collect()
}

fn real_pages(c: &mut Criterion) {
    let bench_data = Path::new(env!("CARGO_MANIFEST_DIR")).join("bench-data/sweep-3-2017-09-01.jsonl.zst");
    measure_set(c, "bench-data", pages_of(html_pages::of_file(&bench_data)));
    for (name, files) in html_pages::data_sets() {
        measure_set(c, &name, pages_of(files.iter().flat_map(|file| html_pages::of_file(file)).collect()));
    }
}

fn bytes_of(page: &Page) -> &[u8] {
    match &page.content {
        Content::Body { body, .. } => body.as_bytes(),
        _ => &[],
    }
}

fn measure_set(c: &mut Criterion, name: &str, pages: Vec<Page>) {
    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::BytesDecimal(pages.iter().map(|page| bytes_of(page).len() as u64).sum()));
    for (profile, rule) in [
        ("page to sketch, default", SketchRule::default()),
        ("page to sketch, accurate", SketchRule { rule: Rule::Adaptive { size: 4096 }, ..SketchRule::default() }),
    ] {
        let mut sketcher = Sketcher::new(&rule, &SEED);
        each(&mut group, profile, &pages, |page| drop(black_box(sketcher.sketch_page(page, usize::MAX))));
    }
    measure_stages(&mut group, &pages);
    let mut sketcher = Sketcher::new(&SketchRule::default(), &SEED);
    each(&mut group, "page to sketch, html5gum", &pages, |page| {
        let mut text = String::new();
        html5gum_text::append_text(&decode(bytes_of(page), None, MediaType::Html), &mut text);
        drop(black_box(sketcher.sketch_form(&CanonicalForm::of_text(&text))));
    });
}

/// Every stage alone, on what the one before it makes; the throughput is still that of the HTML.
fn measure_stages(group: &mut BenchmarkGroup<'_, WallTime>, pages: &[Page]) {
    each(group, "1 decode", pages, |page| drop(black_box(decode(bytes_of(page), Some("utf-8"), MediaType::Html))));
    let html: Vec<&str> = pages.iter().map(|page| std::str::from_utf8(bytes_of(page)).expect("UTF-8")).collect();
    let mut out = String::new();
    each(group, "2 html", &html, |html| {
        out.clear();
        append_html_text(html, &mut out);
    });
    let text = |html: &&str| {
        let mut text = String::new();
        append_html_text(html, &mut text);
        text
    };
    let texts: Vec<String> = html.iter().map(text).collect();
    each(group, "3 words", &texts, |text| {
        out.clear();
        black_box(append_words(text, &mut out));
    });
    let forms: Vec<CanonicalForm> = texts.iter().map(|text| CanonicalForm::of_text(text)).collect();
    let mut sketcher = Sketcher::new(&SketchRule::default(), &SEED);
    each(group, "4 sketch", &forms, |form| drop(black_box(sketcher.sketch_form(form))));
}

fn each<T>(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, items: &[T], mut work: impl FnMut(&T)) {
    group.bench_function(name, |b| b.iter(|| items.iter().for_each(|item| work(black_box(item)))));
}

fn settings() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
}

criterion_group! { name = benches; config = settings(); targets = real_pages }
criterion_main!(benches);
