//! What a question wants of one page besides points: what it holds there, and its attempts that count there. Must not
//! know other pages, nor what anything costs.

use tollgate_config::Millis;

use super::Local;
use super::attempts::Tries;
use super::memory::Memory;
use super::met::Owner;
use super::page::Page;
use super::page::held::NoRoom;
use super::record::Name;
use super::wishes::Wishes;
use crate::hold::{Fence, Keep};
use crate::store::{Ask, Kept, Leg};

/// A leg of a question, with what lies under its owner.
pub(super) struct Section<'a> {
    pub(super) leg: Leg,
    pub(super) owner: Owner,
    pub(super) wishes: Option<Wishes>,
    pub(super) tries: Option<Tries<'a>>,
}

impl<M: Memory> Local<M> {
    /// One leg of a question.
    pub(super) fn section<'a>(&self, ask: &'a Ask, leg: Leg) -> Section<'a> {
        Section {
            leg,
            owner: self.owner_of(ask, leg),
            wishes: match leg {
                Leg::Owner => self.wishes(ask),
                Leg::Address | Leg::Subject(_) => None,
            },
            tries: self.tries(ask, leg),
        }
    }

    fn owner_of(&self, ask: &Ask, leg: Leg) -> Owner {
        let attempts = ask.wanted.as_ref().and_then(|w| w.attempts.as_ref());
        let owner = match leg {
            Leg::Owner => None,
            Leg::Address => ask.address().map(|address| self.address(address, ask)),
            Leg::Subject(which) => attempts
                .and_then(|attempts| attempts.subjects.get(usize::from(which)))
                .map(|subject| self.subject(subject, ask)),
        };
        owner.unwrap_or_else(|| self.owner(ask))
    }
}

impl Section<'_> {
    /// Whether it was revoked before it came.
    pub(super) fn is_marked(&self, page: &Page, now: Millis) -> bool {
        let wishes = self.wishes.as_ref();
        wishes.is_some_and(|wishes| wishes.are_marked(page, now))
            || self.tries.as_ref().is_some_and(|t| t.are_marked(page, now))
    }

    /// The attempts, where there are any that count here.
    pub(super) fn attempts(&self) -> Option<&Tries<'_>> {
        self.tries.as_ref().filter(|tries| !tries.list.is_empty())
    }

    /// Takes all of it: the fence of a lock among it, and whether anything was taken.
    ///
    /// # Errors
    /// There is no room for all of it: what is in the page now is not to be kept.
    pub(super) fn take(
        &self,
        page: &mut Page,
        others: &[Name],
        now: Millis,
    ) -> Result<(Option<Fence>, bool), NoRoom> {
        let mut taken = false;
        let mut fence = None;
        if let Some(wishes) = &self.wishes {
            fence = wishes.take(page, others, now)?;
            taken = wishes.take_any();
        }
        if let Some(tries) = &self.tries {
            taken |= tries.take(page, others, now)?;
        }
        Ok((fence, taken))
    }

    /// Gives back all that was taken, but places of quotas.
    pub(super) fn give_back(&self, page: &mut Page, now: Millis) {
        if let Some(wishes) = &self.wishes {
            wishes.keep(page, Keep::NOTHING, now);
        }
        if let Some(tries) = &self.tries {
            tries.let_go(page, now, now);
        }
    }

    /// Keeps what is held for as long as is said, and tells what became of the attempts; and whether the page was
    /// changed.
    ///
    /// # Errors
    /// There is no room: what is in the page now is not to be kept.
    pub(super) fn keep(
        &self,
        page: &mut Page,
        keep: Keep,
        now: Millis,
    ) -> Result<(Kept, bool), NoRoom> {
        let wishes = self.wishes.as_ref();
        let (all, mut changed) = wishes.map_or((true, false), |w| w.keep(page, keep, now));
        let mut kept = Kept::silently(all);
        match (&self.tries, keep.outcome) {
            (Some(tries), Some(outcome)) => {
                let told = tries.tell(page, &outcome, now)?;
                changed |= told.changed;
                kept.signs = told.signs;
            }
            // What ran out has failed.
            (Some(tries), None) if keep == Keep::NOTHING => {
                changed |= tries.let_go(page, now, now);
            }
            _ => {}
        }
        Ok((kept, changed))
    }

    /// Lets all of it go, or, where none of it is held, leaves a mark.
    ///
    /// # Errors
    /// There is no room for the mark.
    pub(super) fn revoke(&self, page: &mut Page, now: Millis) -> Result<(), NoRoom> {
        let mut there = false;
        if let Some(wishes) = &self.wishes {
            there |= wishes.let_go(page, now);
        }
        if let Some(tries) = &self.tries {
            // One that ran out was none: nobody was let through.
            there |= tries.let_go(page, Millis(0), now);
        }
        if there {
            return Ok(());
        }
        let held = self.wishes.as_ref().filter(|wishes| wishes.are_held());
        match (held, &self.tries) {
            (Some(wishes), _) => wishes.mark(page, now),
            (None, Some(tries)) => tries
                .first()
                .map_or(Ok(()), |window| page.mark_attempt(window, tries.id, now)),
            (None, None) => Ok(()),
        }
    }
}
