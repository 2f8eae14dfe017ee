//! The HTTP door: the same questions as on the command line, as JSON under `/v1/`, and a page for people at `/`.
//!
//! ```text
//! connection (places, patience) ─▶ head (host) ─▶ body (room) ─▶ turn ─▶ view of the store ─▶ answer
//! ```
//! It can change nothing itself: all that a route gets is a [`Snapshot`](crate::ports::Snapshots::Snapshot), which can only be read.
//! What may be changed, which is that a sweep be closed, is asked of whoever writes the store, and only where there is a
//! token and the request shows it. Beside the pure rooms and `query` it may know `ports`, for the snapshots and the asking.

mod auth;
mod connection_slots;
mod connections;
mod cursor;
mod error;
mod hosts;
mod operations;
mod page;
mod request;
mod reuse;
mod routes;
mod service;
mod settings;
mod v1;

pub use auth::{Token, TokenError, WriteAccess};
pub use connections::serve;
pub use service::Service;
pub use settings::Settings;
