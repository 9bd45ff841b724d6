//! Tests of `penalty`.

use proptest::prelude::*;
use tollgate_config::Millis;

use super::{Ladder, Lockout, Record, Terms};

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const START: u64 = 1_000_000;

/// The default terms: 20 strikes within a minute; 5 min, 1 h, 24 h; remembered for 24 h.
const TERMS: Terms = Terms {
    strikes: 20,
    within: Millis(MINUTE),
    offense_memory: Millis(24 * HOUR),
    levels: [Millis(5 * MINUTE), Millis(HOUR), Millis(24 * HOUR)],
    max_level: 3,
};

/// Strikes until the box trips, all at one moment.
fn trip(record: &mut Record, terms: &Terms, now: u64) -> Lockout {
    for _ in 1..terms.strikes {
        assert_eq!(record.strike(terms, Millis(now)), None);
    }
    record.strike(terms, Millis(now)).unwrap()
}

#[test]
fn the_twentieth_strike_trips_and_no_other() {
    let mut record = Record::default();
    for count in 1..20 {
        assert_eq!(record.strike(&TERMS, Millis(START + count)), None);
        assert_eq!(
            record.strikes_left(&TERMS, Millis(START + count)),
            20 - count as u32
        );
        assert_eq!(record.lockout(Millis(START + count)), None);
    }
    let lockout = record.strike(&TERMS, Millis(START + 20)).unwrap();
    let expected = Lockout {
        level: 1,
        until: Millis(START + 20 + 5 * MINUTE),
    };
    assert_eq!(lockout, expected);
    assert_eq!(record.lockout(Millis(START + 20)), Some(expected));
    let end = expected.until.0;
    assert_eq!(record.lockout(Millis(end - 1)), Some(expected));
    assert_eq!(record.lockout(Millis(end)), None);
}

#[test]
fn the_window_is_fixed_from_the_first_strike() {
    let mut record = Record::default();
    record.strike(&TERMS, Millis(START));
    for _ in 0..18 {
        record.strike(&TERMS, Millis(START + 59_000));
    }
    let last = START + MINUTE - 1;
    assert_eq!(record.strikes_left(&TERMS, Millis(last)), 1);
    assert!(record.clone_and_strike(last).is_some());
    // A minute after the first strike all 19 are gone, those of a second ago too.
    let after = START + MINUTE;
    assert_eq!(record.strikes_left(&TERMS, Millis(after)), 20);
    assert_eq!(record.strike(&TERMS, Millis(after)), None);
    assert_eq!(record.strikes_left(&TERMS, Millis(after)), 19);
    // And the next window runs from there.
    assert_eq!(record.strikes_left(&TERMS, Millis(after + MINUTE - 1)), 19);
    assert_eq!(record.strikes_left(&TERMS, Millis(after + MINUTE)), 20);
}

impl Record {
    fn clone_and_strike(&self, now: u64) -> Option<Lockout> {
        let mut copy = *self;
        copy.strike(&TERMS, Millis(now))
    }
}

#[test]
fn levels_go_up_to_three_and_stay_there() {
    let mut record = Record::default();
    let mut now = START;
    let times = [5 * MINUTE, HOUR, 24 * HOUR, 24 * HOUR];
    // Offenses are remembered for 24 h: each box starts a millisecond before the last is forgotten.
    for (level, time) in [1, 2, 3, 3].into_iter().zip(times) {
        let lockout = trip(&mut record, &TERMS, now);
        let until = Millis(now + time);
        assert_eq!(lockout, Lockout { level, until });
        now += 24 * HOUR - 1;
    }
}

#[test]
fn offenses_are_forgotten_after_their_time_since_the_last() {
    let mut record = Record::default();
    trip(&mut record, &TERMS, START);
    let second = START + 24 * HOUR - 1;
    assert_eq!(trip(&mut record, &TERMS, second).level, 2);
    // More than 24 h after the first, not after the last.
    assert_eq!(
        trip(&mut record.clone(), &TERMS, second + 24 * HOUR - 1).level,
        3
    );
    assert_eq!(trip(&mut record, &TERMS, second + 24 * HOUR).level, 1);
}

#[test]
fn a_highest_level_caps_the_level_and_its_time() {
    for (max_level, levels) in [(1, [1, 1, 1]), (2, [1, 2, 2])] {
        let terms = Terms { max_level, ..TERMS };
        let mut record = Record::default();
        for (index, level) in levels.into_iter().enumerate() {
            let now = START + index as u64 * HOUR;
            let lockout = trip(&mut record, &terms, now);
            assert_eq!(lockout.level, level);
            let [first, second, _] = TERMS.levels;
            let time = if level == 1 { first } else { second };
            assert_eq!(lockout.until, Millis(now).plus(time));
        }
    }
}

#[test]
fn a_trip_clears_the_strikes() {
    let mut record = Record::default();
    trip(&mut record, &TERMS, START);
    assert_eq!(record.strikes_left(&TERMS, Millis(START)), 20);
    let end = Millis(START + 5 * MINUTE);
    assert_eq!(record.strike(&TERMS, end), None);
    assert_eq!(record.strikes_left(&TERMS, end), 19);
}

#[test]
fn one_strike_can_be_enough() {
    let terms = Terms {
        strikes: 1,
        ..TERMS
    };
    let mut record = Record::default();
    assert_eq!(record.strike(&terms, Millis(START)).unwrap().level, 1);
}

#[test]
fn fewer_strikes_allowed_than_there_are_trips_with_the_next() {
    let mut record = Record::default();
    for _ in 0..10 {
        record.strike(&TERMS, Millis(START));
    }
    let strict = Terms {
        strikes: 5,
        ..TERMS
    };
    assert_eq!(record.strikes_left(&strict, Millis(START)), 0);
    assert!(record.strike(&strict, Millis(START)).is_some());
}

#[test]
fn a_window_from_before_the_clock_was_set_back_counts_no_more() {
    let mut record = Record::default();
    for _ in 0..19 {
        record.strike(&TERMS, Millis(10 * HOUR));
    }
    let back = Millis(HOUR);
    assert_eq!(record.strikes_left(&TERMS, back), 20);
    assert_eq!(record.strike(&TERMS, back), None);
}

#[test]
fn a_record_is_clean_when_nothing_is_held_any_more() {
    assert!(Record::default().is_clean(Millis(0)));
    let mut record = Record::default();
    record.strike(&TERMS, Millis(START));
    assert!(!record.is_clean(Millis(START + MINUTE - 1)));
    assert!(record.is_clean(Millis(START + MINUTE)));
    let mut record = Record::default();
    trip(&mut record, &TERMS, START);
    assert!(!record.is_clean(Millis(START + 24 * HOUR - 1)));
    assert!(record.is_clean(Millis(START + 24 * HOUR)));
    // A box outlives the memory of its offense.
    let forgetful = Terms {
        offense_memory: Millis(1),
        ..TERMS
    };
    let mut record = Record::default();
    trip(&mut record, &forgetful, START);
    assert!(!record.is_clean(Millis(START + 5 * MINUTE - 1)));
}

#[test]
fn nothing_overflows_at_the_end_of_time() {
    let terms = Terms {
        strikes: u32::MAX,
        within: Millis(u64::MAX),
        offense_memory: Millis(u64::MAX),
        levels: [Millis(u64::MAX); 3],
        max_level: u8::MAX,
    };
    let end = Millis(u64::MAX);
    let mut record = Record {
        strikes: u32::MAX,
        offenses: u32::MAX,
        window_ends: end,
        remembered_until: end,
        level: u8::MAX,
        boxed_until: end,
        by_throttle: true,
    };
    for now in [Millis(u64::MAX - 1), end, Millis(0)] {
        let _ = (record.lockout(now), record.is_clean(now));
        let _ = record.strikes_left(&terms, now);
        record.strike(&terms, now);
        record.lock_out(&terms.ladder(), now);
        record.ban(end, end, now);
    }
    let none = Terms {
        max_level: 0,
        strikes: 0,
        ..terms
    };
    assert_eq!(record.strike(&none, Millis(0)).unwrap().level, 1);
}

proptest! {
    /// Against the story itself: which moments struck, and which of them tripped.
    #[test]
    fn agrees_with_a_list_of_moments(
        strikes in 1..6u32,
        within in 1..100u64,
        memory in 1..400u64,
        max_level in 1..=3u8,
        steps in prop::collection::vec(0..80u64, 1..120),
    ) {
        let levels = [Millis(10), Millis(20), Millis(30)];
        let terms = Terms {
            strikes,
            within: Millis(within),
            offense_memory: Millis(memory),
            levels,
            max_level,
        };
        let mut record = Record::default();
        let (mut window, mut trips): (Vec<u64>, Vec<u64>) = (Vec::new(), Vec::new());
        let mut now = START;
        for step in steps {
            now += step;
            if window.first().is_some_and(|first| now >= first + within) {
                window.clear();
            }
            window.push(now);
            let lockout = record.strike(&terms, Millis(now));
            prop_assert_eq!(lockout.is_some(), window.len() as u32 >= strikes);
            if let Some(lockout) = lockout {
                window.clear();
                // Offenses in a row, none of them a memory or more after the one before.
                if trips.last().is_some_and(|last| now >= last + memory) {
                    trips.clear();
                }
                trips.push(now);
                let level = (trips.len() as u8).min(3).min(max_level);
                let time = levels[usize::from(level) - 1];
                prop_assert_eq!(lockout, Lockout { level, until: Millis(now).plus(time) });
                prop_assert_eq!(record.lockout(Millis(now)), Some(lockout));
            }
            prop_assert_eq!(
                record.strikes_left(&terms, Millis(now)),
                strikes - window.len() as u32
            );
        }
    }
}

#[test]
fn a_remembered_box_is_fresh_for_ten_seconds() {
    let lockout = Lockout {
        level: 2,
        until: Millis(START + HOUR),
    };
    let mut record = Record {
        strikes: 3,
        window_ends: Millis(START + MINUTE),
        offenses: 2,
        remembered_until: Millis(START + 24 * HOUR),
        ..Record::default()
    };
    record.remember(lockout, Millis(START));
    let expected = Record {
        strikes: 0,
        window_ends: Millis(START + 10_000),
        offenses: 2,
        remembered_until: Millis(START + 24 * HOUR),
        level: 2,
        boxed_until: lockout.until,
        by_throttle: false,
    };
    assert_eq!(record, expected);
    assert_eq!(record.remembered(Millis(START + 9999)), Some(lockout));
    assert_eq!(record.remembered(Millis(START + 10_000)), None);
    assert_eq!(record.lockout(Millis(START + 10_000)), Some(lockout));
    // The time it may be used for is no window of strikes.
    assert_eq!(record.strikes_left(&TERMS, Millis(START + 1)), 20);
    record.release();
    assert_eq!(record.lockout(Millis(START)), None);
    assert_eq!(
        record,
        Record {
            window_ends: Millis(0),
            level: 0,
            boxed_until: Millis(0),
            ..expected
        }
    );
}

#[test]
fn a_box_that_was_tripped_here_or_a_window_of_strikes_is_no_memory() {
    let mut record = Record::default();
    trip(&mut record, &TERMS, START);
    assert_eq!(record.remembered(Millis(START)), None);
    // Strikes are counted: the window is theirs.
    let struck = Record {
        strikes: 1,
        window_ends: Millis(START + 5000),
        ..record
    };
    assert_eq!(struck.remembered(Millis(START)), None);
}

/// Subjects get to level 2.
const SUBJECTS: Ladder = Ladder {
    levels: TERMS.levels,
    max_level: 2,
    offense_memory: TERMS.offense_memory,
};

#[test]
fn lockouts_escalate_like_any_box() {
    let ladder = |max_level| Ladder {
        max_level,
        ..SUBJECTS
    };
    for (max_level, levels) in [(2, [1, 2, 2, 2]), (3, [1, 2, 3, 3])] {
        let mut record = Record::default();
        let mut now = START;
        for level in levels {
            let lockout = record.lock_out(&ladder(max_level), Millis(now));
            let time = TERMS.levels[usize::from(level) - 1];
            let until = Millis(now).plus(time);
            assert_eq!(lockout, Lockout { level, until });
            assert_eq!(record.lockout(Millis(now)), Some(lockout));
            assert_eq!(record.throttle_lockout(Millis(until.0 - 1)), Some(lockout));
            assert_eq!(record.throttle_lockout(until), None);
            now += 24 * HOUR - 1;
        }
        // Forgotten a day after the last one.
        let lockout = record.lock_out(&ladder(max_level), Millis(now + 1));
        assert_eq!(lockout.level, 1);
    }
}

#[test]
fn strikes_and_failed_credentials_of_an_address_escalate_together() {
    let mut record = Record::default();
    assert_eq!(record.lock_out(&SUBJECTS, Millis(START)).level, 1);
    assert!(record.by_throttle);
    let struck = START + 10 * MINUTE;
    assert_eq!(trip(&mut record, &TERMS, struck).level, 2);
    // A box for strikes is in the way of no attempt.
    assert!(record.lockout(Millis(struck)).is_some());
    assert_eq!(record.throttle_lockout(Millis(struck)), None);
    // One for failed credentials takes its place.
    let ladder = Ladder {
        max_level: 3,
        ..SUBJECTS
    };
    let lockout = record.lock_out(&ladder, Millis(struck + 1));
    assert_eq!(lockout.level, 3);
    assert_eq!(record.throttle_lockout(Millis(struck + 1)), Some(lockout));
}

#[test]
fn a_ban_is_of_level_three_whatever_came_before() {
    let day = Millis(24 * HOUR);
    for before in [0, 1, 5] {
        let mut record = Record::default();
        for _ in 0..before {
            record.lock_out(&SUBJECTS, Millis(START));
        }
        let ban = record.ban(day, day, Millis(START));
        let until = Millis(START).plus(day);
        assert_eq!(ban, Lockout { level: 3, until });
        assert_eq!(record.throttle_lockout(Millis(START)), Some(ban));
        assert_eq!(record.offenses, before.max(3));
        // What comes after it, while it is remembered, is of that level too.
        let next = record.lock_out(&TERMS.ladder(), Millis(until.0 - 1));
        assert_eq!(next.level, 3);
    }
    // Offenses that are forgotten are not raised, but begun anew.
    let mut record = Record::default();
    for _ in 0..5 {
        record.lock_out(&SUBJECTS, Millis(START));
    }
    record.ban(day, day, Millis(START + 24 * HOUR));
    assert_eq!(record.offenses, 3);
}

#[test]
fn a_remembered_lockout_says_that_it_is_one() {
    let lockout = Lockout {
        level: 1,
        until: Millis(START + HOUR),
    };
    let mut record = Record::default();
    record.remember_throttle(lockout, Millis(START));
    assert_eq!(record.throttle_lockout(Millis(START)), Some(lockout));
    assert_eq!(record.remembered(Millis(START + 9999)), Some(lockout));
    record.remember(lockout, Millis(START));
    assert_eq!(record.throttle_lockout(Millis(START)), None);
    record.remember_throttle(lockout, Millis(START));
    record.release();
    assert_eq!(record, Record::default());
}
