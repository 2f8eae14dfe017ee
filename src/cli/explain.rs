//! `lookalike sketch --explain`: what a sketch rule costs, and how sure the resemblances are that it tells.

use super::{Exit, render};
use crate::document::Seed;
use crate::ports::StoreRule;
use crate::sketch::{EstimateBasis, SampleSize, Shingle, SketchRule, encode};
use anyhow::Result;
use serde::Serialize;
use std::io::Write;

/// The sizes of documents that are told of, in shingles.
const SIZES: [usize; 7] = [50, 200, 500, 1000, 2000, 5000, 20_000];

/// ε of Broder's p(s, r, ε).
const EPSILON: f64 = 0.05;

/// Resemblances that are told of whatever the threshold is.
pub(super) const FIXED_RESEMBLANCES: [f64; 2] = [0.5, 0.9];

/// How far from the threshold the resemblances are that may be taken for what they are not.
const DISTANCES: [f64; 4] = [-0.1, -0.05, 0.05, 0.1];

/// Documents drawn to weigh an encoded sketch: their sizes differ by a byte in a hundred.
const DOCUMENTS_DRAWN: u64 = 8;

/// What a rule costs, and how sure it is.
#[derive(Debug, Serialize)]
pub(super) struct Explanation {
    pub rule: SketchRule,
    pub threshold: f64,
    pub epsilon: f64,
    pub sizes: Vec<OfSize>,
}

/// The same for documents of one size.
#[derive(Debug, Serialize)]
pub(super) struct OfSize {
    pub n_shingles: usize,
    /// None: a bitmap.
    pub shingles_kept: Option<usize>,
    /// None: no bitmap.
    pub bits_kept: Option<usize>,
    /// Of the encoded sketch, the mean of a few.
    pub n_bytes: usize,
    pub at: Vec<Sureness>,
}

/// How sure the estimate is for two documents of one size and a resemblance.
#[derive(Debug, Serialize)]
pub(super) struct Sureness {
    pub resemblance: f64,
    /// s, where the estimate rests on a sample of the union.
    pub n_compared: Option<usize>,
    pub standard_error: f64,
    /// p(s, r, ε).
    pub within_epsilon: f64,
    pub wrong_side: f64,
}

/// Explains a rule.
pub(super) fn explain(rule: &StoreRule, json: bool) -> Result<Exit> {
    let explanation = explanation(rule);
    let text = if json { serde_json::to_string(&explanation)? + "\n" } else { render::explanation(&explanation) };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(Exit::Done)
}

fn explanation(rule: &StoreRule) -> Explanation {
    let threshold = rule.cluster.threshold;
    let resemblances = resemblances(threshold);
    let of_size = |n_shingles| {
        let (shingles_kept, bits_kept) = match rule.sketch.rule.kept(n_shingles) {
            SampleSize::Shingles(n) => (Some(n), None),
            SampleSize::Bits(n) => (None, Some(n)),
        };
        let sureness = |r: &f64| sureness(rule.sketch.rule.evidence(n_shingles, *r), *r, threshold);
        let n_bytes = encoded_bytes(&rule.sketch, n_shingles);
        OfSize { n_shingles, shingles_kept, bits_kept, n_bytes, at: resemblances.iter().map(sureness).collect() }
    };
    Explanation {
        rule: rule.sketch.clone(),
        threshold,
        epsilon: EPSILON,
        sizes: SIZES.into_iter().map(of_size).collect(),
    }
}

fn resemblances(threshold: f64) -> Vec<f64> {
    let mut found: Vec<f64> = near(threshold).into_iter().chain(FIXED_RESEMBLANCES).collect();
    found.sort_unstable_by(f64::total_cmp);
    found.dedup();
    found
}

/// The resemblances around a threshold, as decimals that are read back as what is shown.
pub(super) fn near(threshold: f64) -> Vec<f64> {
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

/// The bytes of an encoded sketch of `n` shingles, drawn at random.
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
