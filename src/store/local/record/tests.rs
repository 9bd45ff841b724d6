//! Tests of `record`.

use proptest::prelude::*;
use tollgate_config::Millis;

use super::{Bucket, Entry, Kind, Name, SIZE, Worth};
use crate::limit::{bucket::Level, penalty, promise::Promise};

const BUCKETS: [Kind; 5] = [
    Kind::Key,
    Kind::Tenant,
    Kind::Ip,
    Kind::Anonymous,
    Kind::Overflow,
];

fn bucket() -> impl Strategy<Value = Bucket> {
    // As far as limits go: 10^9 a millisecond, 31 days in milliseconds a point, 2^53 in all.
    let units = (0..=1u64 << 53, 1..=2_678_400_000u64, 1..=1_000_000_000u64);
    (units, 0..1u64 << 56, any::<u64>()).prop_map(|((spent, unit, refill), at, promise)| Bucket {
        level: Level {
            spent,
            unit,
            refill,
            at: Millis(at),
        },
        promise: Promise(promise),
    })
}

fn held() -> impl Strategy<Value = penalty::Record> {
    let time = || 0..1u64 << 56;
    let times = (time(), time(), time());
    let rest = (any::<u8>(), any::<bool>());
    (times, any::<u32>(), any::<u32>(), rest).prop_map(
        |(
            (window_ends, remembered_until, boxed_until),
            strikes,
            offenses,
            (level, by_throttle),
        )| {
            penalty::Record {
                strikes,
                window_ends: Millis(window_ends),
                offenses,
                remembered_until: Millis(remembered_until),
                level,
                boxed_until: Millis(boxed_until),
                by_throttle,
            }
        },
    )
}

fn spent(spent: u64, at: u64, promise: u64) -> Entry {
    let name = Name {
        id: 1,
        kind: Kind::Key,
    };
    let level = Level {
        spent,
        unit: 20,
        refill: 1,
        at: Millis(at),
    };
    let promise = Promise(promise);
    Entry::of_bucket(name, &Bucket { level, promise })
}

proptest! {
    #[test]
    fn a_bucket_comes_back(id in any::<u128>(), bucket in bucket(), kind in 0..BUCKETS.len()) {
        let name = Name { id, kind: BUCKETS[kind] };
        let entry = Entry::read(&Entry::of_bucket(name, &bucket).bytes());
        prop_assert_eq!(entry.bucket(), Some(bucket));
        prop_assert_eq!(entry.penalty(), None);
        prop_assert!(entry.is(name));
        for other in BUCKETS.into_iter().filter(|other| *other != name.kind) {
            let other = Name { id, kind: other };
            prop_assert!(!entry.is(other));
        }
        let stranger = Name { id: id ^ 1 << 127, kind: name.kind };
        prop_assert!(!entry.is(stranger));
    }

    #[test]
    fn what_is_held_comes_back(id in any::<u128>(), held in held()) {
        let name = Name { id, kind: Kind::Penalty };
        let entry = Entry::read(&Entry::of_penalty(name, &held).bytes());
        prop_assert_eq!(entry.penalty(), Some(held));
        prop_assert_eq!(entry.bucket(), None);
        // A box in force and running strikes never make room; offenses may, as a last resort.
        let running = held.boxed_until.max(held.window_ends) > Millis(1000);
        prop_assert_eq!(entry.evictable(Millis(1000)).is_none(), running);
        prop_assert!(entry.is(name));
        let key = Name { id, kind: Kind::Key };
        prop_assert!(!entry.is(key));
    }

    #[test]
    fn any_bytes_are_an_entry(
        bytes in prop::collection::vec(any::<u8>(), SIZE), now in any::<u64>(),
    ) {
        let bytes: [u8; SIZE] = bytes.try_into().unwrap();
        let entry = Entry::read(&bytes);
        prop_assert_eq!(entry.bytes(), bytes);
        let _ = (entry.bucket(), entry.penalty(), entry.evictable(Millis(now)));
        let _ = entry.is_spent(Millis(now));
    }

    /// Times past the year 2,285,000 are as good as that year; the kind stays what it was.
    #[test]
    fn the_end_of_time_is_not_another_kind(at in any::<u64>(), held in held()) {
        let name = Name { id: 7, kind: Kind::Key };
        let level = Level { spent: 1, unit: 1, refill: 1, at: Millis(at) };
        let bucket = Bucket { level, promise: Promise(0) };
        let entry = Entry::of_bucket(name, &bucket);
        prop_assert!(entry.is(name));
        prop_assert_eq!(entry.bucket().unwrap().level.at, Millis(at.min((1 << 56) - 1)));
        let name = Name { id: 7, kind: Kind::Penalty };
        let far = penalty::Record { boxed_until: Millis(at), window_ends: Millis(at), ..held };
        let entry = Entry::of_penalty(name, &far);
        prop_assert!(entry.is(name));
        prop_assert_eq!(entry.penalty().unwrap().level, held.level);
    }
}

#[test]
fn a_bucket_says_nothing_once_it_is_full_and_its_promises_are_past() {
    // 1,000 units at one a millisecond from 5 s on: full at 6 s.
    assert!(!spent(1000, 5000, 0).is_spent(Millis(5999)));
    assert!(spent(1000, 5000, 0).is_spent(Millis(6000)));
    assert!(!spent(1000, 5000, 6_000_001).is_spent(Millis(6000)));
    assert!(spent(1000, 5000, 6_000_001).is_spent(Millis(6001)));
    // It matters until the later of the two: evicting it early would forget the promise.
    let worth = |bucket: Entry| bucket.evictable(Millis(0));
    assert_eq!(
        worth(spent(1000, 5000, 0)),
        Some(Worth::Bucket(Millis(6000)))
    );
    assert_eq!(
        worth(spent(1000, 5000, 9_000_001)),
        Some(Worth::Bucket(Millis(9001)))
    );
}

#[test]
fn what_is_held_says_nothing_once_it_is_clean() {
    let name = Name {
        id: 1,
        kind: Kind::Penalty,
    };
    let held = penalty::Record {
        remembered_until: Millis(500),
        ..penalty::Record::default()
    };
    let entry = Entry::of_penalty(name, &held);
    assert!(!entry.is_spent(Millis(499)));
    assert!(entry.is_spent(Millis(500)));
}

#[test]
fn the_overflow_bucket_makes_no_room() {
    let level = Level {
        spent: 0,
        unit: 1,
        refill: 1,
        at: Millis(0),
    };
    let bucket = Bucket {
        level,
        promise: Promise(0),
    };
    assert_eq!(
        Entry::of_bucket(Name::OVERFLOW, &bucket).evictable(Millis(0)),
        None
    );
}

#[test]
fn offenses_may_go_after_all_buckets_and_a_box_never() {
    let name = Name {
        id: 1,
        kind: Kind::Penalty,
    };
    let held = penalty::Record {
        offenses: 1,
        boxed_until: Millis(100),
        window_ends: Millis(300),
        remembered_until: Millis(500),
        ..penalty::Record::default()
    };
    let entry = Entry::of_penalty(name, &held);
    assert_eq!(entry.evictable(Millis(299)), None);
    assert_eq!(
        entry.evictable(Millis(300)),
        Some(Worth::Offenses(Millis(500)))
    );
    assert!(Worth::Bucket(Millis(u64::MAX)) < Worth::Offenses(Millis(0)));
    assert!(Worth::Note(Millis(u64::MAX)) < Worth::Bucket(Millis(0)));
}
