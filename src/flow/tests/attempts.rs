//! Tests of `flow`: attempts at credentials, from the question to what became of them.

use std::rc::Rc;

use tollgate_config::{Millis, ThrottleBy, ThrottleId};

use super::{NOW, decided, note, on, respond, rules, standings, status};
use crate::attempt::{Outcome, Who};
use crate::body::Body;
use crate::flow::{Broke, Effect, Event, Flow, Question, Told, Trip};
use crate::held::{End, Grantor};
use crate::hold::Keep;
use crate::limit::penalty::Lockout;
use crate::metrics::Counter;
use crate::passes::Parked;
use crate::plan::Facts;
use crate::request::Request;
use crate::response::Response;
use crate::rules::Rules;
use crate::store::Ask;
use crate::testing::request;
use crate::testing::throttles::{rules_with, throttle};
use crate::verdict::{AuthLockout, Scope, Standings, Verdict};

/// `alice:pw`.
const ALICE: (&str, &str) = ("authorization", "Basic YWxpY2U6cHc=");
const ID: (&str, &str) = ("x-request-id", "one");

/// The throttles of `rules`: by subject, by pair, by address.
const ALL: [Counter; 3] = [
    Counter::AuthFailures(ThrottleId(0)),
    Counter::AuthFailures(ThrottleId(1)),
    Counter::AuthFailures(ThrottleId(2)),
];

fn arrive(flow: &mut Flow, rules: &Rules, head: Request, body: Option<&Body>) -> Vec<Effect> {
    let facts = Facts {
        now: NOW,
        properties: &|_| None,
        source: &|| b"203.0.113.9:4711".to_vec(),
        body,
    };
    on(flow, rules, Event::Headers(head, facts, None))
}

fn after(seconds: u64) -> Millis {
    NOW.plus(Millis::from_secs(seconds))
}

/// A second later than it came, by the store's clock.
fn allowed() -> Event<'static> {
    let verdict = Verdict::Allowed(Standings::default(), None);
    Event::Decided(verdict, crate::store::Toll::default(), after(1))
}

/// A request for a token that was let through, and what was asked.
fn trying(rules: &Rules, more: &[(&str, &str)]) -> (Flow, Rc<Ask>) {
    let mut flow = Flow::default();
    let head = request("POST", "/token", &[&[ALICE], more].concat());
    let asked = arrive(&mut flow, rules, head, Some(&Body::NONE));
    let [Effect::Ask(Question::Decide(ask))] = &asked[..] else {
        panic!("{asked:?}");
    };
    let effects = on(&mut flow, rules, allowed());
    assert!(matches!(effects.last(), Some(Effect::Resume(_))));
    assert!(!effects.contains(&Effect::Hold), "nothing is renewed");
    let lent = |e: &Effect| matches!(e, Effect::Lend(_));
    assert!(!effects.iter().any(lent), "nothing is lent");
    assert!(flow.holds() && flow.asks_status());
    assert!(!flow.is_due(after(600)));
    (flow, Rc::clone(ask))
}

/// The outcome that is told, and what is counted.
fn outcome(effects: &[Effect]) -> (Option<Outcome>, Vec<Counter>) {
    let told = effects.iter().find_map(|effect| match effect {
        Effect::Tell(told) => told.keep.outcome,
        _ => None,
    });
    let counted = effects.iter().filter_map(|effect| match effect {
        Effect::Count(counter, 1) => Some(*counter),
        _ => None,
    });
    (told, counted.collect())
}

const fn failed(mask: u32) -> Option<Outcome> {
    Some(Outcome {
        started: Millis(NOW.0 + 1000),
        failed: mask,
        succeeded: false,
    })
}

const SUCCEEDED: Option<Outcome> = Some(Outcome {
    started: Millis(NOW.0 + 1000),
    failed: 0,
    succeeded: true,
});

#[test]
fn an_attempt_asks_for_the_address_alone_and_carries_its_throttles() {
    let rules = rules("enforce", "draft-03");
    let (_, ask) = trying(&rules, &[]);
    assert_eq!(ask.subject.to_string(), "address 203.0.113.9");
    let attempts = ask.wanted.as_ref().unwrap().attempts.clone().unwrap();
    let who: Vec<Who> = attempts.list.iter().map(|a| a.who).collect();
    assert_eq!(who, [Who::Subject(0), Who::Pair(0), Who::Ip]);
    assert!(attempts.list.iter().all(|a| a.provisional));
}

#[test]
fn the_response_decides_and_nothing_is_told_after_it() {
    let rules = rules("enforce", "draft-03");
    for (status, expected, counted) in [
        ("401", failed(0b111), &ALL[..]),
        ("200", SUCCEEDED, &[]),
        ("500", failed(0), &[]),
        ("429", failed(0), &[]),
    ] {
        let (mut flow, ask) = trying(&rules, &[ID]);
        let effects = respond(&mut flow, &rules, &[(":status", status)], after(3));
        assert_eq!(outcome(&effects), (expected, counted.to_vec()), "{status}");
        let Effect::Tell(Told {
            ask: of, grantor, ..
        }) = &effects[0]
        else {
            panic!("{effects:?}");
        };
        assert_eq!((of, *grantor), (&ask, Grantor::Store));
        assert!(!flow.holds() && !flow.ends() && !flow.awaits_trailers());
        let done = Event::Done(Broke::Client, after(4));
        assert_eq!(on(&mut flow, &rules, done), [], "{status}");
    }
}

#[test]
fn each_throttle_counts_statuses_of_its_own() {
    let mut config = rules("enforce", "none").config;
    config.auth_throttles[1].count = vec![404];
    let rules = Rules::new(config);
    for (status, mask, counted) in [
        ("401", 0b101, vec![ALL[0], ALL[2]]),
        ("404", 0b010, vec![ALL[1]]),
    ] {
        let (mut flow, _) = trying(&rules, &[]);
        let effects = respond(&mut flow, &rules, &[(":status", status)], after(3));
        assert_eq!(outcome(&effects), (failed(mask), counted), "{status}");
    }
}

#[test]
fn what_shadow_let_through_is_counted_and_what_it_would_have_refused_is_not() {
    let rules = rules("shadow", "none");
    let (mut flow, ask) = trying(&rules, &[]);
    assert!(ask.shadow);
    let effects = respond(&mut flow, &rules, &[(":status", "401")], after(3));
    assert_eq!(outcome(&effects), (failed(0b111), ALL.to_vec()));

    for verdict in [locked_out(0, false), Verdict::AuthBusy] {
        let mut flow = Flow::default();
        let head = request("POST", "/token", &[ALICE]);
        arrive(&mut flow, &rules, head, Some(&Body::NONE));
        let effects = on(&mut flow, &rules, decided(verdict));
        assert!(matches!(effects.last(), Some(Effect::Resume(_))));
        assert!(!flow.holds());
        let effects = respond(&mut flow, &rules, &[(":status", "401")], after(3));
        assert_eq!(effects, []);
    }
}

#[test]
fn whoever_leaves_before_an_answer_has_failed() {
    let rules = rules("enforce", "none");
    let (mut flow, _) = trying(&rules, &[]);
    let done = on(&mut flow, &rules, Event::Done(Broke::Client, after(4)));
    assert_eq!(outcome(&done), (failed(0b111), ALL.to_vec()));
    assert_eq!(
        on(&mut flow, &rules, Event::Done(Broke::Client, after(4))),
        []
    );
}

#[test]
fn whoever_breaks_its_request_off_has_failed_whatever_the_proxy_answers() {
    let rules = rules("enforce", "none");
    let (mut flow, _) = trying(&rules, &[ID]);
    let read = |name: &str| (name == ":status").then(|| b"400".to_vec());
    let details = || Some(b"http1.codec_error".to_vec());
    let response = Response::new(&read).with_details(&details);
    let effects = on(
        &mut flow,
        &rules,
        Event::ResponseHeaders(response, after(3)),
    );
    assert_eq!(outcome(&effects), (failed(0b111), ALL.to_vec()));
    assert!(!flow.holds() && !flow.ends());
}

#[test]
fn a_request_that_is_played_again_is_still_the_same_attempt() {
    let rules = rules("enforce", "none");
    let (mut first, _) = trying(&rules, &[ID]);
    let parked = on(&mut first, &rules, Event::Done(Broke::Client, after(2)));
    let [Effect::Park(parked)] = &parked[..] else {
        panic!("{parked:?}");
    };
    // Nobody continues it: the client left.
    let held = parked.held.as_ref().unwrap();
    let told = Told::of(held, held.end(End::Aborted, after(2)));
    assert_eq!(told.keep.outcome, failed(0b111));
    assert_eq!(told.failures().collect::<Vec<_>>(), ALL);

    let mut second = Flow::default();
    let facts = Facts {
        now: after(2),
        properties: &|_| None,
        source: &Vec::new,
        body: None,
    };
    let head = request("GET", "/elsewhere", &[]);
    let event = Event::Headers(head, facts, Some(parked.clone()));
    let effects = on(&mut second, &rules, event);
    assert!(matches!(effects.last(), Some(Effect::Resume(_))));
    let effects = respond(&mut second, &rules, &[(":status", "200")], after(3));
    assert_eq!(outcome(&effects), (SUCCEEDED, vec![]));
}

/// Whoever forges the head of an internal redirect gets no second try by the pass of a first one.
#[test]
fn another_attempt_does_not_continue_a_first_one() {
    const BOB: (&str, &str) = ("authorization", "Basic Ym9iOnB3");
    let rules = rules("enforce", "none");
    let (mut first, _) = trying(&rules, &[ID]);
    let parked = on(&mut first, &rules, Event::Done(Broke::Client, after(2)));
    let [Effect::Park(tried)] = &parked[..] else {
        panic!("{parked:?}");
    };
    // Let through where there is no throttle.
    let untried = Parked {
        held: None,
        ..tried.clone()
    };
    let play = |headers: &[(&str, &str)], source: &[u8], parked: &Parked| {
        let facts = Facts {
            now: after(2),
            properties: &|_| None,
            source: &|| source.to_vec(),
            body: Some(&Body::NONE),
        };
        let head = request("POST", "/token", headers);
        let event = Event::Headers(head, facts, Some(parked.clone()));
        on(&mut Flow::default(), &rules, event)
    };
    let asks = |effects: &[Effect]| {
        let last = effects.last();
        matches!(last, Some(Effect::Ask(Question::Decide(_))))
    };
    let (here, elsewhere) = (
        b"203.0.113.9:4712".as_slice(),
        b"203.0.113.10:4712".as_slice(),
    );
    for (headers, source) in [(&[BOB], here), (&[ALICE], elsewhere)] {
        let effects = play(headers, source, tried);
        assert_eq!(outcome(&effects), (failed(0b111), ALL.to_vec()));
        assert!(asks(&effects), "{effects:?}");
        assert!(asks(&play(headers, source, &untried)));
    }
    assert!(asks(&play(&[ALICE], here, &untried)));
    // Nobody is named: it is refused, and the first one has failed.
    let effects = play(&[], here, tried);
    assert_eq!(outcome(&effects).0, failed(0b111));
    assert!(matches!(
        effects.last(),
        Some(Effect::Ask(Question::Lockout(_)))
    ));
    // The same attempt is.
    let effects = play(&[ALICE], here, tried);
    assert_eq!(outcome(&effects), (None, vec![]));
    assert!(matches!(effects.last(), Some(Effect::Resume(_))));
}

const GRPC: [(&str, &str); 2] = [(":status", "200"), ("content-type", "application/grpc")];

#[test]
fn a_grpc_response_is_judged_by_its_code() {
    let rules = rules("enforce", "none");
    for (code, expected, counted) in [
        ("0", SUCCEEDED, &[][..]),
        ("16", failed(0b111), &ALL),
        ("7", failed(0b111), &ALL),
        ("14", failed(0), &[]),
    ] {
        // In the head, as proxies write their own refusals.
        let (mut flow, _) = trying(&rules, &[]);
        let head = [&GRPC[..], &[("grpc-status", code)]].concat();
        let effects = respond(&mut flow, &rules, &head, after(3));
        assert_eq!(outcome(&effects), (expected, counted.to_vec()), "{code}");
        assert!(!flow.awaits_trailers());
        // Or behind a body.
        let (mut flow, _) = trying(&rules, &[]);
        assert_eq!(respond(&mut flow, &rules, &GRPC, after(3)), []);
        assert!(flow.awaits_trailers());
        let read = |name: &str| (name == "grpc-status").then(|| code.into());
        let trailers = Event::ResponseTrailers(Response::new(&read), after(4));
        let effects = on(&mut flow, &rules, trailers);
        assert_eq!(outcome(&effects), (expected, counted.to_vec()), "{code}");
        assert!(!flow.awaits_trailers() && !flow.holds());
        assert_eq!(on(&mut flow, &rules, Event::ResponseEnd), []);
        assert_eq!(
            on(&mut flow, &rules, Event::Done(Broke::Client, after(4))),
            []
        );
    }
}

#[test]
fn a_request_does_not_make_its_response_grpc() {
    let rules = rules("enforce", "none");
    let (mut flow, _) = trying(&rules, &[("content-type", "application/grpc")]);
    let effects = respond(&mut flow, &rules, &[(":status", "401")], after(3));
    assert_eq!(outcome(&effects), (failed(0b111), ALL.to_vec()));
}

#[test]
fn a_grpc_response_without_a_code_is_neither() {
    let rules = rules("enforce", "none");
    for (ends, broke) in [
        (true, Broke::Client),
        (false, Broke::Upstream),
        // A stream that was under way, of which its client had enough.
        (false, Broke::Client),
    ] {
        let (mut flow, _) = trying(&rules, &[ID]);
        respond(&mut flow, &rules, &GRPC, after(3));
        if ends {
            on(&mut flow, &rules, Event::ResponseEnd);
        }
        let done = on(&mut flow, &rules, Event::Done(broke, after(4)));
        assert_eq!(outcome(&done), (failed(0), vec![]), "{ends} {broke:?}");
    }
}

#[test]
fn a_lock_that_is_held_besides_is_let_go_at_its_end() {
    let rules = rules("enforce", "none");
    let mut flow = Flow::default();
    let head = request("POST", "/login", &[ALICE, ("x-ledger", "7")]);
    arrive(&mut flow, &rules, head, Some(&Body::NONE));
    let effects = on(&mut flow, &rules, allowed());
    assert!(effects.contains(&Effect::Hold));
    let effects = respond(&mut flow, &rules, &[(":status", "401")], after(3));
    // The second and the third throttle are for this route.
    assert_eq!(outcome(&effects), (failed(0b11), ALL[1..].to_vec()));
    let Effect::Tell(told) = &effects[0] else {
        panic!("{effects:?}");
    };
    assert_eq!(
        Keep {
            outcome: None,
            ..told.keep
        },
        Keep::ON
    );
    on(&mut flow, &rules, Event::ResponseEnd);
    let done = on(&mut flow, &rules, Event::Done(Broke::Client, after(4)));
    let [Effect::Tell(told)] = &done[..] else {
        panic!("{done:?}");
    };
    assert_eq!(told.keep, Keep::NOTHING);
}

#[test]
fn what_makes_no_difference_is_not_told_at_all() {
    let throttles = [(throttle("ip", ThrottleBy::Ip), &[][..])];
    let rules = rules_with("{}", &throttles, &[]);
    for status in ["200", "500"] {
        let mut flow = Flow::default();
        arrive(
            &mut flow,
            &rules,
            request("GET", "/", &[]),
            Some(&Body::NONE),
        );
        on(
            &mut flow,
            &rules,
            decided(Verdict::Allowed(standings(5), None)),
        );
        let effects = respond(&mut flow, &rules, &[(":status", status)], after(3));
        assert!(matches!(effects[..], [Effect::Respond(_)]), "{effects:?}");
        assert!(!flow.holds());
    }
}

#[test]
fn the_body_is_waited_for_where_it_names_the_subject() {
    let rules = rules("enforce", "none");
    let mut flow = Flow::default();
    let form = ("content-type", "application/x-www-form-urlencoded");
    let head = request("POST", "/token", &[form]);
    assert_eq!(arrive(&mut flow, &rules, head, None), [Effect::AwaitBody]);
    let body = Body::Whole(b"client_id=bob&client_secret=x".to_vec());
    let facts = Facts {
        now: NOW,
        properties: &|_| None,
        source: &Vec::new,
        body: Some(&body),
    };
    let effects = on(&mut flow, &rules, Event::Body(facts));
    let [Effect::Ask(Question::Decide(ask))] = &effects[..] else {
        panic!("{effects:?}");
    };
    let attempts = ask.wanted.as_ref().unwrap().attempts.as_ref().unwrap();
    assert_eq!(attempts.subjects, [crate::identity::Id::hashed(b"bob")]);
}

#[test]
fn a_subject_that_cannot_be_read_is_a_400_and_a_box_comes_first() {
    let rules = rules("enforce", "none");
    for (lockout, expected) in [(None, 400), (Some(super::in_a_box(false)), 429)] {
        let mut flow = Flow::default();
        let head = request("POST", "/token", &[]);
        let asked = arrive(&mut flow, &rules, head, Some(&Body::NONE));
        assert!(matches!(asked[..], [Effect::Ask(Question::Lockout(_))]));
        let effects = on(&mut flow, &rules, Event::Lockout(lockout, NOW));
        assert_eq!(status(&effects), Some(expected));
        assert!(!flow.holds());
    }
    let mut flow = Flow::default();
    let length = [("content-length", "70000")];
    arrive(&mut flow, &rules, request("POST", "/token", &length), None);
    let effects = on(&mut flow, &rules, Event::Lockout(None, NOW));
    assert_eq!(
        (status(&effects), note(&effects)),
        (Some(413), Some("invalid"))
    );
}

const fn locked_out(attempt: usize, tripped: bool) -> Verdict {
    Verdict::AuthLockout(AuthLockout {
        attempt,
        lockout: Lockout {
            level: 2,
            until: Millis(NOW.0 + 60_000),
        },
        tripped,
    })
}

#[test]
fn a_lockout_that_a_request_trips_is_counted_and_told_without_the_subject() {
    let rules = rules("enforce", "none");
    for (attempt, scope, whose) in [
        (0, Scope::Subject, "a subject"),
        (1, Scope::Subject, "a subject at address 203.0.113.9"),
        (2, Scope::Ip, "address 203.0.113.9"),
    ] {
        for tripped in [true, false] {
            let mut flow = Flow::default();
            let head = request("POST", "/token", &[ALICE]);
            arrive(&mut flow, &rules, head, Some(&Body::NONE));
            let effects = on(&mut flow, &rules, decided(locked_out(attempt, tripped)));
            let found = (status(&effects), note(&effects));
            assert_eq!(found, (Some(429), Some("auth_lockout")));
            let trips = effects.iter().filter_map(|effect| match effect {
                Effect::Trip(Trip { whose, .. }) => Some(whose.as_str()),
                _ => None,
            });
            let expected = tripped.then_some(whose);
            assert_eq!(trips.collect::<Vec<_>>(), Vec::from_iter(expected));
            let counter = Effect::Count(Counter::BoxTrips { level: 2, scope }, 1);
            assert_eq!(effects.contains(&counter), tripped);
        }
    }
}

#[test]
fn whoever_comes_while_others_are_checked_is_told_so() {
    let rules = rules("enforce", "both");
    let mut flow = Flow::default();
    let head = request("POST", "/token", &[ALICE]);
    arrive(&mut flow, &rules, head, Some(&Body::NONE));
    let effects = on(&mut flow, &rules, decided(Verdict::AuthBusy));
    assert_eq!(
        (status(&effects), note(&effects)),
        (Some(429), Some("auth_busy"))
    );
    assert!(!flow.holds());
}

#[test]
fn what_the_local_store_let_through_is_told_to_it() {
    let throttles = [(throttle("subject", ThrottleBy::Subject), &[][..])];
    let rules = rules_with("{}", &throttles, &[]);
    let mut flow = Flow::default();
    let head = request("POST", "/", &[ALICE]);
    arrive(&mut flow, &rules, head, Some(&Body::NONE));
    let effects = on(&mut flow, &rules, Event::StoreFailed(NOW));
    let Some(Effect::Ask(Question::Degraded(ask))) = effects.last() else {
        panic!("{effects:?}");
    };
    assert!(ask.wanted.as_ref().unwrap().attempts.is_some());
    on(&mut flow, &rules, allowed());
    let effects = respond(&mut flow, &rules, &[(":status", "401")], after(3));
    let Effect::Tell(told) = &effects[0] else {
        panic!("{effects:?}");
    };
    assert_eq!(
        (told.grantor, told.keep.outcome),
        (Grantor::Node, failed(1))
    );
}
