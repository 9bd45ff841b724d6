//! What was noticed about attempts, as entries: from where a subject succeeds, from how many addresses it fails, and
//! for how many subjects an address fails. Nobody is let through by it who would not be otherwise, so that it may
//! make room for anything else.
//!
//! A time in the first word, and then 24 bytes.

use tollgate_config::Millis;

use super::{Entry, Kind, Name, TIME, put, split, tagged};
use crate::attempt::{KNOWN_FOR, SPREAD};

/// An address from which a subject succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// A keyed hash of the address.
    pub print: u64,
    /// When it last did, as far as that was written down.
    pub at: Millis,
}

/// Addresses from which a subject failed, as many as are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spread {
    /// When they are forgotten.
    pub ends: Millis,
    /// Keyed hashes of them, none of them 0; 0 where there is none yet.
    pub prints: [u16; SPREAD as usize],
}

/// Bytes of a [`Part`]'s bits.
const PART_BYTES: usize = 20;

/// Bits of a [`Part`].
pub const PART_BITS: u32 = PART_BYTES as u32 * 8;

/// A part of what failed from an address, and for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// When it is forgotten.
    pub ends: Millis,
    /// Failures.
    pub failures: u32,
    /// A bit for each hash of a subject, more or less.
    bits: [u8; PART_BYTES],
}

impl Part {
    /// Nothing yet.
    #[must_use]
    pub const fn new(ends: Millis) -> Self {
        Self {
            ends,
            failures: 0,
            bits: [0; PART_BYTES],
        }
    }

    /// Sets one of [`PART_BITS`].
    pub fn set(&mut self, bit: u32) {
        if let Some(byte) = self.bits.get_mut(bit as usize / 8) {
            *byte |= 1 << (bit % 8);
        }
    }

    /// How many are set.
    #[must_use]
    pub fn ones(&self) -> u32 {
        self.bits.iter().map(|byte| byte.count_ones()).sum()
    }
}

impl Entry {
    /// The entry of an address from which a subject succeeded.
    #[must_use]
    pub fn of_known(name: Name, known: Known) -> Self {
        let mut rest = [0; 24];
        put(&mut rest.as_mut_slice(), known.print.to_le_bytes());
        Self::of_note(name, known.at, &rest)
    }

    /// That address, if this is such an entry.
    #[must_use]
    pub fn known(&self) -> Option<Known> {
        let (at, rest) = self.note(Kind::Known)?;
        let (print, _) = split::<8>(&rest);
        let print = u64::from_le_bytes(print);
        Some(Known { print, at })
    }

    /// The entry of addresses from which a subject failed.
    #[must_use]
    pub fn of_spread(name: Name, spread: &Spread) -> Self {
        let mut bytes = [0; 24];
        let mut rest = bytes.as_mut_slice();
        for print in spread.prints {
            put(&mut rest, print.to_le_bytes());
        }
        Self::of_note(name, spread.ends, &bytes)
    }

    /// Those addresses, if this is such an entry.
    #[must_use]
    pub fn spread(&self) -> Option<Spread> {
        let (ends, bytes) = self.note(Kind::Spread)?;
        let mut prints = [0; SPREAD as usize];
        for (print, two) in prints.iter_mut().zip(bytes.as_chunks().0) {
            *print = u16::from_le_bytes(*two);
        }
        Some(Spread { ends, prints })
    }

    /// The entry of a part of what failed from an address.
    #[must_use]
    pub fn of_part(name: Name, part: &Part) -> Self {
        let mut bytes = [0; 24];
        let mut rest = bytes.as_mut_slice();
        put(&mut rest, part.failures.to_le_bytes());
        put(&mut rest, part.bits);
        Self::of_note(name, part.ends, &bytes)
    }

    /// That part, if this is such an entry.
    #[must_use]
    pub fn part(&self) -> Option<Part> {
        let (ends, bytes) = self.note(Kind::Stuffing)?;
        let (failures, rest) = split::<4>(&bytes);
        let (bits, _) = split::<PART_BYTES>(rest);
        Some(Part {
            ends,
            failures: u32::from_le_bytes(failures),
            bits,
        })
    }

    /// When a note is out of date, if this is one.
    #[must_use]
    pub fn note_ends(&self) -> Option<Millis> {
        let at = Millis(self.head & TIME);
        match self.kind() {
            kind if kind == Kind::Known as u8 => Some(at.plus(KNOWN_FOR)),
            kind if kind == Kind::Spread as u8 || kind == Kind::Stuffing as u8 => Some(at),
            _ => None,
        }
    }

    fn of_note(name: Name, time: Millis, bytes: &[u8; 24]) -> Self {
        let (word, rest) = split::<8>(bytes);
        let (low, rest) = split::<4>(rest);
        let (high, rest) = split::<4>(rest);
        let (last, _) = split::<8>(rest);
        Self {
            id: name.id,
            head: tagged(name.kind as u8, time),
            word: u64::from_le_bytes(word),
            low: u32::from_le_bytes(low),
            high: u32::from_le_bytes(high),
            last: u64::from_le_bytes(last),
        }
    }

    fn note(&self, kind: Kind) -> Option<(Millis, [u8; 24])> {
        if self.kind() != kind as u8 {
            return None;
        }
        let mut bytes = [0; 24];
        let mut rest = bytes.as_mut_slice();
        put(&mut rest, self.word.to_le_bytes());
        put(&mut rest, self.low.to_le_bytes());
        put(&mut rest, self.high.to_le_bytes());
        put(&mut rest, self.last.to_le_bytes());
        Some((Millis(self.head & TIME), bytes))
    }
}

#[cfg(test)]
mod tests;
