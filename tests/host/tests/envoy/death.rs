//! A guest that dies is told about, and takes nothing else with it.

use tollgate_host::{LogLevel, Options, Process, Request, Response};

use crate::guest::{build, configured, process};

const DIES_ON_DELETE: &str = r#"
    (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
      (call $clear)
      (if (i32.eqz (call $get_header (i32.const 0) <x-die> (i32.const 0) (i32.const 4)))
        (then (call $must (i32.const 10))))
      (i32.const 0))
"#;

#[test]
fn a_trap_is_returned_with_its_function_and_last_words() {
    let process = process(DIES_ON_DELETE, Options::new());
    let (mut vm, mut other) = (configured(&process), configured(&process));
    let trap = vm
        .request(Request::get("/").header("x-die", "1"))
        .unwrap_err();
    assert_eq!(trap.function, "proxy_on_request_headers");
    assert!(trap.message.contains("unreachable"), "{trap}");
    let last = trap.logs.last().unwrap();
    assert_eq!(
        (last.level, last.message.as_str()),
        (LogLevel::Critical, "unexpected status")
    );
    // The VM stays dead, its neighbour does not notice.
    assert_eq!(vm.trap(), Some(&trap));
    assert_eq!(vm.request(Request::get("/")), Err(trap.clone()));
    assert_eq!(
        vm.exchange(Request::get("/"), Response::status(200))
            .trapped,
        Some(trap)
    );
    let healthy = other.exchange(Request::get("/"), Response::status(200));
    assert_eq!((healthy.status(), healthy.trapped), (Some(200), None));
}

#[test]
fn setting_a_response_header_in_the_request_phase_fails_as_on_envoy() {
    let process = process(
        r#"
        (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
          (call $must (call $set_header (i32.const 2) <x-early> <1>))
          (i32.const 0))
        "#,
        Options::new(),
    );
    let mut vm = configured(&process);
    let exchange = vm.exchange(Request::get("/"), Response::status(200));
    assert_eq!(
        exchange.trapped.unwrap().function,
        "proxy_on_request_headers"
    );
    assert_eq!((exchange.client, exchange.upstream), (None, None));
}

#[test]
fn an_address_outside_memory_is_an_error_and_not_the_hosts_death() {
    let process = process(
        r#"
        (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
          (call $note <read> (call $get_header (i32.const 0) (i32.const -1) (i32.const 9) (i32.const 0) (i32.const 4)))
          (call $note <write> (call $get_header (i32.const 0) <:path> (i32.const -4) (i32.const 4)))
          (call $note <map> (call $set_map (i32.const 0) (i32.const 1024) (i32.const 3)))
          (i32.const 0))
        "#,
        Options::new(),
    );
    let exchange = configured(&process).exchange(Request::get("/"), Response::status(200));
    assert_eq!(exchange.state("read").as_deref(), Some("g"));
    assert_eq!(exchange.state("write").as_deref(), Some("g"));
    assert_eq!(exchange.state("map").as_deref(), Some("c"));
}

#[test]
fn a_module_of_no_known_abi_is_refused() {
    assert!(Process::new(b"\0asm\x01\0\0\0").is_err());
    assert!(Process::new(b"nonsense").is_err());
    assert!(Process::new(&build("")).is_ok());
}
