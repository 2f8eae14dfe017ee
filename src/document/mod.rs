//! Pages and their canonical form: from the bytes that a crawler sent to a sequence of words.
//!
//! ```text
//! Page ─▶ decode (charset) ─▶ html (text) ─▶ words (lower case, runs of letters and digits) ─▶ CanonicalForm
//! ```
//!
//! [`CANONICAL_VERSION`] freezes the canonical form; a store keeps the version it was created with.

mod address;
mod ascii;
mod ascii_words;
mod canonical;
mod charset;
mod decode;
mod entities;
mod fingerprint;
mod html;
mod id;
mod page;
mod tag;
mod unicode;
mod words;

pub use address::{BaseUrl, host_key, host_of, path_of, reference_of_href, resolve, url_key};
pub(crate) use ascii::{BLOCK_BYTES, alphabetic, prefix as ascii_prefix};
pub use canonical::{
    CANONICAL_VERSION, CanonicalForm, CanonicalRule, Canonicaliser, NoText, PageContent, content_blocks, mark_text,
    plain_text, tidy_text,
};
pub use decode::decode;
pub use fingerprint::{Fingerprint, Seed};
pub use html::{BlockVerdict, ContentBlocks, Mark, MarkKind, MarkedText, append_text as append_html_text};
pub use id::{ClusterId, DocumentId};
pub use page::{Body, Content, FetchTime, InvalidTime, MediaType, Page};
pub use words::{append_words, word_starts};
