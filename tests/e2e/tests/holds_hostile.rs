//! Names of resources and idempotency keys that want to be something else: they are names, in no key, header or log as
//! they came.

use std::time::Duration;

use http::{HeaderMap, Method};
use tollgate_e2e::{Answer, Ask, Gateway, Redis, Setup, Webdis};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// In every name here, and in nothing else.
const MARK: &str = "evil";
const RULES: &str = "
identity: {tenant: {header: x-tenant-id}, key: {header: x-api-key-id}, default_tier: one}
tiers: {one: {tenant: 10000000/minute, key: 10000000/minute, leases: {heavy: 10}, quotas: {many: {requests: 200, per: 1h}}}}
penalty_box: {mode: off}
anonymous: {limit: 100000/minute}
routes:
- {name: header, match: {path: /header}, lock: {by: {header: x-ledger-id}}, lease: {kind: heavy}, quota: many,
   hold_on: [202], on_store_failure: closed}
- {name: query, match: {path: /query}, lock: {by: {query: ledger}}, on_store_failure: closed}
- {name: path, match: {path: '/path/{ledger}/x'}, lock: {by: {path: ledger}}, on_store_failure: closed}
- {name: json, match: {path: /json}, lock: {by: {json: /ledger}}, on_store_failure: closed}
- {name: pay, match: {path: /pay}, idempotency_key: required, on_store_failure: closed}
";

/// Names as they can stand in a header.
fn names() -> Vec<Vec<u8>> {
    let long = "evil".repeat(2_500);
    [
        &b"evil{t:other}"[..],
        b"}evil{",
        b"evil:box:key",
        b"evil *",
        b"evil\tx",
        b"../evil/%2e%2e",
        b"%00evil%0d%0a",
        b"\xff\xfeevil",
        b"caf\xc3\xa9 evil",
        b"evil' OR '1'='1",
        b"\"evil\\\"",
        b"$(evil)`evil`",
        b"evil\",redis.call('FLUSHALL'),\"",
        b"jane.evil@example.com",
        b"evil fence",
        long.as_bytes(),
    ]
    .map(<[u8]>::to_vec)
    .into()
}

fn from(ask: Ask, tenant: &[u8]) -> Ask {
    ask.header("x-tenant-id", tenant)
        .header("x-api-key-id", "key")
}

/// Every byte as `%XX`.
fn escaped(name: &[u8]) -> String {
    name.iter().map(|byte| format!("%{byte:02x}")).collect()
}

/// Every character as `\uXXXX`; bytes that are no text stay away.
fn json_escaped(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    text.encode_utf16()
        .map(|unit| format!("\\u{unit:04x}"))
        .collect()
}

fn is_plain(text: &str, also: &str) -> bool {
    text.chars()
        .all(|c| c.is_ascii_alphanumeric() || "_:{}.-".contains(c) || also.contains(c))
}

fn has_no_mark(text: &str) -> bool {
    !text.to_lowercase().contains(MARK)
}

/// What Tollgate tells the upstream is plain, whatever it was told.
fn are_plain(headers: &HeaderMap) {
    for (name, value) in headers {
        if name.as_str().starts_with("x-tollgate") {
            let text = value.to_str().unwrap();
            assert!(is_plain(text, " ") && has_no_mark(text), "{name}: {text}");
        }
    }
}

/// Sends them all, and gives how many were served.
async fn attack(gateway: &Gateway) -> usize {
    let mut asks = Vec::new();
    for name in names() {
        for tenant in [&b"acme"[..], b"evil {t:x}"] {
            let of = |ask| from(ask, tenant);
            let text = escaped(&name);
            asks.push(of(gateway.get("/header")).header("x-ledger-id", &name));
            asks.push(of(gateway.get(&format!("/query?ledger={text}"))));
            asks.push(of(gateway.get(&format!("/path/{text}/x"))));
            let body = format!("{{\"ledger\": \"{}\"}}", json_escaped(&name));
            asks.push(of(gateway.request(Method::POST, "/json")).body(body));
            asks.push(of(gateway.request(Method::POST, "/pay")).header("idempotency-key", &name));
            // A lock needs no tenant.
            asks.push(gateway.get("/header").header("x-ledger-id", &name));
        }
    }
    for name in [
        "\\u0000evil",
        "evil\\r\\nx: y",
        "evil\\ud800",
        "\\u202eevil",
    ] {
        let body = format!("{{\"ledger\": \"{name}\"}}");
        asks.push(from(gateway.request(Method::POST, "/json"), b"acme").body(body));
    }
    for name in [
        "%00evil",
        "evil%0d%0ax:%20y",
        "%ff%feevil",
        "evil%",
        "evil%zz",
    ] {
        asks.push(from(gateway.get(&format!("/query?ledger={name}")), b"acme"));
        asks.push(from(gateway.get(&format!("/path/{name}/x")), b"acme"));
    }
    let mut served = 0;
    for ask in asks {
        let what = format!("{ask:?}");
        let reply = ask.send().await;
        match reply.status {
            200 => served += 1,
            400 => {
                let detail = String::from_utf8_lossy(&reply.body).to_lowercase();
                // Envoy's own refusals have no body; `instance` is the path, as the client wrote it.
                let problem: serde_json::Value = match serde_json::from_str(&detail) {
                    Ok(problem) => problem,
                    Err(_) => continue,
                };
                let detail = problem["detail"].as_str().unwrap_or_default();
                assert!(has_no_mark(detail), "{what}: {detail}");
            }
            // What Envoy refuses by itself: 10 KB, escaped, in a path.
            414 | 431 => {}
            status => panic!("{status} for {what}: {reply:?}"),
        }
        for (name, value) in &reply.headers {
            let value = String::from_utf8_lossy(value.as_bytes());
            assert!(has_no_mark(&value), "{name}: {value}");
        }
    }
    for received in gateway.upstream().requests() {
        are_plain(&received.headers);
    }
    served
}

/// Bytes that no HTTP library sends.
async fn raw_bytes(gateway: &Gateway) {
    for (line, name) in [
        ("GET /header", "x-ledger-id: evil\0x"),
        ("GET /header", "x-ledger-id: evil\x01x"),
        ("GET /header", "x-ledger-id: evil\rx-tollgate-lease: y"),
        ("POST /pay", "idempotency-key: evil\0"),
        ("POST /pay", "idempotency-key: \x7fevil"),
        ("GET /query?ledger=evil\0", "x-a: b"),
    ] {
        let mut raw = gateway.raw().await;
        raw.send(format!(
            "{line} HTTP/1.1\r\nhost: a\r\nx-tenant-id: acme\r\nx-api-key-id: key\r\nconnection: close\r\n{name}\r\n\r\n"
        ))
        .await;
        let reply = raw.receive(Duration::from_secs(5)).await;
        let status = reply.get(9..12).unwrap_or(b"---");
        assert!(
            reply.is_empty() || matches!(status, b"200" | b"400"),
            "{name:?}: {}",
            String::from_utf8_lossy(&reply)
        );
    }
}

async fn is_unharmed(gateway: &Gateway) {
    for received in gateway.upstream().requests() {
        are_plain(&received.headers);
    }
    let logs = gateway.logs();
    assert!(has_no_mark(&logs), "{logs}");
    let stats = gateway.stats().await;
    for sample in stats.starting("tollgate_") {
        assert!(has_no_mark(&sample.to_string()), "{sample}");
    }
    assert_eq!(stats.sum("tollgate_degraded_total", &[]), 0.0);
    assert!(gateway.traps().is_empty(), "{:?}", gateway.traps());
    assert_eq!(gateway.vm_reloads().await, 0);
    let well = from(gateway.get("/header"), b"acme").header("x-ledger-id", "ledger-7");
    assert_eq!(well.send().await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_are_never_raw_in_redis() -> Outcome {
    let redis = Redis::start().await;
    let webdis = Webdis::start(&redis).await;
    // Whatever the filter can log, it logs.
    let config = format!("store: {{kind: redis, upstream: redis-front, timeout: 5s}}{RULES}");
    let setup = Setup::new(config.as_str())
        .front(webdis.address())
        .waits_for_bodies()
        .log_level("debug");
    let gateway = Gateway::start(setup).await?;
    gateway.upstream().always(Answer::ok());
    let served = attack(&gateway).await;
    assert!(served >= 100, "only {served} were served");
    raw_bytes(&gateway).await;
    is_unharmed(&gateway).await;

    let keys = redis.keys().await;
    let locks = keys.iter().filter(|key| key.name.starts_with("lk:"));
    assert!(locks.count() >= 20, "{keys:#?}");
    for key in &keys {
        assert!(
            is_plain(&key.name, "/") && has_no_mark(&key.name),
            "{key:?}"
        );
        assert!(key.name.len() < 150, "{key:?}");
        assert!(key.ttl.is_some(), "{key:?}");
        let fields: Vec<String> = match key.kind.as_str() {
            "hash" => redis.ask(&["HGETALL", &key.name]).await?,
            "zset" => redis.ask(&["ZRANGE", &key.name, "0", "-1"]).await?,
            other => panic!("{} is a {other}", key.name),
        };
        for field in fields {
            assert!(
                is_plain(&field, "/ ") && has_no_mark(&field),
                "{key:?}: {field}"
            );
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_do_no_harm_to_the_local_store() -> Outcome {
    let setup = Setup::new(RULES).waits_for_bodies().log_level("debug");
    let gateway = Gateway::start(setup).await?;
    gateway.upstream().always(Answer::ok());
    let served = attack(&gateway).await;
    assert!(served >= 100, "only {served} were served");
    raw_bytes(&gateway).await;
    is_unharmed(&gateway).await;
    Ok(())
}
