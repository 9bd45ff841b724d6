//! Tests of `attempts`.

use proptest::prelude::*;
use tollgate_config::Millis;

use super::{Effect, Room, Tally};

const NOW: Millis = Millis(100_000);
const WITHIN: Millis = Millis(1000);

fn of(scores: &[u64]) -> Tally {
    Tally::of(scores.iter().map(|score| Millis(*score)), WITHIN, NOW)
}

const fn tally(failed: u32, pending: u32) -> Tally {
    Tally { failed, pending }
}

#[test]
fn a_failure_counts_until_it_is_as_old_as_the_window_is_long() {
    assert_eq!(of(&[]), tally(0, 0));
    assert_eq!(of(&[0, 98_999, 99_000]), tally(0, 0));
    assert_eq!(of(&[99_001, 99_500, 100_000]), tally(3, 0));
}

#[test]
fn what_is_yet_to_fail_is_pending_and_fails_by_itself() {
    assert_eq!(of(&[100_001, 160_000, 99_500]), tally(1, 2));
    // Further away than any is in flight, it is of before the clock was set back.
    assert_eq!(of(&[160_001, 990_000, u64::MAX]), tally(0, 0));
    let score = || std::iter::once(Millis(160_000));
    for (now, expected) in [
        (99_999, tally(0, 0)),
        (100_000, tally(0, 1)),
        (159_999, tally(0, 1)),
        (160_000, tally(1, 0)),
        (160_999, tally(1, 0)),
        (161_000, tally(0, 0)),
    ] {
        assert_eq!(Tally::of(score(), WITHIN, Millis(now)), expected, "{now}");
    }
}

#[test]
fn room_is_for_so_many_failures_those_in_flight_among_them() {
    for (failed, pending, provisional, expected) in [
        (0, 0, true, Room::Free),
        (2, 2, true, Room::Free),
        (2, 3, true, Room::Busy),
        (0, 5, true, Room::Busy),
        (0, 9, true, Room::Busy),
        (5, 0, true, Room::Full),
        (5, 3, true, Room::Full),
        // The limit was lowered since.
        (7, 0, true, Room::Full),
        // Who takes no room in flight asks only what has failed.
        (4, 9, false, Room::Free),
        (0, 9, false, Room::Free),
        (5, 0, false, Room::Full),
    ] {
        let room = tally(failed, pending).room(5, provisional);
        assert_eq!(room, expected, "{failed} {pending} {provisional}");
    }
    assert_eq!(tally(u32::MAX, u32::MAX).room(u32::MAX, true), Room::Full);
    assert_eq!(tally(1, u32::MAX).room(u32::MAX, true), Room::Busy);
}

#[test]
fn an_outcome_fails_clears_or_ends() {
    let started = Millis(99_500);
    for (failed, succeeded, resets, expected) in [
        (true, false, true, Effect::Fails(started)),
        // By another throttle it succeeded: not by this one.
        (true, true, true, Effect::Fails(started)),
        (false, true, true, Effect::Clears),
        (false, true, false, Effect::Ends),
        (false, false, true, Effect::Ends),
        (false, false, false, Effect::Ends),
    ] {
        let effect = Effect::of(failed, succeeded, resets, started, NOW);
        assert_eq!(effect, expected, "{failed} {succeeded} {resets}");
    }
    let later = Effect::of(true, false, false, NOW.plus(Millis(1)), NOW);
    assert_eq!(later, Effect::Fails(NOW), "the clock was set back");
}

proptest! {
    /// Against the meaning: each score is one of three, and one that is pending fails when its time comes.
    #[test]
    fn every_score_is_past_failed_or_pending(
        scores in prop::collection::vec(98_000..102_000u64, 0..30), step in 0..3000u64,
    ) {
        let tally = |now: Millis| Tally::of(scores.iter().map(|s| Millis(*s)), WITHIN, now);
        let now = tally(NOW);
        let past = scores.iter().filter(|score| **score + WITHIN.0 <= NOW.0).count();
        prop_assert_eq!(now.failed as usize + now.pending as usize + past, scores.len());
        let later = tally(NOW.plus(Millis(step)));
        prop_assert!(later.pending <= now.pending);
        prop_assert!(later.failed <= now.failed + (now.pending - later.pending));
    }
}
