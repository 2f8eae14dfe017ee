//! Clusters a store's documents under another threshold or policy, from its sketches and without its pages.
//!
//! Candidates are the pairs that share enough of a list, as in the stream, and the store's links. Below the threshold
//! that the store was created with, candidates share `cluster.min_shared` index shingles or a super shingle. Under a
//! rule that ignores common shingles, a shingle counts as common if it is common now, not when a document came.

mod centers;
pub(in crate::backfill) mod cluster_diff;
mod forming;
mod policy;
mod popular;
mod reclustering;
mod remainders;
mod scan;
mod store_lists;
mod verify;

pub use policy::{ReclusterPolicy, Representative};
pub use reclustering::{Reclustered, recluster};
pub use remainders::{Forgetting, forget};
pub use verify::LinkRule;
