//! HTML to text: a tokenizer, and what a reader sees of its tokens.
//!
//! ```text
//! HTML ─▶ scanner (text, tags) ─▶ text (block tags separate words, unseen elements are skipped) ─▶ text
//!           name, reference          element
//! ```

#[cfg(test)]
mod conformance;
mod element;
mod name;
mod reference;
mod scanner;
mod text;

pub use text::append_text;
