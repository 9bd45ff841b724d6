//! The shipped envoy/adr-018.yaml: an API behind one shared key that Envoy's api_key_auth checks, guarded by address. Owns
//! that file; everything but its ports is as it is shipped.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tollgate_e2e::{Ask, Gateway, Redis, Reply, Setup, Webdis, eventually, repository};

use crate::Outcome;
use crate::refusals::{is_locked_out, kind, lockout};

const FILE: &str = "adr-018.yaml";
const KEY: &str = "demo-key";
const PUBLIC: [&str; 4] = ["/api/health", "/docs", "/openapi.json", "/redoc"];

fn ask(gateway: &Gateway, key: &str) -> Ask {
    gateway.get("/api/runs").header("x-api-key", key)
}

async fn wrong(gateway: &Gateway, count: usize) {
    for n in 0..count {
        let reply = ask(gateway, &format!("guess-{n}")).send().await;
        assert_eq!(reply.status, 401, "{n}: {reply:?}");
    }
}

/// Whether it is refused for going too fast.
fn is_too_fast(reply: &Reply) -> bool {
    reply.status == 429 && kind(reply) == "rate-limit-exceeded"
}

fn parsed(path: &str) -> Value {
    let text = std::fs::read_to_string(repository().join(path)).unwrap();
    serde_yaml_ng::from_str(&text).unwrap()
}

/// What people read in one place is what they start in the other.
#[test]
fn it_is_the_configuration_of_the_examples() {
    let bootstrap = parsed("envoy/adr-018.yaml");
    let listener = &bootstrap["static_resources"]["listeners"][0];
    let hcm = &listener["filter_chains"][0]["filters"][0]["typed_config"];
    let tollgate = &hcm["http_filters"][0]["typed_config"]["config"];
    let example = parsed("filter-config/examples/valid/adr-018.yaml");
    assert_eq!(tollgate["configuration"]["value"], example);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_wrong_keys_lock_an_address_out() -> Outcome {
    let gateway = Gateway::start(Setup::example(FILE).workers(2)).await?;
    wrong(&gateway, 5).await;
    for key in ["guess-6", KEY] {
        let refused = ask(&gateway, key).send().await;
        assert!(lockout(&refused).is(1, 300), "{refused:?}");
        assert!((280..=330).contains(&refused.number("retry-after")));
    }
    // Public paths are as public as before, and other addresses are others.
    for path in PUBLIC {
        assert_eq!(gateway.get(path).send().await.status, 200, "{path}");
    }
    let other = ask(&gateway, KEY).from([127, 0, 0, 2]).send().await;
    assert_eq!((other.status, other.json()["runs"].is_array()), (200, true));
    let forged = ask(&gateway, KEY).header("x-forwarded-for", "127.0.0.2");
    assert!(is_locked_out(&forged.send().await));

    let stats = gateway.stats().await;
    let failures = stats.sum("tollgate_auth_failures_total", &[("throttle", "auth")]);
    assert_eq!(failures, 5.0);
    let trips = [("level", "1"), ("scope", "ip")];
    assert_eq!(stats.sum("tollgate_box_trips_total", &trips), 1.0);
    let lines = gateway.access_log(13).await;
    let verdicts: Vec<_> = lines
        .iter()
        .map(|line| line.verdict.as_deref().unwrap_or("none"))
        .collect();
    assert_eq!(verdicts[..5], ["allowed"; 5]);
    assert_eq!(verdicts[5..7], ["auth_lockout"; 2]);
    assert_eq!(verdicts[7..11], ["exempt"; 4]);
    assert!(gateway.traps().is_empty(), "{:?}", gateway.traps());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_key_clears_the_wrong_ones() -> Outcome {
    let gateway = Gateway::start(Setup::example(FILE)).await?;
    for _ in 0..3 {
        wrong(&gateway, 4).await;
        assert_eq!(ask(&gateway, KEY).send().await.status, 200);
    }
    // A public path answers 200 to anybody, and clears nothing.
    wrong(&gateway, 4).await;
    assert_eq!(
        gateway
            .get("/docs")
            .header("x-api-key", "guess")
            .send()
            .await
            .status,
        200
    );
    wrong(&gateway, 1).await;
    assert!(is_locked_out(&ask(&gateway, KEY).send().await));
    Ok(())
}

/// Envoy tells a gRPC client of a wrong key by HTTP 200.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calling_it_grpc_makes_no_wrong_key_right() -> Outcome {
    let gateway = Gateway::start(Setup::example(FILE)).await?;
    let grpc = |key| {
        ask(&gateway, key)
            .header("content-type", "application/grpc")
            .http2()
    };
    for n in 0..5 {
        let reply = grpc("guess").send().await;
        assert_eq!(
            (reply.status, reply.header("grpc-status")),
            (200, Some("16")),
            "{n}"
        );
    }
    let refused = grpc(KEY).send().await;
    assert_eq!(
        (refused.status, refused.header("grpc-status")),
        (200, Some("8"))
    );
    assert!(lockout(&ask(&gateway, KEY).send().await).is(1, 300));
    Ok(())
}

/// No spelling of a path lets keys be guessed uncounted: what Tollgate exempts asks for no key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_wrong_key_is_counted() -> Outcome {
    let setup =
        Setup::example(FILE).rules(|rules| rules["auth_throttles"][0]["failures"] = json!(100));
    let gateway = Gateway::start(setup).await?;
    let mut unauthorized = 0.0;
    for path in PUBLIC {
        let name = path.trim_start_matches('/');
        let escaped: String = name.bytes().map(|b| format!("%{b:02x}")).collect();
        for spelling in [
            path.to_owned(),
            format!("{path}/"),
            format!("/{path}"),
            format!("{path}//"),
            format!("{path}?x=1"),
            format!("{path}/."),
            format!("/x/..{path}"),
            format!("/x/%2e%2e{path}"),
            format!("/{escaped}"),
            format!("{path}%20"),
            format!("{path};x"),
            format!("{path}/x"),
            path.to_uppercase(),
        ] {
            let reply = gateway
                .get(&spelling)
                .header("x-api-key", "guess")
                .send()
                .await;
            match reply.status {
                401 => unauthorized += 1.0,
                200 | 400 | 404 => {}
                status => panic!("{status} for {spelling}"),
            }
        }
    }
    assert!(unauthorized > 0.0);
    let stats = gateway.stats().await;
    let counted = stats.sum("tollgate_auth_failures_total", &[("throttle", "auth")]);
    assert_eq!(counted, unauthorized);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_requests_a_minute() -> Outcome {
    let gateway = Gateway::start(Setup::example(FILE)).await?;
    let started = Instant::now();
    let volley = gateway.volley(8, (0..90).map(|_| ask(&gateway, KEY))).await;
    let refilled = usize::try_from(started.elapsed().as_secs())? + 1;
    let passed = volley.count(200);
    assert!(
        (60..=60 + refilled).contains(&passed),
        "{:?}",
        volley.statuses()
    );
    assert_eq!(volley.count(429), 90 - passed);
    let refused = ask(&gateway, KEY).send().await;
    assert!(
        refused.status == 200 || is_too_fast(&refused),
        "{refused:?}"
    );
    for path in PUBLIC {
        for _ in 0..20 {
            assert_eq!(gateway.get(path).send().await.status, 200, "{path}");
        }
    }
    assert_eq!(
        ask(&gateway, KEY).from([127, 0, 0, 2]).send().await.status,
        200
    );
    // However far it goes, going too fast is no offense.
    let volley = gateway
        .volley(8, (0..300).map(|_| ask(&gateway, KEY)))
        .await;
    for shot in &volley.shots {
        assert!(matches!(shot.status, 200 | 429), "{shot:?}");
        let status = shot.headers.get("x-penalty-box-status");
        assert!(
            status.is_none_or(|status| status != "Active-Lockout"),
            "{shot:?}"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_number_is_a_variable() -> Outcome {
    let setup = Setup::example(FILE)
        .env("AGENTIC_AUTH_LOCKOUT_THRESHOLD", "2")
        .env("AGENTIC_AUTH_LOCKOUT_WINDOW_SECONDS", "3")
        .env("AGENTIC_AUTH_LOCKOUT_DURATION_SECONDS", "1")
        .env("AGENTIC_RATE_LIMIT_DEFAULT", "100/minute");
    let gateway = Gateway::start(setup).await?;
    // The threshold, and how long it lasts: the second time, too.
    for round in 1..=2 {
        wrong(&gateway, 2).await;
        let refused = ask(&gateway, KEY).send().await;
        assert!(lockout(&refused).is(round, 1), "{refused:?}");
        assert!(refused.number("retry-after") <= 2, "{refused:?}");
        eventually("the lockout ends", Duration::from_secs(5), async || {
            (ask(&gateway, KEY).send().await.status == 200).then_some(())
        })
        .await;
    }
    // The window.
    wrong(&gateway, 1).await;
    tokio::time::sleep(Duration::from_millis(3_200)).await;
    wrong(&gateway, 1).await;
    assert_eq!(ask(&gateway, KEY).send().await.status, 200);
    // The rate.
    let other = || ask(&gateway, KEY).from([127, 0, 0, 3]);
    let volley = gateway.volley(8, (0..130).map(|_| other())).await;
    assert!(
        (100..=115).contains(&volley.count(200)),
        "{:?}",
        volley.statuses()
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis_gateways_count_together() -> Outcome {
    let redis = Redis::start().await;
    let webdis = Webdis::start(&redis).await;
    let setup = || {
        let store = json!({"kind": "redis", "upstream": "redis-front", "timeout": "5s"});
        Setup::example(FILE)
            .cluster("redis-front", webdis.address())
            .rules(move |rules| rules["store"] = store.clone())
    };
    let [here, there] = [
        Gateway::start(setup()).await?,
        Gateway::start(setup()).await?,
    ];
    wrong(&here, 3).await;
    wrong(&there, 2).await;
    for gateway in [&there, &here] {
        let refused = eventually("a lockout", Duration::from_secs(5), async || {
            let reply = ask(gateway, "guess").send().await;
            is_locked_out(&reply).then_some(reply)
        })
        .await;
        assert!(lockout(&refused).is(1, 300), "{refused:?}");
        assert!(is_locked_out(&ask(gateway, KEY).send().await));
    }

    // One limit, from another address.
    let from = |gateway: &Gateway| ask(gateway, KEY).from([127, 0, 0, 2]);
    let started = Instant::now();
    let (one, other) = tokio::join!(
        here.volley(8, (0..60).map(|_| from(&here))),
        there.volley(8, (0..60).map(|_| from(&there))),
    );
    let refilled = usize::try_from(started.elapsed().as_secs())? + 1;
    let passed = one.count(200) + other.count(200);
    assert!((60..=60 + refilled).contains(&passed), "{passed}");
    for key in redis.keys().await {
        assert!(key.ttl.is_some(), "it lives for ever: {key:?}");
    }
    for gateway in [here, there] {
        let stats = gateway.stats().await;
        assert_eq!(stats.sum("tollgate_degraded_total", &[]), 0.0);
        assert!(gateway.traps().is_empty(), "{:?}", gateway.traps());
    }
    Ok(())
}
