//! Fuzzes the decoding of pages in all charsets.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lookalike_fuzz::decode(data));
