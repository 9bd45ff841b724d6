//! A request that Envoy itself follows to another place is one request: it is charged once.

use tollgate_e2e::{Answer, Gateway, Setup};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const CONFIG: &str = "
identity: {tenant: {header: x-tenant-id}, key: {header: x-api-key-id}, default_tier: one}
tiers: {one: {tenant: 1000/hour, key: 10/hour}}
";

fn following_redirects() -> Setup {
    Setup::new(CONFIG).hcm(|hcm| {
        let route = &mut hcm["route_config"]["virtual_hosts"][0]["routes"][0]["route"];
        route["internal_redirect_policy"] = serde_json::json!({"max_internal_redirects": 3});
    })
}

#[tokio::test]
async fn an_internal_redirect_is_charged_once() -> Outcome {
    let gateway = Gateway::start(following_redirects()).await?;
    gateway.upstream().respond(|received| {
        if received.path == "/start" {
            let to = format!("http://{}/end", received.headers["host"].to_str().unwrap());
            Answer::status(302).header("location", to)
        } else {
            Answer::ok().body(received.path.clone())
        }
    });
    for left in ["9", "8", "7"] {
        let reply = gateway
            .get("/start")
            .identity("acme", "key", "one")
            .send()
            .await;
        assert_eq!((reply.status, reply.text().as_str()), (200, "/end"));
        assert_eq!(reply.header("ratelimit-remaining"), Some(left));
    }
    let stats = gateway.stats().await;
    assert_eq!(stats.sum("tollgate_points_total", &[]), 3.0);
    assert_eq!(
        stats.sum("tollgate_requests_total", &[("verdict", "allowed")]),
        3.0
    );
    let verdicts: Vec<_> = gateway
        .access_log(3)
        .await
        .into_iter()
        .map(|l| l.verdict)
        .collect();
    assert!(
        verdicts.iter().all(|v| v.as_deref() == Some("allowed")),
        "{verdicts:?}"
    );
    Ok(())
}

#[tokio::test]
async fn pretending_to_be_one_is_charged_like_any_other() -> Outcome {
    let gateway = Gateway::start(following_redirects()).await?;
    gateway.upstream().always(Answer::ok());
    let mut remaining = Vec::new();
    for _ in 0..4 {
        let ask = gateway.get("/end").identity("acme", "key", "one");
        let ask = ask
            .header("x-envoy-original-url", "http://gateway/start")
            .header("x-request-id", "known");
        remaining.push(ask.send().await.number("ratelimit-remaining"));
    }
    assert_eq!(remaining, [9, 8, 7, 6]);
    Ok(())
}
