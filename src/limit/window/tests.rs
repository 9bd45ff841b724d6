//! Tests of `window`.

use proptest::prelude::*;
use tollgate_config::Millis;

use super::{counts, wait};

const NOW: Millis = Millis(10_000);
const PER: Millis = Millis(1000);

fn of(granted: &[u64], requests: u32) -> Option<u64> {
    let granted = granted.iter().map(|at| Millis(*at)).collect();
    wait(granted, requests, PER, NOW).map(|wait| wait.0)
}

#[test]
fn a_grant_counts_until_it_is_as_old_as_the_window_is_long() {
    assert!(counts(Millis(9001), PER, NOW));
    assert!(!counts(Millis(9000), PER, NOW));
    assert!(counts(Millis(10_000), PER, NOW));
    assert!(counts(Millis(99_000), PER, NOW));
}

#[test]
fn the_wait_is_for_the_oldest_that_is_in_the_way() {
    assert_eq!(of(&[], 1), None);
    assert_eq!(of(&[9500], 2), None);
    assert_eq!(of(&[9500, 9200], 2), Some(200));
    // Two places were granted more than there are by now.
    assert_eq!(of(&[9500, 9200, 9900, 9300], 2), Some(500));
}

#[test]
fn after_the_clock_was_set_back_nobody_waits_longer_than_the_window() {
    assert_eq!(of(&[99_000], 1), Some(1000));
}

proptest! {
    /// Whoever waits as told finds a place, and a millisecond earlier he does not.
    #[test]
    fn the_wait_is_exact(ages in prop::collection::vec(0..1000u64, 0..20), requests in 1..8u32) {
        let granted: Vec<u64> = ages.iter().map(|age| NOW.0 - age).collect();
        let counting = |now: u64| {
            granted.iter().filter(|at| counts(Millis(**at), PER, Millis(now))).count()
        };
        match of(&granted, requests) {
            None => prop_assert!(counting(NOW.0) < requests as usize),
            Some(wait) => {
                prop_assert!(counting(NOW.0 + wait) < requests as usize);
                prop_assert!(counting(NOW.0 + wait - 1) >= requests as usize);
            }
        }
    }
}
