//! When a lockout begins, how long it lasts, and what is left of it afterwards.

use std::time::{Duration, Instant};

use tollgate_e2e::{Reply, eventually};

use crate::Outcome;
use crate::door::{Door, RIGHT, Store, WRONG, basic, by_subject};
use crate::refusals::{Lockout, is_locked_out, lockout};

const STORES: [Store; 2] = [Store::Local, Store::Redis(1)];
/// More than any lockout that is waited for here.
const SOON: Duration = Duration::from_secs(8);

/// Throttles by subject and by address as they are given.
fn throttles(list: &str, penalty_box: &str) -> String {
    format!(
        "
penalty_box: {penalty_box}
routes:
- {{name: token, match: {{methods: [POST], path: /v1/auth/token}}, limiter: credential, on_store_failure: closed}}
auth_throttles: {list}
"
    )
}

/// So many wrong ones, each of which is heard; and then the lockout.
async fn trip(door: &Door, subject: &str, failures: usize) -> Lockout {
    for n in 0..failures {
        let reply = door.basic(subject, WRONG).send().await;
        assert_eq!(reply.status, 401, "{n}: {reply:?}");
    }
    lockout(&door.basic(subject, RIGHT).send().await)
}

/// Waits until the subject is heard again, and gives the answer.
async fn ends(door: &Door, subject: &str, secret: &str) -> Reply {
    eventually("the lockout ends", SOON, async || {
        let reply = door.basic(subject, secret).send().await;
        (!is_locked_out(&reply)).then_some(reply)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lockout_ends_when_it_said() -> Outcome {
    for store in STORES {
        let door = Door::open(store, &by_subject(3, "15m", "2s")).await?;
        let before = Instant::now();
        let told = trip(&door, "acme", 3).await;
        let ends_by = Instant::now() + told.left;
        assert_eq!(told.level, 1);
        assert!(told.left <= Duration::from_secs(2), "{told:?}");
        let reply = ends(&door, "acme", RIGHT).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        assert!(before.elapsed() >= Duration::from_secs(2), "{store:?}");
        let late = Instant::now().saturating_duration_since(ends_by);
        assert!(
            late < Duration::from_millis(1_500),
            "{late:?} late: {store:?}"
        );
        door.is_well().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_success_clears_the_failures() -> Outcome {
    for store in STORES {
        let door = Door::open(store, &by_subject(5, "15m", "5m")).await?;
        for round in 0..3 {
            for _ in 0..4 {
                assert_eq!(door.basic("acme", WRONG).send().await.status, 401);
            }
            let reply = door.basic("acme", RIGHT).send().await;
            assert_eq!(reply.status, 200, "{round}: {reply:?}");
        }
        assert!(trip(&door, "acme", 5).await.is(1, 300));
        door.is_well().await;
    }
    Ok(())
}

/// Where a success resets nothing, an attacker cannot clear its own failures with an account of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_is_not_cleared_by_a_success() -> Outcome {
    let list = "[{name: token-ip, routes: [token], by: ip, failures: 5, within: 15m, lockout: 5m}]";
    for store in STORES {
        let door = Door::open(store, &throttles(list, "{}")).await?;
        for n in 0..4 {
            let guess = door.basic(&format!("victim-{n}"), WRONG).send().await;
            assert_eq!(guess.status, 401);
            assert_eq!(door.basic("own", RIGHT).send().await.status, 200);
        }
        assert!(trip(&door, "victim-4", 1).await.is(1, 300));
    }
    Ok(())
}

// No address is spared: else what is counted after a success is counted apart.
const OF_SUBJECTS: &str = "[{name: token-subject, routes: [token], by: subject, subject: {basic: true}, \
                           failures: 3, within: 15m, lockout: 1s, spare_known_ips: false}]";

/// The failures that a lockout was for are not counted again: after it, there are as many as at first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_lockout_is_longer() -> Outcome {
    for store in STORES {
        let door = Door::open(store, &throttles(OF_SUBJECTS, "{}")).await?;
        assert_eq!(trip(&door, "acme", 3).await.level, 1);
        assert_eq!(ends(&door, "acme", WRONG).await.status, 401);
        let second = trip(&door, "acme", 2).await;
        assert!(second.is(2, 3_600), "{second:?}");
        // Another subject starts at the bottom.
        assert_eq!(trip(&door, "globex", 3).await.level, 1);
        door.is_well().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subject_gets_to_level_two_and_no_further() -> Outcome {
    for store in STORES {
        let door = Door::open(store, &throttles(OF_SUBJECTS, "{level_2: 1s}")).await?;
        for level in [1, 2, 2, 2] {
            assert_eq!(trip(&door, "acme", 3).await.level, level, "{store:?}");
            // The right secret, which clears failures, and not what was done.
            assert_eq!(ends(&door, "acme", RIGHT).await.status, 200);
        }
        let stats = door.gateway().stats().await;
        for (level, trips) in [("1", 1.0), ("2", 3.0), ("3", 0.0)] {
            let labels = [("level", level), ("scope", "subject")];
            assert_eq!(stats.sum("tollgate_box_trips_total", &labels), trips);
        }
        door.is_well().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_is_banned_for_a_day_at_level_three() -> Outcome {
    let list = "[{name: token-ip, routes: [token], by: ip, failures: 3, within: 15m, lockout: 1s}]";
    for store in STORES {
        let door = Door::open(store, &throttles(list, "{level_2: 1s}")).await?;
        let mut levels = Vec::new();
        for n in 0..3 {
            let last = trip(&door, &format!("client-{n}"), 3).await;
            levels.push(last.level);
            if last.level == 3 {
                assert!(last.is(3, 24 * 3_600), "{last:?}");
                break;
            }
            assert_eq!(ends(&door, "client", RIGHT).await.status, 200);
        }
        assert_eq!(levels, [1, 2, 3], "{store:?}");
        // Whatever it presents, and nobody else.
        let refused = door.basic("client-9", RIGHT).send().await;
        assert_eq!(lockout(&refused).level, 3);
        assert!((86_380..=95_040).contains(&refused.number("retry-after")));
        let other = door.basic("client-0", RIGHT).from([127, 0, 0, 9]);
        assert_eq!(other.send().await.status, 200);
        let stats = door.gateway().stats().await;
        for level in ["1", "2", "3"] {
            let labels = [("level", level), ("scope", "ip")];
            assert_eq!(stats.sum("tollgate_box_trips_total", &labels), 1.0);
        }
        door.is_well().await;
    }
    Ok(())
}

/// By the pair, a lockout is for this subject from this address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pair_is_locked_out_as_a_pair() -> Outcome {
    let list = "[{name: pair, routes: [token], by: subject_ip, subject: {basic: true}, failures: 3, within: 15m, lockout: 5m}]";
    for store in STORES {
        let door = Door::open(store, &throttles(list, "{}")).await?;
        assert!(trip(&door, "acme", 3).await.is(1, 300));
        assert_eq!(door.basic("globex", RIGHT).send().await.status, 200);
        let other = door.basic("acme", RIGHT).from([127, 0, 0, 9]);
        assert_eq!(other.send().await.status, 200);
        assert!(is_locked_out(&door.basic("acme", RIGHT).send().await));
    }
    Ok(())
}

/// Failures in two gateways add up, and both know at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gateways_count_together() -> Outcome {
    let door = Door::open(Store::Redis(2), &by_subject(4, "15m", "5m")).await?;
    for n in 0..4 {
        let ask = basic(&door.gateways[n % 2], "acme", WRONG);
        assert_eq!(ask.send().await.status, 401);
    }
    for gateway in &door.gateways {
        // The other one may not have told its last outcome yet: then all slots are taken, and nobody gets in either.
        let refused = eventually("a lockout", SOON, async || {
            let reply = basic(gateway, "acme", RIGHT).send().await;
            assert_eq!(reply.status, 429, "{reply:?}");
            is_locked_out(&reply).then_some(reply)
        })
        .await;
        assert!(lockout(&refused).is(1, 300), "{refused:?}");
    }
    assert_eq!(door.reached(), 4);
    door.is_well().await;
    Ok(())
}
