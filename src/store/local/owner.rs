//! The decision over one owner's page.

use tollgate_config::Millis;

use super::Local;
use super::memory::Memory;
use super::met::{Besides, Met};
use super::page::Page;
use super::page::held::NoRoom;
use super::record::{Bucket as Kept, Name};
use super::wishes::Wishes;
use crate::limit::bucket::Meter;
use crate::limit::decision::{Bucket, Holding, Outcome, Penalty};
use crate::store::{Ask, Toll};
use crate::verdict::Verdict;

impl<M: Memory> Local<M> {
    /// Decides over one owner's page. What was revoked before it came takes nothing, and its answer, which
    /// nobody waits for, says nothing.
    pub(super) fn decide_owner(&self, ask: &Ask, now: Millis, toll: &mut Toll) -> Option<Verdict> {
        let owner = self.owner(ask);
        let met = Met::of(ask, &owner);
        let penalty_name = owner.held();
        let wishes = self.wishes(ask);
        let decided = self.change(&owner, toll, |page| {
            let revoked = |wishes: &Wishes| wishes.are_marked(page, now);
            if wishes.as_ref().is_some_and(revoked) {
                return (Ok(Verdict::Contended), false);
            }
            let second_name = met.second.map_or(met.first.0, |(name, ..)| name);
            let others = [met.first.0, second_name, penalty_name];
            let first_seat = page.seat(met.first.0, &others, now);
            let first = page.bucket(first_seat, &met.first.1, now);
            let second = met.second.map(|(name, meter, cost)| {
                let seat = page.seat(name, &others, now);
                (seat, page.bucket(seat, &meter, now), meter, cost)
            });
            let mut holding = Holding {
                first: Bucket {
                    meter: met.first.1,
                    level: first.level,
                    cost: ask.cost,
                },
                promise: first.promise,
                grace: ask.grace,
                second: second.map(|(_, kept, meter, cost)| Bucket {
                    meter,
                    level: kept.level,
                    cost,
                }),
                penalty: Penalty {
                    terms: ask.penalty.terms,
                    record: page.penalty(penalty_name),
                    strictness: ask.penalty.strictness,
                },
            };
            let held_before = holding.penalty.record;
            let mut besides = Besides::default();
            let outcome = holding.decide_if(now, || {
                let wishes = wishes.as_ref();
                besides.obstacle = wishes.and_then(|wishes| wishes.obstacle(page, now));
                besides.obstacle.is_none()
            });
            if let (Outcome::Allowed, Some(wishes)) = (outcome, &wishes) {
                besides.fence = match wishes.take(page, &others, now) {
                    Ok(fence) => fence,
                    Err(NoRoom) => return (Err(NoRoom), false),
                };
            }
            let untouched = matches!(outcome, Outcome::Boxed { tripped: false, .. });
            if !untouched {
                let kept = Kept {
                    level: holding.first.level,
                    promise: holding.promise,
                };
                page.keep_bucket(first_seat, &kept);
                if let (Some((seat, kept, ..)), Some(bucket)) = (second, holding.second) {
                    page.keep_bucket(
                        seat,
                        &Kept {
                            level: bucket.level,
                            ..kept
                        },
                    );
                }
                let held = holding.penalty.record;
                if held != held_before {
                    page.keep_penalty(penalty_name, &held, &others, now);
                }
            }
            let verdict = met.verdict(&holding, outcome, besides, now);
            (Ok(verdict), !untouched)
        })?;
        Some(decided.unwrap_or_else(|NoRoom| {
            toll.evictions = toll.evictions.saturating_add(1);
            Verdict::Contended
        }))
    }

    /// Whether what is asked for was revoked before it came; changes nothing.
    pub(super) fn is_revoked(&self, ask: &Ask, now: Millis) -> bool {
        let Some(wishes) = self.wishes(ask) else {
            return false;
        };
        let slot = self.page_of(&self.owner(ask));
        slot.and_then(|name| self.memory.read(name))
            .is_some_and(|slot| wishes.are_marked(&Page::read(slot.bytes, self.page_size), now))
    }

    /// How long until the owner's buckets hold their costs; changes nothing.
    pub(super) fn owner_wait(&self, ask: &Ask, now: Millis) -> Millis {
        let owner = self.owner(ask);
        let met = Met::of(ask, &owner);
        let Some(slot) = self.page_of(&owner).and_then(|name| self.memory.read(name)) else {
            return Millis(0);
        };
        let page = Page::read(slot.bytes, self.page_size);
        let (first, first_meter, _) = met.first;
        let buckets = [Some((first, first_meter, ask.cost)), met.second];
        let wait = |(name, meter, cost): (Name, Meter, u64)| {
            let level = page.bucket(name, &meter, now).level;
            level.seen(&meter, now).wait(&meter, cost)
        };
        buckets
            .into_iter()
            .flatten()
            .map(wait)
            .max()
            .unwrap_or_default()
    }
}
