//! Tests of `notes`.

use std::collections::BTreeSet;

use fastrand::Rng;
use tollgate_config::Millis;

use super::{BITS, PARTS, Page, Sketch};
use crate::attempt::KNOWN_FOR;
use crate::hold::HoldId;
use crate::limit::bucket::Level;
use crate::limit::promise::Promise;
use crate::store::local::page::HEAD;
use crate::store::local::page::attempts::Window;
use crate::store::local::record::{Bucket, Kind, Name, SIZE};

const NOW: Millis = Millis(10_000_000);
const MINUTE: Millis = Millis(60_000);
const HOUR: Millis = Millis(3_600_000);

const ALICE: Name = Name {
    id: 1,
    kind: Kind::Known,
};

const SPREAD: Name = Name {
    id: 1,
    kind: Kind::Spread,
};

const SKETCH: Sketch = Sketch {
    id: 7,
    within: MINUTE,
};

fn page(room: usize) -> Page {
    Page::read([], HEAD + room * SIZE)
}

fn at(offset: u64) -> Millis {
    NOW.plus(Millis(offset))
}

fn know(page: &mut Page, print: u64, now: Millis) -> bool {
    page.know(ALICE, print, &[ALICE], now)
}

fn entries(page: &Page) -> usize {
    page.chunks().len()
}

#[test]
fn an_address_is_known_for_thirty_days_since_its_last_success() {
    let mut page = page(10);
    assert!(!page.is_known(ALICE, 5, NOW));
    assert!(know(&mut page, 5, NOW));
    let bob = Name { id: 2, ..ALICE };
    assert!(page.is_known(ALICE, 5, NOW.plus(Millis(KNOWN_FOR.0 - 1))));
    assert!(!page.is_known(ALICE, 5, NOW.plus(KNOWN_FOR)));
    assert!(!page.is_known(ALICE, 6, NOW) && !page.is_known(bob, 5, NOW));
    // Within the hour it is not written again, and then it is.
    assert!(!know(&mut page, 5, NOW.plus(HOUR)));
    let later = NOW.plus(HOUR).plus(Millis(1));
    assert!(know(&mut page, 5, later));
    assert!(page.is_known(ALICE, 5, NOW.plus(KNOWN_FOR)));
    assert!(!page.is_known(ALICE, 5, later.plus(KNOWN_FOR)));
    assert_eq!(entries(&page), 1);
    // Forgotten, it is written anew.
    assert!(know(&mut page, 5, later.plus(KNOWN_FOR)));
    assert_eq!(entries(&page), 1);
}

#[test]
fn the_seventeenth_takes_the_place_of_the_one_that_succeeded_the_longest_ago() {
    let mut page = page(40);
    for print in 0..16 {
        know(&mut page, print, at(print * 10));
    }
    // The first one again, after more than an hour.
    let later = NOW.plus(HOUR).plus(HOUR);
    know(&mut page, 0, later);
    know(&mut page, 99, later);
    let known = |page: &Page, print| page.is_known(ALICE, print, later);
    assert_eq!(
        (0..16).filter(|p| !known(&page, *p)).collect::<Vec<_>>(),
        [1]
    );
    assert!(known(&page, 99));
    assert_eq!(entries(&page), 16);
    // Those of another subject are not among them.
    let bob = Name { id: 2, ..ALICE };
    page.know(bob, 5, &[], later);
    assert_eq!(entries(&page), 17);
}

#[test]
fn the_tenth_address_within_a_window_is_an_event_once() {
    let mut page = page(10);
    let fails = |page: &mut Page, print, offset| {
        page.fails_from(SPREAD, print, MINUTE, &[SPREAD], at(offset))
    };
    for print in 0..9 {
        for _ in 0..3 {
            assert!(!fails(&mut page, print * 7 + 1, u64::from(print)));
        }
    }
    assert!(fails(&mut page, 1000, 9));
    for print in 1000..1100 {
        assert!(!fails(&mut page, print, MINUTE.0 - 1));
    }
    // The window was fixed from the first one; then another begins.
    for print in 0..9 {
        assert!(!fails(&mut page, print + 1, MINUTE.0));
    }
    assert!(fails(&mut page, 1000, 2 * MINUTE.0 - 1));
    assert_eq!(entries(&page), 1);
    // One of before the clock was set back counts no more.
    for print in 0..9 {
        assert!(!fails(&mut page, print + 1, 0));
    }
    assert!(fails(&mut page, 10, 0));
}

#[test]
fn an_address_whose_hash_is_0_is_one_like_any_other() {
    let mut page = page(10);
    let mut fails = |print| page.fails_from(SPREAD, print, MINUTE, &[], NOW);
    assert!(
        (0..10).filter(|print| fails(*print)).count() == 0,
        "0 and 1 are the same"
    );
    assert!(fails(10));
}

/// Whether it is stuffing, by so many failures and subjects, after so many failures for one subject each.
fn stuffs(page: &mut Page, subjects: &[u64], limits: (u32, u32), now: Millis) -> Vec<bool> {
    let one = |subject: &u64| page.stuffs(SKETCH, &[*subject], limits, now);
    subjects.iter().map(one).collect()
}

fn first(found: &[bool]) -> Option<usize> {
    found.iter().position(|found| *found)
}

#[test]
fn both_limits_have_to_be_reached() {
    let distinct: Vec<u64> = (0..10).map(|n| n * 113).collect();
    assert_eq!(
        first(&stuffs(&mut page(20), &distinct, (5, 3), NOW)),
        Some(4)
    );
    assert_eq!(
        first(&stuffs(&mut page(20), &distinct, (3, 5), NOW)),
        Some(4)
    );
    assert_eq!(
        first(&stuffs(&mut page(20), &[7; 10], (5, 1), NOW)),
        Some(4)
    );
    assert_eq!(first(&stuffs(&mut page(20), &[7; 10], (5, 2), NOW)), None);
    assert_eq!(first(&stuffs(&mut page(20), &[7], (1, 1), NOW)), Some(0));
    // Without a subject it is a failure all the same; with several it is one.
    let mut page = page(20);
    assert!(!page.stuffs(SKETCH, &[], (3, 2), NOW));
    assert!(!page.stuffs(SKETCH, &[1, 500], (3, 2), NOW));
    assert!(page.stuffs(SKETCH, &[], (3, 2), NOW));
}

#[test]
fn what_is_looked_for_has_to_be_in_a_window_fixed_from_the_first_failure() {
    let mut page = page(20);
    let subjects = [1, 200, 400, 600];
    let limits = (5, 5);
    assert_eq!(first(&stuffs(&mut page, &subjects, limits, NOW)), None);
    let end = NOW.plus(MINUTE);
    assert_eq!(first(&stuffs(&mut page, &[800], limits, end)), None);
    assert_eq!(first(&stuffs(&mut page, &subjects, limits, end)), Some(3));
    page.forget_stuffing(SKETCH);
    assert_eq!(entries(&page), 0);
    assert_eq!(first(&stuffs(&mut page, &[800], limits, end)), None);
}

#[test]
fn of_one_address_it_never_takes_more_than_seven_entries() {
    let mut page = page(80);
    let mut random = Rng::with_seed(1);
    for _ in 0..3000 {
        page.stuffs(SKETCH, &[random.u64(..)], (u32::MAX, u32::MAX), NOW);
    }
    assert_eq!(entries(&page), PARTS);
    assert_eq!(BITS, 1120);
}

/// Against the set of subjects itself.
#[test]
fn nobody_is_banned_for_fewer_subjects_and_hardly_later() {
    let mut random = Rng::with_seed(3);
    for (limit, most) in [(1, 1), (2, 2), (10, 11), (50, 56), (300, 345), (1000, 1150)] {
        for _ in 0..20 {
            let mut page = page(80);
            let mut seen = BTreeSet::new();
            let mut failures = 0;
            loop {
                // Some come again.
                let subject = match random.bool() {
                    true => random.u64(..),
                    false => seen.iter().next_back().copied().unwrap_or_default(),
                };
                seen.insert(subject);
                failures += 1;
                if page.stuffs(SKETCH, &[subject], (1, limit), NOW) {
                    break;
                }
            }
            assert!(seen.len() >= limit as usize, "{} of {limit}", seen.len());
            assert!(
                seen.len() <= most,
                "{} of {limit} in {failures}",
                seen.len()
            );
        }
    }
}

#[test]
fn notes_take_room_that_is_free_or_another_notes_and_make_room_for_all() {
    // Two buckets, a failure, and the overflow bucket's place: one is left.
    let mut page = page(5);
    let meter = crate::testing::meter(60, 60, 60);
    let key = |id| Name {
        id,
        kind: Kind::Key,
    };
    for id in [1, 2] {
        let seat = page.seat(key(id), &[], NOW);
        let level = Level::full(&meter, NOW).take(60);
        let promise = Promise::default();
        page.keep_bucket(seat, &Bucket { level, promise });
    }
    let window = Window {
        id: 3,
        within: MINUTE,
    };
    page.fail(window, NOW, &[], NOW).unwrap();
    know(&mut page, 5, NOW);
    assert!(page.is_known(ALICE, 5, NOW));
    // A note of something else takes its place, and makes room for it again.
    page.fails_from(SPREAD, 1, MINUTE, &[], NOW);
    assert!(!page.is_known(ALICE, 5, NOW));
    know(&mut page, 5, NOW);
    assert!(page.is_known(ALICE, 5, NOW));
    // A failure does, and then there is no room for notes.
    page.attempt_now(window, HoldId(1), &[], NOW).unwrap();
    assert!(!page.is_known(ALICE, 5, NOW));
    know(&mut page, 5, NOW);
    page.fails_from(SPREAD, 1, MINUTE, &[], NOW);
    assert!(!page.stuffs(SKETCH, &[1], (1, 1), NOW));
    assert!(!page.is_known(ALICE, 5, NOW));
    for id in [1, 2] {
        assert_eq!(
            page.bucket(key(id), &meter, NOW)
                .level
                .seen(&meter, NOW)
                .remaining(&meter),
            0
        );
        assert_eq!(page.seat(key(id), &[], NOW), key(id));
    }
    assert_eq!(page.tally(window, NOW).failed, 1);
}
