//! The bodies of the fuzz targets: each takes bytes and panics where the filter breaks a promise.
//!
//! They are plain functions, so that `fuzz/` runs them on what libFuzzer thinks up and
//! `tests/corpora.rs` on the seeds beside them and on mutations of those. Nothing here is random.

pub mod config;
pub mod draw;
pub mod head;
pub mod identity;
pub mod page;
pub mod problem;
pub mod request;
pub mod resource;
pub mod subject;

/// A target: its name, which is its seeds' folder, and its body.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const ALL: [Target; 7] = [
    ("config", config::run),
    ("request", request::run),
    ("identity", identity::run),
    ("page", page::run),
    ("problem", problem::run),
    ("resource", resource::run),
    ("subject", subject::run),
];
