//! A token bucket in whole numbers.
//!
//! A level counts what is *spent* (missing from full), in units in which both a point and a
//! millisecond of refill are whole numbers ([`Limit::unit`]): nothing is ever rounded, however often
//! a bucket is touched. Keeping what is spent rather than what is left means that a changed limit
//! keeps the counters: 4 points used of 10 are 4 points used of 20.

use tollgate_config::{Limit, Millis};

/// A clock that is behind a bucket's last change by more than this was set back. Less is the
/// ordinary difference between workers that read the clock before they got the bucket.
const CLOCK_SET_BACK: Millis = Millis(1000);

/// No more units than this are counted. Redis' script counts in doubles, which are exact up to here.
const MOST: u64 = 1 << 53;

/// A limit in its own units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meter {
    limit: Limit,
    refill: u64,
    unit: u64,
    capacity: u64,
}

impl Meter {
    /// The meter of a limit, or of none of it where it is 0 by mistake.
    #[must_use]
    pub fn new(limit: Limit) -> Self {
        let (refill, unit) = limit.unit();
        Self {
            limit,
            refill: refill.max(1),
            unit: unit.max(1),
            capacity: limit.burst.0.saturating_mul(unit.max(1)),
        }
    }

    /// The limit as the operator wrote it.
    #[must_use]
    pub const fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Capacity in points.
    #[must_use]
    pub const fn burst(&self) -> u64 {
        self.limit.burst.0
    }

    /// Units refilled in a millisecond.
    #[must_use]
    pub const fn refill(&self) -> u64 {
        self.refill
    }

    /// Units in a point.
    #[must_use]
    pub const fn unit(&self) -> u64 {
        self.unit
    }

    const fn time_for(&self, units: u64) -> Millis {
        Millis(units.div_ceil(self.refill))
    }
}

/// What is spent of a bucket, as of a moment, in the units of the limit it was last seen under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// Units missing from full.
    pub spent: u64,
    /// Units in a point.
    pub unit: u64,
    /// Units refilled in a millisecond.
    pub refill: u64,
    /// The moment this is true of.
    pub at: Millis,
}

impl Level {
    /// A full bucket.
    #[must_use]
    pub const fn full(meter: &Meter, now: Millis) -> Self {
        Self {
            spent: 0,
            unit: meter.unit,
            refill: meter.refill,
            at: now,
        }
    }

    /// A bucket that will be full at `full_at`, or is empty now if that is further away than its
    /// whole burst takes to refill.
    #[must_use]
    pub fn full_at(meter: &Meter, now: Millis, full_at: Millis) -> Self {
        let missing = full_at.since(now).0.saturating_mul(meter.refill);
        Self {
            spent: missing.min(meter.capacity),
            ..Self::full(meter, now)
        }
    }

    /// When this level is full again, left alone.
    #[must_use]
    pub const fn fills_at(&self) -> Millis {
        let refill = if self.refill == 0 { 1 } else { self.refill };
        self.at.plus(Millis(self.spent.div_ceil(refill)))
    }

    /// Whether the clock was set back since this level was written.
    #[must_use]
    pub const fn clock_set_back(&self, now: Millis) -> bool {
        self.at.0 > now.0.saturating_add(CLOCK_SET_BACK.0)
    }

    /// This level as `meter` sees it at `now`: refilled, and no emptier than empty. Only to be looked
    /// at: what is kept is [what was spent](Self::kept), or a look through a small limit would
    /// forgive what was spent of a larger one.
    #[must_use]
    pub fn seen(&self, meter: &Meter, now: Millis) -> Self {
        let kept = self.kept(meter, now);
        let gained = now.since(kept.at).0.saturating_mul(meter.refill);
        Self {
            spent: kept.spent.min(meter.capacity).saturating_sub(gained),
            at: kept.at.max(now),
            ..kept
        }
    }

    /// This level after a request that was admitted under `meter` at `now` took `points`.
    #[must_use]
    pub fn charged(&self, meter: &Meter, now: Millis, points: u64) -> Self {
        let kept = self.kept(meter, now);
        let gained = now.since(kept.at).0.saturating_mul(meter.refill);
        let refilled = Self {
            spent: kept.spent.saturating_sub(gained),
            at: kept.at.max(now),
            ..kept
        };
        refilled.take(points)
    }

    /// This level as it is kept when nothing was taken: in the units of `meter`, and as of now where
    /// the clock was set back.
    #[must_use]
    pub fn kept(&self, meter: &Meter, now: Millis) -> Self {
        let spent = if self.unit == meter.unit {
            self.spent
        } else {
            let units = u128::from(self.spent) * u128::from(meter.unit);
            let units = units.div_ceil(u128::from(self.unit.max(1)));
            u64::try_from(units).unwrap_or(u64::MAX).min(MOST)
        };
        let at = if self.clock_set_back(now) {
            now
        } else {
            self.at
        };
        Self {
            spent,
            unit: meter.unit,
            refill: meter.refill,
            at,
        }
    }

    /// How long until `points` are there; 0 if they are. `self` was [seen](Self::seen) under `meter`.
    #[must_use]
    pub fn wait(&self, meter: &Meter, points: u64) -> Millis {
        let needed = self.spent.saturating_add(points.saturating_mul(meter.unit));
        meter.time_for(needed.saturating_sub(meter.capacity))
    }

    /// This level after `points` were taken.
    #[must_use]
    pub const fn take(self, points: u64) -> Self {
        let units = points.saturating_mul(self.unit);
        let spent = self.spent.saturating_add(units);
        Self {
            spent: if spent > MOST { MOST } else { spent },
            ..self
        }
    }

    /// This level after `points` were given back.
    #[must_use]
    pub const fn give_back(self, points: u64) -> Self {
        let units = points.saturating_mul(self.unit);
        Self {
            spent: self.spent.saturating_sub(units),
            ..self
        }
    }

    /// Whole points that would be admitted now, never above the limit.
    #[must_use]
    pub fn remaining(&self, meter: &Meter) -> u64 {
        let left = meter.capacity.saturating_sub(self.spent) / meter.unit;
        left.min(meter.limit.points.0)
    }

    /// How long until the bucket is full.
    #[must_use]
    pub const fn reset(&self, meter: &Meter) -> Millis {
        meter.time_for(self.spent)
    }
}

#[cfg(test)]
mod tests;
