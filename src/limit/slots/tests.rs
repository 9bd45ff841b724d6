//! Tests of `slots`.

use tollgate_config::Millis;

use super::wait;

const NOW: Millis = Millis(10_000);

fn of(ends: &[u64], slots: u32) -> Option<u64> {
    wait(ends.iter().map(|end| Millis(*end)), slots, NOW).map(|wait| wait.0)
}

#[test]
fn a_slot_is_free_until_as_many_are_held() {
    assert_eq!(of(&[], 1), None);
    assert_eq!(of(&[11_000], 2), None);
    assert_eq!(of(&[11_000], 1), Some(1000));
    assert_eq!(of(&[12_000, 10_500, 11_000], 3), Some(500));
}

#[test]
fn what_ended_is_held_by_nobody() {
    assert_eq!(of(&[10_000], 1), None);
    assert_eq!(of(&[10_001], 1), Some(1));
    assert_eq!(of(&[9000, 10_000, 13_000], 1), Some(3000));
    assert_eq!(of(&[9000, 10_000, 13_000], 2), None);
}

#[test]
fn fewer_slots_than_are_held_wait_for_the_earliest_all_the_same() {
    assert_eq!(of(&[11_000, 12_000, 13_000], 1), Some(1000));
}
