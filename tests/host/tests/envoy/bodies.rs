//! When the filter is shown a body, and what becomes of what it holds.

use tollgate_host::{Action, EnvoyOptions, Options, Personality, Request, Response};

use crate::guest::{configured, process, vm};

/// Holds the headers; resumes on the tick; counts what it is shown.
const HOLDS_HEADERS: &str = r#"
    (global $stream (mut i32) (i32.const 0))
    (func (export "proxy_on_configure") (param i32 i32) (result i32)
      (call $must (call $set_tick (i32.const 50))) (i32.const 1))
    (func (export "proxy_on_request_headers") (param $id i32) (param i32 i32) (result i32)
      (global.set $stream (local.get $id)) (i32.const 1))
    (func (export "proxy_on_request_body") (param i32) (param $size i32) (param $last i32) (result i32)
      (call $note <size> (local.get $size))
      (call $note <last> (local.get $last))
      (i32.const 0))
    (func (export "proxy_on_tick") (param i32)
      (call $must (call $act_as (global.get $stream)))
      (call $must (call $resume (i32.const 0))))
"#;

#[test]
fn a_held_request_shows_no_body_until_it_is_resumed() {
    let (_, mut vm) = vm(HOLDS_HEADERS);
    let id = vm.request(Request::post("/", "abc").open()).unwrap();
    vm.request_body(id, b"de", true).unwrap();
    assert_eq!(vm.stream(id).filter_state("size"), None);
    assert_eq!(
        (vm.stream(id).action(), vm.stream(id).upstream()),
        (Action::Pause, None)
    );
    assert_eq!((vm.tick_millis(), vm.tick()), (Some(50), Ok(1)));
    assert_eq!(vm.stream(id).filter_state("last"), Some(&b"b"[..]));
    let upstream = vm.stream(id).upstream().unwrap();
    assert_eq!((upstream.text(), upstream.complete), ("abcde".into(), true));
    assert_eq!(vm.stream(id).resumed(), 1);
    assert!(vm.misuses().is_empty());
}

#[test]
fn where_the_operator_allows_it_the_body_is_shown_while_headers_are_held() {
    let personality = Personality::Envoy(EnvoyOptions {
        allow_on_headers_stop_iteration: true,
        ..EnvoyOptions::default()
    });
    let process = process(HOLDS_HEADERS, Options::new().personality(personality));
    let mut vm = configured(&process);
    let id = vm.request(Request::post("/", "abc")).unwrap();
    assert_eq!(vm.stream(id).filter_state("size"), Some(&b"d"[..]));
    // The body callback let it go, and the headers with it.
    assert_eq!(vm.stream(id).upstream().unwrap().text(), "abc");
    let id = vm.request(Request::get("/")).unwrap();
    assert_eq!(vm.stream(id).upstream(), None);
}

/// Holds the body until its end, then answers with what it read.
const READS_BODY: &str = r#"
    (func (export "proxy_on_request_body") (param i32) (param $size i32) (param $last i32) (result i32)
      (if (i32.eqz (local.get $last)) (then (return (i32.const 1))))
      (call $must (call $get_buffer (i32.const 0) (i32.const 1) (i32.const 3) (i32.const 0) (i32.const 4)))
      (call $must (call $set_property <read> (call $ptr) (call $len)))
      (i32.const 0))
"#;

#[test]
fn held_body_is_read_whole_and_goes_on_whole() {
    let (_, mut vm) = vm(READS_BODY);
    let request = Request::post("/", "ab").body("cd").body("ef");
    let exchange = vm.exchange(request, Response::status(200).body("x").body("y"));
    assert_eq!(exchange.state("read").as_deref(), Some("bcd"));
    assert_eq!(exchange.upstream.as_ref().unwrap().text(), "abcdef");
    assert_eq!(exchange.text(), "xy");
}

#[test]
fn holding_more_than_the_buffer_is_answered_by_the_host() {
    let options = Options::new().personality(Personality::Envoy(EnvoyOptions {
        buffer_limit: 4,
        ..EnvoyOptions::default()
    }));
    let mut vm = configured(&process(READS_BODY, options));
    let request = Request::post("/", "abc").body("def").body("g");
    let exchange = vm.exchange(request, Response::status(200));
    assert_eq!((exchange.status(), exchange.reply), (Some(413), None));
}

#[test]
fn a_request_nothing_resumes_is_hung_and_its_context_is_deleted() {
    let (_, mut vm) = vm(r#"
        (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32) (i32.const 1))
        (func (export "proxy_on_done") (param i32) (result i32)
          (call $note <done> (i32.const 0)) (i32.const 1))
    "#);
    let exchange = vm.exchange(Request::get("/"), Response::status(200));
    assert!(exchange.hung);
    assert_eq!(exchange.status(), None);
    assert_eq!(exchange.state("done").as_deref(), Some("a"));
    assert_eq!(vm.live_streams().count(), 0);
}
