//! What the VMs of a process share.

use tollgate_host::{MetricKind, Options, Process, Request, Response};

use crate::guest::{configured, process};

/// Adds 1 to a shared number per request, trying until its conditional write succeeds. A request with
/// `x-slow` reads at the request and writes at the response, once, and notes how that went.
const COUNTS: &str = r#"
    (func $read
      (call $must (call $get_shared <n> (i32.const 0) (i32.const 4) (i32.const 8)))
      (i64.store (i32.const 16) (i64.add (i64.load (call $ptr)) (i64.const 1))))
    (func $write (result i32)
      (call $set_shared <n> (i32.const 16) (i32.const 8) (i32.load (i32.const 8))))
    (global $slow (mut i32) (i32.const 0))
    (func (export "proxy_on_configure") (param i32 i32) (result i32)
      (call $must (call $define_metric (i32.const 0) <requests> (i32.const 24)))
      (i32.const 1))
    (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
      (call $must (call $increment_metric (i32.load (i32.const 24)) (i64.const 1)))
      (global.set $slow (i32.eqz (call $get_header (i32.const 0) <x-slow> (i32.const 0) (i32.const 4))))
      (call $read)
      (if (i32.eqz (global.get $slow)) (then
        (loop $again (if (call $write) (then (call $read) (br $again))))))
      (i32.const 0))
    (func (export "proxy_on_response_headers") (param i32 i32 i32) (result i32)
      (if (global.get $slow) (then (call $note <write> (call $write))))
      (i32.const 0))
"#;

fn counting() -> Process {
    let process = process(COUNTS, Options::new());
    process.shared_data().set(b"n", &[0; 8], 0).unwrap();
    process
}

fn count(process: &Process) -> u64 {
    let (value, _) = process.shared_data().get(b"n").unwrap();
    u64::from_le_bytes(value.try_into().unwrap())
}

#[test]
fn of_two_vms_that_read_the_same_only_one_writes() {
    let process = counting();
    let (mut first, mut second) = (configured(&process), configured(&process));
    let slow = || Request::get("/").header("x-slow", "");
    let a = first.request(slow()).unwrap();
    let b = second.request(slow()).unwrap();
    second.respond(b, Response::status(200)).unwrap();
    first.respond(a, Response::status(200)).unwrap();
    assert_eq!(second.stream(b).filter_state("write"), Some(&b"a"[..]));
    assert_eq!(first.stream(a).filter_state("write"), Some(&b"i"[..]));
    assert_eq!(
        (count(&process), process.shared_data().mismatches()),
        (1, 1)
    );
}

#[test]
fn no_write_is_lost_between_vms_on_threads_of_their_own() {
    let process = counting();
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let mut vm = configured(&process);
            std::thread::spawn(move || {
                for _ in 0..500 {
                    let exchange = vm.exchange(Request::get("/"), Response::status(200));
                    assert_eq!(exchange.trapped, None);
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
    assert_eq!(count(&process), 1_000);
    let requests = process.metric("requests").unwrap();
    assert_eq!(
        (requests.kind, requests.value),
        (MetricKind::Counter, 1_000)
    );
}

#[test]
fn a_guest_can_be_made_to_lose_races() {
    let process = counting();
    let mut vm = configured(&process);
    process.shared_data().lose_next(3);
    vm.exchange(Request::get("/"), Response::status(200));
    assert_eq!(
        (count(&process), process.shared_data().mismatches()),
        (1, 3)
    );
}

#[test]
fn a_queue_of_one_name_wakes_its_last_registrant_only() {
    let process = process(
        r#"
        (func (export "proxy_on_configure") (param i32 i32) (result i32)
          (call $must (call $register <q> (i32.const 8))) (i32.const 1))
        (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
          (call $must (call $enqueue (i32.load (i32.const 8)) <item>)) (i32.const 0))
        (func (export "proxy_on_queue_ready") (param i32) (param $queue i32)
          (call $must (call $dequeue (local.get $queue) (i32.const 0) (i32.const 4)))
          (call $must (call $log (i32.const 2) (call $ptr) (call $len))))
        "#,
        Options::new(),
    );
    let (mut first, mut second) = (configured(&process), configured(&process));
    first.request(Request::get("/")).unwrap();
    assert_eq!((first.deliver(), second.deliver()), (Ok(0), Ok(1)));
    assert_eq!(second.take_logs()[0].message, "item");
}
