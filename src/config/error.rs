//! What is wrong with a configuration.

/// Why a configuration cannot be used, and what to change.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub(super) String);
