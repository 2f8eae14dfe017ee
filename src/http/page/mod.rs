//! The page for people: one URL over the sweeps, where it is now, what resembles it, and two copies side by side.
//!
//! The server renders it whole. It needs no script, and its policy forbids any.

mod compare;
mod explain;
mod frame;
mod home;
mod html;
mod related;
mod timeline;

pub(super) use compare::{compare, compare_texts};
pub(super) use explain::explain;
pub(super) use frame::{error_page, favicon, style};
pub(super) use home::home;
pub(crate) use html::Html;
