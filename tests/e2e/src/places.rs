//! Where the built things are. Owns the paths; must not build or install anything: `make test` does.

use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The Envoy to run: `TOLLGATE_ENVOY`, else the one that `make test` installs.
///
/// # Panics
///
/// When there is none, because a story that is not run must not look like one that passed.
pub fn envoy_binary() -> PathBuf {
    from_environment("TOLLGATE_ENVOY", ".tools/bin/envoy")
}

/// The filter to run: `TOLLGATE_WASM`, else `dist/tollgate.wasm`.
///
/// # Panics
///
/// When there is none.
pub fn filter_wasm() -> PathBuf {
    from_environment("TOLLGATE_WASM", "dist/tollgate.wasm")
}

fn from_environment(variable: &str, default: &str) -> PathBuf {
    let path = match std::env::var_os(variable) {
        Some(path) => PathBuf::from(path),
        None => repository().join(default),
    };
    path.canonicalize()
        .unwrap_or_else(|error| panic!("{}: {error}: run `make test`", path.display()))
}
