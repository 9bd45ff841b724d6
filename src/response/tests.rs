//! Tests of `response`.

use std::cell::RefCell;

use proptest::prelude::*;

use super::*;

type Fields<'a> = &'a [(&'a str, &'a str)];

fn said(fields: Fields<'_>) -> Said {
    let read = |name: &str| {
        let field = fields.iter().find(|(n, _)| *n == name);
        field.map(|(_, value)| value.as_bytes().to_vec())
    };
    Response::new(&read).said()
}

#[test]
fn a_response_says_its_status() {
    for (status, expected) in [
        ("200", 200),
        ("204", 204),
        ("401", 401),
        ("503", 503),
        ("101", 101),
        // What cannot be read is neither a success nor a failure of the client's.
        ("", 500),
        ("abc", 500),
        ("99999", 500),
    ] {
        let found = said(&[(":status", status), ("grpc-status", "0")]);
        assert_eq!(found, Said::Status(expected), "{status}");
    }
    assert_eq!(said(&[]), Said::Status(500));
}

#[test]
fn a_grpc_response_says_its_code() {
    const GRPC: (&str, &str) = ("content-type", "application/grpc");
    for (code, expected) in [
        ("0", 200),
        ("16", 401),
        ("7", 403),
        (" 16 ", 401),
        ("1", 500),
        ("13", 500),
        ("14", 500),
        ("160", 500),
        ("", 500),
        ("ok", 500),
    ] {
        let found = said(&[(":status", "200"), GRPC, ("grpc-status", code)]);
        assert_eq!(found, Said::Status(expected), "{code:?}");
    }
    assert_eq!(said(&[(":status", "200"), GRPC]), Said::Later);
    // Its own status counts where that says that it is none.
    assert_eq!(said(&[(":status", "401"), GRPC]), Said::Status(401));
    assert_eq!(
        said(&[(":status", "503"), GRPC, ("grpc-status", "0")]),
        Said::Status(503)
    );
}

#[test]
fn what_is_grpc_says_the_type_of_the_response() {
    for (media, expected) in [
        ("application/grpc", Said::Status(401)),
        ("application/grpc+proto", Said::Status(401)),
        ("Application/gRPC; charset=x", Said::Status(401)),
        ("application/grpc-web+proto", Said::Status(401)),
        ("application/json", Said::Status(200)),
        ("text/plain", Said::Status(200)),
        ("", Said::Status(200)),
    ] {
        let fields = [
            (":status", "200"),
            ("content-type", media),
            ("grpc-status", "16"),
        ];
        assert_eq!(said(&fields), expected, "{media}");
    }
}

#[test]
fn trailers_say_their_code() {
    let said = |code: Option<&str>| {
        let read = |name: &str| {
            assert_eq!(name, "grpc-status");
            code.map(|code| code.as_bytes().to_vec())
        };
        Response::new(&read).said_at_last()
    };
    assert_eq!(said(Some("0")), 200);
    assert_eq!(said(Some("16")), 401);
    assert_eq!(said(Some("2")), 500);
    assert_eq!(said(None), 500);
}

#[test]
fn no_more_is_read_than_has_to_be() {
    let asked = RefCell::new(Vec::new());
    let read = |name: &str| {
        asked.borrow_mut().push(name.to_owned());
        Some(if name == ":status" { "401" } else { "" }.into())
    };
    assert_eq!(Response::new(&read).said(), Said::Status(401));
    assert_eq!(asked.take(), [":status"]);
}

proptest! {
    #[test]
    fn no_bytes_can_make_it_panic(
        status in prop::option::of(prop::collection::vec(any::<u8>(), 0..6)),
        media in prop::option::of(prop::collection::vec(any::<u8>(), 0..30)),
        code in prop::option::of(prop::collection::vec(any::<u8>(), 0..6)),
    ) {
        let read = |name: &str| match name {
            ":status" => status.clone(),
            "content-type" => media.clone(),
            _ => code.clone(),
        };
        let response = Response::new(&read);
        if let Said::Status(status) = response.said() {
            let is_success = (200..300).contains(&status);
            prop_assert!(!is_success || response.status() == Some(status));
        }
        let last = response.said_at_last();
        prop_assert!([200, 401, 403, 500].contains(&last));
    }
}

#[test]
fn a_request_that_the_client_broke_off_is_told_from_one_that_was_answered() {
    const GRPC: (&str, &str) = ("content-type", "application/grpc");
    let rows: [(Fields<'_>, &str, Said); 10] = [
        (&[(":status", "400")], "http1.codec_error", Said::BrokenOff),
        (&[(":status", "400")], "http2.violation", Said::BrokenOff),
        (
            &[(":status", "408")],
            "stream_idle_timeout",
            Said::BrokenOff,
        ),
        (
            &[(":status", "408")],
            "request_overall_timeout",
            Said::BrokenOff,
        ),
        (
            &[(":status", "200"), GRPC, ("grpc-status", "13")],
            "http1.codec_error",
            Said::BrokenOff,
        ),
        (&[(":status", "400")], "via_upstream", Said::Status(400)),
        (&[(":status", "400")], "", Said::Status(400)),
        (
            &[(":status", "401")],
            "jwt_authn_access_denied{x}",
            Said::Status(401),
        ),
        // The upstream took too long.
        (
            &[(":status", "504")],
            "stream_idle_timeout",
            Said::Status(504),
        ),
        (&[(":status", "200")], "via_upstream", Said::Status(200)),
    ];
    for (fields, details, expected) in rows {
        let read = |name: &str| {
            let field = fields.iter().find(|(n, _)| *n == name);
            field.map(|(_, value)| value.as_bytes().to_vec())
        };
        let word = || Some(details.as_bytes().to_vec());
        let found = Response::new(&read).with_details(&word).said();
        assert_eq!(found, expected, "{fields:?} {details}");
    }
}
