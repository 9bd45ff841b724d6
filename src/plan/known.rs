//! The body of a request, as far as it matters and is known. Must not know what for.

use crate::body::{self, Body};
use crate::request::{Occurs, Request};

static NONE: Body = Body::NONE;

/// The body; `None` where it has to be waited for. Of a request whose body does not matter (`matters`), and of one that
/// has none yet since it upgrades, that is none.
pub(super) fn body<'b>(
    request: &Request,
    matters: bool,
    known: Option<&'b Body>,
) -> Option<&'b Body> {
    match known {
        _ if !matters => Some(&NONE),
        Some(body) => Some(body),
        None if is_upgrade(request) => Some(&NONE),
        None if is_too_large(request) => Some(&Body::TooLarge),
        None => None,
    }
}

/// Whether what follows the head is not the request's body, but comes once the upstream has answered. (The proxy
/// removes an `upgrade` that is none.)
fn is_upgrade(request: &Request) -> bool {
    request.method() == b"CONNECT" || request.values("upgrade").next().is_some()
}

/// Whether a request says that its body is larger than what is read.
fn is_too_large(request: &Request) -> bool {
    let Occurs::Once(length) = request.occurs("content-length") else {
        return false;
    };
    let length = std::str::from_utf8(length).ok();
    length.is_some_and(|l| l.parse().is_ok_and(|l: u64| l > body::LARGEST as u64))
}
