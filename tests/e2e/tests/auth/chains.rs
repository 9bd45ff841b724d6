//! The other shipped bootstraps with Tollgate before what checks credentials: jwt_authn, ext_authz, a token endpoint. Owns
//! those files; everything but their ports is as it is shipped.

use std::net::SocketAddr;

use http::Method;
use tollgate_e2e::{Answer, Ask, Gateway, Setup, Upstream, repository};

use crate::Outcome;
use crate::door::{RIGHT, TOKEN, authorization, judge};
use crate::refusals::{is_locked_out, kind, lockout};

fn token(name: &str) -> String {
    let path = repository().join("envoy/tokens").join(name);
    let text = std::fs::read_to_string(&path).unwrap();
    text.trim().to_owned()
}

/// Header and payload of one token, signature of another.
fn forged(payload: &str, signature: &str) -> String {
    let (head, _) = payload.rsplit_once('.').unwrap();
    let (_, tail) = signature.rsplit_once('.').unwrap();
    format!("{head}.{tail}")
}

fn bearer(gateway: &Gateway, token: &str) -> Ask {
    let ask = gateway.get("/v1/ledgers");
    ask.header("authorization", format!("Bearer {token}"))
}

/// How many failures were counted by this throttle.
async fn counted(gateway: &Gateway, throttle: &str) -> f64 {
    let stats = gateway.stats().await;
    stats.sum("tollgate_auth_failures_total", &[("throttle", throttle)])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_passes_two_instances_and_is_charged_once() -> Outcome {
    let gateway = Gateway::start(Setup::example("jwt-authn.yaml").workers(2)).await?;
    let (acme, globex) = (token("acme.jwt"), token("globex.jwt"));
    for left in [299, 298, 297] {
        let reply = bearer(&gateway, &acme).send().await;
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(
            (
                reply.number("ratelimit-limit"),
                reply.number("ratelimit-remaining")
            ),
            (300, left)
        );
    }
    // Who it is says the token, and nothing else.
    let other = bearer(&gateway, &globex).identity("acme", "acme-ci", "standard");
    assert_eq!(other.send().await.number("ratelimit-remaining"), 299);

    // The one Idempotency-Key, seen twice on the way, is nobody else's.
    let post = |key: Option<&str>| {
        let ask = gateway.request(Method::POST, "/v1/ledgers");
        let ask = ask.header("authorization", format!("Bearer {acme}"));
        match key {
            Some(key) => ask.header("idempotency-key", key),
            None => ask,
        }
    };
    for key in ["run-1", "run-1", "run-2"] {
        let reply = post(Some(key)).send().await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    let keyless = post(None).send().await;
    assert_eq!(
        (keyless.status, kind(&keyless).as_str()),
        (400, "idempotency-key-required")
    );

    let stats = gateway.stats().await;
    assert_eq!(
        stats.sum("tollgate_points_total", &[("tier", "standard")]),
        7.0
    );
    let allowed = [("tier", "standard"), ("verdict", "allowed")];
    assert_eq!(stats.sum("tollgate_requests_total", &allowed), 7.0);
    assert_eq!(counted(&gateway, "bad-tokens").await, 0.0);
    let lines = gateway.access_log(8).await;
    let verdicts: Vec<_> = lines
        .iter()
        .map(|line| line.verdict.as_deref().unwrap_or("none"))
        .collect();
    assert_eq!(verdicts[..7], ["allowed"; 7]);
    assert!(gateway.traps().is_empty(), "{:?}", gateway.traps());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_tokens_lock_an_address_out() -> Outcome {
    let gateway = Gateway::start(Setup::example("jwt-authn.yaml").workers(2)).await?;
    let (acme, globex) = (token("acme.jwt"), token("globex.jwt"));
    let unsigned = {
        let payload = acme.split('.').nth(1).unwrap();
        // {"alg":"none"}
        format!("eyJhbGciOiJub25lIn0.{payload}.")
    };
    let bad = [
        token("expired.jwt"),
        forged(&acme, &globex),
        forged(&globex, &acme),
        unsigned,
        "not-a-token".to_owned(),
    ];
    // Limits are for those who are known; an address that only tries has the throttle's.
    for n in 0..20 {
        let reply = bearer(&gateway, &bad[n % bad.len()])
            .from([127, 0, 0, 2])
            .send()
            .await;
        assert_eq!(reply.status, 401, "{n}: {reply:?}");
        assert_eq!(bearer(&gateway, &acme).send().await.status, 200, "{n}");
    }
    for token in [&bad[1], &acme] {
        let refused = bearer(&gateway, token).from([127, 0, 0, 2]).send().await;
        assert!(lockout(&refused).is(1, 300), "{refused:?}");
    }
    assert_eq!(bearer(&gateway, &acme).send().await.status, 200);
    assert_eq!(counted(&gateway, "bad-tokens").await, 20.0);
    let lines = gateway.access_log(43).await;
    let locked = lines
        .iter()
        .filter(|line| line.verdict.as_deref() == Some("auth_lockout"));
    assert_eq!(locked.count(), 2);
    assert!(gateway.traps().is_empty(), "{:?}", gateway.traps());
    Ok(())
}

/// Many requests of one address are under way at once, since none of them takes a slot.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn good_tokens_are_not_counted_as_they_come() -> Outcome {
    let gateway = Gateway::start(Setup::example("jwt-authn.yaml")).await?;
    let acme = token("acme.jwt");
    let volley = gateway
        .volley(100, (0..200).map(|_| bearer(&gateway, &acme)))
        .await;
    assert_eq!(volley.count(200), 200, "{:?}", volley.statuses());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_auth_service_refuses_counts() -> Outcome {
    let gateway = Gateway::start(Setup::example("ext-authz.yaml")).await?;
    let from = |token: &str, last: u8| bearer(&gateway, token).from([127, 0, 0, last]);
    for n in 0..20 {
        let (token, status) = [("wrong", 401), ("blocked", 403)][n % 2];
        assert_eq!(from(token, 2).send().await.status, status, "{n}");
        let good = from("demo-token", 1).send().await;
        assert_eq!(
            (good.status, good.number("ratelimit-limit")),
            (200, 600),
            "{n}"
        );
    }
    let refused = from("demo-token", 2).send().await;
    assert!(lockout(&refused).is(1, 300), "{refused:?}");
    assert_eq!(from("demo-token", 1).send().await.status, 200);
    assert_eq!(counted(&gateway, "bad-tokens").await, 20.0);
    assert!(gateway.traps().is_empty(), "{:?}", gateway.traps());
    Ok(())
}

/// Who is locked out costs the service nothing; and one that is down locks nobody out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_auth_service_is_spared_and_its_failures_are_its_own() -> Outcome {
    let service = Upstream::start().await;
    service.respond(
        |received| match received.header("authorization").as_deref() {
            Some("Bearer demo-token") => Answer::status(200),
            _ => Answer::status(401),
        },
    );
    let setup = Setup::example("ext-authz.yaml").cluster("authz", service.address());
    let gateway = Gateway::start(setup).await?;
    let asks = (0..60).map(|_| bearer(&gateway, "wrong"));
    let volley = gateway.volley(1, asks).await;
    assert_eq!(
        (volley.count(401), volley.count(429)),
        (20, 40),
        "{:?}",
        volley.statuses()
    );
    let asked = service.requests();
    assert_eq!(asked.len(), 20);
    assert_eq!(asked[0].path, "/authorize/v1/ledgers");

    let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
    let setup = Setup::example("ext-authz.yaml").cluster("authz", nobody);
    let gateway = Gateway::start(setup).await?;
    for n in 0..30 {
        let reply = bearer(&gateway, "demo-token").send().await;
        assert_eq!(reply.status, 503, "{n}: {reply:?}");
    }
    assert_eq!(counted(&gateway, "bad-tokens").await, 0.0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_endpoint_hears_five_guesses() -> Outcome {
    let gateway = Gateway::start(Setup::example("token-endpoint.yaml")).await?;
    let ask = |subject: &str, secret: &str| {
        let ask = gateway
            .post(TOKEN)
            .header("authorization", authorization(subject, secret));
        ask.header("content-type", "application/x-www-form-urlencoded")
            .body("grant_type=client_credentials")
    };
    let good = ask("acme", "demo-secret").send().await;
    assert_eq!(good.status, 200, "{good:?}");
    assert_eq!(good.json()["token_type"], "Bearer");
    for n in 0..5 {
        let reply = ask("globex", "wrong").send().await;
        assert_eq!(
            (reply.status, reply.header("www-authenticate")),
            (401, Some("Basic")),
            "{n}"
        );
    }
    assert!(lockout(&ask("globex", "wrong").send().await).is(1, 300));
    assert_eq!(ask("acme", "demo-secret").send().await.status, 200);
    // Everything else is as anonymous as before.
    let elsewhere = gateway.get("/v1/ledgers").send().await;
    assert_eq!(
        (elsewhere.status, elsewhere.number("ratelimit-limit")),
        (404, 60)
    );
    assert!(gateway.traps().is_empty(), "{:?}", gateway.traps());
    Ok(())
}

/// The same before an endpoint that reads the body.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_endpoint_gets_the_body_that_was_read() -> Outcome {
    let api = Upstream::start().await;
    api.respond(judge);
    let setup = Setup::example("token-endpoint.yaml").upstream(api.address());
    let gateway = Gateway::start(setup).await?;
    let ask = |secret: &str| {
        let body = format!("client_id=acme&client_secret={secret}");
        let ask = gateway.post(TOKEN);
        ask.header("content-type", "application/x-www-form-urlencoded")
            .body(body)
    };
    assert_eq!(ask(RIGHT).send().await.status, 200);
    let asks = (0..50).map(|n| ask(&format!("guess-{n}")).from([127, 0, 0, 2]));
    let volley = gateway.volley(10, asks).await;
    assert_eq!(
        (volley.count(401), volley.count(429)),
        (5, 45),
        "{:?}",
        volley.statuses()
    );
    let received = api.requests();
    assert_eq!(received.len(), 6);
    assert!(
        received
            .iter()
            .all(|one| one.body.starts_with(b"client_id=acme&client_secret="))
    );
    assert_eq!(ask(RIGHT).send().await.status, 200);
    assert!(is_locked_out(&ask(RIGHT).from([127, 0, 0, 3]).send().await));
    Ok(())
}

/// They tell metrics apart as envoy.yaml does.
#[test]
fn all_bootstraps_ship_the_same_labels() {
    let labels = |file: &str| {
        let path = repository().join("envoy").join(file);
        let text = std::fs::read_to_string(path).unwrap();
        let bootstrap: serde_json::Value = serde_yaml_ng::from_str(&text).unwrap();
        bootstrap["stats_config"].clone()
    };
    let shipped = labels("envoy.yaml");
    assert!(shipped["stats_tags"].is_array());
    for file in [
        "adr-018.yaml",
        "jwt-authn.yaml",
        "ext-authz.yaml",
        "token-endpoint.yaml",
    ] {
        assert_eq!(labels(file), shipped, "{file}");
    }
}
