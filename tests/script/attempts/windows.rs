//! Windows, what is pending in them, and lockouts.

use super::*;

#[test]
fn as_many_are_in_flight_as_may_fail() {
    for tries in [
        Tries::under([by_subject()]),
        Tries::under([by_address()]),
        Tries::under([by_pair()]),
    ] {
        let mut remote = remote();
        for id in 0..3 {
            remote.passes(&tries, id, T);
        }
        remote.is_busy(&tries, 3, T + 1);
        // One is given back: there is room for one.
        remote.tell(&tries, 0, End::GivenBack, T, T + 2);
        remote.passes(&tries, 4, T + 2);
        remote.is_busy(&tries, 5, T + 2);
        // One that failed keeps its place.
        assert_eq!(remote.tell(&tries, 1, End::Failed, T, T + 3), []);
        remote.is_busy(&tries, 6, T + 3);
        remote.tell(&tries, 2, End::GivenBack, T, T + 4);
        remote.passes(&tries, 7, T + 4);
        remote.is_busy(&tries, 8, T + 4);
        remote.all_expire();
    }
}

#[test]
fn many_at_once_share_one_call() {
    let mut remote = remote();
    let tries = Tries::under([by_subject(), by_address()]);
    let items: Vec<Item> = (0..64).map(|id| tries.item(id, Step::Whole)).collect();
    let decisions = remote.call(&items, T);
    let allowed = |d: &Decision| matches!(d, Decision::Verdict(Verdict::Allowed(..)));
    assert_eq!(decisions.iter().filter(|d| allowed(d)).count(), 3);
    let busy = Decision::Verdict(Verdict::AuthBusy);
    assert!(decisions[3..].iter().all(|d| *d == busy));
}

#[test]
fn whoever_is_let_through_and_never_heard_of_has_failed_a_minute_later() {
    let mut remote = remote();
    let tries = Tries::under([by_subject()]);
    for id in 0..3 {
        remote.passes(&tries, id, T + id);
    }
    remote.is_busy(&tries, 3, T + MINUTE + 1);
    let at = T + MINUTE + 2;
    let tripped = remote.tries(&tries, 4, at);
    let expected = AuthLockout {
        attempt: 0,
        lockout: lockout(1, at + 5 * MINUTE),
        tripped: true,
    };
    assert_eq!(tripped, Verdict::AuthLockout(expected));
    assert_eq!(remote.locked(&tries, 5, at + 1), (1, 5 * MINUTE - 1));
    // The trip cleared what it counted.
    remote.passes(&tries, 6, at + 5 * MINUTE);
    remote.passes(&tries, 7, at + 5 * MINUTE);
    remote.all_expire();
}

#[test]
fn the_failure_that_fills_the_window_locks_out() {
    let mut remote = remote();
    let tries = Tries::under([by_subject()]);
    assert_eq!(remote.fails(&tries, 1, T), []);
    assert_eq!(remote.fails(&tries, 2, T + 1), []);
    let until = T + 2 + 5 * MINUTE;
    let locked = Sign::Locked(0, lockout(1, until));
    assert_eq!(remote.fails(&tries, 3, T + 2), [locked]);
    assert_eq!(remote.locked(&tries, 4, T + 2), (1, 5 * MINUTE));
    assert_eq!(remote.locked(&tries, 4, until - 1), (1, 1));
    remote.passes(&tries, 5, until);
    // Another subject was not touched.
    let other = tries.for_subject("bob");
    remote.passes(&other, 6, T + 3);
    remote.all_expire();
}

#[test]
fn a_window_slides() {
    let attempt = Attempt {
        within: Millis(MINUTE),
        ..by_subject()
    };
    for provisional in [true, false] {
        let mut remote = remote();
        let tries = Tries::under([Attempt {
            provisional,
            ..attempt.clone()
        }]);
        remote.fails(&tries, 1, T);
        remote.fails(&tries, 2, T + 10);
        // The first is through.
        assert_eq!(remote.fails(&tries, 3, T + MINUTE), []);
        // The second is not.
        let signs = remote.fails(&tries, 4, T + MINUTE + 9);
        let until = T + MINUTE + 9 + 5 * MINUTE;
        assert_eq!(signs, [Sign::Locked(0, lockout(1, until))]);
    }
}

#[test]
fn a_failure_counts_as_of_its_start() {
    let mut remote = remote();
    let tries = Tries::under([by_subject()]);
    remote.passes(&tries, 1, T);
    remote.tell(&tries, 1, End::Failed, T, T + 50 * SECOND);
    let within = 15 * MINUTE;
    remote.fails(&tries, 2, T + within - 1);
    remote.passes(&tries, 3, T + within - 1);
    remote.is_busy(&tries, 4, T + within - 1);
    remote.passes(&tries, 5, T + within);
    // One whose start is out of the window by now never counts.
    let mut short = tries.clone();
    short.attempts.list[0].within = Millis(SECOND);
    let short = short.for_subject("bob");
    remote.passes(&short, 6, T);
    for _ in 0..2 {
        remote.tell(&short, 6, End::Failed, T, T + SECOND);
    }
    for id in 7..10 {
        remote.passes(&short, id, T + SECOND);
    }
}

#[test]
fn those_that_are_not_provisional_take_no_room_and_may_overshoot() {
    let mut remote = remote();
    let tries = Tries::under([Attempt {
        provisional: false,
        ..by_subject()
    }]);
    for id in 0..20 {
        remote.passes(&tries, id, T);
    }
    assert!(remote.keys().is_empty(), "{:?}", remote.keys());
    for id in 0..20 {
        let signs = remote.tell(&tries, id, End::Failed, T, T + id);
        // They were let through before the lockout.
        let until = T + 2 + 5 * MINUTE;
        let expected = (id == 2).then_some(Sign::Locked(0, lockout(1, until)));
        assert_eq!(signs, Vec::from_iter(expected), "{id}");
    }
    remote.locked(&tries, 20, T + 20);
    remote.passes(&tries, 21, T + 2 + 5 * MINUTE);
    remote.passes(&tries, 22, T + 2 + 5 * MINUTE);
}

#[test]
fn in_one_window_those_that_are_not_provisional_pass_by_those_that_are() {
    let mut remote = remote();
    let waits = Tries::under([by_subject()]);
    let passes = Tries::under([Attempt {
        provisional: false,
        ..by_subject()
    }]);
    for id in 0..3 {
        remote.passes(&waits, id, T);
    }
    remote.is_busy(&waits, 3, T);
    remote.passes(&passes, 4, T);
    // Failures of either kind count.
    remote.tell(&passes, 4, End::Failed, T, T);
    remote.tell(&waits, 0, End::Failed, T, T);
    let signs = remote.tell(&waits, 1, End::Failed, T, T);
    assert_eq!(signs, [Sign::Locked(0, lockout(1, T + 5 * MINUTE))]);
}

#[test]
fn lockouts_escalate_a_subjects_to_level_2_and_an_addresss_to_level_3() {
    for (tries, levels) in [
        (Tries::under([by_subject()]), [1, 2, 2, 2]),
        (Tries::under([by_pair()]), [1, 2, 2, 2]),
        (Tries::under([by_address()]), [1, 2, 3, 3]),
    ] {
        let mut remote = remote();
        let mut at = T;
        for (nth, level) in (1..).zip(levels) {
            let time = [5 * MINUTE, HOUR, DAY][usize::from(level) - 1];
            assert_eq!(remote.locks_out(&tries, nth, at), (level, time));
            assert_eq!(remote.locked(&tries, 9, at + time - 1), (level, 1));
            at += time;
        }
        remote.passes(&tries, 99, at);
        // Some time after the last offense they are forgotten.
        let last = at - [5 * MINUTE, HOUR, DAY][usize::from(levels[3]) - 1];
        remote.tell(&tries, 99, End::GivenBack, at, at);
        assert_eq!(remote.locks_out(&tries, 5, last + MEMORY).0, 1);
        remote.all_expire();
    }
}

#[test]
fn of_several_lockouts_the_one_that_ends_last_is_told() {
    let mut remote = remote();
    let long = Attempt {
        levels: [Millis(10 * MINUTE); 3],
        ..by_address()
    };
    let tries = Tries::under([by_subject(), long]);
    remote.fails(&tries, 1, T);
    remote.fails(&tries, 2, T);
    let signs = remote.fails(&tries, 3, T);
    // All that are full trip.
    let expected = [
        Sign::Locked(0, lockout(1, T + 5 * MINUTE)),
        Sign::Locked(1, lockout(1, T + 10 * MINUTE)),
    ];
    assert_eq!(signs.len(), 2, "{signs:?}");
    assert!(expected.iter().all(|sign| signs.contains(sign)));
    let verdict = remote.tries(&tries, 4, T + 1);
    let expected = AuthLockout {
        attempt: 1,
        lockout: lockout(1, T + 10 * MINUTE),
        tripped: false,
    };
    assert_eq!(verdict, Verdict::AuthLockout(expected));
}

#[test]
fn of_two_throttles_of_a_subject_each_has_a_window_and_both_one_box() {
    let mut remote = remote();
    let slow = Attempt {
        failures: 4,
        levels: [Millis(30 * MINUTE), Millis(HOUR), Millis(DAY)],
        ..throttle("slow", Who::Subject(0))
    };
    let tries = Tries::under([by_subject(), slow]);
    assert_eq!(remote.locks_out(&tries, 1, T), (1, 5 * MINUTE));
    // The other one's window was not cleared: it is full with the next failure.
    let at = T + 5 * MINUTE;
    let signs = remote.fails(&tries, 2, at);
    assert_eq!(signs, [Sign::Locked(1, lockout(2, at + HOUR))]);
    assert_eq!(remote.locked(&tries, 3, at), (2, HOUR));
}

#[test]
fn a_window_that_is_full_by_other_terms_trips_with_the_next_request() {
    let mut remote = remote();
    let tries = Tries::under([by_subject()]);
    remote.fails(&tries, 1, T);
    remote.fails(&tries, 2, T);
    let mut stricter = tries.clone();
    stricter.attempts.list[0].failures = 2;
    match remote.tries(&stricter, 3, T + 1) {
        Verdict::AuthLockout(locked) => assert!(locked.tripped, "{locked:?}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn after_a_clock_was_set_back_nothing_counts_that_cannot_be() {
    let mut remote = remote();
    let tries = Tries::under([Attempt {
        spares: true,
        ..by_subject()
    }]);
    for id in 0..2 {
        remote.passes(&tries, id, T);
    }
    remote.fails(&tries, 2, T);
    remote.is_busy(&tries, 3, T);
    // An hour back: none of these was let through, and none failed.
    let back = T - HOUR;
    for id in 4..7 {
        remote.passes(&tries, id, back);
    }
    remote.is_busy(&tries, 7, back);
    // What started later than now starts now.
    assert_eq!(remote.tell(&tries, 4, End::Failed, T, back + 1), []);
    assert_eq!(remote.tell(&tries, 4, End::Failed, T, back + 2), []);
    assert_eq!(remote.tell(&tries, 5, End::Failed, T, back + 2), []);
    let signs = remote.tell(&tries, 6, End::Failed, T, back + 3);
    assert_eq!(signs, [Sign::Locked(0, lockout(1, back + 3 + 5 * MINUTE))]);
    remote.all_expire();
}

#[test]
fn word_of_a_failure_too_long_ago_finds_out_that_enough_failed_meanwhile() {
    let mut redis = remote();
    let short = Attempt {
        within: Millis(30 * SECOND),
        ..by_subject()
    };
    let tries = Tries::under([short]);
    redis.passes(&tries, 1, T);
    // It ran out a minute after its start, and does not count any more half a minute later.
    for id in 2..5 {
        redis.passes(&tries, id, T + 90 * SECOND);
    }
    // Those ran out as well.
    let now = T + 150 * SECOND;
    let until = now + 5 * MINUTE;
    assert_eq!(
        redis.tell(&tries, 1, End::Failed, T, now),
        [Sign::Locked(0, lockout(1, until))]
    );
    assert_eq!(redis.locked(&tries, 5, now), (1, 5 * MINUTE));
    assert_eq!(redis.tell(&tries, 1, End::Failed, T, now), []);
}
