//! Attempts while Redis cannot be asked: a route that is closed lets none pass, any other counts them in the gateway, and
//! what was under way is told when Redis is back.

use std::time::{Duration, Instant};

use tollgate_e2e::{
    Answer, Ask, BootFailure, Fault, Faulty, Gate, Gateway, Redis, Setup, Upstream, Webdis,
    eventually,
};

use crate::Outcome;
use crate::door::{RIGHT, RULES, WRONG, basic, judge};
use crate::refusals::{is_locked_out, kind, lockout};
use crate::slots::{are_back, slots};

/// Far below the minute after which an attempt would fail by itself.
const LONG_BEFORE: Duration = Duration::from_secs(20);

struct Story {
    gateway: Gateway,
    upstream: Upstream,
    front: Faulty,
    redis: Redis,
    _webdis: Webdis,
}

impl Story {
    async fn start(rules: &str) -> Result<Self, BootFailure> {
        let redis = Redis::start().await;
        let webdis = Webdis::start(&redis).await;
        let front = Faulty::start(webdis.address()).await;
        let upstream = Upstream::start().await;
        upstream.respond(judge);
        let config = format!(
            "store: {{kind: redis, upstream: redis-front, timeout: 250ms, breaker: {{failures: 5, open_for: 300ms}}}}{rules}"
        );
        let setup = Setup::new(config.as_str())
            .front(front.address())
            .upstream(upstream.address())
            .waits_for_bodies();
        Ok(Self {
            gateway: Gateway::start(setup).await?,
            upstream,
            front,
            redis,
            _webdis: webdis,
        })
    }

    fn ask(&self, subject: &str, secret: &str) -> Ask {
        basic(&self.gateway, subject, secret)
    }

    /// Redis decides again.
    async fn is_back(&self) {
        eventually("Redis is asked again", LONG_BEFORE, async || {
            let reply = self
                .ask("somebody", RIGHT)
                .from([127, 0, 0, 99])
                .send()
                .await;
            (reply.status == 200).then_some(())
        })
        .await;
    }

    fn is_well(&self) {
        assert!(
            self.gateway.traps().is_empty(),
            "{:?}",
            self.gateway.traps()
        );
    }
}

/// The same rules, for a route that is not closed.
fn open_route() -> String {
    let rules = RULES.replace(", on_store_failure: closed", "");
    assert_ne!(rules, RULES);
    rules
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_route_hears_nobody() -> Outcome {
    let story = Story::start(RULES).await?;
    story.is_back().await;
    story.upstream.forget();
    for fault in [
        Fault::Refuse,
        Fault::Close,
        Fault::Slow(Duration::from_millis(600)),
    ] {
        story.front.fail(fault.clone()).await;
        for _ in 0..8 {
            let reply = story.ask("acme", RIGHT).send().await;
            assert_eq!(
                (reply.status, reply.number("retry-after")),
                (503, 15),
                "{fault:?}"
            );
            assert_eq!(kind(&reply), "rate-limiter-unavailable");
        }
        assert_eq!(story.upstream.requests().len(), 0, "{fault:?}");
        story.front.heal().await;
        story.is_back().await;
        story.upstream.forget();
        // What was asked for in vain has taken no slot, and is no failure.
        for throttle in ["token-subject", "token-ip"] {
            assert_eq!(
                are_back(&story.redis, throttle, LONG_BEFORE).await,
                0,
                "{fault:?}"
            );
        }
    }
    story.is_well();
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_route_counts_in_the_gateway() -> Outcome {
    let story = Story::start(&open_route()).await?;
    // Known from Redis: it stays in force.
    for _ in 0..5 {
        assert_eq!(story.ask("before", WRONG).send().await.status, 401);
    }
    let told = lockout(&story.ask("before", RIGHT).send().await);
    assert!(told.is(1, 300), "{told:?}");

    story.front.fail(Fault::Refuse).await;
    assert!(lockout(&story.ask("before", RIGHT).send().await).is(1, 300));
    story.upstream.forget();
    let asks = (0..200).map(|_| story.ask("acme", WRONG).from([127, 0, 0, 5]));
    let volley = story.gateway.volley(20, asks).await;
    // The whole limit: attempts are not shared out as points are.
    assert_eq!(volley.count(401), 5, "{:?}", volley.statuses());
    assert_eq!(volley.count(429), 195, "{:?}", volley.statuses());
    assert_eq!(story.upstream.requests().len(), 5);
    let refused = story.ask("acme", RIGHT).from([127, 0, 0, 5]).send().await;
    assert!(lockout(&refused).is(1, 300), "{refused:?}");
    let other = story.ask("globex", RIGHT).from([127, 0, 0, 6]).send().await;
    assert_eq!(other.status, 200);
    assert!(
        story
            .gateway
            .stats()
            .await
            .sum("tollgate_degraded_total", &[("route", "token")])
            > 0.0
    );

    story.front.heal().await;
    story.is_back().await;
    assert!(is_locked_out(&story.ask("before", RIGHT).send().await));
    story.is_well();
    Ok(())
}

/// Answers that come while Redis halts are told to it later: no success becomes a failure, and no failure is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outcomes_outlast_an_outage() -> Outcome {
    let story = Story::start(RULES).await?;
    for (subject, secret, failed) in [("acme", RIGHT, 0), ("globex", WRONG, 4)] {
        let gate = Gate::closed();
        let behind = gate.clone();
        story.upstream.forget();
        story
            .upstream
            .respond(move |received| judge(received).behind(&behind));
        let under_way: Vec<_> = (0..4)
            .map(|_| tokio::spawn(story.ask(subject, secret).send()))
            .collect();
        story.upstream.received(4).await;
        assert_eq!(slots(&story.redis, "token-subject").await.pending.len(), 4);
        story.redis.pause();
        gate.open();
        for reply in under_way {
            let status = reply.await?.status;
            assert_eq!(status, if failed == 0 { 200 } else { 401 });
        }
        // Long enough for the gateway to have tried.
        tokio::time::sleep(Duration::from_secs(1)).await;
        story.redis.resume();
        let resumed = Instant::now();
        assert_eq!(
            are_back(&story.redis, "token-subject", LONG_BEFORE).await,
            failed
        );
        println!("told {:?} after it", resumed.elapsed());
    }
    story.upstream.always(Answer::status(401));
    eventually("one more guess is heard", LONG_BEFORE, async || {
        let reply = story.ask("globex", WRONG).send().await;
        (reply.status == 401).then_some(())
    })
    .await;
    assert!(is_locked_out(&story.ask("globex", RIGHT).send().await));
    story.is_well();
    Ok(())
}
