//! Tests of lockouts for failed credentials that this node knows of.

use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use tollgate_config::ThrottleId;

use super::*;
use crate::attempt::{Attempt, Attempts, Who};
use crate::client_ip::Address;
use crate::hold::{HoldId, Wanted};
use crate::identity::Id;
use crate::store::Subject;
use crate::verdict::AuthLockout;

/// Presents credentials of a subject, under these throttles.
fn login(from: u8, subject: &str, by: &[Who]) -> Ask {
    let address = Address::Ip(IpAddr::V4(Ipv4Addr::new(192, 0, 2, from)));
    let one = |who: &Who| Attempt {
        throttle: ThrottleId(0),
        name: "t".into(),
        who: *who,
        failures: 3,
        within: Millis(15 * MINUTE),
        levels: [5 * MINUTE, 60 * MINUTE, 24 * 60 * MINUTE].map(Millis),
        max_level: 2,
        offense_memory: Millis(24 * 60 * MINUTE),
        provisional: true,
        spares: true,
        resets: true,
    };
    let attempts = Attempts {
        address: address.clone(),
        subjects: vec![Id::hashed(subject.as_bytes())],
        list: by.iter().map(one).collect(),
        stuffing: None,
    };
    Ask {
        subject: Subject::Credential {
            address,
            ip_meter: None,
        },
        wanted: Some(Wanted {
            attempts: Some(Rc::new(attempts)),
            ..Wanted::nothing(HoldId(1))
        }),
        ..key("", "")
    }
}

/// By the same of a tenant's.
fn tenants(ask: Ask) -> Ask {
    Ask {
        subject: key("t", "a").subject,
        ..ask
    }
}

fn locked(attempt: usize, lockout: Lockout) -> Barred {
    Barred::LockedOut(AuthLockout {
        attempt,
        lockout,
        tripped: false,
    })
}

const SUBJECT: Who = Who::Subject(0);
const PAIR: Who = Who::Pair(0);

#[test]
fn a_remembered_lockout_is_used_for_ten_seconds_and_to_its_end_where_the_store_fails() {
    for by in [[Who::Ip], [SUBJECT], [PAIR]] {
        for ask in [login(1, "alice", &by), tenants(login(1, "alice", &by))] {
            let heap = Heap::default();
            let store = open(heap.clone());
            assert_eq!(store.recall(&ask, NOW), None);
            let lockout = locked(0, ends(5 * MINUTE));
            assert_eq!(store.remember(&ask, lockout, NOW), Toll::default());
            let before = bytes(&heap);
            for (later, expected) in [
                (0, Some(true)),
                (9_999, Some(true)),
                (10_000, Some(false)),
                (5 * MINUTE - 1, Some(false)),
                (5 * MINUTE, None),
            ] {
                let known = store.recall(&ask, at(later));
                assert_eq!(known.map(|known| known.fresh), expected, "{by:?} {later}");
                assert!(known.is_none_or(|known| known.barred == lockout));
                // It is no box of a tenant's key.
                if by[0] != Who::Ip {
                    assert_eq!(store.known(&ask, at(later), true), None);
                }
            }
            assert_eq!(bytes(&heap), before, "looking changes nothing");
        }
    }
}

#[test]
fn a_subjects_lockout_is_remembered_for_the_address_that_it_refused() {
    let store = open(Heap::default());
    store.remember(&login(1, "alice", &[SUBJECT]), locked(0, ends(MINUTE)), NOW);
    let knows = |ask: &Ask| store.recall(ask, NOW).is_some();
    assert!(knows(&login(1, "alice", &[SUBJECT])));
    // From elsewhere it may be spared.
    assert!(!knows(&login(2, "alice", &[SUBJECT])));
    assert!(!knows(&login(1, "bob", &[SUBJECT])));
    assert!(!knows(&login(1, "alice", &[Who::Ip])));
    assert!(!knows(&shadow(login(1, "alice", &[SUBJECT]))));
    assert!(!knows(&anonymous(1)));
}

#[test]
fn an_addresss_lockout_is_remembered_for_all_its_attempts_and_boxes_whoever_has_no_key() {
    let store = open(Heap::default());
    let lockout = ends(MINUTE);
    store.remember(
        &login(1, "alice", &[SUBJECT, Who::Ip]),
        locked(1, lockout),
        NOW,
    );
    let recalled = |ask: &Ask| store.recall(ask, NOW).map(|known| known.barred);
    assert_eq!(
        recalled(&login(1, "bob", &[Who::Ip])),
        Some(locked(0, lockout))
    );
    let both = login(1, "bob", &[SUBJECT, Who::Ip]);
    assert_eq!(recalled(&both), Some(locked(1, lockout)));
    assert_eq!(recalled(&tenants(both)), Some(locked(1, lockout)));
    let boxed = Barred::Boxed(Boxed {
        scope: Scope::Ip,
        lockout,
        tripped: false,
    });
    assert_eq!(recalled(&anonymous(1)), Some(boxed));
    assert_eq!(recalled(&login(1, "bob", &[SUBJECT])), Some(boxed));
    assert_eq!(recalled(&tenants(login(1, "bob", &[SUBJECT]))), None);
    assert_eq!(recalled(&login(2, "bob", &[Who::Ip])), None);
    // Whatever becomes of strikes.
    let off = strictly(Strictness::Off, login(1, "bob", &[Who::Ip]));
    assert_eq!(recalled(&off), Some(locked(0, lockout)));
    assert_eq!(recalled(&strictly(Strictness::Off, anonymous(1))), None);
}

#[test]
fn a_box_for_strikes_is_no_lockout() {
    let store = open(Heap::default());
    store.remember(&anonymous(1), in_box(ends(MINUTE)), NOW);
    let known = store.recall(&login(1, "bob", &[Who::Ip]), NOW).unwrap();
    assert!(matches!(known.barred, Barred::Boxed(_)));
    assert_eq!(
        store.recall(&tenants(login(1, "bob", &[Who::Ip])), NOW),
        None
    );
}

#[test]
fn of_several_a_fresh_one_is_used_then_a_box_then_the_one_that_ends_last() {
    let store = open(Heap::default());
    let ask = tenants(login(1, "alice", &[Who::Ip, SUBJECT]));
    let recalled = |later| store.recall(&ask, at(later)).map(|known| known.barred);
    store.remember(&ask, locked(0, ends(MINUTE)), NOW);
    store.remember(&ask, locked(1, ends(2 * MINUTE)), NOW);
    assert_eq!(recalled(0), Some(locked(1, ends(2 * MINUTE))));
    store.remember(&ask, locked(0, ends(MINUTE)), at(5000));
    assert_eq!(recalled(10_000), Some(locked(0, ends(MINUTE))));
    assert_eq!(recalled(15_000), Some(locked(1, ends(2 * MINUTE))));
    store.remember(&ask, in_box(ends(MINUTE)), at(5000));
    assert!(matches!(recalled(10_000), Some(Barred::Boxed(_))));
}

#[test]
fn the_degraded_limiter_refuses_whom_the_failed_store_had_locked_out() {
    for by in [[Who::Ip], [SUBJECT], [PAIR]] {
        let ask = login(1, "alice", &by);
        let ask = strictly(Strictness::Known, ask);
        let mut store = open(Heap::default());
        store.remember(&ask, locked(0, ends(5 * MINUTE)), NOW);
        for later in [0, 10_000, 5 * MINUTE - 1] {
            let verdict = store.decide(&ask, at(later)).0;
            assert_eq!(
                Barred::of(&verdict),
                Some(locked(0, ends(5 * MINUTE))),
                "{by:?}"
            );
        }
        allowed(store.decide(&ask, at(5 * MINUTE)).0);
    }
}

#[test]
fn a_released_lockout_does_not_come_back_when_the_store_fails() {
    let heap = Heap::default();
    let mut store = open(heap.clone());
    let ask = login(1, "alice", &[Who::Ip, SUBJECT]);
    store.remember(&ask, locked(0, ends(MINUTE)), NOW);
    store.remember(&ask, locked(1, ends(MINUTE)), NOW);
    assert_eq!(store.forget(&ask, at(11_000)), Toll::default());
    assert_eq!(store.recall(&ask, at(11_000)), None);
    allowed(store.decide(&ask, at(11_000)).0);
    let before = bytes(&heap);
    store.forget(&ask, at(11_000));
    assert_eq!(bytes(&heap), before);
}

#[test]
fn a_tenants_attempt_that_passes_releases_no_box_for_strikes_of_its_address() {
    let store = open(Heap::default());
    store.remember(&anonymous(1), in_box(ends(MINUTE)), NOW);
    store.forget(&tenants(login(1, "alice", &[Who::Ip, SUBJECT])), NOW);
    assert!(store.known(&anonymous(1), NOW, true).is_some());
    store.forget(&login(1, "alice", &[SUBJECT]), NOW);
    assert!(store.known(&anonymous(1), NOW, true).is_none());
}

#[test]
fn what_bars_says_which_verdict_it_stands_for() {
    for barred in [in_box(ends(MINUTE)), locked(3, ends(MINUTE))] {
        assert_eq!(Barred::of(&barred.verdict()), Some(barred));
        assert_eq!(barred.lockout(), ends(MINUTE));
        assert_eq!(barred.until(at(7)).lockout(), ends(7));
    }
    assert_eq!(Barred::of(&Verdict::AuthBusy), None);
}
