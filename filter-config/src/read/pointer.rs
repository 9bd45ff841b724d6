//! JSON pointers (RFC 6901): where a value stands in a body.

use crate::reader::{At, Reader, Value};

/// The tokens of a JSON pointer (RFC 6901, section 3), unescaped (section 4); at least one. `example` is
/// one.
pub(super) fn read(reader: &mut Reader<'_>, at: &At<'_>, example: &str) -> Option<Vec<String>> {
    let expected = || format!("a JSON pointer (RFC 6901) such as {example}");
    let value = reader.value(at)?;
    let Value::Text(text) = &value else {
        return reader.mismatch(at, &value, &expected());
    };
    let Some(tokens) = text.value.strip_prefix('/') else {
        return reader.mismatch(at, &value, &expected());
    };
    let tokens: Option<Vec<String>> = tokens.split('/').map(unescaped).collect();
    match tokens {
        Some(tokens) => Some(tokens),
        None => reader.mismatch(
            at,
            &value,
            "a JSON pointer in which ~ is written as ~0, and / in a name as ~1",
        ),
    }
}

fn unescaped(token: &str) -> Option<String> {
    let mut parts = token.split('~');
    let mut out = parts.next()?.to_owned();
    for part in parts {
        let (escaped, rest) = match part.split_at_checked(1)? {
            ("0", rest) => ('~', rest),
            ("1", rest) => ('/', rest),
            _ => return None,
        };
        out.push(escaped);
        out.push_str(rest);
    }
    Some(out)
}
