//! HTML to text and to the text of its content, on real and hostile pages, compared with html5gum.
//!
//! `LOOKALIKE_DATA` names a directory with further data sets; each of its directories is measured as well.

#[path = "../../tests/it/html/html5gum.rs"]
mod html5gum_text;
#[path = "../../tests/it/html/pages.rs"]
mod html_pages;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use lookalike::document::{ContentBlocks, append_html_text};
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

/// The most bytes of a data set that are measured.
const BYTES_MAX: usize = 32 << 20;

fn real_pages(c: &mut Criterion) {
    let bench_data = Path::new(env!("CARGO_MANIFEST_DIR")).join("bench-data/sweep-3-2017-09-01.jsonl.zst");
    compare(c, "bench-data", html_pages::of_file(&bench_data));
    for (name, files) in html_pages::data_sets() {
        compare(c, &name, files.iter().flat_map(|file| html_pages::of_file(file)));
    }
}

fn compare(c: &mut Criterion, name: &str, pages: impl Iterator<Item = String>) {
    let pages = html_pages::up_to(BYTES_MAX, pages);
    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::Bytes(pages.iter().map(|page| page.len() as u64).sum()));
    measure(&mut group, "ours", &pages, append_html_text);
    measure(&mut group, "content", &pages, content());
    measure(&mut group, "html5gum", &pages, html5gum_text::append_text);
}

fn hostile_pages(c: &mut Criterion) {
    let mut group = c.benchmark_group("hostile");
    for (name, page) in html_pages::hostile() {
        group.throughput(Throughput::Bytes(page.len() as u64));
        let pages = [page];
        measure(&mut group, name, &pages, append_html_text);
        measure(&mut group, &format!("{name}, content"), &pages, content());
    }
}

/// Appends the content of a page, with buffers that every page shares.
fn content() -> impl FnMut(&str, &mut String) {
    let mut blocks = ContentBlocks::default();
    move |html, out| {
        blocks.read_html(html);
        blocks.content().for_each(|text| out.push_str(text));
    }
}

fn measure(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    pages: &[String],
    mut append_text: impl FnMut(&str, &mut String),
) {
    group.bench_function(name, |b| {
        let mut out = String::new();
        b.iter(|| {
            for page in pages {
                out.clear();
                append_text(black_box(page), &mut out);
                black_box(&out);
            }
        });
    });
}

fn settings() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(1))
}

criterion_group!(name = benches; config = settings(); targets = real_pages, hostile_pages);
criterion_main!(benches);
