//! What the store must still be told though nobody waits for an answer: points that are given back, and what
//! is held for longer, let go or revoked. Must not know calls, nor how an item is encoded.
//!
//! [`Step::Keep`] and [`Step::Revoke`] may be told again: they are tried, with a growing pause, until
//! [`KEPT_FOR`] after they were told. [`Step::GiveBack`] and [`Step::Undo`] are sent once. There is one
//! letter about a hold at a time, on each leg: what is told later of the same takes the place of what was told
//! before, except that an outcome stays until it was told.
//!
//! A letter that was taken is still the outbox's: it is [`delivered`](Outbox::delivered) or comes back.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use tollgate_config::Millis;

use crate::hold::{HoldId, Keep};
use crate::store::Leg;
use crate::store::script::{Item, Step};

/// Letters at most, those that were taken included.
pub const MOST_LETTERS: usize = 4096;

/// How long a letter is worth telling: what it is about has run out by then.
pub const KEPT_FOR: Millis = Millis(60_000);

/// The pause after the first failure; it doubles with each.
const FIRST_PAUSE: Millis = Millis(100);

/// The longest pause.
const LONGEST_PAUSE: Millis = Millis(2000);

/// One thing to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    item: Item,
    /// The hash tag of its keys.
    tag: Rc<str>,
    told: Millis,
    due: Millis,
    tries: u32,
}

impl Letter {
    /// What is to be told.
    #[must_use]
    pub const fn item(&self) -> &Item {
        &self.item
    }

    /// The hash tag of its keys.
    #[must_use]
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// Whether it is worth a call of its own.
    #[must_use]
    pub fn is_due(&self, now: Millis) -> bool {
        // Nothing is due so late: the clock was set back.
        self.due <= now || self.due > now.plus(LONGEST_PAUSE)
    }

    /// The hold it is about, if it may be told again.
    fn hold(&self) -> Option<Hold> {
        hold_of(&self.item)
    }

    fn is_over(&self, now: Millis) -> bool {
        now >= self.told.plus(KEPT_FOR)
    }

    fn pause(&mut self, now: Millis) {
        let longer = FIRST_PAUSE.0.saturating_mul(1 << self.tries.min(8));
        self.due = now.plus(Millis(longer).min(LONGEST_PAUSE));
        self.tries = self.tries.saturating_add(1);
    }
}

/// What a request holds on a leg.
type Hold = (HoldId, Leg);

/// In the order of their telling; the number tells apart what was told at the same time.
type Place = (Millis, u64);

/// The outbox.
#[derive(Debug, Default)]
pub struct Outbox {
    letters: BTreeMap<Place, Letter>,
    numbers: u64,
    /// Where the letter about a hold is.
    holds: HashMap<Hold, Place>,
    /// How many letters there are under a hash tag.
    tags: HashMap<Rc<str>, usize>,
    /// So many were taken, or lent, and have not come back.
    away: usize,
    /// Holds about which one of them is: a second one could overtake it.
    busy: HashSet<Hold>,
    /// Letters that another outbox lent to this one, and the holds they are about.
    borrowed: (usize, Vec<Hold>),
    dropped: u64,
}

impl Outbox {
    /// Has an item told; `false` if there is no room for it, which is counted, or if it is no letter: a
    /// question, or about a hold of a request that wants none.
    pub fn tell(&mut self, item: Item, tag: &str, now: Millis) -> bool {
        let is_letter = match item.step {
            Step::GiveBack | Step::Undo => true,
            Step::Keep(..) | Step::Revoke(_) => hold_of(&item).is_some(),
            Step::Whole | Step::Part(_) => false,
        };
        if !is_letter {
            return false;
        }
        let tag = match self.tags.get_key_value(tag) {
            Some((known, _)) => Rc::clone(known),
            None => Rc::from(tag),
        };
        let mut letter = Letter {
            item,
            tag,
            told: now,
            due: now,
            tries: 0,
        };
        if let Some(earlier) = self.replaced_by(&letter) {
            letter.item.step = after_both(earlier.item.step, letter.item.step);
        }
        self.insert(letter)
    }

    /// Letters that wait, without those that were taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.letters.len()
    }

    /// Whether none wait.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.letters.is_empty()
    }

    /// Whether a letter waits under a hash tag.
    #[must_use]
    pub fn has(&self, tag: &str) -> bool {
        self.tags.contains_key(tag)
    }

    /// The first letter that is worth a call of its own.
    #[must_use]
    pub fn due(&self, now: Millis) -> Option<&Letter> {
        let mut letters = self.letters.values();
        letters.find(|letter| letter.is_due(now) && self.is_here(letter))
    }

    /// Takes letters in the order of their telling, at most so many.
    pub fn take(&mut self, most: usize, mut wanted: impl FnMut(&Letter) -> bool) -> Vec<Letter> {
        let of = |(place, letter): (&Place, &Letter)| {
            (self.is_here(letter) && wanted(letter)).then_some(*place)
        };
        let places: Vec<Place> = self.letters.iter().filter_map(of).take(most).collect();
        let taken: Vec<Letter> = places.iter().filter_map(|at| self.remove(at)).collect();
        self.away = self.away.saturating_add(taken.len());
        self.busy.extend(taken.iter().filter_map(Letter::hold));
        taken
    }

    /// The same of those under one hash tag.
    pub fn take_of(&mut self, tag: &str, most: usize) -> Vec<Letter> {
        if self.has(tag) {
            self.take(most, |letter| letter.tag() == tag)
        } else {
            Vec::new()
        }
    }

    /// A letter that was taken has been carried out.
    pub fn delivered(&mut self, letter: Letter) {
        self.came_back(&letter);
    }

    /// A letter that was taken was not carried out, for no fault of anybody's.
    pub fn put_back(&mut self, letter: Letter, now: Millis) {
        self.came_back(&letter);
        self.restore(letter, now);
    }

    /// The call of a letter that was taken could not be made.
    pub fn not_sent(&mut self, mut letter: Letter, now: Millis) {
        letter.pause(now);
        self.put_back(letter, now);
    }

    /// It is not known whether a letter that was taken was, or will be, carried out.
    pub fn in_doubt(&mut self, letter: Letter, now: Millis) {
        if letter.hold().is_some() {
            self.not_sent(letter, now);
        } else {
            self.came_back(&letter);
            self.drop_one();
        }
    }

    /// Drops what is not worth telling any more.
    pub fn expire(&mut self, now: Millis) {
        while let Some((at, letter)) = self.letters.first_key_value() {
            if !letter.is_over(now) {
                return;
            }
            let at = *at;
            self.remove(&at);
            self.drop_one();
        }
    }

    /// How many were dropped since this was last called: there was no room, they were tried for too long,
    /// or they are told only once and were sent in vain.
    pub const fn take_dropped(&mut self) -> u64 {
        std::mem::replace(&mut self.dropped, 0)
    }

    /// Lends letters to another outbox, at most so many, until that one is [given back](Self::inherit).
    pub fn lend(
        &mut self,
        to: &mut Self,
        most: usize,
        wanted: impl FnMut(&Letter) -> bool,
    ) -> usize {
        let letters = self.take(most, wanted);
        let lent = letters.len();
        for letter in letters {
            to.borrowed.1.extend(letter.hold());
            to.borrowed.0 = to.borrowed.0.saturating_add(1);
            to.insert(letter);
        }
        lent
    }

    /// Takes over all of an outbox that is done with, and has nothing taken from it any more.
    pub fn inherit(&mut self, from: &mut Self, now: Millis) {
        let (borrowed, holds) = std::mem::take(&mut from.borrowed);
        self.away = self.away.saturating_sub(borrowed);
        for hold in holds {
            self.busy.remove(&hold);
        }
        from.holds.clear();
        from.tags.clear();
        for letter in std::mem::take(&mut from.letters).into_values() {
            self.restore(letter, now);
        }
        self.dropped = self.dropped.saturating_add(from.take_dropped());
    }

    /// Whether no letter about the same hold is away.
    fn is_here(&self, letter: &Letter) -> bool {
        self.busy.is_empty() || letter.hold().is_none_or(|hold| !self.busy.contains(&hold))
    }

    /// A letter that was taken is away no more.
    fn came_back(&mut self, letter: &Letter) {
        self.away = self.away.saturating_sub(1);
        if let Some(hold) = letter.hold() {
            self.busy.remove(&hold);
        }
    }

    /// A letter comes back, unless its time is over; what was told of its hold meanwhile is later than it.
    fn restore(&mut self, letter: Letter, now: Millis) {
        let place = letter.hold().and_then(|hold| self.holds.get(&hold));
        if let Some(later) = place.and_then(|at| self.letters.get_mut(at)) {
            later.item.step = after_both(letter.item.step, later.item.step);
        } else if letter.is_over(now) {
            self.drop_one();
        } else {
            self.insert(letter);
        }
    }

    /// Takes away the letter that another one is to replace.
    fn replaced_by(&mut self, letter: &Letter) -> Option<Letter> {
        let at = *self.holds.get(&letter.hold()?)?;
        self.remove(&at)
    }

    fn insert(&mut self, letter: Letter) -> bool {
        if self.letters.len().saturating_add(self.away) >= MOST_LETTERS {
            self.drop_one();
            return false;
        }
        self.numbers = self.numbers.wrapping_add(1);
        let place = (letter.told, self.numbers);
        if let Some(hold) = letter.hold() {
            self.holds.insert(hold, place);
        }
        let count = self.tags.entry(Rc::clone(&letter.tag)).or_default();
        *count = count.saturating_add(1);
        self.letters.insert(place, letter);
        true
    }

    fn remove(&mut self, at: &Place) -> Option<Letter> {
        let letter = self.letters.remove(at)?;
        if let Some(hold) = letter.hold() {
            self.holds.remove(&hold);
        }
        if let Some(count) = self.tags.get_mut(&letter.tag) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.tags.remove(&letter.tag);
            }
        }
        Some(letter)
    }

    const fn drop_one(&mut self) {
        self.dropped = self.dropped.saturating_add(1);
    }
}

/// The hold that an item is about, and on which leg, if it may be told again.
fn hold_of(item: &Item) -> Option<Hold> {
    match item.step {
        Step::Keep(leg, _) | Step::Revoke(leg) => {
            let wanted = item.ask.wanted.as_ref()?;
            Some((wanted.id, leg))
        }
        _ => None,
    }
}

/// What two letters about a hold come to: the later one, but what was let go is never held again, and no
/// outcome is lost.
const fn after_both(earlier: Step, later: Step) -> Step {
    match (earlier, later) {
        (Step::Keep(leg, earlier), Step::Keep(_, later)) => Step::Keep(leg, earlier.then(later)),
        // Whatever has an outcome was let through: there is nothing to be marked.
        (Step::Keep(leg, keep), Step::Revoke(_)) | (Step::Revoke(leg), Step::Keep(_, keep))
            if keep.outcome.is_some() =>
        {
            Step::Keep(leg, keep.then(Keep::NOTHING))
        }
        (Step::Revoke(leg), _) => Step::Revoke(leg),
        _ => later,
    }
}

#[cfg(test)]
mod tests;
