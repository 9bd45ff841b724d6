//! Attempts at credentials in a page: windows of them, and single ones in flight. None of it makes room for anything
//! before it counts no more.
//!
//! One in flight has an entry with its id, and keeps it when its outcome does not come in time, so that it still can
//! be told apart. Those whose failure was told lie six to an entry.

use tollgate_config::Millis;

use super::Page;
use super::held::NoRoom;
use crate::hold::{HELD_FOR, HoldId, MARKED_FOR};
use crate::limit::attempts::Tally;
use crate::limit::window;
use crate::store::local::record::hold::Hold;
use crate::store::local::record::{Kind, Name};

/// The outcome of an attempt may come for so long after it counted as failed without one.
const TOLD_WITHIN: Millis = Millis(120_000);

/// A window of attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// A keyed hash of whose it is and by which throttle.
    pub id: u128,
    /// Its length.
    pub within: Millis,
}

impl Window {
    const fn flying(&self) -> Name {
        Name {
            id: self.id,
            kind: Kind::Attempt,
        }
    }

    const fn failed(&self) -> Name {
        Name {
            id: self.id,
            kind: Kind::Failed,
        }
    }
}

impl Page {
    /// What is in a window.
    #[must_use]
    pub fn tally(&self, window: Window, now: Millis) -> Tally {
        let flying = self.named(window.flying()).filter_map(|e| e.hold());
        let flying = flying.filter(|hold| !hold.marked).map(|hold| hold.until);
        let failed = self.named(window.failed()).filter_map(|e| e.grants());
        let failed = failed.flat_map(|grants| grants.times());
        Tally::of(flying.chain(failed), window.within, now)
    }

    /// An attempt of a window that is in flight, or whose outcome did not come in time, or the mark in the place
    /// of one.
    #[must_use]
    pub fn attempt(&self, window: Window, id: HoldId) -> Option<Hold> {
        let mut all = self.named(window.flying()).filter_map(|e| e.hold());
        all.find(|hold| hold.id == id)
    }

    /// Whether it was revoked before it came, or is not to be counted any more.
    #[must_use]
    pub fn is_attempt_marked(&self, window: Window, id: HoldId, now: Millis) -> bool {
        self.is_marked(window.flying(), id, now)
    }

    /// Puts an attempt into a window: unless its outcome is told by then, it fails in a minute.
    ///
    /// # Errors
    /// There is no room, which is never made at the cost of `others`.
    pub fn attempt_now(
        &mut self,
        window: Window,
        id: HoldId,
        others: &[Name],
        now: Millis,
    ) -> Result<(), NoRoom> {
        let flying = Hold {
            id,
            until: now.plus(HELD_FOR),
            marked: false,
            lingers: window.within,
        };
        self.hold(window.flying(), &flying, others, now)
    }

    /// Leaves a mark in the place of an attempt: it is not let through any more, nor counted.
    ///
    /// # Errors
    /// There is no room.
    pub fn mark_attempt(&mut self, window: Window, id: HoldId, now: Millis) -> Result<(), NoRoom> {
        let mark = Hold {
            id,
            until: now.plus(MARKED_FOR),
            marked: true,
            lingers: Millis(0),
        };
        self.hold(window.flying(), &mark, &[], now)
    }

    /// Takes an attempt out of a window, if its time ran until after `since`; `false` if it is not there. A mark
    /// stays.
    pub fn end_attempt(&mut self, window: Window, id: HoldId, since: Millis, now: Millis) -> bool {
        self.let_go(window.flying(), id, since, now)
    }

    /// Counts a failure as of `at`, unless that is too long ago: whether it does.
    ///
    /// # Errors
    /// There is no room, which is never made at the cost of `others`.
    pub fn fail(
        &mut self,
        window: Window,
        at: Millis,
        others: &[Name],
        now: Millis,
    ) -> Result<bool, NoRoom> {
        if !window::counts(at, window.within, now) {
            return Ok(false);
        }
        self.grant(window.failed(), at, window.within, others, now)?;
        Ok(true)
    }

    /// Sees to it that attempts are not counted again whose outcome comes after all. Where there is no room, they may
    /// be.
    pub fn mark_counted(&mut self, window: Window, counted: &[HoldId], now: Millis) {
        for id in counted {
            let _ = self.mark_attempt(window, *id, now);
        }
    }

    /// Forgets what failed so far; what is in flight stays. The attempts whose outcome did not come in time, but
    /// still might: they were counted, and are to be [marked](Self::mark_counted), so that they are not again.
    pub fn clear(&mut self, window: Window, now: Millis) -> Vec<HoldId> {
        let later = self.granted(window.failed(), window.within, now);
        let later: Vec<Millis> = later.into_iter().filter(|at| *at > now).collect();
        self.drop_all(window.failed(), |_| true);
        for at in later {
            // In place of those that went.
            let _ = self.grant(window.failed(), at, window.within, &[], now);
        }
        let ran_out = |hold: &Hold| !hold.marked && hold.until <= now;
        let flying = self.named(window.flying()).filter_map(|e| e.hold());
        let awaited = flying.filter(|hold| ran_out(hold) && now.since(hold.until) < TOLD_WITHIN);
        let awaited = awaited.map(|hold| hold.id).collect();
        self.drop_all(window.flying(), |entry| {
            entry.is_spent(now) || entry.hold().is_some_and(|hold| ran_out(&hold))
        });
        awaited
    }
}

#[cfg(test)]
mod tests;
