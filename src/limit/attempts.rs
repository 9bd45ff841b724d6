//! One window of attempts at credentials: what is in it, whether one more may be let through, and what an
//! outcome does. Must not know where attempts are kept, nor whose they are.
//!
//! An attempt has a *score*: one that failed, when it did; one in flight, when it will have failed unless its
//! outcome is told by then. So an outcome that never comes is a failure without anybody doing anything.

use tollgate_config::Millis;

use super::window;
use crate::hold::HELD_FOR;

/// What is in a window at some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Attempts that failed, or whose outcome did not come in time, within the window's length.
    pub failed: u32,
    /// Attempts in flight.
    pub pending: u32,
}

/// Whether a window has room for one more attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// It has.
    Free,
    /// It will have, unless some of those in flight fail.
    Busy,
    /// So many failed that it is time for a lockout.
    Full,
}

impl Tally {
    /// Of these scores, in a window of length `within`. None is in flight for longer than [`HELD_FOR`]: that was
    /// before the clock was set back.
    #[must_use]
    pub fn of(scores: impl Iterator<Item = Millis>, within: Millis, now: Millis) -> Self {
        let latest = now.plus(HELD_FOR);
        scores.fold(Self::default(), |tally, score| {
            if score > latest {
                tally
            } else if score > now {
                let pending = tally.pending.saturating_add(1);
                Self { pending, ..tally }
            } else if window::counts(score, within, now) {
                let failed = tally.failed.saturating_add(1);
                Self { failed, ..tally }
            } else {
                tally
            }
        })
    }

    /// Whether it is time for a lockout.
    #[must_use]
    pub const fn is_full(&self, failures: u32) -> bool {
        self.failed >= failures
    }

    /// Whether one more may be let through, where `failures` may fail. Attempts in flight take room only of
    /// those that are `provisional` themselves.
    #[must_use]
    pub const fn room(&self, failures: u32, provisional: bool) -> Room {
        if self.is_full(failures) {
            Room::Full
        } else if provisional && self.failed.saturating_add(self.pending) >= failures {
            Room::Busy
        } else {
            Room::Free
        }
    }
}

/// What an outcome does to a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The attempt has failed, as of this moment.
    Fails(Millis),
    /// It is an attempt no more, and whatever failed before it is forgotten.
    Clears,
    /// It is an attempt no more.
    Ends,
}

impl Effect {
    /// Of an attempt that was let through when it `started`. By a clock that was set back since then, it
    /// started now.
    #[must_use]
    pub fn of(failed: bool, succeeded: bool, resets: bool, started: Millis, now: Millis) -> Self {
        match (failed, succeeded && resets) {
            (true, _) => Self::Fails(started.min(now)),
            (false, true) => Self::Clears,
            (false, false) => Self::Ends,
        }
    }
}

#[cfg(test)]
mod tests;
