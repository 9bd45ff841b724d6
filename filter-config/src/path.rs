//! The one spelling of a path (RFC 3986, section 6.2.2), so that no spelling of an expensive path
//! gets the cheap price.

pub(crate) mod pattern;

use std::borrow::Cow;

/// The path of a request target in its one spelling:
///
/// - it ends at the first `?` or `#`, and starts with `/`;
/// - an escape of a byte that may stand in a segment (unreserved, sub-delims, `:`, `@`) is decoded,
///   any other is written in upper case; a byte that may not stand there is escaped, and so is a
///   `%` without two hexadecimal digits;
/// - slashes are merged, then `.` and `..` segments resolved (`/a//../b` is `/b`), never above the
///   root; a slash at the end goes, except the root itself.
///
/// `%2F` stays an escape: it is a byte of a segment, no separator. Borrowed if it is normal already.
/// What comes out normalises to itself.
#[must_use]
pub fn normalize(target: &[u8]) -> Cow<'_, [u8]> {
    let end = target.iter().position(|b| matches!(b, b'?' | b'#'));
    let path = end.and_then(|end| target.get(..end)).unwrap_or(target);
    if is_normal(path) {
        Cow::Borrowed(path)
    } else {
        Cow::Owned(rewrite(path))
    }
}

fn is_normal(path: &[u8]) -> bool {
    match path {
        [b'/'] => true,
        [b'/', segments @ ..] => {
            is_spelled_normally(path)
                && segments
                    .split(|b| *b == b'/')
                    .all(|segment| !matches!(segment, b"" | b"." | b".."))
        }
        _ => false,
    }
}

fn is_spelled_normally(mut rest: &[u8]) -> bool {
    loop {
        rest = match rest {
            [] => return true,
            [b'%', high, low, rest @ ..] => match escaped(*high, *low) {
                Some(byte) if !is_raw(byte) && is_upper(*high) && is_upper(*low) => rest,
                _ => return false,
            },
            [byte, rest @ ..] if *byte == b'/' || is_raw(*byte) => rest,
            _ => return false,
        }
    }
}

const fn is_upper(digit: u8) -> bool {
    !digit.is_ascii_lowercase()
}

fn rewrite(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len() + 1);
    for segment in path.split(|b| *b == b'/') {
        let start = out.len();
        out.push(b'/');
        spell(segment, &mut out);
        match out.get(start..) {
            Some(b"/" | b"/.") => out.truncate(start),
            Some(b"/..") => {
                out.truncate(start);
                let parent = out.iter().rposition(|b| *b == b'/');
                out.truncate(parent.unwrap_or(0));
            }
            _ => {}
        }
    }
    if out.is_empty() {
        out.push(b'/');
    }
    out
}

fn spell(mut rest: &[u8], out: &mut Vec<u8>) {
    loop {
        let byte;
        (byte, rest) = match rest {
            [] => return,
            [b'%', high, low, rest @ ..] if escaped(*high, *low).is_some() => {
                (escaped(*high, *low).unwrap_or(b'%'), rest)
            }
            [byte, rest @ ..] => (*byte, rest),
        };
        if is_raw(byte) {
            out.push(byte);
        } else {
            out.extend([b'%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
}

/// The byte of an escape's two digits.
fn escaped(high: u8, low: u8) -> Option<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

const fn digit(value: u8) -> u8 {
    match value {
        0..=9 => b'0' + value,
        _ => b'A' + (value - 10),
    }
}

/// Whether the byte may stand in a segment as it is: `pchar` of RFC 3986 but for escapes.
const fn is_raw(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.'
                | b'_'
                | b'~'
                | b'!'
                | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b','
                | b';'
                | b'='
                | b':'
                | b'@'
        )
}

/// What some servers make of a normal path: they take an escaped slash or a backslash for a slash, and
/// cut `;` and what follows off a segment. `None` where that makes no difference.
#[must_use]
pub fn other_reading(path: &[u8]) -> Option<Vec<u8>> {
    if !path.contains(&b';') && !path.contains(&b'%') {
        return None;
    }
    let mut read = Vec::with_capacity(path.len());
    let mut rest = path;
    let mut in_parameter = false;
    while let Some((first, after)) = rest.split_first() {
        let (byte, after) = match rest {
            [b'%', b'2', b'F', after @ ..] | [b'%', b'5', b'C', after @ ..] => (b'/', after),
            _ => (*first, after),
        };
        rest = after;
        in_parameter = byte == b';' || (in_parameter && byte != b'/');
        if !in_parameter {
            read.push(byte);
        }
    }
    let read = normalize(&read).into_owned();
    (read != path).then_some(read)
}

#[cfg(test)]
mod tests;
