//! The pages for people: the store at a glance, its clusters, a URL over the sweeps and where it is now, two copies side by
//! side, and the pages that hold a text.
//!
//! The server renders them whole. They need no script, and their policy forbids any.

mod clusters;
mod compare;
mod content;
mod counted;
mod differences;
mod explain;
mod form;
mod frame;
mod home;
mod html;
mod overview;
mod related;
mod reuse;
mod search;
mod sheet;
mod timeline;
mod url;

pub(super) use clusters::clusters;
pub(super) use compare::{compare, compare_texts};
pub(super) use content::{content_of_page, content_of_url};
pub(super) use explain::explain;
pub(super) use frame::{error_page, favicon, style};
pub(super) use home::home;
pub(crate) use html::Html;
pub(super) use reuse::{reuse_of_text, reuse_of_url};
