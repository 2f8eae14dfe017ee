//! probe
pub mod cluster;
pub mod document;
#[cfg(feature = "service")]
pub mod pipeline;
pub mod ports;
#[cfg(feature = "service")]
pub mod query;
pub mod sketch;
#[cfg(feature = "service")]
pub mod store;
pub mod sweep;
pub mod wire;
