//! Grants of a quota, or failed attempts, as an entry: up to six.
//!
//! The first one's time in the first word, the others' distances from it after that, 4 bytes each, and
//! then the window's length in seconds, so that it can be told when all of them are past.

use tollgate_config::Millis;

use super::{Entry, Kind, Name, TIME, narrow, tagged};

/// The distance of a grant that there is not.
const NONE: u32 = u32::MAX;

/// Grants of a quota, or failed attempts, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grants {
    first: Millis,
    after: [u32; 5],
    seconds: u32,
}

impl Grants {
    /// As many of these times, which are in order, as fit into one entry, and the rest; `None` of none.
    /// The last one counts for `per`, in whole seconds rounded up.
    #[must_use]
    pub fn of(times: &[Millis], per: Millis) -> Option<(Self, &[Millis])> {
        let (first, mut rest) = times.split_first()?;
        let mut after = [NONE; 5];
        for place in &mut after {
            let Some((next, others)) = rest.split_first() else {
                break;
            };
            let distance = narrow(next.since(*first).0);
            if distance == NONE {
                break;
            }
            *place = distance;
            rest = others;
        }
        let grants = Self {
            first: Millis(first.0.min(TIME)),
            after,
            seconds: narrow(per.0.div_ceil(1000)),
        };
        Some((grants, rest))
    }

    /// When they were granted, or failed.
    pub fn times(&self) -> impl Iterator<Item = Millis> + use<> {
        let first = self.first;
        let after = self.after.into_iter().filter(|after| *after != NONE);
        let later = after.map(move |after| first.plus(Millis(u64::from(after))));
        std::iter::once(first).chain(later)
    }

    /// When the last of them does not count any more.
    #[must_use]
    pub fn ends(&self) -> Millis {
        let last = self.times().max().unwrap_or(self.first);
        last.plus(Millis(u64::from(self.seconds) * 1000))
    }
}

impl Entry {
    /// The entry of some grants.
    #[must_use]
    pub fn of_grants(name: Name, grants: &Grants) -> Self {
        let [a, b, low, high, e] = grants.after;
        Self {
            id: name.id,
            head: tagged(name.kind as u8, grants.first),
            word: pair(a, b),
            low,
            high,
            last: pair(e, grants.seconds),
        }
    }

    /// The grants, if this is such an entry.
    #[must_use]
    pub const fn grants(&self) -> Option<Grants> {
        let kind = self.kind();
        if kind != Kind::Quota as u8 && kind != Kind::Failed as u8 {
            return None;
        }
        let (a, b) = halves(self.word);
        let (e, seconds) = halves(self.last);
        Some(Grants {
            first: Millis(self.head & TIME),
            after: [a, b, self.low, self.high, e],
            seconds,
        })
    }
}

const fn pair(low: u32, high: u32) -> u64 {
    ((high as u64) << 32) | low as u64
}

const fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

#[cfg(test)]
mod tests;
