//! A lease, a lock, a key in flight, an attempt in flight, or a mark in the place of one, as an entry.
//!
//! Whose it is in the second word, until when in the first, 1 in the third if it is a mark, and in the fourth for
//! how many seconds it lingers.

use tollgate_config::Millis;

use super::{Entry, Kind, Name, TIME, narrow, tagged};
use crate::hold::HoldId;

/// What somebody holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    /// Whose it is.
    pub id: HoldId,
    /// Until when; nobody's after that.
    pub until: Millis,
    /// It was revoked before it came: it takes no slot, and is not to be had any more.
    pub marked: bool,
    /// Of an attempt: for so long after `until` it counts as one that failed then. In memory, whole seconds, rounded
    /// up.
    pub lingers: Millis,
}

impl Hold {
    /// Whether it is held by, or was, and not only marked for, a request.
    pub(in crate::store::local) fn is_of(&self, id: HoldId) -> bool {
        self.id == id && !self.marked
    }

    /// When it says nothing any more.
    #[must_use]
    pub const fn ends(&self) -> Millis {
        self.until.plus(self.lingers)
    }
}

impl Entry {
    /// The entry of a lease, a lock, or a key or an attempt in flight.
    #[must_use]
    pub fn of_hold(name: Name, hold: &Hold) -> Self {
        Self {
            id: name.id,
            head: tagged(name.kind as u8, hold.until),
            word: hold.id.0,
            low: u32::from(hold.marked),
            high: narrow(hold.lingers.0.div_ceil(1000)),
            last: 0,
        }
    }

    /// What somebody holds, if this is such an entry.
    #[must_use]
    pub const fn hold(&self) -> Option<Hold> {
        let kind = self.kind();
        let held = kind >= Kind::Lease as u8 && kind <= Kind::Flight as u8;
        if !held && kind != Kind::Attempt as u8 {
            return None;
        }
        Some(Hold {
            id: HoldId(self.word),
            until: Millis(self.head & TIME),
            marked: self.low != 0,
            lingers: Millis(self.high as u64 * 1000),
        })
    }
}

#[cfg(test)]
mod tests;
