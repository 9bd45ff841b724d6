//! Tests of `problem`.

use proptest::prelude::*;
use serde_json::{Value, json};
use tollgate_config::{Millis, Points, Seconds};

use super::*;
use crate::testing::{NOW, head, request};

#[test]
fn an_instance_is_a_uri_reference() {
    let rows: &[(&[u8], &str)] = &[
        (b"/v1/ledgers/reconcile", "/v1/ledgers/reconcile"),
        (b"/", "/"),
        (b"*", "*"),
        (b"", ""),
        (b"/a-._~!$&'()*+,;=:@z/0", "/a-._~!$&'()*+,;=:@z/0"),
        (b"/a b", "/a%20b"),
        (b"/\"<>\\^`{|}[]", "/%22%3C%3E%5C%5E%60%7B%7C%7D%5B%5D"),
        (b"/\r\n\t\x00\x7f", "/%0D%0A%09%00%7F"),
        (b"/\xc3\xa9\xff", "/%C3%A9%FF"),
        (b"/a?b#c", "/a%3Fb%23c"),
        // Escapes stay; a % that is none does not.
        (b"/a%2Fb%e2%82%ac", "/a%2Fb%e2%82%ac"),
        (b"/a%zz", "/a%25zz"),
        (b"/100%", "/100%25"),
        (b"/a%4", "/a%254"),
        (b"/%%41", "/%25%41"),
        // Two slashes at the start would name a host.
        (b"//evil.example/x", "/evil.example/x"),
        (b"///evil.example//x", "/evil.example//x"),
    ];
    for (path, expected) in rows {
        assert_eq!(instance(path), *expected, "{path:?}");
    }
}

#[test]
fn an_instance_is_short_and_ends_with_a_whole_escape() {
    let long = [b"/".as_slice(), &[b'a'; 5000]].concat();
    assert_eq!(instance(&long), format!("/{}", "a".repeat(1023)));
    for lead in 1000..1030 {
        let path = [b"/".as_slice(), &vec![b'a'; lead], b"%41%42%43%44"].concat();
        let instance = instance(&path);
        assert!(is_path(&instance), "{lead}: {}", &instance[990..]);
    }
}

/// `path-absolute` and the like of RFC 3986: legal characters, whole escapes, no authority.
fn is_path(text: &str) -> bool {
    let mut rest = text.as_bytes();
    if text.starts_with("//") {
        return false;
    }
    loop {
        rest = match rest {
            [] => return true,
            [b'%', high, low, rest @ ..] => {
                if !(high.is_ascii_hexdigit() && low.is_ascii_hexdigit()) {
                    return false;
                }
                rest
            }
            [byte, rest @ ..] => {
                let legal = byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(byte);
                if !legal {
                    return false;
                }
                rest
            }
        };
    }
}

#[test]
fn the_proxys_request_id_is_repeated_if_it_can_be() {
    let longest = "i".repeat(128);
    let too_long = "i".repeat(129);
    let made = "req_00000000000000ff";
    let rows: &[(&[u8], &str)] = &[
        (b"req-1", "req-1"),
        (b"\"\\<script>", "\"\\<script>"),
        (longest.as_bytes(), &longest),
        (too_long.as_bytes(), made),
        (b"", made),
        (b"a b", made),
        (b" a", made),
        (b"a\r\nset-cookie:x", made),
        (b"a\x00b", made),
        (b"a\x1b[2J", made),
        ("idé".as_bytes(), made),
        (b"\xff\xfe", made),
    ];
    for (given, expected) in rows {
        let request = head(&[("X-Request-Id", given)]);
        assert_eq!(request_id(&request, 255), *expected, "{given:?}");
    }
    assert_eq!(request_id(&head(&[]), 255), made);
    assert_eq!(request_id(&head(&[]), u64::MAX), "req_ffffffffffffffff");
    let two = request("GET", "/", &[("x-request-id", "a"), ("x-request-id", "b")]);
    assert_eq!(request_id(&two, 1), "a");
}

#[test]
fn the_refill_is_told_in_the_unit_that_says_most() {
    for (points, per, expected) in [
        (3000, 60, "50 points/second"),
        (1500, 60, "25 points/second"),
        (60, 60, "1 point/second"),
        (100, 60, "1.67 points/second"),
        (90, 60, "1.5 points/second"),
        (30_000, 60, "500 points/second"),
        (1_000_000_000, 1, "1000000000 points/second"),
        (10, 60, "1 point every 6 seconds"),
        (7, 60, "1 point every 8.57 seconds"),
        (1, 86_400, "1 point every 86400 seconds"),
    ] {
        let limit = Limit {
            points: Points(points),
            per: Seconds(per),
            burst: Points(1),
        };
        assert_eq!(refill(&limit), expected, "{points} per {per}");
    }
}

#[test]
fn a_box_tells_its_level_and_its_exact_end() {
    let lockout = Lockout {
        level: 2,
        until: NOW.plus(Millis::from_secs(3600)),
    };
    let document = boxed(Scope::Key, &lockout);
    assert_eq!(document.penalty_level, Some(2));
    assert_eq!(
        document.lockout_ends_at.as_deref(),
        Some("2025-04-01T01:00:00Z")
    );
    assert!(
        document
            .detail
            .contains("This API key is in the penalty box until 2025-04-01T01:00:00Z")
    );
}

#[test]
fn what_a_document_has_not_is_left_out() {
    let document = Document {
        r#type: "https://x.example/e/invalid-request".to_owned(),
        title: "Invalid Request",
        status: 400,
        instance: "/a".to_owned(),
        request_id: "r".to_owned(),
        ..Document::of("d".to_owned())
    };
    let value: Value = serde_json::from_slice(&document.with_retry(None).bytes()).unwrap();
    let expected = json!({
        "type": "https://x.example/e/invalid-request",
        "title": "Invalid Request",
        "status": 400,
        "detail": "d",
        "instance": "/a",
        "request_id": "r",
    });
    assert_eq!(value, expected);
}

#[test]
fn a_wait_is_told_with_the_backoff_to_use() {
    let retry = RetryAfter::spread(Millis(12_000), 1);
    let document = Document::of(String::new()).with_retry(Some(retry));
    let value: Value = serde_json::from_slice(&document.bytes()).unwrap();
    assert_eq!(value["retry_after_seconds"], json!(13));
    assert_eq!(
        value["recommended_backoff"],
        json!("exponential_with_full_jitter")
    );
}

proptest! {
    #[test]
    fn any_path_becomes_a_uri_reference(path in prop::collection::vec(any::<u8>(), 0..60)) {
        let instance = instance(&path);
        prop_assert!(is_path(&instance), "{}", instance);
    }

    #[test]
    fn percent_signs_become_whole_escapes(path in "/{0,3}[%0-9a-fA-Fg/]{0,40}") {
        let instance = instance(path.as_bytes());
        prop_assert!(is_path(&instance), "{}", instance);
    }

    #[test]
    fn documents_are_json_whatever_the_request_holds(
        path in prop::collection::vec(any::<u8>(), 0..60),
        id in prop::collection::vec(any::<u8>(), 0..60),
        detail in "\\PC{0,40}",
        nonce in any::<u64>(),
    ) {
        let request_id = request_id(&head(&[("x-request-id", &id)]), nonce);
        let instance = instance(&path);
        let document = Document {
            instance: instance.clone(),
            request_id: request_id.clone(),
            ..Document::of(detail.clone())
        };
        let value: Value = serde_json::from_slice(&document.bytes()).unwrap();
        prop_assert_eq!(&value["instance"], &json!(instance));
        prop_assert_eq!(&value["request_id"], &json!(request_id));
        prop_assert_eq!(&value["detail"], &json!(detail));
        prop_assert!(request_id.bytes().all(|b| b.is_ascii_graphic()) && !request_id.is_empty());
    }
}
