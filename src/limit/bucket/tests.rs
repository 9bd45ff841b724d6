//! Tests of `bucket`, against a model in fractions of a point that are never rounded.

use proptest::prelude::*;
use tollgate_config::{Limit, Millis, Points, Seconds};

use super::{Level, Meter};
use crate::testing::meter;

fn limit(points: u64, per: u64, burst: u64) -> Limit {
    Limit {
        points: Points(points),
        per: Seconds(per),
        burst: Points(burst),
    }
}

fn at(level: &Level, meter: &Meter, now: u64) -> Level {
    level.seen(meter, Millis(now))
}

/// A bucket that counts in `per`-in-ms-ths of a point: a millisecond refills `points` of them.
struct Model {
    points: u128,
    point: u128,
    burst: u128,
    spent: u128,
    now: u128,
}

impl Model {
    fn new(limit: Limit, now: u64) -> Self {
        Self {
            points: limit.points.0.into(),
            point: u128::from(limit.per.0) * 1000,
            burst: limit.burst.0.into(),
            spent: 0,
            now: now.into(),
        }
    }

    fn advance(&mut self, now: u64) {
        let gained = (u128::from(now) - self.now) * self.points;
        self.spent = self.spent.saturating_sub(gained);
        self.now = now.into();
    }

    fn admits(&self, cost: u64) -> bool {
        self.spent + u128::from(cost) * self.point <= self.burst * self.point
    }

    fn wait(&self, cost: u64) -> u128 {
        let needed = self.spent + u128::from(cost) * self.point;
        needed
            .saturating_sub(self.burst * self.point)
            .div_ceil(self.points)
    }

    fn remaining(&self) -> u128 {
        let whole = (self.burst * self.point - self.spent) / self.point;
        whole.min(self.points)
    }

    fn reset_secs(&self) -> u128 {
        self.spent.div_ceil(self.points * 1000)
    }
}

/// Rates people write, odd ones, and the ends of what a configuration accepts (2^53 units a burst).
fn limits() -> impl Strategy<Value = Limit> {
    let rate = prop_oneof![
        Just((7, 60)),
        Just((999_983, 86_400)),
        Just((100_000, 60)),
        Just((3000, 60)),
        Just((60, 60)),
        Just((1, 1)),
        Just((1, 31 * 86_400)),
        Just((999_999_937, 1)),
        Just((1_000_000_000, 86_400)),
        (1..=1_000_000_000u64, 1..=31 * 86_400u64),
        (1..=200u64, 1..=120u64),
    ];
    let share = prop_oneof![Just(1u64), 1..=200u64, 1..=1_000_000_000u64];
    (rate, share).prop_map(|((points, per), burst)| {
        let (_, unit) = limit(points, per, 1).unit();
        limit(points, per, burst.min((1 << 53) / unit).max(1))
    })
}

#[test]
fn three_thousand_a_minute_by_hand() {
    let meter = meter(3000, 60, 3000);
    let full = Level::full(&meter, Millis(0));
    assert_eq!(full.wait(&meter, 3000), Millis(0));
    assert_eq!(full.wait(&meter, 3001), Millis(20));
    let level = full.take(600);
    assert_eq!(level.remaining(&meter), 2400);
    assert_eq!(level.reset(&meter), Millis(12_000));
    let later = at(&level, &meter, 11_981);
    assert_eq!(later.remaining(&meter), 2999);
    assert_eq!(later.reset(&meter).ceil_secs(), 1);
    let whole = at(&level, &meter, 12_000);
    assert_eq!(whole.remaining(&meter), 3000);
    assert_eq!(whole.reset(&meter), Millis(0));
}

#[test]
fn seven_a_minute_by_hand() {
    let meter = meter(7, 60, 7);
    let empty = Level::full(&meter, Millis(0)).take(7);
    // 60,000 / 7 = 8,571.4 ms a point.
    assert_eq!(empty.wait(&meter, 1), Millis(8572));
    assert_eq!(at(&empty, &meter, 8571).wait(&meter, 1), Millis(1));
    let one = at(&empty, &meter, 8572);
    assert_eq!(one.wait(&meter, 1), Millis(0));
    assert_eq!(one.remaining(&meter), 1);
    // 420,000 - 8,572 x 7 of 7 a millisecond are left: 51,428 ms.
    assert_eq!(one.reset(&meter), Millis(51_428));
    // The fractions of seven points are not lost: all are there after exactly a minute.
    assert_eq!(at(&one, &meter, 59_999).wait(&meter, 7), Millis(1));
    assert_eq!(at(&one, &meter, 60_000).wait(&meter, 7), Millis(0));
}

#[test]
fn a_burst_larger_than_the_rate_is_never_shown_above_the_limit() {
    let meter = meter(60, 60, 300);
    let full = Level::full(&meter, Millis(0));
    assert_eq!(full.remaining(&meter), 60);
    assert_eq!(full.wait(&meter, 300), Millis(0));
    assert_eq!(full.take(239).remaining(&meter), 60);
    assert_eq!(full.take(241).remaining(&meter), 59);
    assert_eq!(full.take(300).reset(&meter), Millis(300_000));
}

#[test]
fn a_burst_smaller_than_the_rate_is_what_remains() {
    let meter = meter(600, 60, 10);
    let full = Level::full(&meter, Millis(0));
    assert_eq!(full.remaining(&meter), 10);
    assert_eq!(full.take(10).reset(&meter), Millis(1000));
}

#[test]
fn a_changed_limit_keeps_what_is_spent() {
    let ten = meter(10, 60, 10);
    let level = Level::full(&ten, Millis(0)).take(4);
    let twenty = meter(20, 60, 20);
    assert_eq!(at(&level, &twenty, 0).remaining(&twenty), 16);
    let five = meter(5, 60, 5);
    assert_eq!(at(&level, &five, 0).remaining(&five), 1);
    let three = meter(3, 60, 3);
    assert_eq!(at(&level, &three, 0).remaining(&three), 0);
    assert_eq!(at(&level, &three, 0).reset(&three), Millis(60_000));
    // Not refilled by going there and back.
    let there_and_back = at(&at(&level, &twenty, 0), &ten, 0);
    assert_eq!(there_and_back.remaining(&ten), 6);
}

#[test]
fn a_changed_limit_keeps_the_last_point_of_large_numbers() {
    // Products above 2^53: one unit too many would be one point too few.
    let slow = meter(5, 59, 79_143_899);
    let level = Level::full(&slow, Millis(0)).take(72_811_799);
    let fine = meter(999_983, 86_400, 79_143_260);
    let left = 79_143_260 - 72_811_799;
    assert_eq!(at(&level, &fine, 0).wait(&fine, left), Millis(0));
    assert!(at(&level, &fine, 0).wait(&fine, left + 1) > Millis(0));
}

#[test]
fn time_before_a_limit_changed_counts_once() {
    let ten = meter(10, 10, 10);
    let level = Level::full(&ten, Millis(0)).take(10);
    let twenty = meter(20, 20, 20);
    let seen = at(&level, &twenty, 3000);
    assert_eq!(seen.remaining(&twenty), 13);
    assert_eq!(at(&seen, &twenty, 3000).remaining(&twenty), 13);
}

#[test]
fn a_clock_set_back_neither_freezes_nor_fills_a_bucket() {
    let meter = meter(60, 60, 60);
    let level = Level::full(&meter, Millis(1_000_000)).take(30);
    let back = at(&level, &meter, 10_000);
    assert!(level.clock_set_back(Millis(10_000)));
    assert_eq!(back.remaining(&meter), 30);
    assert_eq!(at(&back, &meter, 15_000).remaining(&meter), 35);
}

#[test]
fn a_worker_that_is_late_refills_nothing_twice() {
    let meter = meter(60, 60, 60);
    let level = Level::full(&meter, Millis(100_000)).take(60);
    let late = at(&level, &meter, 99_000);
    assert!(!level.clock_set_back(Millis(99_000)));
    assert_eq!(late.remaining(&meter), 0);
    // As of 100 s it was empty: at 101 s it has 1 point, whatever was asked at 99 s.
    assert_eq!(at(&late, &meter, 101_000).remaining(&meter), 1);
}

#[test]
fn nothing_overflows_at_the_ends() {
    let ends = [
        (1, 1, 1),
        (1_000_000_000, 1, 1_000_000_000),
        (1_000_000_000, 31 * 86_400, 1_000_000_000),
        (1, 31 * 86_400, 3_362_902),
        (999_999_937, 31 * 86_400, 3_362_902),
        (999_999_937, 1, 1_000_000_000),
    ];
    for (points, per, burst) in ends {
        let meter = meter(points, per, burst);
        assert!(
            burst * meter.unit() <= 1 << 53,
            "a configuration would refuse it"
        );
        for now in [0, 1, u64::MAX - 1, u64::MAX] {
            let full = Level::full(&meter, Millis(now));
            for cost in [0, 1, burst, 1_000_000_000, u64::MAX] {
                let level = full.take(cost);
                for later in [0, now, u64::MAX] {
                    let seen = at(&level, &meter, later);
                    assert!(seen.remaining(&meter) <= burst);
                    let _ = (seen.wait(&meter, cost), seen.reset(&meter));
                    let _ = (seen.fills_at(), seen.give_back(cost));
                }
            }
            let _ = Level::full_at(&meter, Millis(now), Millis(u64::MAX));
        }
    }
}

proptest! {
    #[test]
    fn agrees_with_the_model_at_every_step(
        limit in limits(),
        start in 0..1u64 << 45,
        steps in prop::collection::vec((step(), 0u64..=100, any::<bool>()), 1..60),
    ) {
        let meter = Meter::new(limit);
        let mut level = Level::full(&meter, Millis(start));
        let mut model = Model::new(limit, start);
        let (mut now, mut admitted) = (start, 0u128);
        for (step, percent, greedy) in steps {
            now += match step {
                Step::Millis(ms) => ms,
                // A share of the time the whole burst takes.
                Step::Share(thousandths) => {
                    let whole = u128::from(limit.burst.0) * u128::from(limit.per.0) * 1000
                        / u128::from(limit.points.0);
                    u64::try_from(whole * thousandths / 1000).unwrap()
                }
            };
            model.advance(now);
            level = at(&level, &meter, now);
            let whole = u64::try_from(model.remaining()).unwrap();
            let cost = if greedy { whole.max(1) } else { (limit.burst.0 * percent / 100).max(1) };

            prop_assert_eq!(u128::from(level.remaining(&meter)), model.remaining());
            prop_assert_eq!(u128::from(level.reset(&meter).ceil_secs()), model.reset_secs());
            let wait = level.wait(&meter, cost);
            prop_assert_eq!(u128::from(wait.0), model.wait(cost));
            prop_assert_eq!(wait == Millis(0), model.admits(cost));

            if wait == Millis(0) {
                level = level.take(cost);
                model.spent += u128::from(cost) * model.point;
                admitted += u128::from(cost);
            } else {
                prop_assert_eq!(at(&level, &meter, now + wait.0).wait(&meter, cost), Millis(0));
                prop_assert!(at(&level, &meter, now + wait.0 - 1).wait(&meter, cost) > Millis(0));
            }
            let elapsed = u128::from(now - start);
            prop_assert!(
                admitted * model.point <= model.burst * model.point + elapsed * model.points
            );
        }
    }

    /// The bound holds with workers whose clocks differ by less than a second.
    #[test]
    fn workers_with_different_clocks_admit_no_more(
        limit in limits(),
        asks in prop::collection::vec((0u64..3000, 0u64..=1000), 1..100),
    ) {
        let meter = Meter::new(limit);
        let start = 1_000_000;
        let mut level = Level::full(&meter, Millis(start));
        let (mut clock, mut admitted) = (start, 0u128);
        for (step, late) in asks {
            clock += step;
            level = at(&level, &meter, (clock - late).max(start));
            let cost = level.remaining(&meter).max(1);
            if level.wait(&meter, cost) == Millis(0) {
                level = level.take(cost);
                admitted += u128::from(cost);
            }
            let model = Model::new(limit, start);
            let elapsed = u128::from(clock - start);
            prop_assert!(
                admitted * model.point <= model.burst * model.point + elapsed * model.points
            );
        }
    }

    #[test]
    fn points_spent_are_points_spent_under_any_other_limit(
        before in limits(), after in limits(), share in 0u64..=100,
    ) {
        let (old, new) = (Meter::new(before), Meter::new(after));
        let spent = before.burst.0.min(after.burst.0) * share / 100;
        let level = Level::full(&old, Millis(5)).take(spent);
        let seen = at(&level, &new, 5);
        prop_assert_eq!(seen.remaining(&new), (after.burst.0 - spent).min(after.points.0));
        let left = after.burst.0 - spent;
        prop_assert_eq!(seen.wait(&new, left), Millis(0));
        prop_assert!(seen.wait(&new, left + 1) > Millis(0));
    }

    #[test]
    fn taking_and_giving_back_changes_nothing(
        limit in limits(), spent in 0u64..=100, cost in 0u64..=100,
    ) {
        let meter = Meter::new(limit);
        let level = Level::full(&meter, Millis(9)).take(limit.burst.0 * spent / 100);
        // What is admitted fits, and only beyond that units are cut.
        let left = limit.burst.0 - limit.burst.0 * spent / 100;
        let cost = (limit.burst.0 * cost / 100).min(left);
        prop_assert_eq!(level.take(cost).give_back(cost), level);
        // Never above full.
        prop_assert_eq!(level.give_back(limit.burst.0).spent, 0);
    }

    /// What a page remembers of an evicted bucket, the moment it is full, refills nobody.
    #[test]
    fn started_from_its_full_moment_a_bucket_is_never_fuller(
        limit in limits(), spent in 0u64..=100, early in 0u64..10_000, later in 0u64..100_000,
    ) {
        let meter = Meter::new(limit);
        let level = Level::full(&meter, Millis(0)).take(limit.burst.0 * spent / 100);
        let level = at(&level, &meter, early);
        let now = early + later;
        let again = Level::full_at(&meter, Millis(now), level.fills_at());
        let kept = at(&level, &meter, now);
        prop_assert!(again.spent >= kept.spent);
        prop_assert!(again.spent - kept.spent < meter.refill(), "less than a millisecond emptier");
    }
}

#[derive(Debug, Clone)]
enum Step {
    Millis(u64),
    Share(u128),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Millis(0)),
        (1..5u64).prop_map(Step::Millis),
        (0..100_000u64).prop_map(Step::Millis),
        (0..1200u128).prop_map(Step::Share),
    ]
}

#[test]
fn a_look_through_a_small_limit_forgives_nothing_of_a_large_one() {
    let (large, small) = (meter(1000, 3600, 1000), meter(10, 3600, 10));
    let now = Millis(1_000_000);
    let spent = Level::full(&large, now).take(1000);
    // Refused under the small limit: what is kept is what was spent.
    let kept = spent.kept(&small, now);
    assert_eq!(kept.seen(&small, now).remaining(&small), 0);
    assert_eq!(kept.seen(&large, now).remaining(&large), 0);
    // The small one promises its own wait and keeps it: 6 minutes a point.
    let wait = kept.seen(&small, now).wait(&small, 1);
    assert_eq!(wait, Millis(360_000));
    let later = now.plus(wait);
    assert_eq!(kept.seen(&small, later).wait(&small, 1), Millis(0));
    let charged = kept.charged(&small, later, 1);
    assert_eq!(charged.seen(&small, later).wait(&small, 1), Millis(360_000));
}

proptest! {
    /// However two limits take turns on one bucket, no more passes than the larger of each allows.
    #[test]
    fn two_limits_in_turns_admit_no_more_than_the_larger(
        turns in prop::collection::vec((any::<bool>(), 0u64..20_000, 1u64..20), 1..200),
    ) {
        let (large, small) = (meter(60, 60, 100), meter(60, 60, 10));
        let start = 1_000_000;
        let mut level = Level::full(&large, Millis(start));
        let (mut now, mut admitted) = (start, 0);
        for (is_large, step, cost) in turns {
            now += step;
            let meter = if is_large { &large } else { &small };
            if level.seen(meter, Millis(now)).wait(meter, cost) == Millis(0) {
                level = level.charged(meter, Millis(now), cost);
                admitted += cost;
            } else {
                level = level.kept(meter, Millis(now));
            }
            prop_assert!(admitted * 1000 <= 100_000 + (now - start));
        }
    }
}
