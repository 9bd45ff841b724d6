//! Whether an `Idempotency-Key` can be told apart from others.
//!
//! draft-ietf-httpapi-idempotency-key-header makes it a structured-field String (`"k1"`); many APIs
//! take it bare (`k1`). Both are accepted.

use crate::request::Request;
use crate::verdict::KeyFault;

/// The header.
pub const HEADER: &str = "idempotency-key";

/// Longest key, in bytes, its quotes aside.
const LONGEST: usize = 255;

/// The key of a request, without the quotes of a structured-field String.
///
/// # Errors
/// What is wrong with it.
pub fn key(request: &Request) -> Result<&[u8], KeyFault> {
    let mut values = request.values(HEADER);
    let value = values.next().ok_or(KeyFault::Missing)?;
    if values.next().is_some() {
        return Err(KeyFault::Doubled);
    }
    let value = value.trim_ascii();
    let bare = match value {
        [b'"', inner @ .., b'"'] => {
            let escaped = inner.iter().any(|b| matches!(b, b'"' | b'\\'));
            if escaped {
                return Err(KeyFault::Malformed);
            }
            inner
        }
        bare if bare.contains(&b'"') => return Err(KeyFault::Malformed),
        bare => bare,
    };
    let visible = bare.iter().all(|b| matches!(b, b' '..=b'~'));
    let blank = bare.trim_ascii().is_empty();
    if blank || !visible || bare.len() > LONGEST {
        return Err(KeyFault::Malformed);
    }
    Ok(bare)
}

#[cfg(test)]
mod tests;
