//! Who waits, in the order of their asking. Must not know what becomes of it.
//!
//! A stream that leaves is only crossed off the list of the open ones: its question is found to be
//! nobody's when the next call is made.

use std::collections::{HashMap, VecDeque};

use tollgate_config::Millis;

use super::course::Passed;
use crate::store::script::Item;

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
    /// What the legs said that let it pass.
    pub(super) passed: Passed,
}

/// A question to be sent.
pub(super) struct Entry {
    pub(super) item: Item,
    /// The hash tag under which it is sent; empty where that does not matter.
    pub(super) tag: String,
    pub(super) waiter: Waiter,
}

/// The line.
#[derive(Default)]
pub(super) struct Line {
    open: HashMap<u32, u64>,
    asked: u64,
    /// Somebody left since nobody's questions were taken.
    left: bool,
    pub(super) waiting: VecDeque<Entry>,
    /// A letter chooses the next call's first hash tag.
    pub(super) letters_lead: bool,
}

impl Line {
    /// Opens a question of a stream; one that it had open before is nobody's.
    pub(super) fn open(&mut self, stream: u32, now: Millis) -> Waiter {
        self.asked = self.asked.wrapping_add(1);
        self.left |= self.open.insert(stream, self.asked).is_some();
        Waiter {
            stream,
            number: self.asked,
            asked: now,
            passed: Passed::default(),
        }
    }

    /// The stream is gone.
    pub(super) fn leave(&mut self, stream: u32) {
        self.left |= self.open.remove(&stream).is_some();
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

    /// Takes the questions for which nobody waits.
    pub(super) fn take_left(&mut self) -> VecDeque<Entry> {
        if !std::mem::take(&mut self.left) {
            return VecDeque::new();
        }
        let waiting = std::mem::take(&mut self.waiting);
        let (open, left) = waiting.into_iter().partition(|e| self.is_open(&e.waiter));
        self.waiting = open;
        left
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
        self.left = true;
        self.open.clear();
    }
}
