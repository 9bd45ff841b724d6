//! The one spelling of a subject.

use tollgate_config::SubjectSource;

/// A subject as it is counted, whichever way it was written; empty where that leaves nothing of it.
pub(super) fn form(source: &SubjectSource, raw: &[u8]) -> Vec<u8> {
    // A `+` of Basic is a space to some servers and itself to others, so both are one wherever they come from.
    let one_space = |b: u8| if source.basic && b == b' ' { b'+' } else { b };
    let bytes = match std::str::from_utf8(raw) {
        Ok(text) => of_text(source, text),
        Err(_) => of_bytes(source, raw),
    };
    bytes.into_iter().map(one_space).collect()
}

fn of_text(source: &SubjectSource, text: &str) -> Vec<u8> {
    let blank = |c: char| is_blank(c) || (source.basic && c == '+');
    let text = match source.trim {
        true => text.trim_matches(blank),
        false => text,
    };
    match source.lowercase {
        true => text
            .chars()
            .flat_map(without_case)
            .collect::<String>()
            .into_bytes(),
        false => text.as_bytes().to_vec(),
    }
}

/// What is no UTF-8 has no letters but those of ASCII.
fn of_bytes(source: &SubjectSource, mut bytes: &[u8]) -> Vec<u8> {
    let blank = |b: &u8| is_blank(char::from(*b)) || (source.basic && *b == b'+');
    while let [first, rest @ ..] = bytes
        && source.trim
        && blank(first)
    {
        bytes = rest;
    }
    while let [rest @ .., last] = bytes
        && source.trim
        && blank(last)
    {
        bytes = rest;
    }
    match source.lowercase {
        true => bytes.to_ascii_lowercase(),
        false => bytes.to_vec(),
    }
}

/// What the `trim` of some language takes off: white space of Unicode now or once, control characters (Java), the
/// byte order mark (JavaScript), and other characters that nobody sees.
fn is_blank(c: char) -> bool {
    c.is_whitespace()
        || c.is_control()
        || matches!(
            c,
            '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}'
        )
}

/// A character whose case does not count. By way of upper case, since some characters share only that with a letter:
/// `ſ`, the long s, and `ς`, the last sigma of a word.
fn without_case(c: char) -> impl Iterator<Item = char> {
    let upper = c.to_lowercase().flat_map(char::to_uppercase);
    upper.flat_map(char::to_lowercase)
}
