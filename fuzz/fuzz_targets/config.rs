//! See `tests/corpora/config.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tollgate_fuzz::targets::config::run(bytes));
