//! Whether one more attempt may be let through, on one page: lockouts first, then windows. And the lockout that a full
//! window becomes.

use tollgate_config::Millis;

use super::{About, Place, Tries, Try};
use crate::limit::attempts::Room;
use crate::limit::penalty::{Ladder, Lockout};
use crate::store::local::page::Page;
use crate::store::local::page::held::NoRoom;
use crate::store::local::record::Name;
use crate::verdict::{AuthLockout, Verdict};

/// Why no more may be let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store::local) enum Crowd {
    /// As many are in flight as may fail.
    Busy,
    /// As many failed, with nobody telling.
    Full,
}

impl Try<'_> {
    const fn ladder(&self) -> Ladder {
        Ladder {
            levels: self.terms.levels,
            max_level: self.terms.max_level,
            offense_memory: self.terms.offense_memory,
        }
    }
}

impl Tries<'_> {
    /// The lockout in force: of several, the one that ends last.
    pub(in crate::store::local) fn locked(&self, page: &Page, now: Millis) -> Option<AuthLockout> {
        let known = self.come_from_known(page, now);
        let told = self.remembered(page, now);
        let in_force = |one: &Try<'_>| {
            let own = page.penalty(one.place(known).lockout).throttle_lockout(now);
            let lockout = own.into_iter().chain(told).max_by_key(|l| l.until)?;
            Some(AuthLockout {
                attempt: one.index,
                lockout,
                tripped: false,
            })
        };
        later(self.list.iter().filter_map(in_force))
    }

    /// The lockout that another store told of.
    fn remembered(&self, page: &Page, now: Millis) -> Option<Lockout> {
        page.penalty(self.told()).throttle_lockout(now)
    }

    /// The first throttle by which no more may be let through: which of the request's attempts, and why.
    pub(in crate::store::local) fn crowd(
        &self,
        page: &Page,
        now: Millis,
    ) -> Option<(usize, Crowd)> {
        let (one, crowd) = self.crowded(page, now)?;
        Some((one.index, crowd))
    }

    fn crowded(&self, page: &Page, now: Millis) -> Option<(&Try<'_>, Crowd)> {
        let known = self.come_from_known(page, now);
        self.list.iter().find_map(|one| {
            let tally = page.tally(one.place(known).window, now);
            match tally.room(one.terms.failures, one.terms.provisional) {
                Room::Free => None,
                Room::Busy => Some((one, Crowd::Busy)),
                Room::Full => Some((one, Crowd::Full)),
            }
        })
    }

    /// Why a request is refused, if it is, and whether the page was changed by that: a window that is full becomes a
    /// lockout. `boxed`: another box refuses it unless there is a lockout.
    ///
    /// # Errors
    /// There is no room for the lockout: what is in the page now is not to be kept.
    pub(in crate::store::local) fn refuse(
        &self,
        page: &mut Page,
        boxed: bool,
        now: Millis,
    ) -> Result<Option<(Verdict, bool)>, NoRoom> {
        if let Some(locked) = self.locked(page, now) {
            return Ok(Some((Verdict::AuthLockout(locked), false)));
        }
        let crowded = self.crowded(page, now).filter(|_| !boxed);
        Ok(match crowded {
            None => None,
            Some((_, Crowd::Busy)) => Some((Verdict::AuthBusy, false)),
            Some((one, Crowd::Full)) => {
                let place = one.place(self.come_from_known(page, now));
                let locked = AuthLockout {
                    attempt: one.index,
                    lockout: self.trip(page, one, place, now)?,
                    tripped: true,
                };
                Some((Verdict::AuthLockout(locked), true))
            }
        })
    }

    /// A full window becomes a lockout.
    ///
    /// # Errors
    /// There is no room for it: what is in the page now is not to be kept.
    pub(super) fn trip(
        &self,
        page: &mut Page,
        one: &Try<'_>,
        place: Place,
        now: Millis,
    ) -> Result<Lockout, NoRoom> {
        let counted = page.clear(place.window, now);
        let mut record = page.penalty(place.lockout);
        let lockout = record.lock_out(&one.ladder(), now);
        page.keep_lockout(place.lockout, &record, &[], now)?;
        page.mark_counted(place.window, &counted, now);
        Ok(lockout)
    }

    /// Takes the places of those that have one while they are in flight: whether there are any.
    ///
    /// # Errors
    /// There is no room for all of them: what is in the page now is not to be kept.
    pub(in crate::store::local) fn take(
        &self,
        page: &mut Page,
        others: &[Name],
        now: Millis,
    ) -> Result<bool, NoRoom> {
        let known = self.come_from_known(page, now);
        let others: Vec<Name> = others.iter().copied().chain(self.names()).collect();
        let mut taken = false;
        for one in self.held() {
            page.attempt_now(one.place(known).window, self.id, &others, now)?;
            taken = true;
        }
        Ok(taken)
    }

    /// What is not to make room for what it takes.
    fn names(&self) -> impl Iterator<Item = Name> {
        let known = match self.about {
            About::Subject {
                known: (name, _), ..
            } => Some(name),
            About::Address { .. } => None,
        };
        let spared = self.list.iter().filter_map(|one| one.spared);
        let places = self.list.iter().map(|one| one.place).chain(spared);
        known.into_iter().chain(places.map(|place| place.lockout))
    }
}

/// Of several, the one that ends last; the first of them.
pub(in crate::store::local) fn later(
    all: impl Iterator<Item = AuthLockout>,
) -> Option<AuthLockout> {
    all.reduce(|last, one| {
        let longer = one.lockout.until > last.lockout.until;
        if longer { one } else { last }
    })
}
