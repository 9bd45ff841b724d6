//! Terms, as a call says them once for all its questions. Must not know whose they are.

use std::fmt::Write as _;

use tollgate_config::{Millis, Stuffing};

use crate::attempt::{Attempt, Who};
use crate::limit::bucket::Meter;
use crate::store::BoxTerms;

/// What is the same for many questions.
#[derive(PartialEq)]
pub(super) enum Terms {
    /// For all of a kind of subject: the grace of promises, the box, and the first bucket, the second and
    /// `ip_limit`.
    Limits(Millis, BoxTerms, [Option<Meter>; 3]),
    /// For all attempts by a throttle.
    Throttle(Throttle),
    /// Credential stuffing; how long the ban lasts, and how long offenses are remembered.
    Stuffing(Stuffing, Millis, Millis),
}

/// What of a throttle is the same for all it counts.
#[derive(PartialEq)]
pub(super) struct Throttle {
    who: u8,
    failures: u32,
    within: Millis,
    memory: Millis,
    levels: [Millis; 3],
    max_level: u8,
    provisional: bool,
    resets: bool,
}

impl Throttle {
    /// Of the one that an attempt is under.
    pub(super) const fn of(attempt: &Attempt) -> Self {
        Self {
            who: match attempt.who {
                Who::Ip => 0,
                Who::Subject(_) => 1,
                Who::Pair(_) => 2,
            },
            failures: attempt.failures,
            within: attempt.within,
            memory: attempt.offense_memory,
            levels: attempt.levels,
            max_level: attempt.max_level,
            provisional: attempt.provisional,
            resets: attempt.resets,
        }
    }
}

impl Terms {
    /// As the script reads them.
    pub(super) fn written(&self) -> String {
        match self {
            Self::Limits(grace, penalty, meters) => limits(*grace, penalty, meters),
            Self::Throttle(throttle) => throttle.written(),
            Self::Stuffing(stuffing, ban, memory) => {
                let Stuffing {
                    failures,
                    subjects,
                    within,
                } = stuffing;
                format!("{failures} {subjects} {} {} {}", within.0, ban.0, memory.0)
            }
        }
    }
}

fn limits(grace: Millis, penalty: &BoxTerms, meters: &[Option<Meter>; 3]) -> String {
    let terms = &penalty.terms;
    let [level_1, level_2, level_3] = terms.levels.map(|time| time.0);
    let mut text = format!(
        "{} {} {} {} {level_1} {level_2} {level_3} {}",
        grace.0, terms.strikes, terms.within.0, terms.offense_memory.0, terms.max_level
    );
    for meter in meters {
        let (refill, unit, burst) = meter.map_or((0, 0, 0), |m| (m.refill(), m.unit(), m.burst()));
        let _ = write!(text, " {refill} {unit} {burst}");
    }
    text
}

impl Throttle {
    fn written(&self) -> String {
        let [level_1, level_2, level_3] = self.levels.map(|time| time.0);
        let Self {
            who,
            failures,
            within: Millis(within),
            memory: Millis(memory),
            max_level,
            ..
        } = self;
        let (provisional, resets) = (u8::from(self.provisional), u8::from(self.resets));
        format!(
            "{who} {failures} {within} {memory} {level_1} {level_2} {level_3} {max_level} {provisional} {resets}"
        )
    }
}
