//! What the filter answers by itself, and when it can reach which headers.

use tollgate_host::{Action, Request, Response};

use crate::guest::vm;

/// Replies 429 to `x-refuse`; marks every response.
const REFUSES: &str = r#"
    (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
      (if (i32.eqz (call $get_header (i32.const 0) <x-refuse> (i32.const 0) (i32.const 4))) (then
        (call $must (call $send (i32.const 429) (i32.const 0) (i32.const 0) <slow down>
          <\01\00\00\00\0b\00\00\00\01\00\00\00Retry-After\007\00> (i32.const -1)))))
      ;; Continue, as a careless filter might: a reply stops the request all the same.
      (i32.const 0))
    (func (export "proxy_on_response_headers") (param i32 i32 i32) (result i32)
      (call $must (call $set_header (i32.const 2) <x-seen> <yes>))
      (i32.const 0))
"#;

#[test]
fn a_local_reply_passes_the_filter_as_a_response_and_ends_the_stream() {
    let (_, mut vm) = vm(REFUSES);
    let id = vm
        .request(Request::get("/").header("x-refuse", ""))
        .unwrap();
    let stream = vm.stream(id);
    let reply = stream.reply().unwrap();
    assert_eq!((reply.status, reply.grpc_status), (429, None));
    assert_eq!(reply.headers.get("x-seen"), None);
    let client = stream.client().unwrap();
    assert_eq!(
        (client.status(), client.text()),
        (Some(429), "slow down".into())
    );
    assert_eq!(client.headers.get("x-seen"), Some(&b"yes"[..]));
    assert_eq!(client.headers.get("retry-after"), Some(&b"7"[..]));
    assert_eq!(client.headers.get("content-length"), Some(&b"9"[..]));
    assert_eq!(client.headers.get("content-type"), Some(&b"text/plain"[..]));
    assert!(client.complete && stream.ended());
    assert_eq!((stream.action(), stream.upstream()), (Action::Pause, None));
    assert!(vm.misuses().is_empty());
}

#[test]
fn what_passes_reaches_the_upstream_and_the_client() {
    let (_, mut vm) = vm(REFUSES);
    let upstream = Response::status(201).header("x-seen", "no").body("made");
    let exchange = vm.exchange(Request::get("/"), upstream);
    assert_eq!(
        (exchange.status(), exchange.text()),
        (Some(201), "made".into())
    );
    assert_eq!(exchange.header("x-seen").as_deref(), Some("yes"));
    assert!(exchange.upstream.unwrap().complete);
    assert_eq!((exchange.reply, exchange.hung), (None, false));
}

#[test]
fn head_gets_no_body_and_grpc_gets_trailers_only() {
    let (_, mut vm) = vm(REFUSES);
    let head = Request::new("HEAD", "/").header("x-refuse", "");
    let exchange = vm.exchange(head, Response::status(200));
    assert_eq!(
        (exchange.status(), exchange.text()),
        (Some(429), String::new())
    );
    assert_eq!(exchange.header("content-length").as_deref(), Some("9"));
    let grpc = Request::post("/", "x")
        .header("content-type", "application/grpc+proto")
        .header("x-refuse", "");
    let exchange = vm.exchange(grpc, Response::status(200));
    assert_eq!(
        (exchange.status(), exchange.text()),
        (Some(200), String::new())
    );
    assert_eq!(exchange.header("grpc-status").as_deref(), Some("14"));
    assert_eq!(
        exchange.header("grpc-message").as_deref(),
        Some("slow down")
    );
}

#[test]
fn request_headers_are_out_of_reach_from_the_response_until_the_log() {
    let (_, mut vm) = vm(r#"
        (func $look (param $name i32) (param $len i32)
          (call $note (local.get $name) (local.get $len)
            (call $get_header (i32.const 0) <:path> (i32.const 0) (i32.const 4))))
        (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
          (call $look <request>) (i32.const 0))
        (func (export "proxy_on_response_headers") (param i32 i32 i32) (result i32)
          (call $look <response>)
          (call $note <property> (call $get_property <request\00method> (i32.const 0) (i32.const 4)))
          (call $note <address> (call $get_property <source\00address> (i32.const 0) (i32.const 4)))
          (call $must (call $set_property <ip> (call $ptr) (call $len)))
          (i32.const 0))
        (func (export "proxy_on_log") (param i32)
          (call $look <log>)
          (call $note <code> (call $get_property <response\00code> (i32.const 0) (i32.const 4)))
          (call $must (call $set_property <status> (call $ptr) (call $len)))
          ;; Filter state is readable at the path it was set at.
          (call $must (call $get_property <ip> (i32.const 0) (i32.const 4)))
          (call $must (call $set_property <again> (call $ptr) (call $len))))
        (func (export "proxy_on_done") (param i32) (result i32)
          (call $look <done>) (i32.const 1))
    "#);
    let request = Request::get("/").source("203.0.113.7:999");
    let exchange = vm.exchange(request, Response::status(401));
    let state = |name| exchange.state(name).unwrap();
    assert_eq!((state("request"), state("log")), ("a".into(), "a".into()));
    assert_eq!((state("response"), state("done")), ("c".into(), "c".into()));
    assert_eq!(
        (state("property"), state("address")),
        ("b".into(), "a".into())
    );
    assert_eq!(
        (state("ip"), state("again")),
        ("203.0.113.7:999".into(), "203.0.113.7:999".into())
    );
    assert_eq!(exchange.filter_state[&b"status"[..]], 401_i64.to_le_bytes());
}

#[test]
fn replying_twice_and_replying_and_resuming_are_told_about() {
    let (_, mut vm) = vm(r#"
        (func $reply (call $must (call $send (i32.const 403) (i32.const 0) (i32.const 0)
          (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const -1))))
        (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
          (call $reply) (call $reply) (call $must (call $resume (i32.const 0)))
          (i32.const 1))
    "#);
    let exchange = vm.exchange(Request::get("/"), Response::status(200));
    assert_eq!((exchange.status(), exchange.upstream), (Some(403), None));
    let what: Vec<&str> = vm.misuses().iter().map(|misuse| misuse.what).collect();
    assert_eq!(
        what,
        [
            "resumed inside its own callback",
            "replied to a stream that is gone",
            "resumed a stream that is gone"
        ]
    );
    assert_eq!(vm.peak_fan_out(), 3);
}
