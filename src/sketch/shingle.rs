//! A shingle: w consecutive words, as one number.

use serde::{Deserialize, Serialize};

/// The fingerprint of one shingle under the store's permutation, in the low `bits` bits.
pub type Shingle = u64;

/// How a shingle that occurs twice counts (Broder, "On the resemblance and containment of documents", section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Multiplicity {
    /// Option A: the n-th occurrence is a shingle of its own.
    #[serde(rename = "labelled")]
    Labelled,
    /// Option B: S(D, w) is a set.
    #[serde(rename = "set")]
    Set,
}
