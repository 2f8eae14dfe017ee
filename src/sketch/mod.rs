//! Sketches: from a canonical form to the few numbers that stand for it (Broder 1997, sections 2 to 4).
//!
//! ```text
//! words ─▶ shingle fingerprints (rabin, shingler) ─▶ Sketch (rule, sample) ─▶ index shingles, super shingles
//!                                                      Sketch × Sketch ─▶ Estimate (resemblance)
//! Sketches ─▶ the Sketch of what they have in common (popular)
//! Rule ─▶ what it keeps and how accurate it is (certainty)
//! ```

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod carry_less;
#[cfg(target_arch = "x86_64")]
mod carry_less_wide;
mod certainty;
mod codec;
mod confirmation;
mod content_bytes;
mod gf2;
mod parity;
mod popular;
mod rabin;
mod resemblance;
mod rice;
mod rule;
mod sample;
mod shingle;
mod shingler;
mod sketcher;
mod sort;
mod super_shingle;

pub use certainty::{EstimateBasis, SampleSize, sample_within, sample_wrong_side};
pub use codec::{InvalidSketch, decode, encode};
pub use confirmation::Confirmation;
pub use gf2::Polynomial;
pub use rabin::Rabin;
pub use resemblance::{Estimate, ModCounts, compare, compare_down_to, compare_redacted};
pub use rule::{Rule, SketchRule};
pub use sample::{Sketch, SketchForm};
pub use shingle::{Multiplicity, Shingle};
pub use shingler::Shingler;
pub use sketcher::{Equivalences, SketchOutcome, SketchedContent, Sketcher, Unsketchable, lexical_fingerprint};
pub use super_shingle::SuperShingler;
