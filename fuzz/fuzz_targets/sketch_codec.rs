//! Fuzzes the bytes of stored sketches.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lookalike_fuzz::sketch_codec(data));
