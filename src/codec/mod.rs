//! Encodings that several formats share: variable-length integers, lists of numbers, length-prefixed bytes, and values that
//! may be absent.
//!
//! Every decoder takes its value off the front of a byte slice and returns `None` where the bytes hold no such value.

mod byte_string;
mod field;
mod numbers;
mod text;
mod varint;

pub use byte_string::{decode_array, decode_bytes, encode_bytes};
pub use field::{decode_field, encode_field};
pub use numbers::{decode_numbers, encode_numbers};
pub use text::{
    decode_flag, decode_string, decode_string_after, decode_text, encode_flag, encode_string_after, encode_text,
};
pub use varint::{decode_varint, encode_varint};
