//! Fuzzes HTML to text.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lookalike_fuzz::html(data));
