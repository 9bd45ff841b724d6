//! Tests of `partly`.

use tollgate_config::Millis;

use super::{MOST, Partly, Untold};
use crate::attempt::Sign;
use crate::hold::HoldId;
use crate::limit::penalty::Lockout;
use crate::store::{Kept, Leg};

fn told(id: u64, leg: Leg) -> Partly {
    let mut one = Partly::new(HoldId(id));
    one.add(leg, Kept::silently(false));
    one
}

#[test]
fn who_was_told_is_known_until_all_are() {
    let mut untold = Untold::default();
    untold.put(told(1, Leg::Owner));
    untold.put(told(2, Leg::Address));
    let mut one = untold.take(HoldId(2));
    assert!(one.has(Leg::Address) && !one.has(Leg::Owner));
    let lockout = Lockout {
        level: 1,
        until: Millis(7),
    };
    let signs = vec![Sign::Locked(0, lockout), Sign::Spread(1)];
    let all = true;
    one.add(
        Leg::Subject(0),
        Kept {
            all,
            signs: signs.clone(),
        },
    );
    let kept = one.done();
    assert_eq!(kept, Kept { all: false, signs });
    // It was taken out, and the other is there still.
    assert!(!untold.take(HoldId(2)).has(Leg::Address));
    assert!(untold.take(HoldId(1)).has(Leg::Owner));
}

#[test]
fn the_oldest_are_forgotten_where_there_are_too_many() {
    let mut untold = Untold::default();
    for id in 0..=MOST as u64 {
        untold.put(told(id, Leg::Owner));
    }
    assert!(!untold.take(HoldId(0)).has(Leg::Owner));
    assert!(untold.take(HoldId(1)).has(Leg::Owner));
    assert!(untold.take(HoldId(MOST as u64)).has(Leg::Owner));
}
