//! Clusters: connected components of documents that resemble each other (Broder 1997, section 4).
//!
//! ```text
//! SketchedContent ─▶ equivalences ─▶ candidates (super shingles, postings) ─▶ compare sketches ─▶ union-find
//!                     decide(content, index, view) → Decision + Effects
//! ```
//! Nothing here reads or writes. The store's knowledge comes in as [`BatchIndex`] and through a [`View`]; the
//! changes go out as [`Effects`].

mod candidates;
mod counts;
mod decide;
mod index_query;
mod prefetch;
mod rule;
mod union_find;
mod view;

pub use candidates::{
    BatchIndex, Documents, REPRESENTATIVES_MAX, Representatives, add_documents, candidates_by_representatives,
    first_representatives,
};
pub use counts::{ClusterCounts, EqualCluster};
pub use decide::{Decider, Decision, Effects, Link, Match, NewDocument, Relation};
pub use index_query::IndexQuery;
pub use prefetch::Prefetcher;
pub use rule::{ClusterPolicy, MatchRule};
pub use union_find::{ClusterRow, Clusters, Merge};
pub use view::{PostingList, SketchView, TooManyDocuments, UnreadIn, View};
