//! The Python module `lookalike._lookalike`: what runs inside the interpreter. `python/lookalike` wraps it.
//!
//! Sketching, comparing, asking a store and the phases of a spread batch run here, without the interpreter's lock. What takes long and writes files, such
//! as `cluster` and `dedup`, is left to the program, which the wheel brings along.

mod compare;
mod error;
mod files;
mod phases;
mod settings;
mod sketch;
mod store;
mod table;
mod text;

use pyo3::prelude::*;

/// What runs inside the interpreter.
#[pymodule]
mod _lookalike {
    #[pymodule_export]
    use super::compare::compare;
    #[pymodule_export]
    use super::files::{read_clusters, write_pages};
    #[pymodule_export]
    use super::phases::{Lists, Matcher, Pairs, UnionFind, link_metadata, match_rule, sketch_files};
    #[pymodule_export]
    use super::settings::Settings;
    #[pymodule_export]
    use super::sketch::sketch;
    #[pymodule_export]
    use super::store::Store;
    #[pymodule_export]
    use super::table::Table;
    #[pymodule_export]
    use super::text::page_text;
}
