//! A field of a form (`application/x-www-form-urlencoded`), and those that some server takes for it.

use std::borrow::Cow;

use percent_encoding::percent_decode;

use crate::verdict::SubjectFault;

/// The value of a field; `None` where there is none.
///
/// # Errors
/// It is there more than once, or in a spelling that only some servers take for it.
pub(super) fn field(name: &str, form: &[u8]) -> Result<Option<Vec<u8>>, SubjectFault> {
    if fields(form, is_ampersand)
        .any(|(n, value)| is_wide(n) || (is_wide(value) && decoded(n) == name.as_bytes()))
    {
        return Err(SubjectFault::Malformed);
    }
    let mut plain = fields(form, is_ampersand).filter(|(n, _)| decoded(n) == name.as_bytes());
    match (plain.next(), plain.next()) {
        (Some((_, value)), None) => {
            let value = decoded(value);
            let mut alike = alike(name, form);
            // Once in either way to part a form.
            match (alike.next(), alike.next(), alike.next()) {
                (Some(one), Some(other), None) if one == value && other == value => {
                    Ok(Some(value.into_owned()))
                }
                _ => Err(SubjectFault::Doubled),
            }
        }
        (None, _) if alike(name, form).next().is_none() => Ok(None),
        _ => Err(SubjectFault::Doubled),
    }
}

/// The values of all fields that some server takes for this one: first of those that it finds between `&`, then of
/// those that it finds between `&` and `;`, as servers parted forms once.
pub(super) fn alike<'f>(name: &str, form: &'f [u8]) -> impl Iterator<Item = Cow<'f, [u8]>> {
    let either = |b: &u8| matches!(b, b'&' | b';');
    fields(form, is_ampersand)
        .chain(fields(form, either))
        .filter(move |(n, _)| is_alike(&decoded(n), name.as_bytes()))
        .map(|(_, value)| decoded(value))
}

/// Text of a form without its escapes: `+` is a space. Nothing is copied where there are none.
pub(super) fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'+') {
        return percent_decode(text).into();
    }
    let spaced = |b: &u8| if *b == b'+' { b' ' } else { *b };
    let spaced: Vec<u8> = text.iter().map(spaced).collect();
    Cow::Owned(percent_decode(&spaced).collect())
}

/// Whether there is an escape that is none, but a character to ASP.NET: `%u0061` is an `a`.
fn is_wide(text: &[u8]) -> bool {
    let mut places = text.windows(6);
    places.any(|at| {
        matches!(at, [b'%', b'u' | b'U', digits @ ..] if digits.iter().all(u8::is_ascii_hexdigit))
    })
}

const fn is_ampersand(byte: &u8) -> bool {
    *byte == b'&'
}

/// Names and values, escapes and all.
fn fields(form: &[u8], parts: impl Fn(&u8) -> bool) -> impl Iterator<Item = (&[u8], &[u8])> {
    form.split(parts).map(|field| {
        let end = field.iter().position(|b| *b == b'=').unwrap_or(field.len());
        let (name, value) = field.split_at_checked(end).unwrap_or((field, b""));
        (name, value.strip_prefix(b"=").unwrap_or(value))
    })
}

/// Whether some server takes the name of a field for another: ASP.NET does not mind its case; PHP ends it at a zero
/// byte, skips spaces before it and makes `_` of what its variables may not hold; to most, `name[...]` is a
/// list or a map of that name.
fn is_alike(name: &[u8], wanted: &[u8]) -> bool {
    let name = name.split(|b| *b == 0).next().unwrap_or_default();
    let name = name.trim_ascii_start();
    let lists = name.iter().enumerate().filter(|(_, b)| **b == b'[');
    let lists = lists.filter_map(|(at, _)| name.get(..at));
    lists.chain([name]).any(|name| {
        let name = name.iter().map(variable);
        name.eq(wanted.iter().map(variable))
    })
}

fn variable(byte: &u8) -> u8 {
    match byte {
        b' ' | b'.' | b'[' => b'_',
        other => other.to_ascii_lowercase(),
    }
}
