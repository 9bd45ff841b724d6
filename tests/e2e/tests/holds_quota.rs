//! A quota holds in every stretch of its length, and an idempotency key is in flight once.

use std::time::{Duration, Instant};

use tollgate_e2e::{Answer, Ask, Gate, Gateway, Redis, Reply, Setup, Webdis, eventually};

#[path = "holds/held.rs"]
mod held;

use held::is_free;

type Outcome = Result<(), Box<dyn std::error::Error>>;

const PER: Duration = Duration::from_secs(2);
const RULES: &str = "
identity: {tenant: {header: x-tenant-id}, key: {header: x-api-key-id}, tier: {header: x-tenant-tier}}
tiers: {one: {tenant: 10000000/minute, key: 10000000/minute, leases: {one: 1},
              quotas: {export: {requests: 3, per: 2s}, month: {requests: 2, per: 30d}}}}
penalty_box: {mode: off}
routes:
- {name: export, match: {path: /export}, quota: export, on_store_failure: closed}
- {name: month, match: {path: /month}, quota: month, lease: {kind: one}, on_store_failure: closed}
- {name: pay, match: {methods: [POST], path: /pay}, idempotency_key: required, on_store_failure: closed}
";
const REDIS: &str = "store: {kind: redis, upstream: redis-front, timeout: 5s}";
const SOON: Duration = Duration::from_millis(1_500);

/// The last part of a problem's type.
fn kind(reply: &Reply) -> String {
    let problem = reply.json();
    let kind = problem["type"].as_str().unwrap();
    kind.rsplit('/').next().unwrap().to_owned()
}

fn ask(gateway: &Gateway, tenant: &str, path: &str) -> Ask {
    gateway.get(path).identity(tenant, "key", "one")
}

async fn on_redis() -> Result<(Redis, Webdis, Gateway), Box<dyn std::error::Error>> {
    let redis = Redis::start().await;
    let webdis = Webdis::start(&redis).await;
    let config = format!("{REDIS}{RULES}");
    let setup = Setup::new(config.as_str()).front(webdis.address());
    let gateway = Gateway::start(setup.workers(2)).await?;
    gateway.upstream().always(Answer::ok());
    Ok((redis, webdis, gateway))
}

/// A client that asks all the time gets 3 in every 2 seconds: never more, and always that.
async fn three_in_any_two_seconds(gateway: &Gateway) {
    let begin = Instant::now();
    let mut granted: Vec<(Instant, Instant)> = Vec::new();
    let mut refused = 0;
    while begin.elapsed() < 2 * PER + Duration::from_millis(500) {
        let sent = Instant::now();
        let reply = ask(gateway, "acme", "/export").send().await;
        let done = Instant::now();
        if reply.status == 200 {
            granted.push((sent, done));
        } else {
            assert_eq!(
                (reply.status, kind(&reply).as_str()),
                (429, "quota-exceeded")
            );
            // Until one is free again, which is less than the whole stretch; a reply may add a little at random.
            let wait = reply.number("retry-after");
            assert!((1..=3).contains(&wait), "{wait}");
            assert_eq!(reply.json()["retry_after_seconds"], wait);
            refused += 1;
        }
        // Uneven, so that the places come free one by one.
        let pause = if granted.len() < 3 { 350 } else { 15 };
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    println!("{} granted, {refused} refused", granted.len());
    assert!(granted.len() >= 6, "{granted:?}");
    assert!(refused > 20, "{refused}");
    for four in granted.windows(4) {
        // The store tells whole milliseconds.
        let apart = four[3].1 - four[0].0;
        assert!(
            apart + Duration::from_millis(1) >= PER,
            "four within {apart:?}"
        );
    }
    // Nobody else has a part in it, and neither has another kind.
    for (tenant, path) in [("other", "/export"), ("acme", "/month")] {
        assert_eq!(ask(gateway, tenant, path).send().await.status, 200);
    }
    assert!(gateway.traps().is_empty(), "{:?}", gateway.traps());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_slides_on_redis() -> Outcome {
    let (redis, _webdis, gateway) = on_redis().await?;
    three_in_any_two_seconds(&gateway).await;
    for key in redis.keys().await {
        assert!(key.ttl.is_some(), "{key:?}");
    }
    let kind: String = redis.ask(&["TYPE", "qt:{t:acme}:export"]).await?;
    assert_eq!(kind, "zset");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_slides_on_the_local_store() -> Outcome {
    let gateway = Gateway::start(Setup::new(RULES).workers(2)).await?;
    gateway.upstream().always(Answer::ok());
    three_in_any_two_seconds(&gateway).await;
    Ok(())
}

/// Spent when it is granted: not by a refusal, and not given back when the client leaves.
async fn is_spent_when_granted(gateway: &Gateway) {
    let upstream = gateway.upstream();
    let gate = Gate::closed();
    upstream.always(Answer::ok().behind(&gate));
    upstream.forget();
    let month = || ask(gateway, "monthly", "/month");
    let in_flight = async {
        upstream.received(1).await;
        for _ in 0..5 {
            let refused = month().send().await;
            assert_eq!(kind(&refused), "concurrency-limit-exceeded");
        }
    };
    month().leave_when(in_flight).await.unwrap();
    gate.open();
    // The lease of the first is let go, and the second place of the quota is still there: the last.
    eventually("the second", SOON, async || {
        (month().send().await.status == 200).then_some(())
    })
    .await;
    let refused = eventually("no place is left", SOON, async || {
        let reply = month().send().await;
        assert_eq!(reply.status, 429);
        (kind(&reply) == "quota-exceeded").then_some(reply)
    })
    .await;
    let wait = refused.number("retry-after");
    assert!((29 * 86_400..=33 * 86_400).contains(&wait), "{wait}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_is_spent_when_it_is_granted() -> Outcome {
    let (_redis, _webdis, gateway) = on_redis().await?;
    is_spent_when_granted(&gateway).await;
    let local = Gateway::start(Setup::new(RULES).workers(2)).await?;
    is_spent_when_granted(&local).await;
    Ok(())
}

/// One key, sent while the first request with it is at work.
async fn is_in_flight_once(gateway: &Gateway) {
    let upstream = gateway.upstream();
    let gate = Gate::closed();
    upstream.always(Answer::ok().behind(&gate));
    let pay = |tenant: &str, key: &str, idempotency: &str| {
        gateway
            .post("/pay")
            .identity(tenant, key, "one")
            .header("idempotency-key", idempotency)
    };
    for round in 0..3 {
        // One of its own each time: the last answer of a round is there before its key is free.
        let order = format!("order-{round}");
        let order = order.as_str();
        upstream.forget();
        gate.close();
        let first = tokio::spawn(pay("acme", "key", order).send());
        upstream.received(1).await;
        for again in [
            pay("acme", "key", order),
            pay("acme", "key", &format!("\"{order}\"")),
            // It is the tenant's, whichever API key sends it.
            pay("acme", "other-key", order),
            pay("acme", "key", order).http2(),
        ] {
            let refused = again.send().await;
            assert_eq!(refused.status, 409, "{round}: {refused:?}");
            assert_eq!(kind(&refused), "idempotency-key-in-use");
            assert_eq!(refused.header("retry-after"), Some("1"));
            assert_eq!(refused.json()["retry_after_seconds"], 1);
        }
        // Others are not in its way.
        let others = [pay("other", "key", order), pay("acme", "key", "another")];
        let others = others.map(|other| tokio::spawn(other.send()));
        upstream.received(3).await;
        gate.open();
        assert_eq!(first.await.unwrap().status, 200);
        for other in others {
            assert_eq!(other.await.unwrap().status, 200);
        }
        // It is free at the latest a moment after the first one's end.
        eventually("it is free", SOON, async || {
            let reply = pay("acme", "key", order).send().await;
            (reply.status == 200).then_some(())
        })
        .await;
    }
    // Also when the client of the first has left.
    upstream.forget();
    gate.close();
    let in_flight = async { drop(upstream.received(1).await) };
    let first = pay("acme", "key", "order-17");
    first.leave_when(in_flight).await.unwrap();
    gate.open();
    eventually("it is free", SOON, async || {
        let reply = pay("acme", "key", "order-17").send().await;
        (reply.status == 200).then_some(())
    })
    .await;
    let stats = gateway.stats().await;
    assert!(stats.sum("tollgate_requests_total", &[("verdict", "idempotency")]) >= 12.0);
    assert!(gateway.traps().is_empty(), "{:?}", gateway.traps());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idempotency_key_is_in_flight_once_on_redis() -> Outcome {
    let (redis, _webdis, gateway) = on_redis().await?;
    is_in_flight_once(&gateway).await;
    is_free(&redis, "ik:{t:acme}:order-17", SOON).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idempotency_key_is_in_flight_once_on_the_local_store() -> Outcome {
    let gateway = Gateway::start(Setup::new(RULES).workers(2)).await?;
    is_in_flight_once(&gateway).await;
    Ok(())
}
