//! Nothing on the way through the host needs to be text.

use tollgate_host::{Headers, Request, Response};

use crate::guest::vm;

const RAW: &[u8] = &[0xff, 0xfe, b'!'];

#[test]
fn header_values_survive_as_bytes_and_duplicates_keep_their_order() {
    let (_, mut vm) = vm(r#"
        (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
          (call $must (call $get_map (i32.const 0) (i32.const 0) (i32.const 4)))
          (call $must (call $set_map (i32.const 0) (call $ptr) (call $len)))
          (call $must (call $get_header (i32.const 0) <X-In> (i32.const 0) (i32.const 4)))
          (call $must (call $set_header (i32.const 0) <X-Out> (call $ptr) (call $len)))
          (i32.const 0))
    "#);
    let request = Request::get(b"/\xc3\x28")
        .header("x-in", RAW)
        .header("x-other", "")
        .header("x-in", "second");
    let upstream = vm
        .exchange(request, Response::status(200))
        .upstream
        .unwrap();
    assert_eq!(
        upstream.headers,
        Headers::from([
            (":method", &b"GET"[..]),
            (":scheme", b"https"),
            (":authority", b"api.example"),
            (":path", b"/\xc3\x28"),
            ("x-in", RAW),
            ("x-other", b""),
            ("x-in", b"second"),
            ("x-out", RAW),
        ])
    );
}

#[test]
fn bodies_properties_and_shared_data_survive_as_bytes() {
    let (process, mut vm) = vm(r#"
        (func (export "proxy_on_request_body") (param i32 i32 i32) (result i32)
          (call $must (call $get_buffer (i32.const 0) (i32.const 0) (i32.const 99) (i32.const 0) (i32.const 4)))
          (call $must (call $set_shared <\ff\00key> (call $ptr) (call $len) (i32.const 0)))
          (call $must (call $get_shared <\ff\00key> (i32.const 0) (i32.const 4) (i32.const 8)))
          (call $must (call $set_property <seen> (call $ptr) (call $len)))
          (i32.const 0))
    "#);
    let exchange = vm.exchange(Request::post("/", RAW), Response::status(204));
    assert_eq!(exchange.filter_state[&b"seen"[..]], RAW);
    assert_eq!(process.shared_data().get(b"\xff\0key").unwrap().0, RAW);
    assert_eq!(exchange.upstream.unwrap().body, RAW);
}
