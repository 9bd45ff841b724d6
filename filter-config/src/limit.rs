//! A rate with a burst: `{points, per, burst}` or `"60/minute"`.

use crate::units::{Points, Seconds};

/// A token bucket's terms: `points` are refilled evenly over `per`, up to `burst`.
///
/// All are at least 1; points and burst are at most 1,000,000,000, `per` at most 31 days, and the
/// burst takes at most 2^53 units to write exactly (see [`Limit::unit`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Limit {
    /// Points refilled in `per`.
    pub points: Points,
    /// The time `points` take to refill.
    pub per: Seconds,
    /// Capacity.
    pub burst: Points,
}

impl Limit {
    /// Up to here every whole number is one of its own, in any store's arithmetic: a script of
    /// Redis calculates in doubles.
    pub(crate) const MOST_UNITS: u64 = 1 << 53;

    /// Whether a full bucket is counted exactly.
    pub(crate) const fn is_exact(&self) -> bool {
        let (_, units_a_point) = self.unit();
        self.burst.0.saturating_mul(units_a_point) <= Self::MOST_UNITS
    }

    /// Refill in units a millisecond, and units a point: the smallest whole numbers in which this
    /// rate is exact. `3000 per 60s` is 1 unit a millisecond and 20 units a point.
    #[must_use]
    pub const fn unit(&self) -> (u64, u64) {
        let per = self.per.0.saturating_mul(1000);
        let divisor = gcd(self.points.0, per);
        match divisor {
            0 => (1, 1),
            d => (self.points.0 / d, per / d),
        }
    }
}

const fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
