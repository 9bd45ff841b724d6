//! Chance that is the same in every run.

/// A sequence of numbers.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// A number below `most`.
    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}
