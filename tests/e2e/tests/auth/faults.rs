//! What is no failure gives its slot back at once, and what nobody tells the outcome of is a failure a minute after it
//! began.

use std::time::Duration;

use serde_json::json;
use tollgate_e2e::{Answer, Ask, Gate, Setup, eventually};

use crate::Outcome;
use crate::door::{Door, RIGHT, RULES, Store, WRONG, basic, by_subject, judge};
use crate::refusals::{is_busy, is_locked_out, lockout};
use crate::slots::{age, are_back, slots};

const STORES: [Store; 2] = [Store::Local, Store::Redis(1)];
const SOON: Duration = Duration::from_secs(10);
const MINUTE: Duration = Duration::from_secs(60);

/// All five slots are free: five at once are heard, and no more than five.
async fn all_slots_are_free(door: &Door) {
    let gate = Gate::closed();
    door.upstream.forget();
    door.upstream.always(Answer::ok().behind(&gate));
    let five: Vec<_> = (0..5)
        .map(|_| tokio::spawn(door.basic("acme", RIGHT).send()))
        .collect();
    door.upstream.received(5).await;
    is_busy(&door.basic("acme", RIGHT).send().await);
    gate.open();
    for reply in five {
        assert_eq!(reply.await.unwrap().status, 200);
    }
    assert_eq!(door.reached(), 5);
    door.upstream.respond(judge);
}

/// Whatever else the upstream answers, or does not, is no failure, however often.
async fn are_no_failures(store: Store) -> Outcome {
    let timeout = |hcm: &mut serde_json::Value| {
        let route = &mut hcm["route_config"]["virtual_hosts"][0]["routes"][0]["route"];
        route["timeout"] = json!("0.5s");
    };
    let door = Door::with(store, RULES, |setup: Setup| setup.hcm(timeout)).await?;
    for (answer, status) in [
        (Answer::status(500), 500),
        (Answer::hang_up(), 503),
        (Answer::ok().after(MINUTE), 504),
        (Answer::status(400), 400),
        (Answer::status(429), 429),
        (Answer::status(302).header("location", "/"), 302),
    ] {
        door.upstream.forget();
        door.upstream.always(answer);
        for _ in 0..6 {
            let asks = (0..4).map(|_| door.basic("acme", WRONG));
            let volley = door.gateway().volley(4, asks).await;
            assert_eq!(volley.count(status), 4, "{:?}", volley.statuses());
        }
        // All but those that met a connection which ended before they did.
        assert!(door.reached() >= 20, "{status}: {}", door.reached());
        if let Store::Redis(_) = store {
            for throttle in ["token-subject", "token-ip"] {
                assert_eq!(are_back(door.redis(), throttle, SOON).await, 0, "{status}");
            }
        }
        assert_eq!(door.failures("token-subject").await, 0.0, "{status}");
    }
    door.upstream.respond(judge);
    assert_eq!(door.basic("acme", RIGHT).send().await.status, 200);
    door.is_well().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_and_timeouts_are_no_failures() -> Outcome {
    are_no_failures(Store::Local).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_and_timeouts_are_no_failures_by_redis() -> Outcome {
    are_no_failures(Store::Redis(1)).await
}

/// Slots that are taken by requests under way refuse, and lock nobody out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_are_back_with_the_answer() -> Outcome {
    for store in STORES {
        let door = Door::open(store, RULES).await?;
        for _ in 0..2 {
            all_slots_are_free(&door).await;
        }
        assert_eq!(door.basic("acme", WRONG).send().await.status, 401);
        let lines = door.gateway().access_log(1).await;
        assert!(
            lines
                .iter()
                .any(|line| line.verdict.as_deref() == Some("auth_busy"))
        );
        door.is_well().await;
    }
    Ok(())
}

/// Who leaves before the answer has not learned it, but the guess was made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_has_failed() -> Outcome {
    for store in STORES {
        let door = Door::open(store, RULES).await?;
        for (subject, http2, failures) in [("acme", false, 5.0), ("globex", true, 10.0)] {
            let never = Gate::closed();
            door.upstream.forget();
            door.upstream.always(Answer::ok().behind(&never));
            for n in 1..=5 {
                let ask = door.basic(subject, &format!("guess-{n}"));
                let heard = async {
                    door.upstream.received(n).await;
                };
                if http2 {
                    tokio::select! {
                        reply = ask.http2().send() => panic!("{reply:?}"),
                        () = heard => {}
                    }
                } else {
                    ask.leave_when(heard).await.unwrap();
                }
            }
            eventually("five failures", SOON, async || {
                (door.failures("token-subject").await == failures).then_some(())
            })
            .await;
            door.upstream.respond(judge);
            let refused = door.basic(subject, RIGHT).send().await;
            assert!(lockout(&refused).is(1, 300), "{refused:?}");
        }
        if let Store::Redis(_) = store {
            let left = slots(door.redis(), "token-subject").await;
            assert!(left.pending.is_empty(), "{left:?}");
        }
        door.is_well().await;
    }
    Ok(())
}

/// A gateway dies with guesses under way: their slots stay taken for a minute, and then they have failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_dead_gateway_had_under_way_fails_within_a_minute() -> Outcome {
    let door = Door::open(Store::Redis(2), RULES).await?;
    let never = Gate::closed();
    door.upstream.always(Answer::ok().behind(&never));
    let under_way: Vec<_> = (0..5)
        .map(|_| tokio::spawn(basic(&door.gateways[0], "acme", WRONG).try_send()))
        .collect();
    door.upstream.received(5).await;
    door.gateways[0].kill();
    for one in under_way {
        assert!(one.await?.is_err(), "an answer of a dead gateway");
    }
    door.upstream.respond(judge);

    let left = slots(door.redis(), "token-subject").await;
    assert_eq!((left.pending.len(), left.failed), (5, 0), "{left:?}");
    assert!(left.pending.iter().all(|left| *left <= MINUTE), "{left:?}");
    let other = &door.gateways[1];
    is_busy(&basic(other, "acme", RIGHT).send().await);
    assert_eq!(basic(other, "globex", RIGHT).send().await.status, 200);

    for throttle in ["token-subject", "token-ip"] {
        age(door.redis(), throttle).await;
    }
    let refused = basic(other, "acme", RIGHT).send().await;
    assert!(lockout(&refused).is(1, 300), "{refused:?}");
    assert_eq!(door.reached(), 6);
    Ok(())
}

/// However late a success is, and whatever was taken for granted meanwhile, it is none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_success_is_no_failure() -> Outcome {
    let door = Door::open(Store::Redis(1), &by_subject(5, "15m", "5m")).await?;
    for _ in 0..2 {
        let gate = Gate::closed();
        door.upstream.forget();
        door.upstream.always(Answer::ok().behind(&gate));
        let slow: Vec<_> = (0..4)
            .map(|_| tokio::spawn(door.basic("acme", RIGHT).send()))
            .collect();
        door.upstream.received(4).await;
        age(door.redis(), "token-subject").await;
        assert_eq!(slots(door.redis(), "token-subject").await.failed, 4);
        gate.open();
        for reply in slow {
            assert_eq!(reply.await?.status, 200);
        }
        eventually("no failure is left", SOON, async || {
            let left = slots(door.redis(), "token-subject").await;
            (left.failed == 0 && left.pending.is_empty()).then_some(())
        })
        .await;
    }
    assert_eq!(door.failures("token-subject").await, 0.0);
    all_slots_are_free(&door).await;
    door.is_well().await;
    Ok(())
}

/// A failure is counted as of when it was let through, however long the answer took.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_failure_counts_as_of_its_start() -> Outcome {
    for store in STORES {
        let rules =
            by_subject(2, "4s", "5m").replace("failures:", "reset_on_success: false\n  failures:");
        let door = Door::open(store, &rules).await?;
        let gate = Gate::closed();
        door.upstream.always(Answer::status(401).behind(&gate));
        let slow = tokio::spawn(door.basic("acme", WRONG).send());
        door.upstream.received(1).await;
        tokio::time::sleep(Duration::from_millis(3_000)).await;
        gate.open();
        assert_eq!(slow.await?.status, 401);
        // It leaves the window a second later, though it was told only now.
        tokio::time::sleep(Duration::from_millis(1_300)).await;
        let ask = || -> Ask { door.basic("acme", WRONG) };
        assert_eq!(ask().send().await.status, 401);
        assert!(!is_locked_out(&ask().send().await), "{store:?}");
        assert!(is_locked_out(&ask().send().await), "{store:?}");
    }
    Ok(())
}
