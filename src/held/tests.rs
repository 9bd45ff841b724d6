//! Tests of `held`.

use std::rc::Rc;

use tollgate_config::{Lease, Lock, LockBy, Millis, OnAbort, Route};

use super::{End, Grantor, Held};
use crate::hold::{Fence, HELD_FOR, HoldId, Keep, LeaseWanted, Wanted};
use crate::identity::Id;
use crate::store::Ask;
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
    }
}

fn held(route: &Route) -> Held {
    let ask = ask(Some(wanted()));
    Held::of(&ask, Grantor::Store, Some(Fence(9)), Some(route), NOW).unwrap()
}

fn usual() -> Held {
    held(&route(OnAbort::Release, OnAbort::Hold))
}

fn after(seconds: u64) -> Millis {
    NOW.plus(Millis::from_secs(seconds))
}

fn keep(lease: u64, lock: u64, flight: u64) -> Keep {
    Keep {
        lease: Millis(lease),
        lock: Millis(lock),
        flight: Millis(flight),
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
        assert_eq!(held.answered(200, after(1)), None);
        assert!(held.depends_on_status());
        let handed_over = held.answered(202, after(1));
        let told = keep(LEASE_TTL.0, LOCK_TTL.0, HELD_FOR.0);
        assert_eq!(handed_over, Some(told));
        assert_eq!(held.answered(202, after(2)), None, "once");
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
