//! Tests of `resource`.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::testing::{head, request};

use ResourceFault::{Doubled, Encoded, Malformed, Missing, NoName, TooLarge};

/// The resource that was read: its name before it became an identifier.
type Expected<'a> = Result<&'a [u8], ResourceFault>;

#[track_caller]
fn assert_read(read: Result<Id, ResourceFault>, expected: Expected<'_>, of: &str) {
    let expected = expected.map(|name| Id::of(name).as_str().to_owned());
    assert_eq!(read.map(|id| id.as_str().to_owned()), expected, "{of}");
}

fn none() -> Body {
    Body::Whole(Vec::new())
}

fn pointer(tokens: &[&str]) -> LockBy {
    LockBy::Json(tokens.iter().map(|token| (*token).to_owned()).collect())
}

fn posted(body: &[u8]) -> Result<Id, ResourceFault> {
    at(&["id"], body)
}

fn at(tokens: &[&str], body: &[u8]) -> Result<Id, ResourceFault> {
    let request = request("POST", "/v1/ledgers", &[]);
    let body = Body::Whole(body.to_vec());
    of(&pointer(tokens), &request, &request.path(), &body)
}

#[test]
fn only_json_needs_the_body() {
    assert!(is_in_body(&pointer(&["id"])));
    assert!(!is_in_body(&LockBy::Header("x-ledger-id".to_owned())));
    assert!(!is_in_body(&LockBy::Query("ledger".to_owned())));
    assert!(!is_in_body(&LockBy::Path {
        name: "id".to_owned(),
        segment: 1
    }));
}

#[test]
fn by_header() {
    let by = LockBy::Header("x-ledger-id".to_owned());
    let rows: &[(&[(&str, &str)], Expected<'_>)] = &[
        (&[], Err(Missing)),
        (&[("x-ledger-id", "7")], Ok(b"7")),
        (&[("x-ledger-id", "  7\t")], Ok(b"7")),
        (&[("X-Ledger-Id", "7")], Ok(b"7")),
        (&[("x-ledger-id", "")], Err(Missing)),
        (&[("x-ledger-id", " \t")], Err(Missing)),
        (&[("x-ledger", "7")], Err(Missing)),
        (&[("x-ledger-id", "7"), ("x-ledger-id", "8")], Err(Doubled)),
        (&[("x-ledger-id", "7"), ("x-ledger-id", "7")], Err(Doubled)),
        (&[("x-ledger-id", ""), ("x-ledger-id", "7")], Err(Doubled)),
        (&[("x-ledger-id", "a/b {c}")], Ok(b"a/b {c}")),
        // It is not the body that names it: what is wrong with that is the upstream's affair.
        (
            &[("x-ledger-id", "7"), ("content-encoding", "gzip")],
            Ok(b"7"),
        ),
    ];
    for (fields, expected) in rows {
        let request = request("POST", "/v1", fields);
        let read = of(&by, &request, b"/v1", &Body::TooLarge);
        assert_read(read, *expected, &format!("{fields:?}"));
    }
    let raw = head(&[("x-ledger-id", b"\xff\x00")]);
    assert_read(of(&by, &raw, b"/", &none()), Ok(b"\xff\x00"), "any bytes");
}

#[test]
fn by_query() {
    let by = LockBy::Query("led ger".to_owned());
    let rows: &[(&str, Expected<'_>)] = &[
        ("/v1", Err(Missing)),
        ("/v1?", Err(Missing)),
        ("/v1?led+ger=7", Ok(b"7")),
        ("/v1?%6ced%20ger=%37", Ok(b"7")),
        ("/v1?a=1&led+ger=a+b%2Bc&z", Ok(b"a b+c")),
        ("/v1?led+ger=", Err(Missing)),
        ("/v1?led+ger", Err(Missing)),
        ("/v1?led+ger=7=8", Ok(b"7=8")),
        ("/v1?led+ger=7&led%20ger=7", Err(Doubled)),
        ("/v1?led+ger=7&led+ger", Err(Doubled)),
        ("/v1?led+ger=7&led+ger=8&led+ger=9", Err(Doubled)),
        ("/v1?Led+ger=7", Err(Missing)),
        ("/v1?led+ger=%e2%82%ac", Ok("€".as_bytes())),
        // No server's idea of a fragment hides one.
        ("/v1?a#&led+ger=7", Ok(b"7")),
        ("/v1?led+ger=7#&led+ger=8", Err(Doubled)),
    ];
    for (target, expected) in rows {
        let request = request("POST", target, &[]);
        let read = of(&by, &request, &request.path(), &Body::TooLarge);
        assert_read(read, *expected, target);
    }
}

#[test]
fn by_path() {
    let rows: &[(&str, usize, Expected<'_>)] = &[
        ("/v1/ledgers/7/entries", 0, Ok(b"v1")),
        ("/v1/ledgers/7/entries", 2, Ok(b"7")),
        ("/v1//ledgers/./%37/", 2, Ok(b"7")),
        ("/v1/ledgers/7", 3, Err(Missing)),
        ("/v1/ledgers/7", usize::MAX, Err(Missing)),
        ("/", 0, Err(Missing)),
        (
            "/v1/ledgers/a%20b%7B%7d%e2%82%ac",
            2,
            Ok("a b{}€".as_bytes()),
        ),
        ("/v1/ledgers/100%", 2, Ok(b"100%")),
        ("/v1/ledgers/a+b", 2, Ok(b"a+b")),
        ("/v1/ledgers/7?x=/8", 2, Ok(b"7")),
        // Once decoded, not twice.
        ("/v1/ledgers/%2537", 2, Ok(b"%37")),
        // Some servers cut parameters off, and take an escaped slash for one.
        ("/v1/ledgers/7;v=1", 2, Err(Doubled)),
        ("/v1/ledgers/x%2F..%2f7", 2, Err(Doubled)),
        ("/v1/ledgers/a%5Cb", 2, Err(Doubled)),
        ("/v1/a%2Fledgers/7", 2, Err(Doubled)),
        // Not in this segment: all read the same name.
        ("/v1/ledgers/7/entries;v=1", 2, Ok(b"7")),
        ("/v1/ledgers/7/a%2Fb", 2, Ok(b"7")),
    ];
    for (target, segment, expected) in rows {
        let by = LockBy::Path {
            name: "ledger_id".to_owned(),
            segment: *segment,
        };
        let request = request("POST", target, &[]);
        let read = of(&by, &request, &request.path(), &Body::TooLarge);
        assert_read(read, *expected, target);
    }
}

#[test]
fn by_json() {
    let long = "x".repeat(65);
    let long_body = format!(r#"{{"id": "{long}"}}"#);
    let rows: &[(&str, Expected<'_>)] = &[
        (r#"{"id": "ledger-7"}"#, Ok(b"ledger-7")),
        (
            "\r\n\t {\"a\": [1, {\"id\": 2}], \"id\" : 7 , \"z\": null} \n",
            Ok(b"7"),
        ),
        (r#"{"id": "7"}"#, Ok(b"7")),
        (r#"{"id": -7}"#, Ok(b"-7")),
        (
            r#"{"id": 18446744073709551615}"#,
            Ok(b"18446744073709551615"),
        ),
        (
            r#"{"id": -9223372036854775808}"#,
            Ok(b"-9223372036854775808"),
        ),
        (r#"{"\u0069d": "\u0037\u20ac"}"#, Ok("7€".as_bytes())),
        (r#"{"id": " 7 "}"#, Ok(b" 7 ")),
        (&long_body, Ok(long.as_bytes())),
        // No name.
        (r#"{"id": 18446744073709551616}"#, Err(NoName)),
        (r#"{"id": -9223372036854775809}"#, Err(NoName)),
        (r#"{"id": 7.0}"#, Err(NoName)),
        (r#"{"id": 7e0}"#, Err(NoName)),
        (r#"{"id": -0}"#, Err(NoName)),
        (r#"{"id": null}"#, Err(NoName)),
        (r#"{"id": true}"#, Err(NoName)),
        (r#"{"id": {}}"#, Err(NoName)),
        (r#"{"id": {"id": 7}}"#, Err(NoName)),
        (r#"{"id": []}"#, Err(NoName)),
        (r#"{"id": [7]}"#, Err(NoName)),
        // Not there.
        ("", Err(Missing)),
        (r#"{"id": ""}"#, Err(Missing)),
        ("{}", Err(Missing)),
        ("[]", Err(Missing)),
        ("7", Err(Missing)),
        (r#""id""#, Err(Missing)),
        ("null", Err(Missing)),
        (r#"{"a": {"id": 7}, "Id": 7}"#, Err(Missing)),
        // Twice, however it is spelled, and whatever the values are.
        (r#"{"id": 7, "id": 7}"#, Err(Doubled)),
        (r#"{"id": 7, "a": 1, "\u0069d": 8}"#, Err(Doubled)),
        (r#"{"id": null, "id": 8}"#, Err(Doubled)),
        (r#"{"id": 7, "id": 8, "id": 9}"#, Err(Doubled)),
        (r#"{"a": 1, "a": 2, "id": 7}"#, Ok(b"7")),
        (r#"{"a": {"id": 1, "id": 2}, "id": 7}"#, Ok(b"7")),
        // No JSON.
        (" ", Err(Malformed)),
        ("{", Err(Malformed)),
        (r#"{"id": 7"#, Err(Malformed)),
        (r#"{"id": 7}}"#, Err(Malformed)),
        (r#"{"id": 7} {"id": 8}"#, Err(Malformed)),
        ("{\"id\": 7}\0", Err(Malformed)),
        (r#"{"id": 7,}"#, Err(Malformed)),
        (r#"{id: 7}"#, Err(Malformed)),
        (r#"{"id": 07}"#, Err(Malformed)),
        (r#"{"id": +7}"#, Err(Malformed)),
        (r#"{"id": NaN}"#, Err(Malformed)),
        (r#"{"id": 7 /* */}"#, Err(Malformed)),
        ("{\"id\": \"a\nb\"}", Err(Malformed)),
        (r#"{"id": "\ud800"}"#, Err(Malformed)),
        (r#"{"id": 7, "a": "\ud800"}"#, Err(Malformed)),
        (r#"{"id": 7, "\ud800": 1}"#, Err(Malformed)),
        ("\u{feff}{\"id\": 7}", Err(Malformed)),
        ("id=7", Err(Malformed)),
        (r#"{"id": 7, "id": 8"#, Err(Malformed)),
    ];
    for (body, expected) in rows {
        assert_read(posted(body.as_bytes()), *expected, body);
    }
}

#[test]
fn a_key_that_is_there_in_another_case_as_well_is_refused() {
    let rows: &[(&str, Expected<'_>)] = &[
        (r#"{"ledger": {"id": "a", "ID": "b"}}"#, Err(Doubled)),
        (r#"{"ledger": {"Id": "b", "id": "a"}}"#, Err(Doubled)),
        (r#"{"ledger": {"id": "a", "\u0049d": null}}"#, Err(Doubled)),
        (r#"{"ledger": {"id": "a"}, "Ledger": {}}"#, Err(Doubled)),
        (r#"{"LEDGER": 1, "ledger": {"id": "a"}}"#, Err(Doubled)),
        (r#"{"LEDGER": 1, "ledger": {}}"#, Err(Doubled)),
        // Letters of another alphabet that some servers take for these.
        (r#"{"ledger": {"id": "a", "\u0130d": "b"}}"#, Err(Doubled)),
        // Only in another case: nobody names it as it has to be named.
        (r#"{"ledger": {"ID": "b"}}"#, Err(Missing)),
        (r#"{"ledger": {"ID": "b", "Id": "c"}}"#, Err(Missing)),
        (r#"{"Ledger": {"id": "b"}}"#, Err(Missing)),
        // Not on the way.
        (r#"{"ID": 1, "ledger": {"id": "a"}}"#, Ok(b"a")),
        (
            r#"{"x": {"ledger": 1, "Ledger": 2}, "ledger": {"id": "a"}}"#,
            Ok(b"a"),
        ),
        (
            r#"{"ledger": {"id": "a", "x": 1, "X": 2, "i": 3, "idx": 4}}"#,
            Ok(b"a"),
        ),
        (r#"{"ledger": {"id": {"id": 1, "ID": 2}}}"#, Err(NoName)),
    ];
    for (body, expected) in rows {
        assert_read(at(&["ledger", "id"], body.as_bytes()), *expected, body);
    }
    for (wanted, other) in [
        ("task", "tas\u{212a}"),
        ("tas\u{212a}", "TASK"),
        ("ids", "id\u{17f}"),
        ("größe", "GRÖSSE"),
        ("straße", "STRA\u{1e9e}E"),
        ("ΛΟΓΟΣ", "λογος"),
        ("λογοσ", "λογος"),
        ("\u{e5}", "\u{212b}"),
        ("счёт", "СЧЁТ"),
    ] {
        let body = format!(r#"{{"{wanted}": "a", "{other}": "b"}}"#);
        assert_read(at(&[wanted], body.as_bytes()), Err(Doubled), &body);
        let body = format!(r#"{{"{other}": "b", "{wanted}": "a"}}"#);
        assert_read(at(&[wanted], body.as_bytes()), Err(Doubled), &body);
    }
    // Spellings of Unicode, other than of case, are other keys.
    let body = "{\"\u{e9}\": \"a\", \"e\u{301}\": \"b\"}";
    assert_read(at(&["\u{e9}"], body.as_bytes()), Ok(b"a"), body);
}

#[test]
fn bytes_that_are_no_text_are_refused_wherever_they_are() {
    for body in [
        b"{\"id\": \"\xff\"}".as_slice(),
        b"{\"a\": \"\xff\", \"id\": 7}",
        b"{\"\xc3\x28\": 1, \"id\": 7}",
        b"{\"id\": 7}\xff",
        // UTF-16, either way round.
        b"{\0\"\0i\0d\0\"\0:\x007\0}\0",
        b"\xfe\xff\0{\0}",
    ] {
        let read = posted(body);
        assert_read(read, Err(Malformed), &body.escape_ascii().to_string());
    }
}

#[test]
fn a_pointer_is_followed() {
    let body = br#"{
        "a": {"b": [10, {"c": "deep"}, [["x", "y"]]]},
        "": {"": "empty"},
        "a/b": "slash", "m~n": "tilde",
        "0": "zero", "list": ["first", "second"], "01": "one"
    }"#;
    let eleven = format!(
        "[{}]",
        (0..12).map(|n| n.to_string()).collect::<Vec<_>>().join(",")
    );
    let rows: &[(&[&str], &[u8], Expected<'_>)] = &[
        (&["a", "b", "0"], body, Ok(b"10")),
        (&["a", "b", "1", "c"], body, Ok(b"deep")),
        (&["a", "b", "2", "0", "1"], body, Ok(b"y")),
        (&["", ""], body, Ok(b"empty")),
        (&["a/b"], body, Ok(b"slash")),
        (&["m~n"], body, Ok(b"tilde")),
        // In an object any token is a name, in an array only an index without leading zeros.
        (&["0"], body, Ok(b"zero")),
        (&["01"], body, Ok(b"one")),
        (&["list", "1"], body, Ok(b"second")),
        (&["list", "01"], body, Err(Missing)),
        (&["list", "00"], body, Err(Missing)),
        (&["list", "+1"], body, Err(Missing)),
        (&["list", "-"], body, Err(Missing)),
        (&["list", ""], body, Err(Missing)),
        (&["list", "2"], body, Err(Missing)),
        (&["list", "99999999999999999999999"], body, Err(Missing)),
        (&["11"], eleven.as_bytes(), Ok(b"11")),
        // On the way there is something else.
        (&["list"], body, Err(NoName)),
        (&["a", "b"], body, Err(NoName)),
        (&["a/b", "c"], body, Err(Missing)),
        (&["a", "x", "c"], body, Err(Missing)),
        (&["a", "b", "0", "c"], body, Err(Missing)),
        (&["a", "b", "c"], body, Err(Missing)),
    ];
    for (tokens, body, expected) in rows {
        assert_read(at(tokens, body), *expected, &format!("{tokens:?}"));
    }
}

#[test]
fn a_key_that_is_doubled_on_the_way_is_refused() {
    let rows: &[(&str, Expected<'_>)] = &[
        (r#"{"a": {"id": 7}, "a": {"id": 8}}"#, Err(Doubled)),
        (r#"{"a": {"id": 7}, "a": 1}"#, Err(Doubled)),
        (r#"{"a": 1, "a": {"id": 7}}"#, Err(Doubled)),
        (r#"{"a": {"id": 7, "id": 7}}"#, Err(Doubled)),
        (r#"{"a": {"id": 7, "x": 1, "x": 2}}"#, Ok(b"7")),
        (r#"{"b": {"a": 1, "a": 2}, "a": {"id": 7}}"#, Ok(b"7")),
    ];
    for (body, expected) in rows {
        assert_read(at(&["a", "id"], body.as_bytes()), *expected, body);
    }
}

#[test]
fn nesting_too_deep_is_refused_wherever_it_is() {
    let nested = |depth: usize| {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        format!(r#"{{"a": {open}{close}, "id": 7}}"#)
    };
    assert_read(posted(nested(100).as_bytes()), Ok(b"7"), "100");
    assert_read(posted(nested(200).as_bytes()), Err(Malformed), "200");
    // As much as a body can hold.
    let open = "[".repeat(crate::body::LARGEST);
    assert_read(posted(open.as_bytes()), Err(Malformed), "arrays");
    let open = r#"{"id":"#.repeat(crate::body::LARGEST / 6);
    assert_read(posted(open.as_bytes()), Err(Malformed), "objects");
    let tokens = vec!["id"; 300];
    assert_read(at(&tokens, open.as_bytes()), Err(Malformed), "a long way");
}

#[test]
fn a_body_that_is_coded_or_too_large_is_not_read() {
    let rows: &[(&[&str], Expected<'_>)] = &[
        (&[], Ok(b"7")),
        (&["identity"], Ok(b"7")),
        (&["Identity"], Ok(b"7")),
        (&[""], Ok(b"7")),
        (&["identity, identity"], Ok(b"7")),
        (&["gzip"], Err(Encoded)),
        (&["identity, gzip"], Err(Encoded)),
        (&["identity", "br"], Err(Encoded)),
        (&["x"], Err(Encoded)),
    ];
    let body = Body::Whole(br#"{"id": 7}"#.to_vec());
    for (codings, expected) in rows {
        let fields: Vec<_> = codings.iter().map(|c| ("content-encoding", *c)).collect();
        let request = request("POST", "/v1", &fields);
        let read = of(&pointer(&["id"]), &request, b"/v1", &body);
        assert_read(read, *expected, &format!("{codings:?}"));
    }
    let request = request("POST", "/v1", &[]);
    let read = of(&pointer(&["id"]), &request, b"/v1", &Body::TooLarge);
    assert_read(read, Err(TooLarge), "too large");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-c~/0-9€\"\\\\]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[a-cA~/0-2]{0,2}", inner, 0..5)
                .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

/// Whether an object on the way has the next token, and has it in another case as well.
fn is_in_two_cases(document: &Value, tokens: &[String]) -> bool {
    let Some((token, rest)) = tokens.split_first() else {
        return false;
    };
    let next = match document {
        Value::Object(map) => map.get(token),
        Value::Array(_) => document.pointer(&format!("/{token}")),
        _ => None,
    };
    let is_other = |key: &String| key != token && key.to_lowercase() == token.to_lowercase();
    let other = document
        .as_object()
        .and_then(|map| map.keys().find(|k| is_other(k)));
    next.is_some_and(|next| other.is_some() || is_in_two_cases(next, rest))
}

/// As serde_json's own pointers see it, which know no doubled keys.
fn expected(document: &Value, tokens: &[String]) -> Result<String, ResourceFault> {
    if is_in_two_cases(document, tokens) {
        return Err(Doubled);
    }
    let escaped = |token: &String| format!("/{}", token.replace('~', "~0").replace('/', "~1"));
    let pointer: String = tokens.iter().map(escaped).collect();
    match document.pointer(&pointer) {
        None => Err(Missing),
        Some(Value::String(text)) if text.is_empty() => Err(Missing),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Number(n)) if !n.is_f64() => Ok(n.to_string()),
        Some(_) => Err(NoName),
    }
}

proptest! {
    #[test]
    fn a_document_is_read_as_others_read_it(
        document in any_json(),
        tokens in prop::collection::vec("[a-cA~/0-2]{0,2}", 1..4),
    ) {
        let names: Vec<&str> = tokens.iter().map(String::as_str).collect();
        let read = at(&names, document.to_string().as_bytes());
        let expected = expected(&document, &tokens).map(|name| Id::of(name.as_bytes()));
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn the_spelling_of_a_document_makes_no_difference(document in any_json()) {
        let document = json!({"a": document, "id": "7"});
        let pretty = serde_json::to_vec_pretty(&document).unwrap();
        prop_assert_eq!(posted(&pretty), posted(document.to_string().as_bytes()));
    }

    #[test]
    fn a_second_value_is_always_found(
        value in any_json(),
        other in any_json(),
        more in any_json(),
    ) {
        let body = format!(r#"{{"id": {value}, "x": {more}, "id": {other}}}"#);
        prop_assert_eq!(posted(body.as_bytes()), Err(Doubled));
    }

    #[test]
    fn no_bytes_can_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..64),
        text in "[{}\\[\\],:\"\\\\iduxe0-9.+\\- ]{0,40}",
        segment in 0..6_usize,
    ) {
        for body in [&bytes, text.as_bytes()] {
            let _ = posted(body);
            let _ = at(&["0", "id"], body);
            let request = head(&[(":path", body), ("x-id", body), ("content-encoding", body)]);
            for by in [
                LockBy::Header("x-id".to_owned()),
                LockBy::Query("id".to_owned()),
                LockBy::Path { name: "id".to_owned(), segment },
                pointer(&["id"]),
            ] {
                let read = of(&by, &request, &request.path(), &Body::Whole(bytes.clone()));
                if let Ok(id) = read {
                    let safe = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
                    prop_assert!((1..=64).contains(&id.as_str().len()));
                    prop_assert!(id.as_str().bytes().all(safe));
                }
            }
        }
    }
}
