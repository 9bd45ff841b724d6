//! Tests of `attempts`.

use tollgate_config::Millis;

use super::{Page, Window};
use crate::hold::HoldId;
use crate::limit::attempts::Tally;
use crate::limit::bucket::Level;
use crate::limit::penalty;
use crate::limit::promise::Promise;
use crate::store::local::page::HEAD;
use crate::store::local::page::held::NoRoom;
use crate::store::local::record::{Bucket, Kind, Name, SIZE};

const NOW: Millis = Millis(10_000_000);
const MINUTE: u64 = 60_000;

const fn window(id: u128) -> Window {
    Window {
        id,
        within: Millis(15 * MINUTE),
    }
}

fn page(room: usize) -> Page {
    Page::read([], HEAD + room * SIZE)
}

fn at(offset: u64) -> Millis {
    NOW.plus(Millis(offset))
}

fn attempt(page: &mut Page, id: u64, offset: u64) -> Result<(), NoRoom> {
    page.attempt_now(window(1), HoldId(id), &[], at(offset))
}

fn tally(page: &Page, offset: u64) -> (u32, u32) {
    let Tally { failed, pending } = page.tally(window(1), at(offset));
    (failed, pending)
}

fn entries(page: &Page) -> usize {
    page.chunks().len()
}

#[test]
fn an_attempt_flies_for_a_minute_and_has_failed_then_until_the_window_forgets_it() {
    let mut page = page(10);
    attempt(&mut page, 1, 0).unwrap();
    for (offset, expected) in [
        (0, (0, 1)),
        (MINUTE - 1, (0, 1)),
        (MINUTE, (1, 0)),
        (16 * MINUTE - 1, (1, 0)),
        (16 * MINUTE, (0, 0)),
    ] {
        let page = Page::read(page.clone().into_bytes(), HEAD + 10 * SIZE);
        assert_eq!(tally(&page, offset), expected, "{offset}");
    }
    // The next one sweeps it away.
    attempt(&mut page, 2, 16 * MINUTE).unwrap();
    assert_eq!(entries(&page), 1);
}

#[test]
fn windows_are_apart() {
    let mut page = page(10);
    attempt(&mut page, 1, 0).unwrap();
    page.fail(window(1), NOW, &[], NOW).unwrap();
    assert_eq!(page.tally(window(2), NOW), Tally::default());
    assert!(!page.end_attempt(window(2), HoldId(1), Millis(0), NOW));
    page.clear(window(2), at(2 * MINUTE));
    assert_eq!(tally(&page, 0), (1, 1));
}

#[test]
fn an_attempt_ends_even_after_its_minute_and_only_its_own() {
    let mut page = page(10);
    attempt(&mut page, 1, 0).unwrap();
    attempt(&mut page, 2, 10).unwrap();
    let mut ends = |id, since| page.end_attempt(window(1), HoldId(id), since, at(MINUTE));
    assert!(!ends(3, Millis(0)));
    // The first has run out, and the second flies.
    assert!(!ends(1, at(MINUTE)));
    assert!(ends(2, at(MINUTE)));
    assert!(ends(1, Millis(0)));
    assert!(!ends(1, Millis(0)));
    assert_eq!(tally(&page, MINUTE), (0, 0));
    assert_eq!(entries(&page), 0);
}

#[test]
fn failures_lie_six_to_an_entry_and_are_swept() {
    let mut page = page(30);
    for offset in 0..100 {
        page.fail(window(1), at(offset), &[], at(offset)).unwrap();
    }
    assert_eq!((entries(&page), tally(&page, 99)), (17, (100, 0)));
    // Half of them are past.
    let later = 15 * MINUTE + 49;
    page.fail(window(1), at(later), &[], at(later)).unwrap();
    assert_eq!((entries(&page), tally(&page, later)), (9, (51, 0)));
}

#[test]
fn a_failure_of_too_long_ago_is_none() {
    let mut page = page(10);
    let mut fails = |offset| page.fail(window(1), at(offset), &[], at(15 * MINUTE));
    assert_eq!(fails(0), Ok(false));
    assert_eq!(fails(1), Ok(true));
    assert_eq!(entries(&page), 1);
    assert_eq!(tally(&page, 15 * MINUTE), (1, 0));
    assert_eq!(tally(&page, 15 * MINUTE + 1), (0, 0));
}

#[test]
fn cleared_is_what_failed_and_not_what_flies() {
    let mut page = page(20);
    // One whose time has run out for two minutes, one for less, one that flies; and failures, one of the future.
    attempt(&mut page, 1, 0).unwrap();
    attempt(&mut page, 2, 1).unwrap();
    attempt(&mut page, 3, 2 * MINUTE).unwrap();
    page.mark_attempt(window(1), HoldId(4), at(3 * MINUTE - 10))
        .unwrap();
    for offset in [5, 3 * MINUTE, 4 * MINUTE] {
        page.fail(window(1), at(offset), &[], at(offset)).unwrap();
    }
    let now = 3 * MINUTE - 1;
    attempt(&mut page, 5, now).unwrap();
    assert_eq!(tally(&page, 3 * MINUTE), (5, 2));
    let counted = page.clear(window(1), at(3 * MINUTE));
    assert_eq!(counted, [2, 3].map(HoldId));
    assert_eq!(
        tally(&page, 3 * MINUTE),
        (0, 2),
        "in flight, and of the future"
    );
    assert!(page.is_attempt_marked(window(1), HoldId(4), at(3 * MINUTE)));
    assert!(page.attempt(window(1), HoldId(5)).is_some());
}

#[test]
fn a_mark_counts_for_nothing_and_is_in_force_for_a_minute() {
    let mut page = page(10);
    attempt(&mut page, 7, 0).unwrap();
    page.mark_attempt(window(1), HoldId(7), at(10)).unwrap();
    assert_eq!((entries(&page), tally(&page, 10)), (1, (0, 0)));
    assert!(page.attempt(window(1), HoldId(7)).unwrap().marked);
    assert!(!page.end_attempt(window(1), HoldId(7), Millis(0), at(20)));
    assert!(page.is_attempt_marked(window(1), HoldId(7), at(MINUTE + 9)));
    assert!(!page.is_attempt_marked(window(1), HoldId(7), at(MINUTE + 10)));
    assert!(!page.is_attempt_marked(window(1), HoldId(8), at(20)));
    assert!(!page.is_attempt_marked(window(2), HoldId(7), at(20)));
    assert_eq!(tally(&page, MINUTE + 10), (0, 0));
}

/// Newcomers of any kind to a page that is full of attempts.
#[test]
fn attempts_and_failures_make_no_room_before_they_count_no_more() {
    let mut page = page(6);
    for id in 0..3 {
        attempt(&mut page, id, id).unwrap();
    }
    for window in [window(2), window(3)] {
        page.fail(window, at(3), &[], at(3)).unwrap();
    }
    let mut newcomers = |offset: u64| {
        let key = Name {
            id: 9,
            kind: Kind::Key,
        };
        let meter = crate::testing::meter(60, 60, 60);
        let seat = page.seat(key, &[], at(offset));
        let empty = Bucket {
            level: Level::full(&meter, at(offset)).take(60),
            promise: Promise::default(),
        };
        page.keep_bucket(seat, &empty);
        let record = penalty::Record {
            boxed_until: at(offset + 1),
            ..penalty::Record::default()
        };
        let name = Name {
            id: 9,
            kind: Kind::Penalty,
        };
        page.keep_penalty(name, &record, &[], at(offset));
        let locked = page.keep_lockout(name, &record, &[], at(offset));
        let flies = page.attempt_now(window(9), HoldId(9), &[], at(offset));
        let fails = page.fail(window(10), at(offset), &[], at(offset));
        (seat == key, locked.is_ok(), flies.is_ok(), fails.is_ok())
    };
    let none = (false, false, false, false);
    for offset in [3, MINUTE, 15 * MINUTE + 2] {
        assert_eq!(newcomers(offset), none, "{offset}");
    }
    // The first failures have their time; then those that ran out.
    let (seat, locked, ..) = newcomers(15 * MINUTE + 3);
    assert!(seat && locked);
    let all = newcomers(16 * MINUTE + 10);
    assert_eq!(all, (true, true, true, true));
}
