//! Tests of `request`.

use super::*;
use crate::testing::{head, request};
use proptest::prelude::*;

#[test]
fn a_header_is_there_never_once_or_more_than_once() {
    type Row = (
        &'static [(&'static str, &'static [u8])],
        Occurs<'static>,
        &'static str,
    );
    let rows: &[Row] = &[
        (&[], Occurs::Never, "absent"),
        (&[("x-id-2", b"a")], Occurs::Never, "another name"),
        (&[("x-id", b"")], Occurs::Never, "empty"),
        (&[("x-id", b" \t ")], Occurs::Never, "white space"),
        (&[("x-id", b"a")], Occurs::Once(b"a"), "once"),
        (&[("X-ID", b"a")], Occurs::Once(b"a"), "upper case"),
        (&[("x-id", b" \ta b\t ")], Occurs::Once(b"a b"), "trimmed"),
        (
            &[("x-id", b"\xff\x00")],
            Occurs::Once(b"\xff\x00"),
            "not UTF-8",
        ),
        (
            &[("x-id", b"a"), ("x-id", b"a")],
            Occurs::Doubled,
            "twice the same",
        ),
        (
            &[("x-id", b"a"), ("X-Id", b"b")],
            Occurs::Doubled,
            "another case",
        ),
        (
            &[("x-id", b""), ("x-id", b"a")],
            Occurs::Doubled,
            "empty first",
        ),
        (
            &[("x-id", b"a"), ("x-id", b"")],
            Occurs::Doubled,
            "empty last",
        ),
        (
            &[("x-id", b""), ("x-id", b"")],
            Occurs::Doubled,
            "twice empty",
        ),
        (
            &[("x-id", b"a"), ("x-other", b"b"), ("x-id", b"c")],
            Occurs::Doubled,
            "apart",
        ),
    ];
    for (fields, expected, what) in rows {
        assert_eq!(head(fields).occurs("x-id"), *expected, "{what}");
        assert_eq!(
            head(fields).occurs("X-Id"),
            *expected,
            "{what}, asked in another case"
        );
    }
}

#[test]
fn values_keep_their_order_and_bytes() {
    let request = head(&[("a", b" 1 "), ("b", b"x"), ("A", b"\xfe"), ("a", b"")]);
    let values: Vec<&[u8]> = request.values("a").collect();
    assert_eq!(values, [b" 1 ".as_slice(), b"\xfe", b""]);
    assert_eq!(request.first("a"), b" 1 ");
    assert_eq!(request.first("c"), b"");
}

#[test]
fn every_field_only_tollgate_may_set_is_named_in_every_case() {
    let request = head(&[
        (":path", b"/"),
        ("x-tollgate-lease", b"1"),
        ("X-Tollgate-Fence", b"2"),
        ("x-tollgate-lease", b"3"),
        ("x-tollgate-", b"4"),
        ("X-TOLLGATE-new", b"\xff"),
        ("x_Tollgate_lease", b"5"),
        ("x-tollgate", b"no"),
        ("x-tollgat\u{e9}-lease", b"no"),
        ("my-x-tollgate-lease", b"no"),
        ("", b"no"),
    ]);
    assert_eq!(
        request.own_fields(),
        [
            "X-TOLLGATE-new",
            "X-Tollgate-Fence",
            "x-tollgate-",
            "x-tollgate-lease",
            "x_Tollgate_lease",
        ]
    );
    assert!(head(&[(":path", b"/")]).own_fields().is_empty());
}

#[test]
fn grpc_is_told_by_its_content_type() {
    for (value, expected) in [
        ("application/grpc", true),
        ("application/grpc+proto", true),
        ("application/grpc+json", true),
        ("application/grpc;charset=utf-8", false),
        ("application/grpc ; charset=utf-8", false),
        ("Application/GRPC+Proto", false),
        ("application/grpc-web", false),
        ("application/grpc-web+proto", false),
        ("application/grpc-web-text", false),
        ("application/grpcx", false),
        ("application/json", false),
        ("text/plain; note=application/grpc", false),
        ("application/grp", false),
        ("", false),
    ] {
        let request = request("POST", "/", &[("content-type", value)]);
        assert_eq!(request.is_grpc(), expected, "{value}");
    }
    assert!(!request("POST", "/", &[]).is_grpc());
    assert!(!head(&[("content-type", b"\xff\xfe")]).is_grpc());
}

#[test]
fn a_target_falls_into_path_and_query() {
    for (target, path, query) in [
        ("/", "/", ""),
        ("/a", "/a", ""),
        ("/a?", "/a", ""),
        ("/a?x=1&y", "/a", "x=1&y"),
        ("/a?x=1?y=2", "/a", "x=1?y=2"),
        ("/a?x=%3F%23", "/a", "x=%3F%23"),
        ("/a#frag", "/a", ""),
        ("/a?x=1#&y=2", "/a", "x=1#&y=2"),
        ("/a#frag?x=1", "/a", "x=1"),
        ("/a%3Fx=1", "/a%3Fx=1", ""),
        ("?x=1", "", "x=1"),
        ("", "", ""),
    ] {
        let request = request("GET", target, &[]);
        assert_eq!(request.raw_path(), path.as_bytes(), "{target}");
        assert_eq!(request.query(), query.as_bytes(), "{target}");
    }
}

#[test]
fn routes_see_the_one_spelling_of_a_path() {
    let path = |target| request("GET", target, &[]).path().into_owned();
    assert_eq!(path("//v1/./x/../%6Cedgers/?a=/b"), b"/v1/ledgers");
    assert_eq!(path("/v1/ledgers#/../../healthz"), b"/v1/ledgers");
    assert_eq!(path(""), b"/");
    assert_eq!(head(&[(":path", b"/\xff")]).path().as_ref(), b"/%FF");
}

#[test]
fn the_method_is_as_it_was_sent() {
    for method in ["DELETE", "HEAD", "head", ""] {
        assert_eq!(request(method, "/", &[]).method(), method.as_bytes());
    }
    assert_eq!(head(&[]).method(), b"");
}

fn map(fields: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut out = (fields.len() as u32).to_le_bytes().to_vec();
    for (name, value) in fields {
        out.extend((name.len() as u32).to_le_bytes());
        out.extend((value.len() as u32).to_le_bytes());
    }
    for (name, value) in fields {
        out.extend([name, &b"\0"[..], value, b"\0"].concat());
    }
    out
}

#[test]
fn a_map_is_read_as_it_was_serialised() {
    let fields: [(&[u8], &[u8]); 4] = [
        (b":path", b"/v1"),
        (b"x-a", b""),
        (b"x-a", b"\xff\0\xfe"),
        (b"\xff", b"name and value of any bytes"),
    ];
    let request = Request::from_map(map(&fields));
    assert_eq!(request.fields().collect::<Vec<_>>(), fields);
    assert_eq!(
        request.values("X-A").collect::<Vec<_>>(),
        [&b""[..], b"\xff\0\xfe"]
    );
    assert_eq!(Request::from_map(Vec::new()).fields().count(), 0);
}

proptest! {
    #[test]
    fn of_a_broken_map_what_can_be_read_is_read(
        cut in 0..64_usize, lie in any::<u32>(), at in 0..9_usize,
    ) {
        let fields: [(&[u8], &[u8]); 3] = [(b"a", b"1"), (b"bb", b"22"), (b"ccc", b"333")];
        let whole = map(&fields);
        let mut bytes = whole.get(..cut.min(whole.len())).unwrap().to_vec();
        let read = Request::from_map(bytes.clone());
        prop_assert!(fields.starts_with(&read.fields().collect::<Vec<_>>()));
        // And no lie about a length reaches beyond the bytes.
        if let Some(word) = bytes.get_mut(at * 4..at * 4 + 4) {
            word.copy_from_slice(&lie.to_le_bytes());
        }
        let read: usize = Request::from_map(bytes.clone()).fields().map(|(n, v)| n.len() + v.len()).sum();
        prop_assert!(read <= bytes.len());
    }
}
