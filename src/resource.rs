//! The name of the resource that a request locks. What two servers may read in two ways is refused: the
//! upstream might work on another resource than the one that is locked.

use tollgate_config::LockBy;

use crate::body::Body;
use crate::identity::Id;
use crate::request::Request;
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
    let _ = (by, request, path, body);
    Err(ResourceFault::Missing)
}
