//! What `make run` starts keeps what it says on the terminal. Owns the shipped envoy/envoy.yaml and scripts/run.sh;
//! Tollgate's rules have stories of their own.

use http::Method;
use tollgate_e2e::{Ask, Demo};

#[tokio::test]
async fn the_demo_keeps_its_promises() {
    let demo = Demo::start().await;

    let allowed = demo.ask(Method::GET, "/v1/ledgers", "acme", "growth").await;
    assert_eq!(
        (allowed.status, allowed.header("content-type")),
        (200, Some("application/json"))
    );
    assert_eq!(
        (
            allowed.number("ratelimit-limit"),
            allowed.number("ratelimit-remaining")
        ),
        (1500, 1499)
    );
    assert!(allowed.json()["ledgers"].is_array());

    let keyless = demo
        .ask(Method::POST, "/v1/ledgers/reconcile", "acme", "growth")
        .await;
    assert_eq!(keyless.status, 400);
    let dear = Ask::new(demo.port, Method::POST, "/v1/ledgers/reconcile")
        .identity("acme", "key-2", "growth");
    let dear = dear.header("idempotency-key", "run-1").send().await;
    assert_eq!(
        (dear.status, dear.number("ratelimit-remaining")),
        (200, 1490)
    );

    let exempt = demo.ask(Method::GET, "/healthz", "acme", "growth").await;
    assert_eq!(
        (exempt.status, exempt.header("ratelimit-limit")),
        (200, None)
    );
    let missing = demo.ask(Method::GET, "/nothing", "acme", "growth").await;
    assert_eq!(
        (missing.status, missing.header("content-type")),
        (404, Some("application/problem+json"))
    );

    let export = "/v1/reports/audit-export";
    for _ in 0..6 {
        assert_eq!(
            demo.ask(Method::GET, export, "hasty", "sandbox")
                .await
                .status,
            200
        );
    }
    let throttled = demo.ask(Method::GET, export, "hasty", "sandbox").await;
    assert_eq!(
        (throttled.status, throttled.header("x-penalty-box-status")),
        (429, Some("Warning"))
    );
    assert_eq!(
        throttled.header("content-type"),
        Some("application/problem+json")
    );
    assert_eq!(
        throttled.json()["type"],
        "https://api.yourdomain.com/errors/rate-limit-exceeded"
    );
    assert!(throttled.number("retry-after") >= 1);

    // The 40 requests that the terminal shows.
    let mut seen = Vec::new();
    for _ in 0..40 {
        let reply = demo.ask(Method::GET, export, "deaf", "sandbox").await;
        seen.push((
            reply.status,
            reply.header("x-penalty-box-status").map(ToOwned::to_owned),
        ));
    }
    seen.dedup();
    let seen: Vec<_> = seen
        .iter()
        .map(|(status, warning)| (*status, warning.as_deref()))
        .collect();
    assert_eq!(
        seen,
        [
            (200, None),
            (429, Some("Warning")),
            (429, Some("Active-Lockout"))
        ]
    );

    let metrics = Ask::new(demo.admin, Method::GET, "/stats/prometheus")
        .send()
        .await
        .text();
    let counted = r#"tollgate_requests_total{route="audit_export",tier="sandbox",verdict="boxed",mode="enforce"}"#;
    assert!(
        metrics.lines().any(|line| line.starts_with(counted)),
        "{metrics}"
    );
}
