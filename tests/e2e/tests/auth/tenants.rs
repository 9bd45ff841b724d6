//! Attempts beside the other things that are asked of a request: what a tenant has, what an anonymous client has, and
//! shadow.

use tollgate_e2e::{Ask, Gateway};

use crate::Outcome;
use crate::door::{Door, RIGHT, RULES, Store, WRONG, authorization};
use crate::refusals::{is_locked_out, lockout};

const STORES: [Store; 3] = [Store::Local, Store::Redis(1), Store::Cluster(1)];

/// Tenants, a route of theirs, and a throttle by address for everything.
const TENANTS: &str = "
identity: {tenant: {header: x-tenant-id}, key: {header: x-api-key-id}, tier: {header: x-tenant-tier}}
tiers: {one: {tenant: 100/hour, key: 50/hour}}
anonymous: {limit: 30/hour}
auth_throttles:
- {name: everywhere, by: ip, count: [401], failures: 5, within: 15m, lockout: 5m}
";

fn tenant(gateway: &Gateway, secret: &str) -> Ask {
    let ask = gateway.get("/v1/ledgers").identity("acme", "key-1", "one");
    ask.header("authorization", authorization("acme", secret))
}

/// A tenant is counted by its address as anybody is, and pays for what is heard, and for nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_locked_out_costs_no_points() -> Outcome {
    for store in STORES {
        let door = Door::open(store, TENANTS).await?;
        let gateway = door.gateway();
        for left in [49, 48, 47, 46, 45] {
            let reply = tenant(gateway, WRONG).send().await;
            assert_eq!(
                (reply.status, reply.number("ratelimit-remaining")),
                (401, left)
            );
        }
        for _ in 0..10 {
            let refused = tenant(gateway, RIGHT).send().await;
            assert!(lockout(&refused).is(1, 300), "{refused:?}");
        }
        let elsewhere = tenant(gateway, RIGHT).from([127, 0, 0, 9]).send().await;
        assert_eq!(
            (elsewhere.status, elsewhere.number("ratelimit-remaining")),
            (200, 44)
        );
        // Anonymous ones from there are locked out just so, and their limit is where it was.
        let anonymous = |last| gateway.get("/v1/ledgers").from([127, 0, 0, last]).send();
        assert!(is_locked_out(&anonymous(1).await), "{store:?}");
        assert_eq!(anonymous(9).await.number("ratelimit-remaining"), 29);
        assert_eq!(door.reached(), 7);
        door.is_well().await;
    }
    Ok(())
}

/// What is refused for other reasons is no attempt, and what is refused by one throttle none by another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_no_attempt() -> Outcome {
    for store in STORES {
        let door = Door::open(store, RULES).await?;
        for _ in 0..5 {
            assert_eq!(door.basic("acme", WRONG).send().await.status, 401);
        }
        for _ in 0..40 {
            assert!(is_locked_out(&door.basic("acme", WRONG).send().await));
        }
        // Of the address, five failures of twenty are known.
        for n in 5..20 {
            let reply = door.basic(&format!("client-{n}"), WRONG).send().await;
            assert_eq!(reply.status, 401, "{n}: {reply:?}");
        }
        let refused = door.basic("client-20", RIGHT).send().await;
        assert!(lockout(&refused).is(1, 300), "{refused:?}");
        assert_eq!(door.failures("token-ip").await, 20.0);
        door.is_well().await;
    }
    Ok(())
}

/// Points that are missing refuse before a slot is taken: none is, however long it goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_throttled_takes_no_slot() -> Outcome {
    let rules = format!("\nip_limit: 10/hour{RULES}");
    for store in STORES {
        let door = Door::open(store, &rules).await?;
        for _ in 0..10 {
            assert_eq!(door.basic("acme", RIGHT).send().await.status, 200);
        }
        for _ in 0..30 {
            let reply = door.basic("acme", WRONG).send().await;
            assert_eq!(
                (reply.status, is_locked_out(&reply)),
                (429, false),
                "{reply:?}"
            );
        }
        // The same subject from elsewhere has all five slots, and is not locked out.
        let elsewhere = |secret| door.basic("acme", secret).from([127, 0, 0, 9]).send();
        for _ in 0..4 {
            assert_eq!(elsewhere(WRONG).await.status, 401);
        }
        assert_eq!(elsewhere(RIGHT).await.status, 200);
        assert_eq!(door.reached(), 15);
        door.is_well().await;
    }
    Ok(())
}

/// In shadow everything is counted and told to the operator, and nobody is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shadow_locks_nobody_out() -> Outcome {
    let rules = format!("\nmode: shadow{RULES}");
    for store in STORES {
        let door = Door::open(store, &rules).await?;
        for n in 0..8 {
            assert_eq!(door.basic("acme", WRONG).send().await.status, 401, "{n}");
        }
        let reply = door.basic("acme", RIGHT).send().await;
        assert_eq!(
            (reply.status, reply.header("x-penalty-box-status")),
            (200, None)
        );
        assert_eq!(door.reached(), 9);
        let lines = door.gateway().access_log(9).await;
        let verdicts: Vec<_> = lines
            .iter()
            .map(|line| line.verdict.as_deref().unwrap_or("none"))
            .collect();
        assert_eq!(verdicts[..5], ["shadow_allowed"; 5], "{verdicts:?}");
        assert_eq!(verdicts[5..], ["shadow_auth_lockout"; 4], "{verdicts:?}");
        let stats = door.gateway().stats().await;
        let labels = [
            ("route", "token"),
            ("verdict", "auth_lockout"),
            ("mode", "shadow"),
        ];
        assert_eq!(stats.sum("tollgate_requests_total", &labels), 4.0);
        if store != Store::Local {
            let keys = door.redis().keys().await;
            assert!(
                keys.iter().any(|key| key.name.starts_with("sh:au:")),
                "{keys:?}"
            );
            assert!(
                keys.iter().all(|key| key.name.starts_with("sh:")),
                "{keys:?}"
            );
        }
        door.is_well().await;
    }
    Ok(())
}
