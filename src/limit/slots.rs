//! A number of slots, each held until a moment of its own: leases of a kind; a lock and a key in flight,
//! which have one.

use tollgate_config::Millis;

/// How long until a slot may be free, where so many or more are held now: until the earliest holder's
/// time runs out. `None` where one is free. What ended is held by nobody.
#[must_use]
pub fn wait(ends: impl Iterator<Item = Millis>, slots: u32, now: Millis) -> Option<Millis> {
    let mut held: u32 = 0;
    let mut earliest: Option<Millis> = None;
    for end in ends.filter(|end| *end > now) {
        held = held.saturating_add(1);
        earliest = Some(earliest.map_or(end, |known| known.min(end)));
    }
    earliest
        .filter(|_| held >= slots)
        .map(|earliest| earliest.since(now))
}

#[cfg(test)]
mod tests;
