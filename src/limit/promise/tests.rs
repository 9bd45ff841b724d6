//! Tests of `promise`: the formula, by hand and against whole numbers.

use proptest::prelude::*;
use tollgate_config::Millis;

use super::{Promise, Promised};
use crate::testing::meter;

const GRACE: Millis = Millis(1000);

/// A moment in milliseconds, as a promise.
fn moment(ms: u64) -> Promise {
    Promise(ms * 1000)
}

#[test]
fn refusals_are_told_one_moment_after_the_other() {
    let meter = meter(60, 60, 60);
    let now = Millis(1_000_000);
    // The bucket has a point again in 400 ms; a point takes a second.
    let mut promise = Promise::default();
    for wait in [400, 1400, 2400, 3400] {
        let promised = promise.refuse(&meter, now, Millis(400), 1, GRACE);
        let expected = Promised {
            last: moment(1_000_000 + wait),
            wait: Millis(wait),
            beyond: false,
        };
        assert_eq!(promised, expected);
        promise = promised.last;
    }
    // Later: the bucket's own wait is less than what was promised already.
    let later = promise.refuse(&meter, Millis(1_002_000), Millis(100), 1, GRACE);
    assert_eq!(later.last, moment(1_004_400));
    assert_eq!(later.wait, Millis(2400));
}

#[test]
fn a_dear_request_takes_its_cost_of_the_schedule() {
    let meter = meter(60, 60, 60);
    let now = Millis(50_000);
    let first = Promise::default().refuse(&meter, now, Millis(7000), 10, GRACE);
    assert_eq!(first.last, moment(57_000));
    let second = first.last.refuse(&meter, now, Millis(7000), 10, GRACE);
    assert_eq!(second.last, moment(67_000));
    let cheap = second.last.refuse(&meter, now, Millis(0), 1, GRACE);
    assert_eq!(cheap.last, moment(68_000));
}

#[test]
fn an_own_wait_later_than_the_schedule_is_the_moment() {
    let meter = meter(60, 60, 60);
    let promised = moment(50_500).refuse(&meter, Millis(50_000), Millis(9000), 1, GRACE);
    assert_eq!(promised.last, moment(59_000));
}

#[test]
fn where_only_the_tenant_is_empty_the_schedule_starts_now() {
    let meter = meter(60, 60, 60);
    let now = Millis(50_000);
    let promised = Promise::default().refuse(&meter, now, Millis(0), 1, GRACE);
    assert_eq!(promised.last, moment(50_000));
    assert_eq!(promised.wait, Millis(0));
    let next = promised.last.refuse(&meter, now, Millis(0), 1, GRACE);
    assert_eq!(next.last, moment(51_000));
}

#[test]
fn beyond_is_more_than_a_burst_and_the_grace() {
    let meter = meter(60, 60, 30);
    let now = Millis(50_000);
    // A burst takes 30 s, the grace is 1 s: 31 s are not beyond, a microsecond more is.
    let within = moment(81_000).refuse(&meter, now, Millis(500), 1, GRACE);
    assert!(!within.beyond);
    assert_eq!(within.last, moment(82_000));
    let last = Promise(81_000_001);
    let beyond = last.refuse(&meter, now, Millis(500), 1, GRACE);
    let expected = Promised {
        last,
        wait: Millis(31_001),
        beyond: true,
    };
    assert_eq!(beyond, expected);
    // It extends nothing, however often it happens; and a millisecond later it is within again.
    assert_eq!(last.refuse(&meter, now, Millis(500), 1, GRACE), expected);
    let later = last.refuse(&meter, Millis(50_001), Millis(500), 1, GRACE);
    assert!(!later.beyond);
}

#[test]
fn no_grace_is_no_grace() {
    let meter = meter(60, 60, 30);
    let now = Millis(50_000);
    let none = Millis(0);
    assert!(!moment(80_000).refuse(&meter, now, none, 1, none).beyond);
    assert!(
        Promise(80_000_001)
            .refuse(&meter, now, none, 1, none)
            .beyond
    );
}

#[test]
fn a_high_rate_does_not_round_the_spread_up() {
    // 100,000 a minute are 0.6 ms a point: a thousand refusals are spread over 600 ms, not a second.
    let meter = meter(100_000, 60, 100_000);
    let now = Millis(1_700_000_000_000);
    let mut promise = Promise::default();
    for _ in 0..1000 {
        promise = promise.refuse(&meter, now, Millis(1), 1, GRACE).last;
    }
    assert_eq!(promise, Promise(now.0 * 1000 + 1000 + 999 * 600));
}

#[test]
fn a_whole_number_of_microseconds_is_not_rounded() {
    // 857 points at 0.6 ms each, and a burst of 434; in floating point both miss by a microsecond.
    let meter = meter(100_000, 60, 434);
    let now = Millis(1000);
    let promised = moment(1000).refuse(&meter, now, Millis(0), 857, GRACE);
    assert_eq!(promised.last, Promise(1_000_000 + 514_200));
    let border = 1_000_000 + 260_400;
    let none = Millis(0);
    assert!(!Promise(border).refuse(&meter, now, none, 1, none).beyond);
    assert!(
        Promise(border + 1)
            .refuse(&meter, now, none, 1, none)
            .beyond
    );
}

#[test]
fn the_wait_told_is_never_before_the_moment() {
    let meter = meter(100_000, 60, 100_000);
    let now = Millis(10);
    let promised = Promise(10_600).refuse(&meter, now, Millis(1), 1, GRACE);
    assert_eq!(promised.last, Promise(11_200));
    assert_eq!(promised.wait, Millis(2));
}

#[test]
fn nothing_overflows_at_the_ends() {
    let meters = [
        meter(1, 31 * 86_400, 3_362_920),
        meter(1_000_000_000, 1, 1_000_000_000),
    ];
    for meter in meters {
        for promise in [0, 1, u64::MAX] {
            for now in [0, 1 << 56, u64::MAX] {
                for own in [0, u64::MAX] {
                    for cost in [0, meter.burst(), u64::MAX] {
                        let promise = Promise(promise);
                        let (now, own) = (Millis(now), Millis(own));
                        let _ = promise.refuse(&meter, now, own, cost, Millis(u64::MAX));
                        let _ = promise.is_past(now);
                    }
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn follows_the_formula(
        points in 1..=1_000_000u64,
        per in prop_oneof![Just(1u64), Just(60), Just(3600), Just(86_400)],
        burst in 1..=100_000u64,
        now in 0..1u64 << 42,
        own in 0..1_000_000u64,
        grace in 0..10_000u64,
        cost in 1..=100u64,
        ahead in 0..2200u128,
        nudge in -3..=3i64,
    ) {
        let meter = meter(points, per, burst);
        let us = |points: u64| u128::from(points) * u128::from(per) * 1_000_000;
        // Around the border: thousandths of burst/rate + grace, and a few microseconds.
        let border = us(burst) / u128::from(points) + u128::from(grace) * 1000;
        let now_us = now * 1000;
        // Further away than one more bucket no promise of these terms can be.
        let most = border + us(burst) / u128::from(points) - 3;
        let q = now_us + u64::try_from((border * ahead / 1000).min(most)).unwrap();
        let q = q.saturating_add_signed(nudge);
        let promised = Promise(q).refuse(&meter, Millis(now), Millis(own), cost, Millis(grace));

        let outstanding = u128::from(q.saturating_sub(now_us));
        // q - now > burst/rate + grace, multiplied by the rate.
        let beyond = outstanding * u128::from(points)
            > us(burst) + u128::from(grace) * 1000 * u128::from(points);
        prop_assert_eq!(promised.beyond, beyond);
        if beyond {
            prop_assert_eq!(promised.last, Promise(q));
        } else {
            let step = u64::try_from(us(cost).div_ceil(u128::from(points))).unwrap();
            prop_assert_eq!(promised.last.0, (now_us + own * 1000).max(q + step));
        }
        let told = (now + promised.wait.0) * 1000;
        prop_assert!(told >= promised.last.0, "told before the moment");
        prop_assert!(told < promised.last.0.max(now_us) + 1000, "told a millisecond late");
    }

    #[test]
    fn past_is_when_its_moment_has_come(q in 0..1u64 << 50, now in 0..1u64 << 40) {
        prop_assert_eq!(Promise(q).is_past(Millis(now)), q <= now * 1000);
    }
}

#[test]
fn a_promise_of_a_slower_limit_or_of_a_later_clock_binds_nobody() {
    // 60 an hour: the whole bucket is an hour; an hour was promised.
    let slow = meter(60, 3600, 60);
    let now = Millis(1_000_000);
    let mut promise = Promise::default();
    for _ in 0..60 {
        promise = promise.refuse(&slow, now, Millis(60_000), 1, GRACE).last;
    }
    assert_eq!(promise, moment(1_000_000 + 3_600_000));
    // Raised to 6000 a minute: the whole bucket is a minute; its next point is 10 ms away.
    let fast = meter(6000, 60, 6000);
    let promised = promise.refuse(&fast, now, Millis(10), 1, GRACE);
    assert_eq!(
        promised,
        Promised {
            last: moment(1_000_010),
            wait: Millis(10),
            beyond: false,
        }
    );
    // The furthest that these terms themselves lead to still counts: a bucket, the grace, a bucket.
    let furthest = moment(1_000_000 + 60_000 + 1000 + 60_000);
    assert!(furthest.refuse(&fast, now, Millis(10), 1, GRACE).beyond);
}
