//! `degraded.share`: a part of each limit.

use std::fmt;

use crate::{limit::Limit, units::Points};

/// A part of a limit, in millionths: 1 to 1,000,000. What an operator writes with up to six
/// digits after the point is kept exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share(pub u32);

/// As it is written: `0.25`.
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / Self::WHOLE, self.0 % Self::WHOLE);
        if rest == 0 {
            return write!(f, "{whole}");
        }
        let digits = format!("{rest:06}");
        write!(f, "{whole}.{}", digits.trim_end_matches('0'))
    }
}

/// Divisors of a second in milliseconds, so of every [`Limit::per`].
const COARSER: [u64; 16] = [
    1000, 500, 250, 200, 125, 100, 50, 40, 25, 20, 10, 8, 5, 4, 2, 1,
];

impl Share {
    /// Millionths of a whole.
    pub(crate) const WHOLE: u32 = 1_000_000;

    /// This share of a limit's points and burst, rounded down, at least 1 of each.
    ///
    /// Part of a round number may be a finer one than a bucket can count exactly. Then the points
    /// are rounded down to a coarser number, by less than 1,000; where that is not enough, the burst
    /// is cut.
    #[must_use]
    pub fn of(self, limit: Limit) -> Limit {
        let part = |points: Points| {
            let whole = u128::from(points.0) * u128::from(self.0) / u128::from(Self::WHOLE);
            Points(u64::try_from(whole).unwrap_or(u64::MAX).max(1))
        };
        let limit = Limit {
            points: part(limit.points),
            burst: part(limit.burst),
            per: limit.per,
        };
        if limit.is_exact() {
            return limit;
        }
        // The largest burst; of several the finest points, which come last.
        COARSER
            .into_iter()
            .filter_map(|divisor| counted(limit, divisor))
            .max_by_key(|limit| limit.burst)
            .unwrap_or(limit)
    }
}

/// The limit with points of a multiple of `divisor`, and no larger burst than can be counted.
fn counted(limit: Limit, divisor: u64) -> Option<Limit> {
    let points = Points(limit.points.0 / divisor * divisor);
    let coarser = Limit { points, ..limit };
    let (_, units_a_point) = coarser.unit();
    let most = Points(Limit::MOST_UNITS.checked_div(units_a_point)?);
    (points.0 > 0).then_some(Limit {
        burst: limit.burst.min(most),
        ..coarser
    })
}

#[cfg(test)]
mod tests;
