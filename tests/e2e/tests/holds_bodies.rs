//! What names the resource to lock: a query parameter, a segment of the path, a value in the JSON body. Every spelling of
//! a name is the same resource, and a body that was read for it reaches the upstream whole.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use tollgate_e2e::{Answer, Ask, Gate, Gateway, Redis, Reply, Setup, Webdis};

#[path = "holds/held.rs"]
mod held;

use held::{holders, is_free};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const KEY: &str = "lk:{t:acme}:ledger-7";
const RULES: &str = "
identity: {tenant: {header: x-tenant-id}, key: {header: x-api-key-id}, tier: {header: x-tenant-tier}}
tiers: {one: {tenant: 10000000/minute, key: 10000000/minute}}
penalty_box: {mode: off}
routes:
- {name: by_query, match: {path: /query}, lock: {by: {query: ledger}}, on_store_failure: closed}
- {name: by_path, match: {path: '/v1/ledgers/{ledger_id}/reconcile'}, lock: {by: {path: ledger_id}}, on_store_failure: closed}
- {name: by_json, match: {path: /json}, lock: {by: {json: /ledger/id}}, on_store_failure: closed}
";
const SOON: Duration = Duration::from_millis(1_500);

struct Story {
    gateway: Gateway,
    redis: Redis,
    _webdis: Webdis,
}

impl Story {
    async fn start() -> Result<Self, Box<dyn std::error::Error>> {
        let redis = Redis::start().await;
        let webdis = Webdis::start(&redis).await;
        let config = format!("store: {{kind: redis, upstream: redis-front, timeout: 5s}}{RULES}");
        let setup = Setup::new(config.as_str())
            .front(webdis.address())
            .waits_for_bodies();
        Ok(Self {
            gateway: Gateway::start(setup).await?,
            redis,
            _webdis: webdis,
        })
    }

    fn ask(&self, path: &str) -> Ask {
        let ask = self.gateway.request(Method::POST, path);
        ask.identity("acme", "key", "one")
    }

    fn json(&self, body: impl Into<Bytes>) -> Ask {
        self.ask("/json")
            .header("content-type", "application/json")
            .body(body)
    }

    /// Each of these names `ledger-7`: while the first is at work the others are refused, and each has its turn.
    async fn are_the_same(&self, asks: Vec<Ask>) {
        for (index, ask) in asks.iter().enumerate() {
            let gate = Gate::closed();
            self.gateway.upstream().forget();
            self.gateway.upstream().always(Answer::ok().behind(&gate));
            let first = tokio::spawn(ask.clone().send());
            self.gateway.upstream().received(1).await;
            assert_eq!(holders(&self.redis, KEY).await.len(), 1, "{ask:?}");
            for other in &asks {
                let refused = other.clone().send().await;
                assert_eq!(refused.status, 409, "{other:?} after {index}: {refused:?}");
                assert_eq!(kind(&refused), "resource-locked");
            }
            gate.open();
            assert_eq!(first.await.unwrap().status, 200, "{ask:?}");
            is_free(&self.redis, KEY, SOON).await;
        }
    }

    async fn is_well(&self) {
        let stats = self.gateway.stats().await;
        assert_eq!(stats.sum("tollgate_degraded_total", &[]), 0.0);
        assert!(
            self.gateway.traps().is_empty(),
            "{:?}",
            self.gateway.traps()
        );
        assert_eq!(self.gateway.vm_reloads().await, 0);
    }
}

/// The last part of a problem's type.
fn kind(reply: &Reply) -> String {
    let problem = reply.json();
    let kind = problem["type"].as_str().unwrap();
    kind.rsplit('/').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_resource_however_it_is_named() -> Outcome {
    let story = Story::start().await?;
    let get = |path| {
        let ask = story.gateway.get(path);
        ask.identity("acme", "key", "one")
    };
    story
        .are_the_same(vec![
            get("/query?ledger=ledger-7"),
            get("/query?a=1&ledger=ledger%2D7&b=2"),
            get("/query?ledger=%6Cedger-7#part"),
            story.ask("/v1/ledgers/ledger-7/reconcile"),
            story.ask("/v1//ledgers/./ledger%2d7/reconcile/"),
            story.json(r#"{"ledger": {"id": "ledger-7"}}"#),
            story.json(r#" {"a": [{}], "ledger": {"id": "\u006cedger\u002D7", "n": 1e9}} "#),
        ])
        .await;
    story.is_well().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_in_every_form_reach_the_upstream_whole() -> Outcome {
    let story = Story::start().await?;
    story.gateway.upstream().always(Answer::ok());
    // 48 KiB, with the name at the very end.
    let large = format!(
        r#"{{"pad": "{}", "ledger": {{"id": "ledger-7"}}}}"#,
        "abcdefgh".repeat(6 * 1024)
    );
    let small = r#"{"ledger": {"id": "ledger-7"}, "text": "caf\u00e9 ☕"}"#.to_owned();
    for body in [&small, &large] {
        let pieces = |size: usize| -> Vec<Bytes> {
            let body = Bytes::from(body.clone());
            let ends = (0..body.len()).step_by(size);
            ends.map(|at| body.slice(at..body.len().min(at + size)))
                .collect()
        };
        let many = if body.len() > 1_000 { 4_099 } else { 7 };
        let json = || story.json("");
        for (form, ask) in [
            ("whole", json().body(body.clone())),
            ("chunked", json().pieces(pieces(many))),
            ("http/2", json().http2().body(body.clone())),
            ("streamed", json().http2().pieces(pieces(many))),
            (
                "with trailers",
                json().http2().pieces(pieces(many)).trailer("x-sum", "12"),
            ),
        ] {
            story.gateway.upstream().forget();
            let reply = ask.send().await;
            assert_eq!(reply.status, 200, "{form}: {reply:?}");
            let received = &story.gateway.upstream().requests()[0];
            assert!(received.body == body.as_bytes(), "{form}: another body");
            assert!(received.header("x-tollgate-fence").is_some(), "{form}");
            if form == "with trailers" {
                let trailers = received.trailers.as_ref().expect("trailers");
                assert_eq!(trailers["x-sum"], "12");
            }
            is_free(&story.redis, KEY, SOON).await;
        }
    }

    // By HTTP/1.1, byte by byte and with trailers, as only a raw client does.
    story.gateway.upstream().forget();
    let mut raw = story.gateway.raw().await;
    raw.send(
        "POST /json HTTP/1.1\r\nhost: a\r\nx-tenant-id: acme\r\nx-api-key-id: key\r\nx-tenant-tier: one\r\n\
         content-type: application/json\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n",
    )
    .await;
    for byte in small.as_bytes() {
        raw.send([b"1\r\n", &[*byte][..], b"\r\n"].concat()).await;
    }
    raw.send("0\r\nx-sum: 12\r\n\r\n").await;
    let reply = raw.receive(Duration::from_secs(5)).await;
    assert!(reply.starts_with(b"HTTP/1.1 200"), "{reply:?}");
    assert_eq!(story.gateway.upstream().requests()[0].body, small);
    story.is_well().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resource_that_is_not_named_is_refused() -> Outcome {
    let story = Story::start().await?;
    story.gateway.upstream().always(Answer::ok());
    let id = r#"{"ledger": {"id": "ledger-7"}}"#;
    let too_large = format!(
        r#"{{"pad": "{}", "ledger": {{"id": "ledger-7"}}}}"#,
        "x".repeat(200 * 1024)
    );
    let bytes = |bytes: &'static [u8]| Bytes::from_static(bytes);
    let cases = [
        (400, story.ask("/query")),
        (400, story.ask("/query?ledger=")),
        (400, story.ask("/query?ledger=a&ledger=b")),
        (400, story.ask("/query?Ledger=a")),
        (400, story.json("")),
        (400, story.ask("/json")),
        (400, story.json("{")),
        (400, story.json(r#"{"ledger": {"id": "ledger-7"}} x"#)),
        (400, story.json(r#"{"ledger": {"id": "ledger-7""#)),
        (400, story.json(r#"{"ledger": {}}"#)),
        (400, story.json(r#"{"ledger": {"id": ""}}"#)),
        (400, story.json(r#"{"ledger": {"id": null}}"#)),
        (400, story.json(r#"{"ledger": {"id": true}}"#)),
        (400, story.json(r#"{"ledger": {"id": ["ledger-7"]}}"#)),
        (400, story.json(r#"{"ledger": "ledger-7"}"#)),
        (400, story.json(r#"{"ledger": {"id": "a", "id": "b"}}"#)),
        (
            400,
            story.json(bytes(b"{\"ledger\": {\"id\": \"\xff\xfe\"}}")),
        ),
        (400, story.json(bytes(b"\xef\xbb\xbf\x00\x01"))),
        (400, story.json("[".repeat(20_000))),
        (400, story.json(id).header("content-encoding", "gzip")),
        (413, story.json(too_large.clone())),
        (
            413,
            story.json("").pieces(
                too_large
                    .as_bytes()
                    .chunks(8_192)
                    .map(Bytes::copy_from_slice),
            ),
        ),
        (413, story.json(too_large.clone()).http2()),
    ];
    for (index, (status, ask)) in cases.into_iter().enumerate() {
        let reply = ask.send().await;
        assert_eq!(reply.status, status, "case {index}: {reply:?}");
        assert_eq!(kind(&reply), "invalid-request", "case {index}");
        let detail = reply.json()["detail"].as_str().unwrap().to_owned();
        assert!(!detail.is_empty() && detail.len() < 300, "{detail}");
    }
    assert_eq!(story.gateway.upstream().requests().len(), 0);
    assert!(redis_has_no_lock(&story.redis).await);
    // And it is none of the filter's business elsewhere.
    let elsewhere = story.ask("/other").body(too_large).send().await;
    assert_eq!(elsewhere.status, 200);
    story.is_well().await;
    Ok(())
}

async fn redis_has_no_lock(redis: &Redis) -> bool {
    redis
        .keys()
        .await
        .iter()
        .all(|key| !key.name.starts_with("lk:"))
}

/// Envoy keeps a body back from a filter that stops at the headers, unless it is told otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_envoy_keeps_back_is_not_waited_for() -> Outcome {
    let shadow = "\n- {name: watched, match: {path: /watched}, mode: shadow, lock: {by: {json: /id}}, \
                  on_store_failure: closed}\n";
    let config = format!("{}{shadow}", RULES.trim_end());
    let gateway = Gateway::start(Setup::new(config.as_str())).await?;
    gateway.upstream().always(Answer::ok());
    // More than one turn can serve.
    let ask = |path: &str| {
        let ask = gateway.request(Method::POST, path);
        let ask = ask.identity("acme", "key", "one");
        ask.body(r#"{"ledger": {"id": "ledger-7"}}"#).send()
    };
    let refused: Vec<_> = (0..40).map(|_| tokio::spawn(ask("/json"))).collect();
    let watched = tokio::spawn(ask("/watched"));
    for reply in refused {
        let reply = reply.await?;
        assert_eq!(reply.status, 503, "{reply:?}");
        assert_eq!(kind(&reply), "rate-limiter-unavailable");
    }
    assert_eq!(watched.await?.status, 200);
    let received = gateway.upstream().requests();
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].body, r#"{"ledger": {"id": "ledger-7"}}"#);
    assert!(gateway.logs().contains("allow_on_headers_stop_iteration"));
    assert!(gateway.traps().is_empty(), "{:?}", gateway.traps());
    Ok(())
}
