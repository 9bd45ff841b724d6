//! Whatever a front answers, the client gets an answer: a closed route says 503, another one is judged by a share of
//! its limits, the failure is counted by its kind, and all is well again when the front is.

use std::net::SocketAddr;
use std::time::Duration;

use http::Method;
use tollgate_e2e::{
    Answer, Ask, Fault, Faulty, Gateway, Redis, RestFront, Setup, Stats, Webdis, eventually,
};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const OPEN_FOR: Duration = Duration::from_millis(300);

async fn gateway(front: SocketAddr, store: &str) -> Result<Gateway, Box<dyn std::error::Error>> {
    let config = format!(
        "
        store: {{kind: redis, upstream: redis-front, timeout: 100ms, breaker: {{failures: 2, open_for: 300ms}}{store}}}
        identity: {{tenant: {{header: x-tenant-id}}, key: {{header: x-api-key-id}}, tier: {{header: x-tenant-tier}}}}
        tiers: {{one: {{tenant: 4000/hour, key: 400/hour}}}}
        routes: [{{name: strict, match: {{path: /strict}}, on_store_failure: closed}}]
        degraded: {{share: 0.25}}
        "
    );
    let gateway = Gateway::start(Setup::new(config.as_str()).front(front)).await?;
    gateway.upstream().always(Answer::ok());
    Ok(gateway)
}

fn errors(stats: &Stats, kind: &str) -> f64 {
    stats.sum("tollgate_store_errors_total", &[("kind", kind)])
}

/// The store decides again, without a restart.
async fn is_well(gateway: &Gateway, tenant: &str) {
    eventually(
        "the store decides",
        OPEN_FOR + Duration::from_secs(2),
        async || {
            let ask = |path| gateway.get(path).identity(tenant, "well", "one");
            let strict = ask("/strict").send().await;
            let limit = ask("/").send().await.number("ratelimit-limit");
            (strict.status == 200 && limit == 400).then_some(())
        },
    )
    .await;
    let stats = gateway.stats().await;
    assert_eq!(stats.sum("tollgate_degraded", &[]), 0.0, "after {tenant}");
}

/// One failure after the other, each named by a tenant of its own: ill by it, and well after it.
async fn each_heals(
    gateway: &Gateway,
    faulty: &Faulty,
    cases: impl IntoIterator<Item = (&str, Fault, &str)>,
) {
    for (name, fault, kind) in cases {
        faulty.fail(fault).await;
        is_ill(gateway, name, kind).await;
        faulty.heal().await;
        is_well(gateway, name).await;
    }
    assert!(gateway.traps().is_empty(), "{:?}", gateway.traps());
}

/// With the front failing: what each route answers, and what is counted.
async fn is_ill(gateway: &Gateway, tenant: &str, kind: &str) {
    let before = gateway.stats().await;
    let ask = |path| gateway.get(path).identity(tenant, "ill", "one");

    let strict = ask("/strict").send().await;
    assert_eq!(strict.status, 503, "{tenant}");
    assert_eq!(strict.header("retry-after"), Some("15"), "{tenant}");
    assert_eq!(strict.header("cache-control"), Some("no-store"), "{tenant}");
    let problem = strict.json();
    assert_eq!(
        problem["type"],
        "https://api.yourdomain.com/errors/rate-limiter-unavailable"
    );
    assert_eq!(problem["retry_after_seconds"], 15);
    assert!(!problem.to_string().contains("redis"), "{problem}");

    for left in [99, 98] {
        let degraded = ask("/").send().await;
        assert_eq!(degraded.status, 200, "{tenant}");
        assert_eq!(degraded.number("ratelimit-limit"), 100, "{tenant}");
        assert_eq!(degraded.number("ratelimit-remaining"), left, "{tenant}");
    }
    let after = gateway.stats().await;
    let moved =
        |name: &str, labels: &[(&str, &str)]| after.sum(name, labels) - before.sum(name, labels);
    assert!(
        errors(&after, kind) > errors(&before, kind),
        "{tenant}: {kind} in {:?}",
        after
            .starting("tollgate_store_errors")
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    );
    assert_eq!(
        moved("tollgate_degraded_total", &[("route", "strict")]),
        1.0
    );
    assert_eq!(
        moved("tollgate_degraded_total", &[("route", "default")]),
        2.0
    );
    assert_eq!(
        moved("tollgate_requests_total", &[("verdict", "unavailable")]),
        1.0
    );
    assert_eq!(
        moved("tollgate_requests_total", &[("verdict", "degraded")]),
        2.0
    );
    // The second failure opened the breaker.
    assert_eq!(after.sum("tollgate_degraded", &[]), 1.0, "{tenant}");
}

fn evalsha(answer: &str) -> Fault {
    Fault::Says(200, format!(r#"{{"EVALSHA":{answer}}}"#))
}

fn redis_error(text: &str) -> Fault {
    evalsha(&format!(r#"[false,"{text}"]"#))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_failure_of_a_webdis() -> Outcome {
    let redis = Redis::start().await;
    let webdis = Webdis::start(&redis).await;
    let faulty = Faulty::start(webdis.address()).await;
    let gateway = gateway(faulty.address(), "").await?;
    is_well(&gateway, "first").await;
    let says = |status, body: &str| Fault::Says(status, body.to_owned());
    let cases = [
        ("refused", Fault::Refuse, "unreachable"),
        ("closed", Fault::Close, "unreachable"),
        ("hang", Fault::Hang, "timeout"),
        ("slow", Fault::Slow(Duration::from_millis(400)), "timeout"),
        ("error-500", says(500, "Internal Server Error"), "status"),
        ("error-503", says(503, ""), "unreachable"),
        ("error-403", says(403, "Forbidden"), "noauth"),
        ("no-content", says(204, ""), "status"),
        (
            "no-http",
            Fault::Sends(b"\x15\x03\x01\x00\x02\x02\x28\r\n\r\n".into()),
            "status",
        ),
        ("empty", says(200, ""), "malformed"),
        ("garbage", says(200, "\u{0}\u{1}<html>"), "malformed"),
        (
            "truncated",
            says(200, r#"{"EVALSHA":["tollgate 1","a 17"#),
            "malformed",
        ),
        ("deep", says(200, &"[".repeat(100_000)), "malformed"),
        (
            "other-command",
            says(200, r#"{"GET":["tollgate 1"]}"#),
            "malformed",
        ),
        ("none", evalsha("[]"), "malformed"),
        ("too-few", evalsha(r#"["tollgate 1"]"#), "malformed"),
        (
            "too-many",
            evalsha(r#"["tollgate 1","a 1 0 0 -1","a 1 0 0 -1"]"#),
            "malformed",
        ),
        (
            "other-version",
            evalsha(r#"["tollgate 999","a 1 0 0 -1"]"#),
            "malformed",
        ),
        (
            "another-call",
            evalsha(r#"["tollgate 1 0.1.0","a 1 0 0 -1"]"#),
            "mismatched",
        ),
        ("numbers", evalsha("[1,2]"), "malformed"),
        (
            "huge-numbers",
            evalsha(r#"["tollgate 1","a 99999999999999999999999 0 0 -1"]"#),
            "malformed",
        ),
        (
            "loading",
            redis_error("LOADING Redis is loading the dataset in memory"),
            "loading",
        ),
        (
            "readonly",
            redis_error("READONLY You can't write against a read only replica."),
            "readonly",
        ),
        (
            "oom",
            redis_error("OOM command not allowed when used memory > 'maxmemory'."),
            "oom",
        ),
        (
            "noauth",
            redis_error("NOAUTH Authentication required."),
            "noauth",
        ),
        (
            "crossslot",
            redis_error("CROSSSLOT Keys in request don't hash to the same slot"),
            "crossslot",
        ),
        (
            "noscript-twice",
            redis_error("NOSCRIPT No matching script."),
            "script",
        ),
        (
            "other-error",
            redis_error("ERR Error running script"),
            "script",
        ),
    ];
    each_heals(&gateway, &faulty, cases).await;
    assert_eq!(gateway.vm_reloads().await, 0);
    // The log tells the operator of it, once a time.
    let told = gateway.logs().matches("answers again").count();
    assert!(told >= 27, "{told}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_real_redis_refuses() -> Outcome {
    let redis = Redis::start().await;
    let webdis = Webdis::start(&redis).await;
    let gateway = gateway(webdis.address(), "").await?;
    is_well(&gateway, "first").await;
    let config = async |name: &str, value: &str| -> Outcome {
        let () = redis.ask(&["CONFIG", "SET", name, value]).await?;
        Ok(())
    };
    config("maxmemory", "1").await?;
    is_ill(&gateway, "full", "oom").await;
    config("maxmemory", "0").await?;
    is_well(&gateway, "full").await;

    let () = redis.ask(&["REPLICAOF", "127.0.0.1", "1"]).await?;
    is_ill(&gateway, "replica", "readonly").await;
    let () = redis.ask(&["REPLICAOF", "NO", "ONE"]).await?;
    is_well(&gateway, "replica").await;

    // Those who are connected already stay so; who comes now must know the word.
    config("requirepass", "word").await?;
    webdis.restart().await;
    is_ill(&gateway, "stranger", "noauth").await;
    assert!(gateway.traps().is_empty(), "{:?}", gateway.traps());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_failure_of_a_rest_front() -> Outcome {
    let redis = Redis::start().await;
    let front = RestFront::start(&redis, "secret").await;
    let faulty = Faulty::start(front.address()).await;
    let store = r#", dialect: upstash, authorization: "Bearer secret""#;
    let gateway = gateway(faulty.address(), store).await?;
    is_well(&gateway, "first").await;
    let says = |status, body: &str| Fault::Says(status, body.to_owned());
    let cases = [
        ("hang", Fault::Hang, "timeout"),
        (
            "unauthorized",
            says(401, r#"{"error":"Unauthorized"}"#),
            "noauth",
        ),
        (
            "busy",
            says(429, r#"{"error":"ERR max requests"}"#),
            "status",
        ),
        ("one-error", says(200, r#"{"error":"ERR"}"#), "malformed"),
        ("none", says(200, "[]"), "malformed"),
        ("null", says(200, r#"[{"result":null}]"#), "malformed"),
        ("neither", says(200, r#"[{}]"#), "malformed"),
        (
            "too-many",
            says(
                200,
                r#"[{"result":["tollgate 1","a 1 0 0 -1"]},{"result":[]}]"#,
            ),
            "malformed",
        ),
        (
            "readonly",
            says(200, r#"[{"error":"READONLY You can't write"}]"#),
            "readonly",
        ),
        (
            "crossslot",
            says(200, r#"[{"error":"CROSSSLOT Keys in request"}]"#),
            "crossslot",
        ),
    ];
    each_heals(&gateway, &faulty, cases).await;

    let wrong = store.replace("secret", "0ther-w0rd");
    let gateway = self::gateway(faulty.address(), &wrong).await?;
    is_ill(&gateway, "stranger", "noauth").await;
    assert!(!gateway.logs().contains("0ther-w0rd"), "{}", gateway.logs());
    Ok(())
}

#[tokio::test]
async fn an_upstream_that_envoy_does_not_know() -> Outcome {
    let config = "
    store: {kind: redis, upstream: nowhere, breaker: {failures: 2, open_for: 300ms}}
    identity: {tenant: {header: x-tenant-id}, key: {header: x-api-key-id}, tier: {header: x-tenant-tier}}
    tiers: {one: {tenant: 4000/hour, key: 400/hour}}
    routes: [{name: strict, match: {path: /strict}, on_store_failure: closed}]";
    let gateway = Gateway::start(Setup::new(config)).await?;
    gateway.upstream().always(Answer::ok());
    is_ill(&gateway, "lost", "no_cluster").await;
    Ok(())
}

#[tokio::test]
async fn the_access_log_and_strikes_of_a_degraded_gateway() -> Outcome {
    let front = Faulty::start(([127, 0, 0, 1], 1).into()).await;
    front.fail(Fault::Close).await;
    let gateway = gateway(front.address(), "").await?;
    // Far more than the share: refused, and nobody is struck for it.
    let asks = (0..300).map(|_| gateway.get("/").identity("acme", "k", "one"));
    let volley = gateway.volley(4, asks).await;
    assert_eq!(volley.statuses(), [(200, 100), (429, 200)].into());
    for shot in volley.shots.iter().filter(|shot| shot.status == 429) {
        assert_ne!(
            shot.headers
                .get("x-penalty-box-status")
                .map(|v| v.as_bytes()),
            Some(&b"Active-Lockout"[..])
        );
        assert_eq!(shot.headers["ratelimit-limit"], "100");
    }
    let stats = gateway.stats().await;
    assert_eq!(stats.sum("tollgate_box_trips_total", &[]), 0.0);
    Ask::new(gateway.address(), Method::GET, "/strict")
        .identity("acme", "k", "one")
        .send()
        .await;
    let log = gateway.access_log(301).await;
    let count = |verdict: &str| {
        let lines = log.iter();
        lines
            .filter(|line| line.verdict.as_deref() == Some(verdict))
            .count()
    };
    assert_eq!(
        (count("degraded"), count("throttled"), count("unavailable")),
        (100, 200, 1)
    );
    Ok(())
}
