//! Tests of `hold`.

use proptest::prelude::*;
use tollgate_config::Millis;

use super::{Entry, Hold, HoldId, Kind, Name};

proptest! {
    #[test]
    fn what_is_held_comes_back_and_never_makes_room_before_it_ends(
        id in any::<u128>(), whose in any::<u64>(), until in 0..1u64 << 56, marked in any::<bool>(),
        lingers in prop_oneof![Just(0), 1..2_678_400_000u64],
        kind in prop_oneof![Just(Kind::Lease), Just(Kind::Lock), Just(Kind::Flight), Just(Kind::Attempt)],
    ) {
        let name = Name { id, kind };
        let lingers = Millis(u64::div_ceil(lingers, 1000) * 1000);
        let hold = Hold { id: HoldId(whose), until: Millis(until), marked, lingers };
        let entry = Entry::read(&Entry::of_hold(name, &hold).bytes());
        prop_assert_eq!(entry.hold(), Some(hold));
        prop_assert!(entry.is(name));
        prop_assert!((entry.bucket(), entry.penalty(), entry.grants()) == (None, None, None));
        let ends = until + lingers.0;
        prop_assert!(entry.is_spent(Millis(ends)));
        prop_assert!(ends == 0 || !entry.is_spent(Millis(ends - 1)));
        prop_assert_eq!(entry.evictable(Millis(0)), None);
    }
}
