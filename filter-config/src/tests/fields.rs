//! What fields become, value by value.

use super::{errors, no_env, parse};
use crate::{
    BoxMode, ClientIpFrom, Config, Cost, Dialect, IdSource, IdempotencyKey, Limit, Millis, Mode,
    OnStoreFailure, Penalty, Points, RouteId, Seconds, Share, Source, TierId, WhenRange,
};

fn limit(points: u64, per: u64, burst: u64) -> Limit {
    Limit {
        points: Points(points),
        per: Seconds(per),
        burst: Points(burst),
    }
}

#[test]
fn the_empty_object_has_the_defaults_of_the_reference() {
    let config = parse("{}").unwrap();
    assert_eq!(config.mode, Mode::Enforce);
    assert_eq!(config.store.memory.0, 16 * 1024 * 1024);
    assert_eq!(config.identity.tenant, None);
    assert_eq!(config.identity.key, None);
    assert_eq!(config.identity.default_tier, None);
    assert_eq!(config.identity.client_ip.from, ClientIpFrom::Connection);
    assert_eq!(config.identity.client_ip.ipv6_prefix, 64);
    assert_eq!(config.ip_limit, None);
    assert_eq!(config.anonymous, limit(60, 60, 60));
    let twenty = Penalty {
        strikes: 20,
        within: Millis(60_000),
    };
    assert_eq!(config.anonymous_penalty, twenty);
    assert!(!config.exempt.matches(b"/"));
    assert!(config.tiers.is_empty());
    assert_eq!(config.penalty_box.mode, BoxMode::Enforce);
    assert_eq!(config.penalty_box.grace, Millis(1000));
    assert_eq!(config.penalty_box.offense_memory, Millis(86_400_000));
    let levels = [300_000, 3_600_000, 86_400_000].map(Millis);
    assert_eq!(config.penalty_box.levels, levels);
    assert_eq!(config.penalty_box.anonymous_max_level, 1);
    assert_eq!(config.degraded_share, Share(250_000));
    assert_eq!(config.headers.dialect, Dialect::Draft03);
    assert_eq!(config.headers.retry_after_date_from, None);
    assert_eq!(
        config.problem.type_base,
        "https://api.yourdomain.com/errors/"
    );
    assert!(config.warnings.is_empty());
    let (id, route) = config.route(b"GET", b"/anything");
    assert_eq!(id, RouteId(0));
    let route = route.unwrap();
    assert_eq!(route.name, "default");
    assert_eq!(route.cost.base, Points(1));
    assert_eq!(route.idempotency_key, IdempotencyKey::Optional);
    assert_eq!(route.on_store_failure, OnStoreFailure::Degraded);
}

#[test]
fn null_is_absent() {
    let null = parse(
        r#"{"mode": null, "store": {"kind": null, "memory": null}, "tiers": null, "routes": null,
            "identity": {"client_ip": {"trusted_hops": null}}, "headers": null}"#,
    );
    assert_eq!(format!("{null:?}"), format!("{:?}", parse("{}")));
    assert_eq!(
        errors(r#"{"ip_limit": {"points": null, "per": 1}}"#),
        "ip_limit.points: found nothing, expected a whole number of points"
    );
}

#[test]
fn an_empty_list_may_be_an_empty_object_as_kong_writes_it() {
    let config = parse(r#"{"routes": {}, "exempt": {}}"#).unwrap();
    assert_eq!(config.routes.len(), 1);
}

#[test]
fn rates() {
    for (rate, expected) in [
        (r#""60/minute""#, limit(60, 60, 60)),
        (r#""1/second""#, limit(1, 1, 1)),
        (r#""7/hour""#, limit(7, 3600, 7)),
        (
            r#""1000000000/day""#,
            limit(1_000_000_000, 86_400, 1_000_000_000),
        ),
        (r#"{"points": 3, "per": 60}"#, limit(3, 60, 3)),
        (r#"{"points": 3, "per": "1m", "burst": 9}"#, limit(3, 60, 9)),
        (r#"{"points": 3.0, "per": "2000ms"}"#, limit(3, 2, 3)),
        (r#"{"points": 1, "per": "31d"}"#, limit(1, 2_678_400, 1)),
    ] {
        let config = parse(&format!("{{\"ip_limit\": {rate}}}")).unwrap();
        assert_eq!(config.ip_limit, Some(expected), "{rate}");
    }
}

/// The finest rate is a prime number of points: a point is then 1000 x per units, and at 31 days
/// 2^53 units are 3,362,917 points and a bit.
#[test]
fn a_rate_is_refused_where_its_bucket_cannot_be_counted_exactly() {
    let rate = |burst: u64| {
        format!("{{\"ip_limit\": {{\"points\": 999999937, \"per\": \"31d\", \"burst\": {burst}}}}}")
    };
    let most = (1_u64 << 53) / 2_678_400_000;
    assert!(parse(&rate(most)).is_ok());
    assert!(errors(&rate(most + 1)).starts_with("ip_limit: found 999999937 points per 2678400s"));
}

#[test]
fn durations() {
    for (duration, expected) in [
        (r#""250ms""#, 250),
        (r#""20s""#, 20_000),
        (r#""15m""#, 900_000),
        (r#""24h""#, 86_400_000),
        (r#""90d""#, 7_776_000_000),
        (r#""3650d""#, 315_360_000_000),
        ("5", 5000),
        ("5.0", 5000),
        ("315360000", 315_360_000_000),
    ] {
        let config = parse(&format!("{{\"penalty_box\": {{\"level_1\": {duration}}}}}")).unwrap();
        assert_eq!(config.penalty_box.levels[0], Millis(expected), "{duration}");
    }
    for duration in [
        r#""""#,
        r#""5""#,
        r#""s""#,
        r#""5 s""#,
        r#""5S""#,
        r#""-5s""#,
        r#""1.5h""#,
        r#""5w""#,
        r#""5é""#,
        r#""99999999999999999999999d""#,
        r#""0s""#,
        "0",
        "-1",
        "0.5",
        "1e300",
        "true",
        "[]",
        "315360001",
        r#""315360000001ms""#,
    ] {
        let error = errors(&format!("{{\"penalty_box\": {{\"level_1\": {duration}}}}}"));
        assert!(
            error.starts_with("penalty_box.level_1: found "),
            "{duration}: {error}"
        );
    }
    let config = parse(r#"{"penalty_box": {"grace": "0s"}}"#).unwrap();
    assert_eq!(config.penalty_box.grace, Millis(0));
}

#[test]
fn sizes() {
    for (size, expected) in [
        (r#""16MiB""#, 16_777_216),
        (r#""512KiB""#, 524_288),
        (r#""64KiB""#, 65_536),
        (r#""4GiB""#, 4_294_967_296),
        ("65536", 65_536),
        ("100000", 100_000),
        (r#""4294967296""#, 4_294_967_296),
    ] {
        let config = parse(&format!("{{\"store\": {{\"memory\": {size}}}}}")).unwrap();
        assert_eq!(config.store.memory.0, expected, "{size}");
    }
    for size in [
        r#""16MB""#,
        r#""16""#,
        r#""MiB""#,
        r#""é""#,
        r#""1.5GiB""#,
        r#""63KiB""#,
        "65535",
        "4294967297",
        r#""5GiB""#,
        "-1",
        "1e5000",
        "null_",
        "[]",
    ] {
        assert!(
            parse(&format!("{{\"store\": {{\"memory\": {size}}}}}")).is_err(),
            "{size}"
        );
    }
}

#[test]
fn false_is_off_where_off_is_a_choice() {
    for off in [
        "false",
        "\"off\"",
        "\"${UNSET:-off}\"",
        "\"${UNSET:-false}\"",
    ] {
        let text = format!(
            "{{\"penalty_box\": {{\"mode\": {off}}}, \"headers\": {{\"retry_after_date_from\": {off}}}}}"
        );
        let config = parse(&text).unwrap();
        assert_eq!(config.penalty_box.mode, BoxMode::Off, "{off}");
        assert_eq!(config.headers.retry_after_date_from, None, "{off}");
    }
    assert!(parse(r#"{"penalty_box": {"mode": "false"}}"#).is_err());
    assert!(parse(r#"{"mode": false}"#).is_err());
    assert!(parse(r#"{"headers": {"dialect": false}}"#).is_err());
}

#[test]
fn the_environment_fills_any_string_and_is_read_as_what_the_field_needs() {
    let env = |name: &str| match name {
        "BURST" => Some("9".to_owned()),
        "SECRET" => Some("false".to_owned()),
        "PAGE" => Some("reports".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    };
    let text = r#"{
        "identity": {"key": {"header": "X-${EMPTY:-Key}", "sha256": "${SECRET}"}},
        "ip_limit": {"points": "${UNSET:-7}", "per": "${UNSET:-60}", "burst": "${BURST}"},
        "anonymous": {"limit": "${BURST}/${UNSET:-hour}"},
        "routes": [{"name": "r", "match": {"methods": ["${UNSET:-GET}"], "path": "/v1/${PAGE}"}}],
        "degraded": {"share": "${UNSET:-1}"}
    }"#;
    let config = Config::parse(text.as_bytes(), &env).unwrap();
    let key = IdSource {
        from: Source::Header("x-key".to_owned()),
        sha256: false,
    };
    assert_eq!(config.identity.key, Some(key));
    assert_eq!(config.ip_limit, Some(limit(7, 60, 9)));
    assert_eq!(config.anonymous, limit(9, 3600, 9));
    assert_eq!(config.route(b"GET", b"/v1/reports").0, RouteId(0));
    assert_eq!(config.degraded_share, Share(1_000_000));
}

#[test]
fn a_share_is_at_least_a_millionth_and_at_most_all() {
    for share in [
        "0",
        "-0.1",
        "1e-9",
        "0.0000009",
        "\"0.0000009\"",
        "1.000001",
        "\"half\"",
        "\"1.5\"",
        "\"${UNSET:-NaN}\"",
        "\"${UNSET:-inf}\"",
    ] {
        let error = errors(&format!("{{\"degraded\": {{\"share\": {share}}}}}"));
        assert!(error.starts_with("degraded.share: found "), "{share}");
    }
    for (share, millionths) in [
        ("1", 1_000_000),
        ("0.000001", 1),
        ("0.3333333333", 333_333),
        ("0.9999999", 1_000_000),
        ("\"0.5\"", 500_000),
        ("\"${UNSET:-0.5}\"", 500_000),
    ] {
        let config = parse(&format!("{{\"degraded\": {{\"share\": {share}}}}}")).unwrap();
        assert_eq!(config.degraded_share, Share(millionths), "{share}");
    }
}

/// Some of them are not what they are in binary: 0.29 x 1,000,000 is 289,999.99999999994.
#[test]
fn a_share_of_whole_millionths_is_what_was_written() {
    for share in (1..=1_000_000).step_by(997).chain([290_000, 333_333]) {
        let written = Share(share).to_string();
        let config = parse(&format!("{{\"degraded\": {{\"share\": {written}}}}}")).unwrap();
        assert_eq!(config.degraded_share, Share(share), "{written}");
    }
}

#[test]
fn identities() {
    let config = parse(
        r#"{"identity": {
            "tenant": {"property": ["metadata", "filter_metadata", "x.y", "sub"]},
            "key": {"header": "X-Api-Key", "sha256": true},
            "tier": {"header": "x-tier"},
            "tenants": {"t-900": "b", "t.1/é": "a"},
            "default_tier": "b",
            "client_ip": {"from": "x-forwarded-for", "trusted_hops": 3, "ipv6_prefix": 128}
        }, "tiers": {
            "b": {"tenant": "4/second", "key": "3/second", "penalty": {"strikes": 5}},
            "a": {"tenant": "2/second", "key": "1/second", "penalty": {"within": 5}}
        }}"#,
    )
    .unwrap();
    let tier = |name: &str| {
        config
            .tiers
            .iter()
            .position(|tier| tier.name == name)
            .map(TierId)
    };
    let identity = &config.identity;
    let property = ["metadata", "filter_metadata", "x.y", "sub"].map(str::to_owned);
    assert_eq!(
        identity.tenant.as_ref().map(|source| &source.from),
        Some(&Source::Property(property.to_vec()))
    );
    assert_eq!(identity.tier, Some(Source::Header("x-tier".to_owned())));
    assert_eq!(
        identity.tenants.get(b"t-900".as_slice()).copied(),
        tier("b")
    );
    assert_eq!(identity.tenants.get("t.1/é".as_bytes()).copied(), tier("a"));
    assert_eq!(identity.default_tier, tier("b"));
    assert_eq!(identity.client_ip.from, ClientIpFrom::XForwardedFor(3));
    assert_eq!(identity.client_ip.ipv6_prefix, 128);
    let a = config.tier(tier("a").unwrap()).unwrap();
    assert_eq!((a.tenant, a.key), (limit(2, 1, 2), limit(1, 1, 1)));
    assert_eq!((a.penalty.strikes, a.penalty.within), (20, Millis(5000)));
    let b = config.tier(tier("b").unwrap()).unwrap();
    assert_eq!((b.penalty.strikes, b.penalty.within), (5, Millis(60_000)));
}

#[test]
fn a_client_address_is_told_by_the_connection_or_by_trusted_proxies() {
    for (client_ip, from, is_warned) in [
        ("{}", ClientIpFrom::Connection, false),
        (r#"{"from": "connection"}"#, ClientIpFrom::Connection, false),
        (
            r#"{"from": "x-forwarded-for", "trusted_hops": 100}"#,
            ClientIpFrom::XForwardedFor(100),
            false,
        ),
        (
            r#"{"from": "x-forwarded-for"}"#,
            ClientIpFrom::XForwardedFor(1),
            true,
        ),
        (
            r#"{"from": "forwarded", "trusted_hops": "${UNSET:-2}"}"#,
            ClientIpFrom::Forwarded(2),
            false,
        ),
        (r#"{"from": "forwarded"}"#, ClientIpFrom::Forwarded(1), true),
    ] {
        let text = format!("{{\"identity\": {{\"client_ip\": {client_ip}}}}}");
        let config = parse(&text).unwrap();
        assert_eq!(config.identity.client_ip.from, from, "{client_ip}");
        let warned = config
            .warnings
            .iter()
            .map(|warning| warning.path.as_str())
            .eq(["identity.client_ip"]);
        assert_eq!(warned, is_warned, "{client_ip}");
    }
    for (client_ip, path) in [
        (r#"{"trusted_hops": 1}"#, "trusted_hops"),
        (
            r#"{"from": "forwarded", "trusted_hops": 0}"#,
            "trusted_hops",
        ),
        (
            r#"{"from": "forwarded", "trusted_hops": 101}"#,
            "trusted_hops",
        ),
        (r#"{"from": "Forwarded", "trusted_hops": 1}"#, "from"),
    ] {
        let error = errors(&format!("{{\"identity\": {{\"client_ip\": {client_ip}}}}}"));
        let path = format!("identity.client_ip.{path}: found ");
        assert!(error.starts_with(&path), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn routes_keep_their_order_and_default_is_the_last() {
    let config = parse(
        r#"{"routes": [
            {"name": "default", "match": {"path": "/d"}, "cost": 7},
            {"name": "export", "match": {"methods": ["GET"], "path": "//v1/%65xport/"},
             "cost": {"base": 25, "when_range": {"from": "a", "to": "b", "longer_than": "90d", "cost": 50}},
             "mode": "shadow", "idempotency_key": "required", "on_store_failure": "closed"}
        ]}"#,
    )
    .unwrap();
    let names: Vec<&str> = config
        .routes
        .iter()
        .map(|route| route.name.as_str())
        .collect();
    assert_eq!(names, ["default", "export", "default"]);
    let (id, route) = config.route(b"HEAD", b"/v1/export");
    let route = route.unwrap();
    assert_eq!(id, RouteId(1));
    assert_eq!(
        route.cost,
        Cost {
            base: Points(25),
            when_range: Some(WhenRange {
                from: "a".to_owned(),
                to: "b".to_owned(),
                longer_than: Millis(7_776_000_000),
                cost: Points(50),
            }),
        }
    );
    assert_eq!(route.mode, Some(Mode::Shadow));
    assert_eq!(route.idempotency_key, IdempotencyKey::Required);
    assert_eq!(route.on_store_failure, OnStoreFailure::Closed);
    assert_eq!(config.route(b"POST", b"/v1/export").0, RouteId(2));
    assert_eq!(config.route(b"POST", b"/d").1.unwrap().cost.base, Points(7));
}

#[test]
fn a_cost_may_be_as_large_as_the_smallest_burst_and_anonymous_ones_do_not_count() {
    let text = |cost: u64| {
        format!(
            r#"{{"anonymous": {{"limit": "1/minute"}},
                "tiers": {{"t": {{"tenant": "300/minute", "key": "150/minute"}}}},
                "routes": [{{"name": "r", "match": {{"path": "/*"}}, "cost": {cost}}}]}}"#
        )
    };
    assert!(parse(&text(150)).is_ok());
    assert_eq!(
        errors(&text(151)),
        "routes[0].cost: found 151, expected at most 150: it can never pass with the burst of the \
         key bucket of tier t (150)"
    );
}

#[test]
fn a_type_base_ends_in_a_slash_and_can_stand_in_json_as_it_is() {
    for (written, read) in [
        ("https://a.example/e", "https://a.example/e/"),
        ("http://a.example/e/", "http://a.example/e/"),
        ("/errors", "/errors/"),
        ("urn:example:errors", "urn:example:errors/"),
        ("about:blank", "about:blank/"),
    ] {
        let config = parse(&format!(
            "{{\"problem\": {{\"type_base\": \"{written}\"}}}}"
        ))
        .unwrap();
        assert_eq!(config.problem.type_base, read);
    }
    for wrong in [
        "",
        "https://",
        "https:///e",
        "http:a",
        "a b",
        "a\\\"b",
        "é",
        "a\\nb",
        "<a>",
    ] {
        let error = errors(&format!("{{\"problem\": {{\"type_base\": \"{wrong}\"}}}}"));
        assert!(error.starts_with("problem.type_base: found "), "{wrong}");
    }
}

#[test]
fn what_yaml_alone_can_say_is_one_error_without_a_path() {
    let yaml = "mode: [unclosed";
    let errors = Config::deserialize(serde_yaml_ng::Deserializer::from_str(yaml), &no_env);
    let errors = errors.unwrap_err();
    assert_eq!(errors.0.len(), 1);
    assert!(errors.0[0].path.is_empty());
}

#[test]
fn a_tenant_that_yaml_reads_as_a_number_is_its_digits() {
    let yaml = "identity: {tenants: {900: t}}\ntiers: {t: {tenant: 1/second, key: 1/second}}";
    let config = Config::deserialize(serde_yaml_ng::Deserializer::from_str(yaml), &no_env).unwrap();
    assert!(config.identity.tenants.contains_key(b"900".as_slice()));
}
