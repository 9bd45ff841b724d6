//! What others have the desk tell the store, and when a call is made for that alone. Must not know when
//! anything is held on or let go.

use std::rc::Rc;

use tollgate_config::Millis;

use super::course::keeping;
use super::{Desk, Protocol};
use crate::hold::Keep;
use crate::store::Ask;
use crate::store::script::Item;

impl<P: Protocol> Desk<P> {
    /// The store is to be told something that nobody waits for: [`Step::Keep`], [`Step::Revoke`],
    /// [`Step::Undo`] or [`Step::GiveBack`]. It goes ahead of every question under the same hash tag that
    /// leaves from now on. Whether somebody has to see to it that [`Self::next_call`] is called soon.
    ///
    /// [`Step::Keep`]: crate::store::script::Step::Keep
    /// [`Step::Revoke`]: crate::store::script::Step::Revoke
    /// [`Step::Undo`]: crate::store::script::Step::Undo
    /// [`Step::GiveBack`]: crate::store::script::Step::GiveBack
    pub fn tell(&mut self, item: Item, now: Millis) -> bool {
        self.seen = now;
        let idle = self.flight.is_none() && self.line.waiting() == 0;
        self.owe(item, now) && idle && self.breaker.get().admits(now)
    }

    /// The store is [told](Self::tell) for how long what a request holds is held on, and what became of its attempts:
    /// on each leg that it concerns. Whether somebody has to see to it that [`Self::next_call`] is called soon.
    pub fn keep(&mut self, ask: &Rc<Ask>, keep: Keep, now: Millis) -> bool {
        let mut kick = false;
        for item in keeping(ask, keep) {
            kick |= self.tell(item, now);
        }
        kick
    }

    /// Letters that wait to be sent, without those in flight.
    #[must_use]
    pub fn letters(&self) -> usize {
        self.outbox.len()
    }

    /// Whether [`Self::next_call`] has something to do though nobody asks: a letter is due, or a call never
    /// came back.
    #[must_use]
    pub fn wants_call(&self, now: Millis) -> bool {
        match &self.flight {
            Some(flight) => flight.is_overdue(now),
            None if self.line.waiting() > 0 => true,
            None => {
                let may = self.for_letters && self.breaker.get().admits(now);
                may && self.outbox.due(now).is_some()
            }
        }
    }
}
