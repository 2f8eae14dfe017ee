//! Words to sketches: word fingerprints and windows a second, and whole sketches.

#![expect(clippy::expect_used, reason = "a benchmark without its texts has nothing to measure")]

mod corpus;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use lookalike::document::{CanonicalForm, Seed};
use lookalike::sketch::{Polynomial, Rabin, Rule, SketchRule, Sketcher};
use std::hint::black_box;

const SEED: Seed = Seed([1, 2, 3, 4]);

fn forms() -> Vec<CanonicalForm> {
    corpus::english().iter().map(|text| CanonicalForm::from_text(text)).collect()
}

fn rabin(c: &mut Criterion) {
    let forms = forms();
    let n_words = forms.iter().map(|form| form.n_words() as u64).sum();
    let rabin = Rabin::new(Polynomial::from_seed(&SEED), 10);
    let mut group = c.benchmark_group("rabin");
    group.throughput(Throughput::Elements(n_words));
    let mut tokens = Vec::new();
    group.bench_function("tokens", |b| {
        b.iter(|| {
            tokens.clear();
            forms.iter().for_each(|form| rabin.tokens(black_box(form.as_str()), &mut tokens));
        })
    });
    let mut found = Vec::new();
    group.bench_function("windows", |b| {
        b.iter(|| {
            found.clear();
            rabin.windows(black_box(&tokens), |fingerprint| fingerprint, &mut found);
        })
    });
    group.finish();
}

fn sketch(c: &mut Criterion) {
    let forms = forms();
    let mut group = c.benchmark_group("sketch");
    group.throughput(Throughput::Bytes(forms.iter().map(|form| form.as_str().len() as u64).sum()));
    let rules = [
        ("adaptive 4096", Rule::Adaptive { size: 4096 }),
        ("adaptive 256", Rule::Adaptive { size: 256 }),
        ("mod 25", Rule::Mod { modulus: 25 }),
    ];
    for (name, rule) in rules {
        let mut sketcher = Sketcher::new(&SketchRule { rule, ..SketchRule::default() }, &SEED);
        group.bench_function(name, |b| {
            b.iter(|| forms.iter().for_each(|form| drop(black_box(sketcher.sketch_form(form)))))
        });
    }
    group.finish();
}

criterion_group!(benches, rabin, sketch);
criterion_main!(benches);
