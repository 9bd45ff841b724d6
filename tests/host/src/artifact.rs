//! Where the built filter is found, and what it asks of its host.
//!
//! Builds nothing: a test must never run against a filter it silently rebuilt.

use std::path::{Path, PathBuf};

use wasmi::{Engine, Module};

/// The bytes of the built filter: the file named by `TOLLGATE_WASM`, else `dist/tollgate.wasm` of
/// this repository.
///
/// # Panics
///
/// If the file cannot be read; the message says to run `make build` first.
pub fn filter_wasm() -> Vec<u8> {
    let path = std::env::var_os("TOLLGATE_WASM").map_or_else(default_path, PathBuf::from);
    std::fs::read(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; run `make build` first", path.display()))
}

fn default_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate is two directories below the repository")
        .join("dist/tollgate.wasm")
}

/// The functions `wasm` imports, as (module, name), in the module's order.
///
/// # Panics
///
/// If `wasm` is not a valid module.
pub fn imports(wasm: &[u8]) -> Vec<(String, String)> {
    let module = Module::new(&Engine::default(), wasm).expect("a valid Wasm module");
    module
        .imports()
        .map(|import| (import.module().to_owned(), import.name().to_owned()))
        .collect()
}
