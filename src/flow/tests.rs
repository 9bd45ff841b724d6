//! Tests of `flow`: whatever comes in whatever order, the invariants at the file's head hold.

mod attempts;
mod holds;

use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use proptest::prelude::*;
use tollgate_config::{Limit, Millis, Mode, Points, Seconds, ThrottleBy, ThrottleId};

use super::{Broke, Effect, Event, Flow, Question};
use crate::body::Body;
use crate::hold::Fence;
use crate::limit::bucket::{Level, Meter};
use crate::limit::decision::Strictness;
use crate::limit::penalty::Lockout;
use crate::metrics::Counter;
use crate::passes::Parked;
use crate::plan::{Facts, TierLabel};
use crate::reply::{Field, Form};
use crate::request::{Fields, Request};
use crate::response::Response;
use crate::rules::Rules;
use crate::store::{Subject, Toll};
use crate::testing::request;
use crate::testing::throttles::{rules_with, throttle};
use crate::verdict::{
    AuthLockout, Boxed, Invalid, KeyFault, Obstacle, Policy, ResourceFault, Scope, Standing,
    Standings, SubjectFault, Taken, Throttled, Verdict,
};

const RESPONSE: Event<'static> = Event::ResponseHeaders(Response::new(&|_| None), Millis(0));
const NOW: Millis = Millis(1_700_000_000_000);
const DIALECTS: [&str; 5] = ["draft-03", "draft-11", "both", "x-ratelimit", "none"];

/// Everything that makes a difference here, a route in the other mode among it.
fn rules(mode: &str, dialect: &str) -> Rules {
    let other = if mode == "shadow" {
        "enforce"
    } else {
        "shadow"
    };
    let config = format!(
        r#"{{
            "mode": "{mode}",
            "identity": {{
                "tenant": {{"header": "x-tenant-id"}},
                "key": {{"header": "x-api-key", "sha256": true}},
                "tier": {{"property": ["tier"]}},
                "client_ip": {{"from": "x-forwarded-for", "trusted_hops": 1}}
            }},
            "ip_limit": "600/minute",
            "exempt": ["/healthz", "/docs/*"],
            "tiers": {{"growth": {{"tenant": "3000/minute", "key": "1500/minute", "leases": {{"job": 2}},
              "quotas": {{"job": {{"requests": 5, "per": "1h"}}}}}}}},
            "routes": [
                {{"name": "job", "match": {{"path": "/job"}}, "lease": {{"kind": "job", "ttl": "10m"}},
                  "lock": {{"by": {{"header": "x-ledger"}}, "ttl": "5m"}}, "quota": "job", "hold_on": [202],
                  "on_store_failure": "closed"}},
                {{"name": "json", "match": {{"path": "/json"}}, "lock": {{"by": {{"json": "/id"}}}},
                  "on_store_failure": "closed"}},
                {{"name": "other", "match": {{"path": "/other/*"}}, "mode": "{other}"}},
                {{"name": "token", "match": {{"path": "/token"}}, "on_store_failure": "closed"}},
                {{"name": "login", "match": {{"path": "/login"}}, "lock": {{"by": {{"header": "x-ledger"}}}},
                  "on_store_failure": "closed"}},
                {{"name": "pay", "match": {{"methods": ["POST"], "path": "/pay"}}, "cost": 10,
                  "idempotency_key": "required"}},
                {{"name": "closed", "match": {{"path": "/closed"}}, "on_store_failure": "closed"}},
                {{"name": "closed-pay", "match": {{"path": "/closed/pay"}}, "on_store_failure": "closed",
                  "idempotency_key": "required"}},
                {{"name": "export", "match": {{"path": "/export"}}, "cost": {{"base": 2, "when_range":
                  {{"from": "from", "to": "to", "longer_than": "90d", "cost": 50}}}}}}
            ],
            "headers": {{"dialect": "{dialect}", "retry_after_date_from": "1h"}}
        }}"#
    );
    let throttles = [
        (throttle("subject", ThrottleBy::Subject), &["token"][..]),
        (throttle("pair", ThrottleBy::SubjectIp), &["token", "login"]),
        (
            throttle("ip", ThrottleBy::Ip),
            &["token", "login", "export"],
        ),
    ];
    rules_with(&config, &throttles, &["token"])
}

fn get(path: &str, more: &[(&str, &str)]) -> Request {
    let mut fields = vec![
        (":method", "GET"),
        (":path", path),
        (":authority", "api.test"),
    ];
    fields.extend(more);
    let fields = fields
        .into_iter()
        .map(|(n, v)| (n.to_owned(), v.as_bytes().to_vec()));
    Request::new(fields.collect())
}

fn pay(more: &[(&str, &str)]) -> Request {
    let mut fields: Fields = vec![
        (":method".to_owned(), b"POST".to_vec()),
        (":path".to_owned(), b"/pay".to_vec()),
    ];
    let more = more
        .iter()
        .map(|(n, v)| ((*n).to_owned(), v.as_bytes().to_vec()));
    fields.extend(more);
    Request::new(fields)
}

fn on(flow: &mut Flow, rules: &Rules, event: Event<'_>) -> Vec<Effect> {
    flow.on(rules, event, 7)
}

fn arrive(flow: &mut Flow, rules: &Rules, request: Request) -> Vec<Effect> {
    let facts = Facts {
        now: NOW,
        properties: &|_| None,
        source: &|| b"203.0.113.9:4711".to_vec(),
        body: Some(&Body::NONE),
    };
    on(flow, rules, Event::Headers(request, facts, None))
}

/// The head of a response came, of these fields.
fn respond(flow: &mut Flow, rules: &Rules, fields: &[(&str, &str)], now: Millis) -> Vec<Effect> {
    let read = |name: &str| field_of(fields, name);
    on(
        flow,
        rules,
        Event::ResponseHeaders(Response::new(&read), now),
    )
}

fn field_of(fields: &[(&str, &str)], name: &str) -> Option<Vec<u8>> {
    let found = fields.iter().find(|(n, _)| *n == name);
    found.map(|(_, value)| value.as_bytes().to_vec())
}

fn decided(verdict: Verdict) -> Event<'static> {
    Event::Decided(verdict, Toll::default(), NOW)
}

fn standings(left: u64) -> Standings {
    let meter = Meter::new(Limit {
        points: Points(60),
        per: Seconds(60),
        burst: Points(60),
    });
    let level = Level::full(&meter, NOW).take(60 - left);
    let wait = level.wait(&meter, 1);
    let standing = Standing::new(Policy::Anonymous, meter, &level, wait);
    Standings::new([Some(standing), None, None])
}

fn throttled() -> Verdict {
    Verdict::Throttled(Throttled {
        standings: standings(0),
        wait: Millis(1000),
        strikes_left: Some(20),
        would_box: None,
    })
}

const fn in_a_box(tripped: bool) -> Boxed {
    Boxed {
        scope: Scope::Ip,
        lockout: Lockout {
            level: 2,
            until: Millis(NOW.0 + 60_000),
        },
        tripped,
    }
}

fn status(effects: &[Effect]) -> Option<u16> {
    effects.iter().find_map(|effect| match effect {
        Effect::Reply(reply) => match reply.form {
            Form::Http { status, .. } => Some(status),
            Form::Grpc { .. } => None,
        },
        _ => None,
    })
}

fn note(effects: &[Effect]) -> Option<&'static str> {
    effects.iter().find_map(|effect| match effect {
        Effect::Note(note) => Some(*note),
        _ => None,
    })
}

fn resumes(effects: &[Effect]) -> bool {
    matches!(effects.last(), Some(Effect::Resume(_)))
}

#[test]
fn an_allowed_request_goes_on_and_its_response_tells_where_it_stands() {
    let rules = rules("enforce", "draft-03");
    let mut flow = Flow::default();
    let asked = arrive(&mut flow, &rules, get("/things", &[]));
    let [Effect::Ask(Question::Decide(ask))] = &asked[..] else {
        panic!("{asked:?}");
    };
    assert!(matches!(ask.subject, Subject::Anonymous { .. }));
    let effects = on(
        &mut flow,
        &rules,
        decided(Verdict::Allowed(standings(59), None)),
    );
    assert!(resumes(&effects));
    assert_eq!(note(&effects), Some("allowed"));
    let responded = on(&mut flow, &rules, RESPONSE);
    let [Effect::Respond(pass)] = &responded[..] else {
        panic!("{responded:?}");
    };
    let fields = &pass.fields;
    assert!(fields.contains(&("ratelimit-remaining", "59".to_owned())));
    // The proxy may tell of the headers more than once.
    assert_eq!(on(&mut flow, &rules, RESPONSE), []);
}

#[test]
fn a_refused_request_is_answered_once_and_its_reply_is_left_alone() {
    let rules = rules("enforce", "draft-03");
    let mut flow = Flow::default();
    arrive(&mut flow, &rules, get("/things", &[]));
    let effects = on(&mut flow, &rules, decided(throttled()));
    assert_eq!(status(&effects), Some(429));
    assert!(!resumes(&effects));
    assert_eq!(on(&mut flow, &rules, RESPONSE), []);
    assert_eq!(on(&mut flow, &rules, decided(throttled())), []);
}

#[test]
fn shadow_lets_everything_pass_and_tells_where_it_stands() {
    let rules = rules("shadow", "draft-03");
    let mut flow = Flow::default();
    arrive(&mut flow, &rules, get("/things", &[]));
    let effects = on(&mut flow, &rules, decided(throttled()));
    assert!(resumes(&effects));
    assert_eq!(note(&effects), Some("shadow_throttled"));
    let responded = on(&mut flow, &rules, RESPONSE);
    let [Effect::Respond(pass)] = &responded[..] else {
        panic!("{responded:?}");
    };
    let fields = &pass.fields;
    assert!(fields.contains(&("ratelimit-remaining", "0".to_owned())));
    assert!(fields.iter().all(|(name, _)| name.starts_with("ratelimit")));
}

#[test]
fn a_route_has_its_own_mode() {
    let rules = rules("enforce", "draft-03");
    let mut flow = Flow::default();
    let asked = arrive(&mut flow, &rules, get("/other/things", &[]));
    let [Effect::Ask(Question::Decide(ask))] = &asked[..] else {
        panic!("{asked:?}");
    };
    assert!(ask.shadow);
    let effects = on(&mut flow, &rules, decided(throttled()));
    assert!(resumes(&effects));
}

#[test]
fn an_exempt_request_is_not_asked_about_and_gets_no_header() {
    let rules = rules("enforce", "draft-03");
    for path in [
        "/healthz",
        "/docs/",
        "/docs/a",
        "/x/../healthz",
        "//healthz?a=b",
    ] {
        let mut flow = Flow::default();
        let effects = arrive(&mut flow, &rules, get(path, &[("x-tollgate-lease", "1")]));
        assert_eq!(
            effects.first(),
            Some(&Effect::Strip("x-tollgate-lease".to_owned()))
        );
        assert!(resumes(&effects), "{path}");
        assert_eq!(note(&effects), Some("exempt"));
        assert!(!effects.iter().any(|e| matches!(e, Effect::Ask(_))));
        assert_eq!(on(&mut flow, &rules, RESPONSE), []);
    }
}

#[test]
fn an_identity_given_twice_is_a_400_and_nobody_is_asked() {
    let rules = rules("enforce", "draft-03");
    let doubled = [("x-tenant-id", "a"), ("x-tenant-id", "a")];
    let mut flow = Flow::default();
    let effects = arrive(&mut flow, &rules, get("/things", &doubled));
    assert_eq!(status(&effects), Some(400));
    assert_eq!(note(&effects), Some("invalid"));
    assert!(!effects.iter().any(|e| matches!(e, Effect::Ask(_))));
    assert_eq!(on(&mut flow, &rules, RESPONSE), []);
}

#[test]
fn a_missing_key_is_a_400_unless_there_is_a_box() {
    let rules = rules("enforce", "draft-03");
    for (lockout, expected) in [(None, 400), (Some(in_a_box(false)), 429)] {
        let mut flow = Flow::default();
        let asked = arrive(&mut flow, &rules, pay(&[]));
        // Nothing may be debited: only the box is asked for.
        assert!(
            matches!(&asked[..], [Effect::Ask(Question::Lockout(_))]),
            "{asked:?}"
        );
        let effects = on(&mut flow, &rules, Event::Lockout(lockout, NOW));
        assert_eq!(status(&effects), Some(expected));
    }
    let mut flow = Flow::default();
    let asked = arrive(&mut flow, &rules, pay(&[("idempotency-key", "k1")]));
    let [Effect::Ask(Question::Decide(ask))] = &asked[..] else {
        panic!("{asked:?}");
    };
    assert_eq!(ask.cost, 10);
}

#[test]
fn a_trip_is_told_once_by_the_request_that_caused_it() {
    let rules = rules("enforce", "draft-03");
    let trips = |verdict: Verdict| {
        let mut flow = Flow::default();
        arrive(&mut flow, &rules, get("/things", &[]));
        let effects = on(&mut flow, &rules, decided(verdict));
        let trips = effects
            .iter()
            .filter(|e| matches!(e, Effect::Trip(..)))
            .count();
        let boxes = |e: &&Effect| matches!(e, Effect::Count(Counter::BoxTrips { level: 2, .. }, 1));
        assert_eq!(effects.iter().filter(boxes).count(), trips);
        trips
    };
    assert_eq!(trips(Verdict::Boxed(in_a_box(true))), 1);
    assert_eq!(trips(Verdict::Boxed(in_a_box(false))), 0);
    assert_eq!(trips(throttled()), 0);
    let Verdict::Throttled(throttled) = throttled() else {
        unreachable!();
    };
    let would_box = Some((Scope::Key, in_a_box(true).lockout));
    assert_eq!(
        trips(Verdict::Throttled(Throttled {
            would_box,
            ..throttled
        })),
        1
    );
}

#[test]
fn points_are_counted_when_they_are_admitted() {
    let rules = rules("enforce", "draft-03");
    let points = |verdict: Verdict| -> u64 {
        let mut flow = Flow::default();
        arrive(&mut flow, &rules, pay(&[("idempotency-key", "k1")]));
        let effects = on(&mut flow, &rules, decided(verdict));
        let points = effects.iter().map(|e| match e {
            Effect::Count(Counter::Points(_), points) => *points,
            _ => 0,
        });
        points.sum()
    };
    assert_eq!(points(Verdict::Allowed(standings(5), None)), 10);
    assert_eq!(points(throttled()), 0);
    assert_eq!(points(Verdict::Contended), 0);
    assert_eq!(points(Verdict::Boxed(in_a_box(true))), 0);
}

#[test]
fn what_is_taken_is_refused_and_a_lease_counted() {
    let all = [
        (Obstacle::Flight, 409, "idempotency", "shadow_idempotency"),
        (Obstacle::Lock, 409, "lock", "shadow_lock"),
        (Obstacle::Lease, 429, "lease", "shadow_lease"),
        (Obstacle::Quota, 429, "quota", "shadow_quota"),
    ];
    for (by, expected, name, shadow_name) in all {
        for (mode, name) in [("enforce", name), ("shadow", shadow_name)] {
            let rules = rules(mode, "draft-03");
            let mut flow = Flow::default();
            arrive(&mut flow, &rules, get("/things", &[]));
            let verdict = Verdict::Taken(Taken {
                by,
                standings: standings(5),
                wait: Millis(1000),
                strikes_left: Some(20),
            });
            let effects = on(&mut flow, &rules, decided(verdict));
            let answered = (mode == "enforce").then_some(expected);
            assert_eq!((status(&effects), note(&effects)), (answered, Some(name)));
            assert_eq!(resumes(&effects), answered.is_none());
            let leases = |e: &&Effect| matches!(e, Effect::Count(Counter::LeasesRefused(_), 1));
            let refused = effects.iter().filter(leases).count();
            assert_eq!(refused, usize::from(by == Obstacle::Lease), "{by:?}");
            let points = |e: &Effect| matches!(e, Effect::Count(Counter::Points(_), _));
            assert!(!effects.iter().any(points), "{by:?}");
        }
    }
}

#[test]
fn what_the_store_had_to_do_is_counted() {
    let rules = rules("enforce", "draft-03");
    let mut flow = Flow::default();
    arrive(&mut flow, &rules, get("/things", &[]));
    let toll = Toll {
        evictions: 3,
        retries: 5,
        lost_refunds: 2,
    };
    let event = Event::Decided(Verdict::Allowed(standings(1), None), toll, NOW);
    let effects = on(&mut flow, &rules, event);
    assert!(effects.contains(&Effect::Count(Counter::Evictions, 3)));
    let lost = Counter::StoreErrors(crate::metrics::StoreError::LostRefund);
    assert!(effects.contains(&Effect::Count(lost, 2)));
}

#[test]
fn a_contended_store_refuses_and_is_counted() {
    for (mode, expected) in [("enforce", Some(429)), ("shadow", None)] {
        let rules = rules(mode, "draft-03");
        let mut flow = Flow::default();
        arrive(&mut flow, &rules, get("/things", &[]));
        let effects = on(&mut flow, &rules, decided(Verdict::Contended));
        assert_eq!(status(&effects), expected);
        let contention = Counter::StoreErrors(crate::metrics::StoreError::Contention);
        assert!(effects.contains(&Effect::Count(contention, 1)));
    }
}

fn failed(flow: &mut Flow, rules: &Rules) -> Vec<Effect> {
    on(flow, rules, Event::StoreFailed(NOW))
}

fn field<'a>(fields: &'a [Field], name: &str) -> Option<&'a str> {
    let found = fields.iter().find(|(n, _)| *n == name);
    found.map(|(_, value)| value.as_str())
}

#[test]
fn where_the_store_fails_the_degraded_limiter_is_asked_and_its_leave_is_told() {
    for (mode, shadow) in [("enforce", false), ("shadow", true)] {
        let rules = rules(mode, "draft-03");
        let mut flow = Flow::default();
        arrive(&mut flow, &rules, get("/export", &[("x-request-id", "7")]));
        let effects = failed(&mut flow, &rules);
        let [
            Effect::Count(Counter::Degraded(route), 1),
            Effect::Ask(Question::Degraded(ask)),
        ] = &effects[..]
        else {
            panic!("{effects:?}");
        };
        assert_eq!(rules.config.routes[route.0].name, "export");
        // A quarter of 60 a minute, at the same price.
        let meter = Meter::new(Limit {
            points: Points(15),
            per: Seconds(60),
            burst: Points(15),
        });
        let Subject::Anonymous { meter: found, .. } = &ask.subject else {
            panic!("{ask:?}");
        };
        assert_eq!((*found, ask.cost, ask.shadow), (meter, 2, shadow));
        assert_eq!(ask.penalty.strictness, Strictness::Known);

        let level = Level::full(&meter, NOW).take(2);
        let standing = Standing::new(Policy::Anonymous, meter, &level, Millis(0));
        let allowed = Verdict::Allowed(Standings::new([Some(standing), None, None]), None);
        let effects = on(&mut flow, &rules, decided(allowed));
        let name = if shadow {
            "shadow_degraded"
        } else {
            "degraded"
        };
        assert_eq!(note(&effects), Some(name));
        let requests = Effect::Count(
            Counter::Requests {
                route: *route,
                tier: TierLabel::Anonymous,
                verdict: "degraded",
                mode: if shadow { Mode::Shadow } else { Mode::Enforce },
            },
            1,
        );
        assert!(effects.contains(&requests), "{effects:?}");
        let points = Counter::Points(TierLabel::Anonymous);
        assert!(effects.contains(&Effect::Count(points, 2)));
        let Some(Effect::Resume(pass)) = effects.last() else {
            panic!("{effects:?}");
        };
        assert_eq!((pass.id.as_slice(), pass.note), (&b"7"[..], name));
        let expected = [
            ("ratelimit-policy", "15;w=60".to_owned()),
            ("ratelimit-limit", "15".to_owned()),
            ("ratelimit-remaining", "13".to_owned()),
            ("ratelimit-reset", "8".to_owned()),
        ];
        assert_eq!(pass.fields, expected);
    }
}

#[test]
fn what_the_degraded_limiter_refuses_is_refused_as_ever() {
    let rules = rules("enforce", "draft-03");
    for (verdict, expected, name) in [
        (throttled(), 429, "throttled"),
        (Verdict::Boxed(in_a_box(false)), 429, "boxed"),
        (Verdict::Contended, 429, "throttled"),
    ] {
        let mut flow = Flow::default();
        arrive(&mut flow, &rules, get("/things", &[]));
        failed(&mut flow, &rules);
        let effects = on(&mut flow, &rules, decided(verdict));
        assert_eq!(
            (status(&effects), note(&effects)),
            (Some(expected), Some(name))
        );
    }
}

#[test]
fn a_closed_route_is_answered_503_when_the_store_fails() {
    let closed = rules("enforce", "both");
    let mut flow = Flow::default();
    arrive(&mut flow, &closed, get("/closed", &[]));
    let effects = failed(&mut flow, &closed);
    assert_eq!(
        (status(&effects), note(&effects)),
        (Some(503), Some("unavailable"))
    );
    let counted = |e: &&Effect| matches!(e, Effect::Count(Counter::Degraded(_), 1));
    assert_eq!(effects.iter().filter(counted).count(), 1);
    let points = |e: &Effect| matches!(e, Effect::Count(Counter::Points(_), _));
    assert!(!effects.iter().any(points));
    let Some(Effect::Reply(reply)) = effects.last() else {
        panic!("{effects:?}");
    };
    assert_eq!(field(&reply.fields, "retry-after"), Some("15"));
    let limits = |(name, _): &Field| name.contains("ratelimit") || name.contains("penalty");
    assert!(!reply.fields.iter().any(limits), "{reply:?}");
    assert_eq!(on(&mut flow, &closed, RESPONSE), []);

    let shadow = rules("shadow", "both");
    let mut flow = Flow::default();
    arrive(&mut flow, &shadow, get("/closed", &[]));
    let effects = failed(&mut flow, &shadow);
    assert!(resumes(&effects));
    assert_eq!(note(&effects), Some("shadow_unavailable"));
    assert_eq!(on(&mut flow, &shadow, RESPONSE), []);
}

#[test]
fn a_missing_key_is_a_400_though_the_store_fails() {
    let rules = rules("enforce", "draft-03");
    for path in ["/pay", "/closed/pay"] {
        let mut flow = Flow::default();
        arrive(&mut flow, &rules, request("POST", path, &[]));
        let effects = failed(&mut flow, &rules);
        assert_eq!(
            (status(&effects), note(&effects)),
            (Some(400), Some("idempotency"))
        );
    }
}

#[test]
fn a_failure_counts_only_where_its_answer_is_waited_for() {
    let rules = rules("enforce", "draft-03");
    let mut flow = Flow::default();
    assert_eq!(failed(&mut flow, &rules), []);
    arrive(&mut flow, &rules, get("/things", &[]));
    assert_eq!(failed(&mut flow, &rules).len(), 2);
    assert_eq!(
        failed(&mut flow, &rules),
        [],
        "the degraded limiter is asked already"
    );
    assert_eq!(on(&mut flow, &rules, Event::Lockout(None, NOW)), []);
    assert!(resumes(&on(
        &mut flow,
        &rules,
        decided(Verdict::Allowed(standings(5), None))
    )));
    assert_eq!(failed(&mut flow, &rules), []);
    on(&mut flow, &rules, RESPONSE);
    assert_eq!(failed(&mut flow, &rules), []);
}

/// An event in a form that can be generated.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "a few at a time")]
enum Story {
    Headers(Fields),
    Decided(Verdict, Toll, u64),
    Lockout(Option<Boxed>, u64),
    StoreFailed(u64),
    Body(Body),
    /// Its status, and what gRPC's field says, if it is a gRPC response.
    ResponseHeaders(Option<u16>, Option<&'static str>, u64),
    ResponseTrailers(Option<&'static str>, u64),
    ResponseEnd,
    Tick(u64),
    Done(Broke, u64),
}

fn name() -> impl Strategy<Value = String> {
    let known = [
        "x-tenant-id",
        "X-Tenant-Id",
        "x-api-key",
        "x-ledger",
        "x-tollgate-lease",
        "x-tollgate-",
        "X-Tollgate-Fence",
        "x-TOLLGATE-\u{e9}",
        "x-tollgat\u{e9}",
        "idempotency-key",
        "content-type",
        "authorization",
        "content-encoding",
        "x-forwarded-for",
        "x-request-id",
        ":method",
        ":path",
        ":authority",
        "",
    ];
    prop_oneof![
        4 => prop::sample::select(known.map(str::to_owned).to_vec()),
        1 => ".{0,20}",
    ]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    let known = [
        "GET",
        "HEAD",
        "POST",
        "/pay",
        "/healthz",
        "/other/a",
        "/export?from=2024-01-01&to=x",
        "/%2e%2E//docs/..%2f%",
        "*",
        "application/grpc",
        "application/grpc+proto",
        "application/json",
        "Basic YWxpY2U6cHc=",
        "t-1",
        "\"k\"",
        "1.2.3.4",
        "[::1]:8, ,",
        "a,b",
    ];
    prop_oneof![
        3 => prop::sample::select(known.map(|v| v.as_bytes().to_vec()).to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
        1 => prop::collection::vec(prop_oneof![Just(b'/'), Just(b'%'), Just(b'.'), Just(b'?'),
            Just(b'#'), Just(b'&'), Just(b'='), Just(0xff)], 0..60),
    ]
}

fn fields() -> impl Strategy<Value = Fields> {
    let path = prop::sample::select(vec![
        "/a",
        "/pay",
        "/job",
        "/json",
        "/healthz",
        "/docs/x",
        "/other/b",
        "/export",
        "/closed",
        "/closed/pay",
        "/token",
        "/token",
        "/token;x",
        "/login",
        "/login%2f..%2ftoken",
    ]);
    let method = prop::sample::select(vec!["GET", "POST", "HEAD"]);
    let plain = (method, path).prop_map(|(method, path)| {
        vec![
            (":method".to_owned(), method.as_bytes().to_vec()),
            (":path".to_owned(), path.as_bytes().to_vec()),
        ]
    });
    let start = prop_oneof![4 => plain, 1 => Just(Vec::new())];
    let more = prop::collection::vec((name(), value()), 0..12);
    (start, more).prop_map(|(start, more)| [start, more].concat())
}

fn standing() -> impl Strategy<Value = Standing> {
    let policy = prop::sample::select(vec![
        Policy::Key,
        Policy::Tenant,
        Policy::Ip,
        Policy::Anonymous,
    ]);
    let limit = (1..=1_000_000_000u64, 1..=2_678_400u64, 1..=1_000_000_000u64);
    (
        policy,
        limit,
        any::<u64>(),
        any::<u64>(),
        prop_oneof![Just(0), any::<u64>()],
    )
        .prop_map(
            |(policy, (points, per, burst), remaining, reset, wait)| Standing {
                policy,
                meter: Meter::new(Limit {
                    points: Points(points),
                    per: Seconds(per),
                    burst: Points(burst),
                }),
                remaining,
                reset: Millis(reset),
                wait: Millis(wait),
            },
        )
}

fn some_standings() -> impl Strategy<Value = Standings> {
    prop::collection::vec(standing(), 0..4).prop_map(|standings| {
        let mut standings = standings.into_iter();
        Standings::new([standings.next(), standings.next(), standings.next()])
    })
}

fn lockout() -> impl Strategy<Value = Boxed> {
    let scope = prop::sample::select(vec![Scope::Key, Scope::Ip]);
    (scope, 1..=3u8, any::<u64>(), any::<bool>()).prop_map(|(scope, level, until, tripped)| Boxed {
        scope,
        lockout: Lockout {
            level,
            until: Millis(until),
        },
        tripped,
    })
}

fn verdict() -> impl Strategy<Value = Verdict> {
    let throttled = (
        some_standings(),
        any::<u64>(),
        any::<Option<u32>>(),
        prop::option::of(lockout()),
    );
    let obstacle = prop::sample::select(vec![
        Obstacle::Flight,
        Obstacle::Lock,
        Obstacle::Lease,
        Obstacle::Quota,
    ]);
    let taken = (obstacle, some_standings(), any::<u64>());
    prop_oneof![
        (some_standings(), any::<Option<u64>>())
            .prop_map(|(standings, fence)| { Verdict::Allowed(standings, fence.map(Fence)) }),
        taken.prop_map(|(by, standings, wait)| {
            Verdict::Taken(Taken {
                by,
                standings,
                wait: Millis(wait),
                strikes_left: Some(1),
            })
        }),
        Just(Verdict::Invalid(Invalid::Resource(ResourceFault::TooLarge))),
        Just(Verdict::Invalid(Invalid::Subject(
            ThrottleId(9),
            SubjectFault::Doubled
        ))),
        Just(Verdict::AuthBusy),
        (0..4_usize, lockout()).prop_map(
            |(
                attempt,
                Boxed {
                    lockout, tripped, ..
                },
            )| {
                Verdict::AuthLockout(AuthLockout {
                    attempt,
                    lockout,
                    tripped,
                })
            }
        ),
        some_standings().prop_map(Verdict::Degraded),
        throttled.prop_map(|(standings, wait, strikes_left, would_box)| {
            Verdict::Throttled(Throttled {
                standings,
                wait: Millis(wait),
                strikes_left,
                would_box: would_box.map(|boxed| (boxed.scope, boxed.lockout)),
            })
        }),
        lockout().prop_map(Verdict::Boxed),
        Just(Verdict::Contended),
        Just(Verdict::Unavailable),
        Just(Verdict::Exempt),
        Just(Verdict::IdempotencyKey(KeyFault::Malformed)),
        ".{0,8}".prop_map(|name| Verdict::Invalid(Invalid::DoubledHeader(name))),
    ]
}

fn toll() -> impl Strategy<Value = Toll> {
    (0..3u32, 0..3u32, 0..3u32).prop_map(|(evictions, retries, lost_refunds)| Toll {
        evictions,
        retries,
        lost_refunds,
    })
}

fn code() -> impl Strategy<Value = Option<&'static str>> {
    prop::option::of(prop::sample::select(vec!["", "0", "7", "16", "14"]))
}

fn story() -> impl Strategy<Value = Story> {
    let now = prop_oneof![Just(NOW.0), any::<u64>()];
    prop_oneof![
        2 => fields().prop_map(Story::Headers),
        3 => (verdict(), toll(), now.clone()).prop_map(|(v, t, now)| Story::Decided(v, t, now)),
        2 => (prop::option::of(lockout()), now.clone()).prop_map(|(b, now)| Story::Lockout(b, now)),
        3 => now.clone().prop_map(Story::StoreFailed),
        3 => (prop::option::of(prop::sample::select(vec![200, 202, 401, 403, 500])), code(), now.clone())
            .prop_map(|(status, code, now)| Story::ResponseHeaders(status, code, now)),
        1 => (code(), now.clone()).prop_map(|(code, now)| Story::ResponseTrailers(code, now)),
        2 => prop::sample::select(vec![r#"{"id": 7}"#, "", "{", r#"{"id": 1, "id": 2}"#, "client_id=alice",
            r#"{"client_id": "bob"}"#])
            .prop_map(|body| Story::Body(Body::of(body.into()))),
        1 => Just(Story::Body(Body::TooLarge)),
        1 => Just(Story::ResponseEnd),
        1 => now.clone().prop_map(Story::Tick),
        1 => (prop::sample::select(vec![Broke::Client, Broke::Upstream]), now.clone())
            .prop_map(|(broke, now)| Story::Done(broke, now)),
    ]
}

fn is_own(name: &str) -> bool {
    name.to_ascii_lowercase().starts_with("x-tollgate-")
}

/// What a flow has done so far, held against the invariants.
#[derive(Default)]
struct Watch {
    came: bool,
    /// The open question.
    open: Option<Question>,
    asked: usize,
    failed: usize,
    resumed: usize,
    replied: usize,
    responded: usize,
    noted: Vec<&'static str>,
    requests: u64,
    shadow: bool,
    silent: bool,
    reading: bool,
    lent: usize,
    holds: bool,
    /// When it was let through as attempts, until it is known what became of them.
    pending: Option<Millis>,
    responded_at_all: bool,
    done: bool,
}

impl Watch {
    fn see(&mut self, effects: &[Effect], story: &Story) -> Result<(), TestCaseError> {
        prop_assert!(
            effects.is_empty() || (self.replied == 0 && !self.done),
            "something after a reply, or the end"
        );
        let read = self.reading && matches!(story, Story::Body(_));
        let first = matches!(story, Story::Headers(_)) && !self.came && !self.done;
        prop_assert!(
            self.came || first || effects.is_empty(),
            "something before the headers"
        );
        let degrading = matches!(self.open, Some(Question::Degraded(_)));
        let answers = match story {
            Story::Decided(..) => self.open.is_some(),
            Story::Lockout(..) | Story::StoreFailed(_) => self.open.is_some() && !degrading,
            _ => false,
        };
        let fails = answers && matches!(story, Story::StoreFailed(_));
        let may_settle = first || read || answers;
        let asked = match &self.open {
            Some(Question::Decide(ask) | Question::Degraded(ask)) => Some(Rc::clone(ask)),
            _ => None,
        };
        if answers {
            self.open = None;
        }
        if read {
            self.reading = false;
        }
        let held = self.holds || self.pending.is_some();
        let allowed = matches!(story, Story::Decided(Verdict::Allowed(..), ..));
        if let (Story::Decided(_, _, now), true, Some(ask)) = (story, answers && allowed, asked) {
            let wanted = ask.wanted.as_ref();
            let attempts = wanted.and_then(|wanted| wanted.attempts.as_ref());
            self.pending = attempts.map(|_| Millis(*now));
        }
        let mut ended = 0;
        let mut failures = 0;
        let mut waits = false;
        for effect in effects {
            prop_assert!(!waits, "something after the last word of an event");
            match effect {
                Effect::Strip(name) => prop_assert!(first && is_own(name), "stripped {name}"),
                Effect::Ask(question) => {
                    let second = matches!(question, Question::Degraded(_));
                    prop_assert!(
                        if second { fails } else { first || read },
                        "asked {question:?}"
                    );
                    if let Question::Degraded(ask) = question {
                        prop_assert!(
                            !ask.penalty.strictness.refuses()
                                || ask.penalty.strictness == Strictness::Known
                        );
                    }
                    prop_assert!(self.open.is_none(), "two open questions");
                    self.open = Some(question.clone());
                    self.asked += 1;
                    waits = true;
                }
                Effect::AwaitBody => {
                    prop_assert!(first);
                    self.reading = true;
                    waits = true;
                }
                Effect::Lend((name, value)) => {
                    prop_assert!(may_settle && is_own(name));
                    let plain = |b: u8| (b' '..=b'~').contains(&b);
                    prop_assert!(value.bytes().all(plain), "{name}: {value}");
                    self.lent += 1;
                }
                Effect::Hold => {
                    prop_assert!(may_settle && !self.holds);
                    self.holds = true;
                }
                Effect::Tell(told) => {
                    prop_assert!(held, "told of nothing");
                    let over = matches!(story, Story::Done(..));
                    let heard = matches!(
                        story,
                        Story::ResponseHeaders(..) | Story::ResponseTrailers(..)
                    );
                    let on = heard || (self.holds && matches!(story, Story::Tick(_)));
                    prop_assert!(on || over);
                    prop_assert!(!over || told.keep.flight == Millis(0));
                    if let Some(outcome) = told.keep.outcome {
                        prop_assert!(heard || over);
                        prop_assert_eq!(Some(outcome.started), self.pending, "told once");
                        prop_assert!(outcome.failed == 0 || !outcome.succeeded);
                        self.pending = None;
                        failures += outcome.failed.count_ones();
                    }
                    ended += usize::from(over);
                }
                Effect::Park(parked) => {
                    prop_assert!(matches!(story, Story::Done(..)));
                    prop_assert!(!parked.pass.id.is_empty() && self.responded == 0);
                    prop_assert_eq!(parked.held.is_some(), held);
                    ended += usize::from(held);
                    self.pending = None;
                }
                Effect::Resume(_) => {
                    prop_assert!(may_settle);
                    prop_assert!(self.lent == 0 || self.holds, "lent what is not held");
                    self.resumed += 1;
                    waits = true;
                }
                Effect::Reply(reply) => {
                    prop_assert!(may_settle);
                    prop_assert!(!self.shadow, "shadow replied");
                    for (name, value) in &reply.fields {
                        let plain = |b: u8| (b' '..=b'~').contains(&b);
                        prop_assert!(value.bytes().all(plain), "{name}: {value}");
                    }
                    self.replied += 1;
                    waits = true;
                }
                Effect::Respond(pass) => {
                    let fields = &pass.fields;
                    prop_assert!(matches!(story, Story::ResponseHeaders(..)));
                    prop_assert_eq!(self.resumed, 1, "told an upstream's client too early");
                    prop_assert!(!self.silent, "told the client of an exempt request");
                    let limits = |name: &str| {
                        name.starts_with("ratelimit") || name.starts_with("x-ratelimit-")
                    };
                    prop_assert!(fields.iter().all(|(name, _)| limits(name)), "{fields:?}");
                    self.responded += 1;
                }
                Effect::Note(note) => {
                    prop_assert!(may_settle);
                    self.noted.push(note);
                }
                Effect::Count(Counter::AuthFailures(_), by) => {
                    prop_assert_eq!(*by, 1);
                    prop_assert!(failures > 0, "counted what did not fail");
                    failures -= 1;
                }
                Effect::Count(counter, by) => {
                    prop_assert!(may_settle);
                    prop_assert!(*by > 0);
                    self.requests += u64::from(matches!(counter, Counter::Requests { .. }));
                    if matches!(counter, Counter::Degraded(_)) {
                        prop_assert!(fails);
                        self.failed += 1;
                    }
                }
                Effect::Trip(..) => prop_assert!(may_settle),
            }
        }
        prop_assert_eq!(failures, 0, "failed and was not counted");
        match story {
            Story::Headers(fields) if first => {
                for (name, _) in fields.iter().filter(|(name, _)| is_own(name)) {
                    let strip = Effect::Strip(name.clone());
                    prop_assert!(effects.contains(&strip), "{name} was let through");
                }
                self.came = true;
            }
            Story::ResponseHeaders(status, code, _)
                if self.resumed == 1 && !self.responded_at_all =>
            {
                self.responded_at_all = true;
                // Only the trailers of a gRPC response tell more.
                let later = *status == Some(200) && *code == Some("");
                if !later {
                    self.pending = None;
                }
            }
            Story::ResponseTrailers(..) if self.responded_at_all => self.pending = None,
            Story::Done(..) => {
                let ends = usize::from(self.holds && !self.done);
                // Of attempts alone there may be nothing to be told.
                let may_end = usize::from(held && !self.done);
                prop_assert!(
                    (ends..=may_end).contains(&ended),
                    "what is held is ended once"
                );
                prop_assert!(self.pending.is_none() || self.responded_at_all);
                self.pending = None;
                self.done = true;
                self.open = None;
                self.reading = false;
            }
            // The degraded limiter's leave has a name of its own.
            Story::Decided(Verdict::Allowed(..), ..) if answers => {
                let name = if degrading { "degraded" } else { "allowed" };
                let noted = self.noted.last().map(|n| n.trim_start_matches("shadow_"));
                prop_assert_eq!(noted, Some(name));
            }
            _ => {}
        }
        if fails {
            prop_assert_eq!(self.failed, 1, "each failure is counted once");
        }
        if effects
            .iter()
            .any(|e| matches!(e, Effect::Note("exempt" | "shadow_exempt")))
        {
            self.silent = self.asked == 0;
        }
        let settled = self.resumed + self.replied;
        prop_assert!(settled <= 1 && self.responded <= 1);
        prop_assert!(self.failed <= 1 && self.asked <= 1 + self.failed);
        // Every way out of a question, and every request that needs none, is settled at once.
        let waits = self.open.is_some() || self.reading;
        let over = self.done && settled == 0;
        prop_assert!(over || (settled == 1) == (self.came && !waits));
        prop_assert_eq!(self.noted.len(), settled);
        prop_assert_eq!(self.requests, settled as u64);
        for note in &self.noted {
            prop_assert_eq!(note.starts_with("shadow_"), self.shadow);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_invariants_hold_whatever_happens(
        shadow in any::<bool>(),
        ends in any::<bool>(),
        dialect in prop::sample::select(DIALECTS.to_vec()),
        stories in prop::collection::vec(story(), 0..10),
        tier in prop_oneof![Just(None), Just(Some(b"growth".to_vec())), Just(Some(vec![0xff]))],
        source in value(),
        nonces in any::<u64>(),
        now in prop_oneof![Just(NOW.0), any::<u64>()],
    ) {
        let rules = rules(if shadow { "shadow" } else { "enforce" }, dialect);
        let mut flow = Flow::default();
        let mut watch = Watch::default();
        for story in stories {
            if let (Story::Headers(fields), false) = (&story, watch.came) {
                let request = Request::new(fields.clone());
                let (_, route) = rules.config.route(request.method(), &request.path());
                let mode = route.and_then(|r| r.mode).unwrap_or(rules.config.mode);
                watch.shadow = mode == Mode::Shadow;
            }
            let body = match &story {
                Story::Headers(_) => ends.then_some(Body::NONE),
                Story::Body(body) => Some(body.clone()),
                _ => None,
            };
            let facts = Facts {
                now: Millis(now),
                properties: &|_| tier.clone(),
                source: &|| source.clone(),
                body: body.as_ref(),
            };
            let head = match &story {
                Story::ResponseHeaders(status, code, _) => (*status, *code),
                Story::ResponseTrailers(code, _) => (None, *code),
                _ => (None, None),
            };
            let read = |name: &str| match (name, head) {
                (":status", (status, _)) => status.map(|status| status.to_string().into()),
                ("content-type", (_, Some(_))) => Some(b"application/grpc".to_vec()),
                // None at all in the head where the trailers tell it.
                ("grpc-status", (_, code)) => code.filter(|c| !c.is_empty()).map(Into::into),
                _ => None,
            };
            let event = match story.clone() {
                Story::Headers(fields) => Event::Headers(Request::new(fields), facts, None),
                Story::Body(_) => Event::Body(facts),
                Story::Decided(verdict, toll, now) => Event::Decided(verdict, toll, Millis(now)),
                Story::Lockout(boxed, now) => Event::Lockout(boxed, Millis(now)),
                Story::StoreFailed(now) => Event::StoreFailed(Millis(now)),
                Story::ResponseHeaders(_, _, now) => {
                    Event::ResponseHeaders(Response::new(&read), Millis(now))
                }
                Story::ResponseTrailers(_, now) => {
                    Event::ResponseTrailers(Response::new(&read), Millis(now))
                }
                Story::ResponseEnd => Event::ResponseEnd,
                Story::Tick(now) => Event::Tick(Millis(now)),
                Story::Done(broke, now) => Event::Done(broke, Millis(now)),
            };
            let effects = flow.on(&rules, event, nonces);
            watch.see(&effects, &story)?;
        }
    }

    /// The same request costs and counts the same in shadow mode, apart from the mode.
    #[test]
    fn shadow_asks_what_enforcement_asks(fields in fields()) {
        let asked = |mode| {
            let rules = rules(mode, "draft-03");
            let effects = arrive(&mut Flow::default(), &rules, Request::new(fields.clone()));
            effects.into_iter().find_map(|effect| match effect {
                Effect::Ask(Question::Decide(ask)) => Some((true, ask)),
                Effect::Ask(Question::Lockout(ask)) => Some((false, ask)),
                _ => None,
            })
        };
        match (asked("enforce"), asked("shadow")) {
            (Some((decides, enforced)), Some((also, shadow))) => {
                prop_assert_eq!(decides, also);
                prop_assert_eq!(&enforced.subject, &shadow.subject);
                prop_assert_eq!(enforced.cost, shadow.cost);
                prop_assert_ne!(enforced.shadow, shadow.shadow);
            }
            (None, None) => {}
            (enforced, shadow) => prop_assert!(false, "{enforced:?}, {shadow:?}"),
        }
    }
}

#[test]
fn the_address_asked_about_is_the_forwarded_one() {
    let rules = rules("enforce", "draft-03");
    let forwarded = [("x-forwarded-for", "10.0.0.1, 198.51.100.7")];
    for (more, expected) in [(&forwarded[..], [198, 51, 100, 7]), (&[], [203, 0, 113, 9])] {
        let asked = arrive(&mut Flow::default(), &rules, get("/things", more));
        let [Effect::Ask(Question::Decide(ask))] = &asked[..] else {
            panic!("{asked:?}");
        };
        let Subject::Anonymous { address, .. } = &ask.subject else {
            panic!("{ask:?}");
        };
        let ip = IpAddr::V4(Ipv4Addr::from(expected));
        assert_eq!(*address, crate::client_ip::Address::Ip(ip));
    }
}

#[test]
fn a_request_that_continues_another_is_neither_asked_nor_counted_again() {
    let rules = rules("enforce", "draft-03");
    let mut first = Flow::default();
    arrive(&mut first, &rules, get("/things", &[("x-request-id", "7")]));
    let effects = on(
        &mut first,
        &rules,
        decided(Verdict::Allowed(standings(59), None)),
    );
    let Some(Effect::Resume(pass)) = effects.last() else {
        panic!("{effects:?}");
    };
    assert_eq!(pass.id, b"7");

    let mut second = Flow::default();
    let head = request("GET", "/elsewhere", &[("x-tollgate-lease", "forged")]);
    let facts = Facts {
        now: NOW,
        properties: &|_| None,
        source: &Vec::new,
        body: Some(&Body::NONE),
    };
    let event = Event::Headers(
        head,
        facts,
        Some(Parked {
            pass: Rc::clone(pass),
            held: None,
        }),
    );
    assert_eq!(
        on(&mut second, &rules, event),
        [
            Effect::Strip("x-tollgate-lease".to_owned()),
            Effect::Note("allowed"),
            Effect::Resume(Rc::clone(pass)),
        ]
    );
    let responded = on(&mut second, &rules, RESPONSE);
    assert_eq!(responded, [Effect::Respond(Rc::clone(pass))]);
}
