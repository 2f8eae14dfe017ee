//! `lookalike explain`: why two pages are in one cluster.

use super::answer_table::{self, AnswerFormat, print_as};
use super::exit::{Exit, ending};
use super::query::never_seen;
use super::render;
use super::wiring::open_read_only;
use crate::config::Config;
use crate::document::DocumentId;
use crate::ports::Snapshot;
use crate::query::{self, NamedDocument};
use anyhow::Result;

/// Explains how two documents, each named by a URL or its number, are connected.
pub(super) fn explain(config: &Config, names: [&str; 2], format: AnswerFormat) -> Result<Exit> {
    let store = open_read_only(config)?;
    let documents = [document(&store, names[0])?, document(&store, names[1])?];
    let answer = query::explain(&store, names, documents, usize::MAX)?;
    print_as(&answer, format, answer_table::EXPLANATION, render::explanation)
}

fn document(snapshot: &impl Snapshot, name: &str) -> Result<DocumentId> {
    match query::named_document(snapshot, name)? {
        NamedDocument::Found(document) => Ok(document),
        NamedDocument::NeverSeen => Err(never_seen(snapshot, name)),
        NamedDocument::NoDocument => Err(ending(Exit::NotFound, format!("there is no document {name}"))),
        NamedDocument::NoPage => {
            let message = format!("no page was ever seen at {name}, only redirects or none; `query url` shows them");
            Err(ending(Exit::NotFound, message))
        }
    }
}
