//! The configuration as the command line sees it.

use super::args::Global;
use super::{Exit, ending};
use crate::config::Config;
use anyhow::Result;

/// Loads the configuration; flags win over everything.
pub(super) fn load(global: &Global) -> Result<Config> {
    let mut config = Config::load(&global.config).map_err(|error| ending(Exit::Usage, error.to_string()))?;
    if let Some(store) = &global.store {
        config.store.path.clone_from(store);
    }
    Ok(config)
}

/// Prints the whole configuration as TOML.
pub(super) fn show(config: &Config) -> Result<Exit> {
    print!("{}", toml::to_string(config)?);
    Ok(Exit::Done)
}
