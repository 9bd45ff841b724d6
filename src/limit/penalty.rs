//! Strikes, offenses and the box they lead to, of one key or address; and the lockouts that throttles of failed
//! credentials lead to, of an address or a subject. An address has one box for both.

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

/// How lockouts escalate with offenses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ladder {
    /// How long they last by level.
    pub levels: [Millis; 3],
    /// The highest level, 1 to 3.
    pub max_level: u8,
    /// How long offenses are remembered after the last one.
    pub offense_memory: Millis,
}

impl Terms {
    const fn ladder(&self) -> Ladder {
        Ladder {
            levels: self.levels,
            max_level: self.max_level,
            offense_memory: self.offense_memory,
        }
    }
}

/// The level of a ban.
const BANNED: u8 = 3;

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
    /// It was failed credentials that the last box is for: it refuses attempts at them, whoever makes them.
    pub by_throttle: bool,
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

    /// The same, if it is for failed credentials.
    #[must_use]
    pub fn throttle_lockout(&self, now: Millis) -> Option<Lockout> {
        self.lockout(now).filter(|_| self.by_throttle)
    }

    /// Takes note of a box that another store told of, to be used without asking again for
    /// [`USED_FOR`], and to its end while that store fails. Running strikes are none any more, as where
    /// the box was tripped; offenses are left as they are.
    pub fn remember(&mut self, lockout: Lockout, now: Millis) {
        self.strikes = 0;
        self.window_ends = now.plus(USED_FOR).min(lockout.until);
        self.level = lockout.level;
        self.boxed_until = lockout.until;
        self.by_throttle = false;
    }

    /// The same of a lockout for failed credentials.
    pub fn remember_throttle(&mut self, lockout: Lockout, now: Millis) {
        self.remember(lockout, now);
        self.by_throttle = true;
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
        self.by_throttle = false;
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
        (self.strikes >= terms.strikes).then(|| self.trip(&terms.ladder(), now))
    }

    /// A throttle's window is full: one offense more, and a lockout in place of any other.
    pub fn lock_out(&mut self, ladder: &Ladder, now: Millis) -> Lockout {
        let lockout = self.trip(ladder, now);
        self.by_throttle = true;
        lockout
    }

    /// Straight to level 3, for so long: what comes after that escalates from there.
    pub fn ban(&mut self, time: Millis, offense_memory: Millis, now: Millis) -> Lockout {
        let offenses = self.offenses(now).max(u32::from(BANNED));
        let lockout = Lockout {
            level: BANNED,
            until: now.plus(time),
        };
        self.enter(lockout, offenses, now.plus(offense_memory));
        self.by_throttle = true;
        lockout
    }

    fn trip(&mut self, ladder: &Ladder, now: Millis) -> Lockout {
        let offenses = self.offenses(now).saturating_add(1);
        let level = offenses.min(3).min(u32::from(ladder.max_level)).max(1) as u8;
        let [first, second, third] = ladder.levels;
        let time = match level {
            1 => first,
            2 => second,
            _ => third,
        };
        let lockout = Lockout {
            level,
            until: now.plus(time),
        };
        self.enter(lockout, offenses, now.plus(ladder.offense_memory));
        lockout
    }

    /// Offenses that are remembered.
    fn offenses(&self, now: Millis) -> u32 {
        let remembered = self.remembered_until > now;
        if remembered { self.offenses } else { 0 }
    }

    fn enter(&mut self, lockout: Lockout, offenses: u32, remembered_until: Millis) {
        *self = Self {
            strikes: 0,
            window_ends: Millis(0),
            offenses,
            remembered_until,
            level: lockout.level,
            boxed_until: lockout.until,
            by_throttle: false,
        };
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
