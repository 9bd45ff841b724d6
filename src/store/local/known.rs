//! Boxes and lockouts that this node knows of: those of this store, and those that another store told of.
//!
//! A box is kept where a decision over this store meets it, in its owner's page, so that the degraded
//! limiter refuses whom the failed store had in a box, and no flood drops it. It strikes nobody.
//!
//! A subject's lockout is kept for one subject from one address: others may be spared. An address's is its box.

use tollgate_config::Millis;

use super::Local;
use super::attempts::Tries;
use super::memory::Memory;
use super::met::{Owner, scope};
use super::record::Name;
use super::section::Section;
use crate::limit::penalty::{Lockout, Record};
use crate::store::{Ask, Leg, Toll};
use crate::verdict::{AuthLockout, Boxed, Verdict};

/// What bars a request for some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Barred {
    /// A box.
    Boxed(Boxed),
    /// A lockout for failed credentials.
    LockedOut(AuthLockout),
}

impl Barred {
    /// What a verdict says that bars a request, if it is one of these.
    #[must_use]
    pub const fn of(verdict: &Verdict) -> Option<Self> {
        match verdict {
            Verdict::Boxed(boxed) => Some(Self::Boxed(*boxed)),
            Verdict::AuthLockout(locked) => Some(Self::LockedOut(*locked)),
            _ => None,
        }
    }

    /// The verdict that it stands for.
    #[must_use]
    pub const fn verdict(self) -> Verdict {
        match self {
            Self::Boxed(boxed) => Verdict::Boxed(boxed),
            Self::LockedOut(locked) => Verdict::AuthLockout(locked),
        }
    }

    /// The same with another end.
    #[must_use]
    pub const fn until(mut self, until: Millis) -> Self {
        match &mut self {
            Self::Boxed(boxed) => boxed.lockout.until = until,
            Self::LockedOut(locked) => locked.lockout.until = until,
        }
        self
    }

    /// Its level and end.
    #[must_use]
    pub const fn lockout(&self) -> Lockout {
        match self {
            Self::Boxed(boxed) => boxed.lockout,
            Self::LockedOut(locked) => locked.lockout,
        }
    }
}

/// What this node remembers that bars a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// What that is.
    pub barred: Barred,
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
        let record = self.held_against(ask)?;
        let fresh = record.remembered(now).is_some();
        let boxed = boxed(ask, &record, now)?;
        (fresh || failing).then_some(boxed)
    }

    /// What bars whoever asks, is remembered and has not ended: what may be used, then a box, then what ends last. No
    /// box where boxes do not refuse.
    ///
    /// Reads one page, and one for each leg with attempts, and changes nothing.
    #[must_use]
    pub fn recall(&self, ask: &Ask, now: Millis) -> Option<Known> {
        let attempts = ask.wanted.as_ref().and_then(|w| w.attempts.as_ref());
        let locked = attempts.into_iter().flat_map(|_| self.locked(ask, now));
        let boxed = self.held_against(ask).and_then(|record| {
            // The box of an address that is for failed credentials locks attempts out.
            let locks = record.by_throttle && self.section(ask, Leg::Owner).attempts().is_some();
            let boxed = boxed(ask, &record, now).filter(|_| !locks)?;
            Some(Known {
                barred: Barred::Boxed(boxed),
                fresh: record.remembered(now).is_some(),
            })
        });
        boxed.into_iter().chain(locked).reduce(|first, other| {
            let order = |known: &Known| {
                let boxed = matches!(known.barred, Barred::Boxed(_));
                (known.fresh, boxed, known.barred.lockout().until)
            };
            let before = order(&other) > order(&first);
            if before { other } else { first }
        })
    }

    /// Remembers what another store answered with. Does nothing about boxes where these do not refuse.
    pub fn remember(&self, ask: &Ask, barred: Barred, now: Millis) -> Toll {
        let mut toll = Toll::default();
        match barred {
            Barred::Boxed(boxed) if ask.penalty.strictness.refuses() => {
                let owner = self.owner(ask);
                let remember = |held: &mut Record| held.remember(boxed.lockout, now);
                self.change_held(&owner, owner.held(), now, &mut toll, remember);
            }
            Barred::Boxed(_) => {}
            Barred::LockedOut(locked) => {
                for section in self.with_attempts(ask) {
                    let Some(tries) = section.attempts() else {
                        continue;
                    };
                    if tries.list.iter().any(|one| one.index == locked.attempt) {
                        let (name, lockout) = (tries.told(), locked.lockout);
                        let remember = |held: &mut Record| held.remember_throttle(lockout, now);
                        self.change_held(&section.owner, name, now, &mut toll, remember);
                    }
                }
            }
        }
        toll
    }

    /// Forgets what was remembered that bars whoever asks, since the other store answered that nothing does: it was
    /// released, and must not come back when that store fails.
    ///
    /// Reads what [`Self::recall`] does, and writes only where there is something.
    pub fn forget(&self, ask: &Ask, now: Millis) -> Toll {
        let mut toll = Toll::default();
        if self.known(ask, now, true).is_some() {
            let owner = self.owner(ask);
            self.change_held(&owner, owner.held(), now, &mut toll, Record::release);
        }
        for section in self.with_attempts(ask) {
            let told = section.attempts().map(Tries::told);
            let locked = |name: &Name| {
                self.look(&section.owner)
                    .penalty(*name)
                    .throttle_lockout(now)
            };
            if let Some(name) = told.filter(|name| locked(name).is_some()) {
                self.change_held(&section.owner, name, now, &mut toll, Record::release);
            }
        }
        toll
    }

    /// What is held against whoever asks, where it can refuse him.
    fn held_against(&self, ask: &Ask) -> Option<Record> {
        if !ask.penalty.strictness.refuses() {
            return None;
        }
        let owner = self.owner(ask);
        Some(self.look(&owner).penalty(owner.held()))
    }

    /// What locks out the attempts of whoever asks, on each page.
    fn locked(&self, ask: &Ask, now: Millis) -> impl Iterator<Item = Known> {
        self.with_attempts(ask).filter_map(move |section| {
            let tries = section.attempts()?;
            let record = self.look(&section.owner).penalty(tries.told());
            let locked = AuthLockout {
                attempt: tries.list.first()?.index,
                lockout: record.throttle_lockout(now)?,
                tripped: false,
            };
            Some(Known {
                barred: Barred::LockedOut(locked),
                fresh: record.remembered(now).is_some(),
            })
        })
    }

    fn with_attempts<'a>(&self, ask: &'a Ask) -> impl Iterator<Item = Section<'a>> {
        let legs = ask.legs().map(|leg| self.section(ask, leg));
        legs.filter(|section| section.attempts().is_some())
    }

    fn change_held(
        &self,
        owner: &Owner,
        name: Name,
        now: Millis,
        toll: &mut Toll,
        change: impl Fn(&mut Record),
    ) {
        // Too contended, it is lost; whoever is barred asks again and it is remembered then.
        let _ = self.change(owner, toll, |page| {
            let mut held = page.penalty(name);
            let before = held;
            change(&mut held);
            page.keep_penalty(name, &held, &[name], now);
            ((), held != before)
        });
    }
}

fn boxed(ask: &Ask, record: &Record, now: Millis) -> Option<Boxed> {
    Some(Boxed {
        scope: scope(ask),
        lockout: record.lockout(now)?,
        tripped: false,
    })
}

#[cfg(test)]
mod tests;
