//! See `tests/corpora/page.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tollgate_fuzz::targets::page::run(bytes));
