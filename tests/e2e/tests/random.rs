//! Random requests through a real Envoy: whatever bytes clients send, at whatever pace, its VMs live on
//! and every answer is one that the documentation knows.
//!
//! The same requests every time; `TOLLGATE_E2E_REQUESTS` says how many.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

use tokio::task::JoinSet;
use tollgate_e2e::{Gateway, Setup};

#[path = "../../host/tests/random/dice.rs"]
mod dice;
#[path = "../../host/tests/random/legal.rs"]
mod legal;
#[path = "../../host/tests/random/requests.rs"]
#[allow(dead_code, reason = "the host plays more of it")]
mod requests;
#[path = "random/wire.rs"]
mod wire;

use dice::Dice;
use legal::Answer;
use requests::{Alphabet, Asked};
use wire::{Connection, MARK, Reply};

const DEFAULT_REQUESTS: usize = 100_000;
const CLIENTS: usize = 32;

/// Limits that a run of some seconds meets, but not with every request.
const CONFIG: &str = r#"
store: {memory: 64KiB}
identity:
  tenant: {header: x-tenant-id}
  key: {header: x-api-key-id}
  tier: {header: x-tenant-tier}
  default_tier: sandbox
ip_limit: {points: 600000, per: 60s, burst: 600000}
anonymous: {limit: {points: 12000, per: 60s, burst: 1000}}
exempt: [/healthz, /docs/*]
tiers:
  sandbox: {tenant: 12000/minute, key: {points: 6000, per: 60s, burst: 100}, penalty: {strikes: 5}}
  growth: {tenant: 600000/minute, key: 600000/minute}
  slow: {tenant: 20/hour, key: 20/hour}
penalty_box: {level_1: 1s, level_2: 2s, level_3: 3s}
routes:
  - {name: reconcile, match: {methods: [POST], path: /v1/ledgers/reconcile}, cost: 10, idempotency_key: required}
  - {name: entries, match: {methods: [GET], path: "/v1/ledgers/{id}/entries"}, cost: 2}
  - name: export
    match: {methods: [GET], path: /v1/reports/audit-export}
    cost: {base: 5, when_range: {from: from, to: to, longer_than: 90d, cost: 20}}
  - {name: search, match: {methods: [GET, POST], path: /v1/search}, cost: 5, mode: shadow}
  - {name: mutations, match: {methods: [POST, PUT, DELETE], path: /v1/*}, idempotency_key: required}
headers: {dialect: both, retry_after_date_from: 1h}
problem: {type_base: "https://e.example/errors/"}
"#;

const UPSTREAM: &[u8] = b"HTTP/1.1 200 OK\r\nx-upstream: 1\r\nratelimit-limit: upstream\r\n\
    x-ratelimit-limit: upstream\r\ncontent-length: 2\r\n\r\n{}";

fn check(asked: &Asked, reply: &Reply) -> Result<(), String> {
    let fields = reply.fields.iter();
    let answer = Answer {
        status: reply.status,
        fields: fields.map(|(n, v)| (n.as_str(), v.as_slice())).collect(),
        body: &reply.body,
        dialect: "both",
        type_base: "https://e.example/errors/",
        date_from: Some(3600),
        head: asked.method == "HEAD",
        grpc: asked.is_grpc(),
    };
    if !reply.has(MARK) {
        return answer.check_refusal().map(drop);
    }
    if reply.status != 200 {
        return Err("the upstream saw what only the filter may say".to_owned());
    }
    // Exempt ones have none, and in shadow mode those that met no bucket.
    let target = String::from_utf8_lossy(&asked.target);
    let may_have_none = ["healthz", "docs", "search"]
        .iter()
        .any(|part| target.contains(part));
    if !may_have_none || reply.has("ratelimit-policy") {
        answer.check_passed(true)?;
    }
    Ok(())
}

/// Sends so many requests one after the other. (Envoy closes a connection after any 400, so that what
/// is sent ahead of its answer may be lost.)
async fn client(gateway: SocketAddr, number: usize, requests: usize) {
    let mut dice = Dice::new(number as u64);
    let from = Ipv4Addr::new(127, 0, 0, 10 + number as u8);
    let mut connection = Connection::open(from, gateway).await;
    let mut bytes = Vec::new();
    for request in 0..requests {
        let asked = Asked::random(&mut dice, Alphabet::Http);
        bytes.clear();
        wire::encode(&asked, &mut bytes);
        connection.send(&bytes).await;
        let reply = connection.reply(asked.method == "HEAD").await;
        let checked = reply.and_then(|reply| {
            check(&asked, &reply).map_err(|fault| format!("{fault}\n{reply:?}"))?;
            Ok(reply)
        });
        match checked {
            Ok(reply) if reply.closes() => connection = Connection::open(from, gateway).await,
            Ok(_) => {}
            Err(fault) => panic!("client {number}, request {request}: {fault}\n{asked:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_requests_never_break_it() -> Result<(), Box<dyn std::error::Error>> {
    let requests = std::env::var("TOLLGATE_E2E_REQUESTS")
        .map_or(DEFAULT_REQUESTS, |text| text.parse().unwrap());
    let each = requests / CLIENTS;
    let upstream = wire::upstream(UPSTREAM, b"\nx-tollgate-").await;
    let gateway = Gateway::start(Setup::new(CONFIG).workers(2).upstream(upstream)).await?;
    let started = Instant::now();
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        clients.spawn(client(gateway.address(), number, each));
    }
    clients.join_all().await;
    let took = started.elapsed();

    assert!(gateway.traps().is_empty(), "{:?}", gateway.traps());
    assert_eq!(gateway.vm_reloads().await, 0);
    let stats = gateway.stats().await;
    let name = "tollgate_requests_total";
    let verdicts = [
        "allowed",
        "throttled",
        "boxed",
        "idempotency",
        "invalid",
        "exempt",
    ];
    let counts = verdicts.map(|verdict| stats.sum(name, &[("verdict", verdict)]) as usize);
    println!("{requests} requests in {took:.1?}: {verdicts:?} {counts:?}");
    assert_eq!(counts.iter().sum::<usize>(), each * CLIENTS);
    // The requests are worth something only if everything happened to some of them.
    assert!(
        counts.iter().all(|count| *count > 0),
        "{verdicts:?} {counts:?}"
    );
    Ok(())
}
