//! The bodies of the fuzz targets, shared with the ordinary tests.

#[path = "../../tests/corpora/targets.rs"]
pub mod targets;
