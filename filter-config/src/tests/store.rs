//! `store` of both kinds, and what a store that can fail asks of costs.

use proptest::prelude::*;
use serde_json::json;

use super::{errors, no_env, parse};
use crate::{
    Breaker, Config, ConfigErrors, Front, Millis, Redis, Secret, StoreKind, Topology, tree::Node,
};

/// A configuration with this store.
fn with(store: serde_json::Value) -> Result<Config, ConfigErrors> {
    parse(&json!({"store": store}).to_string())
}

/// What a Redis with these fields and an upstream becomes.
fn redis(mut fields: serde_json::Value) -> Redis {
    fields["kind"] = "redis".into();
    fields["upstream"] = "front".into();
    match with(fields).unwrap().store.kind {
        StoreKind::Redis(redis) => redis,
        StoreKind::Local => panic!("a local store"),
    }
}

/// The errors of a Redis with this field and an upstream, one after the other.
fn refused(field: &str, value: serde_json::Value) -> String {
    let mut store = json!({"kind": "redis", "upstream": "front"});
    store[field] = value;
    with(store).unwrap_err().to_string()
}

#[test]
fn the_store_is_local_unless_it_is_said_otherwise() {
    for store in [json!({}), json!({"kind": "local"}), json!({"kind": null})] {
        assert_eq!(with(store).unwrap().store.kind, StoreKind::Local);
    }
}

#[test]
fn a_redis_has_the_defaults_of_the_reference() {
    assert_eq!(
        redis(json!({})),
        Redis {
            upstream: "front".to_owned(),
            dialect: Front::Webdis,
            topology: Topology::Standalone,
            timeout: Millis(20),
            authorization: None,
            key_prefix: String::new(),
            breaker: Breaker {
                failures: 5,
                open_for: Millis(2000),
            },
        }
    );
}

#[test]
fn every_field_of_a_redis_is_read() {
    let fields = json!({
        "dialect": "upstash",
        "topology": "cluster",
        "timeout": "35ms",
        "authorization": "Bearer a b~",
        "key_prefix": "tollgate:eu/1.",
        "breaker": {"failures": 1, "open_for": "500ms"},
    });
    assert_eq!(
        redis(fields),
        Redis {
            upstream: "front".to_owned(),
            dialect: Front::Upstash,
            topology: Topology::Cluster,
            timeout: Millis(35),
            authorization: Some(Secret("Bearer a b~".to_owned())),
            key_prefix: "tollgate:eu/1.".to_owned(),
            breaker: Breaker {
                failures: 1,
                open_for: Millis(500),
            },
        }
    );
}

#[test]
fn a_redis_without_an_upstream_is_refused() {
    for upstream in [json!(null), json!("")] {
        let store = json!({"kind": "redis", "upstream": upstream});
        let error = with(store).unwrap_err().to_string();
        assert!(error.starts_with("store.upstream: found "), "{error}");
    }
    for upstream in ["a b", " a", "a\n", "a\u{0}", "a\u{a0}b"] {
        let error = refused("upstream", upstream.into());
        assert!(error.starts_with("store.upstream: found \""), "{error}");
    }
    for upstream in ["outbound|80||front.default.svc", "10.0.0.1:7379", "é"] {
        let store = json!({"kind": "redis", "upstream": upstream});
        assert!(with(store).is_ok(), "{upstream}");
    }
}

#[test]
fn a_timeout_is_a_millisecond_to_a_minute() {
    for (timeout, expected) in [
        (json!("1ms"), 1),
        (json!("999ms"), 999),
        (json!("60s"), 60_000),
        (json!(1), 1000),
    ] {
        assert_eq!(
            redis(json!({ "timeout": timeout })).timeout,
            Millis(expected)
        );
    }
    for timeout in [
        json!("0ms"),
        json!(0),
        json!(-1),
        json!(0.02),
        json!("0.5ms"),
        json!("500us"),
        json!("60001ms"),
        json!(61),
        json!("20"),
    ] {
        let error = refused("timeout", timeout.clone());
        assert!(error.starts_with("store.timeout: found "), "{timeout}");
        assert!(error.contains("expected a duration"), "{timeout}: {error}");
    }
}

#[test]
fn a_timeout_of_more_than_a_second_is_probably_not_meant() {
    let warnings = |timeout: serde_json::Value| {
        let store = json!({"kind": "redis", "upstream": "front", "timeout": timeout});
        with(store).unwrap().warnings.len()
    };
    assert_eq!(warnings(json!("1s")), 0);
    assert_eq!(warnings(json!("1001ms")), 1);
    assert_eq!(warnings(json!(20)), 1);
}

#[test]
fn a_key_prefix_can_stand_before_a_hash_tag() {
    let most = "k".repeat(64);
    assert_eq!(redis(json!({ "key_prefix": most })).key_prefix, most);
    for prefix in [
        "{",
        "}",
        "a{b}",
        "a b",
        "a\t",
        "é",
        "\u{7f}",
        "${UNSET:-a b}",
    ] {
        let error = refused("key_prefix", prefix.into());
        assert!(error.starts_with("store.key_prefix: found \""), "{error}");
    }
    assert!(refused("key_prefix", "k".repeat(65).into()).starts_with("store.key_prefix: "));
}

#[test]
fn a_breaker_opens_after_at_least_one_failure_and_for_some_time() {
    for breaker in [
        json!({"failures": 0}),
        json!({"failures": 1.5}),
        json!({"failures": 1_000_001}),
        json!({"open_for": 0}),
        json!({"open_for": "1.5s"}),
        json!({"probe": 1}),
    ] {
        let error = refused("breaker", breaker.clone());
        assert!(error.starts_with("store.breaker."), "{breaker}: {error}");
    }
}

#[test]
fn fields_of_a_redis_belong_to_it() {
    let fields = json!({
        "upstream": "front", "dialect": "webdis", "topology": "cluster", "timeout": "0ms",
        "authorization": "s3cret", "key_prefix": "{}", "breaker": {"failures": 0},
    });
    let explicit = {
        let mut store = fields.clone();
        store["kind"] = "local".into();
        with(store).unwrap_err()
    };
    assert_eq!(with(fields.clone()).unwrap_err(), explicit);
    let paths: Vec<&str> = explicit.0.iter().map(|error| error.path.as_str()).collect();
    let expected = [
        "store.upstream",
        "store.dialect",
        "store.topology",
        "store.timeout",
        "store.authorization",
        "store.key_prefix",
        "store.breaker",
    ];
    assert_eq!(paths, expected);
    for error in &explicit.0 {
        assert_eq!(
            error.message,
            "found a field that belongs to kind: redis, expected it only there (this is kind: local)"
        );
    }
    // A field that is absent may be.
    assert!(with(json!({"timeout": null})).is_ok());
}

#[test]
fn a_kind_that_cannot_be_read_hides_no_other_error_and_makes_none() {
    let store = json!({"kind": "rediss", "timeout": "0ms", "authorization": "Basic x"});
    let error = with(store).unwrap_err().to_string();
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines.len(), 2, "{error}");
    assert!(
        lines[0].starts_with("store.kind: found \"rediss\""),
        "{error}"
    );
    assert!(lines[1].starts_with("store.timeout: "), "{error}");
}

#[test]
fn an_authorization_is_what_a_header_may_hold() {
    let env = |name: &str| (name == "TOKEN").then(|| "Basic Zm9v".to_owned());
    let text = r#"{"store": {"kind": "redis", "upstream": "f", "authorization": "${TOKEN}"}}"#;
    let config = Config::parse(text.as_bytes(), &env).unwrap();
    let StoreKind::Redis(redis) = &config.store.kind else {
        panic!("a local store");
    };
    let authorization = redis.authorization.as_ref().map(|secret| secret.0.as_str());
    assert_eq!(authorization, Some("Basic Zm9v"));
    assert!(!format!("{config:?}").contains("Zm9v"));
}

#[test]
fn an_authorization_is_never_shown() {
    let long = "s3cret".repeat(700);
    for value in [
        json!("s3cret\r\nx: y"),
        json!("s3cret\n"),
        json!("s3cret\u{0}"),
        json!("s3crét s3cret"),
        json!(" s3cret"),
        json!("s3cret "),
        json!("s3cret${"),
        json!("${s3cret"),
        json!("${s3cret!}"),
        json!("${UNSET:-s3cret\n}"),
        json!("${UNSET:-s3cret${"),
        json!("${UNSET:-s3cret${UNSET}}"),
        json!("${UNSET}s3cret"),
        json!(long),
        json!(["s3cret"]),
        json!({"s3cret": "s3cret"}),
        json!(""),
        json!("${UNSET:-}"),
        json!(537_337),
        json!(true),
    ] {
        let error = refused("authorization", value.clone());
        assert!(error.starts_with("store.authorization: found "), "{error}");
        assert!(!error.contains("s3c"), "{value}: {error}");
        assert!(!error.contains("537337"), "{value}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    assert_eq!(
        refused("authorization", "${UNSET}".into()),
        "store.authorization: found ${UNSET}, but the proxy gives no environment variable UNSET, \
         expected it to be set, or a default: ${UNSET:-...}"
    );
}

proptest! {
    #[test]
    fn no_part_of_any_authorization_is_shown(before in r"[^S]{0,8}", after in r"[^S]{0,8}") {
        let store = Node::Map(vec![
            ("kind".to_owned(), Node::Text("redis".to_owned())),
            ("authorization".to_owned(), Node::Text(format!("{before}SECRET!{after}"))),
        ]);
        let document = Node::Map(vec![("store".to_owned(), store)]);
        let errors = Config::parse(super::json(&document).as_bytes(), &no_env).unwrap_err();
        prop_assert!(!errors.to_string().contains("SECRET!"), "{}", errors);
    }
}

/// A store, a share of a tier of 300 and 150 points, and one route.
fn priced(store: &str, share: &str, route: &str) -> String {
    format!(
        r#"{{"store": {store}, "degraded": {{"share": {share}}},
            "anonymous": {{"limit": "1/minute"}},
            "tiers": {{"t": {{"tenant": "300/minute", "key": "150/minute"}}}},
            "routes": [{{"name": "r", "match": {{"path": "/*"}}, {route}}}]}}"#
    )
}

const REDIS: &str = r#"{"kind": "redis", "upstream": "front"}"#;

#[test]
fn a_degraded_route_costs_no_more_than_the_share_of_the_smallest_burst() {
    let text = |cost: u64| priced(REDIS, "0.25", &format!(r#""cost": {cost}"#));
    assert!(parse(&text(37)).is_ok());
    assert_eq!(
        errors(&text(38)),
        "routes[0].cost: found 38, expected at most 37, or on_store_failure: closed, or a greater \
         burst: while the store fails it can never pass with a share of 0.25 (degraded.share) of \
         the burst of the key bucket of tier t (37 of 150)"
    );
    // Dearer than a whole burst is one error, not two.
    let both = errors(&text(151));
    assert_eq!(both.lines().count(), 1);
    assert!(both.starts_with("routes[0].cost: found 151, expected at most 150: "));
}

#[test]
fn a_dearer_price_for_a_long_range_must_fit_too() {
    let route = r#""cost": {"base": 2,
        "when_range": {"from": "a", "to": "b", "longer_than": "1d", "cost": 80}}"#;
    assert_eq!(
        errors(&priced(REDIS, "\"0.25\"", route)),
        "routes[0].cost.when_range.cost: found 80, expected at most 37, or on_store_failure: \
         closed, or a greater burst: while the store fails it can never pass with a share of 0.25 \
         (degraded.share) of the burst of the key bucket of tier t (37 of 150), the tenant bucket \
         of tier t (75 of 300)"
    );
}

#[test]
fn the_share_counts_only_where_a_degraded_route_can_meet_it() {
    let dear = r#""cost": 100"#;
    let closed = r#""cost": 100, "on_store_failure": "closed""#;
    assert!(parse(&priced(REDIS, "0.25", closed)).is_ok());
    assert!(parse(&priced(REDIS, "1", dear)).is_ok());
    assert!(parse(&priced(r#"{"kind": "local"}"#, "0.25", dear)).is_ok());
    assert!(parse(&priced("{}", "0.25", dear)).is_ok());
    // A route without a cost, and `default`, cost 1, which every share of a burst holds.
    assert!(parse(&priced(REDIS, "0.000001", r#""mode": "shadow""#)).is_ok());
}

#[test]
fn what_cannot_be_read_makes_no_second_error() {
    for (store, share, route, path) in [
        (REDIS, "7", r#""cost": 100"#, "degraded.share: "),
        (
            REDIS,
            "0.25",
            r#""cost": 100, "on_store_failure": "open""#,
            "routes[0].on_store_failure: ",
        ),
        (
            r#"{"kind": "rediss"}"#,
            "0.25",
            r#""cost": 100"#,
            "store.kind: ",
        ),
    ] {
        let error = errors(&priced(store, share, route));
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.starts_with(path), "{error}");
    }
    // That the upstream is missing does not hide what a cost meets.
    let error = errors(&priced(r#"{"kind": "redis"}"#, "0.25", r#""cost": 100"#));
    assert_eq!(error.lines().count(), 2, "{error}");
}
