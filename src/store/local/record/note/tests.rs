//! Tests of `note`.

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use tollgate_config::Millis;

use super::{Entry, KNOWN_FOR, Kind, Known, Name, PART_BITS, Part, Spread};
use crate::store::local::record::Worth;

const fn name(id: u128, kind: Kind) -> Name {
    Name { id, kind }
}

/// Written and read again; a note until `ends`, and nothing else.
fn through_memory(entry: Entry, name: Name, ends: u64) -> Result<Entry, TestCaseError> {
    let entry = Entry::read(&entry.bytes());
    prop_assert!(entry.is(name));
    let others = (
        entry.bucket(),
        entry.penalty(),
        entry.hold(),
        entry.grants(),
    );
    prop_assert_eq!(others, (None, None, None, None));
    prop_assert!(entry.is_spent(Millis(ends)));
    prop_assert!(ends == 0 || !entry.is_spent(Millis(ends - 1)));
    prop_assert_eq!(entry.evictable(Millis(0)), Some(Worth::Note(Millis(ends))));
    Ok(entry)
}

proptest! {
    #[test]
    fn notes_come_back_and_may_go_first(
        id in any::<u128>(), time in 0..1u64 << 55, print in any::<u64>(), prints in any::<[u16; 10]>(),
        failures in any::<u32>(), bits in prop::collection::btree_set(0..PART_BITS, 0..60),
    ) {
        let known = Known { print, at: Millis(time) };
        let of = name(id, Kind::Known);
        let entry = through_memory(Entry::of_known(of, known), of, time + KNOWN_FOR.0)?;
        prop_assert_eq!((entry.known(), entry.spread(), entry.part()), (Some(known), None, None));

        let spread = Spread { ends: Millis(time), prints };
        let of = name(id, Kind::Spread);
        let entry = through_memory(Entry::of_spread(of, &spread), of, time)?;
        prop_assert_eq!((entry.known(), entry.spread(), entry.part()), (None, Some(spread), None));

        let mut part = Part::new(Millis(time));
        part.failures = failures;
        for (ones, bit) in bits.iter().enumerate() {
            prop_assert_eq!(part.ones() as usize, ones);
            part.set(*bit);
            part.set(*bit);
        }
        prop_assert_eq!(part.ones() as usize, bits.len());
        let of = name(id, Kind::Stuffing);
        let entry = through_memory(Entry::of_part(of, &part), of, time)?;
        prop_assert_eq!((entry.known(), entry.spread(), entry.part()), (None, None, Some(part)));
    }
}

#[test]
fn a_bit_that_there_is_not_is_not_set() {
    let mut part = Part::new(Millis(1));
    part.set(PART_BITS);
    part.set(u32::MAX);
    assert_eq!(part.ones(), 0);
}
