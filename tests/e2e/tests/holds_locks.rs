//! A lock has one holder at any time, over all workers and gateways, and its fences only grow.

use std::sync::Mutex;
use std::time::Duration;

use tollgate_e2e::{
    Answer, Ask, Dice, Gateway, Redis, Setup, Webdis, Work, Workshop, allow_many_files,
};

#[path = "holds/crowd.rs"]
mod crowd;
#[path = "holds/held.rs"]
mod held;

use crowd::{Crowd, Habits, crowd};
use held::{holders, is_free};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const CLIENTS: usize = 500;
const RULES: &str = "
identity: {tenant: {header: x-tenant-id}, key: {header: x-api-key-id}, tier: {header: x-tenant-tier}}
tiers: {one: {tenant: 10000000/minute, key: 10000000/minute}}
penalty_box: {mode: off}
routes: [{name: reconcile, match: {methods: [POST], path: /reconcile}, lock: {by: {header: x-ledger-id}, ttl: 15m},
          on_store_failure: closed}]
";
const REDIS: &str = "store: {kind: redis, upstream: redis-front, timeout: 5s}";
/// What is let go is free at once; the rest is what a busy machine may add.
const SOON: Duration = Duration::from_millis(1_500);

fn workshop() -> Workshop {
    let dice = Mutex::new(Dice::new(2));
    Workshop::open(move |received| {
        let takes = dice.lock().unwrap().millis(1..7);
        Work::on(received.header("x-ledger-id").unwrap(), takes)
    })
}

fn reconcile(gateway: &Gateway, tenant: &str, ledger: &str) -> Ask {
    gateway
        .post("/reconcile")
        .identity(tenant, "key", "one")
        .header("x-ledger-id", ledger)
}

/// 500 at once for one ledger, spread over these gateways, and a few for another.
async fn storm(gateways: &[&Gateway]) -> Crowd {
    allow_many_files();
    let asks = (0..CLIENTS).map(|client| {
        let ledger = if client % 10 == 9 {
            "ledger-8"
        } else {
            "ledger-7"
        };
        reconcile(gateways[client % gateways.len()], "acme", ledger)
    });
    let habits = Habits {
        attempts: 8,
        crash: 0,
        crash_within: 1,
    };
    crowd(asks.collect(), habits).await
}

fn fences(workshop: &Workshop, ledger: &str) -> Vec<u64> {
    let begun = workshop.worked(ledger).begun;
    let fence = |text: Option<String>| text.expect("a fence").parse().expect("a number");
    begun
        .iter()
        .map(|received| fence(received.header("x-tollgate-fence")))
        .collect()
}

fn grows(fences: &[u64]) -> bool {
    fences.windows(2).all(|two| two[0] < two[1])
}

async fn one_at_a_time(crowd: &Crowd, workshop: &Workshop, gateways: &[&Gateway]) {
    for ledger in ["ledger-7", "ledger-8"] {
        let worked = workshop.worked(ledger);
        println!(
            "{ledger}: {} began, {} ended",
            worked.begun.len(),
            worked.done
        );
        assert_eq!(worked.most, 1, "at work on {ledger} at once");
        assert!(worked.done >= 10, "{ledger}: {crowd:?}");
        let fences = fences(workshop, ledger);
        assert!(grows(&fences), "{ledger}: {fences:?}");
    }
    println!("{crowd:?}");
    let refused = crowd.refusals(409, "resource-locked");
    // Too many at once on a page of the local store: rare, and told apart.
    let contended = crowd.refusals(429, "rate-limit-exceeded");
    assert_eq!(
        refused + contended,
        crowd.refused.values().sum::<usize>(),
        "{crowd:?}"
    );
    assert!(refused >= 300 && contended * 20 <= refused, "{crowd:?}");
    assert_eq!(crowd.cut, 0);
    for gateway in gateways {
        let stats = gateway.stats().await;
        assert_eq!(stats.sum("tollgate_degraded_total", &[]), 0.0);
        assert!(stats.sum("tollgate_requests_total", &[("verdict", "lock")]) > 0.0);
        assert!(gateway.traps().is_empty(), "{:?}", gateway.traps());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_reconciles_on_two_workers() -> Outcome {
    let workshop = workshop();
    let setup = Setup::new(RULES).workers(2).upstream(workshop.address());
    let gateway = Gateway::start(setup).await?;
    let crowd = storm(&[&gateway]).await;
    workshop.is_still().await;
    tollgate_e2e::eventually("the lock is free", SOON, async || {
        let reply = reconcile(&gateway, "acme", "ledger-7").send().await;
        (reply.status == 200).then_some(())
    })
    .await;
    one_at_a_time(&crowd, &workshop, &[&gateway]).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_reconciles_on_two_gateways() -> Outcome {
    let redis = Redis::start().await;
    let webdis = Webdis::start(&redis).await;
    let workshop = workshop();
    let config = format!("{REDIS}{RULES}");
    // The clocks of gateways are none of a fence's business.
    let setup = |ahead| {
        Setup::new(config.as_str())
            .front(webdis.address())
            .upstream(workshop.address())
            .clock_ahead(ahead)
    };
    let here = Gateway::start(setup(0)).await?;
    let there = Gateway::start(setup(-300)).await?;
    let crowd = storm(&[&here, &there]).await;
    workshop.is_still().await;
    for ledger in ["ledger-7", "ledger-8"] {
        let key = format!("lk:{{t:acme}}:{ledger}");
        is_free(&redis, &key, SOON).await;
        // The last fence outlives its holder.
        let last: u64 = redis.ask(&["HGET", &key, "fence"]).await?;
        assert_eq!(Some(&last), fences(&workshop, ledger).last());
    }
    one_at_a_time(&crowd, &workshop, &[&here, &there]).await;
    for key in redis.keys().await {
        assert!(key.ttl.is_some(), "{key:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fences_grow_through_everything_that_redis_forgets() -> Outcome {
    let redis = Redis::start().await;
    let webdis = Webdis::start(&redis).await;
    let workshop = workshop();
    let config = format!("{REDIS}{RULES}");
    let setup = Setup::new(config.as_str());
    let setup = setup.front(webdis.address()).upstream(workshop.address());
    let gateway = Gateway::start(setup).await?;
    for step in 0..6 {
        match step {
            0 | 3 => {}
            1 | 4 => {
                let () = redis.ask(&["FLUSHALL"]).await?;
            }
            2 => redis.forget_scripts().await,
            _ => redis.restart().await,
        }
        // A Redis that is back is found again within the breaker's time.
        tollgate_e2e::eventually("it passes", Duration::from_secs(10), async || {
            let reply = reconcile(&gateway, "acme", "ledger-7").send().await;
            (reply.status == 200).then_some(())
        })
        .await;
    }
    let fences = fences(&workshop, "ledger-7");
    assert_eq!(fences.len(), 6);
    assert!(grows(&fences), "{fences:?}");
    // The store's time in microseconds.
    let time: (u64, u64) = redis.ask(&["TIME"]).await?;
    let now = time.0 * 1_000_000 + time.1;
    let age = now - fences[5];
    assert!(age < 60_000_000, "{age} µs");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_its_tenants_own_and_told_to_the_upstream_alone() -> Outcome {
    let redis = Redis::start().await;
    let webdis = Webdis::start(&redis).await;
    let config = format!("{REDIS}{RULES}");
    let gateway = Gateway::start(Setup::new(config.as_str()).front(webdis.address())).await?;
    let gate = tollgate_e2e::Gate::closed();
    gateway.upstream().always(Answer::ok().behind(&gate));

    let first = reconcile(&gateway, "acme", "ledger-7")
        .header("x-tollgate-lease", "forged")
        .header("X-Tollgate-Fence", "18446744073709551615")
        .header("x-tollgate-other", "forged");
    let first = tokio::spawn(first.send());
    let received = gateway.upstream().received(1).await;
    let lease = received[0].header("x-tollgate-lease").unwrap();
    assert_eq!(
        received[0]
            .headers
            .get_all("x-tollgate-lease")
            .iter()
            .count(),
        1
    );
    assert_eq!(
        received[0]
            .headers
            .get_all("x-tollgate-fence")
            .iter()
            .count(),
        1
    );
    assert!(received[0].header("x-tollgate-other").is_none());
    let (key, id) = lease.split_once(' ').unwrap();
    assert_eq!(key, "lk:{t:acme}:ledger-7");
    let is_id = id.len() == 16 && id.bytes().all(|b| b.is_ascii_hexdigit());
    assert!(is_id, "{lease}");
    assert_eq!(holders(&redis, key).await, std::slice::from_ref(&lease));

    // Not by another key of the tenant; but by another tenant, and for another ledger.
    let refused = gateway
        .post("/reconcile")
        .identity("acme", "other-key", "one")
        .header("x-ledger-id", "ledger-7")
        .send()
        .await;
    assert_eq!(refused.status, 409);
    assert_eq!(crowd::refusal(&refused), "resource-locked");
    assert!(!refused.text().contains(id), "{}", refused.text());
    for (tenant, ledger) in [("other", "ledger-7"), ("acme", "ledger-8")] {
        let count = gateway.upstream().requests().len();
        tokio::spawn(reconcile(&gateway, tenant, ledger).send());
        gateway.upstream().received(count + 1).await;
    }
    gate.open();
    let reply = first.await?;
    assert_eq!(reply.status, 200);
    // The id would let anybody who can reach Redis release it: clients are not told.
    let told = |name: &http::HeaderName| name.as_str().starts_with("x-tollgate");
    assert!(!reply.headers.keys().any(told), "{:?}", reply.headers);
    is_free(&redis, key, SOON).await;

    // Which resource must be said.
    let unnamed = gateway.post("/reconcile").identity("acme", "key", "one");
    for (ask, status) in [
        (unnamed.clone(), 400),
        (unnamed.clone().header("x-ledger-id", ""), 400),
        (
            unnamed
                .header("x-ledger-id", "ledger-1")
                .header("x-ledger-id", "ledger-2"),
            400,
        ),
    ] {
        let reply = ask.send().await;
        assert_eq!(reply.status, status, "{reply:?}");
        let problem = reply.json();
        let kind = problem["type"].as_str().unwrap();
        assert!(kind.ends_with("/invalid-request"), "{problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("x-ledger-id"), "{detail}");
    }
    assert!(gateway.traps().is_empty(), "{:?}", gateway.traps());
    Ok(())
}
