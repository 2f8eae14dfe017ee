//! Posting lists on disk: packed into blocks of sorted runs, which are merged in tiers.
//!
//! ```text
//! part of the posting buffer ─▶ run of level 0 ─┐
//!                               run of level 0 ─┼─▶ run of level 1 ─┐
//!                               run of level 0 ─┤                   ├─▶ run of level 2 …
//!                               …               ┘   …               ┘
//! ```
//! A run holds the lists of some documents in row, those of one kind of shingle, in the order of the shingles. Search engines
//! keep their indexes like this (Büttcher and Clarke, "Indexing Time vs. Query Time: Trade-offs in Dynamic Information Retrieval
//! Systems", 2005; Lucene's segments). A row in RocksDB is a [block](block) of some hundred lists, and its key begins with the
//! number of the run, so that runs never overlap and RocksDB has nothing to compact. Merging a list here costs a fifth of what it
//! costs RocksDB to compact a row for each.
//!
//! Each run has a Bloom filter, in rows behind its blocks, and in memory where the store is open for writing; there, a [group](group)
//! of small runs has one more. `meta/posting-runs` says which runs there are: the rows of others do not count, and the next start
//! deletes them.

mod block;
mod cursor;
mod filter;
mod group;
mod grouping;
mod key;
mod lists;
mod live;
mod loaded;
mod look_up;
mod merger;
mod tiers;
mod unneeded;
mod writer;

pub(super) use block::{BlockWriter, lists_of};
pub(super) use key::{LOADED_RUN, block_key, is_block};
pub(super) use live::{NewRun, PostingRuns};
pub(super) use merger::Merger;
