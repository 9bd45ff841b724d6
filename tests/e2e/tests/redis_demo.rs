//! What `make run-redis` starts works on Redis, keeps what it says on the terminal, and leaves nothing running. Owns
//! envoy/redis.yaml and scripts/run-redis.sh.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tollgate_e2e::{Ask, Demo, eventually};

/// A command through the demo's Webdis.
async fn redis(webdis: SocketAddr, command: &str) -> Value {
    let path = command.replace('{', "%7B").replace('}', "%7D");
    Ask::new(webdis, Method::GET, &path).send().await.json()
}

#[tokio::test]
async fn the_demo_on_redis_keeps_its_promises() {
    let (demo, [redis_at, webdis]) = Demo::start_with_redis().await;
    let ask = |path, tenant, tier| demo.ask(Method::GET, path, tenant, tier);

    let allowed = ask("/v1/ledgers", "acme", "growth").await;
    assert_eq!(
        (allowed.status, allowed.number("ratelimit-remaining")),
        (200, 1499)
    );
    let kind = redis(webdis, "/TYPE/rl:{t:acme}:tb:key-1").await;
    assert_eq!(kind["TYPE"], json!([true, "hash"]));
    let left = redis(webdis, "/PTTL/rl:{t:acme}:tb:key-1").await;
    assert!(left["PTTL"].as_i64().is_some_and(|ttl| ttl > 0), "{left}");

    // Boxed, and released by hand.
    let export = "/v1/reports/audit-export";
    let boxed = || async {
        let reply = ask(export, "deaf", "sandbox").await;
        reply.header("x-penalty-box-status") == Some("Active-Lockout")
    };
    eventually("a box", Duration::from_secs(20), async || {
        boxed().await.then_some(())
    })
    .await;
    let gone = redis(webdis, "/DEL/pb:{t:deaf}:box:key-1").await;
    assert_eq!(gone["DEL"], 1);
    eventually("the release", Duration::from_secs(12), async || {
        (!boxed().await).then_some(())
    })
    .await;

    let metrics = Ask::new(demo.admin, Method::GET, "/stats/prometheus")
        .send()
        .await
        .text();
    assert!(!metrics.contains("tollgate_degraded_total"), "{metrics}");

    let everything = [demo.port, demo.admin, redis_at, webdis];
    for address in everything {
        assert!(TcpStream::connect(address).is_ok(), "{address}");
    }
    drop(demo);
    for address in everything {
        assert!(TcpStream::connect(address).is_err(), "{address} is left");
    }
}
