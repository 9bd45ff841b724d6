//! How many files a process may have open. Owns this one limit of the test's own process, which Envoy inherits.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Thousands of connections need more open files than many systems give at first.
///
/// # Panics
///
/// When the system refuses more.
pub fn allow_many_files() {
    let mut limit = getrlimit(Resource::Nofile);
    let enough = 16_384;
    if limit.current.is_some_and(|current| current < enough) {
        limit.current = Some(limit.maximum.map_or(enough, |most| most.min(enough)));
        setrlimit(Resource::Nofile, limit).expect("more open files");
    }
}
