//! Tests of `plan`: what a request is as attempts at credentials, and on the way to them.

use std::cell::Cell;
use std::net::IpAddr;

use proptest::prelude::*;
use tollgate_config::{Stuffing, SubjectSource, Throttle, ThrottleBy, path};

use super::{CONFIG, GROWTH, ask_of, route_name};
use crate::attempt::{Attempt, Attempts, Who};
use crate::limit::decision::Strictness;
use crate::plan::*;
use crate::store::Subject;
use crate::testing::throttles::{anywhere, rules_with, throttle};
use crate::testing::{NONCE, NOW, meter, request};

const JSON: &str = r#"{
    "identity": {
        "tenant": {"header": "x-tenant-id"},
        "key": {"header": "x-api-key-id"},
        "tier": {"header": "x-tenant-tier"}
    },
    "exempt": ["/healthz"],
    "tiers": {"growth": {"tenant": "3000/minute", "key": "1500/minute"}},
    "penalty_box": {"level_1": "1m", "level_2": "10m", "level_3": "2h", "offense_memory": "3h"},
    "routes": [
        {"name": "token", "match": {"methods": ["POST"], "path": "/token"}, "cost": 7, "idempotency_key": "required"},
        {"name": "login", "match": {"path": "/login"}, "lock": {"by": {"header": "l"}}, "on_store_failure": "closed"},
        {"name": "paid", "match": {"path": "/paid/*"}, "cost": 3},
        {"name": "watched", "match": {"path": "/watched"}, "mode": "shadow"}
    ]
}"#;

const KEY: (&str, &str) = ("idempotency-key", "k");

fn source() -> SubjectSource {
    SubjectSource {
        basic: false,
        json: None,
        ..anywhere()
    }
}

fn by(name: &str, by: ThrottleBy) -> Throttle {
    let subject = (by != ThrottleBy::Ip).then(source);
    Throttle {
        subject,
        ..throttle(name, by)
    }
}

fn usual() -> Rules {
    let throttles = [
        (by("subject", ThrottleBy::Subject), &["token"][..]),
        (by("pair", ThrottleBy::SubjectIp), &["token", "login"]),
        (by("ip", ThrottleBy::Ip), &["token"]),
        (by("all", ThrottleBy::Ip), &[]),
    ];
    rules_with(JSON, &throttles, &["token"])
}

fn plan_of(rules: &Rules, target: &str, fields: &[(&str, &str)], body: Option<&Body>) -> Plan {
    let facts = Facts {
        now: NOW,
        properties: &|_| None,
        source: &|| b"192.0.2.1:4711".to_vec(),
        body,
    };
    Plan::of(rules, &request("POST", target, fields), &facts, NONCE)
}

fn form(body: &str) -> Body {
    Body::Whole(body.into())
}

fn alice() -> Body {
    form("client_id=Alice")
}

fn address() -> Address {
    Address::Ip(IpAddr::from([192, 0, 2, 1]))
}

fn attempts_of(plan: &Plan) -> Option<Rc<Attempts>> {
    match &plan.check {
        Check::Store(ask) => ask.wanted.as_ref()?.attempts.clone(),
        other => panic!("{other:?}"),
    }
}

/// The names of the throttles that a request is under, whose attempts they count, and whether it takes a slot.
fn under(plan: &Plan) -> Vec<(String, Who, bool)> {
    let attempts = attempts_of(plan);
    let list = attempts.iter().flat_map(|attempts| &attempts.list);
    list.map(|a| (a.name.to_string(), a.who, a.provisional))
        .collect()
}

fn named(list: &[(&str, Who, bool)]) -> Vec<(String, Who, bool)> {
    let owned = |(name, who, slot): &(&str, Who, bool)| ((*name).to_owned(), *who, *slot);
    list.iter().map(owned).collect()
}

#[test]
fn a_request_is_under_the_throttles_of_its_route() {
    let rules = usual();
    let plan = plan_of(&rules, "/token", &[KEY], Some(&alice()));
    let all = named(&[
        ("subject", Who::Subject(0), true),
        ("pair", Who::Pair(0), true),
        ("ip", Who::Ip, true),
        // One for all routes: it takes slots where credentials are presented.
        ("all", Who::Ip, true),
    ]);
    assert_eq!(under(&plan), all);
    let attempts = attempts_of(&plan).unwrap();
    assert_eq!(attempts.address, address());
    assert_eq!(attempts.subjects, [Id::hashed(b"alice")]);
    assert_eq!(attempts.stuffing, None);

    let login = plan_of(&rules, "/login", &[("l", "7")], Some(&alice()));
    let some = named(&[("pair", Who::Pair(0), false), ("all", Who::Ip, false)]);
    assert_eq!(under(&login), some);
    let other = plan_of(&rules, "/other", &[], Some(&alice()));
    assert_eq!(under(&other), named(&[("all", Who::Ip, false)]));
    assert_eq!(attempts_of(&other).unwrap().subjects, []);
    // Whoever is exempt meets nothing.
    let exempt = plan_of(&rules, "/healthz", &[], Some(&alice()));
    assert_eq!(exempt.check, Check::Exempt);
}

#[test]
fn a_tenant_is_under_them_too() {
    let rules = usual();
    let plan = plan_of(&rules, "/other", &GROWTH, Some(&Body::NONE));
    assert!(matches!(
        ask_of(&plan).subject,
        Subject::Key { ip: None, .. }
    ));
    assert_eq!(attempts_of(&plan).unwrap().address, address());
    assert_eq!(under(&plan), named(&[("all", Who::Ip, false)]));
}

#[test]
fn an_attempt_has_the_terms_of_its_throttle() {
    let terms = |by, lockout| {
        let throttle = Throttle {
            lockout: Millis(lockout),
            failures: 3,
            within: Millis(7000),
            ..by
        };
        let rules = rules_with(JSON, &[(throttle, &["login"])], &[]);
        let plan = plan_of(&rules, "/login", &[("l", "7")], Some(&alice()));
        attempts_of(&plan).unwrap().list[0].clone()
    };
    let subject = terms(by("s", ThrottleBy::Subject), 120_000);
    let expected = Attempt {
        throttle: ThrottleId(0),
        name: "s".into(),
        who: Who::Subject(0),
        failures: 3,
        within: Millis(7000),
        levels: [Millis(120_000), Millis(600_000), Millis(7_200_000)],
        max_level: 2,
        offense_memory: Millis(10_800_000),
        provisional: false,
        spares: true,
        resets: true,
    };
    assert_eq!(subject, expected);
    let ip = terms(by("s", ThrottleBy::Ip), 120_000);
    let expected = Attempt {
        who: Who::Ip,
        max_level: 3,
        spares: false,
        resets: false,
        ..expected
    };
    assert_eq!(ip, expected);
    // A pair is a subject's; and no level is shorter than the one below it.
    let pair = Throttle {
        spare_known_ips: true,
        ..by("s", ThrottleBy::SubjectIp)
    };
    for (lockout, levels) in [
        (700_000, [700_000, 700_000, 7_200_000]),
        (9_000_000, [9_000_000; 3]),
    ] {
        let pair = terms(pair.clone(), lockout);
        assert_eq!(pair.levels, levels.map(Millis));
        assert_eq!((pair.max_level, pair.spares), (2, false));
    }
}

#[test]
fn what_is_said_of_slots_is_done() {
    for (said, route, expected) in [
        (None, "/token", true),
        (None, "/login", false),
        (Some(false), "/token", false),
        (Some(true), "/login", true),
    ] {
        let throttle = Throttle {
            provisional: said,
            ..by("t", ThrottleBy::Ip)
        };
        let rules = rules_with(JSON, &[(throttle, &[])], &["token"]);
        let plan = plan_of(&rules, route, &[KEY, ("l", "7")], Some(&Body::NONE));
        assert_eq!(under(&plan), named(&[("t", Who::Ip, expected)]), "{route}");
    }
}

#[test]
fn a_subject_in_two_places_is_two_and_in_one_place_one() {
    let of_user = SubjectSource {
        form: Some("user".to_owned()),
        ..source()
    };
    let user = |name| Throttle {
        subject: Some(of_user.clone()),
        ..by(name, ThrottleBy::Subject)
    };
    let throttles = [
        (by("a", ThrottleBy::Subject), &[][..]),
        (user("b"), &[]),
        (by("c", ThrottleBy::SubjectIp), &[]),
    ];
    let rules = rules_with(JSON, &throttles, &[]);
    let of = |body| {
        let plan = plan_of(&rules, "/", &[], Some(&form(body)));
        let attempts = attempts_of(&plan).unwrap();
        let who: Vec<Who> = attempts.list.iter().map(|a| a.who).collect();
        (attempts.subjects.clone(), who)
    };
    let id = |name: &str| Id::hashed(name.as_bytes());
    let who = |b| vec![Who::Subject(0), Who::Subject(b), Who::Pair(0)];
    assert_eq!(of("client_id=x&user=y"), (vec![id("x"), id("y")], who(1)));
    assert_eq!(of("client_id=x&user=X"), (vec![id("x")], who(0)));
}

#[test]
fn a_subject_that_cannot_be_read_refuses_before_all_else_that_is_missing() {
    let rules = usual();
    let fault = |target, fields: &[(&str, &str)], body: &Body| match plan_of(
        &rules,
        target,
        fields,
        Some(body),
    )
    .check
    {
        Check::Faulty(fault, ask) => {
            assert_eq!(ask.wanted, None, "nothing is asked for");
            Some(fault)
        }
        Check::Store(_) => None,
        other => panic!("{other:?}"),
    };
    let of = |throttle, fault| Some(Fault::Subject(ThrottleId(throttle), fault));
    assert_eq!(
        fault("/token", &[], &Body::NONE),
        of(0, SubjectFault::Missing)
    );
    assert_eq!(
        fault("/login", &[], &Body::NONE),
        of(1, SubjectFault::Missing)
    );
    let two = form("client_id=a&client_id=b");
    assert_eq!(fault("/token", &[KEY], &two), of(0, SubjectFault::Doubled));
    let gzip = [KEY, ("content-encoding", "gzip")];
    assert_eq!(
        fault("/token", &gzip, &alice()),
        of(0, SubjectFault::Encoded)
    );
    assert_eq!(
        fault("/token", &[KEY], &Body::TooLarge),
        of(0, SubjectFault::TooLarge)
    );
    // Then the key, then the lock.
    let key = Some(Fault::IdempotencyKey(KeyFault::Missing));
    assert_eq!(fault("/token", &[], &alice()), key);
    let lock = Some(Fault::Resource(ResourceFault::Missing));
    assert_eq!(fault("/login", &[], &alice()), lock);
    assert_eq!(fault("/login", &[("l", "7")], &alice()), None);
    // Nobody looks for one here.
    assert_eq!(fault("/other", &gzip, &Body::TooLarge), None);
}

#[test]
fn the_verdict_on_it_is_that_it_is_invalid() {
    let fault = Fault::Subject(ThrottleId(3), SubjectFault::Basic);
    let invalid = Invalid::Subject(ThrottleId(3), SubjectFault::Basic);
    assert_eq!(fault.verdict(), Verdict::Invalid(invalid));
}

#[test]
fn an_address_is_counted_whoever_is_tried_from_it() {
    let stuffing = Stuffing {
        failures: 500,
        subjects: 50,
        within: Millis(600_000),
    };
    let ip = Throttle {
        subject: Some(source()),
        ..by("ip", ThrottleBy::Ip)
    };
    let with = |stuffing: Option<Stuffing>| {
        let mut config = rules_with(JSON, &[(ip.clone(), &["login"])], &[]).config;
        config.stuffing = stuffing;
        Rules::new(config)
    };
    let lock = [("l", "7")];
    let of = |rules: &Rules, body: &Body| {
        let plan = plan_of(rules, "/login", &lock, Some(body));
        let attempts = attempts_of(&plan).unwrap();
        (attempts.subjects.clone(), attempts.stuffing)
    };
    let counting = with(Some(stuffing));
    let terms = Some((stuffing, Millis(7_200_000)));
    assert_eq!(of(&counting, &alice()), (vec![Id::hashed(b"alice")], terms));
    for unreadable in [form("client_id=a&client_id=b"), Body::TooLarge, Body::NONE] {
        assert_eq!(of(&counting, &unreadable), (vec![], terms));
    }
    assert_eq!(plan_of(&counting, "/login", &lock, None).check, Check::Body);
    // Where nobody counts subjects, none is read.
    let plain = with(None);
    assert_eq!(of(&plain, &alice()), (vec![], None));
    assert_ne!(plan_of(&plain, "/login", &lock, None).check, Check::Body);
}

#[test]
fn the_body_is_waited_for_where_it_may_name_the_subject() {
    let basic = SubjectSource {
        basic: true,
        form: None,
        ..source()
    };
    let by_basic = Throttle {
        subject: Some(basic),
        ..by("b", ThrottleBy::Subject)
    };
    let throttles = [
        (by("s", ThrottleBy::Subject), &["token"][..]),
        (by_basic, &["login"]),
    ];
    let rules = rules_with(JSON, &throttles, &["token"]);
    let of = |target, fields: &[(&str, &str)]| plan_of(&rules, target, fields, None).check;
    assert_eq!(of("/token", &[]), Check::Body);
    let large = of("/token", &[("content-length", "65537")]);
    let fault = |check| match check {
        Check::Faulty(fault, _) => fault,
        other => panic!("{other:?}"),
    };
    let too_large = Fault::Subject(ThrottleId(0), SubjectFault::TooLarge);
    assert_eq!(fault(large), too_large);
    // What follows the head of an upgrade is no body.
    let upgrade = fault(of("/token", &[("upgrade", "websocket")]));
    assert_eq!(
        upgrade,
        Fault::Subject(ThrottleId(0), SubjectFault::Missing)
    );
    let basic = [("authorization", "Basic YWxpY2U6cHc="), ("l", "7")];
    assert!(matches!(of("/login", &basic), Check::Store(_)));
    assert!(matches!(of("/other", &[]), Check::Store(_)));
}

#[test]
fn credentials_meet_the_limit_of_their_address_alone() {
    let with_ip = JSON.replacen('{', r#"{"ip_limit": "600/minute", "#, 1);
    for (json, ip_meter) in [(JSON, None), (with_ip.as_str(), Some(meter(600, 60, 600)))] {
        let rules = rules_with(json, &[], &["token"]);
        // Whoever says who it is: nobody has checked that yet.
        for fields in [&[KEY][..], &[&GROWTH[..], &[KEY]].concat()] {
            let plan = plan_of(&rules, "/token", fields, None);
            assert_eq!(plan.tier, TierLabel::Anonymous);
            let ask = ask_of(&plan);
            let expected = Subject::Credential {
                address: address(),
                ip_meter,
            };
            assert_eq!((&ask.subject, ask.cost), (&expected, 1));
            assert_eq!(ask.penalty.terms, rules.anonymous_terms);
            assert_eq!(ask.penalty.strictness, Strictness::Enforced);
            assert_eq!(ask.wanted, None, "no key is in flight");
        }
        // The key is looked for all the same, where the route requires it.
        let plan = plan_of(&rules, "/token", &[], None);
        let Check::Faulty(fault, _) = plan.check else {
            panic!("{plan:?}");
        };
        assert_eq!(fault, Fault::IdempotencyKey(KeyFault::Missing));
    }
}

#[test]
fn the_degraded_limiter_is_asked_about_the_same_attempts() {
    let throttles = [(by("s", ThrottleBy::Subject), &["token", "login"][..])];
    let with_ip = JSON.replacen('{', r#"{"ip_limit": "600/minute", "#, 1);
    let rules = rules_with(&with_ip, &throttles, &["token"]);
    let mut plan = plan_of(&rules, "/token", &[KEY], Some(&alice()));
    let whole = ask_of(&plan).clone();
    let ask = plan.degrade(&rules).unwrap();
    assert_eq!(ask.wanted, whole.wanted);
    let expected = Subject::Credential {
        address: address(),
        ip_meter: Some(meter(150, 60, 150)),
    };
    assert_eq!(ask.subject, expected);
    let mut closed = plan_of(&rules, "/login", &[("l", "7")], Some(&alice()));
    assert_eq!(closed.degrade(&rules), None);
}

/// What two servers may read in two ways is asked for what either of them is.
#[test]
fn no_spelling_escapes_a_throttle() {
    let throttles = [
        (by("token", ThrottleBy::Ip), &["token"][..]),
        (by("paid", ThrottleBy::Ip), &["paid"]),
    ];
    let rules = rules_with(JSON, &throttles, &["token"]);
    let token = || named(&[("token", Who::Ip, true)]);
    let paid = || named(&[("paid", Who::Ip, false)]);
    let both = || [token(), paid()].concat();
    for (target, route, throttles) in [
        ("/token", "token", token()),
        ("/token/", "token", token()),
        ("//x/../%74oken", "token", token()),
        // The limits of whatever has limits, and all throttles.
        ("/token;x=1", "default", token()),
        ("/paid/..%2F..%2Ftoken", "paid", both()),
        ("/paid/..%5c..%5Ctoken", "paid", both()),
        ("/token%2F..%2Fpaid%2Fx", "paid", paid()),
        ("/token;/..%2fpaid/x", "paid", paid()),
        ("/x;/../token", "token", token()),
        ("/paid/x", "paid", paid()),
    ] {
        let plan = plan_of(&rules, target, &[KEY], None);
        assert_eq!(route_name(&rules, &plan), route, "{target}");
        assert_eq!(under(&plan), throttles, "{target}");
        let is_credential = matches!(ask_of(&plan).subject, Subject::Credential { .. });
        assert_eq!(is_credential, route == "token", "{target}");
    }
}

#[test]
fn no_spelling_of_a_path_is_only_watched() {
    let rules = rules_with(JSON, &[(by("t", ThrottleBy::Ip), &["token"])], &["token"]);
    for (target, mode) in [
        ("/watched", Mode::Shadow),
        ("/watched;x", Mode::Enforce),
        ("/watched/..%2Ftoken", Mode::Enforce),
        // Exempt to some only.
        ("/healthz/..%2Ftoken", Mode::Enforce),
        ("/watched/..%2Fwatched", Mode::Enforce),
        ("/watched;a/../watched", Mode::Shadow),
    ] {
        let plan = plan_of(&rules, target, &[KEY], None);
        assert_eq!(plan.mode, mode, "{target}");
        assert_eq!(ask_of(&plan).shadow, mode == Mode::Shadow, "{target}");
    }
    let found = plan_of(&rules, "/healthz/..%2Ftoken", &[KEY], None);
    assert_eq!(under(&found), named(&[("t", Who::Ip, true)]));
}

#[test]
fn the_address_is_asked_for_once() {
    let asked = Cell::new(0);
    let of = |rules: &Rules, fields: &[(&str, &str)]| {
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
        let _ = Plan::of(rules, &request("GET", "/v1/x", fields), &facts, NONCE);
        asked.get()
    };
    let none = rules_with(CONFIG, &[], &[]);
    let some = rules_with(CONFIG, &[(by("t", ThrottleBy::Ip), &[])], &[]);
    assert_eq!(of(&none, &GROWTH), 0);
    assert_eq!(of(&some, &GROWTH), 1);
    assert_eq!(of(&some, &[]), 1);
}

proptest! {
    /// Whatever the path, whoever may reach a throttled route by it is under its throttle.
    #[test]
    fn whatever_some_server_may_take_for_a_throttled_route_is_throttled(
        target in "/[a-z]{0,2}(/|%2[fF]|%5c|;|;x|\\.\\.|/token|/paid/x|%2e){0,6}",
    ) {
        let throttles = [(by("t", ThrottleBy::Ip), &["token"][..])];
        let rules = rules_with(JSON, &throttles, &["token"]);
        let normal = path::normalize(target.as_bytes()).into_owned();
        let readings = [Some(normal.clone()), path::other_reading(&normal)];
        let is_token = |path: &Vec<u8>| path == b"/token";
        let plan = plan_of(&rules, &target, &[KEY], None);
        prop_assert_eq!(
            !under(&plan).is_empty(),
            readings.iter().flatten().any(is_token),
            "{}", target
        );
        let all_tokens = readings.iter().flatten().all(is_token);
        let is_credential = matches!(ask_of(&plan).subject, Subject::Credential { .. });
        prop_assert_eq!(is_credential, all_tokens, "{}", target);
    }
}
