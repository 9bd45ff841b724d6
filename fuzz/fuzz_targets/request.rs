//! See `tests/corpora/request.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tollgate_fuzz::targets::request::run(bytes));
