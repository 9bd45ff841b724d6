//! Tests of `page`.

use proptest::prelude::*;
use tollgate_config::{Limit, Millis, Points, Seconds};

use super::super::record::{Bucket, Kind, Name, SIZE};
use super::{HEAD, Page};
use crate::limit::bucket::{Level, Meter};
use crate::limit::penalty;
use crate::limit::promise::Promise;

const NOW: Millis = Millis(1_000_000);

/// 60 a minute, one a second.
fn meter() -> Meter {
    Meter::new(Limit {
        points: Points(60),
        per: Seconds(60),
        burst: Points(60),
    })
}

const fn key(id: u128) -> Name {
    let kind = Kind::Key;
    Name { id, kind }
}

const fn held(id: u128) -> Name {
    let kind = Kind::Penalty;
    Name { id, kind }
}

fn bucket(points_spent: u64) -> Bucket {
    Bucket {
        level: Level::full(&meter(), NOW).take(points_spent),
        promise: Promise::default(),
    }
}

fn boxed(until: u64) -> penalty::Record {
    penalty::Record {
        level: 1,
        boxed_until: Millis(until),
        ..penalty::Record::default()
    }
}

/// A page with room for so many entries.
fn page(room: usize) -> Page {
    Page::read([], HEAD + room * SIZE)
}

fn size(room: usize) -> usize {
    HEAD + room * SIZE
}

fn spent(page: &Page, name: Name, now: Millis) -> u64 {
    let level = page.bucket(name, &meter(), now).level;
    let level = level.seen(&meter(), now);
    60 - level.remaining(&meter())
}

/// Keeps a bucket where it is seated.
fn put(page: &mut Page, id: u128, points_spent: u64) -> Name {
    let seat = page.seat(key(id), &[], NOW);
    page.keep_bucket(seat, &bucket(points_spent));
    seat
}

/// A page of `room` where `room - 1` boxes take all places but the overflow bucket's.
fn full_of_boxes(room: usize) -> Page {
    let mut page = page(room);
    for id in 1..room as u128 {
        page.keep_penalty(held(id), &boxed(NOW.0 + 1000), &[], NOW);
    }
    page
}

#[test]
fn an_empty_page_holds_full_buckets_and_nothing_against_anybody() {
    let page = page(4);
    assert_eq!(spent(&page, key(1), NOW), 0);
    assert_eq!(page.penalty(held(1)), penalty::Record::default());
    assert_eq!(Page::read(page.clone().into_bytes(), size(4)), page);
}

#[test]
fn buckets_and_what_is_held_come_back() {
    let mut page = page(8);
    put(&mut page, 1, 10);
    put(&mut page, 2, 20);
    page.keep_penalty(held(1), &boxed(NOW.0 + 1), &[], NOW);
    put(&mut page, 1, 11);
    let page = Page::read(page.clone().into_bytes(), size(8));
    assert_eq!(page.bucket(key(1), &meter(), NOW), bucket(11));
    assert_eq!(page.bucket(key(2), &meter(), NOW), bucket(20));
    assert_eq!(page.penalty(held(1)), boxed(NOW.0 + 1));
    assert_eq!(page.penalty(held(2)), penalty::Record::default());
    assert_eq!(page.clone().into_bytes().len(), HEAD + 3 * SIZE);
}

#[test]
fn one_id_holds_a_bucket_of_every_kind() {
    let mut page = page(8);
    let kinds = [Kind::Key, Kind::Tenant, Kind::Ip, Kind::Anonymous];
    for (points, kind) in kinds.into_iter().enumerate() {
        let name = Name { id: 9, kind };
        let seat = page.seat(name, &[], NOW);
        page.keep_bucket(seat, &bucket(points as u64));
    }
    for (points, kind) in kinds.into_iter().enumerate() {
        assert_eq!(spent(&page, Name { id: 9, kind }, NOW), points as u64);
    }
}

#[test]
fn bytes_of_another_layout_or_length_are_an_empty_page() {
    let mut full = page(4);
    put(&mut full, 1, 10);
    let good = full.clone().into_bytes();
    assert_eq!(Page::read(good.clone(), size(4)), full);
    let mut other = good.clone();
    other[0] = 2;
    let mut longer = good.clone();
    longer.push(0);
    let shorter = &good[..good.len() - 1];
    let headless = &good[..HEAD - 1];
    let too_many = [&good[..], &[0; 4 * SIZE]].concat();
    for bad in [&other[..], &longer, shorter, headless, &too_many, &[]] {
        assert_eq!(Page::read(bad, size(4)), page(4));
    }
}

#[test]
fn what_says_nothing_any_more_goes_first_and_raises_no_floor() {
    let mut page = page(4);
    put(&mut page, 1, 50);
    put(&mut page, 2, 1);
    put(&mut page, 3, 40);
    // After a second the second bucket is full.
    let later = NOW.plus(Millis(1000));
    assert_eq!(page.seat(key(4), &[], later), key(4));
    assert_eq!(page.evictions(), 0);
    assert_eq!(spent(&page, key(1), later), 49);
    assert_eq!(spent(&page, key(3), later), 39);
    assert_eq!(spent(&page, key(2), later), 0);
    assert_eq!(spent(&page, key(4), later), 0);
}

#[test]
fn a_full_bucket_with_promises_outstanding_still_says_something() {
    let mut page = page(4);
    let promise = Promise((NOW.0 + 5000) * 1000);
    page.keep_bucket(
        key(1),
        &Bucket {
            promise,
            ..bucket(0)
        },
    );
    put(&mut page, 2, 30);
    page.keep_penalty(held(1), &boxed(NOW.0), &[], NOW);
    // What was held is over: it goes, not the promise.
    assert_eq!(page.seat(key(3), &[], NOW), key(3));
    assert_eq!(page.penalty(held(1)), penalty::Record::default());
    assert_eq!(page.bucket(key(1), &meter(), NOW).promise, promise);
}

#[test]
fn then_the_fullest_bucket_goes_and_nobody_starts_fuller() {
    let mut page = page(4);
    put(&mut page, 1, 50);
    put(&mut page, 2, 20);
    put(&mut page, 3, 40);
    assert_eq!(page.seat(key(4), &[], NOW), key(4));
    assert_eq!(page.evictions(), 1);
    assert_eq!(spent(&page, key(1), NOW), 50);
    assert_eq!(spent(&page, key(3), NOW), 40);
    // Neither who takes its place nor who was sent away.
    assert_eq!(spent(&page, key(4), NOW), 20);
    assert_eq!(spent(&page, key(2), NOW), 20);
    let again = Page::read(page.clone().into_bytes(), size(4));
    assert_eq!(spent(&again, key(2), NOW.plus(Millis(5000))), 15);
    assert_eq!(spent(&again, key(2), NOW.plus(Millis(20_000))), 0);
}

#[test]
fn the_floor_never_sinks() {
    let mut page = page(3);
    put(&mut page, 1, 30);
    put(&mut page, 2, 40);
    put(&mut page, 3, 35);
    assert_eq!(spent(&page, key(9), NOW), 30);
    // 2 and 3 are there; a bucket fuller than the floor is sent away next.
    page.keep_bucket(key(3), &bucket(5));
    put(&mut page, 4, 60);
    assert_eq!(spent(&page, key(3), NOW), 30);
}

#[test]
fn the_others_of_a_request_make_no_room_for_it() {
    let mut page = page(4);
    put(&mut page, 1, 1);
    put(&mut page, 2, 2);
    put(&mut page, 3, 3);
    let others = [key(1), key(2)];
    assert_eq!(page.seat(key(4), &others, NOW), key(4));
    assert_eq!(spent(&page, key(1), NOW), 1);
    assert_eq!(spent(&page, key(2), NOW), 2);
    // With a second of patience 1 says nothing any more, and still it stays.
    let later = NOW.plus(Millis(1000));
    page.keep_bucket(key(4), &bucket(4));
    page.seat(key(5), &[key(1), key(2)], later);
    let level = page.bucket(key(1), &meter(), later).level;
    assert_eq!(level.spent, bucket(1).level.spent);
    // Nor does what is held against the same owner push them out.
    page.keep_bucket(key(5), &bucket(5));
    let all = [key(1), key(2), key(5)];
    page.keep_penalty(held(1), &boxed(NOW.0 + 5000), &all, NOW);
    assert_eq!(spent(&page, key(1), NOW), 1);
    assert_eq!(page.bucket(key(2), &meter(), NOW), bucket(2));
    assert_eq!(page.bucket(key(5), &meter(), NOW), bucket(5));
}

#[test]
fn what_is_held_makes_no_room_for_anything() {
    let mut page = full_of_boxes(5);
    for id in 10..60 {
        assert_eq!(put(&mut page, id, 1), Name::OVERFLOW);
        page.keep_penalty(held(id), &boxed(NOW.0 + 1000), &[], NOW);
    }
    for id in 1..5 {
        assert_eq!(page.penalty(held(id)), boxed(NOW.0 + 1000));
    }
    assert!(page.clone().into_bytes().len() <= size(5));
    // What could not be kept is counted.
    assert_eq!(page.evictions(), 50);
}

#[test]
fn running_strikes_stay_and_offenses_go_last() {
    let mut page = page(3);
    let struck = penalty::Record {
        strikes: 1,
        window_ends: Millis(NOW.0 + 10),
        ..penalty::Record::default()
    };
    let offender = penalty::Record {
        offenses: 1,
        remembered_until: Millis(NOW.0 + 20),
        ..penalty::Record::default()
    };
    page.keep_penalty(held(1), &struck, &[], NOW);
    page.keep_penalty(held(2), &offender, &[], NOW);
    // The offenses make room for a bucket, the strikes do not, and then nothing can.
    assert_eq!(page.seat(key(3), &[], NOW), key(3));
    assert_eq!(page.seat(key(4), &[key(3)], NOW), Name::OVERFLOW);
    assert_eq!(page.penalty(held(2)), penalty::Record::default());
    assert_eq!(page.penalty(held(1)), struck);
}

#[test]
fn a_penalty_takes_the_place_of_a_bucket() {
    let mut page = page(3);
    put(&mut page, 1, 30);
    put(&mut page, 2, 10);
    page.keep_penalty(held(7), &boxed(NOW.0 + 1000), &[], NOW);
    assert_eq!(page.penalty(held(7)), boxed(NOW.0 + 1000));
    assert_eq!(spent(&page, key(1), NOW), 30);
    assert_eq!(spent(&page, key(2), NOW), 10);
}

#[test]
fn newcomers_to_a_page_without_room_share_one_bucket() {
    let mut page = full_of_boxes(4);
    let seat = page.seat(key(10), &[], NOW);
    assert_eq!(seat, Name::OVERFLOW);
    page.keep_bucket(seat, &bucket(59));
    let seat = page.seat(key(11), &[], NOW);
    assert_eq!(seat, Name::OVERFLOW);
    assert_eq!(spent(&page, seat, NOW), 59);
    assert_eq!(page.clone().into_bytes().len(), size(4));
}

#[test]
fn who_shares_neither_refills_the_shared_bucket_nor_hears_of_the_promises_of_others() {
    let mut page = full_of_boxes(4);
    // A bucket of 3,000 a minute is empty: full again in a minute.
    let large = Meter::new(Limit {
        points: Points(3000),
        per: Seconds(60),
        burst: Points(3000),
    });
    let empty = Bucket {
        level: Level::full(&large, NOW).take(3000),
        promise: Promise((NOW.0 + 90_000) * 1000),
    };
    page.keep_bucket(Name::OVERFLOW, &empty);
    // One of 10 a minute with a burst of 5 looks in: full again in half a minute.
    let small = Meter::new(Limit {
        points: Points(10),
        per: Seconds(60),
        burst: Points(5),
    });
    let seen = page.bucket(Name::OVERFLOW, &small, NOW);
    assert_eq!(seen.level.remaining(&small), 0);
    assert_eq!(seen.promise, Promise::default());
    page.keep_bucket(Name::OVERFLOW, &seen);
    let back = page.bucket(Name::OVERFLOW, &large, NOW).level;
    assert_eq!(back.remaining(&large), 0);
    assert_eq!(back.reset(&large), Millis(60_000));
}

#[test]
fn sent_away_and_then_without_a_place_is_no_refill() {
    let mut page = page(4);
    for id in 1..3 {
        page.keep_penalty(held(id), &boxed(NOW.0 + 1000), &[], NOW);
    }
    // The shared bucket is there, and nearly full.
    page.keep_bucket(Name::OVERFLOW, &bucket(1));
    put(&mut page, 5, 60);
    // A box takes the place of the empty bucket; its owner comes back to the shared one.
    page.keep_penalty(held(3), &boxed(NOW.0 + 1000), &[], NOW);
    let seat = page.seat(key(5), &[], NOW);
    assert_eq!(seat, Name::OVERFLOW);
    assert_eq!(spent(&page, seat, NOW), 60);
}

#[test]
fn a_place_of_its_own_after_the_shared_one_is_no_refill() {
    let mut page = full_of_boxes(4);
    let seat = page.seat(key(5), &[], NOW);
    page.keep_bucket(seat, &bucket(60));
    // The boxes end, and there is room again.
    let later = NOW.plus(Millis(1000));
    assert_eq!(page.seat(key(5), &[], later), key(5));
    assert_eq!(spent(&page, key(5), later), 59);
}

#[test]
fn two_newcomers_of_one_request_fit_together() {
    // Key and tenant are both seated before either is kept.
    for kept in 0..6 {
        let mut page = page(6);
        for id in 0..kept {
            page.keep_penalty(held(100 + id), &boxed(NOW.0 + 1000), &[], NOW);
        }
        let others = [key(1), key(2), held(1)];
        let first = page.seat(key(1), &others, NOW);
        let second = page.seat(key(2), &others, NOW);
        page.keep_bucket(first, &bucket(1));
        page.keep_bucket(second, &bucket(1));
        page.keep_penalty(held(1), &boxed(NOW.0 + 1000), &others, NOW);
        // And then somebody who has to share.
        let third = page.seat(key(3), &others, NOW);
        page.keep_bucket(third, &bucket(1));
        assert!(
            page.clone().into_bytes().len() <= size(6),
            "with {kept} boxes before"
        );
        for id in 0..kept {
            assert_eq!(page.penalty(held(100 + id)), boxed(NOW.0 + 1000));
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_page(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        layout in any::<bool>(),
        id in any::<u128>(),
        now in any::<u64>(),
    ) {
        let mut bytes = bytes;
        if let (true, Some(first)) = (layout, bytes.first_mut()) {
            *first = super::LAYOUT;
        }
        let mut page = Page::read(bytes.clone(), size(5));
        prop_assert_eq!(&Page::read(page.clone().into_bytes(), size(5)), &page);
        let seat = page.seat(key(id), &[], Millis(now));
        let kept = page.bucket(seat, &meter(), Millis(now));
        let _ = kept.level.seen(&meter(), Millis(now)).take(1);
        page.keep_bucket(seat, &kept);
        let held = page.penalty(held(id));
        page.keep_penalty(super::Name { id, kind: Kind::Penalty }, &held, &[], Millis(now));
        prop_assert!(page.clone().into_bytes().len() <= size(5));
    }

    #[test]
    fn any_size_is_respected(
        size in 0..800usize,
        ids in prop::collection::vec((0..12u128, any::<[bool; 2]>(), 0..60u64), 0..60),
    ) {
        let mut page = Page::read([], size);
        for (id, [penalised, two], points) in ids {
            // One bucket is met or two; they are seated before either is kept.
            let others = if two { vec![key(id), key(id + 100), held(id)] } else { vec![key(id), held(id)] };
            let first = page.seat(key(id), &others, NOW);
            let second = two.then(|| page.seat(key(id + 100), &others, NOW));
            page.keep_bucket(first, &bucket(points));
            if let Some(second) = second {
                page.keep_bucket(second, &bucket(points));
            }
            if penalised {
                page.keep_penalty(held(id), &boxed(NOW.0 + 1), &others, NOW);
            }
            prop_assert!(page.clone().into_bytes().len() <= size.max(HEAD + SIZE));
            page = Page::read(page.clone().into_bytes(), size);
        }
    }
}
