//! Boxes that this node knows of: those of this store, and those that another store told of.
//!
//! A box is kept where a decision over this store meets it, in its owner's page, so that the degraded
//! limiter refuses whom the failed store had in a box, and no flood drops it. It strikes nobody.

use tollgate_config::Millis;

use super::Local;
use super::memory::Memory;
use super::met::scope;
use super::page::Page;
use crate::limit::penalty::{Lockout, Record};
use crate::store::{Ask, Toll};
use crate::verdict::Boxed;

/// A box that this node remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// The box.
    pub boxed: Boxed,
    /// It may be used while the store that told of it answers. If not, that store is to be asked, and
    /// the box [forgotten](Local::forget) if it knows none.
    pub fresh: bool,
}

impl<M: Memory> Local<M> {
    /// The box that is known for whoever asks. While the store that told of it answers, it is known for
    /// [`USED_FOR`](crate::limit::penalty::USED_FOR) since it was [remembered](Self::remember); while
    /// that store is `failing`, to its end. None where boxes do not refuse.
    ///
    /// Reads one page and changes nothing.
    #[must_use]
    pub fn known(&self, ask: &Ask, now: Millis, failing: bool) -> Option<Boxed> {
        let known = self.recall(ask, now)?;
        (known.fresh || failing).then_some(known.boxed)
    }

    /// The box that is remembered for whoever asks and has not ended. None where boxes do not refuse.
    ///
    /// Reads one page and changes nothing.
    #[must_use]
    pub fn recall(&self, ask: &Ask, now: Millis) -> Option<Known> {
        let record = self.held_against(ask)?;
        let boxed = Boxed {
            scope: scope(ask),
            lockout: record.lockout(now)?,
            tripped: false,
        };
        let fresh = record.remembered(now).is_some();
        Some(Known { boxed, fresh })
    }

    /// Remembers the box that another store answered with. Does nothing where boxes do not refuse.
    pub fn remember(&self, ask: &Ask, lockout: Lockout, now: Millis) -> Toll {
        self.change_held(ask, now, |held| held.remember(lockout, now))
    }

    /// Forgets the box that was remembered for whoever asks, since the other store answered that he is
    /// in none: it was released, and must not come back when that store fails.
    ///
    /// Reads one page, and writes it only where there is such a box.
    pub fn forget(&self, ask: &Ask, now: Millis) -> Toll {
        match self.known(ask, now, true) {
            Some(_) => self.change_held(ask, now, Record::release),
            None => Toll::default(),
        }
    }

    /// What is held against whoever asks, where it can refuse him.
    fn held_against(&self, ask: &Ask) -> Option<Record> {
        if !ask.penalty.strictness.refuses() {
            return None;
        }
        let owner = self.owner(ask);
        let slot = self.memory.read(self.page_of(&owner)?)?;
        Some(Page::read(slot.bytes, self.page_size).penalty(owner.held()))
    }

    fn change_held(&self, ask: &Ask, now: Millis, change: impl Fn(&mut Record)) -> Toll {
        let mut toll = Toll::default();
        if ask.penalty.strictness.refuses() {
            let owner = self.owner(ask);
            let name = owner.held();
            // Too contended, it is lost; whoever is boxed asks again and it is remembered then.
            let _ = self.change(&owner, &mut toll, |page| {
                let mut held = page.penalty(name);
                let before = held;
                change(&mut held);
                page.keep_penalty(name, &held, &[name], now);
                ((), held != before)
            });
        }
        toll
    }
}

#[cfg(test)]
mod tests;
