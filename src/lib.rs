//! probe
pub mod cluster;
pub mod document;
#[cfg(feature = "service")]
pub mod kafka;
pub mod ports;
pub mod sketch;
pub mod sweep;
pub mod wire;
