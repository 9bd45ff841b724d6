//! Outcomes that were told to some pages, while another was too contended: what is still to be told, and what was
//! noticed so far. Each page is told once, or a failure would count twice.

use std::collections::VecDeque;

use crate::hold::HoldId;
use crate::store::{Kept, Leg};

/// More than so many are not kept in mind: a failure may count twice then.
const MOST: usize = 1024;

/// One outcome.
#[derive(Debug)]
pub(super) struct Partly {
    id: HoldId,
    told: Vec<Leg>,
    kept: Kept,
}

impl Partly {
    /// Told to nobody yet.
    pub(super) const fn new(id: HoldId) -> Self {
        Self {
            id,
            told: Vec::new(),
            kept: Kept::silently(true),
        }
    }

    /// Whether a leg was told.
    pub(super) fn has(&self, leg: Leg) -> bool {
        self.told.contains(&leg)
    }

    /// A leg was told.
    pub(super) fn add(&mut self, leg: Leg, kept: Kept) {
        self.told.push(leg);
        self.kept.all &= kept.all;
        self.kept.signs.extend(kept.signs);
    }

    /// All were told.
    pub(super) fn done(self) -> Kept {
        self.kept
    }
}

/// All that are told in part, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Untold(VecDeque<Partly>);

impl Untold {
    /// Takes out what was told of an outcome so far.
    pub(super) fn take(&mut self, id: HoldId) -> Partly {
        let at = self.0.iter().position(|one| one.id == id);
        let found = at.and_then(|at| self.0.remove(at));
        found.unwrap_or(Partly::new(id))
    }

    /// Keeps in mind what was told of an outcome.
    pub(super) fn put(&mut self, one: Partly) {
        if self.0.len() >= MOST {
            self.0.pop_front();
        }
        self.0.push_back(one);
    }
}

#[cfg(test)]
mod tests;
