//! probe
pub mod cluster;
pub mod document;
pub mod ports;
pub mod sketch;
pub mod sweep;
pub mod wire;
