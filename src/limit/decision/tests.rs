//! Tests of `decision`.

use proptest::prelude::*;
use tollgate_config::Millis;

use super::{Bucket, Holding, Outcome, Penalty, Strictness};
use crate::limit::bucket::{Level, Meter};
use crate::limit::penalty::{Lockout, Record, Terms};
use crate::limit::promise::Promise;
use crate::testing::meter;

const NOW: Millis = Millis(10_000_000);
const MINUTE: u64 = 60_000;

fn bucket(meter: Meter, left: u64, cost: u64) -> Bucket {
    Bucket {
        meter,
        level: Level::full(&meter, NOW).take(meter.burst() - left),
        cost,
    }
}

fn penalty(strictness: Strictness) -> Penalty {
    Penalty {
        terms: Terms {
            strikes: 3,
            within: Millis(MINUTE),
            offense_memory: Millis(24 * 60 * MINUTE),
            levels: [5, 60, 1440].map(|minutes| Millis(minutes * MINUTE)),
            max_level: 3,
        },
        record: Record::default(),
        strictness,
    }
}

/// A key of 60 a minute under a tenant of 120 a minute, with so many points left.
fn holding(key_left: u64, tenant_left: u64, cost: u64) -> Holding {
    Holding {
        first: bucket(meter(60, 60, 60), key_left, cost),
        promise: Promise::default(),
        grace: Millis(1000),
        second: Some(bucket(meter(120, 60, 120), tenant_left, cost)),
        penalty: penalty(Strictness::Enforced),
    }
}

fn left(bucket: &Bucket) -> u64 {
    bucket.level.remaining(&bucket.meter)
}

fn left_of_both(holding: &Holding) -> (u64, u64) {
    (left(&holding.first), left(&holding.second.unwrap()))
}

/// What is held, without the times at which it was looked at.
fn held(holding: &Holding) -> (Level, Promise, Option<Level>, Record) {
    let second = holding.second.map(|b| b.level);
    (
        holding.first.level,
        holding.promise,
        second,
        holding.penalty.record,
    )
}

/// Everything promised that can be, at `NOW`: the next refusal is a strike.
fn exhausted(strictness: Strictness) -> Holding {
    Holding {
        promise: Promise((NOW.0 + 61_000) * 1000 + 1),
        penalty: penalty(strictness),
        ..holding(0, 120, 1)
    }
}

const STRUCK_WAIT: Outcome = Outcome::Throttled {
    wait: Millis(61_001),
    would_box: None,
};

#[test]
fn both_are_debited_or_neither() {
    let mut both = holding(10, 10, 10);
    assert_eq!(both.decide(NOW), Outcome::Allowed);
    assert_eq!(left_of_both(&both), (0, 0));

    let mut key_short = holding(9, 120, 10);
    let wait = Millis(1000);
    assert_eq!(
        key_short.decide(NOW),
        Outcome::Throttled {
            wait,
            would_box: None
        }
    );
    assert_eq!(left_of_both(&key_short), (9, 120));

    let mut tenant_short = holding(60, 9, 10);
    let wait = Millis(500);
    assert_eq!(
        tenant_short.decide(NOW),
        Outcome::Throttled {
            wait,
            would_box: None
        }
    );
    assert_eq!(left_of_both(&tenant_short), (60, 9));
}

#[test]
fn each_bucket_takes_its_own_cost() {
    let mut holding = holding(60, 120, 10);
    holding.second = Some(bucket(meter(600, 60, 600), 600, 1));
    assert_eq!(holding.decide(NOW), Outcome::Allowed);
    assert_eq!(left_of_both(&holding), (50, 599));
}

#[test]
fn one_bucket_is_enough() {
    let mut holding = holding(1, 0, 1);
    holding.second = None;
    assert_eq!(holding.decide(NOW), Outcome::Allowed);
    let wait = Millis(1000);
    assert_eq!(
        holding.decide(NOW),
        Outcome::Throttled {
            wait,
            would_box: None
        }
    );
}

#[test]
fn what_is_taken_costs_a_point_of_each_instead_of_the_cost() {
    let mut holding = holding(30, 100, 20);
    assert_eq!(holding.decide_if(NOW, || false), Outcome::Taken);
    assert_eq!(left_of_both(&holding), (29, 99));
    assert_eq!(holding.promise, Promise::default());
    assert_eq!(holding.penalty.record, Record::default());
    assert_eq!(holding.decide_if(NOW, || true), Outcome::Allowed);
    assert_eq!(left_of_both(&holding), (9, 79));
}

#[test]
fn what_is_taken_matters_only_where_the_buckets_hold_the_cost() {
    let asked = || panic!("it was looked for in vain");
    for (key, tenant) in [(1, 100), (50, 1)] {
        let mut holding = holding(key, tenant, 2);
        let outcome = holding.decide_if(NOW, asked);
        assert!(matches!(outcome, Outcome::Throttled { .. }));
    }
    let mut boxed = exhausted(Strictness::Enforced);
    boxed.penalty.record.strikes = 2;
    boxed.penalty.record.window_ends = Millis(NOW.0 + 1000);
    for tripped in [true, false] {
        let outcome = boxed.decide_if(NOW, asked);
        assert!(matches!(outcome, Outcome::Boxed { tripped: t, .. } if t == tripped));
    }
}

#[test]
fn a_refusal_tells_the_later_of_its_moment_and_the_real_wait() {
    // The key is full, the tenant needs 30 s for 60 points: the key's schedule starts now.
    let mut holding = holding(60, 0, 60);
    let wait = Millis(30_000);
    assert_eq!(
        holding.decide(NOW),
        Outcome::Throttled {
            wait,
            would_box: None
        }
    );
    assert_eq!(holding.promise, Promise(NOW.0 * 1000));
    // The next moment is 60 points of the key's rate later, which is later than the real wait.
    let wait = Millis(60_000);
    assert_eq!(
        holding.decide(NOW),
        Outcome::Throttled {
            wait,
            would_box: None
        }
    );
}

#[test]
fn a_boxed_request_touches_nothing() {
    let mut holding = holding(60, 120, 1);
    let until = Millis(NOW.0 + 1);
    holding.penalty.record = Record {
        strikes: 2,
        window_ends: Millis(NOW.0 + 500),
        offenses: 2,
        remembered_until: Millis(NOW.0 + 5000),
        level: 2,
        boxed_until: until,
        by_throttle: false,
    };
    let before = held(&holding);
    let lockout = Lockout { level: 2, until };
    let boxed = Outcome::Boxed {
        lockout,
        tripped: false,
    };
    assert_eq!(holding.decide(NOW), boxed);
    assert_eq!(held(&holding), before);
    // An empty bucket makes no difference: no strike, no promise.
    let mut empty = Holding {
        promise: Promise(u64::MAX),
        ..holding
    };
    empty.first = bucket(empty.first.meter, 0, 1);
    let before = held(&empty);
    assert_eq!(empty.decide(NOW), boxed);
    assert_eq!(held(&empty), before);
    // At its end it is over.
    assert_eq!(holding.decide(until), Outcome::Allowed);
}

#[test]
fn the_request_that_trips_the_box_is_answered_as_boxed() {
    let mut holding = exhausted(Strictness::Enforced);
    assert_eq!(holding.decide(NOW), STRUCK_WAIT);
    assert_eq!(holding.decide(NOW), STRUCK_WAIT);
    assert_eq!(holding.penalty.record.strikes, 2);
    let lockout = Lockout {
        level: 1,
        until: Millis(NOW.0 + 5 * MINUTE),
    };
    assert_eq!(
        holding.decide(NOW),
        Outcome::Boxed {
            lockout,
            tripped: true
        }
    );
    // Strikes and promises are cleared, nothing was debited.
    assert_eq!(holding.promise, Promise::default());
    assert_eq!(holding.penalty.record.strikes, 0);
    assert_eq!(left_of_both(&holding), (0, 120));
    assert_eq!(
        holding.decide(NOW),
        Outcome::Boxed {
            lockout,
            tripped: false
        }
    );
}

#[test]
fn a_refusal_within_the_schedule_is_no_strike() {
    let mut holding = holding(0, 120, 1);
    // A burst of 60 and a second of grace: promises up to 61 s ahead can be extended.
    for _ in 0..62 {
        assert!(matches!(holding.decide(NOW), Outcome::Throttled { .. }));
        assert_eq!(holding.penalty.record.strikes, 0);
    }
    assert!(matches!(holding.decide(NOW), Outcome::Throttled { .. }));
    assert_eq!(holding.penalty.record.strikes, 1);
}

#[test]
fn an_admitted_request_is_no_strike_whatever_is_promised() {
    let mut holding = exhausted(Strictness::Enforced);
    holding.first = bucket(holding.first.meter, 1, 1);
    assert_eq!(holding.decide(NOW), Outcome::Allowed);
    assert_eq!(holding.penalty.record, Record::default());
}

#[test]
fn a_watched_box_neither_refuses_nor_clears_the_promise() {
    let mut holding = exhausted(Strictness::Watched);
    let promise = holding.promise;
    assert_eq!(holding.decide(NOW), STRUCK_WAIT);
    assert_eq!(holding.decide(NOW), STRUCK_WAIT);
    let lockout = Lockout {
        level: 1,
        until: Millis(NOW.0 + 5 * MINUTE),
    };
    let tripped = Outcome::Throttled {
        wait: Millis(61_001),
        would_box: Some(lockout),
    };
    assert_eq!(holding.decide(NOW), tripped);
    assert_eq!(holding.promise, promise);
    // In the box it would earn no strike; it is told of the trip once.
    let record = holding.penalty.record;
    for _ in 0..10 {
        assert_eq!(holding.decide(NOW), STRUCK_WAIT);
    }
    assert_eq!(holding.penalty.record, record);
    holding.first = bucket(holding.first.meter, 1, 1);
    assert_eq!(holding.decide(NOW), Outcome::Allowed);
    assert_eq!(left(&holding.first), 0);
}

#[test]
fn without_a_box_there_are_no_strikes_and_an_old_box_is_none() {
    let mut holding = exhausted(Strictness::Off);
    for _ in 0..10 {
        assert_eq!(holding.decide(NOW), STRUCK_WAIT);
    }
    assert_eq!(holding.penalty.record, Record::default());
    holding.penalty.record.boxed_until = Millis(u64::MAX);
    holding.first = bucket(holding.first.meter, 1, 1);
    assert_eq!(holding.decide(NOW), Outcome::Allowed);
}

#[test]
fn promises_from_before_the_clock_was_set_back_are_void() {
    let mut holding = exhausted(Strictness::Enforced);
    let back = Millis(NOW.0 - 3_600_000);
    let wait = Millis(1000);
    assert_eq!(
        holding.decide(back),
        Outcome::Throttled {
            wait,
            would_box: None
        }
    );
    assert_eq!(holding.penalty.record.strikes, 0);
}

#[test]
fn twice_the_refill_ends_in_the_box() {
    // 2.5 requests a second at 1 a second: the burst, then the promises, then the strikes.
    let mut holding = holding(60, 120, 1);
    let mut now = NOW;
    let boxed = (0..1000).find(|_| {
        now = now.plus(Millis(400));
        matches!(holding.decide(now), Outcome::Boxed { .. })
    });
    assert!(boxed.is_some());
}

/// Clients that each have one request at a time and come back when they were told to.
struct Fleet {
    holding: Holding,
    /// When each comes next.
    next: Vec<u64>,
}

impl Fleet {
    /// Lets the fleet run, `late` milliseconds after each moment it was told; how many were served.
    fn run(&mut self, visits: usize, mut late: impl FnMut(Millis) -> u64) -> u64 {
        let mut served = 0;
        for _ in 0..visits {
            let (client, now) = self
                .next
                .iter()
                .copied()
                .enumerate()
                .min_by_key(|c| c.1)
                .unwrap();
            self.next[client] = match self.holding.decide(Millis(now)) {
                Outcome::Allowed => {
                    served += self.holding.first.cost;
                    now + 1
                }
                Outcome::Throttled { wait, .. } => now + wait.0 + late(wait),
                Outcome::Boxed { .. } => panic!("boxed a fleet that waits when it is told to"),
                Outcome::Taken => panic!("it asked for nothing but points"),
            };
        }
        served
    }
}

fn fleet(meter: Meter, cost: u64, clients: usize) -> Fleet {
    Fleet {
        holding: Holding {
            first: bucket(meter, meter.burst(), cost),
            promise: Promise::default(),
            grace: Millis(1000),
            second: None,
            penalty: penalty(Strictness::Enforced),
        },
        next: vec![NOW.0; clients],
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// It waits for less than a burst of work, and honours Retry-After: never a strike.
    #[test]
    fn a_fleet_that_honours_its_waits_never_gets_a_strike(
        points in 1..300u64,
        per in prop_oneof![Just(1u64), Just(10), Just(60)],
        burst in 2..200u64,
        cost in 1..5u64,
        share in 1..100u64,
        jitter in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let cost = cost.min(burst / 2).max(1);
        let clients = ((burst - 1) / cost * share / 100).max(1);
        let mut fleet = fleet(meter(points, per, burst), cost, clients as usize);
        let mut random = seed | 1;
        fleet.run(3000, |wait| {
            // As clients are told: whole seconds, and up to a tenth more.
            let seconds = wait.ceil_secs().max(1);
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let spread = if jitter { random % (seconds / 10 + 1) } else { 0 };
            if jitter { (seconds + spread) * 1000 - wait.0 } else { 0 }
        });
        prop_assert_eq!(fleet.holding.penalty.record, Record::default());
    }

    /// Whatever is asked when: nothing is debited by a refusal, and all that is debited was admitted.
    #[test]
    fn all_or_nothing(
        asks in prop::collection::vec((0..5000u64, 1..=60u64), 1..100),
        strictness in prop_oneof![
            Just(Strictness::Enforced), Just(Strictness::Watched), Just(Strictness::Known),
            Just(Strictness::Off)
        ],
    ) {
        let mut holding = Holding { penalty: penalty(strictness), ..holding(60, 120, 1) };
        let mut now = NOW;
        for (step, cost) in asks {
            now = now.plus(Millis(step));
            holding.first.cost = cost;
            holding.second = holding.second.map(|second| Bucket { cost, ..second });
            let look = |b: &Bucket| b.level.seen(&b.meter, now);
            let (first, second) = (look(&holding.first), look(&holding.second.unwrap()));
            let before = held(&holding);
            let outcome = holding.decide(now);
            let (first_meter, second_meter) = (meter(60, 60, 60), meter(120, 60, 120));
            let fits = first.wait(&first_meter, cost) == Millis(0)
                && second.wait(&second_meter, cost) == Millis(0);
            let after = (look(&holding.first), look(&holding.second.unwrap()));
            match outcome {
                Outcome::Allowed => {
                    prop_assert!(fits);
                    prop_assert_eq!(after, (first.take(cost), second.take(cost)));
                    prop_assert_eq!(holding.promise, before.1);
                }
                Outcome::Throttled { wait, .. } => {
                    prop_assert!(!fits);
                    prop_assert_eq!(after, (first, second));
                    let real = first.wait(&first_meter, cost).max(second.wait(&second_meter, cost));
                    prop_assert!(wait >= real);
                }
                Outcome::Taken => prop_assert!(false, "it asked for nothing but points"),
                Outcome::Boxed { tripped, .. } => {
                    prop_assert_eq!(strictness, Strictness::Enforced);
                    if tripped {
                        prop_assert_eq!(after, (first, second));
                    } else {
                        prop_assert_eq!(held(&holding), before);
                    }
                }
            }
        }
    }
}

#[test]
fn a_known_box_refuses_but_nobody_is_struck() {
    let mut holding = exhausted(Strictness::Known);
    for _ in 0..100 {
        assert_eq!(holding.decide(NOW), STRUCK_WAIT);
    }
    assert_eq!(holding.penalty.record, Record::default());
    // One strike short of a box, left from the time when they were counted.
    holding.penalty.record = Record {
        strikes: 2,
        window_ends: Millis(NOW.0 + MINUTE),
        ..Record::default()
    };
    let before = held(&holding);
    assert_eq!(holding.decide(NOW), STRUCK_WAIT);
    assert_eq!(held(&holding), before);
    let lockout = Lockout {
        level: 3,
        until: Millis(NOW.0 + 1),
    };
    holding.penalty.record.remember(lockout, NOW);
    let before = held(&holding);
    let boxed = Outcome::Boxed {
        lockout,
        tripped: false,
    };
    assert_eq!(holding.decide(NOW), boxed);
    assert_eq!(held(&holding), before);
}

#[test]
fn without_strikes_only_boxes_that_refuse_are_left() {
    for (strictness, without) in [
        (Strictness::Enforced, Strictness::Known),
        (Strictness::Known, Strictness::Known),
        (Strictness::Watched, Strictness::Off),
        (Strictness::Off, Strictness::Off),
    ] {
        assert_eq!(strictness.without_strikes(), without);
        assert_eq!(without.refuses(), strictness.refuses());
    }
}
