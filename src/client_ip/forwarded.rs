//! `Forwarded` (RFC 7239): its elements from the right, and the node that one of them is for.
//!
//! A client may write anything before what trusted proxies append, quotes that never end too. So elements
//! are taken apart backwards: what is well-formed is found whole, whatever stands before it. Must not know what an
//! address is.

use std::borrow::Cow;

/// The elements of a line, the last one first.
pub(super) fn elements(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let line = rest.take()?;
        let parts = last_comma(line).and_then(|at| line.split_at_checked(at));
        let Some((before, [_comma, element @ ..])) = parts else {
            return Some(line);
        };
        rest = Some(before);
        Some(element)
    })
}

/// The last comma that is in no quoted string.
fn last_comma(line: &[u8]) -> Option<usize> {
    let mut is_quoted = false;
    for (at, byte) in line.iter().enumerate().rev() {
        match byte {
            b'"' if is_quoted => is_quoted = is_escaped(line, at),
            b'"' => is_quoted = true,
            b',' if !is_quoted => return Some(at),
            _ => {}
        }
    }
    None
}

/// Whether the byte there is escaped, if it stands in a quoted string: an odd number of backslashes is before it.
fn is_escaped(line: &[u8], at: usize) -> bool {
    let before = line.get(..at).unwrap_or_default().iter().rev();
    before.take_while(|b| **b == b'\\').count() % 2 == 1
}

/// The node of an element's `for`, without quotes. `None` if it has none, or more than one, or is no
/// element.
pub(super) fn node(element: &[u8]) -> Option<Cow<'_, [u8]>> {
    let mut found = None;
    let mut rest = element.trim_ascii();
    while !rest.is_empty() {
        if let [b';', after @ ..] = rest {
            rest = after.trim_ascii_start();
            continue;
        }
        let equals = rest.iter().position(|b| *b == b'=')?;
        let (name, value) = rest.split_at_checked(equals)?;
        let (value, after) = match value {
            [b'=', b'"', inside @ ..] => quoted(inside)?,
            [b'=', value @ ..] => plain(value),
            _ => return None,
        };
        rest = after.trim_ascii_start();
        if !matches!(rest, [] | [b';', ..]) {
            return None;
        }
        if name.eq_ignore_ascii_case(b"for") && found.replace(value).is_some() {
            return None;
        }
    }
    found
}

/// A value without quotes, and what comes after it. Colons and brackets are taken, which should be quoted: they
/// can mean but one thing.
fn plain(text: &[u8]) -> (Cow<'_, [u8]>, &[u8]) {
    let end = text.iter().position(|b| *b == b';');
    let (value, after) = text.split_at(end.unwrap_or(text.len()));
    (Cow::Borrowed(value.trim_ascii_end()), after)
}

/// A quoted string from after its first quote, unescaped (RFC 9110, section 5.6.4), and what comes after it. `None`
/// if it does not end.
fn quoted(text: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let special = text.iter().position(|b| matches!(b, b'"' | b'\\'))?;
    if let (value, [b'"', after @ ..]) = text.split_at_checked(special)? {
        return Some((Cow::Borrowed(value), after));
    }
    let mut value = Vec::new();
    let mut rest = text;
    loop {
        rest = match rest {
            [b'"', after @ ..] => return Some((Cow::Owned(value), after)),
            [b'\\', byte, after @ ..] | [byte, after @ ..] => {
                value.push(*byte);
                after
            }
            [] => return None,
        };
    }
}

#[cfg(test)]
mod tests;
