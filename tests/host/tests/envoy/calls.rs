//! Queues and calls: a request held by the filter, decided by its root.

use std::time::Duration;

use tollgate_host::{Answer, Outcome, Process, Request, Response, Upstream, Vm};

use crate::guest::vm;

/// Holds each request and wakes the root, which calls `front`; a 200 resumes the newest stream. The
/// status of dispatching and of becoming the stream are noted.
const ASKS: &str = r#"
    (global $stream (mut i32) (i32.const 0))
    (global $queue (mut i32) (i32.const 0))
    (global $dispatched (mut i32) (i32.const 0))
    (func (export "proxy_on_configure") (param i32 i32) (result i32)
      (call $must (call $register <wake> (i32.const 8)))
      (global.set $queue (i32.load (i32.const 8)))
      (i32.const 1))
    (func (export "proxy_on_request_headers") (param $id i32) (param i32 i32) (result i32)
      (global.set $stream (local.get $id))
      (call $must (call $enqueue (global.get $queue) <k>))
      (i32.const 1))
    (func (export "proxy_on_queue_ready") (param $root i32) (param $queue i32)
      (call $must (call $dequeue (local.get $queue) (i32.const 0) (i32.const 4)))
      (global.set $dispatched (call $http_call <front>
        <\03\00\00\00\07\00\00\00\04\00\00\00\05\00\00\00\02\00\00\00\0a\00\00\00\01\00\00\00:method\00POST\00:path\00/\ff\00:authority\00f\00>
        <ask> (i32.const 0) (i32.const 0) (i32.const 20) (i32.const 8)))
      (drop (call $act_as (global.get $stream)))
      (call $note <dispatched> (global.get $dispatched)))
    (func (export "proxy_on_http_call_response")
      (param $root i32) (param $token i32) (param $fields i32) (param i32 i32)
      (local $alive i32)
      (call $clear)
      (drop (call $get_header (i32.const 6) <:status> (i32.const 0) (i32.const 4)))
      (local.set $alive (call $act_as (global.get $stream)))
      (if (local.get $alive) (then
        (drop (call $log (i32.const 3) <gone>))
        (return)))
      (call $must (call $set_property <answer> (call $ptr) (call $len)))
      (call $clear)
      (drop (call $get_buffer (i32.const 4) (i32.const 0) (i32.const 99) (i32.const 0) (i32.const 4)))
      (call $must (call $set_property <body> (call $ptr) (call $len)))
      (call $must (call $resume (i32.const 0))))
"#;

fn asking() -> (Process, Vm) {
    let (process, vm) = vm(ASKS);
    process.upstream("front", Upstream::Up);
    (process, vm)
}

#[test]
fn a_request_waits_for_the_roots_call_and_its_answer() {
    let (_, mut vm) = asking();
    let id = vm.request(Request::get("/")).unwrap();
    assert_eq!((vm.notices(), vm.calls().len()), (1, 0));
    assert_eq!(vm.deliver(), Ok(1));
    let call = vm.next_call().unwrap();
    assert_eq!(
        (call.upstream.as_slice(), call.body.as_slice()),
        (&b"front"[..], &b"ask"[..])
    );
    assert_eq!(call.headers.get(":path"), Some(&b"/\xff"[..]));
    assert_eq!(call.timeout, Some(Duration::from_millis(20)));
    assert_eq!(Some(call.root), vm.root());
    let token = call.token;
    vm.answer(token, Answer::new(200, b"\xfe")).unwrap();
    let stream = vm.stream(id);
    assert_eq!(stream.filter_state("answer"), Some(&b"200"[..]));
    assert_eq!(stream.filter_state("body"), Some(&b"\xfe"[..]));
    assert_eq!((stream.resumed(), stream.upstream().is_some()), (1, true));
    assert!(vm.calls().is_empty());
    vm.respond(id, Response::status(200)).unwrap();
    assert!(vm.stream(id).ended() && vm.misuses().is_empty());
}

#[test]
fn each_failure_looks_as_it_does_on_envoy() {
    let (process, mut vm) = asking();
    for (outcome, status, body) in [
        (Outcome::Refused, "503", "upstream connect error"),
        (Outcome::TimedOut, "504", "upstream request timeout"),
        (Outcome::Reset, "", ""),
    ] {
        let id = vm.request(Request::get("/")).unwrap();
        vm.deliver().unwrap();
        vm.conclude(vm.next_call().unwrap().token, outcome).unwrap();
        let stream = vm.stream(id);
        assert_eq!(stream.filter_state("answer"), Some(status.as_bytes()));
        let seen = String::from_utf8_lossy(stream.filter_state("body").unwrap());
        assert!(seen.starts_with(body), "{seen}");
    }
    // Time alone expires a call, and only once it has passed.
    let id = vm.request(Request::get("/")).unwrap();
    vm.deliver().unwrap();
    process.advance(Duration::from_millis(19));
    assert_eq!(vm.expire_calls(), Ok(0));
    process.advance(Duration::from_millis(1));
    assert_eq!(vm.expire_calls(), Ok(1));
    assert_eq!(vm.stream(id).filter_state("answer"), Some(&b"504"[..]));
}

#[test]
fn a_call_that_cannot_leave_fails_at_once() {
    let (process, mut vm) = asking();
    process.upstream("front", Upstream::Down);
    let id = vm.request(Request::get("/")).unwrap();
    vm.deliver().unwrap();
    assert_eq!(vm.stream(id).filter_state("dispatched"), Some(&b"k"[..]));
    assert!(vm.calls().is_empty());
    let (_, mut vm) = crate::guest::vm(ASKS);
    let id = vm.request(Request::get("/")).unwrap();
    vm.deliver().unwrap();
    assert_eq!(vm.stream(id).filter_state("dispatched"), Some(&b"c"[..]));
}

#[test]
fn a_stream_whose_client_left_cannot_be_acted_as() {
    let (_, mut vm) = asking();
    let id = vm.request(Request::get("/")).unwrap();
    vm.deliver().unwrap();
    vm.abort(id).unwrap();
    vm.answer(vm.next_call().unwrap().token, Answer::new(200, ""))
        .unwrap();
    assert_eq!(vm.take_logs().last().unwrap().message, "gone");
    assert_eq!(vm.take_stream(id).upstream(), None);
}

#[test]
fn a_backend_answers_calls_while_an_exchange_is_played() {
    let (_, mut vm) = asking();
    vm.set_backend(|call| Answer::new(200, &call.body).into());
    let exchange = vm.exchange(Request::get("/"), Response::status(204));
    assert_eq!(exchange.state("body").as_deref(), Some("ask"));
    assert_eq!((exchange.status(), exchange.resumed), (Some(204), 1));
    vm.set_backend(|_| Outcome::Pending);
    let exchange = vm.exchange(Request::get("/"), Response::status(204));
    assert!(exchange.hung && vm.calls().len() == 1);
}
