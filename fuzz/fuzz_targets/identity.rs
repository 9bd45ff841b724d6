//! See `tests/corpora/identity.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tollgate_fuzz::targets::identity::run(bytes));
