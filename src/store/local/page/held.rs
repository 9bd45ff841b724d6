//! What somebody holds of a page: leases, locks, keys in flight and places of quotas. None of it makes
//! room for anything before it ends.
//!
//! Entries of one name lie anywhere in the page. What has ended of a name goes when something of that
//! name is written.

use tollgate_config::Millis;

use super::{HEAD, Page};
use crate::hold::{Fence, HoldId};
use crate::limit::{slots, window};
use crate::store::local::record::grants::Grants;
use crate::store::local::record::hold::Hold;
use crate::store::local::record::{Entry, Name, SIZE};

/// There was no room for what was to be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRoom;

/// The last fence is kept above the layout version, in the head's first word.
const LAYOUT_BITS: u32 = 8;

/// No fence goes further than these microseconds, which is in the year 4253.
const LAST_FENCE: u64 = u64::MAX >> LAYOUT_BITS;

impl Page {
    /// How long until one of so many slots may be free; `None` where one is.
    #[must_use]
    pub fn slot_wait(&self, name: Name, slots: u32, now: Millis) -> Option<Millis> {
        let holds = self.named(name).filter_map(|entry| entry.hold());
        let ends = holds.filter(|hold| !hold.marked).map(|hold| hold.until);
        slots::wait(ends, slots, now)
    }

    /// How long until there is a place in a quota; `None` where there is one.
    #[must_use]
    pub fn quota_wait(
        &self,
        name: Name,
        requests: u32,
        per: Millis,
        now: Millis,
    ) -> Option<Millis> {
        window::wait(self.granted(name, per, now), requests, per, now)
    }

    /// Whether it was revoked before it came.
    #[must_use]
    pub fn is_marked(&self, name: Name, id: HoldId, now: Millis) -> bool {
        let mut holds = self.named(name).filter_map(|entry| entry.hold());
        holds.any(|hold| hold.marked && hold.id == id && hold.until > now)
    }

    /// Holds a lease, a lock or a key, or leaves a mark in its place.
    ///
    /// # Errors
    /// There is no room, which is never made at the cost of `others`.
    pub fn hold(
        &mut self,
        name: Name,
        hold: &Hold,
        others: &[Name],
        now: Millis,
    ) -> Result<(), NoRoom> {
        self.drop_all(name, |entry| {
            entry.is_spent(now) || entry.hold().is_some_and(|old| old.id == hold.id)
        });
        self.add(&Entry::of_hold(name, hold), others, now)
    }

    /// Spends a place of a quota.
    ///
    /// # Errors
    /// There is no room, which is never made at the cost of `others`.
    pub fn spend(
        &mut self,
        name: Name,
        per: Millis,
        others: &[Name],
        now: Millis,
    ) -> Result<(), NoRoom> {
        self.grant(name, now, per, others, now)
    }

    /// Adds a moment to those of a name that count for `per`.
    pub(super) fn grant(
        &mut self,
        name: Name,
        at: Millis,
        per: Millis,
        others: &[Name],
        now: Millis,
    ) -> Result<(), NoRoom> {
        let mut granted = self.granted(name, per, now);
        granted.push(at);
        granted.sort_unstable();
        self.drop_all(name, |_| true);
        let mut left = granted.as_slice();
        while let Some((grants, rest)) = Grants::of(left, per) {
            self.add(&Entry::of_grants(name, &grants), others, now)?;
            left = rest;
        }
        Ok(())
    }

    /// Moves the end of what is held to `until`; `false` if it is not held any more.
    pub fn hold_until(&mut self, name: Name, id: HoldId, until: Millis, now: Millis) -> bool {
        self.change_end(name, id, now, |_| until)
    }

    /// The same, where what is held for longer already stays so.
    pub fn hold_on(&mut self, name: Name, id: HoldId, until: Millis, now: Millis) -> bool {
        self.change_end(name, id, now, |held| held.max(until))
    }

    fn change_end(
        &mut self,
        name: Name,
        id: HoldId,
        now: Millis,
        end: impl Fn(Millis) -> Millis,
    ) -> bool {
        let mut entries = self.chunks_mut().iter_mut();
        let held = entries.find_map(|chunk| {
            let entry = Entry::read(chunk);
            let hold = entry.hold().filter(|hold| hold.is_of(id) && entry.is(name));
            Some((chunk, hold.filter(|hold| hold.until > now)?))
        });
        let Some((chunk, hold)) = held else {
            return false;
        };
        let until = end(hold.until);
        *chunk = Entry::of_hold(name, &Hold { until, ..hold }).bytes();
        self.drop_all(name, |entry| entry.is_spent(now));
        true
    }

    /// Lets go what is held, or was until after `since`; `false` if that is not there. A mark stays.
    pub fn let_go(&mut self, name: Name, id: HoldId, since: Millis, now: Millis) -> bool {
        let there = self.drop_all(name, |entry| {
            let hold = entry.hold().filter(|hold| hold.is_of(id));
            hold.is_some_and(|hold| hold.until > since)
        });
        if there {
            self.drop_all(name, |entry| entry.is_spent(now));
        }
        there
    }

    /// The fence of a new holder of a lock: larger than all before. They are counted together for all
    /// locks of the page, so that a lock that is free needs no entry.
    pub fn next_fence(&mut self, now: Millis) -> Fence {
        let Some(head) = self.bytes.first_chunk_mut::<{ HEAD / 2 }>() else {
            return Fence(0);
        };
        let word = u64::from_le_bytes(*head);
        let layout = word & ((1 << LAYOUT_BITS) - 1);
        let last = word >> LAYOUT_BITS;
        let fence = now.0.saturating_mul(1000).max(last + 1).min(LAST_FENCE);
        *head = ((fence << LAYOUT_BITS) | layout).to_le_bytes();
        Fence(fence)
    }

    pub(super) fn granted(&self, name: Name, per: Millis, now: Millis) -> Vec<Millis> {
        let entries = self.named(name).filter_map(|entry| entry.grants());
        let times = entries.flat_map(|grants| grants.times());
        times
            .filter(|granted| window::counts(*granted, per, now))
            .collect()
    }

    pub(super) fn named(&self, name: Name) -> impl Iterator<Item = Entry> {
        let id = name.id.to_le_bytes();
        let chunks = self.chunks().iter();
        chunks
            .filter(move |chunk| chunk.starts_with(&id))
            .map(Entry::read)
            .filter(move |entry| entry.is(name))
    }

    fn add(&mut self, entry: &Entry, others: &[Name], now: Millis) -> Result<(), NoRoom> {
        if !self.make_room(others, now) {
            return Err(NoRoom);
        }
        self.bytes.extend(entry.bytes());
        Ok(())
    }

    /// Drops the entries of a name that are `unwanted`: whether there were any.
    pub(super) fn drop_all(&mut self, name: Name, unwanted: impl Fn(&Entry) -> bool) -> bool {
        let id = name.id.to_le_bytes();
        let goes = |chunk: &[u8; SIZE]| {
            let entry = || Entry::read(chunk);
            chunk.starts_with(&id) && entry().is(name) && unwanted(&entry())
        };
        let mut dropped = false;
        while let Some(at) = self.chunks().iter().position(goes) {
            self.drop_entry(at);
            dropped = true;
        }
        dropped
    }
}

#[cfg(test)]
mod tests;
