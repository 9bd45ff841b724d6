//! A page: all that the owners of one hash value hold, changed in one compare-and-swap.
//!
//! 16 bytes of head (layout version, the last fence of a lock, the floor), then entries. A page never outgrows its size:
//! when it is full, an entry that says nothing any more goes; failing that, the note that is out of date
//! soonest; then the fullest bucket, which raises the *floor*, below which nobody starts, so that being evicted
//! refills nobody. Where there are no buckets, the offenses go that are forgotten soonest; a box or a lockout
//! and running strikes never do, nor does what somebody holds, nor do attempts at credentials. Where nothing can
//! go, newcomers share one overflow bucket.

use tollgate_config::Millis;

use self::held::NoRoom;
use super::record::{Bucket, Entry, Name, SIZE, Worth};
use crate::limit::{
    bucket::{Level, Meter},
    penalty,
    promise::Promise,
};

pub mod attempts;
pub mod held;
pub mod notes;

const HEAD: usize = 16;
const LAYOUT: u8 = 1;

/// A page that was read, and will be written back if it was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    floor: Millis,
    /// Head and entries, as they lie in memory; the floor is written when they are taken.
    bytes: Vec<u8>,
    /// Names that have a place but are not kept yet: one request seats two before it keeps either.
    seated: [Option<Name>; 2],
    room: usize,
    evictions: u32,
}

impl Page {
    /// The page in these bytes, at most `size` bytes long. Bytes of another layout are an empty page.
    #[must_use]
    pub fn read(bytes: impl Into<Vec<u8>>, size: usize) -> Self {
        let room = size.saturating_sub(HEAD) / SIZE;
        let bytes = bytes.into();
        let floor = match bytes.split_first_chunk::<HEAD>() {
            Some(([LAYOUT, _, _, _, _, _, _, _, floor @ ..], entries)) => {
                let whole = entries.len().is_multiple_of(SIZE) && entries.len() / SIZE <= room;
                whole.then_some(Millis(u64::from_le_bytes(*floor)))
            }
            _ => None,
        };
        let bytes = match floor {
            Some(_) => bytes,
            None => [LAYOUT].into_iter().chain([0; HEAD - 1]).collect(),
        };
        let page = Self {
            floor: floor.unwrap_or_default(),
            bytes,
            seated: [None; 2],
            room,
            evictions: 0,
        };
        // The overflow bucket's place is always free for it: other bytes were not written here.
        let full = page.chunks().len() >= room.max(1) && page.find(Name::OVERFLOW).is_none();
        if full { Self::read([], size) } else { page }
    }

    /// The page's bytes.
    #[must_use]
    pub fn into_bytes(mut self) -> Vec<u8> {
        if let Some(floor) = self.bytes.get_mut(8..HEAD) {
            floor.copy_from_slice(&self.floor.0.to_le_bytes());
        }
        self.bytes
    }

    /// Entries that made room since the page was read.
    #[must_use]
    pub const fn evictions(&self) -> u32 {
        self.evictions
    }

    /// The name under which a bucket is kept: its own if it is there or there is room for it (which
    /// is made, but never at the cost of `others`), else that of the overflow bucket.
    pub fn seat(&mut self, name: Name, others: &[Name], now: Millis) -> Name {
        if self.find(name).is_some() {
            name
        } else if self.make_room(others, now) {
            if let Some(free) = self.seated.iter_mut().find(|seated| seated.is_none()) {
                *free = Some(name);
            }
            name
        } else {
            Name::OVERFLOW
        }
    }

    /// A bucket; one that is not there is as full as the floor and the overflow bucket let it be.
    ///
    /// The overflow bucket is shared by buckets of any limit, so that all that can be said of it is
    /// when it is full; and nobody is told the promises of others.
    #[must_use]
    pub fn bucket(&self, name: Name, meter: &Meter, now: Millis) -> Bucket {
        let own = self.kept(name).filter(|_| name != Name::OVERFLOW);
        own.unwrap_or_else(|| {
            let shared = self.kept(Name::OVERFLOW);
            let shared = shared.map_or(Millis(0), |bucket| bucket.level.fills_at());
            Bucket {
                level: Level::full_at(meter, now, self.floor.max(shared)),
                promise: Promise::default(),
            }
        })
    }

    /// Keeps a bucket under the name of its seat. The overflow bucket only gets emptier.
    pub fn keep_bucket(&mut self, seat: Name, bucket: &Bucket) {
        let emptier = |kept: Bucket| kept.level.fills_at() >= bucket.level.fills_at();
        if seat != Name::OVERFLOW || !self.kept(seat).is_some_and(emptier) {
            self.keep(seat, &Entry::of_bucket(seat, bucket));
        }
    }

    /// What is held against somebody.
    #[must_use]
    pub fn penalty(&self, name: Name) -> penalty::Record {
        let there = self.find(name).and_then(|at| self.entry(at)?.penalty());
        there.unwrap_or_default()
    }

    /// Keeps what is held against somebody. Where nothing can make room for it, it is not kept.
    pub fn keep_penalty(
        &mut self,
        name: Name,
        record: &penalty::Record,
        others: &[Name],
        now: Millis,
    ) {
        if self.keep_lockout(name, record, others, now).is_err() {
            self.evictions = self.evictions.saturating_add(1);
        }
    }

    /// The same of what must not be lost.
    ///
    /// # Errors
    /// There is no room, which is never made at the cost of `others`.
    pub fn keep_lockout(
        &mut self,
        name: Name,
        record: &penalty::Record,
        others: &[Name],
        now: Millis,
    ) -> Result<(), NoRoom> {
        if self.find(name).is_none() && !self.make_room(others, now) {
            return Err(NoRoom);
        }
        self.keep(name, &Entry::of_penalty(name, record));
        Ok(())
    }

    fn chunks(&self) -> &[[u8; SIZE]] {
        self.bytes.get(HEAD..).unwrap_or_default().as_chunks().0
    }

    fn chunks_mut(&mut self) -> &mut [[u8; SIZE]] {
        let entries = self.bytes.get_mut(HEAD..).unwrap_or_default();
        entries.as_chunks_mut().0
    }

    fn all(&self) -> impl Iterator<Item = Entry> {
        self.chunks().iter().map(Entry::read)
    }

    fn entry(&self, at: usize) -> Option<Entry> {
        self.chunks().get(at).map(Entry::read)
    }

    fn kept(&self, name: Name) -> Option<Bucket> {
        self.entry(self.find(name)?)?.bucket()
    }

    fn find(&self, name: Name) -> Option<usize> {
        let id = name.id.to_le_bytes();
        let named = |chunk: &[u8; SIZE]| chunk.starts_with(&id) && Entry::read(chunk).is(name);
        self.chunks().iter().position(named)
    }

    fn keep(&mut self, name: Name, entry: &Entry) {
        for seated in &mut self.seated {
            seated.take_if(|seated| *seated == name);
        }
        let at = self.find(name);
        match at.and_then(|at| self.chunks_mut().get_mut(at)) {
            Some(chunk) => *chunk = entry.bytes(),
            None => self.bytes.extend(entry.bytes()),
        }
    }

    /// Whether there is room for one more entry; the overflow bucket's place stays free for it.
    fn make_room(&mut self, others: &[Name], now: Millis) -> bool {
        self.make_room_of(others, now, |_| true)
    }

    /// The same, where of what may go at all only some may.
    fn make_room_of(
        &mut self,
        others: &[Name],
        now: Millis,
        may_go: impl Fn(Worth) -> bool,
    ) -> bool {
        let overflow = usize::from(self.find(Name::OVERFLOW).is_none());
        let seated = self.seated.iter().flatten().count();
        let taken = self.chunks().len() + seated + overflow;
        if taken < self.room {
            return true;
        }
        let spare = |entry: &Entry| !others.iter().any(|name| entry.is(*name));
        let overflow = |entry: &Entry| entry.is(Name::OVERFLOW);
        let spent = |e: &Entry| e.is_spent(now) && spare(e) && !overflow(e);
        let useless = self.all().position(|entry| spent(&entry));
        if let Some(at) = useless {
            self.drop_entry(at);
            return true;
        }
        let least = self
            .all()
            .enumerate()
            .filter(|(_, entry)| spare(entry))
            .filter_map(|(at, entry)| Some((entry.evictable(now)?, at)))
            .filter(|(worth, _)| may_go(*worth))
            .min();
        let Some((_, at)) = least else {
            return false;
        };
        let bucket = self.entry(at).and_then(|entry| entry.bucket());
        if let Some(bucket) = bucket {
            self.floor = self.floor.max(bucket.level.fills_at());
        }
        self.evictions = self.evictions.saturating_add(1);
        self.drop_entry(at);
        true
    }

    fn drop_entry(&mut self, at: usize) {
        let chunks = self.chunks_mut();
        let last = chunks.len().saturating_sub(1);
        if at <= last {
            chunks.swap(at, last);
            self.bytes.truncate(HEAD + last * SIZE);
        }
    }
}

#[cfg(test)]
mod tests;
