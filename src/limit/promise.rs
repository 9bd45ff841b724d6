//! The schedule of refusals: each tells its client a moment of its own, one after the other.
//!
//! `at = max(now + the bucket's own wait, last promise + cost/rate)`, and then the last promise is
//! `at`. Promised tokens are not reserved. A refusal that finds more than a whole bucket (and the
//! grace) promised already goes *beyond*: it is told the last promise and extends nothing.

use tollgate_config::Millis;

use super::bucket::Meter;

/// No promise goes further than this many microseconds, 71 years: Redis' script counts in doubles, and
/// sums of a few such times must stay exact.
const FAR: u64 = 1 << 51;

/// The last moment promised, in microseconds: at high rates a promise is a fraction of a millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Promise(pub u64);

/// What a refusal tells its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promised {
    /// The last promise now.
    pub last: Promise,
    /// How long until the moment this client was told.
    pub wait: Millis,
    /// More than a whole bucket was promised already.
    pub beyond: bool,
}

impl Promise {
    /// Promises a refused client of `cost` points its moment.
    #[must_use]
    pub fn refuse(
        self,
        meter: &Meter,
        now: Millis,
        own_wait: Millis,
        cost: u64,
        grace: Millis,
    ) -> Promised {
        let now_us = now.0.saturating_mul(1000);
        let outstanding = self.0.saturating_sub(now_us);
        let units = |points: u64| points.saturating_mul(meter.unit()).saturating_mul(1000);
        let whole = (units(meter.burst()) / meter.refill()).min(FAR);
        let beyond = whole.saturating_add(grace.0.saturating_mul(1000));
        // The last promise of these terms is at most one more bucket beyond. One that is further away
        // was made under a slower limit, or before the clock was set back: it binds nobody.
        if outstanding > beyond.saturating_add(whole) {
            return Self::default().refuse(meter, now, own_wait, cost, grace);
        }
        if outstanding > beyond {
            return Promised {
                last: self,
                wait: Millis(outstanding.div_ceil(1000)),
                beyond: true,
            };
        }
        let step = units(cost).div_ceil(meter.refill()).min(FAR);
        let own = now_us.saturating_add(own_wait.0.saturating_mul(1000).min(FAR));
        let at = own.max(self.0.saturating_add(step));
        Promised {
            last: Self(at),
            wait: Millis(at.saturating_sub(now_us).div_ceil(1000)),
            beyond: false,
        }
    }

    /// Whether nothing is promised any more.
    #[must_use]
    pub const fn is_past(self, now: Millis) -> bool {
        self.0 <= now.0.saturating_mul(1000)
    }
}

#[cfg(test)]
mod tests;
