//! What goes into the next call. Must not know what becomes of it.
//!
//! Letters go ahead of questions under the same hash tag, and whichever call leaves takes along all that
//! wait under its tags: only whether a call is made for them alone depends on when they are due. Who
//! waits leaves them half of a call's places.

use std::rc::Rc;

use tollgate_config::{Millis, Topology};

use super::Protocol;
use super::course::asked;
use super::line::{Entry, Line, MOST_ITEMS, Waiter};
use crate::outbox::{Letter, Outbox};
use crate::store::script::{Item, Step};

/// Places of a call that letters take at most while somebody waits.
pub(super) const MOST_BEFORE: usize = MOST_ITEMS / 2;

/// Whom the answer to an item is for.
pub(super) enum Sender {
    Waiter(Waiter),
    Letter(Letter),
}

/// What goes into one command.
#[derive(Default)]
pub(super) struct Group {
    pub(super) tag: String,
    pub(super) items: Vec<Item>,
    pub(super) senders: Vec<Sender>,
}

/// Part of a group.
pub(super) enum Part {
    Question(Entry),
    Letter(Letter),
}

impl Group {
    pub(super) fn of(tag: &str) -> Self {
        Self {
            tag: tag.to_owned(),
            ..Self::default()
        }
    }

    fn question(&mut self, entry: Entry) {
        self.items.push(entry.item);
        self.senders.push(Sender::Waiter(entry.waiter));
    }

    pub(super) fn letter(&mut self, letter: Letter) {
        self.items.push(letter.item().clone());
        self.senders.push(Sender::Letter(letter));
    }

    /// Its parts, one by one.
    pub(super) fn into_parts(self) -> impl DoubleEndedIterator<Item = Part> {
        let tag = self.tag;
        let parts = self.items.into_iter().zip(self.senders);
        parts.map(move |(item, sender)| match sender {
            Sender::Letter(letter) => Part::Letter(letter),
            Sender::Waiter(waiter) => Part::Question(Entry {
                item,
                tag: tag.clone(),
                waiter,
            }),
        })
    }
}

/// What was taken for a call.
#[derive(Default)]
struct Picked {
    groups: Vec<Group>,
}

impl Picked {
    fn group(&mut self, tag: &str) -> Option<&mut Group> {
        self.groups.iter_mut().find(|group| group.tag == tag)
    }

    /// Whether there is a group of a hash tag, or can be.
    fn opens(&mut self, tag: &str, most: usize) -> bool {
        let known = self.group(tag).is_some();
        let room = self.groups.len() < most;
        if !known && room {
            self.groups.push(Group::of(tag));
        }
        known || room
    }
}

/// The hash tags under which letters may change what is decided on a question.
pub(super) fn heeded<P: Protocol>(protocol: &P, item: &Item) -> impl Iterator<Item = String> {
    let legs = asked(item).filter(|leg| item.ask.heeds_on(*leg));
    legs.map(|leg| {
        protocol.tag(&Item {
            ask: Rc::clone(&item.ask),
            step: Step::Part(leg),
        })
    })
}

/// How a call may look.
pub(super) struct Shape<'a, P> {
    pub(super) protocol: &'a P,
    pub(super) topology: Topology,
    /// Each under one hash tag.
    pub(super) most_commands: usize,
    /// Whether a call is made for letters alone.
    pub(super) for_letters: bool,
}

impl<P: Protocol> Shape<'_, P> {
    /// The hash tag of the group that a letter goes into.
    fn group_of<'l>(&self, letter: &'l Letter) -> &'l str {
        match self.topology {
            Topology::Standalone => "",
            Topology::Cluster => letter.tag(),
        }
    }

    /// Moves letters into groups that there are, or that can be opened for those that are due: first
    /// those that go before whoever waits. How many.
    fn letters(&self, outbox: &mut Outbox, line: &Line, picked: &mut Picked, now: Millis) -> usize {
        if outbox.is_empty() {
            return 0;
        }
        let room = if line.waiting.is_empty() {
            MOST_ITEMS
        } else {
            MOST_BEFORE
        };
        let mut letters = Vec::new();
        for entry in line.waiting.iter().take(MOST_ITEMS) {
            if picked.group(&entry.tag).is_some() {
                for tag in heeded(self.protocol, &entry.item) {
                    letters.extend(outbox.take_of(&tag, room.saturating_sub(letters.len())));
                }
            }
        }
        letters.extend(outbox.take(room.saturating_sub(letters.len()), |letter| {
            let tag = self.group_of(letter);
            let most = if letter.is_due(now) {
                self.most_commands
            } else {
                0
            };
            picked.opens(tag, most)
        }));
        let taken = letters.len();
        for letter in letters {
            match picked.group(self.group_of(&letter)) {
                Some(group) => group.letter(letter),
                None => outbox.put_back(letter, now),
            }
        }
        taken
    }
}

impl Line {
    /// Takes what goes into the next call: at most [`MOST_ITEMS`], in at most so many commands. Whoever
    /// is first in line is in it, or is in the one after it, unless it has to wait for letters.
    pub(super) fn pick<P: Protocol>(
        &mut self,
        outbox: &mut Outbox,
        shape: &Shape<'_, P>,
        now: Millis,
    ) -> Vec<Group> {
        let mut picked = Picked::default();
        let due = outbox.due(now).filter(|_| shape.for_letters);
        let leads = due.filter(|_| self.letters_lead || self.waiting.is_empty());
        if leads.is_none() && self.waiting.is_empty() {
            return Vec::new();
        }
        if let Some(letter) = leads {
            picked.opens(shape.group_of(letter), 1);
        }
        // Half of the commands are left to letters under whose hash tags nobody asks.
        let most = shape.most_commands;
        let for_questions = if due.is_some() { most - most / 2 } else { most };
        let letters_led = leads.is_some();
        if !outbox.is_empty() {
            for entry in self.waiting.iter().take(MOST_ITEMS) {
                picked.opens(&entry.tag, for_questions);
            }
        }
        let taken = shape.letters(outbox, self, &mut picked, now);
        // A tag under which nobody asks has its turn every other time.
        self.letters_lead = !letters_led && outbox.due(now).is_some();
        self.questions(outbox, shape, &mut picked, MOST_ITEMS.saturating_sub(taken));
        picked.groups.retain(|group| !group.items.is_empty());
        picked.groups
    }

    /// Moves questions into groups, in their order, at most `room`. None overtakes what is told of others and may
    /// change what is decided.
    fn questions<P: Protocol>(
        &mut self,
        outbox: &Outbox,
        shape: &Shape<'_, P>,
        picked: &mut Picked,
        mut room: usize,
    ) {
        let mut passed_over = Vec::new();
        while room > 0
            && let Some(entry) = self.waiting.pop_front()
        {
            let behind = !outbox.is_empty()
                && heeded(shape.protocol, &entry.item).any(|tag| outbox.has(&tag));
            if behind || !picked.opens(&entry.tag, shape.most_commands) {
                passed_over.push(entry);
            } else if let Some(group) = picked.group(&entry.tag) {
                group.question(entry);
                room = room.saturating_sub(1);
            }
        }
        for entry in passed_over.into_iter().rev() {
            self.waiting.push_front(entry);
        }
    }
}
