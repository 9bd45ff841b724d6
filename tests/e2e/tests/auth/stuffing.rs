//! Many subjects tried from one address: credential stuffing, and a ban. And what operators see of all this.

use std::time::Duration;

use tollgate_e2e::eventually;

use crate::Outcome;
use crate::door::{Door, RIGHT, Store, WRONG};
use crate::refusals::{is_locked_out, kind, lockout};

const STORES: [Store; 3] = [Store::Local, Store::Redis(1), Store::Cluster(1)];

/// Twelve failures over six subjects are stuffing, long before a throttle has enough.
const RULES: &str = "
identity: {tenant: {header: x-tenant-id}, key: {header: x-api-key-id}, tier: {header: x-tenant-tier}}
tiers: {one: {tenant: 1000/minute, key: 1000/minute}}
routes:
- {name: token, match: {methods: [POST], path: /v1/auth/token}, limiter: credential, on_store_failure: closed}
auth_throttles:
- {name: token-subject, routes: [token], by: subject, subject: {basic: true}, failures: 50, within: 15m, lockout: 5m}
- {name: token-ip, routes: [token], by: ip, failures: 100, within: 15m, lockout: 5m}
stuffing: {failures: 12, subjects: 6, within: 10m}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_subjects_from_one_address_are_a_ban() -> Outcome {
    for store in STORES {
        let door = Door::open(store, RULES).await?;
        for n in 0..12 {
            let reply = door.basic(&format!("client-{}", n % 6), WRONG).send().await;
            assert_eq!(reply.status, 401, "{n}: {reply:?}");
        }
        for secret in [WRONG, RIGHT] {
            let refused = door.basic("client-7", secret).send().await;
            let told = lockout(&refused);
            assert!(told.is(3, 24 * 3_600), "{refused:?}");
            assert!((86_380..=95_040).contains(&refused.number("retry-after")));
        }
        assert_eq!(door.reached(), 12);

        // Anonymous requests from there are banned as well, and tenants are not; nor is anybody elsewhere.
        let anonymous = door.gateway().get("/v1/ledgers").send().await;
        assert_eq!((anonymous.status, is_locked_out(&anonymous)), (429, true));
        assert_eq!(kind(&anonymous), "penalty-box-active");
        let tenant = door
            .gateway()
            .get("/v1/ledgers")
            .identity("acme", "key", "one");
        assert_eq!(tenant.send().await.status, 401, "the endpoint's own answer");
        let elsewhere = door.basic("client-1", RIGHT).from([127, 0, 0, 9]);
        assert_eq!(elsewhere.send().await.status, 200);

        let stats = door.gateway().stats().await;
        let trips = |level, scope| {
            let labels = [("level", level), ("scope", scope)];
            stats.sum("tollgate_box_trips_total", &labels)
        };
        assert_eq!(
            (trips("3", "ip"), trips("1", "ip"), trips("1", "subject")),
            (1.0, 0.0, 0.0)
        );
        assert_eq!(door.failures("token-subject").await, 12.0);
        assert_eq!(door.failures("token-ip").await, 12.0);
        // A line for the operator: that, and not of whom.
        let line = eventually("the ban is logged", Duration::from_secs(5), async || {
            let logs = door.gateway().logs();
            let line = logs
                .lines()
                .find(|line| line.to_lowercase().contains("stuffing"));
            line.map(ToOwned::to_owned)
        })
        .await;
        assert!(!line.contains("client-"), "{line}");
        door.is_well().await;
    }
    Ok(())
}

/// Neither many failures of few subjects nor few failures of many are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fewer_are_not() -> Outcome {
    for store in STORES {
        let door = Door::open(store, RULES).await?;
        for n in 0..25 {
            let few = door
                .basic(&format!("client-{}", n % 5), WRONG)
                .from([127, 0, 0, 2]);
            assert_eq!(few.send().await.status, 401, "{n}");
        }
        for n in 0..11 {
            let many = door
                .basic(&format!("client-{n}"), WRONG)
                .from([127, 0, 0, 3]);
            assert_eq!(many.send().await.status, 401, "{n}");
        }
        // Successes are no failures, of however many.
        for n in 0..30 {
            let right = door
                .basic(&format!("client-{n}"), RIGHT)
                .from([127, 0, 0, 3]);
            assert_eq!(right.send().await.status, 200, "{n}");
        }
        // And one more of each is what was missing.
        for address in [2, 3] {
            let ask = |secret| door.basic("client-99", secret).from([127, 0, 0, address]);
            assert_eq!(ask(WRONG).send().await.status, 401);
            assert!(is_locked_out(&ask(RIGHT).send().await), "{address}");
        }
        door.is_well().await;
    }
    Ok(())
}

/// One subject that is tried from many addresses is told to the operator, once, and without its name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_addresses_for_one_subject_are_told() -> Outcome {
    for store in STORES {
        let door = Door::open(store, RULES).await?;
        let told = || {
            let logs = door.gateway().logs();
            logs.lines()
                .filter(|line| line.contains("token-subject"))
                .map(ToOwned::to_owned)
                .collect::<Vec<_>>()
        };
        for n in 1..=12 {
            // Twice from each: it is addresses that count.
            for _ in 0..2 {
                let guess = door.basic("client-1", WRONG).from([127, 0, 2, n]);
                assert_eq!(guess.send().await.status, 401, "{n}");
            }
            if n == 9 {
                assert_eq!(told(), [""; 0], "{store:?}");
            }
        }
        eventually("it is told", Duration::from_secs(5), async || {
            (!told().is_empty()).then_some(())
        })
        .await;
        assert_eq!(told().len(), 1, "{:?}", told());
        assert!(!told()[0].contains("client-1"), "{:?}", told());
        // It locks nobody out by itself.
        let right = door.basic("client-1", RIGHT).from([127, 0, 3, 1]);
        assert_eq!(right.send().await.status, 200);
        door.is_well().await;
    }
    Ok(())
}

/// Through two gateways, it adds up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gateways_see_it_together() -> Outcome {
    let door = Door::open(Store::Cluster(2), RULES).await?;
    for n in 0..12 {
        let gateway = &door.gateways[n % 2];
        let ask = crate::door::basic(gateway, &format!("client-{n}"), WRONG);
        assert_eq!(ask.send().await.status, 401, "{n}");
    }
    for gateway in &door.gateways {
        let ask = || crate::door::basic(gateway, "client-99", RIGHT);
        let refused = eventually("the ban", Duration::from_secs(5), async || {
            let reply = ask().send().await;
            is_locked_out(&reply).then_some(reply)
        })
        .await;
        assert_eq!(lockout(&refused).level, 3);
    }
    Ok(())
}
