//! One value of a JSON document, found by a JSON pointer (RFC 6901) without building the document. Must not
//! know what the value is for.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Why there is no text at a pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsonFault {
    /// Nothing is there.
    Missing,
    /// Nothing is there, but it would be if the case of keys did not count: to some servers it does not.
    OtherCase,
    /// A key on the way is there twice, whatever its case.
    Doubled,
    /// The document is no JSON in UTF-8.
    Malformed,
    /// What is there is neither a string nor an integer.
    NoName,
}

/// The text at a pointer: of a string, or of an integer in decimal.
///
/// The whole document is read to its end: what some server would refuse names nothing.
///
/// # Errors
/// Why there is none.
pub(crate) fn find(pointer: &[String], document: &[u8]) -> Result<String, JsonFault> {
    // Checked first: strings that are skipped are not.
    let text = std::str::from_utf8(document).map_err(|_| JsonFault::Malformed)?;
    let mut json = serde_json::Deserializer::from_str(text);
    let walk = Walk(Some(pointer));
    let found = walk.deserialize(&mut json);
    let found = found.and_then(|found| json.end().map(|()| found));
    found.map_err(|_| JsonFault::Malformed)?
}

/// Whether a document is JSON in UTF-8, from its first byte to its last.
pub(crate) fn is_well_formed(document: &[u8]) -> bool {
    !matches!(find(&[], document), Err(JsonFault::Malformed))
}

type Found = Result<String, JsonFault>;

/// Where in the document we are: these tokens above what is looked for, or on no way to it (`None`).
///
/// What is on no way to it is walked over as well, so that nesting too deep to be read and text that is
/// none are refused wherever they are.
#[derive(Clone, Copy)]
struct Walk<'p>(Option<&'p [String]>);

impl Walk<'_> {
    /// What a value that holds no others is.
    fn leaf(self, value: impl FnOnce() -> Found) -> Found {
        match self.0 {
            Some([]) => value(),
            _ => Err(JsonFault::Missing),
        }
    }

    /// What a value is that is no name itself, if nothing is found in it.
    fn no_name(self) -> Found {
        self.leaf(|| Err(JsonFault::NoName))
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = Found;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Found, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Found, E> {
        Ok(self.leaf(|| Ok(value.to_owned())))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Found, E> {
        Ok(self.leaf(|| Ok(value.to_string())))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Found, E> {
        Ok(self.leaf(|| Ok(value.to_string())))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Found, E> {
        Ok(self.no_name())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Found, E> {
        Ok(self.no_name())
    }

    fn visit_unit<E: Error>(self) -> Result<Found, E> {
        Ok(self.no_name())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Found, A::Error> {
        let way = self.0.and_then(<[String]>::split_first);
        let token = way.map(|(token, _)| token.as_str());
        let mut found = self.no_name();
        let (mut is_there, mut is_doubled) = (false, false);
        while let Some(key) = map.next_key_seed(Wanted(token))? {
            if key == Key::Same && !is_there {
                is_there = true;
                found = map.next_value_seed(Walk(way.map(|(_, rest)| rest)))?;
            } else {
                is_doubled |= key != Key::Other;
                let _ = map.next_value_seed(Walk(None))?;
            }
        }
        if is_doubled {
            found = Err(match is_there {
                true => JsonFault::Doubled,
                false => JsonFault::OtherCase,
            });
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Found, A::Error> {
        let way = self.0.and_then(<[String]>::split_first);
        let wanted = way.and_then(|(token, _)| index(token));
        let mut found = self.no_name();
        for at in 0_usize.. {
            let is_it = wanted == Some(at);
            let rest = way.filter(|_| is_it).map(|(_, rest)| rest);
            match seq.next_element_seed(Walk(rest))? {
                Some(value) if is_it => found = value,
                Some(_) => {}
                None => break,
            }
        }
        Ok(found)
    }
}

/// The index that a token is in an array: digits without a leading zero (RFC 6901, section 4).
fn index(token: &str) -> Option<usize> {
    let digits = token.bytes().all(|b| b.is_ascii_digit());
    let is_plain = digits && (token == "0" || !token.starts_with('0'));
    token.parse().ok().filter(|_| is_plain)
}

/// What a key is next to the one that is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    Same,
    /// In another case: some servers take the last of both (Go's `encoding/json` does).
    Alike,
    Other,
}

/// The key that is looked for, if one is.
struct Wanted<'p>(Option<&'p str>);

impl<'de> DeserializeSeed<'de> for Wanted<'_> {
    type Value = Key;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Key, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for Wanted<'_> {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Key, E> {
        Ok(match self.0 {
            Some(wanted) if wanted == key => Key::Same,
            Some(wanted) if without_case(wanted).eq(without_case(key)) => Key::Alike,
            _ => Key::Other,
        })
    }
}

/// A text without case. Upper case of lower case, since some characters share only one of the two with a letter
/// (`K`, the sign of kelvin, and `ſ`, the long s). Only `İ` has a lower case of two characters; servers that map one
/// to one keep the first.
fn without_case(text: &str) -> impl Iterator<Item = char> {
    let lower = text.chars().flat_map(|c| c.to_lowercase().take(1));
    lower.flat_map(char::to_uppercase)
}
