//! What an outcome does: told late, told twice, told after a lockout; and what is revoked.

use super::*;

#[test]
fn a_success_clears_failures_where_it_resets_and_leaves_those_in_flight() {
    for resets in [true, false] {
        let mut remote = remote();
        let tries = Tries::under([Attempt {
            failures: 4,
            resets,
            ..by_subject()
        }]);
        remote.fails(&tries, 1, T);
        remote.fails(&tries, 2, T + 1);
        remote.passes(&tries, 3, T + 2);
        remote.passes(&tries, 4, T + 2);
        remote.tell(&tries, 4, End::Succeeded, T + 2, T + 3);
        // One is in flight yet; two failed, unless they are forgotten.
        let room = if resets { 3 } else { 1 };
        for id in 10..10 + room {
            remote.passes(&tries, id, T + 4);
        }
        remote.is_busy(&tries, 20, T + 4);
        remote.all_expire();
    }
}

#[test]
fn a_success_forgets_no_offense() {
    let mut remote = remote();
    let tries = Tries::under([by_subject()]);
    remote.locks_out(&tries, 1, T);
    let at = T + 5 * MINUTE;
    remote.passes(&tries, 2, at);
    remote.tell(&tries, 2, End::Succeeded, at, at);
    assert_eq!(remote.locks_out(&tries, 3, at).0, 2);
}

#[test]
fn an_outcome_that_comes_late_counts_as_of_the_start_all_the_same() {
    let mut remote = remote();
    let tries = Tries::under([by_subject()]);
    for id in 0..3 {
        remote.passes(&tries, id, T);
    }
    // They have failed by now, for all that is known.
    let late = T + MINUTE + 10 * SECOND;
    remote.tell(&tries, 0, End::Succeeded, T, late);
    remote.passes(&tries, 3, late);
    remote.passes(&tries, 4, late);
    remote.passes(&tries, 5, late);
    remote.tell(&tries, 3, End::GivenBack, late, late);
    // Given back: it was no failure.
    let mut other = remote;
    let bob = tries.for_subject("bob");
    for id in 0..3 {
        other.passes(&bob, id, T);
    }
    other.tell(&bob, 0, End::GivenBack, T, late);
    other.passes(&bob, 3, late);
    other.is_busy(&bob, 4, late);
    // Failed: as of its start, not of a minute later.
    other.tell(&bob, 1, End::Failed, T, late);
    other.tell(&bob, 3, End::GivenBack, late, late);
    let within = 15 * MINUTE;
    other.passes(&bob, 5, T + within - 1);
    other.is_busy(&bob, 6, T + within - 1);
    other.passes(&bob, 7, T + within);
}

#[test]
fn an_outcome_that_is_told_twice_counts_once() {
    for provisional in [true, false] {
        let mut remote = remote();
        let tries = Tries::under([Attempt {
            provisional,
            ..by_subject()
        }]);
        remote.passes(&tries, 1, T);
        for again in 0..10 {
            assert_eq!(remote.tell(&tries, 1, End::Failed, T, T + again), []);
        }
        remote.fails(&tries, 2, T + 20);
        let locked = Sign::Locked(0, lockout(1, T + 30 + 5 * MINUTE));
        assert_eq!(remote.fails(&tries, 3, T + 30), [locked]);
        for id in [1, 2, 3] {
            assert_eq!(remote.tell(&tries, id, End::Failed, T, T + 40), []);
        }
        let at = T + 30 + 5 * MINUTE;
        remote.passes(&tries, 4, at);
        remote.passes(&tries, 5, at);
        remote.passes(&tries, 6, at);
        remote.all_expire();
    }
}

#[test]
fn after_a_short_lockout_an_outcome_that_is_told_twice_trips_nothing() {
    // A request that took its time, told again when the lockout is over.
    for took in [0, 50 * SECOND, 10 * MINUTE] {
        let mut remote = remote();
        let tries = Tries::under([Attempt {
            failures: 1,
            levels: [Millis(5 * SECOND), Millis(HOUR), Millis(DAY)],
            ..by_subject()
        }]);
        remote.passes(&tries, 1, T);
        let at = T + took;
        let locked = Sign::Locked(0, lockout(1, at + 5 * SECOND));
        assert_eq!(remote.tell(&tries, 1, End::Failed, T, at), [locked]);
        for later in [1, 5 * SECOND, 59 * SECOND] {
            assert_eq!(remote.tell(&tries, 1, End::Failed, T, at + later), []);
        }
        remote.passes(&tries, 2, at + MINUTE);
    }
}

#[test]
fn what_a_success_cleared_is_not_told_anew() {
    let mut remote = remote();
    let tries = Tries::under([by_subject()]);
    remote.fails(&tries, 1, T);
    remote.fails(&tries, 2, T + 1);
    remote.passes(&tries, 3, T + 2);
    remote.tell(&tries, 3, End::Succeeded, T + 2, T + 2);
    for id in [1, 2] {
        assert_eq!(remote.tell(&tries, id, End::Failed, T, T + 50 * SECOND), []);
    }
    for id in 4..7 {
        remote.passes(&tries, id, T + 50 * SECOND);
    }
    // The marks go with the next write after a minute.
    let at = T + MINUTE + 2;
    remote.tell(&tries, 4, End::GivenBack, T + 50 * SECOND, at);
    let marks = remote.zset(&of_alice("au", "subject"));
    assert!(marks.iter().all(|(_, score)| *score > 0), "{marks:?}");
    // Long after it happened word of it comes no more: nothing is left of it.
    remote.tell(&tries, 5, End::Failed, T + 50 * SECOND, at);
    let at = at + 10 * MINUTE;
    remote.passes(&tries, 9, at);
    remote.tell(&tries, 9, End::Succeeded, at, at);
    assert_eq!(remote.keys(), [of_alice("pb", "from")]);
}

#[test]
fn those_let_through_before_a_lockout_do_not_count_again() {
    let mut remote = remote();
    let tries = Tries::under([Attempt {
        provisional: false,
        ..by_subject()
    }]);
    for id in 0..10 {
        remote.passes(&tries, id, T);
    }
    for id in 0..3 {
        remote.tell(&tries, id, End::Failed, T, T + 1);
    }
    for id in 3..9 {
        assert_eq!(remote.tell(&tries, id, End::Failed, T, T + 2), []);
    }
    // Told again when it is over: that neither.
    let at = T + 1 + 5 * MINUTE;
    remote.tell(&tries, 9, End::Failed, T, at - 30 * SECOND);
    assert_eq!(remote.tell(&tries, 9, End::Failed, T, at), []);
    remote.fails(&tries, 10, at);
    assert_eq!(remote.fails(&tries, 11, at), []);
}

#[test]
fn a_question_that_was_undone_was_no_attempt() {
    let mut remote = remote();
    let tries = Tries::under([by_subject(), by_pair(), by_address()]);
    for id in 0..3 {
        remote.passes(&tries, id, T);
    }
    for leg in tries.ask(0).legs() {
        let step = Step::Keep(leg, Keep::NOTHING);
        assert_eq!(signs(remote.one(tries.item(0, step), T + 1)), []);
    }
    remote.passes(&tries, 3, T + 1);
    remote.is_busy(&tries, 4, T + 1);
    // One that has failed meanwhile stays so: what else it holds is let go.
    remote.tell(&tries, 1, End::Failed, T, T + 2);
    for leg in tries.ask(1).legs() {
        remote.one(tries.item(1, Step::Keep(leg, Keep::NOTHING)), T + 2);
    }
    remote.is_busy(&tries, 5, T + 2);
    // Word that the stream lives changes nothing.
    for leg in tries.ask(2).legs() {
        remote.one(tries.item(2, Step::Keep(leg, Keep::ON)), T + 30 * SECOND);
    }
    remote.is_busy(&tries, 6, T + 30 * SECOND);
    remote.tell(&tries, 3, End::GivenBack, T, T + 30 * SECOND);
    remote.passes(&tries, 7, T + 30 * SECOND);
    // The third ran out: two failed, and one is in flight.
    remote.is_busy(&tries, 8, T + MINUTE);
}

#[test]
fn what_is_revoked_after_it_came_is_free() {
    let mut remote = remote();
    let tries = Tries::under([by_subject(), by_pair(), by_address()]);
    for id in 0..3 {
        remote.passes(&tries, id, T);
    }
    // Whether it ran out or not: nobody was let through.
    for (id, at) in [(0, T + 1), (1, T + MINUTE + 5)] {
        for leg in tries.ask(id).legs() {
            for _ in 0..2 {
                let revoked = remote.one(tries.item(id, Step::Revoke(leg)), at);
                assert_eq!(revoked, Decision::Done);
            }
        }
    }
    let at = T + MINUTE + 5;
    remote.passes(&tries, 3, at);
    remote.passes(&tries, 4, at);
    remote.is_busy(&tries, 5, at);
    remote.all_expire();
}

#[test]
fn what_is_revoked_before_it_came_gets_nothing() {
    let tries = Tries::under([by_subject(), by_pair(), by_address()]);
    for leg in [Leg::Owner, Leg::Subject(0)] {
        let mut remote = remote();
        remote.one(tries.item(1, Step::Revoke(leg)), T);
        assert_eq!(remote.keys().len(), 1);
        remote.all_expire();
        for at in [T, T + MINUTE - 1] {
            let late = remote.one(tries.item(1, Step::Whole), at);
            assert_eq!(late, Decision::Done);
            let part = remote.one(tries.item(1, Step::Part(leg)), at);
            assert_eq!(part, Decision::Done);
        }
        // A mark takes no room.
        for id in 2..5 {
            remote.passes(&tries, id, T + 1);
        }
        for id in 2..5 {
            remote.tell(&tries, id, End::GivenBack, T + 1, T + 1);
        }
        remote.passes(&tries, 1, T + MINUTE);
    }
    // Of what takes nothing there is nothing to be revoked.
    let mut list = [by_subject(), by_pair(), by_address()];
    for attempt in &mut list {
        attempt.provisional = false;
    }
    let tries = Tries::under(list);
    let mut remote = remote();
    for leg in [Leg::Owner, Leg::Subject(0)] {
        remote.one(tries.item(1, Step::Revoke(leg)), T);
    }
    assert!(remote.keys().is_empty(), "{:?}", remote.keys());
}

#[test]
fn an_outcome_of_a_request_that_was_never_let_through_frees_nothing_of_others() {
    let mut remote = remote();
    let tries = Tries::under([by_subject()]);
    for id in 0..3 {
        remote.passes(&tries, id, T);
    }
    remote.tell(&tries, 9, End::GivenBack, T, T);
    remote.is_busy(&tries, 4, T);
    remote.tell(&tries.for_subject("bob"), 0, End::GivenBack, T, T);
    remote.is_busy(&tries, 4, T);
}
