//! What an answer, or a fault, means for everybody who waits, and for what was told. Must not make calls.

use std::rc::Rc;

use tollgate_config::{Millis, Topology};

use super::course::{Next, after, after_letter, revoking, undoing, undoing_before};
use super::line::{Entry, Waiter};
use super::pick::{Group, Part, Sender};
use super::{Answer, Desk, Flight, MOST_NOTICES, Notice, Protocol, Ready};
use crate::attempt::Sign;
use crate::breaker::Transition;
use crate::store::Ask;
use crate::store::front::{Reply, StoreFault};
use crate::store::script::{Decision, Item, Step, WrongReply};
use crate::verdict::Verdict;

/// What is known of a call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// The store did not hear of it.
    None,
    /// It may have been carried out, or be carried out yet.
    Unknown,
}

impl<P: Protocol> Desk<P> {
    /// Everybody who is part of a call that came back.
    pub(super) fn settle(&mut self, flight: Flight, replies: Vec<Reply>, now: Millis) {
        let mut good = false;
        let mut missing = false;
        let mut bad: Option<(StoreFault, Vec<(Group, Effect)>)> = None;
        for (place, (group, reply)) in flight.groups.into_iter().zip(replies).enumerate() {
            let (fault, effect) = match reply {
                Ok(elements) => {
                    match self.read(&group, &self.words.of(flight.id, place), &elements) {
                        Ok(read) => {
                            good = true;
                            self.answered(group, read, now);
                            continue;
                        }
                        Err(wrong) => (wrong.into(), Effect::Unknown),
                    }
                }
                Err(StoreFault::NoScript) if !flight.loads => {
                    missing = true;
                    self.send_again(group, now);
                    continue;
                }
                Err(StoreFault::NoScript) => (StoreFault::Script, Effect::None),
                Err(fault) => (fault, Effect::Unknown),
            };
            let (_, groups) = bad.get_or_insert((fault, Vec::new()));
            groups.push((group, effect));
        }
        if missing {
            self.load = true;
            self.notice(Notice::Fault(StoreFault::NoScript));
        }
        match bad {
            // Some node of a cluster may be down while others answer: the store is not given up.
            Some((fault, groups)) if good => {
                self.notice(Notice::Fault(fault));
                for (group, effect) in groups {
                    self.fail_group(group, fault, effect, now);
                }
            }
            Some((fault, groups)) => return self.failed(groups, fault, now),
            None => {}
        }
        let mut breaker = self.breaker.get();
        if good && breaker.succeeded() == Some(Transition::Recovered) {
            self.notice(Notice::Recovered);
        } else if !good && flight.probes {
            breaker.undecided();
        }
        self.breaker.set(breaker);
    }

    /// The store's time, and what follows for each item of a group that was asked with this word.
    fn read(
        &self,
        group: &Group,
        word: &str,
        elements: &[String],
    ) -> Result<(Millis, Vec<Next>), WrongReply> {
        let answers = self.protocol.answers(&group.items, word, elements)?;
        if answers.decisions.len() != group.items.len() {
            return Err(WrongReply::Malformed);
        }
        let next = |((item, sender), decision): ((&Item, &Sender), Decision)| match sender {
            Sender::Waiter(waiter) => after(item, decision, &waiter.passed),
            Sender::Letter(_) => after_letter(item.step, decision),
        };
        let senders = group.items.iter().zip(&group.senders);
        let next = senders.zip(answers.decisions).map(next);
        let next = next.collect::<Option<_>>().ok_or(WrongReply::Malformed)?;
        Ok((answers.now, next))
    }

    fn answered(&mut self, group: Group, (then, next): (Millis, Vec<Next>), now: Millis) {
        for (part, next) in group.into_parts().zip(next) {
            match part {
                Part::Question(entry) => self.follow(entry, next, then, now),
                Part::Letter(letter) => {
                    if let Next::Kept { lost, signs } = next {
                        self.kept(&letter.item().ask, lost, signs);
                    }
                    self.outbox.delivered(letter);
                }
            }
        }
    }

    /// The store kept what a request holds, or let it go.
    fn kept(&mut self, ask: &Rc<Ask>, lost: bool, signs: Vec<Sign>) {
        if lost {
            self.notice(Notice::Lost);
        }
        for sign in signs {
            self.notice(Notice::Sign(Rc::clone(ask), sign));
        }
    }

    /// The store answered a question at its own time `then`.
    fn follow(&mut self, entry: Entry, next: Next, then: Millis, now: Millis) {
        match next {
            Next::Asked(leg, passed) => {
                let mut waiter = entry.waiter;
                waiter.passed = passed;
                let step = Step::Part(leg);
                let entry = self.entry(Item { step, ..entry.item }, waiter);
                if self.line.is_open(&entry.waiter) {
                    self.line.join(entry);
                } else {
                    self.drop_question(&entry, now);
                }
            }
            Next::Decided(verdict) => {
                let Entry { item, waiter, .. } = entry;
                if !matches!(verdict, Verdict::Allowed(..)) {
                    self.owe_all(undoing_before(&item), now);
                }
                self.answer(waiter, item, Answer::Decided(verdict, then), now);
            }
            Next::Done | Next::Kept { .. } => {
                self.notice(Notice::Fault(StoreFault::Malformed));
                self.fail(entry, StoreFault::Malformed, Effect::None, now);
            }
        }
    }

    /// The script is missing: nothing was done, and it is asked again.
    fn send_again(&mut self, group: Group, now: Millis) {
        for part in group.into_parts().rev() {
            match part {
                Part::Question(entry) => self.line.rejoin(entry),
                Part::Letter(letter) => self.outbox.put_back(letter, now),
            }
        }
    }

    /// A call failed, and with it everybody who waits.
    pub(super) fn failed(
        &mut self,
        groups: impl IntoIterator<Item = (Group, Effect)>,
        fault: StoreFault,
        now: Millis,
    ) {
        self.notice(Notice::Fault(fault));
        let mut breaker = self.breaker.get();
        if let Some(Transition::Opened { failures }) = breaker.failed(now) {
            self.notice(Notice::Opened { fault, failures });
        }
        self.breaker.set(breaker);
        for (group, effect) in groups {
            self.fail_group(group, fault, effect, now);
        }
        for entry in self.line.take_waiting() {
            self.fail(entry, fault, Effect::None, now);
        }
    }

    pub(super) fn fail_group(
        &mut self,
        group: Group,
        fault: StoreFault,
        effect: Effect,
        now: Millis,
    ) {
        for part in group.into_parts() {
            match (part, effect) {
                (Part::Question(entry), effect) => self.fail(entry, fault, effect, now),
                (Part::Letter(letter), Effect::None) => self.outbox.not_sent(letter, now),
                (Part::Letter(letter), Effect::Unknown) => self.outbox.in_doubt(letter, now),
            }
        }
    }

    /// The breaker is open, or a probe finds out: nobody else waits for that.
    pub(super) fn turn_away(&mut self, now: Millis) {
        for entry in self.line.take_waiting() {
            self.not_sent(entry, StoreFault::Breaker, now);
        }
    }

    pub(super) fn not_sent(&mut self, entry: Entry, fault: StoreFault, now: Millis) {
        if self.line.is_open(&entry.waiter) {
            self.notice(Notice::Fault(fault));
        }
        self.fail(entry, fault, Effect::None, now);
    }

    /// The store did not decide. What the question may hold is revoked, and the legs that let it pass get back
    /// what they gave.
    fn fail(&mut self, entry: Entry, fault: StoreFault, effect: Effect, now: Millis) {
        let Entry { item, waiter, .. } = entry;
        if effect == Effect::Unknown {
            self.owe_all(revoking(&item), now);
        }
        self.owe_all(undoing_before(&item), now);
        self.answer(waiter, item, Answer::Failed(fault), now);
    }

    /// Nobody waits for a question that was not sent.
    pub(super) fn drop_question(&mut self, entry: &Entry, now: Millis) {
        self.owe_all(undoing_before(&entry.item), now);
    }

    fn answer(&mut self, waiter: Waiter, item: Item, answer: Answer, now: Millis) {
        if self.line.is_open(&waiter) {
            self.ready.push_back(Ready {
                waiter,
                item,
                answer,
            });
        } else {
            self.undo(&item, &answer, now);
        }
    }

    /// Nobody takes an answer: what it allowed is undone.
    pub(super) fn undo(&mut self, item: &Item, answer: &Answer, now: Millis) {
        if matches!(answer, Answer::Decided(Verdict::Allowed(..), _)) {
            self.owe_all(undoing(item), now);
        }
    }

    fn owe_all(&mut self, items: Vec<Item>, now: Millis) {
        for item in items {
            self.owe(item, now);
        }
    }

    /// The store will be told. Where there is no room for that, the outbox counts it.
    pub(super) fn owe(&mut self, item: Item, now: Millis) -> bool {
        let tag = self.protocol.tag(&item);
        self.outbox.tell(item, &tag, now)
    }

    pub(super) fn entry(&self, item: Item, waiter: Waiter) -> Entry {
        let tag = match self.topology {
            Topology::Standalone => String::new(),
            Topology::Cluster => self.protocol.tag(&item),
        };
        Entry { item, tag, waiter }
    }

    pub(super) fn notice(&mut self, notice: Notice) {
        if self.notices.len() < MOST_NOTICES {
            self.notices.push(notice);
        }
    }
}
