//! See `tests/corpora/problem.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tollgate_fuzz::targets::problem::run(bytes));
