//! What a page remembers about attempts besides counting them. All of it may make room for others, and takes only
//! room that is free or another note's: a page that is full knows less, and lets nobody through for that.

use tollgate_config::Millis;

use super::Page;
use crate::attempt::MOST_KNOWN;
use crate::limit::distinct;
use crate::store::local::record::note::{Known, PART_BITS, Part, Spread};
use crate::store::local::record::{Entry, Kind, Name, Worth};

/// That an address is known is written down again when it was written down longer ago than this.
const WRITTEN_EVERY: Millis = Millis(3_600_000);

/// Failures from one address are counted in so many parts, each subject in one of them.
const PARTS: usize = 7;

const BITS: u32 = PARTS as u32 * PART_BITS;

/// How failures from one address, and the subjects among them, are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sketch {
    /// A keyed hash of whose it is.
    pub id: u128,
    /// The length of its window, from the first failure.
    pub within: Millis,
}

impl Sketch {
    fn names(&self) -> [Name; PARTS] {
        std::array::from_fn(|part| Name {
            id: self.id ^ part as u128,
            kind: Kind::Stuffing,
        })
    }

    fn runs(&self, part: &Part, now: Millis) -> bool {
        // Further away than one lasts, it is of before the clock was set back.
        part.ends > now && part.ends <= now.plus(self.within)
    }
}

impl Page {
    /// Whether a subject is known to succeed from an address. Each has a keyed hash: the name, and `print`.
    #[must_use]
    pub fn is_known(&self, name: Name, print: u64, now: Millis) -> bool {
        let mut known = self.named(name).filter(|entry| !entry.is_spent(now));
        known.any(|entry| entry.known().is_some_and(|known| known.print == print))
    }

    /// Writes down that a subject succeeded from an address. One more than [`MOST_KNOWN`] takes the place of the
    /// one that succeeded the longest ago. Whether anything was changed.
    pub fn know(&mut self, name: Name, print: u64, others: &[Name], now: Millis) -> bool {
        let of = |entry: Entry| entry.known().filter(|_| entry.is(name));
        let here = |entry: Entry| of(entry).filter(|known| known.print == print);
        let known = Known { print, at: now };
        let at = self.all().position(|entry| here(entry).is_some());
        if let Some(chunk) = at.and_then(|at| self.chunks_mut().get_mut(at)) {
            let entry = Entry::read(chunk);
            let lately = |known: Known| now.since(known.at) <= WRITTEN_EVERY;
            if !entry.is_spent(now) && here(entry).is_some_and(lately) {
                return false;
            }
            *chunk = Entry::of_known(name, known).bytes();
            return true;
        }
        self.drop_all(name, |entry| entry.is_spent(now));
        if self.named(name).count() >= MOST_KNOWN as usize {
            let dated = |(at, entry)| Some((of(entry)?.at, at));
            if let Some((_, at)) = self.all().enumerate().filter_map(dated).min() {
                self.drop_entry(at);
            }
        }
        self.note(&Entry::of_known(name, known), others, now);
        true
    }

    /// Writes down that a subject failed from an address, whose keyed hash this is. Whether it is the one address
    /// that makes as many of them as are an event; which is once in a window of this length, from the first failure.
    pub fn fails_from(
        &mut self,
        name: Name,
        print: u16,
        within: Millis,
        others: &[Name],
        now: Millis,
    ) -> bool {
        let at = self.find(name);
        let runs = |spread: &Spread| spread.ends > now && spread.ends <= now.plus(within);
        let old = at.and_then(|at| self.entry(at)?.spread()).filter(runs);
        let mut spread = old.unwrap_or(Spread {
            ends: now.plus(within),
            prints: [0; _],
        });
        let print = print.max(1);
        if spread.prints.contains(&print) {
            return false;
        }
        let Some(free) = spread.prints.iter_mut().find(|print| **print == 0) else {
            return false;
        };
        *free = print;
        self.rewrite(name, &Entry::of_spread(name, &spread), others, now);
        spread.prints.iter().all(|print| *print != 0)
    }

    /// Counts a failure from an address, for these subjects, whose keyed hashes these are: whether there were as
    /// many failures and as many distinct subjects in its window by now.
    pub fn stuffs(
        &mut self,
        sketch: Sketch,
        subjects: &[u64],
        (failures, distinct): (u32, u32),
        now: Millis,
    ) -> bool {
        let names = sketch.names();
        let running = |page: &Self| {
            let parts = names.map(|name| page.entry(page.find(name)?)?.part());
            parts.map(|part| part.filter(|part| sketch.runs(part, now)))
        };
        let mut parts = running(self);
        let ends = parts.iter().flatten().map(|part| part.ends).min();
        let new = Part::new(ends.unwrap_or_else(|| now.plus(sketch.within)));
        let place = |subject: &u64| (subject % u64::from(BITS)) as u32;
        let first = subjects.first().map_or(0, place);
        let mut change = |place: u32, change: &dyn Fn(&mut Part)| {
            let index = (place / PART_BITS) as usize;
            if let (Some(part), Some(name)) = (parts.get_mut(index), names.get(index)) {
                change(part.get_or_insert(new));
                if let Some(part) = part {
                    self.rewrite(*name, &Entry::of_part(*name, part), &names, now);
                }
            }
        };
        change(first, &|part| {
            part.failures = part.failures.saturating_add(1)
        });
        for place in subjects.iter().map(place) {
            change(place, &|part| part.set(place % PART_BITS));
        }
        let parts = running(self);
        let failed = parts.iter().flatten().map(|part| part.failures);
        let failed = failed.fold(0, u32::saturating_add);
        let ones = || parts.iter().flatten().map(Part::ones).sum();
        failed >= failures && distinct::at_least(ones(), BITS) >= distinct
    }

    /// Begins to count failures from an address anew.
    pub fn forget_stuffing(&mut self, sketch: Sketch) {
        for name in sketch.names() {
            self.drop_all(name, |_| true);
        }
    }

    /// Writes a note in place of the one of its name, if there is one.
    fn rewrite(&mut self, name: Name, entry: &Entry, others: &[Name], now: Millis) {
        let at = self.find(name);
        match at.and_then(|at| self.chunks_mut().get_mut(at)) {
            Some(chunk) => *chunk = entry.bytes(),
            None => self.note(entry, others, now),
        }
    }

    /// Writes a note, where there is room for it.
    fn note(&mut self, entry: &Entry, others: &[Name], now: Millis) {
        if self.make_room_of(others, now, |worth| matches!(worth, Worth::Note(_))) {
            self.bytes.extend(entry.bytes());
        }
    }
}

#[cfg(test)]
mod tests;
