//! External sorting: more rows than fit in memory become sorted files, and sorted files are merged.
//!
//! ```text
//! Sorter ─▶ run file ┐
//! Sorter ─▶ run file ├─▶ MergeReader ─▶ rows in one order
//! RunFileWriter ─▶ … ┘
//! ```
//! A row type implements [`Row`] for its bytes and [`SortedRow`] for its order. This module knows nothing else of
//! rows.

mod error;
mod merge;
mod row;
mod run_file;
mod sorter;

pub use error::RunFileError;
pub use merge::{MergeReader, split_points};
pub use row::{Row, SortedRow};
pub use run_file::{FinishedFile, RunFile, RunFileReader, RunFileWriter, Window};
pub use sorter::Sorter;
