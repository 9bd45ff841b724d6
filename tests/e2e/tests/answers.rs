//! What clients, upstreams, access logs and metrics see on a real Envoy.

use http::Version;
use tollgate_e2e::{Answer, Gateway, Setup, eventually};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const CONFIG: &str = "
identity: {tenant: {header: x-tenant-id}, key: {header: x-api-key-id}, tier: {header: x-tenant-tier}}
tiers: {one: {tenant: 1000/hour, key: 2/hour, penalty: {strikes: 2, within: 60s}}}
exempt: [/healthz]
penalty_box: {grace: 0}
routes:
  - {name: writes, match: {methods: [POST], path: /v1/*}, idempotency_key: required}
  - {name: shadowed, match: {path: /shadow}, mode: shadow}
";

#[tokio::test]
async fn from_allowed_to_throttled_to_boxed() -> Outcome {
    let gateway = Gateway::start(Setup::new(CONFIG).workers(2)).await?;
    let upstream = Answer::ok()
        .header("ratelimit-limit", "99")
        .header("x-own", "kept");
    gateway.upstream().always(upstream);
    let ask = || {
        gateway
            .get("/x")
            .identity("acme", "key", "one")
            .header("x-tollgate-lease", "forged")
    };

    let reply = ask().send().await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("ratelimit-policy"), Some("2;w=3600"));
    assert_eq!(reply.headers.get_all("ratelimit-limit").iter().count(), 1);
    assert_eq!(reply.header("ratelimit-limit"), Some("2"));
    assert_eq!(reply.header("ratelimit-remaining"), Some("1"));
    assert_eq!(reply.header("ratelimit-reset"), Some("1800"));
    assert_eq!(reply.header("x-own"), Some("kept"));
    let [received] = &gateway.upstream().requests()[..] else {
        panic!("one request")
    };
    assert!(!received.headers.contains_key("x-tollgate-lease"));
    ask().send().await;

    let reply = ask().send().await;
    assert_eq!(reply.status, 429);
    assert_eq!(
        reply.header("content-type"),
        Some("application/problem+json")
    );
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    assert_eq!(reply.header("x-penalty-box-status"), Some("Warning"));
    assert_eq!(reply.header("ratelimit-remaining"), Some("0"));
    let wait = reply.number("retry-after");
    assert!((1799..=1980).contains(&wait), "{wait}");
    let body = reply.json();
    assert_eq!(
        body["type"],
        "https://api.yourdomain.com/errors/rate-limit-exceeded"
    );
    assert_eq!(body["retry_after_seconds"], wait);
    assert_eq!(body["instance"], "/x");
    assert_eq!(body["violated-policies"], serde_json::json!(["key"]));
    assert!(!reply.text().contains("key-"), "no key's name");

    // Promised 1800 s, 3600 s, 5400 s; then each is a strike.
    let mut last = reply;
    for _ in 0..4 {
        last = ask().send().await;
    }
    assert_eq!(last.header("x-penalty-box-status"), Some("Active-Lockout"));
    assert_eq!(last.header("ratelimit-limit"), None);
    let wait = last.number("retry-after");
    assert!((299..=330).contains(&wait), "{wait}");
    assert_eq!(last.json()["penalty_level"], 1);
    assert_eq!(
        gateway.upstream().requests().len(),
        2,
        "no refusal reached the upstream"
    );

    let lines = gateway.access_log(7).await;
    let verdicts: Vec<&str> = lines
        .iter()
        .map(|l| l.verdict.as_deref().unwrap_or("none"))
        .collect();
    let wanted = [
        "allowed",
        "allowed",
        "throttled",
        "throttled",
        "throttled",
        "throttled",
        "boxed",
    ];
    assert_eq!(verdicts, wanted);
    let trips = eventually(
        "the trip is counted",
        std::time::Duration::from_secs(5),
        async || {
            let stats = gateway.stats().await;
            let trips = stats.sum(
                "tollgate_box_trips_total",
                &[("level", "1"), ("scope", "key")],
            );
            (trips > 0.0).then_some(trips)
        },
    );
    assert_eq!(trips.await, 1.0);
    let stats = gateway.stats().await;
    let labels = [
        ("route", "default"),
        ("tier", "one"),
        ("verdict", "throttled"),
        ("mode", "enforce"),
    ];
    assert_eq!(stats.sum("tollgate_requests_total", &labels), 4.0);
    assert!(gateway.traps().is_empty());
    Ok(())
}

#[tokio::test]
async fn http2_head_and_shadow() -> Outcome {
    let gateway = Gateway::start(Setup::new(CONFIG)).await?;
    gateway.upstream().always(Answer::ok());
    let ask = |path: &str| gateway.get(path).identity("acme", "key", "one").http2();
    for _ in 0..2 {
        assert_eq!(ask("/x").send().await.status, 200);
    }
    let reply = ask("/x").send().await;
    assert_eq!((reply.status, reply.version), (429, Version::HTTP_2));
    assert_eq!(reply.json()["status"], 429);

    for http2 in [false, true] {
        let head = gateway.head("/x").identity("acme", "key", "one");
        let reply = if http2 { head.http2() } else { head }.send().await;
        assert_eq!(reply.status, 429);
        assert_eq!(reply.text(), "");
        assert_eq!(
            reply.header("content-type"),
            Some("application/problem+json")
        );
        assert!(
            reply.number("content-length") > 100,
            "the length a GET would have"
        );
        assert_eq!(reply.header("transfer-encoding"), None);
    }

    for verdict in ["shadow_allowed", "shadow_allowed", "shadow_throttled"] {
        let reply = ask("/shadow").send().await;
        assert_eq!(reply.status, 200, "{verdict}");
        assert_eq!(reply.header("ratelimit-limit"), Some("2"), "{verdict}");
        assert_eq!(reply.header("retry-after"), None, "{verdict}");
    }
    assert_eq!(ask("/healthz").send().await.header("ratelimit-limit"), None);
    let verdicts: Vec<String> = gateway
        .access_log(9)
        .await
        .into_iter()
        .map(|l| l.verdict.unwrap_or_default())
        .collect();
    assert_eq!(
        verdicts[5..],
        [
            "shadow_allowed",
            "shadow_allowed",
            "shadow_throttled",
            "exempt"
        ]
    );
    Ok(())
}

#[tokio::test]
async fn grpc_clients_get_grpc_statuses() -> Outcome {
    let gateway = Gateway::start(Setup::new(CONFIG)).await?;
    gateway.upstream().always(Answer::grpc(b"pong"));
    let client = gateway.grpc().await;
    let identity = [
        ("x-tenant-id", "acme"),
        ("x-api-key-id", "key"),
        ("x-tenant-tier", "one"),
    ];
    let call = async |path: &str| client.call(path, &identity, &b"ping"[..]).await;

    for _ in 0..2 {
        let answer = call("/ledger.v1.Ledger/Get").await?;
        assert_eq!(answer.metadata().get("ratelimit-limit").unwrap(), "2");
    }
    let refused = call("/ledger.v1.Ledger/Get").await.expect_err("throttled");
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
    assert!(
        refused.message().contains("Capacity refills"),
        "{}",
        refused.message()
    );
    let wait: u64 = refused
        .metadata()
        .get("retry-after")
        .unwrap()
        .to_str()?
        .parse()?;
    assert!((1799..=1980).contains(&wait), "{wait}");
    assert_eq!(refused.metadata().get("ratelimit-remaining").unwrap(), "0");
    assert_eq!(
        refused.metadata().get("x-penalty-box-status").unwrap(),
        "Warning"
    );

    // A gRPC method under /v1 is a POST to a route that needs a key.
    let refused = call("/v1/Post").await.expect_err("no key");
    assert_eq!(refused.code(), tonic::Code::FailedPrecondition);
    Ok(())
}

#[tokio::test]
async fn identity_from_another_filter() -> Outcome {
    let lua = "
        name: envoy.filters.http.lua
        typed_config:
          '@type': type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
          default_source_code:
            inline_string: |
              function envoy_on_request(handle)
                local claims = {sub = handle:headers():get('who'), plan = 'one', org = 42}
                handle:streamInfo():dynamicMetadata():set('auth', 'payload', claims)
              end
    ";
    let config = "
        identity:
          tenant: {property: [metadata, filter_metadata, auth, payload, org]}
          key: {property: [metadata, filter_metadata, auth, payload, sub]}
          tier: {property: [metadata, filter_metadata, auth, payload, plan]}
        tiers: {one: {tenant: 1000/hour, key: 5/hour}}
    ";
    let gateway = Gateway::start(Setup::new(config).filter_before(lua)).await?;
    gateway.upstream().always(Answer::ok());
    for (who, left) in [("ann", "4"), ("ann", "3"), ("bob", "4")] {
        let reply = gateway.get("/").header("who", who).send().await;
        assert_eq!(
            (
                reply.header("ratelimit-limit"),
                reply.header("ratelimit-remaining")
            ),
            (Some("5"), Some(left))
        );
    }
    // Who has no claims is anonymous.
    assert_eq!(
        gateway.get("/").send().await.header("ratelimit-limit"),
        Some("60")
    );
    Ok(())
}
