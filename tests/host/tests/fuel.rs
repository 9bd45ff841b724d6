//! What a request costs the proxy, in instructions of the guest (wasmi's fuel): a guard against
//! changes that make it dearer without anybody noticing.
//!
//! The same filter takes the same fuel on every machine and in every run, but what another compiler
//! makes of the same source takes another. So `fuel.json` names the compiler for which its figures
//! hold, and under another one they are shown and not compared (the number of routes still is). A
//! figure that is left by more than the margin, either way, is to be looked at and then recorded, as
//! is everything once there is a new compiler:
//!
//!     TOLLGATE_UPDATE_FUEL=1 cargo test -p tollgate-host --test fuel

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::json;
use tollgate_host::{Options, Process, Request, Response, Vm, filter_wasm};

/// A figure may grow by this many percent of what is recorded.
const DEARER: u64 = 10;
/// It may shrink by this many; beyond, the gain is to be recorded so that it is not lost again.
const CHEAPER: u64 = 25;
/// Each story is measured so often, and the least counts: a table that grows is no request's cost.
const TIMES: u32 = 5;

type Figures = BTreeMap<String, u64>;

/// What is committed.
#[derive(Serialize, Deserialize)]
struct Record {
    compiler: String,
    fuel: Figures,
}

/// A filter that has a configuration, and counts.
struct Meter {
    vm: Vm,
    // Dropped after its VM.
    _process: Process,
}

impl Meter {
    fn new(wasm: &[u8], config: &serde_json::Value) -> Self {
        let process = Process::with(wasm, Options::new().metered()).unwrap();
        let mut vm = process.vm().unwrap();
        let accepted = vm.configure(config.to_string().as_bytes()).unwrap();
        assert!(accepted, "{:?}", vm.take_logs());
        Self {
            vm,
            _process: process,
        }
    }

    /// Plays a request to its end: its verdict, and the fuel it took.
    fn play(&mut self, request: Request) -> (String, u64) {
        let before = self.vm.fuel_used().unwrap();
        let response = Response::status(200).header("content-type", "application/json");
        let exchange = self.vm.exchange(request, response);
        assert_eq!(exchange.trapped, None);
        let verdict = exchange.state("tollgate_verdict").unwrap();
        (verdict, self.vm.fuel_used().unwrap() - before)
    }

    /// Plays it until its verdict is this one.
    fn until(mut self, verdict: &str, request: impl Fn() -> Request) -> Self {
        let comes = (0..1000).any(|_| self.play(request()).0 == verdict);
        assert!(comes, "it is never {verdict}");
        self
    }

    /// The least fuel of several requests that all have this verdict.
    fn least(&mut self, verdict: &str, request: impl Fn(u32) -> Request) -> u64 {
        let one = |time| {
            let (found, fuel) = self.play(request(time));
            assert_eq!(found, verdict);
            fuel
        };
        (0..TIMES).map(one).min().unwrap()
    }
}

/// Limits that one key meets within a few requests, or never.
fn config(ip_limit: bool, routes: usize) -> serde_json::Value {
    let tier = |burst: u64, strikes: u64| {
        json!({
            "tenant": {"points": 60_000, "per": "60s", "burst": 60_000},
            "key": {"points": burst, "per": "60s", "burst": burst},
            "penalty": {"strikes": strikes, "within": "60s"},
        })
    };
    let route = |number: usize| {
        json!({
            "name": format!("route-{number}"),
            "match": {"methods": ["GET"], "path": format!("/v1/r{number:04}/{{id}}/entries")},
            "cost": 2,
        })
    };
    let mut config = json!({
        "identity": {
            "tenant": {"header": "x-tenant-id"},
            "key": {"header": "x-api-key-id"},
            "tier": {"header": "x-tenant-tier"},
        },
        "exempt": ["/healthz"],
        "anonymous": {"limit": "6000/minute"},
        "tiers": {"wide": tier(6000, 20), "narrow": tier(30, 1000), "strict": tier(30, 1)},
        "routes": (0..routes).map(route).collect::<Vec<_>>(),
        "store": {"memory": "1MiB"},
    });
    if ip_limit {
        config["ip_limit"] = json!("6000/minute");
    }
    config
}

/// What a client library sends.
fn request(path: &str) -> Request {
    Request::get(path)
        .header("user-agent", "acme-client/4.2 (linux; x86_64)")
        .header("accept", "application/json")
        .header("accept-encoding", "gzip, br")
        .header(
            "authorization",
            "Bearer eyJhbGciOiJFUzI1NiJ9.e30.c2lnbmF0dXJl",
        )
        .header("x-request-id", "0b5e7d1c-8a3c-4f2e-9d57-1f0a5c2b6e11")
        .header("x-forwarded-for", "203.0.113.9")
        .header("x-forwarded-proto", "https")
}

fn of_key(path: &str, key: &str, tier: &str) -> Request {
    request(path)
        .header("x-tenant-id", "acme")
        .header("x-api-key-id", key)
        .header("x-tenant-tier", tier)
}

fn measure(wasm: &[u8]) -> Figures {
    const ROUTE: &str = "/v1/r0001/7/entries";
    let usual = config(false, 3);
    let mut figures = Figures::new();
    let mut put = |story: &str, fuel: u64| {
        figures.insert(story.to_owned(), fuel);
    };
    let warm = |_| of_key(ROUTE, "key-1", "wide");

    let mut meter = Meter::new(wasm, &usual).until("allowed", || warm(0));
    put("allowed, warm key", meter.least("allowed", warm));
    put(
        "allowed, first request of a key",
        meter.least("allowed", |time| {
            of_key(ROUTE, &format!("key-{}", time + 2), "wide")
        }),
    );
    put("anonymous", meter.least("allowed", |_| request(ROUTE)));
    put("exempt", meter.least("exempt", |_| request("/healthz")));
    for key in 0..60 {
        meter.play(of_key(ROUTE, &format!("another-key-{key}"), "wide"));
    }
    put(
        "allowed, warm key of a tenant of 60",
        meter.least("allowed", warm),
    );

    let narrow = || of_key(ROUTE, "key-1", "narrow");
    let mut meter = Meter::new(wasm, &usual).until("throttled", narrow);
    put("throttled", meter.least("throttled", |_| narrow()));

    let strict = || of_key(ROUTE, "key-1", "strict");
    let mut meter = Meter::new(wasm, &usual).until("boxed", strict);
    put("boxed", meter.least("boxed", |_| strict()));

    let mut meter = Meter::new(wasm, &config(true, 3)).until("allowed", || warm(0));
    put(
        "allowed, warm key, with ip_limit",
        meter.least("allowed", warm),
    );

    let mut meter = Meter::new(wasm, &config(false, 1000)).until("allowed", || warm(0));
    put(
        "allowed, warm key, 1000 routes",
        meter.least("allowed", |_| {
            of_key("/v1/r0998/7/entries", "key-1", "wide")
        }),
    );
    figures
}

/// The compiler that built the filter, as its `producers` section has it.
fn compiler(wasm: &[u8]) -> String {
    let name = b"\x05rustc";
    let at = wasm.windows(name.len()).position(|bytes| bytes == name);
    let rest = at.map_or(&[][..], |at| &wasm[at + name.len()..]);
    let version = rest
        .split_first()
        .and_then(|(length, rest)| rest.get(..usize::from(*length)));
    String::from_utf8_lossy(version.unwrap_or(b"unknown")).into_owned()
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuel.json")
}

#[test]
fn a_request_costs_what_is_recorded() {
    let wasm = filter_wasm();
    let now = measure(&wasm);
    for (story, fuel) in &now {
        println!("{fuel:>9}  {story}");
    }
    let (few, many) = (
        now["allowed, warm key"],
        now["allowed, warm key, 1000 routes"],
    );
    assert!(
        many.abs_diff(few) * 10 <= few,
        "the number of routes matters: {few} with 3, {many} with 1000"
    );
    if std::env::var_os("TOLLGATE_UPDATE_FUEL").is_some() {
        let record = Record {
            compiler: compiler(&wasm),
            fuel: now,
        };
        let text = serde_json::to_string_pretty(&record).unwrap();
        std::fs::write(file(), text + "\n").unwrap();
        return;
    }
    let text = std::fs::read_to_string(file()).unwrap();
    let record: Record = serde_json::from_str(&text).unwrap();
    let (theirs, ours) = (record.compiler, compiler(&wasm));
    if theirs != ours {
        println!("not compared: recorded for rustc {theirs}, and the filter is of rustc {ours}");
        return;
    }
    let recorded = record.fuel;
    let mut faults = String::new();
    for (story, fuel) in &now {
        let Some(before) = recorded.get(story) else {
            let _ = writeln!(faults, "  {story}: {fuel}, nothing is recorded");
            continue;
        };
        let (most, least) = (before * (100 + DEARER), before * (100 - CHEAPER));
        if !(least..=most).contains(&(fuel * 100)) {
            let percent = (*fuel as f64 / *before as f64 - 1.0) * 100.0;
            let _ = writeln!(faults, "  {story}: {before} -> {fuel} ({percent:+.1} %)");
        }
    }
    for story in recorded.keys().filter(|story| !now.contains_key(*story)) {
        let _ = writeln!(faults, "  {story}: recorded, but not measured");
    }
    assert!(
        faults.is_empty(),
        "the fuel of a request has left its margin (+{DEARER} %, -{CHEAPER} %):\n{faults}\
         If that is meant, record it: TOLLGATE_UPDATE_FUEL=1 cargo test -p tollgate-host --test fuel"
    );
}

#[test]
fn fuel_is_the_same_every_time() {
    let wasm = filter_wasm();
    let once = || {
        let mut meter = Meter::new(&wasm, &config(true, 3));
        let request = || of_key("/v1/r0001/7/entries", "key-1", "narrow");
        (0..40).map(|_| meter.play(request())).collect::<Vec<_>>()
    };
    assert_eq!(once(), once());
}
