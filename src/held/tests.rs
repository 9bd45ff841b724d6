//! Tests of `held`.

use std::rc::Rc;

use proptest::prelude::*;
use tollgate_config::{
    Lease, Lock, LockBy, Millis, OnAbort, Route, Throttle, ThrottleBy, ThrottleId,
};

use super::{End, Grantor, Held};
use crate::attempt::{Attempt, Attempts, Outcome, Who};
use crate::hold::{Fence, HELD_FOR, HoldId, Keep, LeaseWanted, Wanted};
use crate::identity::Id;
use crate::response::Response;
use crate::store::Ask;
use crate::testing::throttles::{rules_with, throttle};
use crate::testing::{NOW, config, plan, request, rules};

const LEASE_TTL: Millis = Millis(600_000);
const LOCK_TTL: Millis = Millis(300_000);

fn route(lease: OnAbort, lock: OnAbort) -> Route {
    let routes = config("{}").routes;
    Route {
        lease: Some(Lease {
            kind: "job".to_owned(),
            ttl: LEASE_TTL,
            on_abort: lease,
        }),
        lock: Some(Lock {
            by: LockBy::Header("x-ledger".to_owned()),
            ttl: LOCK_TTL,
            on_abort: lock,
        }),
        hold_on: vec![201, 202],
        ..routes[0].clone()
    }
}

fn ask(wanted: Option<Wanted>) -> Rc<Ask> {
    let plan = plan(&rules("{}"), &request("GET", "/", &[]));
    let mut ask = plan.check.ask().unwrap().clone();
    ask.wanted = wanted;
    Rc::new(ask)
}

fn wanted() -> Wanted {
    Wanted {
        id: HoldId(7),
        flight: None,
        lock: Some(Id::of(b"ledger-7")),
        lease: Some(LeaseWanted {
            kind: "job".into(),
            slots: 2,
        }),
        quota: None,
        attempts: None,
    }
}

fn held(route: &Route) -> Held {
    let ask = ask(Some(wanted()));
    Held::of(&ask, Grantor::Store, Some(Fence(9)), Some(route), NOW).unwrap()
}

fn usual() -> Held {
    held(&route(OnAbort::Release, OnAbort::Hold))
}

/// The response came, with this status.
fn answered(held: &mut Held, status: u16, now: Millis) -> Option<Keep> {
    let read = |name: &str| (name == ":status").then(|| status.to_string().into());
    held.answered(&Response::new(&read), &throttles(), now)
}

fn after(seconds: u64) -> Millis {
    NOW.plus(Millis::from_secs(seconds))
}

fn keep(lease: u64, lock: u64, flight: u64) -> Keep {
    Keep {
        lease: Millis(lease),
        lock: Millis(lock),
        flight: Millis(flight),
        outcome: None,
    }
}

#[test]
fn who_asked_for_nothing_that_lasts_holds_nothing() {
    let route = route(OnAbort::Hold, OnAbort::Hold);
    let of = |wanted| Held::of(&ask(wanted), Grantor::Store, None, Some(&route), NOW);
    assert_eq!(of(None), None);
    let quota_only = Wanted {
        lock: None,
        lease: None,
        ..wanted()
    };
    assert_eq!(of(Some(quota_only)), None, "a quota is spent");
}

#[test]
fn a_stream_that_lives_is_held_on_every_twenty_seconds() {
    let mut held = usual();
    assert_eq!(held.renew(after(19)), None);
    assert!(held.is_due(after(20)));
    assert_eq!(held.renew(after(20)), Some(Keep::ON));
    assert_eq!(held.renew(after(39)), None);
    assert_eq!(held.renew(after(40)), Some(Keep::ON));
    // A clock that is set back does not stop it.
    assert_eq!(held.renew(after(5)), Some(Keep::ON));
}

#[test]
fn at_the_end_all_is_let_go() {
    assert_eq!(usual().end(End::Complete, after(3)), Keep::NOTHING);
}

#[test]
fn when_the_client_goes_away_the_lock_is_held_on_and_the_lease_is_not() {
    assert_eq!(usual().end(End::Aborted, after(3)), keep(0, LOCK_TTL.0, 0));
    let other_way = held(&route(OnAbort::Hold, OnAbort::Release));
    assert_eq!(
        other_way.end(End::Aborted, after(3)),
        keep(LEASE_TTL.0, 0, 0)
    );
}

#[test]
fn some_statuses_hand_lease_and_lock_over_for_their_ttl_from_then() {
    for end in [End::Complete, End::Aborted] {
        let mut held = usual();
        assert_eq!(answered(&mut held, 200, after(1)), None);
        assert!(held.depends_on_status());
        let handed_over = answered(&mut held, 202, after(1));
        let told = keep(LEASE_TTL.0, LOCK_TTL.0, HELD_FOR.0);
        assert_eq!(handed_over, Some(told));
        assert_eq!(answered(&mut held, 202, after(2)), None, "once");
        // A response that goes on for long does not add to it.
        let later = keep(LEASE_TTL.0 - 100_000, LOCK_TTL.0 - 100_000, HELD_FOR.0);
        assert_eq!(held.renew(after(101)), Some(later));
        let last = keep(LEASE_TTL.0 - 200_000, LOCK_TTL.0 - 200_000, 0);
        assert_eq!(held.end(end, after(201)), last);
        // Longer than that, it is over.
        assert_eq!(held.end(end, after(1000)), Keep::NOTHING);
    }
}

#[test]
fn the_upstream_is_told_of_lease_and_lock_and_of_nothing_else() {
    let name = |_: &Ask| "member".to_owned();
    let lease = ("x-tollgate-lease", "member".to_owned());
    let fence = ("x-tollgate-fence", "9".to_owned());
    assert_eq!(usual().headers(name), [lease, fence]);
    let flight = Wanted {
        flight: Some(Id::of(b"k")),
        lock: None,
        lease: None,
        ..wanted()
    };
    let held = Held::of(&ask(Some(flight)), Grantor::Node, None, None, NOW).unwrap();
    assert_eq!(held.headers(name), []);
    assert!(!held.depends_on_status());
    assert_eq!(held.end(End::Aborted, NOW), Keep::NOTHING);
}

/// Two throttles: the second one counts 404, too.
fn throttles() -> Vec<Throttle> {
    let subject = throttle("subject", ThrottleBy::Subject);
    let ip = Throttle {
        count: vec![401, 404],
        ..throttle("ip", ThrottleBy::Ip)
    };
    vec![subject, ip]
}

/// Attempts by both; `provisional` says whether they take slots, `resets` whether a success clears failures.
fn attempts(provisional: bool, resets: bool) -> Rc<Attempts> {
    let with: Vec<(Throttle, &[&str])> = throttles().into_iter().map(|t| (t, &[][..])).collect();
    let rules = rules_with("{}", &with, &[]);
    let attempt = |(place, who)| Attempt {
        resets,
        spares: false,
        ..rules.attempt(ThrottleId(place), who, provisional).unwrap()
    };
    let list = [(0, Who::Subject(0)), (1, Who::Ip)].map(attempt).into();
    Rc::new(Attempts {
        address: crate::client_ip::Address::Other(b"here".to_vec()),
        subjects: vec![Id::hashed(b"alice")],
        list,
        stuffing: None,
    })
}

/// Attempts alone, on a route that hands nothing over.
fn trying(attempts: Rc<Attempts>) -> Held {
    let wanted = Wanted {
        attempts: Some(attempts),
        ..Wanted::nothing(HoldId(7))
    };
    Held::of(&ask(Some(wanted)), Grantor::Store, None, None, NOW).unwrap()
}

const fn outcome(failed: u32, succeeded: bool) -> Option<Outcome> {
    Some(Outcome {
        started: NOW,
        failed,
        succeeded,
    })
}

/// What is told of attempts when the response came with a status.
fn outcome_of(attempts: Rc<Attempts>, status: u16) -> Option<Outcome> {
    let mut held = trying(attempts);
    let keep = answered(&mut held, status, after(2));
    assert!(held.is_over(), "{status}");
    assert_eq!(answered(&mut held, status, after(3)), None, "once");
    let keep = keep?;
    assert!(keep.outcome.is_some(), "nothing else is to be told");
    keep.outcome
}

#[test]
fn an_attempt_is_what_the_status_makes_of_it() {
    for (status, expected) in [
        (401, outcome(0b11, false)),
        (403, outcome(0b01, false)),
        (404, outcome(0b10, false)),
        (200, outcome(0, true)),
        (204, outcome(0, true)),
        (299, outcome(0, true)),
        (400, outcome(0, false)),
        (429, outcome(0, false)),
        (500, outcome(0, false)),
        (504, outcome(0, false)),
        (302, outcome(0, false)),
        (101, outcome(0, false)),
    ] {
        assert_eq!(
            outcome_of(attempts(true, true), status),
            expected,
            "{status}"
        );
    }
}

#[test]
fn what_makes_no_difference_is_not_told() {
    // Nothing is in flight that could be given back, and there is nothing to clear.
    for (provisional, resets, status, expected) in [
        (false, false, 200, None),
        (false, false, 500, None),
        (false, false, 401, outcome(0b11, false)),
        (false, true, 200, outcome(0, true)),
        (false, true, 500, None),
        (true, false, 200, outcome(0, true)),
        (true, false, 500, outcome(0, false)),
    ] {
        let of = attempts(provisional, resets);
        assert_eq!(
            outcome_of(of, status),
            expected,
            "{provisional} {resets} {status}"
        );
    }
    let mut knows = (*attempts(false, false)).clone();
    knows.list[0].spares = true;
    assert_eq!(
        outcome_of(Rc::new(knows), 200),
        outcome(0, true),
        "an address to know"
    );
}

#[test]
fn who_goes_away_before_an_answer_has_failed_by_all() {
    for provisional in [true, false] {
        let held = trying(attempts(provisional, false));
        let keep = held.end(End::Aborted, after(3));
        assert_eq!(keep.outcome, outcome(0b11, false));
    }
    let complete = trying(attempts(true, false)).end(End::Complete, after(3));
    assert_eq!(complete.outcome, outcome(0, false), "given back");
    let complete = trying(attempts(false, false)).end(End::Complete, after(3));
    assert_eq!(complete.outcome, None);
}

#[test]
fn attempts_are_never_renewed() {
    let mut held = trying(attempts(true, true));
    for seconds in [19, 20, 60, 600] {
        assert!(!held.is_due(after(seconds)));
        assert_eq!(held.renew(after(seconds)), None);
    }
    assert!(!held.lasts() && !held.is_over());
    assert!(held.depends_on_status());
    assert_eq!(held.headers(|_| "member".to_owned()), [], "nothing is lent");
}

/// A response of gRPC's came: its head, with what the field in it says.
fn answered_by_grpc(held: &mut Held, code: Option<&str>) -> Option<Keep> {
    let read = |name: &str| match name {
        ":status" => Some(b"200".to_vec()),
        "content-type" => Some(b"application/grpc".to_vec()),
        _ => code.map(|code| code.as_bytes().to_vec()),
    };
    held.answered(&Response::new(&read), &throttles(), after(1))
}

fn trailed(held: &mut Held, code: Option<&str>) -> Option<Keep> {
    let read = |_: &str| code.map(|code| code.as_bytes().to_vec());
    held.trailed(&Response::new(&read), &throttles(), after(2))
}

#[test]
fn a_grpc_response_tells_it_in_its_head_or_its_trailers() {
    for (code, expected) in [
        (Some("0"), outcome(0, true)),
        (Some("16"), outcome(0b11, false)),
        (Some("7"), outcome(0b01, false)),
        (Some("13"), outcome(0, false)),
    ] {
        let mut held = trying(attempts(true, true));
        let keep = answered_by_grpc(&mut held, code).unwrap();
        assert_eq!(keep.outcome, expected, "{code:?}");
        let mut held = trying(attempts(true, true));
        assert_eq!(answered_by_grpc(&mut held, None), None);
        assert!(held.awaits_trailers() && !held.is_over());
        let keep = trailed(&mut held, code).unwrap();
        assert_eq!(keep.outcome, expected, "{code:?}");
        assert!(held.is_over());
        assert_eq!(trailed(&mut held, Some("16")), None, "once");
    }
    let mut held = trying(attempts(true, true));
    answered_by_grpc(&mut held, None);
    let keep = trailed(&mut held, None).unwrap();
    assert_eq!(keep.outcome, outcome(0, false), "no code is no success");
}

#[test]
fn who_leaves_a_stream_that_is_under_way_has_not_failed() {
    for end in [End::Aborted, End::Complete] {
        let mut held = trying(attempts(true, true));
        answered_by_grpc(&mut held, None);
        assert_eq!(held.end(end, after(3)).outcome, outcome(0, false));
        let mut held = trying(attempts(false, true));
        answered_by_grpc(&mut held, None);
        assert_eq!(held.end(end, after(3)).outcome, None);
    }
    // Trailers without a head are nobody's.
    let mut held = trying(attempts(true, true));
    assert_eq!(trailed(&mut held, Some("0")), None);
}

#[test]
fn an_outcome_is_told_with_a_hand_over_and_not_again() {
    let wanted = Wanted {
        attempts: Some(attempts(true, true)),
        ..wanted()
    };
    let route = route(OnAbort::Release, OnAbort::Hold);
    let mut held = Held::of(&ask(Some(wanted)), Grantor::Store, None, Some(&route), NOW).unwrap();
    let told = answered(&mut held, 202, after(1)).unwrap();
    let expected = Keep {
        outcome: outcome(0, true),
        ..keep(LEASE_TTL.0, LOCK_TTL.0, HELD_FOR.0)
    };
    assert_eq!(told, expected);
    assert!(!held.is_over() && !held.awaits_trailers());
    assert_eq!(held.renew(after(21)).unwrap().outcome, None);
    assert_eq!(held.end(End::Complete, after(30)).outcome, None);
}

#[test]
fn an_outcome_alone_leaves_a_lock_as_it_is() {
    let wanted = Wanted {
        attempts: Some(attempts(true, true)),
        ..wanted()
    };
    let ask = ask(Some(wanted));
    let mut held = Held::of(&ask, Grantor::Store, None, None, NOW).unwrap();
    let told = answered(&mut held, 401, after(1)).unwrap();
    let expected = Keep {
        outcome: outcome(0b11, false),
        ..Keep::ON
    };
    assert_eq!(told, expected);
    assert_eq!(held.renew(after(21)), Some(Keep::ON));
    assert_eq!(held.end(End::Complete, after(30)), Keep::NOTHING);
}

proptest! {
    /// Whatever comes, an outcome is told once, and a failure is never a success.
    #[test]
    fn an_outcome_is_told_once(
        status in prop_oneof![Just(200), Just(401), 100..600_u16],
        code in prop::option::of(prop::sample::select(vec!["0", "16", "7", "x"])),
        is_grpc in any::<bool>(),
        trails in any::<bool>(),
        end in prop::sample::select(vec![End::Complete, End::Aborted]),
        provisional in any::<bool>(),
    ) {
        let mut held = trying(attempts(provisional, true));
        let read = |name: &str| match name {
            ":status" => Some(status.to_string().into()),
            "content-type" => is_grpc.then(|| b"application/grpc".to_vec()),
            _ => code.map(|code| code.as_bytes().to_vec()),
        };
        let mut told: Vec<Outcome> = Vec::new();
        let keep = held.answered(&Response::new(&read), &throttles(), after(1));
        told.extend(keep.and_then(|keep| keep.outcome));
        if trails {
            told.extend(trailed(&mut held, code).and_then(|keep| keep.outcome));
        }
        told.extend(held.end(end, after(3)).outcome);
        prop_assert!(told.len() <= 1);
        let is_refused = status == 401 || status == 200 && is_grpc && code == Some("16");
        if is_refused {
            prop_assert_eq!(told[0].failed, 0b11);
        }
        for outcome in &told {
            prop_assert!(outcome.failed == 0 || !outcome.succeeded);
            prop_assert_eq!(outcome.started, NOW);
        }
        if provisional {
            prop_assert_eq!(told.len(), 1, "a slot is given back or used up");
        }
    }
}
