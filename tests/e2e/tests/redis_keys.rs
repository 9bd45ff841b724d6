//! What Tollgate leaves in Redis and sends to it: keys of known names that go away by themselves, no secret anywhere,
//! calls that every front can take, and, for a cluster, none that spans two hash tags.

use std::collections::BTreeSet;

use serde_json::json;
use tollgate_e2e::{Answer, Ask, Faulty, Gateway, Key, Redis, RestFront, Setup, Webdis};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const SECRET: &str = "sk_live_4eC39HqLyjWDarjtT1zdp7dc";
/// Its SHA-256 in base64url.
const HASHED: &str = "eKCEQfQxTwooM8_ljGLlVaFiJkIGmCzaOfaAT1BI9XA";

/// Whether a name is one of those that are documented, after the prefix.
fn is_documented(name: &str) -> bool {
    let name = name.strip_prefix("sh:").unwrap_or(name);
    let Some((family, rest)) = name.split_once(":{") else {
        return false;
    };
    let Some((tag, rest)) = rest.split_once('}') else {
        return false;
    };
    let is_id = |text: &str| {
        (1..=64).contains(&text.len())
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    let parts: Vec<&str> = rest.split(':').skip(1).collect();
    match tag.split_once(':') {
        Some(("t", tenant)) if is_id(tenant) => match (family, &parts[..]) {
            ("rl", ["tb"]) => true,
            ("rl", ["tb", key]) | ("pb", ["box" | "strikes" | "off", key]) => is_id(key),
            _ => false,
        },
        Some(("ip", ip)) => {
            let known = ip
                .bytes()
                .all(|byte| byte.is_ascii_hexdigit() || b".:/".contains(&byte));
            let name = matches!(
                (family, &parts[..]),
                ("rl", ["tb" | "an"]) | ("pb", ["box" | "strikes" | "off"])
            );
            known && name
        }
        _ => false,
    }
}

/// Everything that Redis holds of these keys, as text.
async fn dump(redis: &Redis, keys: &[Key]) -> String {
    let mut text = String::new();
    for key in keys {
        let value: Vec<String> = match key.kind.as_str() {
            "string" => vec![redis.ask(&["GET", &key.name]).await.unwrap()],
            "hash" => redis.ask(&["HGETALL", &key.name]).await.unwrap(),
            other => panic!("{} is a {other}", key.name),
        };
        text.push_str(&format!("{} {value:?}\n", key.name));
    }
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_named_as_documented_and_go_away() -> Outcome {
    let redis = Redis::start().await;
    let webdis = Webdis::start(&redis).await;
    let config = r#"
    store: {kind: redis, upstream: redis-front, timeout: 1s, key_prefix: "prod.eu/1:"}
    identity: {tenant: {header: x-tenant-id}, key: {header: x-api-key, sha256: true}, default_tier: one,
               client_ip: {from: x-forwarded-for, trusted_hops: 1}}
    ip_limit: 100000/minute
    anonymous: {limit: 3/minute}
    tiers: {one: {tenant: 100000/minute, key: {points: 10, per: 60s, burst: 2}, penalty: {strikes: 2, within: 60s}}}
    penalty_box: {grace: 0s}
    routes: [{name: watched, match: {path: /watched}, mode: shadow}]
    "#;
    // The address that clients claim is the one that counts: Envoy adds none.
    let claimed = |hcm: &mut serde_json::Value| hcm["use_remote_address"] = json!(false);
    let setup = Setup::new(config).front(webdis.address()).hcm(claimed);
    let gateway = Gateway::start(setup).await?;
    gateway.upstream().always(Answer::ok());
    let long = "z".repeat(3_000);
    let tenants: [&[u8]; 8] = [
        b"acme",
        b"a b",
        b"caf\xc3\xa9",
        b"{t:x}",
        b"a/b.c%20",
        b"jane@example.com",
        b"\xff\xfe",
        long.as_bytes(),
    ];
    let known = |ask: Ask, tenant: &[u8], key: &str| {
        ask.header("x-tenant-id", tenant).header("x-api-key", key)
    };
    for ip in ["192.0.2.7", "2001:db8:1:2:3:4:5:6", "not an address"] {
        for _ in 0..30 {
            let ask = gateway.get("/").header("x-forwarded-for", ip);
            ask.send().await;
        }
    }
    for tenant in tenants {
        for path in ["/", "/watched"] {
            // Enough for a box.
            for _ in 0..20 {
                let ask = gateway.get(path).header("x-forwarded-for", "192.0.2.7");
                let reply = known(ask, tenant, SECRET).send().await;
                assert!(matches!(reply.status, 200 | 429), "{reply:?}");
            }
        }
    }
    let stats = gateway.stats().await;
    assert_eq!(stats.sum("tollgate_degraded_total", &[]), 0.0);
    assert!(stats.sum("tollgate_box_trips_total", &[]) >= 8.0);

    let keys = redis.keys().await;
    let names: BTreeSet<&str> = keys.iter().map(|key| key.name.as_str()).collect();
    for key in &keys {
        assert!(key.ttl.is_some(), "{} stays for ever", key.name);
        // The longest that is kept: offenses for a day, by default.
        assert!(key.ttl.unwrap().as_secs() <= 25 * 3600, "{key:?}");
        let name = key.name.strip_prefix("prod.eu/1:");
        assert!(name.is_some_and(is_documented), "{key:?}");
    }
    for name in [
        format!("rl:{{t:acme}}:tb:{HASHED}"),
        "rl:{t:acme}:tb".to_owned(),
        format!("pb:{{t:acme}}:box:{HASHED}"),
        format!("pb:{{t:acme}}:off:{HASHED}"),
        format!("sh:rl:{{t:acme}}:tb:{HASHED}"),
        format!("sh:pb:{{t:acme}}:off:{HASHED}"),
        "rl:{ip:192.0.2.7}:tb".to_owned(),
        "rl:{ip:192.0.2.7}:an".to_owned(),
        "pb:{ip:192.0.2.7}:box".to_owned(),
    ] {
        let name = format!("prod.eu/1:{name}");
        assert!(names.contains(name.as_str()), "no {name} in {names:#?}");
    }
    let level: String = redis
        .ask(&["GET", &format!("prod.eu/1:pb:{{t:acme}}:box:{HASHED}")])
        .await?;
    assert_eq!(level, "1");

    let everything = dump(&redis, &keys).await;
    let logs = gateway.logs();
    let metrics: Vec<String> = stats
        .starting("tollgate_")
        .map(ToString::to_string)
        .collect();
    for text in [everything.as_str(), &logs, &metrics.join("\n")] {
        for raw in [SECRET, "jane", "example.com", "zzzz", "a b", "caf"] {
            assert!(!text.contains(raw), "{raw} in {text}");
        }
    }
    assert!(gateway.traps().is_empty(), "{:?}", gateway.traps());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_largest_call_for_one_tenant_fits_four_kilobytes() -> Outcome {
    let redis = Redis::start().await;
    let webdis = Webdis::start(&redis).await;
    let mut largest = 0;
    for box_mode in ["enforce", "shadow", "off"] {
        let recorder = Faulty::start(webdis.address()).await;
        let config = format!(
            r#"
            store: {{kind: redis, upstream: redis-front, timeout: 1s, key_prefix: "{prefix}",
                     authorization: "Basic {word}"}}
            identity: {{tenant: {{header: x-tenant-id}}, key: {{header: x-api-key-id}}, default_tier: one,
                       client_ip: {{from: x-forwarded-for, trusted_hops: 1, ipv6_prefix: 128}}}}
            ip_limit: {{points: 999999, per: 86400s, burst: 999999}}
            tiers: {{one: {{tenant: {{points: 999999, per: 86400s, burst: 999999}},
                          key: {{points: 999998, per: 86399s, burst: 999998}},
                          penalty: {{strikes: 1000, within: 24h}}}}}}
            penalty_box: {{mode: {box_mode}, grace: 1h, offense_memory: 90d, level_1: 24h, level_2: 24h, level_3: 90d}}
            routes: [{{name: dear, match: {{path: /dear}}, cost: 999998}},
                     {{name: watched, match: {{path: /watched}}, cost: 999998, mode: shadow}}]
            degraded: {{share: 1}}
            "#,
            prefix = "p".repeat(64),
            word = "Zm9vYmFyOnNlY3JldC1zZWNyZXQ=",
        );
        let claimed = |hcm: &mut serde_json::Value| hcm["use_remote_address"] = json!(false);
        let setup = Setup::new(config.as_str())
            .front(recorder.address())
            .hcm(claimed);
        let gateway = Gateway::start(setup).await?;
        gateway.upstream().always(Answer::ok());
        for path in ["/dear", "/watched", "/dear", "/watched"] {
            let ask = gateway
                .get(path)
                .header("x-tenant-id", "t".repeat(64))
                .header("x-api-key-id", "k".repeat(64))
                .header("x-forwarded-for", "fd12:3456:789a:bcde:f012:3456:789a:bcde");
            let reply = ask.send().await;
            assert!(matches!(reply.status, 200 | 429), "{reply:?}");
        }
        let stats = gateway.stats().await;
        assert_eq!(stats.sum("tollgate_degraded_total", &[]), 0.0);
        let asked = recorder.asked();
        // The script itself is longer, and goes out once.
        let has_script = |call: &[u8]| String::from_utf8_lossy(call).contains("Tollgate:");
        let decisions = asked.iter().filter(|call| !has_script(call));
        let mut seen = 0;
        for call in decisions {
            let text = String::from_utf8_lossy(call);
            assert!(text.starts_with("GET /EVALSHA/"), "{text}");
            assert!(text.ends_with("\r\n\r\n"), "{text}");
            assert!(call.len() < 4096, "{}: {text}", call.len());
            largest = largest.max(call.len());
            seen += 1;
        }
        assert!(seen >= 4, "{seen} decisions of {}", asked.len());
    }
    println!("the largest call has {largest} bytes");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_never_asked_across_hash_tags() -> Outcome {
    let redis = Redis::cluster().await;
    let rest = RestFront::start(&redis, "secret").await;
    let webdis = Webdis::with(&redis, json!({"threads": 2})).await;
    let upstash = r#"dialect: upstash, authorization: "Bearer secret""#;
    for (store, front) in [
        (upstash, rest.address()),
        ("dialect: webdis", webdis.address()),
    ] {
        let () = redis.ask(&["FLUSHALL"]).await?;
        let config = format!(
            "
            store: {{kind: redis, upstream: redis-front, topology: cluster, timeout: 5s, {store}}}
            identity: {{tenant: {{header: x-tenant-id}}, key: {{header: x-api-key-id}}, tier: {{header: x-tenant-tier}}}}
            ip_limit: 8/hour
            tiers: {{one: {{tenant: 100000/minute, key: 5/hour}}}}
            anonymous: {{limit: 1000/minute}}
            "
        );
        let gateway = Gateway::start(Setup::new(config.as_str()).front(front)).await?;
        gateway.upstream().always(Answer::ok());
        let ask = |tenant: &str, ip: u8| {
            gateway
                .get("/")
                .from([127, 0, 0, ip])
                .identity(tenant, "key", "one")
        };
        let mut statuses = Vec::new();
        for tenant in ["acme"; 8].into_iter().chain(["other"; 4]) {
            statuses.push(ask(tenant, 7).send().await.status);
        }
        // The tenant's refusals gave the address its points back: 5 spent, 3 left.
        let expected = [200, 200, 200, 200, 200, 429, 429, 429, 200, 200, 200, 429];
        assert_eq!(statuses, expected, "{store}");

        // Many tenants and addresses at once. By Webdis each is two calls, one after the other.
        let asks = (0..400).map(|n| ask(&format!("t-{n}"), 10 + u8::try_from(n % 100).unwrap()));
        let mut crowd = tokio::task::JoinSet::new();
        for ask in asks {
            crowd.spawn(ask.send());
        }
        let passed = crowd.join_all().await;
        assert!(passed.iter().all(|reply| reply.status == 200));
        let stats = gateway.stats().await;
        let kinds: Vec<_> = stats
            .starting("tollgate_store_errors")
            .filter(|sample| sample.labels["kind"] != "noscript" && sample.value > 0.0)
            .collect();
        assert!(kinds.is_empty(), "{store}: {kinds:?}");
        assert_eq!(stats.sum("tollgate_degraded_total", &[]), 0.0);
        assert!(gateway.traps().is_empty(), "{:?}", gateway.traps());
        assert!(redis.keys().await.iter().all(|key| key.ttl.is_some()));
    }
    let (requests, commands) = rest.counts();
    assert!(commands >= requests, "{commands} in {requests}");
    Ok(())
}
