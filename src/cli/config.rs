//! `lookalike config`: shows or checks the configuration, which every other command loads here.

use super::args::{ConfigCommand, Global};
use super::exit::{Exit, usage};
use super::log_line;
use super::output::print;
use crate::config::{Config, LogFormat};
use crate::http::Token;
use anyhow::Result;

/// Loads the configuration; flags win over everything.
pub(super) fn load(global: &Global) -> Result<Config> {
    let mut config = Config::load(&global.config).map_err(|error| {
        log_line::set_format(LogFormat::guess(&global.config));
        usage(error)
    })?;
    log_line::set_format(config.log.format);
    if let Some(store) = &global.store {
        config.store.path.clone_from(store);
    }
    Ok(config)
}

/// Shows the configuration as TOML or JSON, or confirms that it loaded.
pub(super) fn config(config: &Config, command: &ConfigCommand, json: bool) -> Result<Exit> {
    match command {
        ConfigCommand::Show if json => print(config, true, |_| String::new()),
        ConfigCommand::Show => {
            let text = toml::to_string(config)?;
            print(config, false, |_| text)
        }
        ConfigCommand::Validate => {
            let tokens = [("http.token", &config.http.token), ("http.read_token", &config.http.read_token)];
            for (setting, place) in tokens {
                if !place.is_empty() {
                    Token::place(setting, place).map_err(usage)?;
                }
            }
            print(&serde_json::json!({"is_valid": true}), json, |_| "the configuration is valid\n".to_string())
        }
    }
}
