//! Methods and paths: which requests a route takes.

use crate::{
    nearest::nearest,
    path::pattern::Pattern,
    quote::quoted,
    reader::{At, Reader, Value},
};

/// The requests that a route takes.
pub(super) struct Match {
    /// Empty: any.
    pub(super) methods: Vec<Vec<u8>>,
    pub(super) pattern: Pattern,
}

/// Reads `match` of a route.
pub(super) fn read(reader: &mut Reader<'_>, at: &At<'_>) -> Option<Match> {
    let fields = reader.fields(at, &["methods", "path"])?;
    let methods = fields.optional(reader, "methods", Vec::new(), methods);
    let pattern = fields.required(
        reader,
        "path",
        "a path such as /v1/orders/{order_id} or /v1/*",
        pattern,
    );
    Some(Match {
        methods: methods?,
        pattern: pattern?,
    })
}

/// Methods that HTTP knows: RFC 9110, section 9, and RFC 5789.
const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE",
];

fn methods(reader: &mut Reader<'_>, at: &At<'_>) -> Option<Vec<Vec<u8>>> {
    const LIST: &str = "a list of methods such as [GET, POST]; without it a route takes any";
    let methods = reader.list(at, LIST, |reader, at| {
        let value = reader.value(at)?;
        let Value::Text(text) = &value else {
            return reader.mismatch(at, &value, "a method such as GET");
        };
        let method = text.value.as_bytes();
        if !(1..=64).contains(&method.len()) || !method.iter().copied().all(is_token) {
            reader.mismatch(at, &value, "a method such as GET")
        } else if method.iter().any(u8::is_ascii_lowercase) {
            let expected = format!(
                "a method in upper case (did you mean {}?)",
                text.value.to_ascii_uppercase()
            );
            reader.mismatch(at, &value, &expected)
        } else {
            if !METHODS.contains(&text.value.as_ref()) {
                let meant = nearest(&text.value, METHODS);
                let meant = meant.map_or_else(String::new, |m| format!(" (did you mean {m}?)"));
                let found = quoted(&text.value);
                let message = format!("found {found}, a method that HTTP does not know{meant}");
                reader.warn(&at.path, message);
            }
            Some(method.to_vec())
        }
    })?;
    if methods.is_empty() {
        reader.error(&at.path, format!("found an empty list, expected {LIST}"));
        return None;
    }
    Some(methods)
}

/// A path with templates and a tail, as they may be.
pub(super) fn pattern(reader: &mut Reader<'_>, at: &At<'_>) -> Option<Pattern> {
    let value = reader.value(at)?;
    let Value::Text(text) = &value else {
        return reader.mismatch(at, &value, "a path that starts with /");
    };
    match Pattern::parse(&text.value) {
        Ok(pattern) => Some(pattern),
        Err(expected) => reader.mismatch(at, &value, expected),
    }
}

/// A character of a token (RFC 9110, section 5.6.2): of a method and of a header's name.
pub(super) const fn is_token(b: u8) -> bool {
    b.is_ascii_alphanumeric()
        || matches!(
            b,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}
