//! Settings: the program's configuration, from files, the environment and what Python gives.

use crate::error::{failed, usage};
use lookalike::config::Config;
use lookalike::document::Seed;
use lookalike::ports::{Snapshot, StoreRule};
use lookalike::store::RocksStore;
use pyo3::prelude::*;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// A checked configuration.
#[pyclass(frozen, module = "lookalike._lookalike")]
pub(crate) struct Settings {
    pub config: Config,
}

#[pymethods]
impl Settings {
    /// Loads files in their order, then the variables.
    #[new]
    fn new(files: Vec<PathBuf>, variables: HashMap<String, String>) -> PyResult<Self> {
        Ok(Settings { config: Config::load_over(&files, variables).map_err(usage)? })
    }
}

/// Where no seed is configured: sketches are the same everywhere, as those that `lookalike sketch` prints.
const OPEN_SEED: Seed = Seed([0; 4]);

impl Settings {
    /// The rule and the seed of a store, or else the configured ones.
    pub fn rule_and_seed(&self, store: Option<&Path>) -> PyResult<(StoreRule, Seed)> {
        match store {
            Some(path) => {
                let store = RocksStore::open_read_only(path, &self.config.store_settings()).map_err(failed)?;
                Ok((Snapshot::rule(&store).clone(), *store.seed()))
            }
            None => Ok((self.config.rule(), self.config.seed().map_err(usage)?.unwrap_or(OPEN_SEED))),
        }
    }
}
