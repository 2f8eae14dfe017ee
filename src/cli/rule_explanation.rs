//! `lookalike sketch --explain`: what a sketch rule costs, and how sure its resemblances are.

use crate::document::Seed;
use crate::ports::StoreRule;
use crate::sketch::{EstimateBasis, SampleSize, Shingle, SketchRule, encode};
use serde::Serialize;
use std::fmt::Write;

/// The sizes of documents in the table, in shingles.
const SIZES: [usize; 7] = [50, 200, 500, 1000, 2000, 5000, 20_000];

/// ε of Broder's p(s, r, ε).
const EPSILON: f64 = 0.05;

/// Resemblances in the table, whatever the threshold is.
const FIXED_RESEMBLANCES: [f64; 2] = [0.5, 0.9];

/// Distances from the threshold at which an estimate may land on its wrong side.
const DISTANCES: [f64; 4] = [-0.1, -0.05, 0.05, 0.1];

/// Random documents that give the size of an encoded sketch: their sizes differ by about 1 %.
const DOCUMENTS_DRAWN: u64 = 8;

/// What a rule costs, and how sure its resemblances are.
#[derive(Debug, Serialize)]
pub(super) struct Explanation {
    pub rule: SketchRule,
    pub threshold: f64,
    pub epsilon: f64,
    sizes: Vec<SizeRow>,
}

/// The rule at one size of documents.
#[derive(Debug, Serialize)]
struct SizeRow {
    pub n_shingles: usize,
    /// None for a bitmap.
    pub shingles_kept: Option<usize>,
    /// None without a bitmap.
    pub bits_kept: Option<usize>,
    /// Bytes of the encoded sketch, the mean of a few.
    pub n_bytes: usize,
    pub at: Vec<Sureness>,
}

/// How sure the estimate is for two documents of this size and a resemblance.
#[derive(Debug, Serialize)]
struct Sureness {
    pub resemblance: f64,
    /// The paper's s, where the estimate rests on a sample of the union.
    pub n_compared: Option<usize>,
    pub standard_error: f64,
    /// The probability p(s, r, ε) that the estimate is at most ε away.
    pub within_epsilon: f64,
    pub wrong_side: f64,
}

/// Explains a rule.
pub(super) fn explanation(rule: &StoreRule) -> Explanation {
    let threshold = rule.cluster.threshold;
    let resemblances = resemblances(threshold);
    let row = |n_shingles| {
        let (shingles_kept, bits_kept) = match rule.sketch.rule.kept(n_shingles) {
            SampleSize::Shingles(n) => (Some(n), None),
            SampleSize::Bits(n) => (None, Some(n)),
        };
        let sureness = |r: &f64| sureness(rule.sketch.rule.evidence(n_shingles, *r), *r, threshold);
        let n_bytes = encoded_bytes(&rule.sketch, n_shingles);
        SizeRow { n_shingles, shingles_kept, bits_kept, n_bytes, at: resemblances.iter().map(sureness).collect() }
    };
    Explanation { rule: rule.sketch.clone(), threshold, epsilon: EPSILON, sizes: SIZES.into_iter().map(row).collect() }
}

fn resemblances(threshold: f64) -> Vec<f64> {
    let mut found: Vec<f64> = near(threshold).into_iter().chain(FIXED_RESEMBLANCES).collect();
    found.sort_unstable_by(f64::total_cmp);
    found.dedup();
    found
}

/// The resemblances around a threshold, rounded to what the table shows.
fn near(threshold: f64) -> Vec<f64> {
    let decimal = |r: f64| (r * 1e6).round() / 1e6;
    let around = DISTANCES.map(|distance| decimal(threshold + distance));
    around.into_iter().filter(|r| *r > 0.0 && *r <= 1.0).collect()
}

fn sureness(evidence: EstimateBasis, r: f64, threshold: f64) -> Sureness {
    let n_compared = if let EstimateBasis::Sample { n_compared } = evidence { Some(n_compared) } else { None };
    Sureness {
        resemblance: r,
        n_compared,
        standard_error: evidence.standard_error(r),
        within_epsilon: evidence.within(r, EPSILON),
        wrong_side: evidence.wrong_side(r, threshold),
    }
}

/// The mean size in bytes of an encoded sketch of `n` random shingles.
fn encoded_bytes(rule: &SketchRule, n: usize) -> usize {
    let mut bytes = Vec::new();
    for document in 0..DOCUMENTS_DRAWN {
        let seed = Seed([document, 0, 0, 0]);
        let mut shingles: Vec<Shingle> =
            (0..n as u64).map(|at| seed.derive("shingle", at) >> (Shingle::BITS - rule.bits)).collect();
        encode(&rule.sketch(&mut shingles), &mut bytes);
    }
    bytes.len() / DOCUMENTS_DRAWN as usize
}

/// A line for each size of documents.
pub(super) fn text(explanation: &Explanation) -> String {
    let (threshold, epsilon) = (explanation.threshold, explanation.epsilon);
    let near = near(threshold);
    let mut text = format!("{}\n\n", rule_text(&explanation.rule));
    let _ = writeln!(
        text,
        "{:24}{:>8}  {:16}  {:18}  on the wrong side of {threshold:.2}, at",
        "",
        "",
        "standard error at",
        format!("within {epsilon:.2}, at"),
    );
    let mut heads = vec![format!("{:>8}  {:>14}  {:>6}", "shingles", "kept", "bytes")];
    heads.extend(FIXED_RESEMBLANCES.map(|r| format!("{r:>8.2}")));
    heads.extend(FIXED_RESEMBLANCES.map(|r| format!("{r:>8.2}")));
    heads.extend(near.iter().map(|r| format!("{r:>8.2}")));
    let _ = writeln!(text, "{}", heads.join("  "));
    for size in &explanation.sizes {
        let _ = writeln!(text, "{}", size_text(size, &near));
    }
    text
}

fn size_text(size: &SizeRow, near: &[f64]) -> String {
    let kept = match (size.shingles_kept, size.bits_kept) {
        (Some(n), _) if n == size.n_shingles => "all".to_string(),
        (Some(n), _) => format!("{n} shingles"),
        (None, n) => format!("{} bits", n.unwrap_or(0)),
    };
    let at = |r: &f64| size.at.iter().find(|at| at.resemblance == *r);
    let cell = |r: &f64, show: &dyn Fn(&Sureness) -> String| format!("{:>8}", at(r).map_or(String::new(), show));
    let mut cells = vec![format!("{:>8}  {kept:>14}  {:>6}", size.n_shingles, size.n_bytes)];
    cells.extend(FIXED_RESEMBLANCES.map(|r| cell(&r, &|at| error_text(at.standard_error))));
    cells.extend(FIXED_RESEMBLANCES.map(|r| cell(&r, &|at| probability_text(at.within_epsilon))));
    cells.extend(near.iter().map(|r| cell(r, &|at| probability_text(at.wrong_side))));
    cells.join("  ")
}

/// The sampling rule as the configuration spells it.
fn rule_text(rule: &SketchRule) -> String {
    let keys = serde_json::to_value(rule.rule).unwrap_or_default();
    let keys = keys.as_object().into_iter().flatten().map(|(key, value)| format!("{key} = {value}"));
    keys.chain([format!("w = {}", rule.w), format!("bits = {}", rule.bits)]).collect::<Vec<_>>().join(", ")
}

fn error_text(error: f64) -> String {
    if error == 0.0 { "exact".into() } else { format!("{error:.4}") }
}

/// A probability, never rounded to 0 % or 100 %.
fn probability_text(p: f64) -> String {
    match p {
        0.0 => "0 %".into(),
        1.0 => "100 %".into(),
        _ if p < 0.0001 => "<0.01 %".into(),
        _ if p > 0.9999 => ">99.99 %".into(),
        _ => format!("{:.2} %", p * 100.0),
    }
}
