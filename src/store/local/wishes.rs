//! What a request wants of its owner's page besides points: whether it is to be had, taking it, keeping it
//! and letting it go. Must not know what it costs.

use tollgate_config::Millis;

use super::page::Page;
use super::page::held::NoRoom;
use super::record::Name;
use super::record::hold::Hold;
use crate::hold::{Fence, HELD_FOR, HoldId, Keep, MARKED_FOR};
use crate::verdict::Obstacle;

/// The parts of a [`Wanted`](crate::hold::Wanted), by the names under which they lie in the page.
pub(super) struct Wishes {
    pub(super) id: HoldId,
    pub(super) flight: Option<Name>,
    pub(super) lock: Option<Name>,
    /// And how many slots there are.
    pub(super) lease: Option<(Name, u32)>,
    /// And how many places there are, and after how long one is free again.
    pub(super) quota: Option<(Name, u32, Millis)>,
}

impl Wishes {
    /// Whether it was revoked before it came.
    pub(super) fn are_marked(&self, page: &Page, now: Millis) -> bool {
        self.first()
            .is_some_and(|name| page.is_marked(name, self.id, now))
    }

    /// The first part that is taken, and for how long it may be.
    pub(super) fn obstacle(&self, page: &Page, now: Millis) -> Option<(Obstacle, Millis)> {
        let taken = |name, slots| page.slot_wait(name, slots, now);
        let flight = || Some((Obstacle::Flight, taken(self.flight?, 1)?));
        let lock = || Some((Obstacle::Lock, taken(self.lock?, 1)?));
        let lease = || {
            let (name, slots) = self.lease?;
            Some((Obstacle::Lease, taken(name, slots)?))
        };
        let quota = || {
            let (name, requests, per) = self.quota?;
            let wait = page.quota_wait(name, requests, per, now)?;
            Some((Obstacle::Quota, wait))
        };
        flight().or_else(lock).or_else(lease).or_else(quota)
    }

    /// Takes all of it; the fence, where a lock is among it.
    ///
    /// # Errors
    /// There is no room for all of it: what is in the page now is not to be kept.
    pub(super) fn take(
        &self,
        page: &mut Page,
        others: &[Name],
        now: Millis,
    ) -> Result<Option<Fence>, NoRoom> {
        let hold = self.hold(now.plus(HELD_FOR), false);
        for name in self.held() {
            page.hold(name, &hold, others, now)?;
        }
        if let Some((name, _, per)) = self.quota {
            page.spend(name, per, others, now)?;
        }
        Ok(self.lock.map(|_| page.next_fence(now)))
    }

    /// Keeps all of it for as long as is said: whether all that was to be held on was held still, and
    /// whether the page was changed.
    pub(super) fn keep(&self, page: &mut Page, keep: Keep, now: Millis) -> (bool, bool) {
        let parts = [
            (self.lease.map(|(name, _)| name), keep.lease),
            (self.lock, keep.lock),
            (self.flight, keep.flight),
        ];
        let (mut kept, mut changed) = (true, false);
        for (name, length) in parts {
            let Some(name) = name else { continue };
            let until = now.plus(length);
            let held = match length {
                Millis(0) => {
                    changed |= page.let_go(name, self.id, Millis(0), now);
                    continue;
                }
                HELD_FOR => page.hold_on(name, self.id, until, now),
                _ => page.hold_until(name, self.id, until, now),
            };
            kept &= held;
            changed |= held;
        }
        (kept, changed)
    }

    /// Lets all of it go that is still held: whether any was.
    pub(super) fn let_go(&self, page: &mut Page, now: Millis) -> bool {
        let mut there = false;
        for name in self.held() {
            there |= page.let_go(name, self.id, now, now);
        }
        there
    }

    /// Leaves a mark, if any of it would be held.
    ///
    /// # Errors
    /// There is no room for the mark.
    pub(super) fn mark(&self, page: &mut Page, now: Millis) -> Result<(), NoRoom> {
        let mark = self.hold(now.plus(MARKED_FOR), true);
        self.first()
            .map_or(Ok(()), |name| page.hold(name, &mark, &[], now))
    }

    /// Whether any of it has to be let go some time.
    pub(super) fn are_held(&self) -> bool {
        self.first().is_some()
    }

    /// Whether there is anything to take.
    pub(super) fn take_any(&self) -> bool {
        self.are_held() || self.quota.is_some()
    }

    /// Where a mark is left.
    fn first(&self) -> Option<Name> {
        self.held().next()
    }

    fn held(&self) -> impl Iterator<Item = Name> {
        let lease = self.lease.map(|(name, _)| name);
        [lease, self.lock, self.flight].into_iter().flatten()
    }

    const fn hold(&self, until: Millis, marked: bool) -> Hold {
        Hold {
            id: self.id,
            until,
            marked,
            lingers: Millis(0),
        }
    }
}
