//! What the guest can learn of the world: environment, time, chance; and what it costs.

use std::time::Duration;

use tollgate_host::{LogLevel, Options, Request, Response, imports};

use crate::guest::{build, configured, process, vm};

const LOOKS: &str = r#"
    (func (export "proxy_on_configure") (param i32 i32) (result i32)
      (call $must (call $environ_sizes (i32.const 8) (i32.const 12)))
      (call $must (call $environ (i32.const 16) (i32.const 128)))
      (call $must (call $set_shared <env> (i32.load (i32.const 16)) (i32.load (i32.const 12)) (i32.const 0)))
      (call $must (call $set_shared <count> (i32.const 8) (i32.const 4) (i32.const 0)))
      (i32.const 1))
    (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
      (call $must (call $now (i32.const 8)))
      (call $must (call $clock (i32.const 0) (i64.const 0) (i32.const 16)))
      (call $must (call $set_property <times> (i32.const 8) (i32.const 16)))
      (call $must (call $random (i32.const 8) (i32.const 13)))
      (call $must (call $set_property <random> (i32.const 8) (i32.const 13)))
      (i32.const 0))
"#;

#[test]
fn environment_and_virtual_time_are_served() {
    let options = Options::new().env("A", "1").env("PATH_B", "x=y");
    let process = process(LOOKS, options);
    let mut vm = configured(&process);
    let env = process.shared_data().get(b"env").unwrap().0;
    assert_eq!(env, b"A=1\0PATH_B=x=y\0");
    assert_eq!(process.shared_data().get(b"count").unwrap().0, [2, 0, 0, 0]);
    process.set_now(1_000);
    process.advance(Duration::from_millis(2));
    let exchange = vm.exchange(Request::get("/"), Response::status(200));
    let twice = [2_001_000_u64.to_le_bytes(); 2].concat();
    assert_eq!(exchange.filter_state[&b"times"[..]], twice);
}

#[test]
fn chance_is_repeatable_and_differs_between_vms_and_seeds() {
    let draw = |seed| {
        let process = process(LOOKS, Options::new().seed(seed));
        let (mut a, mut b) = (configured(&process), configured(&process));
        [&mut a, &mut b].map(|vm| {
            let exchange = vm.exchange(Request::get("/"), Response::status(200));
            exchange.filter_state[&b"random"[..]].clone()
        })
    };
    let [a, b] = draw(7);
    assert_eq!([a.clone(), b.clone()], draw(7));
    assert_ne!(a, b);
    assert_ne!(a, draw(8)[0]);
}

#[test]
fn fuel_is_counted_where_asked_and_equal_requests_cost_the_same() {
    let process = process(LOOKS, Options::new().metered());
    let mut vm = configured(&process);
    let mut cost = || {
        let before = vm.fuel_used().unwrap();
        vm.exchange(Request::get("/"), Response::status(200));
        vm.fuel_used().unwrap() - before
    };
    let first = cost();
    assert!(first > 0);
    assert_eq!(cost(), first);
    assert_eq!(crate::guest::vm(LOOKS).1.fuel_used(), None);
}

#[test]
fn standard_output_is_logged_and_levels_below_the_hosts_are_dropped() {
    let (_, mut vm) = vm(r#"
        (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
          (call $must (call $log (i32.const 1) <quiet>))
          (i32.store (i32.const 0) (i32.const 1024))
          (i32.store (i32.const 4) (i32.const 5))
          (call $must (call $fd_write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 8)))
          (i32.const 0))
    "#);
    vm.request(Request::get("/")).unwrap();
    let logs = vm.take_logs();
    assert_eq!(logs.len(), 1);
    assert_eq!(
        (logs[0].level, logs[0].message.as_str()),
        (LogLevel::Error, "quiet")
    );
}

#[test]
fn what_is_not_served_is_a_stub_that_is_told_about() {
    let wasm = r#"
        (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
          (call $note <stub> (call $get_status (i32.const 0) (i32.const 4) (i32.const 8)))
          (i32.const 0))
    "#;
    let (process, mut vm) = vm(wasm);
    let stub = ("env".to_owned(), "proxy_get_status".to_owned());
    assert_eq!(process.unserved(), std::slice::from_ref(&stub));
    assert!(vm.unserved_calls().is_empty());
    let exchange = vm.exchange(Request::get("/"), Response::status(200));
    assert_eq!(exchange.state("stub").as_deref(), Some("m"));
    assert!(vm.unserved_calls().contains(&stub));
    assert!(imports(&build(wasm)).contains(&stub));
}
