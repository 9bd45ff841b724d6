//! Tests of `store::leg`: what is on which leg, and what is told there.

use std::rc::Rc;

use proptest::prelude::*;
use tollgate_config::{Millis, Stuffing};

use crate::attempt::{Attempt, Attempts, Outcome, Who};
use crate::client_ip::Address;
use crate::hold::{HoldId, Keep, Wanted};
use crate::identity::Id;
use crate::store::script::{Item, Step};
use crate::store::{Ask, Leg, Subject};
use crate::testing::{a_lease, an_attempt, box_terms, meter};

fn address() -> Address {
    Address::Ip("192.0.2.1".parse().unwrap())
}

fn of(subject: Subject, wanted: Option<Wanted>) -> Ask {
    Ask {
        subject,
        cost: 1,
        shadow: false,
        grace: Millis(1000),
        penalty: box_terms(),
        wanted,
    }
}

fn tenants(ip: bool) -> Subject {
    Subject::Key {
        tenant: Id::of(b"acme"),
        key: Id::of(b"k"),
        tenant_meter: meter(20, 60, 20),
        key_meter: meter(10, 60, 10),
        ip: ip.then(|| (address(), meter(600, 60, 600))),
    }
}

fn credential(ip: bool) -> Subject {
    Subject::Credential {
        address: address(),
        ip_meter: ip.then(|| meter(600, 60, 600)),
    }
}

/// What a request wants that is an attempt for two subjects.
fn trying(list: Vec<Attempt>, stuffing: bool) -> Wanted {
    let terms = Stuffing {
        failures: 500,
        subjects: 50,
        within: Millis(600_000),
    };
    let attempts = Attempts {
        address: address(),
        subjects: vec![Id::of(b"alice"), Id::of(b"bob")],
        list,
        stuffing: stuffing.then_some((terms, Millis(86_400_000))),
    };
    Wanted {
        attempts: Some(Rc::new(attempts)),
        ..Wanted::nothing(HoldId(1))
    }
}

fn leased(wanted: Wanted) -> Wanted {
    Wanted {
        lease: a_lease(1).lease,
        ..wanted
    }
}

/// By address, then by each of two subjects, the second by the pair.
fn three() -> Vec<Attempt> {
    vec![
        an_attempt("ip", Who::Ip),
        an_attempt("subject", Who::Subject(0)),
        an_attempt("pair", Who::Pair(1)),
    ]
}

fn outcome(failed: u32, succeeded: bool) -> Outcome {
    Outcome {
        started: Millis(7),
        failed,
        succeeded,
    }
}

fn telling(outcome: Outcome) -> Keep {
    Keep {
        outcome: Some(outcome),
        ..Keep::ON
    }
}

/// The legs on which something is told.
fn told(ask: &Ask, keep: Keep) -> Vec<Leg> {
    let is_told = |leg: &Leg| ask.told_on(*leg, keep).is_some();
    ask.legs().filter(is_told).collect()
}

const ALICE: Leg = Leg::Subject(0);
const BOB: Leg = Leg::Subject(1);

#[test]
fn each_step_is_under_the_tag_of_its_leg() {
    let tag = |ask: &Ask, step| {
        let ask = Rc::new(ask.clone());
        Item { ask, step }.tag()
    };
    let alice = format!("s:{}", Id::of(b"alice").as_str());
    let bob = format!("s:{}", Id::of(b"bob").as_str());
    let of_legs = |ask: &Ask, leg: Leg| {
        let steps = [
            Step::Part(leg),
            Step::Keep(leg, Keep::NOTHING),
            Step::Revoke(leg),
        ];
        let [one, two, three] = steps.map(|step| tag(ask, step));
        assert!(one == two && two == three);
        one
    };
    for ip in [true, false] {
        let ask = of(tenants(ip), Some(trying(three(), false)));
        let tags: Vec<String> = ask.legs().map(|leg| of_legs(&ask, leg)).collect();
        assert_eq!(tags, ["ip:192.0.2.1", &alice, &bob, "t:acme"]);
        assert_eq!(tag(&ask, Step::GiveBack), "ip:192.0.2.1");
        assert_eq!(tag(&ask, Step::Undo), "t:acme");

        let ask = of(credential(ip), Some(trying(three(), false)));
        let tags: Vec<String> = ask.legs().map(|leg| of_legs(&ask, leg)).collect();
        assert_eq!(tags, ["ip:192.0.2.1", &alice, &bob]);
        assert_eq!(tag(&ask, Step::Undo), "ip:192.0.2.1");
    }
    // Legs that a question does not have are its owner's.
    let ask = of(tenants(false), None);
    for leg in [Leg::Address, ALICE, BOB, Leg::Owner] {
        assert_eq!(of_legs(&ask, leg), "t:acme");
    }
}

#[test]
fn points_are_paid_by_who_has_a_bucket() {
    let pays = |subject: Subject| {
        let ask = of(subject, Some(trying(three(), true)));
        let legs: Vec<Leg> = ask.legs().filter(|leg| ask.pays_on(*leg)).collect();
        legs
    };
    assert_eq!(pays(tenants(true)), [Leg::Address, Leg::Owner]);
    assert_eq!(pays(tenants(false)), [Leg::Owner]);
    assert_eq!(pays(credential(true)), [Leg::Owner]);
    assert_eq!(pays(credential(false)), []);
}

#[test]
fn what_is_held_is_on_the_leg_of_whom_it_counts_against() {
    let held = |ask: &Ask| -> Vec<Leg> { ask.legs().filter(|leg| ask.holds_on(*leg)).collect() };
    let mut ask = of(tenants(true), Some(leased(trying(three(), true))));
    assert_eq!(held(&ask), [Leg::Address, ALICE, BOB, Leg::Owner]);
    ask.subject = credential(false);
    assert_eq!(held(&ask), [Leg::Owner, ALICE, BOB]);
    // Attempts that take no slot are not held, but counted.
    let list = three().into_iter().map(|one| Attempt {
        provisional: false,
        ..one
    });
    ask.wanted = Some(trying(list.collect(), true));
    assert_eq!(held(&ask), []);
    assert!(ask.legs().all(|leg| ask.heeds_on(leg)));
    let mut plain = of(tenants(true), Some(a_lease(1)));
    assert_eq!(held(&plain), [Leg::Owner]);
    plain.wanted = None;
    assert!(!plain.legs().any(|leg| plain.heeds_on(leg)));
    // An address may be locked out for what others of it failed in.
    plain.subject = credential(true);
    assert!(plain.heeds_on(Leg::Owner));
}

#[test]
fn an_outcome_is_told_where_it_changes_something() {
    let ask = of(tenants(true), Some(leased(trying(three(), true))));
    let all = [Leg::Address, ALICE, BOB, Leg::Owner];
    assert_eq!(told(&ask, telling(outcome(0b001, false))), all);
    assert_eq!(told(&ask, telling(outcome(0, true))), all);
    // While the stream lives only the lease is held on; in the end all is let go.
    assert_eq!(told(&ask, Keep::ON), [Leg::Owner]);
    assert_eq!(told(&ask, Keep::NOTHING), all);

    let at_response = |list: Vec<Attempt>, stuffing: bool, outcome: Outcome| {
        let list = list.into_iter().map(|one| Attempt {
            provisional: false,
            ..one
        });
        let ask = of(tenants(true), Some(trying(list.collect(), stuffing)));
        assert_eq!(told(&ask, Keep::NOTHING), []);
        told(&ask, telling(outcome))
    };
    assert_eq!(at_response(three(), false, outcome(0, false)), []);
    assert_eq!(at_response(three(), false, outcome(0b100, false)), [BOB]);
    let stuffing = at_response(three(), true, outcome(0b100, false));
    assert_eq!(stuffing, [Leg::Address, BOB]);
    // A success clears failures, or makes the address a known one.
    assert_eq!(at_response(three(), true, outcome(0, true)), [ALICE, BOB]);
    let unsparing = three().into_iter().map(|one| Attempt {
        resets: false,
        spares: false,
        ..one
    });
    assert_eq!(at_response(unsparing.collect(), true, outcome(0, true)), []);
}

#[test]
fn a_lease_is_told_of_to_its_owner_alone() {
    let ask = of(credential(true), Some(leased(trying(three(), false))));
    let keep = telling(outcome(0b010, false));
    assert_eq!(ask.told_on(Leg::Owner, keep), Some(keep));
    let alone = Keep {
        outcome: keep.outcome,
        ..Keep::NOTHING
    };
    assert_eq!(ask.told_on(ALICE, keep), Some(alone));
    let without = of(credential(true), Some(trying(three(), false)));
    assert_eq!(without.told_on(Leg::Owner, keep), Some(alone));
    assert_eq!(without.told_on(Leg::Owner, Keep::ON), None);
}

fn attempt() -> impl Strategy<Value = Attempt> {
    let who = prop_oneof![
        Just(Who::Ip),
        (0_u8..2).prop_map(Who::Subject),
        (0_u8..2).prop_map(Who::Pair)
    ];
    (who, any::<[bool; 3]>()).prop_map(|(who, [provisional, spares, resets])| Attempt {
        provisional,
        spares,
        resets,
        ..an_attempt("any", who)
    })
}

proptest! {
    #[test]
    fn nothing_is_held_or_fails_that_is_not_told(
        list in prop::collection::vec(attempt(), 1..5),
        is_tenant in any::<bool>(),
        has_lease in any::<bool>(),
        stuffing in any::<bool>(),
        failed in any::<u32>(),
        succeeded in any::<bool>(),
    ) {
        let wanted = trying(list.clone(), stuffing);
        let wanted = if has_lease { leased(wanted) } else { wanted };
        let subject = if is_tenant { tenants(true) } else { credential(true) };
        let ask = of(subject, Some(wanted));
        let keep = telling(outcome(failed, succeeded));
        for (place, one) in list.iter().enumerate() {
            let leg = ask.leg_of(one.who);
            prop_assert!(ask.legs().any(|known| known == leg));
            let told = ask.told_on(leg, keep).and_then(|keep| keep.outcome);
            if one.provisional || keep.outcome.is_some_and(|o| o.is_failed(place)) {
                prop_assert_eq!(told, keep.outcome);
            }
        }
        for leg in ask.legs() {
            prop_assert_eq!(ask.told_on(leg, Keep::NOTHING).is_some(), ask.holds_on(leg));
            prop_assert!(!ask.holds_on(leg) || ask.heeds_on(leg));
            prop_assert_eq!(ask.told_on(leg, Keep::ON).is_some(), has_lease && leg == Leg::Owner);
        }
    }
}
