//! Tests of `flow`: what a request holds is lent to the upstream, held on, and ended once.

use tollgate_config::Millis;

use super::{NOW, RESPONSE, decided, on, respond, rules, standings};
use crate::body::Body;
use crate::flow::{Broke, Effect, Event, Flow, Told};
use crate::held::{End, Grantor};
use crate::hold::{Fence, HELD_FOR, Keep};
use crate::plan::Facts;
use crate::reply::Form;
use crate::request::Request;
use crate::rules::Rules;
use crate::testing::request;
use crate::verdict::{Obstacle, Taken, Verdict};

const LEASE_TTL: Millis = Millis(600_000);
const LOCK_TTL: Millis = Millis(300_000);

const JOB: [(&str, &str); 4] = [
    ("x-tenant-id", "acme"),
    ("x-api-key", "k"),
    ("x-ledger", "7"),
    ("x-request-id", "one"),
];

fn arrive(flow: &mut Flow, rules: &Rules, head: Request, body: Option<&Body>) -> Vec<Effect> {
    let facts = Facts {
        now: NOW,
        properties: &|_| Some(b"growth".to_vec()),
        source: &|| b"203.0.113.9:4711".to_vec(),
        body,
    };
    on(flow, rules, Event::Headers(head, facts, None))
}

fn allowed() -> Event<'static> {
    decided(Verdict::Allowed(standings(59), Some(Fence(9))))
}

/// A request of the route with everything, that was let through.
fn working(rules: &Rules, head: &[(&str, &str)]) -> Flow {
    let mut flow = Flow::default();
    arrive(
        &mut flow,
        rules,
        request("POST", "/job", head),
        Some(&Body::NONE),
    );
    on(&mut flow, rules, allowed());
    assert!(flow.holds());
    flow
}

fn keep(lease: Millis, lock: Millis, flight: Millis) -> Keep {
    Keep {
        lease,
        lock,
        flight,
        outcome: None,
    }
}

/// What is told, where that is all that happens.
fn told(effects: &[Effect]) -> Option<Keep> {
    match effects {
        [] => None,
        [Effect::Tell(Told { keep, grantor, .. })] => {
            assert_eq!(*grantor, Grantor::Store);
            Some(*keep)
        }
        other => panic!("{other:?}"),
    }
}

fn after(seconds: u64) -> Millis {
    NOW.plus(Millis::from_secs(seconds))
}

#[test]
fn the_upstream_is_lent_lease_and_fence_before_the_request_goes_on() {
    let rules = rules("enforce", "none");
    let mut flow = Flow::default();
    let head = request("POST", "/job", &JOB);
    arrive(&mut flow, &rules, head, Some(&Body::NONE));
    let effects = on(&mut flow, &rules, allowed());
    let place = |wanted: &dyn Fn(&Effect) -> bool| effects.iter().position(wanted).unwrap();
    let lent =
        |name: &'static str| place(&move |e| matches!(e, Effect::Lend((lent, _)) if *lent == name));
    let resumed = place(&|e| matches!(e, Effect::Resume(_)));
    assert!(lent("x-tollgate-lease") < resumed);
    assert!(lent("x-tollgate-fence") < resumed);
    assert!(place(&|e| *e == Effect::Hold) < resumed);
    let fence = Effect::Lend(("x-tollgate-fence", "9".to_owned()));
    assert!(effects.contains(&fence));
}

#[test]
fn whoever_is_refused_in_shadow_mode_holds_nothing() {
    let rules = rules("shadow", "none");
    let mut flow = Flow::default();
    let head = request("POST", "/job", &JOB[..3]);
    arrive(&mut flow, &rules, head, Some(&Body::NONE));
    let taken = Verdict::Taken(Taken {
        by: Obstacle::Lease,
        standings: standings(5),
        wait: Millis(1000),
        strikes_left: None,
    });
    let effects = on(&mut flow, &rules, decided(taken));
    assert!(matches!(effects.last(), Some(Effect::Resume(_))));
    assert!(!flow.holds());
    assert_eq!(
        on(&mut flow, &rules, Event::Done(Broke::Client, after(1))),
        []
    );
}

#[test]
fn what_is_held_is_let_go_with_the_whole_response() {
    let rules = rules("enforce", "none");
    let mut flow = working(&rules, &JOB);
    on(&mut flow, &rules, RESPONSE);
    assert_eq!(on(&mut flow, &rules, Event::ResponseEnd), []);
    let done = on(&mut flow, &rules, Event::Done(Broke::Client, after(2)));
    assert_eq!(told(&done), Some(Keep::NOTHING));
    assert_eq!(
        on(&mut flow, &rules, Event::Done(Broke::Client, after(2))),
        [],
        "once"
    );
}

#[test]
fn a_response_that_breaks_off_is_a_client_that_went_away() {
    let rules = rules("enforce", "none");
    let mut flow = working(&rules, &JOB);
    on(&mut flow, &rules, RESPONSE);
    let done = on(&mut flow, &rules, Event::Done(Broke::Client, after(2)));
    assert_eq!(told(&done), Some(keep(Millis(0), LOCK_TTL, Millis(0))));
}

#[test]
fn a_response_that_the_upstream_breaks_off_is_over() {
    let rules = rules("enforce", "none");
    let mut flow = working(&rules, &JOB);
    on(&mut flow, &rules, RESPONSE);
    assert!(flow.asks_who_broke());
    let done = on(&mut flow, &rules, Event::Done(Broke::Upstream, after(2)));
    assert_eq!(told(&done), Some(Keep::NOTHING));
}

#[test]
fn a_stream_that_lives_holds_on() {
    let rules = rules("enforce", "none");
    let mut flow = working(&rules, &JOB);
    let tick = |flow: &mut Flow, seconds| told(&on(flow, &rules, Event::Tick(after(seconds))));
    assert_eq!(tick(&mut flow, 19), None);
    assert!(!flow.is_due(after(19)) && flow.is_due(after(20)));
    assert_eq!(tick(&mut flow, 20), Some(Keep::ON));
    on(&mut flow, &rules, RESPONSE);
    assert_eq!(tick(&mut flow, 39), None);
    assert_eq!(tick(&mut flow, 40), Some(Keep::ON));
}

#[test]
fn a_status_hands_over() {
    let rules = rules("enforce", "none");
    let mut flow = working(&rules, &JOB);
    assert!(flow.asks_status());
    let effects = respond(&mut flow, &rules, &[(":status", "202")], after(1));
    let handed_over = keep(LEASE_TTL, LOCK_TTL, HELD_FOR);
    assert_eq!(told(&effects[..1]), Some(handed_over));
    on(&mut flow, &rules, Event::ResponseEnd);
    let done = on(&mut flow, &rules, Event::Done(Broke::Client, after(1)));
    assert_eq!(told(&done), Some(keep(LEASE_TTL, LOCK_TTL, Millis(0))));
}

#[test]
fn a_request_that_is_played_again_holds_on_to_what_it_has() {
    let rules = rules("enforce", "none");
    let mut first = working(&rules, &JOB);
    let parked = on(&mut first, &rules, Event::Done(Broke::Client, after(1)));
    let [Effect::Park(parked)] = &parked[..] else {
        panic!("{parked:?}");
    };
    assert_eq!(parked.pass.id, b"one");
    let held = parked.held.as_ref().unwrap();
    // Nobody continues it: the client went away.
    let gone = held.end(End::Aborted, after(1));
    assert_eq!(gone, keep(Millis(0), LOCK_TTL, Millis(0)));

    let mut second = Flow::default();
    let facts = Facts {
        now: after(1),
        properties: &|_| None,
        source: &Vec::new,
        body: None,
    };
    let head = request("GET", "/elsewhere", &[("x-tollgate-lease", "of the first")]);
    let effects = on(
        &mut second,
        &rules,
        Event::Headers(head, facts, Some(parked.clone())),
    );
    assert_eq!(effects[0], Effect::Strip("x-tollgate-lease".to_owned()));
    assert!(matches!(&effects[2], Effect::Lend(("x-tollgate-lease", _))));
    assert!(effects.contains(&Effect::Hold));
    on(&mut second, &rules, RESPONSE);
    on(&mut second, &rules, Event::ResponseEnd);
    let done = on(&mut second, &rules, Event::Done(Broke::Client, after(2)));
    assert_eq!(told(&done), Some(Keep::NOTHING));
}

#[test]
fn a_request_without_an_id_is_never_played_again() {
    let rules = rules("enforce", "none");
    let mut flow = working(&rules, &JOB[..3]);
    let done = on(&mut flow, &rules, Event::Done(Broke::Client, after(1)));
    assert_eq!(told(&done), Some(keep(Millis(0), LOCK_TTL, Millis(0))));
}

#[test]
fn the_body_is_waited_for_where_it_names_the_resource() {
    let rules = rules("enforce", "none");
    let mut flow = Flow::default();
    let head = request("POST", "/json", &JOB);
    assert_eq!(arrive(&mut flow, &rules, head, None), [Effect::AwaitBody]);
    assert!(flow.is_reading() && flow.is_waiting());
    let body = Body::Whole(br#"{"id": 7}"#.to_vec());
    let facts = Facts {
        now: NOW,
        properties: &|_| Some(b"growth".to_vec()),
        source: &Vec::new,
        body: Some(&body),
    };
    let effects = on(&mut flow, &rules, Event::Body(facts));
    assert!(matches!(effects[..], [Effect::Ask(_)]));
    assert!(!flow.is_reading() && flow.is_waiting());
    let effects = on(&mut flow, &rules, allowed());
    assert!(matches!(effects.last(), Some(Effect::Resume(_))));
    assert!(!flow.is_waiting());
}

#[test]
fn a_body_that_never_comes_is_not_waited_for() {
    for (mode, expected) in [("enforce", Some(503)), ("shadow", None)] {
        let rules = rules(mode, "none");
        let mut flow = Flow::default();
        arrive(&mut flow, &rules, request("POST", "/json", &JOB), None);
        let facts = Facts {
            now: after(5),
            properties: &|_| Some(b"growth".to_vec()),
            source: &Vec::new,
            body: None,
        };
        let effects = on(&mut flow, &rules, Event::NoBody(facts));
        let status = effects.iter().find_map(|effect| match effect {
            Effect::Reply(reply) => match reply.form {
                Form::Http { status, .. } => Some(status),
                Form::Grpc { .. } => None,
            },
            _ => None,
        });
        assert_eq!(status, expected);
        assert!(!flow.is_waiting() && !flow.holds());
    }
}

#[test]
fn what_the_degraded_limiter_granted_is_told_to_it() {
    let rules = rules("enforce", "none");
    let mut flow = Flow::default();
    let key = [&JOB[..2], &[("idempotency-key", "k")]].concat();
    let head = request("POST", "/", &key);
    arrive(&mut flow, &rules, head, Some(&Body::NONE));
    on(&mut flow, &rules, Event::StoreFailed(NOW));
    on(&mut flow, &rules, allowed());
    let done = on(&mut flow, &rules, Event::Done(Broke::Client, after(1)));
    let [Effect::Tell(told)] = &done[..] else {
        panic!("{done:?}");
    };
    assert_eq!((told.grantor, told.keep), (Grantor::Node, Keep::NOTHING));
}
