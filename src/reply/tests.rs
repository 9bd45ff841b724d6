//! Tests of `reply`: whole answers.

mod attempts;
mod holds;

use proptest::prelude::*;
use serde_json::{Value, json};
use tollgate_config::LockBy;

use super::*;
use crate::testing::{NOW, meter, plan, request, standing, standings};
use crate::verdict::{Invalid, KeyFault, Policy, ResourceFault, Scope, Standings, Throttled};

const CONFIG: &str = r#"{
    "identity": {
        "tenant": {"header": "x-tenant-id"},
        "key": {"header": "x-api-key-id"},
        "tier": {"header": "x-tenant-tier"}
    },
    "ip_limit": "600/minute",
    "tiers": {
        "growth": {
            "tenant": {"points": 3000, "per": 60, "burst": 3000},
            "key": {"points": 1500, "per": 60, "burst": 1500}
        }
    },
    "routes": [
        {"name": "reconcile", "match": {"methods": ["POST"], "path": "/v1/ledgers/reconcile"},
         "cost": 10, "idempotency_key": "required"}
    ],
    "problem": {"type_base": "https://api.example.com/errors/"}
}"#;

const TENANT: [(&str, &str); 4] = [
    ("x-tenant-id", "tenant-secret"),
    ("x-api-key-id", "key-secret"),
    ("x-tenant-tier", "growth"),
    ("x-request-id", "req-1"),
];
const ANONYMOUS: [(&str, &str); 1] = [("x-request-id", "req-1")];

/// The answer to `POST /v1/ledgers/reconcile`, with a nonce.
fn answer(config: &str, fields: &[(&str, &str)], verdict: &Verdict, nonce: u64) -> Option<Reply> {
    answer_to(
        config,
        &request("POST", "/v1/ledgers/reconcile?x=1", fields),
        verdict,
        nonce,
    )
}

fn answer_to(config: &str, request: &Request, verdict: &Verdict, nonce: u64) -> Option<Reply> {
    let by = LockBy::Header("x-ledger-id".to_owned());
    answer_by(&holds::rules(config, by), request, verdict, nonce)
}

fn answer_by(rules: &Rules, request: &Request, verdict: &Verdict, nonce: u64) -> Option<Reply> {
    let asker = Asker {
        rules,
        request,
        plan: &plan(rules, request),
        now: NOW,
        nonce,
    };
    refusal(verdict, &asker)
}

#[track_caller]
fn assert_answer(reply: Option<Reply>, status: u16, fields: &[(&str, &str)], body: &Value) {
    let reply = reply.unwrap();
    let mut sent: Vec<(&str, &str)> = reply.fields.iter().map(|(n, v)| (*n, v.as_str())).collect();
    sent.sort_unstable();
    assert_eq!(sent, fields);
    let Form::Http {
        status: found,
        body: bytes,
    } = reply.form
    else {
        panic!("not HTTP: {:?}", reply.form)
    };
    assert_eq!(found, status);
    assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), *body);
}

/// The key has 4 points left of which 10 are needed, at 25 a second; the tenant has enough.
fn key_empty() -> Standings {
    standings(&[
        standing(Policy::Key, meter(1500, 60, 1500), 4, 59_840, 240),
        standing(Policy::Tenant, meter(3000, 60, 3000), 1000, 40_000, 0),
        standing(Policy::Ip, meter(600, 60, 600), 599, 100, 0),
    ])
}

const fn throttled(standings: Standings, wait: u64, strikes_left: Option<u32>) -> Verdict {
    Verdict::Throttled(Throttled {
        standings,
        wait: Millis(wait),
        strikes_left,
        would_box: None,
    })
}

const fn boxed(scope: Scope, level: u8, seconds: u64) -> Verdict {
    Verdict::Boxed(Boxed {
        scope,
        lockout: Lockout {
            level,
            until: NOW.plus(Millis::from_secs(seconds)),
        },
        tripped: false,
    })
}

fn doubled() -> Verdict {
    Verdict::Invalid(Invalid::DoubledHeader("x-tenant-id".to_owned()))
}

/// Every verdict that refuses, its status and its gRPC code.
fn refusals() -> Vec<(Verdict, u16, u8)> {
    vec![
        (throttled(key_empty(), 12_000, Some(14)), 429, 8),
        (boxed(Scope::Key, 1, 300), 429, 8),
        (boxed(Scope::Ip, 1, 300), 429, 8),
        (Verdict::Contended, 429, 8),
        (Verdict::IdempotencyKey(KeyFault::Missing), 400, 9),
        (Verdict::IdempotencyKey(KeyFault::Doubled), 400, 9),
        (Verdict::IdempotencyKey(KeyFault::Malformed), 400, 9),
        (doubled(), 400, 9),
        (Verdict::Unavailable, 503, 14),
    ]
    .into_iter()
    .chain(holds::refusals())
    .chain(attempts::refusals())
    .collect()
}

#[test]
fn what_passes_has_no_answer() {
    for verdict in [
        Verdict::Exempt,
        Verdict::Allowed(key_empty(), None),
        Verdict::Degraded(key_empty()),
    ] {
        assert_eq!(answer(CONFIG, &TENANT, &verdict, 0), None);
    }
}

#[test]
fn a_key_without_tokens() {
    // The promise is 12 s away, though the real wait is 240 ms; a tenth of it is 1 s.
    for (nonce, seconds) in [(0, 12), (1, 13), (2, 12)] {
        assert_answer(
            answer(
                CONFIG,
                &TENANT,
                &throttled(key_empty(), 12_000, Some(14)),
                nonce,
            ),
            429,
            &[
                ("cache-control", "no-store"),
                ("content-type", "application/problem+json"),
                ("ratelimit-limit", "1500"),
                ("ratelimit-policy", "1500;w=60"),
                ("ratelimit-remaining", "4"),
                ("ratelimit-reset", "60"),
                ("retry-after", &seconds.to_string()),
                ("x-penalty-box-status", "Warning"),
            ],
            &json!({
                "type": "https://api.example.com/errors/rate-limit-exceeded",
                "title": "Too Many Requests",
                "status": 429,
                "detail": format!(
                    "Quota for tier 'growth' exhausted (1500 points per 60 seconds for each key). \
                     A request to route 'reconcile' costs 10 points. \
                     Capacity refills at 25 points/second; retry in {seconds} seconds."
                ),
                "instance": "/v1/ledgers/reconcile",
                "request_id": "req-1",
                "retry_after_seconds": seconds,
                "recommended_backoff": "exponential_with_full_jitter",
                "quota_tier": "growth",
                "penalty_strikes_remaining": 14,
                "violated-policies": ["key"],
            }),
        );
    }
}

#[test]
fn a_tenant_without_tokens() {
    let of = standings(&[
        standing(Policy::Tenant, meter(3000, 60, 3000), 0, 60_000, 200),
        standing(Policy::Key, meter(1500, 60, 1500), 9, 59_640, 40),
    ]);
    let config = CONFIG.replacen('{', r#"{"headers": {"dialect": "both"}, "#, 1);
    assert_answer(
        answer(&config, &TENANT, &throttled(of, 200, Some(0)), 7),
        429,
        &[
            ("cache-control", "no-store"),
            ("content-type", "application/problem+json"),
            ("ratelimit", r#""key";r=9;t=60, "tenant";r=0;t=60"#),
            ("ratelimit-limit", "3000"),
            (
                "ratelimit-policy",
                r#""key";q=1500;w=60, "tenant";q=3000;w=60"#,
            ),
            ("ratelimit-remaining", "0"),
            ("ratelimit-reset", "60"),
            ("retry-after", "1"),
            ("x-penalty-box-status", "Warning"),
        ],
        &json!({
            "type": "https://api.example.com/errors/rate-limit-exceeded",
            "title": "Too Many Requests",
            "status": 429,
            "detail": "Quota for tier 'growth' exhausted (3000 points per 60 seconds for all keys \
                       together). A request to route 'reconcile' costs 10 points. \
                       Capacity refills at 50 points/second; retry in 1 second.",
            "instance": "/v1/ledgers/reconcile",
            "request_id": "req-1",
            "retry_after_seconds": 1,
            "recommended_backoff": "exponential_with_full_jitter",
            "quota_tier": "growth",
            "penalty_strikes_remaining": 0,
            "violated-policies": ["key", "tenant"],
        }),
    );
}

#[test]
fn an_anonymous_client_without_tokens() {
    let of = standings(&[
        standing(Policy::Anonymous, meter(60, 60, 60), 0, 60_000, 1000),
        standing(Policy::Ip, meter(600, 60, 600), 540, 6000, 0),
    ]);
    let target = request("GET", "/v1/anything", &ANONYMOUS);
    assert_answer(
        answer_to(CONFIG, &target, &throttled(of, 30_000, Some(19)), 3),
        429,
        &[
            ("cache-control", "no-store"),
            ("content-type", "application/problem+json"),
            ("ratelimit-limit", "60"),
            ("ratelimit-policy", "60;w=60"),
            ("ratelimit-remaining", "0"),
            ("ratelimit-reset", "60"),
            ("retry-after", "33"),
            ("x-penalty-box-status", "Warning"),
        ],
        &json!({
            "type": "https://api.example.com/errors/rate-limit-exceeded",
            "title": "Too Many Requests",
            "status": 429,
            "detail": "Quota for anonymous requests from this address exhausted (60 points per 60 \
                       seconds). A request to route 'default' costs 1 point. \
                       Capacity refills at 1 point/second; retry in 33 seconds.",
            "instance": "/v1/anything",
            "request_id": "req-1",
            "retry_after_seconds": 33,
            "recommended_backoff": "exponential_with_full_jitter",
            "quota_tier": "anonymous",
            "penalty_strikes_remaining": 19,
            "violated-policies": ["anonymous"],
        }),
    );
}

#[test]
fn an_address_without_tokens_is_no_refusal_of_a_tier() {
    let of = standings(&[standing(Policy::Ip, meter(600, 60, 600), 0, 60_000, 100)]);
    assert_answer(
        answer(CONFIG, &TENANT, &throttled(of, 100, None), 5),
        429,
        &[
            ("cache-control", "no-store"),
            ("content-type", "application/problem+json"),
            ("ratelimit-limit", "600"),
            ("ratelimit-policy", "600;w=60"),
            ("ratelimit-remaining", "0"),
            ("ratelimit-reset", "60"),
            ("retry-after", "1"),
            ("x-penalty-box-status", "Warning"),
        ],
        &json!({
            "type": "https://api.example.com/errors/rate-limit-exceeded",
            "title": "Too Many Requests",
            "status": 429,
            "detail": "Quota for requests from this address exhausted (600 points per 60 seconds). \
                       Every request costs 1 point. \
                       Capacity refills at 10 points/second; retry in 1 second.",
            "instance": "/v1/ledgers/reconcile",
            "request_id": "req-1",
            "retry_after_seconds": 1,
            "recommended_backoff": "exponential_with_full_jitter",
            "violated-policies": ["ip"],
        }),
    );
}

#[test]
fn a_box_answers_with_its_time_left_and_no_rate_limit_headers() {
    for (scope, whom, more) in [
        (Scope::Key, "This API key is", ""),
        (
            Scope::Ip,
            "Anonymous requests from this address are",
            ", or too many attempts failed",
        ),
    ] {
        // 300 s and up to 30 more; the end itself is exact.
        for (nonce, seconds) in [(0, 300), (30, 330), (31, 300)] {
            assert_answer(
                answer(CONFIG, &TENANT, &boxed(scope, 1, 300), nonce),
                429,
                &[
                    ("cache-control", "no-store"),
                    ("content-type", "application/problem+json"),
                    ("retry-after", &seconds.to_string()),
                    ("x-penalty-box-status", "Active-Lockout"),
                ],
                &json!({
                    "type": "https://api.example.com/errors/penalty-box-active",
                    "title": "Penalty Box Active",
                    "status": 429,
                    "detail": format!(
                        "{whom} in the penalty box until 2025-04-01T00:05:00Z: too many requests \
                         were sent while a whole bucket of retries was promised already{more}. Until \
                         then every request is refused."
                    ),
                    "instance": "/v1/ledgers/reconcile",
                    "request_id": "req-1",
                    "retry_after_seconds": seconds,
                    "recommended_backoff": "exponential_with_full_jitter",
                    "penalty_level": 1,
                    "lockout_ends_at": "2025-04-01T00:05:00Z",
                }),
            );
        }
    }
}

#[test]
fn a_long_box_can_be_told_as_a_date() {
    let config = CONFIG.replacen('{', r#"{"headers": {"retry_after_date_from": "1h"}, "#, 1);
    let retry_after = |verdict| {
        let reply = answer(&config, &TENANT, &verdict, 0).unwrap();
        let field = reply.fields.iter().find(|(name, _)| *name == "retry-after");
        field.unwrap().1.clone()
    };
    assert_eq!(
        retry_after(boxed(Scope::Key, 3, 86_400)),
        "Wed, 02 Apr 2025 00:00:00 GMT"
    );
    assert_eq!(
        retry_after(boxed(Scope::Key, 2, 3600)),
        "Tue, 01 Apr 2025 01:00:00 GMT"
    );
    assert_eq!(retry_after(boxed(Scope::Key, 1, 3599)), "3599");
}

#[test]
fn a_store_that_is_too_busy() {
    for nonce in [0, 1, u64::MAX] {
        assert_answer(
            answer(CONFIG, &TENANT, &Verdict::Contended, nonce),
            429,
            &[
                ("cache-control", "no-store"),
                ("content-type", "application/problem+json"),
                ("retry-after", "1"),
                ("x-penalty-box-status", "Warning"),
            ],
            &json!({
                "type": "https://api.example.com/errors/rate-limit-exceeded",
                "title": "Too Many Requests",
                "status": 429,
                "detail": "The rate limiter is busy; retry in 1 second.",
                "instance": "/v1/ledgers/reconcile",
                "request_id": "req-1",
                "retry_after_seconds": 1,
                "recommended_backoff": "exponential_with_full_jitter",
            }),
        );
    }
}

#[test]
fn nobody_can_tell_what_is_left_while_the_store_fails() {
    // Exactly 15, whatever the nonce: there is nothing to spread that is known to be ready then.
    for nonce in [0, 1, 7, u64::MAX] {
        assert_answer(
            answer(CONFIG, &TENANT, &Verdict::Unavailable, nonce),
            503,
            &[
                ("cache-control", "no-store"),
                ("content-type", "application/problem+json"),
                ("retry-after", "15"),
            ],
            &json!({
                "type": "https://api.example.com/errors/rate-limiter-unavailable",
                "title": "Rate Limiter Unavailable",
                "status": 503,
                "detail": "Limits cannot be checked at the moment, and route 'reconcile' takes no \
                           request unchecked; retry in 15 seconds.",
                "instance": "/v1/ledgers/reconcile",
                "request_id": "req-1",
                "retry_after_seconds": 15,
                "recommended_backoff": "exponential_with_full_jitter",
            }),
        );
    }
    let grpc = [TENANT.as_slice(), &[("content-type", "application/grpc")]].concat();
    let reply = answer(CONFIG, &grpc, &Verdict::Unavailable, 3).unwrap();
    let expected = Reply {
        fields: vec![
            ("retry-after", "15".to_owned()),
            ("cache-control", "no-store".to_owned()),
        ],
        form: Form::Grpc {
            status: 14,
            message: "Limits cannot be checked at the moment, and route 'reconcile' takes no \
                      request unchecked; retry in 15 seconds."
                .to_owned(),
        },
    };
    assert_eq!(reply, expected);
}

#[test]
fn an_idempotency_key_that_is_missing_or_malformed() {
    for (fault, detail) in [
        (
            KeyFault::Missing,
            "Requests to route 'reconcile' need an Idempotency-Key header: one key for each \
             operation, the same on every retry of it.",
        ),
        (
            KeyFault::Doubled,
            "The Idempotency-Key header was sent more than once; send it once.",
        ),
        (
            KeyFault::Malformed,
            "The Idempotency-Key header must be 1 to 255 printable ASCII characters, bare or in double quotes.",
        ),
    ] {
        assert_answer(
            answer(CONFIG, &TENANT, &Verdict::IdempotencyKey(fault), 0),
            400,
            &[
                ("cache-control", "no-store"),
                ("content-type", "application/problem+json"),
            ],
            &json!({
                "type": "https://api.example.com/errors/idempotency-key-required",
                "title": "Idempotency Key Required",
                "status": 400,
                "detail": detail,
                "instance": "/v1/ledgers/reconcile",
                "request_id": "req-1",
            }),
        );
    }
}

#[test]
fn a_doubled_header() {
    assert_answer(
        answer(CONFIG, &TENANT, &doubled(), 0),
        400,
        &[
            ("cache-control", "no-store"),
            ("content-type", "application/problem+json"),
        ],
        &json!({
            "type": "https://api.example.com/errors/invalid-request",
            "title": "Invalid Request",
            "status": 400,
            "detail": "The header 'x-tenant-id' was sent more than once; send it once.",
            "instance": "/v1/ledgers/reconcile",
            "request_id": "req-1",
        }),
    );
}

#[test]
fn grpc_gets_a_code_the_same_headers_and_no_body() {
    let grpc = [
        TENANT.as_slice(),
        &[("content-type", "application/grpc+proto")],
    ]
    .concat();
    for (verdict, _, code) in refusals() {
        let reply = answer(CONFIG, &grpc, &verdict, 0).unwrap();
        let http = answer(CONFIG, &TENANT, &verdict, 0).unwrap();
        let Form::Http { body, .. } = http.form else {
            panic!("not HTTP")
        };
        let body: Value = serde_json::from_slice(&body).unwrap();
        let expected = Form::Grpc {
            status: code,
            message: body["detail"].as_str().unwrap().to_owned(),
        };
        assert_eq!(reply.form, expected);
        let mut fields = http.fields;
        fields.retain(|(name, _)| *name != "content-type");
        assert_eq!(reply.fields, fields);
    }
}

#[test]
fn head_is_answered_as_get_is() {
    // RFC 9110, section 9.3.2: the same header fields, Content-Length among them. The proxy knows
    // the length by the body, and keeps that back.
    for (verdict, ..) in refusals() {
        let of = |method| {
            let request = request(method, "/v1/ledgers/reconcile", &TENANT);
            answer_to(CONFIG, &request, &verdict, 9)
        };
        assert_eq!(of("HEAD"), of("GET"));
    }
}

#[test]
fn every_refusal_has_its_status_and_is_not_stored() {
    for (verdict, expected, _) in refusals() {
        let reply = answer(CONFIG, &ANONYMOUS, &verdict, 0).unwrap();
        let Form::Http { status, body } = &reply.form else {
            panic!("not HTTP")
        };
        assert_eq!(*status, expected, "{verdict:?}");
        let body: Value = serde_json::from_slice(body).unwrap();
        assert_eq!(body["status"], json!(expected), "{verdict:?}");
        let stored: Vec<_> = reply
            .fields
            .iter()
            .filter(|(n, _)| *n == "cache-control")
            .collect();
        assert_eq!(stored, [&("cache-control", "no-store".to_owned())]);
    }
}

#[test]
fn the_rate_limit_headers_are_those_of_the_dialect() {
    for (dialect, expected) in [
        ("draft-11", vec!["ratelimit", "ratelimit-policy"]),
        (
            "x-ratelimit",
            vec![
                "x-ratelimit-limit",
                "x-ratelimit-remaining",
                "x-ratelimit-reset",
            ],
        ),
        ("none", vec![]),
    ] {
        let headers = format!(r#"{{"headers": {{"dialect": "{dialect}"}}, "#);
        let config = CONFIG.replacen('{', &headers, 1);
        let verdict = throttled(key_empty(), 12_000, Some(14));
        let reply = answer(&config, &TENANT, &verdict, 0).unwrap();
        let mut names: Vec<&str> = reply.fields.iter().map(|(n, _)| *n).collect();
        names.retain(|name| name.contains("ratelimit"));
        names.sort_unstable();
        assert_eq!(names, expected, "{dialect}");
        // The wait is told in every dialect.
        assert!(reply.fields.contains(&("retry-after", "12".to_owned())));
    }
}

#[test]
fn the_type_starts_as_configured() {
    let config = r#"{"problem": {"type_base": "https://e.example/p"}}"#;
    let reply = answer(config, &ANONYMOUS, &doubled(), 0).unwrap();
    let Form::Http { body, .. } = reply.form else {
        panic!("not HTTP")
    };
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["type"], json!("https://e.example/p/invalid-request"));
    let reply = answer("{}", &ANONYMOUS, &doubled(), 0).unwrap();
    let Form::Http { body, .. } = reply.form else {
        panic!("not HTTP")
    };
    let body: Value = serde_json::from_slice(&body).unwrap();
    let default = "https://api.yourdomain.com/errors/invalid-request";
    assert_eq!(body["type"], json!(default));
}

/// All that an answer says.
fn said(reply: &Reply) -> String {
    let mut said = format!("{:?}", reply.fields);
    match &reply.form {
        Form::Http { body, .. } => said.push_str(std::str::from_utf8(body).unwrap()),
        Form::Grpc { message, .. } => said.push_str(message),
    }
    said
}

#[test]
fn no_answer_names_the_key_or_the_tenant() {
    let grpc = [TENANT.as_slice(), &[("content-type", "application/grpc")]].concat();
    for fields in [TENANT.as_slice(), &grpc] {
        for (verdict, ..) in refusals() {
            let said = said(&answer(CONFIG, fields, &verdict, 0).unwrap());
            assert!(!said.contains("secret"), "{said}");
            assert!(!said.contains("192.0.2.1"), "{said}");
        }
    }
}

fn hostile() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
    let names = [
        ":path",
        ":method",
        "x-request-id",
        "content-type",
        "idempotency-key",
    ];
    let name = prop::sample::select(names.map(str::to_owned).to_vec());
    let bytes = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        "\\PC{0,20}".prop_map(String::into_bytes),
        "[/%?#\"\\\\]{0,20}".prop_map(String::into_bytes),
    ];
    prop::collection::vec((name, bytes), 0..8)
}

proptest! {
    #[test]
    fn answers_are_well_formed_whatever_the_request_holds(
        fields in hostile(),
        nonce in any::<u64>(),
        which in any::<prop::sample::Index>(),
    ) {
        let request = Request::new(fields);
        let (verdict, expected, _) = which.get(&refusals()).clone();
        let reply = answer_to(CONFIG, &request, &verdict, nonce).unwrap();
        for (name, value) in &reply.fields {
            prop_assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'));
            prop_assert!(value.bytes().all(|b| (b' '..=b'~').contains(&b)), "{}", value);
        }
        match reply.form {
            Form::Http { status, body } => {
                let body: Value = serde_json::from_slice(&body).unwrap();
                prop_assert_eq!(status, expected);
                prop_assert_eq!(&body["status"], &json!(expected));
                for member in ["type", "title", "detail", "instance", "request_id"] {
                    prop_assert!(body[member].is_string(), "{}", member);
                }
            }
            Form::Grpc { message, .. } => {
                prop_assert!(message.bytes().all(|b| (b' '..=b'~').contains(&b)), "{}", message);
            }
        }
    }

    #[test]
    fn the_header_and_the_body_tell_one_wait(
        wait in 0..100_000_000_u64,
        nonce in any::<u64>(),
        is_box in any::<bool>(),
    ) {
        let verdict = if is_box {
            Verdict::Boxed(Boxed {
                scope: Scope::Key,
                lockout: Lockout { level: 1, until: NOW.plus(Millis(wait)) },
                tripped: true,
            })
        } else {
            throttled(key_empty(), wait, Some(1))
        };
        let reply = answer(CONFIG, &TENANT, &verdict, nonce).unwrap();
        let Form::Http { body, .. } = &reply.form else { panic!("not HTTP") };
        let body: Value = serde_json::from_slice(body).unwrap();
        let seconds = body["retry_after_seconds"].as_u64().unwrap();
        let field = reply.fields.iter().find(|(n, _)| *n == "retry-after").unwrap();
        prop_assert_eq!(&field.1, &seconds.to_string());
        prop_assert!(seconds >= 1 && seconds * 1000 >= wait);
        let least = wait.div_ceil(1000).max(1);
        prop_assert!((seconds - least) * 10 <= least);
    }
}
