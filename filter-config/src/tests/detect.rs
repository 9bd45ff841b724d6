//! Bytes that look like one form and are another, or none.

use prost::Message;
use prost_types::{Struct, Value, value::Kind};

use super::{no_env, parse};
use crate::{Config, Mode};

fn error(bytes: &[u8]) -> String {
    Config::parse(bytes, &no_env).unwrap_err().to_string()
}

fn message(fields: &[(&str, &str)]) -> Vec<u8> {
    let fields = fields
        .iter()
        .map(|(key, value)| {
            let kind = Some(Kind::StringValue((*value).to_owned()));
            ((*key).to_owned(), Value { kind })
        })
        .collect();
    Struct { fields }.encode_to_vec()
}

#[test]
fn nothing_is_the_empty_object() {
    let empty = format!("{:?}", parse("{}").unwrap());
    for text in ["", " ", "\n", "\r\n\t ", "null", " {}\n"] {
        assert_eq!(format!("{:?}", parse(text).unwrap()), empty, "{text:?}");
    }
}

#[test]
fn json_may_start_with_a_line_feed_which_is_also_the_tag_of_a_struct() {
    let config = parse("\n{\"mode\": \"shadow\"}").unwrap();
    assert_eq!(config.mode, Mode::Shadow);
}

#[test]
fn a_struct_may_look_like_json() {
    // Key: tag, length, 4 letters. Value: tag, length, and inside it tag, length, 113 letters. That
    // is 123 bytes, the number of an opening brace.
    let value = format!("{}{:>104}", "${UNSET:-", "shadow}");
    let looks_like_json = message(&[("mode", &value), ("problem", "x")]);
    assert!(looks_like_json.starts_with(b"\n{\n"));
    let error = error(&looks_like_json);
    assert!(error.starts_with("mode: found \"  "), "{error}");
    assert!(error.contains("\nproblem: found \"x\""), "{error}");
}

#[test]
fn broken_json_tells_line_and_column() {
    assert_eq!(
        error(b"{\n  \"mode\" \"shadow\"\n}"),
        "found broken JSON (expected `:` at line 2 column 10), expected one JSON object or a \
         google.protobuf.Struct"
    );
    assert!(error(b"\n{\"mode\": \"shadow\"").contains("at line 2 column 17"));
    assert!(error(b"{} {}").contains("trailing characters at line 1 column 4"));
    assert!(error(b"[1, 2").contains("broken JSON"));
}

#[test]
fn other_documents_than_objects_are_named() {
    for (text, found) in [
        ("[]", "found a list"),
        ("5", "found 5"),
        ("\"{}\"", "found \"{}\""),
        ("true", "found true"),
    ] {
        assert!(error(text.as_bytes()).starts_with(found), "{text}");
    }
}

#[test]
fn yaml_as_text_is_told_what_to_do() {
    for text in [
        "mode: shadow",
        "\nmode: shadow\n",
        "# comment\nmode: shadow",
        "---\n{}",
    ] {
        let error = error(text.as_bytes());
        assert!(error.contains("YAML is not read here"), "{text:?}: {error}");
    }
}

#[test]
fn bytes_of_no_form_are_refused() {
    assert!(error(b"\xff\xfe{").contains("not UTF-8 text (at byte 0)"));
    assert!(error(b"{\"mode\": \"\xff\"}").contains("not UTF-8 text (at byte 10)"));
    assert!(error(b"\0\0\0").contains("text that is not JSON"));
}

#[test]
fn a_struct_cut_short_is_told_as_such() {
    let whole = message(&[("mode", "shadow"), ("problem", "x")]);
    for end in 9..whole.len() {
        let cut = &whole[..end];
        if Config::parse(cut, &no_env).is_err_and(|errors| errors.0[0].path.is_empty()) {
            assert!(
                error(cut).contains("broken google.protobuf.Struct"),
                "{end}"
            );
        }
    }
    assert!(error(&whole[..whole.len() - 1]).contains("broken google.protobuf.Struct"));
}

#[test]
fn absurd_nesting_is_refused_and_does_not_overflow_the_stack() {
    let lists = format!("{{\"routes\": {}", "[".repeat(1_000_000));
    assert!(error(lists.as_bytes()).contains("recursion limit"));
    let objects = "{\"a\":".repeat(1_000_000);
    assert!(error(objects.as_bytes()).contains("recursion limit"));

    // Each level wraps the last: entry { key: "a", value { struct_value { .. } } }.
    let mut bytes = Vec::new();
    for _ in 0..1000 {
        let field = |tag: u8, inner: &[u8]| {
            let mut out = vec![tag];
            prost::encode_length_delimiter(inner.len(), &mut out).unwrap();
            out.extend(inner);
            out
        };
        let value = field(0x2a, &bytes);
        let entry = [field(0x0a, b"a"), field(0x12, &value)].concat();
        bytes = field(0x0a, &entry);
    }
    assert!(error(&bytes).contains("recursion limit"));
}

#[test]
fn an_invalid_string_in_a_struct_is_refused() {
    let mut bytes = message(&[("mode", "shadow")]);
    let last = bytes.len() - 1;
    bytes[last] = 0xff;
    assert!(error(&bytes).contains("broken google.protobuf.Struct"));
}
