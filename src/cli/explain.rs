//! `lookalike explain`: why two pages are in one cluster.

use super::answer_table::{self, AnswerFormat, print_as};
use super::exit::Exit;
use super::named::version;
use super::render;
use super::wiring::open_read_only;
use crate::config::Config;
use crate::query;
use anyhow::Result;

/// Explains how two documents, each named by a URL or its number, are connected.
pub(super) fn explain(config: &Config, names: [&str; 2], format: AnswerFormat) -> Result<Exit> {
    let store = open_read_only(config)?;
    let documents = [version(&store, names[0], None)?, version(&store, names[1], None)?];
    let answer = query::explain(&store, names, documents, usize::MAX)?;
    print_as(&answer, format, answer_table::EXPLANATION, render::explanation)
}
