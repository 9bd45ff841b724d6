//! Tests of `plan`.

mod throttles;

use std::cell::Cell;
use std::net::IpAddr;

use super::*;
use crate::hold::{LeaseWanted, QuotaWanted};
use crate::identity::Id;
use crate::limit::{decision::Strictness, penalty::Terms};
use crate::store::{BoxTerms, Subject};
use crate::testing::{NONCE, NOW, meter, plan, request, rules};

const CONFIG: &str = r#"{
    "identity": {
        "tenant": {"header": "x-tenant-id"},
        "key": {"header": "x-api-key-id"},
        "tier": {"header": "x-tenant-tier"}
    },
    "anonymous": {"limit": {"points": 60, "per": 60, "burst": 20}},
    "exempt": ["/healthz", "/docs/*"],
    "tiers": {
        "growth": {
            "tenant": {"points": 3000, "per": 60, "burst": 3000},
            "key": {"points": 1500, "per": 60, "burst": 1500},
            "penalty": {"strikes": 7, "within": "30s"}
        }
    },
    "penalty_box": {"grace": "2s", "anonymous_max_level": 2, "level_1": "1m"},
    "routes": [
        {"name": "reconcile", "match": {"methods": ["POST"], "path": "/v1/ledgers/reconcile"},
         "cost": 10, "idempotency_key": "required", "mode": "shadow"},
        {"name": "export", "match": {"methods": ["GET"], "path": "/v1/export"},
         "cost": {"base": 25, "when_range": {"from": "from", "to": "to", "longer_than": "90d", "cost": 50}}},
        {"name": "mutations", "match": {"methods": ["POST"], "path": "/v1/*"}, "idempotency_key": "required"},
        {"name": "watched_docs", "match": {"path": "/docs/*"}, "mode": "shadow"}
    ]
}"#;

const GROWTH: [(&str, &str); 3] = [
    ("x-tenant-id", "t-1"),
    ("x-api-key-id", "k-1"),
    ("x-tenant-tier", "growth"),
];

/// The plan of a tenant's request.
fn tenants(rules: &Rules, method: &str, target: &str, more: &[(&str, &str)]) -> Plan {
    let fields = [GROWTH.as_slice(), more].concat();
    plan(rules, &request(method, target, &fields))
}

fn route_name(rules: &Rules, plan: &Plan) -> String {
    rules.config.routes[plan.route.0].name.clone()
}

fn ask_of(plan: &Plan) -> &Ask {
    match &plan.check {
        Check::Store(ask) | Check::Faulty(_, ask) => ask,
        other => panic!("nothing to ask: {other:?}"),
    }
}

#[test]
fn an_exempt_path_passes_before_anybody_asks_who_is_calling() {
    let rules = rules(CONFIG);
    let doubled = [("x-tenant-id", "t-1"), ("x-tenant-id", "t-2")];
    for target in [
        "/healthz",
        "/healthz?x=1",
        "/healthz/",
        "//%68ealthz",
        "/docs",
        "/docs/a/b",
        "/v1/../healthz",
    ] {
        for method in ["GET", "HEAD", "POST", "DELETE"] {
            let plan = plan(&rules, &request(method, target, &doubled));
            assert_eq!(plan.check, Check::Exempt, "{method} {target}");
            assert_eq!(plan.tier, TierLabel::None);
            assert_eq!(plan.cost(), 0);
        }
    }
    for target in [
        "/healthz/x",
        "/healthzz",
        "/HEALTHZ",
        "/docsx",
        "/docs/../v1/x",
        "/",
    ] {
        let plan = plan(&rules, &request("GET", target, &[]));
        assert_ne!(plan.check, Check::Exempt, "{target}");
    }
}

#[test]
fn contradictions_come_before_the_idempotency_key() {
    let rules = rules(CONFIG);
    let plan = tenants(
        &rules,
        "POST",
        "/v1/ledgers/reconcile",
        &[("x-api-key-id", "k-2")],
    );
    let invalid = Invalid::DoubledHeader("x-api-key-id".to_owned());
    assert_eq!(plan.check, Check::Invalid(invalid));
    assert_eq!(plan.tier, TierLabel::None);
    assert_eq!(route_name(&rules, &plan), "reconcile");
    assert_eq!(plan.cost(), 0);
}

#[test]
fn a_request_finds_its_route_cost_and_mode() {
    let rules = rules(CONFIG);
    let key = [("idempotency-key", "k")];
    for (method, target, route, cost, mode) in [
        (
            "POST",
            "/v1/ledgers/reconcile",
            "reconcile",
            10,
            Mode::Shadow,
        ),
        (
            "POST",
            "//v1/x/..//ledgers/%72econcile/?a",
            "reconcile",
            10,
            Mode::Shadow,
        ),
        ("GET", "/v1/ledgers/reconcile", "default", 1, Mode::Enforce),
        ("POST", "/v1/other", "mutations", 1, Mode::Enforce),
        ("GET", "/v1/export", "export", 25, Mode::Enforce),
        (
            "HEAD",
            "/v1/export?from=2020-01-01",
            "export",
            50,
            Mode::Enforce,
        ),
        (
            "GET",
            "/v1/export?from=2025-01-01",
            "export",
            25,
            Mode::Enforce,
        ),
        (
            "GET",
            "/v1/export?from=2024-12-31",
            "export",
            50,
            Mode::Enforce,
        ),
        (
            "GET",
            "/v1/export?%66rom=2024-12-31",
            "export",
            50,
            Mode::Enforce,
        ),
        (
            "PUT",
            "/v1/export?from=2020-01-01",
            "default",
            1,
            Mode::Enforce,
        ),
        ("GET", "/", "default", 1, Mode::Enforce),
        ("", "", "default", 1, Mode::Enforce),
    ] {
        let plan = tenants(&rules, method, target, &key);
        assert_eq!(route_name(&rules, &plan), route, "{method} {target}");
        assert_eq!(plan.cost(), cost, "{method} {target}");
        assert_eq!(plan.mode, mode, "{method} {target}");
        assert_eq!(
            ask_of(&plan).shadow,
            mode == Mode::Shadow,
            "{method} {target}"
        );
    }
}

#[test]
fn a_routes_own_mode_wins() {
    let json = r#"{"mode": "shadow", "exempt": ["/e"], "routes": [
        {"name": "a", "match": {"path": "/a"}, "mode": "enforce"},
        {"name": "b", "match": {"path": "/b"}}]}"#;
    let rules = rules(json);
    let of = |target| plan(&rules, &request("GET", target, &[])).mode;
    assert_eq!(of("/a"), Mode::Enforce);
    assert_eq!(of("/b"), Mode::Shadow);
    assert_eq!(of("/c"), Mode::Shadow);
    assert_eq!(of("/e"), Mode::Shadow);
}

#[test]
fn a_tenants_request_asks_for_its_key_and_tenant() {
    let rules = rules(CONFIG);
    let plan = tenants(&rules, "GET", "/v1/x", &[]);
    assert_eq!(plan.tier, TierLabel::Tier(TierId(0)));
    let expected = Ask {
        subject: Subject::Key {
            tenant: Id::of(b"t-1"),
            key: Id::of(b"k-1"),
            tenant_meter: meter(3000, 60, 3000),
            key_meter: meter(1500, 60, 1500),
            ip: None,
        },
        cost: 1,
        shadow: false,
        grace: Millis(2000),
        wanted: None,
        penalty: BoxTerms {
            terms: Terms {
                strikes: 7,
                within: Millis(30_000),
                offense_memory: Millis(86_400_000),
                levels: [Millis(60_000), Millis(3_600_000), Millis(86_400_000)],
                max_level: 3,
            },
            strictness: Strictness::Enforced,
        },
    };
    assert_eq!(*ask_of(&plan), expected);
}

#[test]
fn an_anonymous_request_asks_for_its_address() {
    let rules = rules(CONFIG);
    let plan = plan(&rules, &request("GET", "/v1/x", &[("x-tenant-id", "t-1")]));
    assert_eq!(plan.tier, TierLabel::Anonymous);
    let expected = Ask {
        subject: Subject::Anonymous {
            address: Address::Ip(IpAddr::from([192, 0, 2, 1])),
            meter: meter(60, 60, 20),
            ip_meter: None,
        },
        cost: 1,
        shadow: false,
        grace: Millis(2000),
        wanted: None,
        penalty: BoxTerms {
            terms: Terms {
                strikes: 20,
                within: Millis(60_000),
                offense_memory: Millis(86_400_000),
                levels: [Millis(60_000), Millis(3_600_000), Millis(86_400_000)],
                max_level: 2,
            },
            strictness: Strictness::Enforced,
        },
    };
    assert_eq!(*ask_of(&plan), expected);
}

#[test]
fn an_anonymous_request_costs_at_most_the_burst() {
    let rules = rules(CONFIG);
    for (target, tenants_cost, anonymous_cost) in [
        ("/v1/export", 25, 20),
        ("/v1/export?from=2020-01-01", 50, 20),
        ("/v1/x", 1, 1),
    ] {
        let of_tenant = tenants(&rules, "GET", target, &[]);
        let anonymous = plan(&rules, &request("GET", target, &[]));
        assert_eq!(of_tenant.cost(), tenants_cost, "{target}");
        assert_eq!(anonymous.cost(), anonymous_cost, "{target}");
        assert_eq!(ask_of(&anonymous).cost, anonymous_cost, "{target}");
    }
}

#[test]
fn an_ip_limit_is_asked_of_everybody() {
    let json = CONFIG.replacen('{', r#"{"ip_limit": "600/minute", "#, 1);
    let rules = rules(&json);
    let of_tenant = tenants(&rules, "GET", "/v1/export", &[]);
    let Subject::Key { ip, .. } = &ask_of(&of_tenant).subject else {
        panic!("not a key")
    };
    let address = Address::Ip(IpAddr::from([192, 0, 2, 1]));
    assert_eq!(*ip, Some((address, meter(600, 60, 600))));
    // The route's cost is the tenant's; an address always pays 1.
    assert_eq!(ask_of(&of_tenant).cost, 25);
    let anonymous = plan(&rules, &request("GET", "/v1/x", &[]));
    let Subject::Anonymous { ip_meter, .. } = ask_of(&anonymous).subject else {
        panic!("not an address")
    };
    assert_eq!(ip_meter, Some(meter(600, 60, 600)));
}

#[test]
fn the_address_is_asked_for_only_where_it_counts() {
    let asked = Cell::new(0);
    let of = |json: &str, target: &str, fields: &[(&str, &str)]| {
        asked.set(0);
        let facts = Facts {
            now: NOW,
            properties: &|_| None,
            source: &|| {
                asked.set(asked.get() + 1);
                b"192.0.2.1".to_vec()
            },
            body: None,
        };
        let request = request("GET", target, fields);
        let _ = Plan::of(&rules(json), &request, &facts, NONCE);
        asked.get()
    };
    let with_ip = CONFIG.replacen('{', r#"{"ip_limit": "600/minute", "#, 1);
    assert_eq!(of(CONFIG, "/v1/x", &GROWTH), 0);
    assert_eq!(of(CONFIG, "/healthz", &[]), 0);
    assert_eq!(of(CONFIG, "/v1/x", &[]), 1);
    assert_eq!(of(&with_ip, "/v1/x", &GROWTH), 1);
    assert_eq!(of(&with_ip, "/healthz", &GROWTH), 0);
}

#[test]
fn an_idempotency_key_is_asked_for_where_it_is_required() {
    let rules = rules(CONFIG);
    let fault = |plan: &Plan| match &plan.check {
        Check::Faulty(Fault::IdempotencyKey(fault), _) => Some(*fault),
        Check::Store(_) => None,
        other => panic!("{other:?}"),
    };
    type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], Option<KeyFault>);
    let rows: &[Row<'_>] = &[
        ("POST", &[], Some(KeyFault::Missing)),
        (
            "POST",
            &[("idempotency-key", "")],
            Some(KeyFault::Malformed),
        ),
        (
            "POST",
            &[("idempotency-key", "\"a")],
            Some(KeyFault::Malformed),
        ),
        (
            "POST",
            &[("idempotency-key", "a"), ("idempotency-key", "b")],
            Some(KeyFault::Doubled),
        ),
        ("POST", &[("idempotency-key", "a")], None),
        ("POST", &[("Idempotency-Key", "\"a\"")], None),
        // Optional: whatever is sent passes.
        ("PUT", &[], None),
        ("PUT", &[("idempotency-key", "")], None),
        (
            "PUT",
            &[("idempotency-key", "a"), ("idempotency-key", "b")],
            None,
        ),
    ];
    for (method, fields, expected) in rows {
        let plan = tenants(&rules, method, "/v1/x", fields);
        assert_eq!(fault(&plan), *expected, "{method} {fields:?}");
        // A box comes first: the question is made out all the same.
        assert_eq!(ask_of(&plan).cost, 1);
    }
    let anonymous = plan(&rules, &request("POST", "/v1/x", &[]));
    assert_eq!(fault(&anonymous), Some(KeyFault::Missing));
    assert_eq!(anonymous.tier, TierLabel::Anonymous);
}

#[test]
fn the_box_is_as_strict_as_configured() {
    for (mode, expected) in [
        ("enforce", Strictness::Enforced),
        ("shadow", Strictness::Watched),
        ("off", Strictness::Off),
    ] {
        let rules = rules(&format!(r#"{{"penalty_box": {{"mode": "{mode}"}}}}"#));
        let plan = plan(&rules, &request("GET", "/", &[]));
        assert_eq!(ask_of(&plan).penalty.strictness, expected, "{mode}");
        // A box in shadow is not a request in shadow.
        assert!(!ask_of(&plan).shadow);
    }
}

const DEGRADED: &str = r#"{
    "identity": {
        "tenant": {"header": "x-tenant-id"},
        "key": {"header": "x-api-key-id"},
        "tier": {"header": "x-tenant-tier"}
    },
    "ip_limit": "600/minute",
    "anonymous": {"limit": {"points": 60, "per": 60, "burst": 20}},
    "exempt": ["/healthz"],
    "tiers": {"growth": {"tenant": "3000/minute", "key": "1500/minute"}},
    "routes": [
        {"name": "export", "match": {"path": "/export"}, "cost": 10},
        {"name": "closed", "match": {"path": "/closed"}, "on_store_failure": "closed"},
        {"name": "pay", "match": {"path": "/pay"}, "idempotency_key": "required"}
    ],
    "degraded": {"share": 0.25}
}"#;

#[test]
fn the_degraded_limiter_grants_a_share_of_each_limit() {
    let rules = rules(DEGRADED);
    let mut of_tenant = tenants(&rules, "GET", "/export", &[]);
    let whole = ask_of(&of_tenant).clone();
    let address = || Address::Ip(IpAddr::from([192, 0, 2, 1]));
    let mut expected = Ask {
        subject: Subject::Key {
            tenant: Id::of(b"t-1"),
            key: Id::of(b"k-1"),
            tenant_meter: meter(750, 60, 750),
            key_meter: meter(375, 60, 375),
            ip: Some((address(), meter(150, 60, 150))),
        },
        ..whole
    };
    expected.penalty.strictness = Strictness::Known;
    assert_eq!(of_tenant.degrade(&rules).as_deref(), Some(&expected));
    assert_eq!(expected.cost, 10, "the route's price is what it was");
    assert_eq!(*ask_of(&of_tenant), expected);

    // Ten points of a burst of five: it costs what there is, and counts as that.
    let mut anonymous = plan(&rules, &request("GET", "/export", &[]));
    assert_eq!(anonymous.cost(), 10);
    let mut expected = Ask {
        subject: Subject::Anonymous {
            address: address(),
            meter: meter(15, 60, 5),
            ip_meter: Some(meter(150, 60, 150)),
        },
        cost: 5,
        ..ask_of(&anonymous).clone()
    };
    expected.penalty.strictness = Strictness::Known;
    assert_eq!(anonymous.degrade(&rules).as_deref(), Some(&expected));
    assert_eq!(anonymous.cost(), 5);
    assert_eq!(anonymous.tier, TierLabel::Anonymous);
}

#[test]
fn a_watched_box_is_not_watched_while_the_store_fails() {
    for (mode, expected) in [
        ("enforce", Strictness::Known),
        ("shadow", Strictness::Off),
        ("off", Strictness::Off),
    ] {
        let rules = rules(&format!(r#"{{"penalty_box": {{"mode": "{mode}"}}}}"#));
        let mut plan = plan(&rules, &request("GET", "/", &[]));
        let ask = plan.degrade(&rules).unwrap();
        assert_eq!(ask.penalty.strictness, expected, "{mode}");
    }
}

#[test]
fn the_degraded_limiter_decides_only_what_the_store_would_have() {
    let rules = rules(DEGRADED);
    for target in ["/closed", "/pay", "/healthz"] {
        let mut plan = tenants(&rules, "GET", target, &[]);
        let before = plan.clone();
        assert_eq!(plan.degrade(&rules), None, "{target}");
        assert_eq!(plan, before);
    }
    let mut paid = tenants(&rules, "GET", "/pay", &[("idempotency-key", "k")]);
    assert!(paid.degrade(&rules).is_some());
}

#[test]
fn the_empty_configuration_counts_everyone_at_60_a_minute() {
    let rules = rules("{}");
    let plan = plan(&rules, &request("GET", "/v1/x", &GROWTH));
    assert_eq!(plan.tier, TierLabel::Anonymous);
    assert_eq!(plan.route, RouteId(0));
    let expected = Subject::Anonymous {
        address: Address::Ip(IpAddr::from([192, 0, 2, 1])),
        meter: meter(60, 60, 60),
        ip_meter: None,
    };
    assert_eq!(ask_of(&plan).subject, expected);
    assert_eq!(ask_of(&plan).grace, Millis(1000));
}

const HOLDS: &str = r#"{
    "identity": {
        "tenant": {"header": "x-tenant-id"},
        "key": {"header": "x-api-key-id"},
        "tier": {"header": "x-tenant-tier"}
    },
    "tiers": {
        "small": {"tenant": "60/minute", "key": "60/minute", "leases": {"job": 1}, "quotas": {"job": {"requests": 2, "per": "1h"}}},
        "growth": {"tenant": "60/minute", "key": "60/minute", "leases": {"job": 8}},
        "free": {"tenant": "60/minute", "key": "60/minute"}
    },
    "routes": [
        {"name": "job", "match": {"path": "/job"}, "lease": {"kind": "job"}, "lock": {"by": {"header": "l"}},
         "quota": "job", "on_store_failure": "closed"},
        {"name": "path", "match": {"path": "/ledgers/{id}"}, "lock": {"by": {"path": "id"}}, "on_store_failure": "closed"},
        {"name": "json", "match": {"path": "/json"}, "lock": {"by": {"json": "/id"}}, "on_store_failure": "closed"},
        {"name": "pay", "match": {"path": "/pay"}, "idempotency_key": "required", "lock": {"by": {"query": "l"}},
         "on_store_failure": "closed"}
    ]
}"#;

fn as_tier<'a>(tier: &'a str, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut fields = vec![
        ("x-tenant-id", "t"),
        ("x-api-key-id", "k"),
        ("x-tenant-tier", tier),
    ];
    fields.extend(more);
    fields
}

fn wanted(target: &str, fields: &[(&str, &str)]) -> Option<Wanted> {
    let plan = plan(&rules(HOLDS), &request("POST", target, fields));
    match plan.check {
        Check::Store(ask) => ask.wanted.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_request_asks_for_what_its_route_and_tier_say() {
    let lease = |slots| {
        Some(LeaseWanted {
            kind: "job".into(),
            slots,
        })
    };
    let quota = Some(QuotaWanted {
        kind: "job".into(),
        requests: 2,
        per: Millis(3_600_000),
    });
    let of = |lease, quota| Wanted {
        id: HoldId(NONCE),
        flight: None,
        lock: Some(Id::of(b"7")),
        lease,
        quota,
        attempts: None,
    };
    for (tier, expected) in [
        ("small", of(lease(1), quota)),
        ("growth", of(lease(8), None)),
        ("free", of(None, None)),
    ] {
        let fields = as_tier(tier, &[("l", "7")]);
        assert_eq!(wanted("/job", &fields), Some(expected), "{tier}");
    }
    // Leases and quotas are a tenant's; a lock is its owner's, whoever that is.
    assert_eq!(wanted("/job", &[("l", "7")]), Some(of(None, None)));
    assert_eq!(wanted("/", &as_tier("small", &[])), None);
}

#[test]
fn an_idempotency_key_is_in_flight_on_every_route() {
    let key = ("idempotency-key", "\"a key\"");
    let of = |fields: &[(&str, &str)]| wanted("/", fields).map(|w| (w.flight, w.lock, w.lease));
    let hashed = Some((Some(Id::of(b"a key")), None, None));
    assert_eq!(of(&as_tier("small", &[key])), hashed);
    assert_eq!(of(&[key]), hashed);
    // One that cannot be told apart from others is none, where none is required.
    assert_eq!(of(&[key, key]), None);
    assert_eq!(of(&[("idempotency-key", "")]), None);
}

#[test]
fn a_fault_of_the_key_is_told_before_one_of_the_resource() {
    let fault = |target, fields: &[(&str, &str)]| {
        let plan = plan(&rules(HOLDS), &request("POST", target, fields));
        match plan.check {
            Check::Faulty(fault, ask) => {
                assert_eq!(ask.wanted, None, "nothing is asked for");
                Some(fault)
            }
            Check::Store(_) => None,
            other => panic!("{other:?}"),
        }
    };
    let key = ("idempotency-key", "k");
    let missing = Fault::IdempotencyKey(KeyFault::Missing);
    assert_eq!(fault("/pay", &[]), Some(missing));
    assert_eq!(fault("/pay?l=7", &[]), Some(missing));
    let resource = Some(Fault::Resource(ResourceFault::Missing));
    assert_eq!(fault("/pay", &[key]), resource);
    assert_eq!(fault("/pay?l=7", &[key]), None);
    // What servers may read in two ways is no name.
    let doubled = Some(Fault::Resource(ResourceFault::Doubled));
    assert_eq!(fault("/ledgers/7", &[]), None);
    assert_eq!(fault("/ledgers/7;v=1", &[]), doubled);
    assert_eq!(fault("/ledgers/7%2f8", &[]), doubled);
}

#[test]
fn a_body_is_waited_for_only_where_it_names_the_resource() {
    let of = |target, fields: &[(&str, &str)], body: Option<&Body>| {
        let facts = Facts {
            now: NOW,
            properties: &|_| None,
            source: &|| b"192.0.2.1:4711".to_vec(),
            body,
        };
        Plan::of(
            &rules(HOLDS),
            &request("POST", target, fields),
            &facts,
            NONCE,
        )
        .check
    };
    assert!(matches!(
        of("/pay?l=1", &[("idempotency-key", "k")], None),
        Check::Store(_)
    ));
    assert_eq!(of("/json", &[], None), Check::Body);
    let length = |length| [("content-length", length)];
    assert_eq!(of("/json", &length("65536"), None), Check::Body);
    // What is too large need not come first.
    let too_large = |check| {
        matches!(
            check,
            Check::Faulty(Fault::Resource(ResourceFault::TooLarge), _)
        )
    };
    assert!(too_large(of("/json", &length("65537"), None)));
    assert!(too_large(of("/json", &[], Some(&Body::TooLarge))));
    let body = Body::Whole(br#"{"id": "7"}"#.to_vec());
    let Check::Store(ask) = of("/json", &[], Some(&body)) else {
        panic!("it is named");
    };
    assert_eq!(ask.wanted.as_ref().unwrap().lock, Some(Id::of(b"7")));
}

#[test]
fn no_body_is_waited_for_where_a_request_upgrades() {
    let rules = rules(HOLDS);
    let of = |method, fields: &[(&str, &str)]| {
        let facts = Facts {
            now: NOW,
            properties: &|_| None,
            source: &|| b"192.0.2.1:4711".to_vec(),
            body: None,
        };
        Plan::of(&rules, &request(method, "/json", fields), &facts, NONCE).check
    };
    for (method, fields) in [
        ("GET", &[("upgrade", "websocket")] as &[_]),
        ("POST", &[("Upgrade", "any"), ("content-length", "65537")]),
        ("CONNECT", &[]),
        ("CONNECT", &[(":protocol", "websocket")]),
    ] {
        let check = of(method, fields);
        let is_missing = matches!(
            check,
            Check::Faulty(Fault::Resource(ResourceFault::Missing), _)
        );
        assert!(is_missing, "{method} {fields:?}: {check:?}");
    }
    assert_eq!(of("GET", &[("connection", "upgrade")]), Check::Body);
    assert_eq!(of("POST", &[]), Check::Body);
}

#[test]
fn the_degraded_limiter_is_asked_for_the_idempotency_key_alone() {
    let rules = rules(HOLDS);
    let fields = as_tier("small", &[("idempotency-key", "k")]);
    let mut plan = plan(&rules, &request("POST", "/", &fields));
    let ask = plan.degrade(&rules).unwrap();
    let wanted = ask.wanted.as_ref().unwrap();
    assert_eq!(wanted.flight, Some(Id::of(b"k")));
    assert_eq!(wanted.id, HoldId(NONCE));
}
