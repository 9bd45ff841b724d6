//! Configurations: the first, an update, a refused one.

use tollgate_host::{Request, Response};

use crate::guest::vm;

/// Accepts a configuration of two bytes; leaves the current root's id in the filter state.
const CONFIGURED: &str = r#"
    (func (export "proxy_on_configure") (param i32) (param $size i32) (result i32)
      (call $must (call $get_buffer (i32.const 7) (i32.const 0) (local.get $size) (i32.const 0) (i32.const 4)))
      (call $must (call $log (i32.const 2) (call $ptr) (call $len)))
      (call $must (call $set_tick (i32.const 100)))
      (i32.eq (call $len) (i32.const 2)))
    (global $root (mut i32) (i32.const 0))
    (func (export "proxy_on_context_create") (param $id i32) (param $root i32)
      (if (local.get $root) (then (global.set $root (local.get $root)))))
    (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
      (call $note <root> (global.get $root))
      (call $note <config> (call $get_buffer (i32.const 7) (i32.const 0) (i32.const 9) (i32.const 0) (i32.const 4)))
      (i32.const 0))
    (func (export "proxy_on_tick") (param $id i32)
      (call $note_log (local.get $id)))
    (func $note_log (param $id i32)
      (i32.store8 (i32.const 500) (i32.add (local.get $id) (i32.const 97)))
      (call $must (call $log (i32.const 2) (i32.const 500) (i32.const 1)))
      ;; A root is no stream: it has no filter state to leave anything in.
      (if (i32.ne (call $set_property <x> <y>) (i32.const 1)) (then (unreachable))))
"#;

#[test]
fn an_update_is_a_new_root_and_a_refused_one_changes_nothing() {
    let (process, mut vm) = vm(CONFIGURED);
    assert_eq!(vm.take_logs()[0].message, "{}");
    let first = vm.root().unwrap();
    let old = vm.request(Request::get("/")).unwrap();
    assert_eq!(vm.configure(b"refused"), Ok(false));
    assert_eq!((vm.root(), vm.roots()), (Some(first), vec![first]));
    assert_eq!(vm.configure(b"v2"), Ok(true));
    let second = vm.root().unwrap();
    assert_eq!(vm.roots(), [first, second]);
    let exchange = vm.exchange(Request::get("/"), Response::status(200));
    let letter = |root: u32| char::from(b'a' + root as u8).to_string();
    assert_eq!(exchange.state("root"), Some(letter(second)));
    assert_eq!(exchange.state("config").as_deref(), Some("b"));
    // The old stream goes on, and both roots tick until the old one is retired.
    vm.respond(old, Response::status(200)).unwrap();
    assert!(vm.stream(old).ended());
    vm.take_logs();
    assert_eq!(vm.tick(), Ok(2));
    let ticks: Vec<String> = vm.take_logs().into_iter().map(|l| l.message).collect();
    assert_eq!(ticks, [letter(first), letter(second)]);
    vm.retire(first).unwrap();
    assert_eq!((vm.tick(), vm.roots()), (Ok(1), vec![second]));
    // A proxy tries a configuration on a VM of its own.
    assert_eq!(
        (process.accepts(b"v3"), process.accepts(b"bad")),
        (Ok(true), Ok(false))
    );
}
