//! Tests of attempts at credentials: windows, lockouts, outcomes, over all pages that they are on.

use tollgate_config::ThrottleId;

use super::*;
use crate::attempt::{Attempt, Attempts, MOST_KNOWN, Outcome, Sign, Who};
use crate::hold::{HoldId, Keep, Wanted};
use crate::limit::penalty::Lockout;
use crate::verdict::AuthLockout;

mod legs;
mod model;
mod signs;

pub(super) const MINUTE: u64 = 60_000;
pub(super) const HOUR: u64 = 60 * MINUTE;

/// Three failures in 15 minutes, a lockout of 5 minutes; provisional, reset by a success.
fn throttle(name: &str, who: Who) -> Attempt {
    Attempt {
        throttle: ThrottleId(0),
        name: name.into(),
        who,
        failures: 3,
        within: Millis(15 * MINUTE),
        levels: [5 * MINUTE, HOUR, 24 * HOUR].map(Millis),
        max_level: if who == Who::Ip { 3 } else { 2 },
        offense_memory: Millis(24 * HOUR),
        provisional: true,
        spares: false,
        resets: true,
    }
}

fn by_subject() -> Attempt {
    Attempt {
        spares: true,
        ..throttle("subject", Who::Subject(0))
    }
}

/// Without places in flight, and no success resets it.
fn by_ip() -> Attempt {
    Attempt {
        provisional: false,
        resets: false,
        ..throttle("ip", Who::Ip)
    }
}

/// A request with these attempts, from an address, for some subjects.
fn attempting(ask: Ask, id: u64, from: u8, subjects: &[&str], list: Vec<Attempt>) -> Ask {
    let attempts = Attempts {
        address: address(from),
        subjects: subjects.iter().map(|s| Id::hashed(s.as_bytes())).collect(),
        list,
        stuffing: None,
    };
    Ask {
        wanted: Some(Wanted {
            attempts: Some(Rc::new(attempts)),
            ..Wanted::nothing(HoldId(id))
        }),
        ..ask
    }
}

/// A request that presents credentials, with no `ip_limit`.
fn credential(from: u8) -> Ask {
    Ask {
        subject: Subject::Credential {
            address: address(from),
            ip_meter: None,
        },
        ..key("", "")
    }
}

/// Presents credentials of a subject.
fn login(id: u64, from: u8, subject: &str, list: Vec<Attempt>) -> Ask {
    attempting(credential(from), id, from, &[subject], list)
}

fn after(ms: u64) -> Millis {
    NOW.plus(Millis(ms))
}

fn decide<M: Memory>(store: &mut Local<M>, ask: &Ask, at: u64) -> Verdict {
    let (verdict, toll) = store.decide(ask, after(at));
    assert_eq!(toll, Toll::default());
    verdict
}

fn locked(verdict: Verdict) -> AuthLockout {
    match verdict {
        Verdict::AuthLockout(locked) => locked,
        other => panic!("not locked out: {other:?}"),
    }
}

/// Which throttle locked out, on which level, for how much longer, and whether just now.
fn lockout(verdict: Verdict, at: u64) -> (usize, u8, u64, bool) {
    let locked = locked(verdict);
    let Lockout { level, until } = locked.lockout;
    (
        locked.attempt,
        level,
        until.since(after(at)).0,
        locked.tripped,
    )
}

/// The outcome of a request that was let through at a time.
fn outcome(started: u64, failed: u32, succeeded: bool) -> Keep {
    Keep {
        outcome: Some(Outcome {
            started: after(started),
            failed,
            succeeded,
        }),
        ..Keep::NOTHING
    }
}

fn tell<M: Memory>(store: &Local<M>, ask: &Ask, keep: Keep, at: u64) -> Vec<Sign> {
    let kept = store.keep(ask, keep, after(at)).unwrap();
    assert!(kept.all);
    kept.signs
}

/// Is let through and fails by all throttles at once.
fn fail<M: Memory>(store: &mut Local<M>, ask: &Ask, at: u64) -> Vec<Sign> {
    allowed(decide(store, ask, at));
    tell(store, ask, outcome(at, u32::MAX, false), at)
}

fn succeed<M: Memory>(store: &mut Local<M>, ask: &Ask, at: u64) -> Vec<Sign> {
    allowed(decide(store, ask, at));
    tell(store, ask, outcome(at, 0, true), at)
}

/// Fails until that locks out: the lockout.
fn until_locked(store: &mut Local<Heap>, ask: impl Fn(u64) -> Ask, at: u64) -> Lockout {
    for id in 0..100 {
        if let [Sign::Locked(_, lockout), ..] = fail(store, &ask(1000 + id), at)[..] {
            return lockout;
        }
    }
    panic!("never locked out");
}

fn bytes(heap: &Heap) -> BTreeMap<String, Vec<u8>> {
    let names = heap.names().into_iter();
    names
        .map(|n| (n.clone(), heap.read(&n).unwrap().bytes))
        .collect()
}

#[test]
fn as_many_failures_as_may_be_lock_out_for_the_time_of_the_first_level() {
    for (throttle, scope) in [
        (by_subject(), "subject"),
        (by_ip(), "ip"),
        (throttle("pair", Who::Pair(0)), "pair"),
    ] {
        let mut store = open(Heap::default());
        let ask = |id| login(id, 1, "alice", vec![throttle.clone()]);
        assert_eq!(fail(&mut store, &ask(1), 0), [], "{scope}");
        assert_eq!(fail(&mut store, &ask(2), 10), []);
        let until = after(20 + 5 * MINUTE);
        let expected = Sign::Locked(0, Lockout { level: 1, until });
        assert_eq!(fail(&mut store, &ask(3), 20), [expected]);
        let end = 20 + 5 * MINUTE;
        for at in [20, end - 1] {
            let verdict = decide(&mut store, &ask(4), at);
            assert_eq!(lockout(verdict, at), (0, 1, end - at, false));
        }
        // The failures are cleared that were counted.
        for id in 5..7 {
            assert_eq!(fail(&mut store, &ask(id), end), [], "{scope} {id}");
        }
        allowed(decide(&mut store, &ask(7), end));
    }
}

#[test]
fn the_window_slides() {
    let mut store = open(Heap::default());
    let ask = |id| login(id, 1, "alice", vec![by_subject()]);
    let within = 15 * MINUTE;
    for (id, at) in [(1, 0), (2, 1000), (3, within), (4, within + 1000)] {
        assert_eq!(fail(&mut store, &ask(id), at), []);
    }
    assert_eq!(fail(&mut store, &ask(5), 2 * within - 1).len(), 1);
}

#[test]
fn attempts_in_flight_take_the_places_of_failures() {
    let mut store = open(Heap::default());
    let ask = |id| login(id, 1, "alice", vec![by_subject()]);
    fail(&mut store, &ask(1), 0);
    allowed(decide(&mut store, &ask(2), 0));
    allowed(decide(&mut store, &ask(3), 0));
    assert_eq!(decide(&mut store, &ask(4), 0), Verdict::AuthBusy);
    // Given back, there is a place again: a 5xx, a timeout.
    assert_eq!(tell(&store, &ask(2), outcome(0, 0, false), 10), []);
    allowed(decide(&mut store, &ask(4), 10));
    assert_eq!(decide(&mut store, &ask(5), 10), Verdict::AuthBusy);
    // It fails: no place becomes free.
    assert_eq!(tell(&store, &ask(3), outcome(0, 1, false), 20), []);
    assert_eq!(decide(&mut store, &ask(5), 20), Verdict::AuthBusy);
    assert_eq!(tell(&store, &ask(4), outcome(10, 1, false), 30).len(), 1);
    locked(decide(&mut store, &ask(5), 30));
}

#[test]
fn what_takes_no_place_in_flight_may_overshoot() {
    let mut store = open(Heap::default());
    let ask = |id| login(id, 1, "alice", vec![by_ip()]);
    for id in 0..20 {
        allowed(decide(&mut store, &ask(id), 0));
    }
    for id in 0..20 {
        let signs = tell(&store, &ask(id), outcome(0, 1, false), 10);
        // What was let through before the lockout is not counted again.
        assert_eq!(signs.len(), usize::from(id == 2), "{id}");
    }
    let end = 10 + 5 * MINUTE;
    assert_eq!(fail(&mut store, &ask(20), end), []);
}

#[test]
fn a_failure_counts_as_of_its_start() {
    let store = open(Heap::default());
    let ask = |id| login(id, 1, "alice", vec![by_ip()]);
    for id in [1, 2] {
        assert_eq!(tell(&store, &ask(id), outcome(1000, 1, false), 10_000), []);
    }
    // Two of 15 minutes ago and a millisecond are gone.
    let at = 15 * MINUTE + 1000;
    assert_eq!(tell(&store, &ask(3), outcome(at, 1, false), at), []);
    // And one of longer ago is none.
    assert_eq!(tell(&store, &ask(4), outcome(1000, 1, false), at), []);
    assert_eq!(tell(&store, &ask(5), outcome(1001, 1, false), at), []);
    assert_eq!(tell(&store, &ask(6), outcome(1001, 1, false), at).len(), 1);
}

#[test]
fn word_of_a_failure_too_long_ago_finds_out_that_enough_failed_meanwhile() {
    let of = |id| {
        let one = Attempt {
            failures: 1,
            within: Millis(30_000),
            provisional: true,
            ..by_ip()
        };
        login(id, 1, "alice", vec![one])
    };
    let mut store = open(Heap::default());
    decide(&mut store, &of(1), 0);
    // That one ran out and is past; this one runs out now.
    decide(&mut store, &of(2), 3 * MINUTE);
    let signs = tell(&store, &of(1), outcome(0, 1, false), 4 * MINUTE);
    assert!(matches!(signs[..], [Sign::Locked(0, _)]), "{signs:?}");
    locked(decide(&mut store, &of(3), 4 * MINUTE));
}

#[test]
fn an_outcome_that_never_comes_is_a_failure_after_a_minute_and_can_lock_out() {
    let mut store = open(Heap::default());
    let ask = |id| login(id, 1, "alice", vec![by_subject()]);
    for id in 1..4 {
        allowed(decide(&mut store, &ask(id), id));
    }
    assert_eq!(decide(&mut store, &ask(4), 3), Verdict::AuthBusy);
    assert_eq!(decide(&mut store, &ask(4), MINUTE + 2), Verdict::AuthBusy);
    // Whoever finds that, trips it.
    let at = MINUTE + 3;
    let verdict = decide(&mut store, &ask(4), at);
    assert_eq!(lockout(verdict, at), (0, 1, 5 * MINUTE, true));
    let verdict = decide(&mut store, &ask(4), at + 1);
    assert_eq!(lockout(verdict, at + 1), (0, 1, 5 * MINUTE - 1, false));
    // What comes after all was counted: it is not again, nor does a success open anything.
    assert_eq!(tell(&store, &ask(1), outcome(1, 1, false), at + 2), []);
    assert_eq!(tell(&store, &ask(2), outcome(2, 0, true), at + 2), []);
    // (From where it came is known now, and spared.)
    let from_elsewhere = |id| login(id, 2, "alice", vec![by_subject()]);
    locked(decide(&mut store, &from_elsewhere(4), at + 3));
    let end = at + 5 * MINUTE;
    assert_eq!(fail(&mut store, &from_elsewhere(5), end), []);
    assert_eq!(fail(&mut store, &from_elsewhere(6), end), []);
}

#[test]
fn an_observed_success_is_never_a_failure_however_late() {
    let throttle = Attempt {
        resets: false,
        ..throttle("subject", Who::Subject(0))
    };
    for succeeded in [true, false] {
        let mut store = open(Heap::default());
        let ask = |id| login(id, 1, "alice", vec![throttle.clone()]);
        for id in 1..3 {
            allowed(decide(&mut store, &ask(id), 0));
        }
        // They ran out, and count as failures by now.
        let at = 2 * MINUTE;
        allowed(decide(&mut store, &ask(3), at));
        assert_eq!(decide(&mut store, &ask(4), at), Verdict::AuthBusy);
        assert_eq!(tell(&store, &ask(1), outcome(0, 0, succeeded), at), []);
        // There is a place again; and for the one that failed there is none, and it failed when it began.
        allowed(decide(&mut store, &ask(4), at));
        assert_eq!(decide(&mut store, &ask(5), at), Verdict::AuthBusy);
        assert_eq!(tell(&store, &ask(2), outcome(0, 1, false), at), []);
        assert_eq!(decide(&mut store, &ask(5), at), Verdict::AuthBusy);
        if !succeeded {
            allowed(decide(&mut store, &ask(5), 15 * MINUTE));
        }
    }
}

#[test]
fn a_success_clears_what_failed_where_it_resets() {
    for (resets, expected) in [(true, 0), (false, 1)] {
        let throttle = Attempt {
            resets,
            ..by_subject()
        };
        let mut store = open(Heap::default());
        let ask = |id| login(id, 1, "alice", vec![throttle.clone()]);
        fail(&mut store, &ask(1), 0);
        // One in flight stays as it is.
        allowed(decide(&mut store, &ask(2), 0));
        succeed(
            &mut store,
            &login(3, 1, "alice", vec![throttle.clone()]),
            10,
        );
        let other = login(8, 2, "alice", vec![throttle.clone()]);
        let free = |store: &mut Local<Heap>| {
            let ids = 10..20;
            let asks = ids.map(|id| Ask {
                wanted: other.wanted.clone().map(|w| Wanted {
                    id: HoldId(id),
                    ..w
                }),
                ..other.clone()
            });
            let let_through: Vec<Ask> = asks
                .take_while(|ask| matches!(store.decide(ask, after(20)).0, Verdict::Allowed(..)))
                .collect();
            for ask in &let_through {
                tell(store, ask, outcome(20, 0, false), 20);
            }
            let_through.len()
        };
        assert_eq!(free(&mut store), 2 - expected);
        tell(&store, &ask(2), outcome(0, 0, false), 30);
        assert_eq!(free(&mut store), 3 - expected);
    }
}

#[test]
fn what_ran_out_and_was_cleared_is_not_counted_when_it_is_told_after_all() {
    let mut store = open(Heap::default());
    let ask = |id| login(id, 1, "alice", vec![throttle("s", Who::Subject(0))]);
    for id in 1..3 {
        allowed(decide(&mut store, &ask(id), 0));
    }
    // They were two failures, and a success has cleared them.
    succeed(&mut store, &ask(3), MINUTE);
    for id in 1..3 {
        assert_eq!(
            tell(&store, &ask(id), outcome(0, 1, false), MINUTE + 10),
            []
        );
    }
    for id in 4..6 {
        assert_eq!(fail(&mut store, &ask(id), MINUTE + 20), []);
    }
    assert_eq!(fail(&mut store, &ask(6), MINUTE + 20).len(), 1);
}

#[test]
fn by_one_throttle_it_failed_and_by_another_it_did_not() {
    let mut store = open(Heap::default());
    let throttles = || vec![by_subject(), throttle("pair", Who::Pair(0))];
    let ask = |id| login(id, 1, "alice", throttles());
    for id in 1..3 {
        allowed(decide(&mut store, &ask(id), 0));
        assert_eq!(tell(&store, &ask(id), outcome(0, 0b10, false), 0), []);
    }
    // It succeeds by the subject's, whose address becomes known, and fails by the pair's.
    allowed(decide(&mut store, &ask(3), 0));
    let signs = tell(&store, &ask(3), outcome(0, 0b10, true), 0);
    let until = after(5 * MINUTE);
    assert_eq!(signs, [Sign::Locked(1, Lockout { level: 1, until })]);
}

#[test]
fn lockouts_escalate_to_the_level_that_they_may() {
    for (throttle, levels) in [(by_subject(), [1, 2, 2, 2]), (by_ip(), [1, 2, 3, 3])] {
        let mut store = open(Heap::default());
        let throttle = Attempt {
            offense_memory: Millis(24 * HOUR + 1),
            ..throttle
        };
        let mut at = 0;
        for level in levels {
            let ask = |id| login(id + at, 1, "alice", vec![throttle.clone()]);
            let lockout = until_locked(&mut store, ask, at);
            let time = [5 * MINUTE, HOUR, 24 * HOUR][usize::from(level) - 1];
            let until = after(at + time);
            assert_eq!(lockout, Lockout { level, until });
            at += 24 * HOUR;
        }
    }
}

#[test]
fn offenses_are_remembered_for_their_time_and_no_success_forgets_them() {
    let mut store = open(Heap::default());
    let ask = |id| login(id, 1, "alice", vec![by_subject()]);
    assert_eq!(until_locked(&mut store, ask, 0).level, 1);
    succeed(
        &mut store,
        &login(1, 2, "alice", vec![by_subject()]),
        6 * MINUTE,
    );
    let again = |id| login(id + 500, 1, "alice", vec![by_subject()]);
    assert_eq!(until_locked(&mut store, again, 24 * HOUR - 1).level, 2);
    let again = |id| login(id + 600, 1, "alice", vec![by_subject()]);
    assert_eq!(until_locked(&mut store, again, 48 * HOUR - 1).level, 1);
}

#[test]
fn subjects_addresses_throttles_and_shadows_are_apart() {
    let mut store = open(Heap::default());
    let ask = |id| login(id, 1, "alice", vec![by_subject()]);
    until_locked(&mut store, ask, 0);
    locked(decide(
        &mut store,
        &login(1, 9, "alice", vec![by_subject()]),
        0,
    ));
    let other = |throttle: Attempt, from, subject| login(2, from, subject, vec![throttle]);
    allowed(decide(&mut store, &other(by_subject(), 1, "bob"), 0));
    allowed(decide(&mut store, &shadow(ask(3)), 0));
    // Of the same address, or the same pair, there is a lockout of its own.
    allowed(decide(&mut store, &other(by_ip(), 1, "alice"), 0));
    allowed(decide(
        &mut store,
        &other(throttle("pair", Who::Pair(0)), 1, "alice"),
        0,
    ));
    // The lockout of a subject is one for all throttles by subject; what they count is apart.
    let second = |id| login(id, 1, "bob", vec![throttle("second", Who::Subject(0))]);
    fail(&mut store, &login(4, 1, "bob", vec![by_subject()]), 0);
    fail(&mut store, &login(5, 1, "bob", vec![by_subject()]), 0);
    fail(&mut store, &second(6), 0);
    assert_eq!(fail(&mut store, &second(7), 0), []);
    assert_eq!(fail(&mut store, &second(8), 0).len(), 1);
    locked(decide(
        &mut store,
        &login(9, 1, "bob", vec![by_subject()]),
        0,
    ));
}

#[test]
fn of_several_lockouts_the_one_that_ends_last_is_told() {
    let mut store = open(Heap::default());
    let both = || vec![by_ip(), by_subject()];
    until_locked(&mut store, |id| login(id, 1, "alice", vec![by_ip()]), 0);
    until_locked(
        &mut store,
        |id| login(id, 2, "alice", vec![by_subject()]),
        1000,
    );
    let verdict = decide(&mut store, &login(1, 1, "alice", both()), 2000);
    assert_eq!(lockout(verdict, 2000), (1, 1, 5 * MINUTE - 1000, false));
    let verdict = decide(&mut store, &login(1, 1, "bob", both()), 2000);
    assert_eq!(lockout(verdict, 2000), (0, 1, 5 * MINUTE - 2000, false));
    // The first, where they end together.
    until_locked(&mut store, |id| login(id, 3, "carol", vec![by_ip()]), 0);
    until_locked(
        &mut store,
        |id| login(id, 4, "carol", vec![by_subject()]),
        0,
    );
    let carol = login(1, 3, "carol", both());
    assert_eq!(locked(decide(&mut store, &carol, 1)).attempt, 0);
}

#[test]
fn lockouts_come_before_windows_and_windows_in_their_order() {
    let mut store = open(Heap::default());
    let pair = || throttle("pair", Who::Pair(0));
    let subject = || Attempt {
        spares: false,
        ..by_subject()
    };
    // The subject's window is taken by attempts in flight, from elsewhere; the pair's too.
    for id in 0..3 {
        allowed(decide(
            &mut store,
            &login(id, 2, "alice", vec![subject()]),
            0,
        ));
        allowed(decide(
            &mut store,
            &login(id + 10, 1, "alice", vec![pair()]),
            1,
        ));
    }
    let of = |list| login(50, 1, "alice", list);
    assert_eq!(
        decide(&mut store, &of(vec![subject(), pair()]), 2),
        Verdict::AuthBusy
    );
    // The pair's ran out, and is the first that is not free.
    let at = MINUTE;
    let verdict = decide(&mut store, &of(vec![subject()]), at);
    assert!(locked(verdict).tripped);
    let at = MINUTE + 1;
    // The subject's lockout comes before the pair's window, which is full by now.
    let verdict = decide(&mut store, &of(vec![pair(), subject()]), at);
    assert_eq!(lockout(verdict, at), (1, 1, 5 * MINUTE - 1, false));
    assert!(locked(decide(&mut store, &of(vec![pair()]), at)).tripped);
}

#[test]
fn known_addresses_are_spared_what_strangers_do() {
    let mut store = open(Heap::default());
    let from = |id, from| login(id, from, "alice", vec![by_subject()]);
    succeed(&mut store, &from(1, 1), 0);
    until_locked(&mut store, |id| from(id, 2), 10);
    locked(decide(&mut store, &from(2, 3), 20));
    // The owner has a window of his own, and a lockout.
    assert_eq!(fail(&mut store, &from(3, 1), 20), []);
    assert_eq!(fail(&mut store, &from(4, 1), 20), []);
    let until = after(20 + 5 * MINUTE);
    let own = Sign::Locked(0, Lockout { level: 1, until });
    assert_eq!(fail(&mut store, &from(5, 1), 20), [own]);
    let verdict = decide(&mut store, &from(6, 1), 30);
    assert_eq!(lockout(verdict, 30), (0, 1, 5 * MINUTE - 10, false));
    // Neither touches the other: the strangers' ends earlier.
    let at = 10 + 5 * MINUTE;
    allowed(decide(&mut store, &from(7, 2), at));
    locked(decide(&mut store, &from(8, 1), at));
}

#[test]
fn whoever_is_not_spared_shares_window_and_lockout_though_his_address_is_known() {
    let mut store = open(Heap::default());
    let from = |id, from, spares| {
        let throttle = Attempt {
            spares,
            ..by_subject()
        };
        login(id, from, "alice", vec![throttle])
    };
    succeed(&mut store, &from(1, 1, true), 0);
    until_locked(&mut store, |id| from(id, 2, true), 0);
    allowed(decide(&mut store, &from(2, 1, true), 0));
    locked(decide(&mut store, &from(3, 1, false), 0));
}

#[test]
fn a_success_from_a_new_address_clears_the_shared_window_and_its_own_after_that() {
    let mut store = open(Heap::default());
    let from = |id, from| login(id, from, "alice", vec![by_subject()]);
    fail(&mut store, &from(1, 9), 0);
    fail(&mut store, &from(2, 9), 0);
    succeed(&mut store, &from(3, 1), 0);
    // Nothing is left of the strangers' failures.
    fail(&mut store, &from(4, 9), 0);
    fail(&mut store, &from(5, 9), 0);
    // By now the address is known: what it does touches only its own.
    fail(&mut store, &from(6, 1), 0);
    fail(&mut store, &from(7, 1), 0);
    succeed(&mut store, &from(8, 1), 0);
    fail(&mut store, &from(9, 1), 0);
    fail(&mut store, &from(10, 1), 0);
    assert_eq!(fail(&mut store, &from(11, 9), 0).len(), 1);
}

#[test]
fn an_attempt_is_ended_where_it_was_begun_though_its_address_became_known() {
    let mut store = open(Heap::default());
    let from = |id, from| login(id, from, "alice", vec![by_subject()]);
    // Two in flight at once from a new address: in the shared window.
    allowed(decide(&mut store, &from(1, 1), 0));
    allowed(decide(&mut store, &from(2, 1), 0));
    assert_eq!(tell(&store, &from(1, 1), outcome(0, 0, true), 0), []);
    assert_eq!(tell(&store, &from(2, 1), outcome(0, 1, false), 10), []);
    // The failure is in the shared one.
    fail(&mut store, &from(3, 9), 10);
    assert_eq!(fail(&mut store, &from(4, 9), 10).len(), 1);
}

#[test]
fn a_failure_without_a_place_counts_where_it_would_have_had_one() {
    let throttle = Attempt {
        provisional: false,
        ..by_subject()
    };
    let mut store = open(Heap::default());
    let from = |id, from| login(id, from, "alice", vec![throttle.clone()]);
    // It was unknown when it began; and is known when it fails.
    allowed(decide(&mut store, &from(1, 1), 0));
    succeed(&mut store, &from(2, 1), 0);
    assert_eq!(tell(&store, &from(1, 1), outcome(0, 1, false), 10), []);
    fail(&mut store, &from(3, 1), 10);
    assert_eq!(fail(&mut store, &from(4, 1), 10).len(), 1);
    allowed(decide(&mut store, &from(5, 9), 10));
}

#[test]
fn sixteen_addresses_are_known_and_for_thirty_days() {
    let mut store = open(Heap::default());
    let from = |id, from| login(id, from, "alice", vec![by_subject()]);
    for n in 0..=MOST_KNOWN as u8 {
        succeed(&mut store, &from(u64::from(n), n), u64::from(n));
    }
    let at = 30 * 24 * HOUR;
    until_locked(&mut store, |id| from(id, 99), at - HOUR);
    // The first one made room for the last, and the second one's 30 days are over.
    let spared: Vec<bool> = (0..=MOST_KNOWN as u8)
        .map(|n| {
            matches!(
                store
                    .decide(&from(50 + u64::from(n), n), after(at + 1 - HOUR))
                    .0,
                Verdict::Allowed(..)
            )
        })
        .collect();
    assert_eq!(spared.iter().filter(|spared| !**spared).count(), 1);
    assert!(!spared[0]);
    until_locked(&mut store, |id| from(id + 100, 99), at);
    assert!(matches!(
        decide(&mut store, &from(80, 2), at + 1),
        Verdict::Allowed(..)
    ));
    locked(decide(&mut store, &from(81, 1), at + 1));
}
