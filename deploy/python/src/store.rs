//! `Store`: questions to a store, answered as `lookalike query --format json` does.

use crate::error::{failed, not_found, usage};
use crate::settings::Settings;
use crate::sketch::{media_type, sketch_text};
use crate::table::Text;
use lookalike::ports::Snapshot;
use lookalike::query::{self, LostSearch};
use lookalike::store::RocksStore;
use lookalike::sweep::Ranking;
use lookalike::wire::Limits;
use pyo3::prelude::*;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// A view of a store at the moment when it was opened. Another process may write to the store meanwhile.
#[pyclass(frozen, module = "lookalike._lookalike")]
pub(crate) struct Store {
    path: PathBuf,
    /// None once it is closed.
    snapshot: Mutex<Option<Arc<RocksStore>>>,
    ranking: Ranking,
    limits: Limits,
}

#[pymethods]
impl Store {
    /// Opens a store to read.
    #[new]
    fn new(py: Python<'_>, path: PathBuf, settings: &Settings) -> PyResult<Self> {
        let config = &settings.config;
        let store = py.detach(|| RocksStore::open_read_only(&path, &config.store_settings())).map_err(failed)?;
        let (ranking, limits) = (config.lost.clone(), config.limits.clone());
        Ok(Store { path, snapshot: Mutex::new(Some(Arc::new(store))), ranking, limits })
    }

    /// Closes the store. Questions under way still get their answers.
    fn close(&self) {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// The history of a URL.
    fn query(&self, py: Python<'_>, url: &str) -> PyResult<String> {
        self.answer(py, |store| {
            let answer = query::url(store, url).map_err(failed)?;
            if answer.sightings.is_empty() { Err(never_seen(store, url)) } else { json(&answer) }
        })
    }

    /// The cluster of a URL, or of a number.
    fn cluster(&self, py: Python<'_>, of: &str) -> PyResult<String> {
        self.answer(py, |store| {
            let id = query::named_cluster(store, of).map_err(failed)?;
            let answer = id.map(|id| query::cluster(store, id)).transpose().map_err(failed)?.flatten();
            json(&answer.ok_or_else(|| not_found(format!("there is no cluster of {of}")))?)
        })
    }

    /// Where the content of a URL stands now.
    fn lost(&self, py: Python<'_>, url: &str, limit: usize) -> PyResult<String> {
        self.answer(py, |store| {
            let search = LostSearch { ranking: self.ranking.clone(), limit };
            let answer = query::lost(store, url, &search).map_err(failed)?;
            if answer.newest.is_none() { Err(never_seen(store, url)) } else { json(&answer) }
        })
    }

    /// The documents most like a text.
    fn similar(&self, py: Python<'_>, text: &str, html: bool, limit: usize) -> PyResult<String> {
        self.answer(py, |store| {
            let mut sketcher = store.rule().sketcher(store.seed());
            let text = Text::Text(text);
            let content = sketch_text(&mut sketcher, text, media_type(html), &self.limits).map_err(usage)?;
            if content.n_words == 0 {
                return Err(usage(query::nothing_to_compare("the text", 0, 0)));
            }
            json(&query::similar(store, &content, limit).map_err(failed)?)
        })
    }

    /// What the store holds.
    fn stats(&self, py: Python<'_>) -> PyResult<String> {
        self.answer(py, |store| json(&query::status(store).map_err(failed)?))
    }
}

impl Store {
    /// Answers a question without the interpreter's lock.
    fn answer(&self, py: Python<'_>, answer: impl FnOnce(&RocksStore) -> PyResult<String> + Send) -> PyResult<String> {
        let store = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let store =
            store.ok_or_else(|| usage(format!("the store {} is closed; open it again", self.path.display())))?;
        py.detach(|| answer(&store))
    }
}

fn json(answer: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(answer).map_err(failed)
}

fn never_seen(store: &RocksStore, url: &str) -> PyErr {
    query::never_seen(store, url).map_or_else(failed, not_found)
}
