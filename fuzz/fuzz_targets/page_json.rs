//! Fuzzes the reading of JSON pages.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lookalike_fuzz::page_json(data));
