//! A clock that is wrong, for one process. Owns the library that makes it so; must not change anybody else's.

use std::path::Path;
use std::process::Command;

/// The variables that start a process with its clock ahead by these seconds; the library goes to `directory`.
pub(crate) fn ahead(seconds: i64, directory: &Path) -> Vec<(String, String)> {
    let library = directory.join("clock.so");
    // The C compiler is there: Rust links with it.
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/clock/ahead.c"))
        .status()
        .expect("cc can be run");
    assert!(built.success(), "cc cannot build the wrong clock");
    let variables = [
        ("LD_PRELOAD", library.to_string_lossy().into_owned()),
        ("CLOCK_AHEAD", seconds.to_string()),
    ];
    variables
        .map(|(name, value)| (name.to_owned(), value))
        .into()
}
