//! Who waits, in the order of their asking, and what of it goes into the next call. Must not know what
//! becomes of it.
//!
//! A stream that leaves is only crossed off the list of the open ones: its question is found to be
//! nobody's when its turn comes.

use std::collections::{HashMap, VecDeque};

use tollgate_config::Millis;

use crate::store::script::Item;
use crate::verdict::Standing;

/// Items that one call carries at most.
pub(super) const MOST_ITEMS: usize = 64;

/// Questions that wait at most: more than the store could answer in time.
pub(super) const MOST_WAITING: usize = 4096;

/// What is owed to the store at most.
pub(super) const MOST_OWED: usize = 256;

/// Places of a call that what is owed takes at most while somebody waits.
const OWED_FIRST: usize = MOST_ITEMS / 2;

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

/// An item to be sent. Nobody waits for what is owed.
pub(super) struct Entry {
    pub(super) item: Item,
    /// The hash tag under which it is sent; empty where that does not matter.
    pub(super) tag: String,
    pub(super) waiter: Option<Waiter>,
}

/// What goes into one command.
#[derive(Default)]
pub(super) struct Group {
    pub(super) tag: String,
    pub(super) items: Vec<Item>,
    pub(super) waiters: Vec<Option<Waiter>>,
}

impl Group {
    fn push(&mut self, entry: Entry) {
        self.items.push(entry.item);
        self.waiters.push(entry.waiter);
    }

    /// Its entries, one by one.
    pub(super) fn into_entries(self) -> impl DoubleEndedIterator<Item = Entry> {
        let tag = self.tag;
        self.items
            .into_iter()
            .zip(self.waiters)
            .map(move |(item, waiter)| Entry {
                item,
                tag: tag.clone(),
                waiter,
            })
    }
}

/// What was taken for a call.
#[derive(Default)]
pub(super) struct Picked {
    pub(super) groups: Vec<Group>,
    /// Questions whose streams are gone.
    pub(super) left: Vec<Entry>,
}

/// The line.
#[derive(Default)]
pub(super) struct Line {
    open: HashMap<u32, u64>,
    asked: u64,
    waiting: VecDeque<Entry>,
    owed: VecDeque<Entry>,
    /// What is owed chooses the next call's first hash tag.
    owed_leads: bool,
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
        let Some(asked) = asked(&entry) else {
            return self.owed.push_back(entry);
        };
        let last = self.waiting.back().and_then(self::asked);
        if last.is_none_or(|last| last <= asked) {
            self.waiting.push_back(entry);
        } else {
            let place = |e: &Entry| self::asked(e).is_none_or(|other| other <= asked);
            let place = self.waiting.partition_point(place);
            self.waiting.insert(place, entry);
        }
    }

    /// Puts what was already sent back into the line, ahead of those that were asked as early.
    pub(super) fn rejoin(&mut self, entries: impl DoubleEndedIterator<Item = Entry>) {
        for entry in entries.rev() {
            let Some(asked) = asked(&entry) else {
                self.owed.push_front(entry);
                continue;
            };
            let place = |e: &Entry| self::asked(e).is_none_or(|other| other < asked);
            let place = self.waiting.partition_point(place);
            self.waiting.insert(place, entry);
        }
    }

    /// Owes an item to the store; `false` if it owes too much already.
    #[must_use]
    pub(super) fn owe(&mut self, entry: Entry) -> bool {
        let room = self.owed.len() < MOST_OWED;
        if room {
            self.owed.push_back(entry);
        }
        room
    }

    /// Takes all that is owed.
    pub(super) fn take_owed(&mut self) -> VecDeque<Entry> {
        std::mem::take(&mut self.owed)
    }

    /// Takes everybody who waits.
    pub(super) fn take_waiting(&mut self) -> VecDeque<Entry> {
        std::mem::take(&mut self.waiting)
    }

    /// Takes the first in line if it waited for `timeout` or longer.
    pub(super) fn take_expired(&mut self, timeout: Millis, now: Millis) -> Option<Entry> {
        let waited = self.waited(now)?;
        (waited >= timeout).then(|| self.waiting.pop_front())?
    }

    /// How long the first in line has waited.
    fn waited(&self, now: Millis) -> Option<Millis> {
        Some(now.since(self.waiting.front().and_then(asked)?))
    }

    /// Takes what goes into the next call: at most [`MOST_ITEMS`], in at most so many commands, each
    /// under one hash tag. Whoever is first in line is in it, or is in the one after it. What is owed
    /// goes ahead of questions under the same tag.
    pub(super) fn pick(&mut self, most_commands: usize) -> Picked {
        let mut picked = Picked::default();
        while let Some(entry) = self.waiting.pop_front_if(|e| !is_open(&self.open, e)) {
            picked.left.push(entry);
        }
        let owed_leads = !self.owed.is_empty() && (self.owed_leads || self.waiting.is_empty());
        let lead = if owed_leads {
            &self.owed
        } else {
            &self.waiting
        };
        let Some(lead) = lead.front() else {
            return picked;
        };
        picked.groups.push(Group {
            tag: lead.tag.clone(),
            ..Group::default()
        });
        let most_owed = if self.waiting.is_empty() {
            MOST_ITEMS
        } else {
            OWED_FIRST
        };
        let owed = take(
            &mut self.owed,
            &mut picked,
            most_owed,
            most_commands,
            |_| true,
        );
        // A tag under which nobody asks has its turn every other time.
        self.owed_leads = owed == 0 && !self.owed.is_empty();
        let room = MOST_ITEMS.saturating_sub(owed);
        let open = &self.open;
        take(&mut self.waiting, &mut picked, room, most_commands, |e| {
            is_open(open, e)
        });
        picked.groups.retain(|group| !group.items.is_empty());
        picked
    }
}

/// Moves entries into the groups of their tags, in their order, at most `room`; those that nobody waits
/// for are set apart. How many.
fn take(
    from: &mut VecDeque<Entry>,
    into: &mut Picked,
    room: usize,
    most_groups: usize,
    is_open: impl Fn(&Entry) -> bool,
) -> usize {
    let mut taken = 0;
    let mut passed_over = Vec::new();
    while taken < room
        && let Some(entry) = from.pop_front()
    {
        if !is_open(&entry) {
            into.left.push(entry);
            continue;
        }
        let there = into.groups.iter_mut().find(|g| g.tag == entry.tag);
        if let Some(group) = there {
            group.push(entry);
        } else if into.groups.len() < most_groups {
            let mut group = Group {
                tag: entry.tag.clone(),
                ..Group::default()
            };
            group.push(entry);
            into.groups.push(group);
        } else {
            passed_over.push(entry);
            continue;
        }
        taken += 1;
    }
    for entry in passed_over.into_iter().rev() {
        from.push_front(entry);
    }
    taken
}

fn asked(entry: &Entry) -> Option<Millis> {
    entry.waiter.as_ref().map(|waiter| waiter.asked)
}

fn is_open(open: &HashMap<u32, u64>, entry: &Entry) -> bool {
    let waiter = entry.waiter.as_ref();
    waiter.is_none_or(|w| open.get(&w.stream) == Some(&w.number))
}
