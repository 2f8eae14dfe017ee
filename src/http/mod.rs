//! The HTTP server: the questions of the command line, as JSON under `/v1/`, and a page for people at `/`.
//!
//! ```text
//! connection (slots, timeouts) ─▶ head (host, rate, token) ─▶ body (memory) ─▶ turn ─▶ snapshot ─▶ answer
//! ```
//! A route gets a [`Snapshot`](crate::ports::Snapshots::Snapshot), which only reads. The one change, closing a
//! sweep, is a request to the process that writes the store, and needs a token.

mod admission;
mod answer;
mod archive;
mod audit_line;
mod auth;
mod body;
mod client;
mod compare;
mod connection_slots;
mod connections;
mod cursor;
mod error;
mod etag;
mod events;
mod explain;
mod hosts;
mod operations;
mod overview;
mod page;
mod rate_limit;
mod related;
mod request;
mod reuse;
mod routes;
mod service;
mod settings;
mod sweeps;
mod text;
mod throughput;
mod v1;

pub use auth::{Access, Token, TokenError, WriteAccess};
pub use connections::serve;
pub(crate) use page::Html;
pub use service::Service;
pub use settings::Settings;
