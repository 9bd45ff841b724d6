//! Answers to requests for which a lease, a lock, a place in a quota or their own key is taken, and to those
//! that do not name what they lock.

use tollgate_config::{Lease, Lock, OnAbort, Quota, Slots};

use super::*;
use crate::verdict::{Obstacle, Taken};

use ResourceFault::{Doubled, Encoded, Malformed, Missing, NoName, TooLarge};

const ALL: [Obstacle; 4] = [
    Obstacle::Flight,
    Obstacle::Lock,
    Obstacle::Lease,
    Obstacle::Quota,
];

/// The rules of a configuration, with something to hold on its first route, if it has one of its own.
pub(super) fn rules(config: &str, by: LockBy) -> Rules {
    let mut rules = crate::testing::rules(config);
    let ttl = Millis::from_secs(900);
    for tier in &mut rules.config.tiers {
        tier.leases = vec![
            ("audit_export".to_owned(), Slots(1)),
            ("reconcile".to_owned(), Slots(2)),
        ];
        let quota = Quota {
            requests: 10,
            per: Millis::from_secs(3600),
        };
        tier.quotas = vec![("exports".to_owned(), quota)];
    }
    let mut routes = rules.config.routes.iter_mut();
    if let Some(route) = routes.find(|r| r.name == "reconcile") {
        route.lease = Some(Lease {
            kind: "reconcile".to_owned(),
            ttl,
            on_abort: OnAbort::Release,
        });
        route.lock = Some(Lock {
            by,
            ttl,
            on_abort: OnAbort::Hold,
        });
        route.quota = Some("exports".to_owned());
    }
    rules
}

fn by_header() -> LockBy {
    LockBy::Header("x-ledger-id".to_owned())
}

/// After the point that a refusal costs.
fn left() -> Standings {
    standings(&[
        standing(Policy::Key, meter(1500, 60, 1500), 1000, 20_000, 0),
        standing(Policy::Tenant, meter(3000, 60, 3000), 2000, 20_000, 0),
        standing(Policy::Ip, meter(600, 60, 600), 599, 100, 0),
    ])
}

fn taken(by: Obstacle, wait: u64) -> Verdict {
    Verdict::Taken(Taken {
        by,
        standings: left(),
        wait: Millis(wait),
        strikes_left: Some(17),
    })
}

const fn fault(fault: ResourceFault) -> Verdict {
    Verdict::Invalid(Invalid::Resource(fault))
}

/// Every verdict here that refuses, its status and its gRPC code.
pub(super) fn refusals() -> Vec<(Verdict, u16, u8)> {
    vec![
        (taken(Obstacle::Flight, 40_000), 409, 10),
        (taken(Obstacle::Lock, 40_000), 409, 10),
        (taken(Obstacle::Lease, 40_000), 429, 8),
        (taken(Obstacle::Quota, 40_000), 429, 8),
        (fault(Missing), 400, 9),
        (fault(Doubled), 400, 9),
        (fault(Encoded), 400, 9),
        (fault(Malformed), 400, 9),
        (fault(NoName), 400, 9),
        (fault(TooLarge), 413, 9),
    ]
}

/// `ip_limit` has the smallest remaining.
const LIMITS: [(&str, &str); 4] = [
    ("ratelimit-limit", "600"),
    ("ratelimit-policy", "600;w=60"),
    ("ratelimit-remaining", "599"),
    ("ratelimit-reset", "1"),
];

fn fields<'a>(limits: &[(&'a str, &'a str)], retry: &'a str) -> Vec<(&'a str, &'a str)> {
    let common = [
        ("cache-control", "no-store"),
        ("content-type", "application/problem+json"),
    ];
    let retry = [("retry-after", retry)];
    [&common, limits, &retry].concat()
}

#[test]
fn all_leases_of_a_kind_are_held() {
    // The same whatever the nonce: who waits is one tenant.
    for nonce in [0, 1, u64::MAX] {
        assert_answer(
            answer(CONFIG, &TENANT, &taken(Obstacle::Lease, 12_001), nonce),
            429,
            &fields(&LIMITS, "13"),
            &json!({
                "type": "https://api.example.com/errors/concurrency-limit-exceeded",
                "title": "Concurrency Limit Exceeded",
                "status": 429,
                "detail": "Concurrency limit 'reconcile' for tier 'growth' reached (2 requests at \
                           once). A request to route 'reconcile' costs 10 points, 1 when refused. \
                           Wait for one of your requests to end; retry in 13 seconds.",
                "instance": "/v1/ledgers/reconcile",
                "request_id": "req-1",
                "retry_after_seconds": 13,
                "recommended_backoff": "exponential_with_full_jitter",
                "quota_tier": "growth",
                "penalty_strikes_remaining": 17,
                "violated-policies": ["reconcile"],
            }),
        );
    }
}

#[test]
fn a_resource_is_locked() {
    for nonce in [0, 1, u64::MAX] {
        assert_answer(
            answer(CONFIG, &TENANT, &taken(Obstacle::Lock, 1), nonce),
            409,
            &fields(&LIMITS, "1"),
            &json!({
                "type": "https://api.example.com/errors/resource-locked",
                "title": "Resource Locked",
                "status": 409,
                "detail": "Another request of yours holds the lock on this resource, and route \
                           'reconcile' waits for no one. A request to route 'reconcile' costs 10 points, \
                           1 when refused. Wait for the other one to end; retry in 1 second.",
                "instance": "/v1/ledgers/reconcile",
                "request_id": "req-1",
                "retry_after_seconds": 1,
                "recommended_backoff": "exponential_with_full_jitter",
            }),
        );
    }
}

#[test]
fn a_quota_is_spent() {
    for nonce in [0, 1, u64::MAX] {
        assert_answer(
            answer(CONFIG, &TENANT, &taken(Obstacle::Quota, 2_000_001), nonce),
            429,
            &fields(&LIMITS, "2001"),
            &json!({
                "type": "https://api.example.com/errors/quota-exceeded",
                "title": "Quota Exceeded",
                "status": 429,
                "detail": "Quota 'exports' for tier 'growth' exhausted (10 requests per 3600 \
                           seconds). A request to route 'reconcile' costs 10 points, 1 when refused. \
                           The oldest request leaves the quota first; retry in 2001 seconds.",
                "instance": "/v1/ledgers/reconcile",
                "request_id": "req-1",
                "retry_after_seconds": 2001,
                "recommended_backoff": "exponential_with_full_jitter",
                "quota_tier": "growth",
                "penalty_strikes_remaining": 17,
                "violated-policies": ["exports"],
            }),
        );
    }
}

#[test]
fn an_idempotency_key_is_in_flight() {
    for (nonce, wait) in [(0, 1), (9, 60_000), (u64::MAX, 5000)] {
        assert_answer(
            answer(CONFIG, &TENANT, &taken(Obstacle::Flight, wait), nonce),
            409,
            &fields(&[], "1"),
            &json!({
                "type": "https://api.example.com/errors/idempotency-key-in-use",
                "title": "Idempotency Key In Use",
                "status": 409,
                "detail": "A request with this Idempotency-Key is still being served. Wait for its \
                           answer before a retry with the same key, or use another key for another \
                           operation; retry in 1 second.",
                "instance": "/v1/ledgers/reconcile",
                "request_id": "req-1",
                "retry_after_seconds": 1,
                "recommended_backoff": "exponential_with_full_jitter",
            }),
        );
    }
}

#[test]
fn an_anonymous_client_may_find_a_lock_and_its_key_taken() {
    let of = standings(&[standing(Policy::Anonymous, meter(60, 60, 60), 9, 51_000, 0)]);
    for (by, limits) in [
        (Obstacle::Lock, ["9", "51"].as_slice()),
        (Obstacle::Flight, &[]),
    ] {
        let verdict = Verdict::Taken(Taken {
            by,
            standings: of,
            wait: Millis(1000),
            strikes_left: Some(20),
        });
        let reply = answer(CONFIG, &ANONYMOUS, &verdict, 0).unwrap();
        let told = |name| {
            let field = reply.fields.iter().find(|(n, _)| *n == name);
            field.map(|(_, value)| value.as_str())
        };
        assert_eq!(told("ratelimit-remaining"), limits.first().copied());
        assert_eq!(told("ratelimit-reset"), limits.get(1).copied());
        let said = said(&reply);
        assert!(
            !said.contains("quota_tier") && !said.contains("tier '"),
            "{said}"
        );
    }
}

#[test]
fn waits_are_rounded_up_and_capped_where_a_holder_may_be_done_any_time() {
    for (by, wait, expected) in [
        (Obstacle::Lease, 0, "1"),
        (Obstacle::Lease, 1, "1"),
        (Obstacle::Lease, 1001, "2"),
        (Obstacle::Lease, 30_000, "30"),
        (Obstacle::Lease, 30_001, "30"),
        (Obstacle::Lease, 900_000, "30"),
        (Obstacle::Lock, 29_001, "30"),
        (Obstacle::Lock, u64::MAX, "30"),
        (Obstacle::Flight, u64::MAX, "1"),
        (Obstacle::Quota, 0, "1"),
        (Obstacle::Quota, 30_001, "31"),
        (Obstacle::Quota, 3_600_000, "3600"),
        (Obstacle::Quota, 2_678_400_000, "2678400"),
    ] {
        let reply = answer(CONFIG, &TENANT, &taken(by, wait), 7).unwrap();
        let field = ("retry-after", expected.to_owned());
        assert!(
            reply.fields.contains(&field),
            "{by:?} {wait}: {:?}",
            reply.fields
        );
        let said = said(&reply);
        let seconds = format!("\"retry_after_seconds\":{expected},");
        assert!(said.contains(&seconds), "{said}");
    }
    let config = CONFIG.replacen('{', r#"{"headers": {"retry_after_date_from": "1h"}, "#, 1);
    let reply = answer(&config, &TENANT, &taken(Obstacle::Quota, 3_600_000), 7).unwrap();
    let field = ("retry-after", "Tue, 01 Apr 2025 01:00:00 GMT".to_owned());
    assert!(reply.fields.contains(&field), "{:?}", reply.fields);
}

#[test]
fn the_penalty_box_has_nothing_to_do_with_it() {
    for (verdict, ..) in refusals() {
        let reply = answer(CONFIG, &TENANT, &verdict, 0).unwrap();
        let mut names = reply.fields.iter().map(|(name, _)| *name);
        assert!(
            names.all(|name| name != "x-penalty-box-status"),
            "{verdict:?}"
        );
    }
}

#[test]
fn every_dialect_tells_where_the_client_stands() {
    for (dialect, expected) in [
        ("draft-03", 4),
        ("draft-11", 2),
        ("both", 5),
        ("x-ratelimit", 3),
        ("none", 0),
    ] {
        let headers = format!(r#"{{"headers": {{"dialect": "{dialect}"}}, "#);
        let config = CONFIG.replacen('{', &headers, 1);
        for by in ALL {
            let reply = answer(&config, &TENANT, &taken(by, 1000), 0).unwrap();
            let told = reply.fields.iter().filter(|(n, _)| n.contains("ratelimit"));
            let expected = if by == Obstacle::Flight { 0 } else { expected };
            assert_eq!(told.count(), expected, "{dialect} {by:?}");
        }
    }
}

#[test]
fn a_quota_of_an_odd_length_is_told_exactly() {
    for (per, told) in [(1000, "1 second"), (1500, "1500 milliseconds")] {
        let mut rules = rules(CONFIG, by_header());
        for (_, quota) in &mut rules.config.tiers[0].quotas {
            (quota.requests, quota.per) = (1, Millis(per));
        }
        let request = request("POST", "/v1/ledgers/reconcile", &TENANT);
        let reply = answer_by(&rules, &request, &taken(Obstacle::Quota, 1), 0).unwrap();
        let said = said(&reply);
        assert!(said.contains(&format!("(1 request per {told})")), "{said}");
    }
}

#[test]
fn a_tier_without_the_kind_is_still_answered() {
    let mut rules = rules(CONFIG, by_header());
    rules.config.tiers[0].leases.clear();
    rules.config.tiers[0].quotas.clear();
    rules.config.routes[0].quota = None;
    let request = request("POST", "/v1/ledgers/reconcile", &TENANT);
    for by in ALL {
        let reply = answer_by(&rules, &request, &taken(by, 1), 0).unwrap();
        assert!(!said(&reply).contains(" ()"), "{by:?}");
    }
}

#[track_caller]
fn assert_detail(by: LockBy, of: ResourceFault, status: u16, detail: &str) {
    let request = request("POST", "/v1/ledgers/reconcile", &TENANT);
    assert_answer(
        answer_by(&rules(CONFIG, by), &request, &fault(of), 3),
        status,
        &[
            ("cache-control", "no-store"),
            ("content-type", "application/problem+json"),
        ],
        &json!({
            "type": "https://api.example.com/errors/invalid-request",
            "title": "Invalid Request",
            "status": status,
            "detail": detail,
            "instance": "/v1/ledgers/reconcile",
            "request_id": "req-1",
        }),
    );
}

#[test]
fn a_resource_that_is_not_named_or_doubled() {
    let query = |name: &str| LockBy::Query(name.to_owned());
    let path = || LockBy::Path {
        name: "ledger_id".to_owned(),
        segment: 2,
    };
    let json = |tokens: &[&str]| LockBy::Json(tokens.iter().map(|t| (*t).to_owned()).collect());
    for (by, what) in [
        (by_header(), "header 'x-ledger-id'"),
        (query("ledger"), "query parameter 'ledger'"),
        (path(), "path segment 'ledger_id'"),
        (json(&["ledger_id"]), "JSON value at '/ledger_id'"),
        (json(&["a/b", "m~n", ""]), "JSON value at '/a~1b/m~0n/'"),
        // What is no visible ASCII stays out of gRPC's messages.
        (query("l\u{e4}ger\n"), r"query parameter 'l\u{e4}ger\n'"),
    ] {
        let missing = format!(
            "Route 'reconcile' locks the resource that the {what} names, which is missing or empty."
        );
        assert_detail(by.clone(), Missing, 400, &missing);
        let doubled = match &by {
            LockBy::Path { .. } => format!(
                "Servers read the {what} in different ways; send it without ';', '%2F' and '%5C'."
            ),
            _ => format!("The {what} was sent more than once; send it once."),
        };
        assert_detail(by, Doubled, 400, &doubled);
    }
}

#[test]
fn a_body_that_does_not_name_the_resource() {
    for (of, status, detail) in [
        (
            Encoded,
            400,
            "Route 'reconcile' has to read the JSON value at '/id'; send the body without a \
             Content-Encoding.",
        ),
        (
            Malformed,
            400,
            "Route 'reconcile' has to read the JSON value at '/id', but the body is not well-formed \
             JSON in UTF-8.",
        ),
        (
            NoName,
            400,
            "Route 'reconcile' locks the resource that the JSON value at '/id' names, which is \
             neither a string nor an integer of 64 bits.",
        ),
        (
            TooLarge,
            413,
            "Route 'reconcile' has to read the JSON value at '/id', for which the body is too large: \
             at most 65536 bytes are read.",
        ),
    ] {
        assert_detail(LockBy::Json(vec!["id".to_owned()]), of, status, detail);
    }
}
