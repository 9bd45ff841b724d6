//! Tests of `known`.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tollgate_config::{Bytes, Millis};

use super::super::PAGE_SIZE;
use super::super::heap::Heap;
use super::super::memory::{Changed, Memory, Slot};
use super::super::tests::{
    NOW, SECRET, allowed, anonymous, boxed, key, key_from, left, open, shadow, strictly, throttled,
    until_boxed,
};
use super::{Barred, Local};
use crate::limit::decision::Strictness;
use crate::limit::penalty::Lockout;
use crate::store::{Ask, Store as _, Toll};
use crate::verdict::{Boxed, Policy, Scope, Verdict};

const MINUTE: u64 = 60_000;

fn at(later: u64) -> Millis {
    NOW.plus(Millis(later))
}

/// A box that ends so many milliseconds from now.
fn ends(later: u64) -> Lockout {
    Lockout {
        level: 2,
        until: at(later),
    }
}

/// As it was answered. (Whose it is, is known by who asks.)
fn in_box(lockout: Lockout) -> Barred {
    Barred::Boxed(Boxed {
        scope: Scope::Key,
        lockout,
        tripped: true,
    })
}

fn bytes(heap: &Heap) -> BTreeMap<String, Slot> {
    let names = heap.names().into_iter();
    names.map(|n| (n.clone(), heap.read(&n).unwrap())).collect()
}

#[test]
fn a_remembered_box_is_used_for_ten_seconds_and_to_its_end_where_the_store_fails() {
    for (question, scope) in [
        (key_from(1, "t", "a"), Scope::Key),
        (anonymous(1), Scope::Ip),
    ] {
        let heap = Heap::default();
        let store = open(heap.clone());
        let lockout = ends(5 * MINUTE);
        assert_eq!(store.known(&question, NOW, true), None);
        assert_eq!(
            store.remember(&question, in_box(lockout), NOW),
            Toll::default()
        );
        let known = Some(Boxed {
            scope,
            lockout,
            tripped: false,
        });
        let before = bytes(&heap);
        for (later, answering, failing) in [
            (0, known, known),
            (9_999, known, known),
            (10_000, None, known),
            (5 * MINUTE - 1, None, known),
            (5 * MINUTE, None, None),
        ] {
            assert_eq!(store.known(&question, at(later), false), answering);
            assert_eq!(store.known(&question, at(later), true), failing);
        }
        assert_eq!(bytes(&heap), before, "looking changes nothing");
    }
}

#[test]
fn asked_again_it_is_remembered_again() {
    let store = open(Heap::default());
    store.remember(&key("t", "a"), in_box(ends(MINUTE)), NOW);
    store.remember(&key("t", "a"), in_box(ends(MINUTE)), at(12_000));
    assert!(store.known(&key("t", "a"), at(21_999), false).is_some());
    assert_eq!(store.known(&key("t", "a"), at(22_000), false), None);
    // Near its end it is known for no longer than it lasts.
    store.remember(&key("t", "a"), in_box(ends(MINUTE)), at(55_000));
    assert!(store.known(&key("t", "a"), at(MINUTE - 1), false).is_some());
    assert_eq!(store.known(&key("t", "a"), at(MINUTE), false), None);
}

#[test]
fn set_back_the_clock_makes_no_memory_last_longer() {
    let store = open(Heap::default());
    store.remember(
        &key("t", "a"),
        in_box(ends(24 * 60 * MINUTE)),
        at(60 * MINUTE),
    );
    assert_eq!(store.known(&key("t", "a"), NOW, false), None);
    assert!(store.known(&key("t", "a"), NOW, true).is_some());
}

#[test]
fn a_remembered_box_is_of_one_key_and_mode() {
    let store = open(Heap::default());
    store.remember(&key("t", "a"), in_box(ends(MINUTE)), NOW);
    let known = |ask: &Ask| store.known(ask, NOW, true).is_some();
    assert!(known(&key("t", "a")) && known(&key_from(9, "t", "a")));
    for other in [
        key("t", "b"),
        key("u", "a"),
        anonymous(1),
        shadow(key("t", "a")),
    ] {
        assert!(!known(&other), "{other:?}");
    }
    store.remember(&shadow(key("t", "b")), in_box(ends(MINUTE)), NOW);
    assert!(known(&shadow(key("t", "b"))) && !known(&key("t", "b")));
}

#[test]
fn where_boxes_do_not_refuse_none_is_remembered_or_known() {
    for strictness in [Strictness::Watched, Strictness::Off] {
        let heap = Heap::default();
        let store = open(heap.clone());
        let before = bytes(&heap);
        store.remember(
            &strictly(strictness, key("t", "a")),
            in_box(ends(MINUTE)),
            NOW,
        );
        assert_eq!(bytes(&heap), before);
        store.remember(&key("t", "a"), in_box(ends(MINUTE)), NOW);
        let watched = strictly(strictness, key("t", "a"));
        assert_eq!(store.known(&watched, NOW, true), None);
    }
}

#[test]
fn the_degraded_limiter_refuses_whom_the_failed_store_had_in_a_box() {
    let known = |ask| strictly(Strictness::Known, ask);
    for question in [known(key_from(1, "t", "a")), known(anonymous(1))] {
        let mut store = open(Heap::default());
        store.remember(&question, in_box(ends(MINUTE)), NOW);
        for later in [0, 10_000, MINUTE - 1] {
            let refused = boxed(store.decide(&question, at(later)).0);
            assert_eq!((refused.lockout, refused.tripped), (ends(MINUTE), false));
        }
        // It touched no bucket.
        let standings = allowed(store.decide(&question, at(MINUTE)).0);
        let own = standings.iter().find(|s| s.policy != Policy::Ip).unwrap();
        assert_eq!(own.remaining, 1);
        allowed(store.decide(&known(key("t", "b")), NOW).0);
    }
}

#[test]
fn the_degraded_limiter_strikes_nobody() {
    let question = strictly(Strictness::Known, key("t", "a"));
    let mut store = open(Heap::default());
    allowed(store.decide(&question, NOW).0);
    allowed(store.decide(&question, NOW).0);
    for _ in 0..200 {
        let refused = throttled(store.decide(&question, NOW).0);
        assert_eq!((refused.strikes_left, refused.would_box), (Some(3), None));
    }
    // Its store is back: only the buckets are what they were.
    let refused = throttled(store.decide(&key("t", "a"), NOW).0);
    let expected = [(Policy::Key, 0), (Policy::Tenant, 3)];
    assert_eq!(left(&refused.standings), expected);
    assert_eq!(store.known(&key("t", "a"), NOW, true), None);
}

#[test]
fn a_released_box_does_not_come_back_when_the_store_fails() {
    let heap = Heap::default();
    let mut store = open(heap.clone());
    store.remember(&key("t", "a"), in_box(ends(MINUTE)), NOW);
    assert_eq!(store.forget(&key("t", "a"), at(11_000)), Toll::default());
    assert_eq!(store.known(&key("t", "a"), at(11_000), true), None);
    let question = strictly(Strictness::Known, key("t", "a"));
    allowed(store.decide(&question, at(11_000)).0);
    // Nothing to forget: nothing is written.
    let before = bytes(&heap);
    store.forget(&key("t", "a"), at(11_000));
    store.forget(&anonymous(1), at(11_000));
    assert_eq!(bytes(&heap), before);
}

#[test]
fn a_memory_is_no_strike_and_keeps_the_offenses() {
    let mut store = open(Heap::default());
    let end = until_boxed(&mut store, &key("t", "a")).lockout.until;
    // Boxed by this store; another tells of a box that is longer. Its offense is remembered.
    store.remember(&key("t", "a"), in_box(ends(10 * MINUTE)), end);
    assert_eq!(boxed(store.decide(&key("t", "a"), end).0).lockout.level, 2);
    let refused = (0..100).find_map(|_| match store.decide(&key("t", "a"), at(10 * MINUTE)).0 {
        Verdict::Throttled(throttled) => Some(throttled),
        _ => None,
    });
    assert_eq!(refused.unwrap().strikes_left, Some(3));
    let mut verdicts = (0..100).map(|_| store.decide(&key("t", "a"), at(10 * MINUTE)).0);
    let tripped = verdicts.find(|v| matches!(v, Verdict::Boxed(_))).unwrap();
    assert_eq!(boxed(tripped).lockout.level, 2);
}

/// Memory that nobody can write.
struct Contended(Heap);

impl Memory for Contended {
    fn read(&self, name: &str) -> Option<Slot> {
        self.0.read(name)
    }

    fn write(&self, _: &str, _: &[u8], _: u32) -> Result<(), Changed> {
        Err(Changed)
    }
}

#[test]
fn too_contended_to_be_remembered_is_told_and_not_known() {
    let heap = Heap::default();
    open(heap.clone());
    let store = open(Contended(heap));
    let toll = store.remember(&key("t", "a"), in_box(ends(MINUTE)), NOW);
    assert!(toll.retries > 8, "{toll:?}");
    assert_eq!(store.known(&key("t", "a"), NOW, true), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whoever floods its page, a remembered box is in force to its end.
    #[test]
    fn no_flood_drops_a_remembered_box(
        room in 6..14usize,
        boxes in 1..3u8,
        asks in prop::collection::vec((0..40u8, 0..500u64), 1..200),
    ) {
        let size = 16 + 48 * room;
        let mut store = Local::open(Heap::default(), Bytes(size as u64), size, SECRET);
        let named = |n: u8| key(&format!("t{}", n % 5), &format!("k{n}"));
        for n in 0..boxes {
            let toll = store.remember(&named(n), in_box(ends(MINUTE)), NOW);
            prop_assert_eq!(toll, Toll::default());
        }
        let mut now = NOW;
        for (n, step) in asks {
            now = now.plus(Millis(step));
            let question = strictly(Strictness::Known, named(n));
            let (verdict, _) = store.decide(&question, now);
            let in_a_box = n < boxes && now < at(MINUTE);
            prop_assert_eq!(matches!(verdict, Verdict::Boxed(_)), in_a_box);
            for n in 0..boxes {
                let known = store.known(&named(n), now, true).is_some();
                prop_assert_eq!(known, now < at(MINUTE));
                let fresh = store.known(&named(n), now, false).is_some();
                prop_assert_eq!(fresh, now < at(10_000));
            }
        }
    }
}

#[test]
fn a_page_of_boxes_alone_tells_that_one_was_not_kept() {
    let size = 16 + 48 * 4;
    let store = Local::open(Heap::default(), Bytes(size as u64), size, SECRET);
    let tolls: Vec<u32> = (0..5u8)
        .map(|n| store.remember(&key("t", &format!("k{n}")), in_box(ends(MINUTE)), NOW))
        .map(|toll| toll.evictions)
        .collect();
    assert_eq!(tolls, [0, 0, 0, 1, 1]);
    assert!(PAGE_SIZE > size, "a real page holds 84 of them");
}

mod lockouts;
