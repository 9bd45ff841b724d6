//! See `tests/corpora/resource.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tollgate_fuzz::targets::resource::run(bytes));
