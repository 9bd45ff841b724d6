//! The decision over all pages that a request meets: the address's, those of subjects, the owner's.
//!
//! Each is changed in one compare-and-swap, one after the other; where a later one refuses, what the earlier ones
//! gave is given back. That is only for what changes in between: before anything is changed, all of them are looked
//! at, so that a request is refused for the reason that comes first, whatever page it is on.

use tollgate_config::Millis;

use super::Local;
use super::attempts::decision::{Crowd, later};
use super::gate::Gate;
use super::memory::Memory;
use super::met::{Met, scope};
use super::page::Page;
use super::page::held::NoRoom;
use super::passed::Passed;
use super::record::{Bucket as Kept, Name};
use super::section::Section;
use crate::limit::bucket::Meter;
use crate::store::{Ask, Leg, Toll};
use crate::verdict::{AuthLockout, Boxed, Verdict};

impl<M: Memory> Local<M> {
    /// Decides over one leg after the other; all or nothing.
    pub(super) fn decide_legs(&self, ask: &Ask, now: Millis, toll: &mut Toll) -> Verdict {
        if let Some(refused) = self.foresee(ask, now, toll) {
            return refused;
        }
        let mut passed = Passed::default();
        for leg in ask.legs() {
            let section = self.section(ask, leg);
            if let Some(refused) = self.refuse(ask, &section, &mut passed, now, toll) {
                for done in ask.legs().take_while(|done| *done != leg) {
                    self.give_back(ask, &self.section(ask, done), now, toll);
                }
                return passed.refused(refused, now);
            }
        }
        passed.allowed(now)
    }

    /// Decides over one leg: why it refuses, or what it gave is added to what `passed`.
    fn refuse(
        &self,
        ask: &Ask,
        section: &Section<'_>,
        passed: &mut Passed,
        now: Millis,
        toll: &mut Toll,
    ) -> Option<Verdict> {
        let Some(met) = Met::of(ask, section) else {
            let gate = Gate::of(ask, section.leg);
            return self.refuse_at_gate(ask, section, &gate, passed, now, toll);
        };
        match self.decide_owner(ask, section, &met, now, toll) {
            Verdict::Allowed(standings, fence) => {
                (passed.standings, passed.fence) = (standings, fence);
                None
            }
            refused => Some(refused),
        }
    }

    /// The refusal that is seen without changing anything, where there is more than one leg; but a window that is
    /// found full becomes a lockout.
    fn foresee(&self, ask: &Ask, now: Millis, toll: &mut Toll) -> Option<Verdict> {
        ask.legs().nth(1)?;
        let attempts = ask.wanted.as_ref().and_then(|w| w.attempts.as_ref());
        if attempts.is_none() {
            if !ask.holds_on(Leg::Owner) && !ask.penalty.strictness.refuses() {
                return None;
            }
            let owner = self.section(ask, Leg::Owner);
            let page = self.look(&owner.owner);
            return match owner.is_marked(&page, now) {
                true => Some(Verdict::Contended),
                false => Some(Verdict::Boxed(boxed(ask, &owner, &page, now)?)),
            };
        }
        let legs: Vec<(Section<'_>, Page)> = ask
            .legs()
            .map(|leg| self.section(ask, leg))
            .map(|section| {
                let page = self.look(&section.owner);
                (section, page)
            })
            .collect();
        let all = || legs.iter().map(|(section, page)| (section, page));
        if all().any(|(section, page)| section.is_marked(page, now)) {
            return Some(Verdict::Contended);
        }
        let owner = all().find(|(section, _)| section.leg == Leg::Owner);
        let boxed = owner.and_then(|(section, page)| boxed(ask, section, page, now));
        if let Some(boxed) = boxed {
            return Some(Verdict::Boxed(boxed));
        }
        let locked = all().filter_map(|(section, page)| section.attempts()?.locked(page, now));
        let mut locked: Vec<AuthLockout> = locked.collect();
        locked.sort_by_key(|locked| locked.attempt);
        if let Some(locked) = later(locked.into_iter()) {
            return Some(Verdict::AuthLockout(locked));
        }
        let crowds = all().filter_map(|(section, page)| {
            let (index, crowd) = section.attempts()?.crowd(page, now)?;
            Some((index, crowd, section))
        });
        match crowds.min_by_key(|(index, ..)| *index)? {
            (_, Crowd::Busy, _) => Some(Verdict::AuthBusy),
            (_, Crowd::Full, section) => self.refuse_full(section, now, toll),
        }
    }

    /// Refuses attempts of a leg whose window was full a moment ago.
    fn refuse_full(&self, section: &Section<'_>, now: Millis, toll: &mut Toll) -> Option<Verdict> {
        let tries = section.attempts()?;
        let refused = self.change(&section.owner, toll, |page| {
            match tries.refuse(page, false, now) {
                Ok(Some((verdict, changed))) => (Ok(Some(verdict)), changed),
                Ok(None) => (Ok(None), false),
                Err(NoRoom) => (Err(NoRoom), false),
            }
        });
        match refused {
            Some(Ok(verdict)) => verdict,
            Some(Err(NoRoom)) => {
                toll.evictions = toll.evictions.saturating_add(1);
                Some(Verdict::Contended)
            }
            None => Some(Verdict::Contended),
        }
    }

    /// Gives back what a leg gave.
    fn give_back(&self, ask: &Ask, section: &Section<'_>, now: Millis, toll: &mut Toll) {
        let buckets = debits(ask, section);
        if !ask.pays_on(section.leg) && !ask.holds_on(section.leg) {
            return;
        }
        let done = self.change(&section.owner, toll, |page| {
            let mut all = true;
            let debits = buckets.into_iter().flatten();
            for (name, meter, cost) in debits.filter(|(.., cost)| *cost > 0) {
                let seat = page.seat(name, &[], now);
                if seat == Name::OVERFLOW {
                    // What is shared with others is not given back.
                    all = false;
                    continue;
                }
                let kept = page.bucket(seat, &meter, now);
                let level = kept.level.kept(&meter, now).give_back(cost);
                page.keep_bucket(seat, &Kept { level, ..kept });
            }
            section.give_back(page, now);
            (all, true)
        });
        if done != Some(true) {
            toll.lost_refunds = toll.lost_refunds.saturating_add(1);
        }
    }

    /// How long until the owner's buckets hold their costs; changes nothing.
    pub(super) fn owner_wait(&self, ask: &Ask, now: Millis) -> Millis {
        let owner = self.section(ask, Leg::Owner);
        let page = self.look(&owner.owner);
        let wait = |(name, meter, cost): (Name, Meter, u64)| {
            let level = page.bucket(name, &meter, now).level;
            level.seen(&meter, now).wait(&meter, cost)
        };
        let waits = debits(ask, &owner).into_iter().flatten().map(wait);
        waits.max().unwrap_or_default()
    }
}

/// The buckets that a leg meets, and what it takes from each.
fn debits(ask: &Ask, section: &Section<'_>) -> [Option<(Name, Meter, u64)>; 2] {
    match Met::of(ask, section) {
        Some(met) => [Some((met.first.0, met.first.1, ask.cost)), met.second],
        None => {
            let meter = Gate::of(ask, section.leg).meter;
            [meter.map(|meter| (section.owner.ip(), meter, 1)), None]
        }
    }
}

/// The box that refuses whoever asks, whatever he attempts: not one for failed credentials where those are looked at.
fn boxed(ask: &Ask, owner: &Section<'_>, page: &Page, now: Millis) -> Option<Boxed> {
    if !ask.penalty.strictness.refuses() {
        return None;
    }
    let lockout = page.penalty(owner.owner.held()).lockout(now)?;
    let locked = owner.attempts().and_then(|tries| tries.locked(page, now));
    locked.is_none().then_some(Boxed {
        scope: scope(ask),
        lockout,
        tripped: false,
    })
}
