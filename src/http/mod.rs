//! The HTTP door: the same questions as on the command line, as JSON under `/v1/`, and a page for people at `/`.
//!
//! ```text
//! connection (places, patience) ─▶ head (host) ─▶ body (room) ─▶ turn ─▶ view of the store ─▶ answer
//! ```
//! It can change nothing itself: all that a route gets is a [`View`](crate::ports::Views::View), which can only be read.
//! What may be changed, which is that a sweep be closed, is asked of whoever writes the store, and only where there is a
//! token and the request shows it. Beside the pure rooms and `query` it may know `ports`, for the views and the asking.

mod applications;
mod asked;
mod changes;
mod connections;
mod cursor;
mod hosts;
mod house;
mod operations;
mod page;
mod places;
mod refusal;
mod routes;
mod settings;
mod v1;

pub use changes::{Changes, Token, TokenError};
pub use connections::serve;
pub use house::House;
pub use settings::Settings;
