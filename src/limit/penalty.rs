//! Strikes, offenses and the box they lead to, of one key or address.

use tollgate_config::Millis;

/// The terms of the box for one tier, or for anonymous requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Strikes that trip the box.
    pub strikes: u32,
    /// The strikes' window, fixed from the first.
    pub within: Millis,
    /// How long offenses are remembered after the last one.
    pub offense_memory: Millis,
    /// Time in the box by level.
    pub levels: [Millis; 3],
    /// The highest level, 1 to 3.
    pub max_level: u8,
}

/// How long a box that another store told of is used without asking again, so that an operator's
/// release takes effect within this time.
pub const USED_FOR: Millis = Millis(10_000);

/// What is held against one key or address.
///
/// Either strikes are counted here, or another store counts them and this is a [memory](Self::remember)
/// of its boxes: then there are no strikes, and `window_ends` is the end of the time for which the box
/// may be used without asking that store again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Record {
    /// Strikes in the running window.
    pub strikes: u32,
    /// When that window ends; of a box that was remembered, when it has to be asked for again.
    pub window_ends: Millis,
    /// Times in the box.
    pub offenses: u32,
    /// When the offenses are forgotten.
    pub remembered_until: Millis,
    /// Level of the last box.
    pub level: u8,
    /// When the last box ends.
    pub boxed_until: Millis,
}

/// A box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lockout {
    /// 1 to 3.
    pub level: u8,
    /// When it ends.
    pub until: Millis,
}

impl Record {
    /// The box in force.
    #[must_use]
    pub fn lockout(&self, now: Millis) -> Option<Lockout> {
        (self.boxed_until > now).then_some(Lockout {
            level: self.level,
            until: self.boxed_until,
        })
    }

    /// Takes note of a box that another store told of, to be used without asking again for
    /// [`USED_FOR`], and to its end while that store fails. Running strikes are none any more, as where
    /// the box was tripped; offenses are left as they are.
    pub fn remember(&mut self, lockout: Lockout, now: Millis) {
        self.strikes = 0;
        self.window_ends = now.plus(USED_FOR).min(lockout.until);
        self.level = lockout.level;
        self.boxed_until = lockout.until;
    }

    /// The box in force, if it was remembered less than [`USED_FOR`] ago.
    #[must_use]
    pub fn remembered(&self, now: Millis) -> Option<Lockout> {
        // Longer than it can last, it was remembered before the clock was set back.
        let fresh = self.window_ends > now && self.window_ends <= now.plus(USED_FOR);
        self.lockout(now).filter(|_| fresh && self.strikes == 0)
    }

    /// Forgets the box in force: the store that counts says that there is none.
    pub fn release(&mut self) {
        self.strikes = 0;
        self.window_ends = Millis(0);
        self.level = 0;
        self.boxed_until = Millis(0);
    }

    /// Whether nothing is held any more.
    #[must_use]
    pub fn is_clean(&self, now: Millis) -> bool {
        self.boxed_until <= now && self.remembered_until <= now && self.window_ends <= now
    }

    /// Strikes that are still allowed.
    #[must_use]
    pub fn strikes_left(&self, terms: &Terms, now: Millis) -> u32 {
        terms
            .strikes
            .saturating_sub(self.strikes_in_window(terms, now))
    }

    /// Counts a strike; the one that fills the window trips the box.
    pub fn strike(&mut self, terms: &Terms, now: Millis) -> Option<Lockout> {
        let before = self.strikes_in_window(terms, now);
        if before == 0 {
            self.window_ends = now.plus(terms.within);
        }
        self.strikes = before.saturating_add(1);
        (self.strikes >= terms.strikes).then(|| self.trip(terms, now))
    }

    fn trip(&mut self, terms: &Terms, now: Millis) -> Lockout {
        let before = if self.remembered_until > now {
            self.offenses
        } else {
            0
        };
        let offenses = before.saturating_add(1);
        let level = offenses.min(3).min(u32::from(terms.max_level)).max(1) as u8;
        let [first, second, third] = terms.levels;
        let time = match level {
            1 => first,
            2 => second,
            _ => third,
        };
        *self = Self {
            strikes: 0,
            window_ends: Millis(0),
            offenses,
            remembered_until: now.plus(terms.offense_memory),
            level,
            boxed_until: now.plus(time),
        };
        Lockout {
            level,
            until: self.boxed_until,
        }
    }

    /// A window that ends further away than one lasts was written before the clock was set back,
    /// or before the window was shortened: it counts no more.
    fn strikes_in_window(&self, terms: &Terms, now: Millis) -> u32 {
        let runs = self.window_ends > now && self.window_ends <= now.plus(terms.within);
        if runs { self.strikes } else { 0 }
    }
}

#[cfg(test)]
mod tests;
