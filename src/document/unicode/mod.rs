//! What version 1 of the canonical form knows of characters.
//!
//! The tables are frozen: no page's words depend on the Unicode version of a compiler or a crate.

mod class;
#[cfg(test)]
mod generate;
mod lookup;
mod tables;

pub(super) use class::CharClass;
pub(super) use lookup::{class_and_fold, combining_class, compose, decompose, special};
