//! What becomes of attempts on one page when their outcome is told. Must not know of other pages: each is told the
//! same.

use tollgate_config::Millis;

use super::{About, Place, Tries, Try};
use crate::attempt::{Outcome, Sign, Who};
use crate::limit::attempts::Effect;
use crate::store::local::page::Page;
use crate::store::local::page::held::NoRoom;

/// What came of telling.
#[derive(Debug, Default)]
pub(in crate::store::local) struct Told {
    pub(in crate::store::local) signs: Vec<Sign>,
    /// The page was changed.
    pub(in crate::store::local) changed: bool,
}

impl Tries<'_> {
    /// Tells an outcome. An attempt in flight that failed gives its room to the failure, so that there always is
    /// some for that; one that took none may find none.
    ///
    /// # Errors
    /// There is no room for a failure, or for a lockout: what is in the page now is not to be kept.
    pub(in crate::store::local) fn tell(
        &self,
        page: &mut Page,
        outcome: &Outcome,
        now: Millis,
    ) -> Result<Told, NoRoom> {
        let mut told = Told::default();
        let known = self.come_from_known(page, now);
        // Several windows may be full at once, though they lead to the same lockout.
        let places: Vec<(&Try<'_>, Place, bool)> = self
            .list
            .iter()
            .map(|one| {
                let place = self.place_of(one, page, known, now);
                let locked = page.penalty(place.lockout).throttle_lockout(now).is_some();
                (one, place, locked)
            })
            .collect();
        // A failure of which a mark says that it was counted is none for stuffing.
        let mut news = (false, false);
        for (one, place, locked) in places {
            let failed = outcome.is_failed(one.index);
            let resets = one.terms.resets;
            match Effect::of(failed, outcome.succeeded, resets, outcome.started, now) {
                Effect::Fails(at) => {
                    let is_new = !page.is_attempt_marked(place.window, self.id, now);
                    news = (true, news.1 || is_new);
                    if is_new {
                        self.fail(page, (one, place, locked), at, now, &mut told)?;
                    }
                    self.note_failure(page, one, now, &mut told);
                }
                Effect::Clears => {
                    told.changed |= page.end_attempt(place.window, self.id, Millis(0), now);
                    if page.tally(place.window, now).failed > 0 {
                        let counted = page.clear(place.window, now);
                        page.mark_counted(place.window, &counted, now);
                        told.changed = true;
                    }
                }
                Effect::Ends => {
                    told.changed |= page.end_attempt(place.window, self.id, Millis(0), now);
                }
            }
        }
        self.note_success(page, outcome, now, &mut told);
        if outcome.failed != 0 && (news.1 || !news.0) {
            self.stuffs(page, now, &mut told)?;
        }
        Ok(told)
    }

    /// Where an attempt is; if it is nowhere, where it would be.
    fn place_of(&self, one: &Try<'_>, page: &Page, known: bool, now: Millis) -> Place {
        let there = |place: &Place| {
            let attempt = page.attempt(place.window, self.id);
            attempt.is_some_and(|hold| !hold.marked || hold.until > now)
        };
        match one.spared.filter(there) {
            Some(spared) => spared,
            None if there(&one.place) => one.place,
            None => one.place(known),
        }
    }

    /// An attempt has failed; if it is the last that may, that is a lockout.
    fn fail(
        &self,
        page: &mut Page,
        (one, place, locked): (&Try<'_>, Place, bool),
        at: Millis,
        now: Millis,
        told: &mut Told,
    ) -> Result<(), NoRoom> {
        told.changed |= page.end_attempt(place.window, self.id, Millis(0), now);
        // What was let through before the lockout does not count again.
        if locked {
            return Ok(());
        }
        told.changed |= page.fail(place.window, at, &[place.lockout], now)?;
        // Though this one may be too long ago, enough may have failed with nobody telling.
        if page.tally(place.window, now).is_full(one.terms.failures) {
            let lockout = self.trip(page, one, place, now)?;
            told.signs.push(Sign::Locked(one.index, lockout));
            told.changed = true;
        }
        Ok(())
    }

    /// Writes down from where a subject fails.
    fn note_failure(&self, page: &mut Page, one: &Try<'_>, now: Millis, told: &mut Told) {
        let (About::Subject { known, spread, .. }, Who::Subject(_)) = (&self.about, one.terms.who)
        else {
            return;
        };
        let others = [known.0, *spread];
        let (print, within) = (known.1 as u16, one.terms.within);
        if page.fails_from(*spread, print, within, &others, now) {
            told.signs.push(Sign::Spread(one.index));
        }
        told.changed = true;
    }

    /// Writes down from where a subject succeeds.
    fn note_success(&self, page: &mut Page, outcome: &Outcome, now: Millis, told: &mut Told) {
        let About::Subject { known, spread, .. } = &self.about else {
            return;
        };
        let succeeded = |one: &Try<'_>| one.spared.is_some() && !outcome.is_failed(one.index);
        if outcome.succeeded && self.list.iter().any(succeeded) {
            told.changed |= page.know(known.0, known.1, &[known.0, *spread], now);
        }
    }

    /// Counts a failure of the address; if it is credential stuffing, that is a ban.
    fn stuffs(&self, page: &mut Page, now: Millis, told: &mut Told) -> Result<(), NoRoom> {
        let About::Address {
            lockout: box_of,
            stuffing: Some((sketch, subjects)),
        } = &self.about
        else {
            return Ok(());
        };
        let Some((stuffing, ban)) = &self.of.stuffing else {
            return Ok(());
        };
        told.changed = true;
        let limits = (stuffing.failures, stuffing.subjects);
        if !page.stuffs(*sketch, subjects, limits, now) {
            return Ok(());
        }
        page.forget_stuffing(*sketch);
        let memory = self.of.list.iter().map(|one| one.offense_memory).max();
        let mut record = page.penalty(*box_of);
        let lockout = record.ban(*ban, memory.unwrap_or_default(), now);
        page.keep_lockout(*box_of, &record, &[], now)?;
        told.signs.push(Sign::Stuffing(lockout));
        Ok(())
    }
}
