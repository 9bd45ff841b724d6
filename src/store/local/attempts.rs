//! The attempts of a request that count on one page, by the names under which they do. Must not know what else a
//! request asks for.
//!
//! On the page of an address lie windows of its own, its box, and what looks for credential stuffing. On that of a
//! subject lie its windows and its lockout; those from single addresses, which are a pair's, or a known address's
//! that is spared; and the addresses that are known.

use tollgate_config::Millis;

use super::Local;
use super::memory::Memory;
use super::met::Owner;
use super::page::Page;
use super::page::attempts::Window;
use super::page::notes::Sketch;
use super::record::{Kind, Name};
use crate::attempt::{Attempt, Attempts, Who};
use crate::hold::HoldId;
use crate::identity::Id;
use crate::store::{Ask, Leg, Subject};
use crate::verdict::Scope;

pub(super) mod decision;
mod outcome;

/// Where an attempt counts, and the lockout that this leads to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    window: Window,
    lockout: Name,
}

/// By one throttle.
pub(super) struct Try<'a> {
    /// Which of the request's.
    pub(super) index: usize,
    terms: &'a Attempt,
    place: Place,
    /// Its place if it comes from an address that is known.
    spared: Option<Place>,
}

/// What is remembered on a page besides counting.
enum About {
    /// A subject.
    Subject {
        /// From where it succeeded, and a hash of where this request comes from.
        known: (Name, u64),
        /// From where it failed.
        spread: Name,
        /// The lockout from this address that another store told of.
        remembered: Name,
    },
    /// An address.
    Address {
        /// Its box.
        lockout: Name,
        /// What failed from it, where that is looked at, and hashes of the subjects of this request.
        stuffing: Option<(Sketch, Vec<u64>)>,
    },
}

/// The attempts of a request that count on one page.
pub(super) struct Tries<'a> {
    pub(super) id: HoldId,
    pub(super) list: Vec<Try<'a>>,
    of: &'a Attempts,
    about: About,
}

impl<M: Memory> Local<M> {
    /// The attempts of a request that count on the page of one leg, or are looked at there.
    pub(super) fn tries<'a>(&self, ask: &'a Ask, leg: Leg) -> Option<Tries<'a>> {
        let wanted = ask.wanted.as_ref()?;
        let of = wanted.attempts.as_deref()?;
        let (list, about) = match (leg, &ask.subject) {
            (Leg::Owner, Subject::Key { .. }) => return None,
            (Leg::Address | Leg::Owner, _) => self.of_address(of, ask.shadow),
            (Leg::Subject(which), _) => self.of_subject(of, which, ask.shadow)?,
        };
        Some(Tries {
            id: wanted.id,
            list,
            of,
            about,
        })
    }

    /// Whose page the attempts for a subject are on.
    pub(super) fn subject(&self, subject: &Id, ask: &Ask) -> Owner {
        let page = self.hash(ask.shadow, &[b"s", subject.as_str().as_bytes()]);
        Owner {
            scope: Scope::Subject,
            page,
            first: page,
            penalty: page,
        }
    }

    fn of_address<'a>(&self, of: &'a Attempts, shadow: bool) -> (Vec<Try<'a>>, About) {
        let hash = |parts: &[&[u8]]| self.hash(shadow, parts);
        let address = of.address.key();
        let lockout = penalty(hash(&[b"ip", &address]));
        let one = |(index, terms): (usize, &'a Attempt)| Try {
            index,
            terms,
            place: Place {
                window: Window {
                    id: hash(&[b"ip", &address, b"au", terms.name.as_bytes()]),
                    within: terms.within,
                },
                lockout,
            },
            spared: None,
        };
        let list = of.list.iter().enumerate();
        let list = list.filter(|(_, terms)| terms.who == Who::Ip).map(one);
        let stuffing = of.stuffing.as_ref().map(|(stuffing, _)| {
            let sketch = Sketch {
                id: hash(&[b"ip", &address, b"stuffing"]),
                within: stuffing.within,
            };
            let print = |id: &Id| hash(&[b"s", id.as_str().as_bytes()]) as u64;
            (sketch, of.subjects.iter().map(print).collect())
        });
        let about = About::Address { lockout, stuffing };
        (list.collect(), about)
    }

    fn of_subject<'a>(
        &self,
        of: &'a Attempts,
        which: u8,
        shadow: bool,
    ) -> Option<(Vec<Try<'a>>, About)> {
        let hash = |parts: &[&[u8]]| self.hash(shadow, parts);
        let subject = of.subjects.get(usize::from(which))?.as_str().as_bytes();
        let address = of.address.key();
        let own = hash(&[b"s", subject]);
        let pair = hash(&[b"s", subject, &address]);
        let place = |window: &[&[u8]], terms: &Attempt, lockout| Place {
            window: Window {
                id: hash(window),
                within: terms.within,
            },
            lockout: penalty(lockout),
        };
        let one = |(index, terms): (usize, &'a Attempt)| {
            let name = terms.name.as_bytes();
            let of_pair = || place(&[b"s", subject, b"au", name, &address], terms, pair);
            let of_subject = || place(&[b"s", subject, b"au", name], terms, own);
            let (place, spared) = match terms.who {
                Who::Subject(of) if of == which => (of_subject(), terms.spares.then(of_pair)),
                Who::Pair(of) if of == which => (of_pair(), None),
                Who::Ip | Who::Subject(_) | Who::Pair(_) => return None,
            };
            Some(Try {
                index,
                terms,
                place,
                spared,
            })
        };
        let named = |kind| Name { id: own, kind };
        let about = About::Subject {
            known: (named(Kind::Known), pair as u64),
            spread: named(Kind::Spread),
            remembered: penalty(hash(&[b"s", subject, &address, b"remembered"])),
        };
        let list = of.list.iter().enumerate().filter_map(one);
        Some((list.collect(), about))
    }
}

const fn penalty(id: u128) -> Name {
    let kind = Kind::Penalty;
    Name { id, kind }
}

impl Try<'_> {
    /// Its place; `known`: it comes from an address that is.
    const fn place(&self, known: bool) -> Place {
        match self.spared {
            Some(spared) if known => spared,
            _ => self.place,
        }
    }

    /// The windows that it may be in.
    fn windows(&self) -> impl Iterator<Item = Window> + use<> {
        let spared = self.spared.map(|place| place.window);
        spared.into_iter().chain([self.place.window])
    }
}

impl Tries<'_> {
    /// Whether it was revoked before it came.
    pub(super) fn are_marked(&self, page: &Page, now: Millis) -> bool {
        let mut held = self.held();
        held.any(|one| page.is_attempt_marked(one.place.window, self.id, now))
    }

    /// Where a mark is left, if any of them takes a place while it is in flight.
    pub(super) fn first(&self) -> Option<Window> {
        self.held().next().map(|one| one.place.window)
    }

    /// Those that take a place while they are in flight.
    fn held(&self) -> impl Iterator<Item = &Try<'_>> {
        self.list.iter().filter(|one| one.terms.provisional)
    }

    /// Where a lockout is remembered that another store told of.
    pub(super) const fn told(&self) -> Name {
        match self.about {
            About::Subject { remembered, .. } => remembered,
            About::Address { lockout, .. } => lockout,
        }
    }

    /// Takes all of it out of its windows whose time ran until after `since`: whether there was any.
    pub(super) fn let_go(&self, page: &mut Page, since: Millis, now: Millis) -> bool {
        let mut there = false;
        for window in self.held().flat_map(Try::windows) {
            there |= page.end_attempt(window, self.id, since, now);
        }
        there
    }

    /// Whether it comes from an address from which its subject succeeded.
    fn come_from_known(&self, page: &Page, now: Millis) -> bool {
        match self.about {
            About::Subject {
                known: (name, print),
                ..
            } => page.is_known(name, print, now),
            About::Address { .. } => false,
        }
    }
}
