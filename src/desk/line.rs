//! Who waits, in the order of their asking. Must not know what becomes of it.
//!
//! A stream that leaves is only crossed off the list of the open ones: its question is found to be
//! nobody's when its turn comes.

use std::collections::{HashMap, VecDeque};

use tollgate_config::Millis;

use crate::hold::Wanted;
use crate::store::script::{Item, Step};
use crate::verdict::Standing;

/// Items that one call carries at most.
pub(super) const MOST_ITEMS: usize = 64;

/// Questions that wait at most: more than the store could answer in time.
pub(super) const MOST_WAITING: usize = 4096;

/// Who waits for an answer.
#[derive(Clone)]
pub(super) struct Waiter {
    pub(super) stream: u32,
    /// Which of the stream's questions.
    pub(super) number: u64,
    pub(super) asked: Millis,
    /// Where the client stands with an address that let it pass.
    pub(super) passed: Option<Standing>,
}

/// A question to be sent.
pub(super) struct Entry {
    pub(super) item: Item,
    /// The hash tag under which it is sent; empty where that does not matter.
    pub(super) tag: String,
    pub(super) waiter: Waiter,
}

impl Entry {
    /// Whether this step of it asks for something that has to be let go some time.
    pub(super) fn holds(&self) -> bool {
        let takes = matches!(self.item.step, Step::Whole | Step::Owner);
        takes && self.item.ask.wanted.as_ref().is_some_and(Wanted::is_held)
    }
}

/// The line.
#[derive(Default)]
pub(super) struct Line {
    open: HashMap<u32, u64>,
    asked: u64,
    pub(super) waiting: VecDeque<Entry>,
    /// A letter chooses the next call's first hash tag.
    pub(super) letters_lead: bool,
}

impl Line {
    /// Opens a question of a stream; one that it had open before is nobody's.
    pub(super) fn open(&mut self, stream: u32, now: Millis) -> Waiter {
        self.asked = self.asked.wrapping_add(1);
        self.open.insert(stream, self.asked);
        Waiter {
            stream,
            number: self.asked,
            asked: now,
            passed: None,
        }
    }

    /// The stream is gone.
    pub(super) fn leave(&mut self, stream: u32) {
        self.open.remove(&stream);
    }

    /// Whether somebody still waits.
    pub(super) fn is_open(&self, waiter: &Waiter) -> bool {
        self.open.get(&waiter.stream) == Some(&waiter.number)
    }

    /// Closes a question; whether somebody still waited.
    pub(super) fn close(&mut self, waiter: &Waiter) -> bool {
        let open = self.is_open(waiter);
        if open {
            self.open.remove(&waiter.stream);
        }
        open
    }

    /// Questions that wait to be sent.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Puts an entry into the line, behind those that were asked as early.
    pub(super) fn join(&mut self, entry: Entry) {
        let asked = entry.waiter.asked;
        let last = self.waiting.back().map(|last| last.waiter.asked);
        if last.is_none_or(|last| last <= asked) {
            self.waiting.push_back(entry);
        } else {
            let place = self.waiting.partition_point(|e| e.waiter.asked <= asked);
            self.waiting.insert(place, entry);
        }
    }

    /// Puts a question that was already sent back into the line, ahead of those that were asked as early.
    pub(super) fn rejoin(&mut self, entry: Entry) {
        let asked = entry.waiter.asked;
        let place = self.waiting.partition_point(|e| e.waiter.asked < asked);
        self.waiting.insert(place, entry);
    }

    /// The first in line for whom somebody waits.
    pub(super) fn first_open(&self, most: usize) -> impl Iterator<Item = &Entry> {
        let open = |entry: &&Entry| self.is_open(&entry.waiter);
        self.waiting.iter().filter(open).take(most)
    }

    /// Takes the first in line if nobody waits for it.
    pub(super) fn take_left(&mut self) -> Option<Entry> {
        let open = &self.open;
        let is_open = |w: &Waiter| open.get(&w.stream) == Some(&w.number);
        self.waiting.pop_front_if(|entry| !is_open(&entry.waiter))
    }

    /// Takes everybody who waits.
    pub(super) fn take_waiting(&mut self) -> VecDeque<Entry> {
        std::mem::take(&mut self.waiting)
    }

    /// Takes the first in line if it waited for `timeout` or longer.
    pub(super) fn take_expired(&mut self, timeout: Millis, now: Millis) -> Option<Entry> {
        let waited = |entry: &mut Entry| now.since(entry.waiter.asked);
        self.waiting.pop_front_if(|entry| waited(entry) >= timeout)
    }

    /// Nobody waits for anything any more.
    pub(super) fn leave_all(&mut self) {
        self.open.clear();
    }
}
