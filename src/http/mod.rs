//! The HTTP door: the same questions as on the command line, as JSON under `/v1/`, and a page for people at `/`.
//!
//! ```text
//! connection (places, patience) ─▶ head ─▶ body (room) ─▶ turn ─▶ view of the store ─▶ answer
//! ```
//! It can change nothing: all that a route gets is a [`View`](crate::ports::Views::View), which can only be read.
//! Beside the pure rooms and `query` it may know `ports`, for the views.

mod applications;
mod asked;
mod connections;
mod cursor;
mod house;
mod operations;
mod page;
mod refusal;
mod routes;
mod settings;
mod v1;

pub use connections::serve;
pub use house::House;
pub use settings::Settings;
