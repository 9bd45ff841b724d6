use proptest::prelude::*;

use super::*;

/// Worked out by hand from RFC 3986: section 2 for what may stand raw, 5.2.4 for dot segments
/// (slashes merged first), 6.2.2 for case and escapes.
const TABLE: &[(&str, &str)] = &[
    // Already normal.
    ("/", "/"),
    ("/v1/ledgers", "/v1/ledgers"),
    ("/AZaz09-._~!$&'()*+,;=:@", "/AZaz09-._~!$&'()*+,;=:@"),
    ("/a%2Fb", "/a%2Fb"),
    ("/...", "/..."),
    ("/.a", "/.a"),
    ("/a..", "/a.."),
    ("/*", "/*"),
    // The leading slash.
    ("", "/"),
    ("a", "/a"),
    ("*", "/*"),
    // Query and fragment.
    ("/a?b", "/a"),
    ("/a#b", "/a"),
    ("/a#b?c", "/a"),
    ("/a?b#c", "/a"),
    ("/a/?b", "/a"),
    ("?/b", "/"),
    ("/a%3Fb", "/a%3Fb"),
    ("/a%23b", "/a%23b"),
    // Escapes of what may stand raw are decoded: unreserved, sub-delims, ":" and "@".
    ("/%61%62", "/ab"),
    ("/%41%5A%7A%30%39", "/AZz09"),
    ("/%2D%2E%5F%7E", "/-._~"),
    ("/%21%24%26%27%28%29%2A%2B%2C%3B%3D", "/!$&'()*+,;="),
    ("/%3A%40", "/:@"),
    ("/v1%2dx%2Dy", "/v1-x-y"),
    // The others stay, in upper case: / ? # % [ ] and what no URI holds.
    ("/a%2fb", "/a%2Fb"),
    ("/%3f%23%25%5b%5d", "/%3F%23%25%5B%5D"),
    ("/%00%1f%7f%20%22", "/%00%1F%7F%20%22"),
    ("/%c3%a9", "/%C3%A9"),
    ("/%5c", "/%5C"),
    // What may not stand raw is escaped.
    ("/a b", "/a%20b"),
    ("/\"<>\\^`{|}[]", "/%22%3C%3E%5C%5E%60%7B%7C%7D%5B%5D"),
    ("/\u{e9}", "/%C3%A9"),
    ("/\t\n\u{7f}", "/%09%0A%7F"),
    // A percent sign without two digits is itself; nothing is decoded twice.
    ("/%", "/%25"),
    ("/%4", "/%254"),
    ("/%zz", "/%25zz"),
    ("/%4g", "/%254g"),
    ("/%%41", "/%25A"),
    ("/%2541", "/%2541"),
    ("/%25%34%31", "/%2541"),
    ("/%2%35", "/%2525"),
    ("/%+1", "/%25+1"),
    // Slashes.
    ("//", "/"),
    ("//a", "/a"),
    ("/a//b", "/a/b"),
    ("/a///", "/a"),
    ("/a/", "/a"),
    // Dot segments, also spelled with escapes; never above the root.
    ("/.", "/"),
    ("/..", "/"),
    ("/./a", "/a"),
    ("/a/.", "/a"),
    ("/a/./b", "/a/b"),
    ("/a/..", "/"),
    ("/a/../b", "/b"),
    ("/a/b/../../c", "/c"),
    ("/../../a", "/a"),
    ("/a/../../..", "/"),
    ("/a/b/c/./../../g", "/a/g"),
    ("/mid/content=5/../6", "/mid/6"),
    ("/a/%2e%2E/b", "/b"),
    ("/a/.%2e/b", "/b"),
    ("/a/%2e/b", "/a/b"),
    ("/a//../b", "/b"),
    ("../a", "/a"),
    ("/a/..%2fb", "/a/..%2Fb"),
    ("/a/..;x/b", "/a/..;x/b"),
    ("/a/..?x", "/"),
];

#[test]
fn every_path_has_one_spelling() {
    for (target, expected) in TABLE {
        let found = normalize(target.as_bytes());
        assert_eq!(
            String::from_utf8_lossy(&found),
            *expected,
            "normalising {target:?}"
        );
    }
}

#[test]
fn bytes_that_are_not_utf8_are_escaped() {
    assert_eq!(normalize(b"/\xff\xfe").as_ref(), b"/%FF%FE");
}

#[test]
fn a_normal_path_is_borrowed_also_before_a_query() {
    for target in [
        "/",
        "/v1/ledgers/42",
        "/a%2Fb",
        "/v1/ledgers?from=2024",
        "/a#b",
    ] {
        assert!(
            matches!(normalize(target.as_bytes()), Cow::Borrowed(_)),
            "{target}"
        );
    }
}

/// Bytes that make something happen, and any others.
fn targets() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        4 => prop::sample::select(b"//..%%%2eE5fF0aA?#; ~{*".to_vec()),
        1 => any::<u8>(),
    ];
    prop::collection::vec(byte, 0..40)
}

proptest! {
    #[test]
    fn normal_is_a_fixed_point(target in targets()) {
        let once = normalize(&target).into_owned();
        let twice = normalize(&once);
        prop_assert_eq!(twice.as_ref(), once.as_slice());
        prop_assert!(matches!(twice, Cow::Borrowed(_)));
    }

    #[test]
    fn normal_holds_what_it_promises(target in targets()) {
        let normal = normalize(&target).into_owned();
        prop_assert!(normal.is_ascii());
        prop_assert!(!normal.iter().any(|b| matches!(b, b'?' | b'#' | b' ')));
        let segments = normal.strip_prefix(b"/").unwrap();
        if !segments.is_empty() {
            for segment in segments.split(|b| *b == b'/') {
                prop_assert!(!matches!(segment, b"" | b"." | b".."));
            }
        }
    }

    #[test]
    fn a_borrowed_path_was_already_what_it_is(target in targets()) {
        if let Cow::Borrowed(path) = normalize(&target) {
            // The slow way agrees with the short cut.
            let rewritten = rewrite(path);
            prop_assert_eq!(rewritten.as_slice(), path);
        }
    }
}

#[test]
fn servers_may_read_a_path_in_another_way() {
    for (path, other) in [
        (
            "/v1/reports%2Faudit-export",
            Some("/v1/reports/audit-export"),
        ),
        (
            "/v1/reports%5Caudit-export",
            Some("/v1/reports/audit-export"),
        ),
        ("/docs/..%2Fv1/x", Some("/v1/x")),
        ("/docs/..;/v1/x", Some("/v1/x")),
        ("/docs/..;a=b;c/v1/x;d", Some("/v1/x")),
        ("/v1/x;jsessionid=1", Some("/v1/x")),
        ("/v1/caf%C3%A9", None),
        ("/v1/ledgers", None),
        ("/", None),
    ] {
        let read = super::other_reading(path.as_bytes());
        assert_eq!(read.as_deref(), other.map(str::as_bytes), "{path}");
    }
}
