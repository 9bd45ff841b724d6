//! One entry of a page: 48 bytes, a bucket, what is held against somebody, what somebody holds, or what was
//! noticed.
//!
//! Little-endian: id (16 bytes), then five words whose meaning follows from the kind, which is the
//! top byte of the first one (times in milliseconds leave it free).
//!
//! What may make room for others before it says nothing any more: notes, then buckets, then offenses. Never
//! a box or a lockout, running strikes, what somebody holds, or attempts.

use tollgate_config::Millis;

use crate::limit::{bucket::Level, penalty, promise::Promise};

pub mod grants;
pub mod hold;
pub mod note;

/// Bytes of an entry.
pub const SIZE: usize = 48;

const TIME_BITS: u32 = 56;
const TIME: u64 = (1 << TIME_BITS) - 1;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A key's bucket.
    Key = 1,
    /// A tenant's bucket.
    Tenant = 2,
    /// An address's `ip_limit`.
    Ip = 3,
    /// An address's anonymous bucket.
    Anonymous = 4,
    /// The one bucket of all newcomers to a page without room.
    Overflow = 5,
    /// Strikes, offenses and box.
    Penalty = 6,
    /// A lease: of one name there are as many as are held.
    Lease = 7,
    /// A lock.
    Lock = 8,
    /// An idempotency key in flight.
    Flight = 9,
    /// Grants of a quota: of one name there are as many as it takes.
    Quota = 10,
    /// An attempt in flight, or whose outcome did not come in time: of one name there are as many as there are.
    Attempt = 11,
    /// Attempts that failed: of one name there are as many as it takes.
    Failed = 12,
    /// An address from which a subject succeeded: of one name there are as many as there are.
    Known = 13,
    /// Addresses from which a subject failed.
    Spread = 14,
    /// A part of what failed from an address, for whom.
    Stuffing = 15,
}

/// Whose entry it is: compared whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name {
    /// A keyed hash of the owner.
    pub id: u128,
    /// What the entry is.
    pub kind: Kind,
}

impl Name {
    /// The overflow bucket of a page.
    pub const OVERFLOW: Self = Self {
        id: 0,
        kind: Kind::Overflow,
    };
}

/// A bucket and its last promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// What is spent.
    pub level: Level,
    /// The last promise.
    pub promise: Promise,
}

/// An entry as it lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    id: u128,
    head: u64,
    word: u64,
    low: u32,
    high: u32,
    last: u64,
}

impl Entry {
    /// Reads an entry.
    #[must_use]
    pub fn read(bytes: &[u8; SIZE]) -> Self {
        let (id, rest) = split::<16>(bytes);
        let (head, rest) = split::<8>(rest);
        let (word, rest) = split::<8>(rest);
        let (low, rest) = split::<4>(rest);
        let (high, rest) = split::<4>(rest);
        let (last, _) = split::<8>(rest);
        Self {
            id: u128::from_le_bytes(id),
            head: u64::from_le_bytes(head),
            word: u64::from_le_bytes(word),
            low: u32::from_le_bytes(low),
            high: u32::from_le_bytes(high),
            last: u64::from_le_bytes(last),
        }
    }

    /// The entry's bytes.
    #[must_use]
    pub fn bytes(&self) -> [u8; SIZE] {
        let mut out = [0; SIZE];
        let mut rest = out.as_mut_slice();
        put(&mut rest, self.id.to_le_bytes());
        put(&mut rest, self.head.to_le_bytes());
        put(&mut rest, self.word.to_le_bytes());
        put(&mut rest, self.low.to_le_bytes());
        put(&mut rest, self.high.to_le_bytes());
        put(&mut rest, self.last.to_le_bytes());
        out
    }

    /// Whether this is the entry of that name.
    #[must_use]
    pub const fn is(&self, name: Name) -> bool {
        self.id == name.id && self.kind() == name.kind as u8
    }

    const fn kind(&self) -> u8 {
        (self.head >> TIME_BITS) as u8
    }

    /// A bucket's entry.
    #[must_use]
    pub fn of_bucket(name: Name, bucket: &Bucket) -> Self {
        Self {
            id: name.id,
            head: tagged(name.kind as u8, bucket.level.at),
            word: bucket.level.spent,
            low: narrow(bucket.level.refill),
            high: narrow(bucket.level.unit),
            last: bucket.promise.0,
        }
    }

    /// The bucket, if it is one.
    #[must_use]
    pub const fn bucket(&self) -> Option<Bucket> {
        let kind = self.kind();
        if kind >= Kind::Penalty as u8 && kind <= Kind::Stuffing as u8 {
            return None;
        }
        Some(Bucket {
            level: Level {
                spent: self.word,
                unit: self.high as u64,
                refill: self.low as u64,
                at: Millis(self.head & TIME),
            },
            promise: Promise(self.last),
        })
    }

    /// The entry of what is held against somebody.
    #[must_use]
    pub fn of_penalty(name: Name, record: &penalty::Record) -> Self {
        Self {
            id: name.id,
            head: tagged(Kind::Penalty as u8, record.window_ends),
            word: tagged(record.level, record.boxed_until),
            low: record.strikes,
            high: record.offenses,
            last: tagged(record.by_throttle as u8, record.remembered_until),
        }
    }

    /// What is held, if this is such an entry.
    #[must_use]
    pub const fn penalty(&self) -> Option<penalty::Record> {
        if self.kind() != Kind::Penalty as u8 {
            return None;
        }
        Some(penalty::Record {
            strikes: self.low,
            window_ends: Millis(self.head & TIME),
            offenses: self.high,
            remembered_until: Millis(self.last & TIME),
            level: (self.word >> TIME_BITS) as u8,
            boxed_until: Millis(self.word & TIME),
            by_throttle: self.last >> TIME_BITS != 0,
        })
    }

    /// Whether forgetting this entry changes nothing: a full bucket with no promise outstanding, nothing
    /// held against anybody, or something held that has ended.
    #[must_use]
    pub fn is_spent(&self, now: Millis) -> bool {
        if let Some(bucket) = self.bucket() {
            bucket.level.fills_at() <= now && bucket.promise.is_past(now)
        } else if let Some(record) = self.penalty() {
            record.is_clean(now)
        } else if let Some(grants) = self.grants() {
            grants.ends() <= now
        } else if let Some(ends) = self.note_ends() {
            ends <= now
        } else {
            self.hold().is_none_or(|hold| hold.ends() <= now)
        }
    }

    /// How little this entry matters, if it may make room for others at all; the least matters least.
    #[must_use]
    pub fn evictable(&self, now: Millis) -> Option<Worth> {
        if self.kind() == Kind::Overflow as u8 {
            return None;
        }
        if let Some(bucket) = self.bucket() {
            let promised = Millis(bucket.promise.0.div_ceil(1000));
            return Some(Worth::Bucket(bucket.level.fills_at().max(promised)));
        }
        if let Some(ends) = self.note_ends() {
            return Some(Worth::Note(ends));
        }
        let record = self.penalty()?;
        let only_offenses = record.boxed_until <= now && record.window_ends <= now;
        only_offenses.then_some(Worth::Offenses(record.remembered_until))
    }
}

/// What is lost with an entry, in the order in which it may be lost. A box and running strikes never are,
/// nor is what somebody holds, nor are attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Worth {
    /// A note: until it is out of date.
    Note(Millis),
    /// A bucket: until it is full and its promises are past.
    Bucket(Millis),
    /// Offenses: until they are forgotten anyway.
    Offenses(Millis),
}

const fn tagged(tag: u8, time: Millis) -> u64 {
    let time = if time.0 > TIME { TIME } else { time.0 };
    ((tag as u64) << TIME_BITS) | time
}

fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Writes the next bytes, as far as there is room.
fn put<const N: usize>(rest: &mut &mut [u8], bytes: [u8; N]) {
    if let Some((head, tail)) = std::mem::take(rest).split_first_chunk_mut::<N>() {
        *head = bytes;
        *rest = tail;
    }
}

/// The first `N` bytes and the rest; zeros where there are fewer.
fn split<const N: usize>(bytes: &[u8]) -> ([u8; N], &[u8]) {
    match bytes.split_first_chunk::<N>() {
        Some((head, rest)) => (*head, rest),
        None => ([0; N], &[]),
    }
}

#[cfg(test)]
mod tests;
