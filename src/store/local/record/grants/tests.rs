//! Tests of `grants`.

use proptest::prelude::*;
use tollgate_config::Millis;

use super::{Entry, Grants, Kind, Name};

const fn name(kind: Kind) -> Name {
    Name { id: 7, kind }
}

/// The entries of grants at these times, and how many each has.
fn entries(kind: Kind, times: &[u64], per: u64) -> Vec<(Entry, Vec<u64>)> {
    let times: Vec<Millis> = times.iter().map(|time| Millis(*time)).collect();
    let mut left = times.as_slice();
    let mut entries = Vec::new();
    while let Some((grants, rest)) = Grants::of(left, Millis(per)) {
        let entry = Entry::read(&Entry::of_grants(name(kind), &grants).bytes());
        let back = entry.grants().unwrap();
        assert_eq!(back, grants);
        entries.push((entry, back.times().map(|time| time.0).collect()));
        left = rest;
    }
    entries
}

#[test]
fn six_fit_into_one_if_they_are_near() {
    let of = |times: &[u64]| -> Vec<Vec<u64>> {
        let entries = entries(Kind::Quota, times, 1000);
        entries.into_iter().map(|(_, times)| times).collect()
    };
    assert_eq!(of(&[]), Vec::<Vec<u64>>::new());
    assert_eq!(
        of(&[5, 5, 6, 9, 9, 9, 9]),
        [vec![5, 5, 6, 9, 9, 9], vec![9]]
    );
    // 49 days apart are too far.
    let far = u64::from(u32::MAX);
    assert_eq!(of(&[1, far, far + 1]), [vec![1, far], vec![far + 1]]);
}

proptest! {
    #[test]
    fn all_come_back_and_stay_until_the_last_has_ended(
        times in prop::collection::vec(0..1u64 << 40, 1..20), per in 1..2_678_400_000u64,
        kind in prop_oneof![Just(Kind::Quota), Just(Kind::Failed)],
    ) {
        let mut times = times;
        times.sort_unstable();
        let entries = entries(kind, &times, per);
        let back: Vec<u64> = entries.iter().flat_map(|(_, times)| times).copied().collect();
        prop_assert_eq!(back, times);
        for (entry, times) in entries {
            let ends = times.last().unwrap() + per.div_ceil(1000) * 1000;
            prop_assert!(!entry.is_spent(Millis(ends - 1)));
            prop_assert!(entry.is_spent(Millis(ends)));
            prop_assert_eq!(entry.evictable(Millis(0)), None);
            prop_assert!(entry.is(name(kind)));
            prop_assert!((entry.bucket(), entry.penalty(), entry.hold()) == (None, None, None));
        }
    }
}
