//! HTML to text: a tokenizer, and what a reader sees of its tokens.
//!
//! ```text
//! HTML ─▶ scanner (text, tags) ─▶ text (block tags separate words, unseen elements are skipped) ─▶ text
//!           name, reference          element
//!                                blocks, content: the same text in blocks, and which of them are the page's own; names
//!                                marks: the same text, with its links and titles
//! ```

mod blocks;
#[cfg(test)]
mod conformance;
mod content;
mod element;
mod marks;
mod name;
mod names;
mod reference;
mod scanner;
mod text;

pub use content::{BlockVerdict, ContentBlocks};
pub use marks::{Mark, MarkKind, MarkedText};
pub use text::append_text;
