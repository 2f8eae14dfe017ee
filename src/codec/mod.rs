//! Encodings that several formats share: variable-length integers and length-prefixed bytes.
//!
//! Every decoder takes its value off the front of a byte slice and returns `None` where the bytes hold no such value.

mod byte_string;
mod varint;

pub use byte_string::{decode_array, decode_bytes, encode_bytes};
pub use varint::{decode_varint, encode_varint};
