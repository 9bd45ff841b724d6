//! Chance that comes out the same each time. Owns the numbers; must not be used where they have to be secret.

use std::ops::Range;
use std::time::Duration;

/// Numbers that look random, the same for the same seed (SplitMix64).
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// With this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number in this range, which must not be empty.
    pub fn number(&mut self, range: Range<u64>) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        range.start + (mixed ^ (mixed >> 31)) % (range.end - range.start)
    }

    /// A time in this range of milliseconds, to the microsecond.
    pub fn millis(&mut self, range: Range<u64>) -> Duration {
        Duration::from_micros(self.number(range.start * 1_000..range.end * 1_000))
    }

    /// True in so many of 100 cases.
    pub fn percent(&mut self, share: u64) -> bool {
        self.number(0..100) < share
    }
}
