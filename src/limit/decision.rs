//! The decision over what one owner holds: box, buckets, promises, strikes; all or nothing.
//! What else a request may ask for is only known to be free, or not.
//!
//! The first bucket is the one that promises (a key's, or an address's anonymous one); the second
//! is only asked to hold its cost as well (the tenant's, or the address's `ip_limit`).

use tollgate_config::Millis;

use super::{
    bucket::{Level, Meter},
    penalty::{Lockout, Record, Terms},
    promise::Promise,
};

/// A bucket, its terms, and what a request takes from it.
#[derive(Debug, Clone, Copy)]
pub struct Bucket {
    /// The terms.
    pub meter: Meter,
    /// What is spent.
    pub level: Level,
    /// What the request takes, in points.
    pub cost: u64,
}

/// How much the penalty box counts for this request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// Boxes refuse.
    Enforced,
    /// Boxes are only counted.
    Watched,
    /// Boxes that are known refuse, but there are no strikes: the store that counts them has failed.
    Known,
    /// There are no strikes and no boxes.
    Off,
}

impl Strictness {
    /// The same while the store that counts strikes fails.
    #[must_use]
    pub const fn without_strikes(self) -> Self {
        match self {
            Self::Enforced | Self::Known => Self::Known,
            Self::Watched | Self::Off => Self::Off,
        }
    }

    /// Whether a box refuses.
    #[must_use]
    pub const fn refuses(self) -> bool {
        matches!(self, Self::Enforced | Self::Known)
    }

    const fn strikes(self) -> bool {
        matches!(self, Self::Enforced | Self::Watched)
    }
}

/// The penalty box as it stands for this owner.
#[derive(Debug, Clone, Copy)]
pub struct Penalty {
    /// Its terms.
    pub terms: Terms,
    /// What is held.
    pub record: Record,
    /// Whether a box refuses.
    pub strictness: Strictness,
}

/// What one owner holds that a request meets.
#[derive(Debug, Clone, Copy)]
pub struct Holding {
    /// The bucket that promises.
    pub first: Bucket,
    /// The last promise of that bucket.
    pub promise: Promise,
    /// Promises may exceed a whole bucket by this.
    pub grace: Millis,
    /// The other bucket, if there is one.
    pub second: Option<Bucket>,
    /// The box.
    pub penalty: Penalty,
}

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Both buckets held the cost and were debited.
    Allowed,
    /// At least one did not; neither was debited.
    Throttled {
        /// The later of the promised moment and the real wait.
        wait: Millis,
        /// A watched box that this refusal tripped.
        would_box: Option<Lockout>,
    },
    /// Both held the cost, but something else that the request asked for was taken: each was debited a
    /// point instead, so that polling is not free.
    Taken,
    /// A box was in force (nothing was touched), or this refusal tripped one.
    Boxed {
        /// The box.
        lockout: Lockout,
        /// It was tripped by this very request.
        tripped: bool,
    },
}

impl Bucket {
    /// How long until this bucket holds its cost.
    #[must_use]
    pub fn wait(&self, now: Millis) -> Millis {
        self.level
            .seen(&self.meter, now)
            .wait(&self.meter, self.cost)
    }

    fn pay(&mut self, now: Millis, points: u64) {
        self.level = self.level.charged(&self.meter, now, points);
    }

    fn keep(&mut self, now: Millis) {
        self.level = self.level.kept(&self.meter, now);
    }
}

impl Penalty {
    /// Strikes that are still allowed; all of them where none are counted.
    #[must_use]
    pub fn strikes_left(&self, now: Millis) -> u32 {
        match self.strictness {
            Strictness::Off => self.terms.strikes,
            _ => self.record.strikes_left(&self.terms, now),
        }
    }
}

impl Holding {
    /// Decides a request that asks for nothing but points, at `now`, and changes what is held accordingly.
    pub fn decide(&mut self, now: Millis) -> Outcome {
        self.decide_if(now, || true)
    }

    /// The same for a request that asks for more: `free` says whether all of that is to be had. It is
    /// called only where the buckets hold the cost.
    pub fn decide_if(&mut self, now: Millis, free: impl FnOnce() -> bool) -> Outcome {
        let strictness = self.penalty.strictness;
        let lockout = match strictness {
            Strictness::Off => None,
            _ => self.penalty.record.lockout(now),
        };
        if let Some(lockout) = lockout.filter(|_| strictness.refuses()) {
            return Outcome::Boxed {
                lockout,
                tripped: false,
            };
        }
        if self.first.level.clock_set_back(now) {
            self.promise = Promise::default();
        }
        let own = self.first.wait(now);
        let real = own.max(self.second.map_or(Millis(0), |b| b.wait(now)));
        let buckets = [Some(&mut self.first), self.second.as_mut()];
        let buckets = buckets.into_iter().flatten();
        if real == Millis(0) {
            let free = free();
            for bucket in buckets {
                let points = if free { bucket.cost } else { 1 };
                bucket.pay(now, points);
            }
            return if free {
                Outcome::Allowed
            } else {
                Outcome::Taken
            };
        }
        buckets.for_each(|bucket| bucket.keep(now));
        let first = &self.first;
        let promised = self
            .promise
            .refuse(&first.meter, now, own, first.cost, self.grace);
        self.promise = promised.last;
        let wait = promised.wait.max(real);
        // In a watched box nothing would have been decided, so nothing more is held.
        let strikes = promised.beyond && lockout.is_none() && strictness.strikes();
        let penalty = &mut self.penalty;
        let tripped = strikes
            .then(|| penalty.record.strike(&penalty.terms, now))
            .flatten();
        match tripped {
            Some(lockout) if strictness.refuses() => {
                self.promise = Promise::default();
                Outcome::Boxed {
                    lockout,
                    tripped: true,
                }
            }
            would_box => Outcome::Throttled { wait, would_box },
        }
    }
}

#[cfg(test)]
mod tests;
