//! Which form the bytes of a configuration have, and what to say when they have none.

use super::{Node, protobuf};

/// Tag of a Struct's first entry: field 1, length-delimited. It is also a line feed.
const STRUCT_ENTRY: u8 = 0x0a;
/// Tag of an entry's value. No text holds it.
const STRUCT_VALUE: u8 = 0x12;

const EXPECTED: &str = "one JSON object or a google.protobuf.Struct";

/// The tree of JSON text or of a serialized Struct. Nothing, or nothing but space, is the empty
/// object: a Struct without fields has no bytes.
///
/// A Struct can look like text: its first byte is a line feed, its second the length of the first
/// entry, which may be that of `{`. So JSON is tried first, then Struct; bytes that are neither
/// are reported as what they were probably meant to be.
pub(crate) fn detect(bytes: &[u8]) -> Result<Node, String> {
    let trimmed = bytes.trim_ascii();
    if trimmed.is_empty() {
        return Ok(Node::Map(Vec::new()));
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => serde_json::from_str(text).map_err(|error| {
            if matches!(trimmed, [b'{' | b'[', ..]) {
                format!("found broken JSON ({error}), expected {EXPECTED}")
            } else {
                format!(
                    "found text that is not JSON, expected {EXPECTED} (YAML is not read here: \
                     convert it, or give it to Envoy as a Struct)"
                )
            }
        }),
        Err(error) => Err(format!(
            "found bytes that are not UTF-8 text (at byte {}), expected {EXPECTED}",
            error.valid_up_to()
        )),
    };
    match text {
        Err(message) if bytes.first() == Some(&STRUCT_ENTRY) => {
            protobuf::read(bytes).map_err(|error| {
                if bytes.contains(&STRUCT_VALUE) {
                    format!("found a broken google.protobuf.Struct ({error}), expected {EXPECTED}")
                } else {
                    message
                }
            })
        }
        other => other,
    }
}
