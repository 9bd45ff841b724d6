//! The name of the resource that a request locks. What two servers may read in two ways is refused: the
//! upstream might work on another resource than the one that is locked.

use percent_encoding::percent_decode;
use tollgate_config::{LockBy, path};

use crate::body::Body;
use crate::identity::Id;
use crate::json::{self, JsonFault};
use crate::request::{Occurs, Request};
use crate::verdict::ResourceFault;

/// Whether the body has to be read for it.
#[must_use]
pub const fn is_in_body(by: &LockBy) -> bool {
    matches!(by, LockBy::Json(_))
}

/// The resource of a request whose path was normalised to `path`.
///
/// # Errors
/// Why it cannot be read.
pub fn of(by: &LockBy, request: &Request, path: &[u8], body: &Body) -> Result<Id, ResourceFault> {
    match by {
        LockBy::Header(name) => match request.occurs(name) {
            Occurs::Never => Err(ResourceFault::Missing),
            Occurs::Once(value) => named(value),
            Occurs::Doubled => Err(ResourceFault::Doubled),
        },
        LockBy::Query(name) => in_query(name, request.query()),
        LockBy::Path { segment, .. } => in_path(*segment, path),
        LockBy::Json(pointer) => in_body(pointer, request, body),
    }
}

fn named(name: &[u8]) -> Result<Id, ResourceFault> {
    if name.is_empty() {
        Err(ResourceFault::Missing)
    } else {
        Ok(Id::of(name))
    }
}

fn in_query(name: &str, query: &[u8]) -> Result<Id, ResourceFault> {
    let mut values = form_urlencoded::parse(query).filter(|(n, _)| n == name);
    match (values.next(), values.next()) {
        (None, _) => Err(ResourceFault::Missing),
        (Some((_, value)), None) => named(value.as_bytes()),
        (Some(_), Some(_)) => Err(ResourceFault::Doubled),
    }
}

/// `/ledgers/7;v=1` and `/ledgers/x%2F..%2F7` are ledger 7 to some servers, and two others to the rest.
fn in_path(index: usize, path: &[u8]) -> Result<Id, ResourceFault> {
    let plain = segment(index, path);
    let other = path::other_reading(path);
    if other.is_some_and(|other| segment(index, &other) != plain) {
        return Err(ResourceFault::Doubled);
    }
    named(&plain)
}

/// A segment of a normal path, with nothing escaped any more; empty where there is none.
fn segment(index: usize, path: &[u8]) -> Vec<u8> {
    let mut segments = path.split(|b| *b == b'/').skip(1);
    percent_decode(segments.nth(index).unwrap_or_default()).collect()
}

fn in_body(pointer: &[String], request: &Request, body: &Body) -> Result<Id, ResourceFault> {
    if request.is_encoded() {
        return Err(ResourceFault::Encoded);
    }
    match body {
        Body::TooLarge => Err(ResourceFault::TooLarge),
        Body::Whole(bytes) if bytes.is_empty() => Err(ResourceFault::Missing),
        Body::Whole(bytes) => named(json::find(pointer, bytes)?.as_bytes()),
    }
}

impl From<JsonFault> for ResourceFault {
    fn from(fault: JsonFault) -> Self {
        match fault {
            JsonFault::Missing | JsonFault::OtherCase => Self::Missing,
            JsonFault::Doubled => Self::Doubled,
            JsonFault::Malformed => Self::Malformed,
            JsonFault::NoName => Self::NoName,
        }
    }
}

#[cfg(test)]
mod tests;
