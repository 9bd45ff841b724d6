//! See `tests/corpora/subject.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tollgate_fuzz::targets::subject::run(bytes));
