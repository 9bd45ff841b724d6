//! What an answer, or a fault, means for everybody who waits. Must not make calls.

use tollgate_config::{Millis, Topology};

use super::course::{Next, after, giving_back, undoing};
use super::line::{Entry, Group, Waiter};
use super::{Answer, Desk, Flight, MOST_NOTICES, Notice, Protocol, Ready};
use crate::breaker::Transition;
use crate::store::front::{Reply, StoreFault};
use crate::store::script::{Item, Step};
use crate::verdict::Verdict;

impl<P: Protocol> Desk<P> {
    /// Everybody who is part of a call that came back.
    pub(super) fn settle(&mut self, flight: Flight, replies: Vec<Reply>, now: Millis) {
        let mut good = false;
        let mut missing = false;
        let mut bad: Option<(StoreFault, Vec<Group>)> = None;
        for (group, reply) in flight.groups.into_iter().zip(replies) {
            let fault = match reply {
                Ok(elements) => match self.read(&group, &elements) {
                    Some(read) => {
                        good = true;
                        self.answered(group, read);
                        continue;
                    }
                    None => StoreFault::Malformed,
                },
                Err(StoreFault::NoScript) if !flight.loads => {
                    missing = true;
                    self.line.rejoin(group.into_entries());
                    continue;
                }
                Err(StoreFault::NoScript) => StoreFault::Script,
                Err(fault) => fault,
            };
            bad.get_or_insert((fault, Vec::new())).1.push(group);
        }
        if missing {
            self.load = true;
            self.notice(Notice::Fault(StoreFault::NoScript));
        }
        match bad {
            // Some node of a cluster may be down while others answer: the store is not given up.
            Some((fault, groups)) if good => {
                self.notice(Notice::Fault(fault));
                self.fail_groups(groups, fault);
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

    /// The store's time, and what follows for each item of a group; `None` if that is no answer to them.
    fn read(&self, group: &Group, elements: &[String]) -> Option<(Millis, Vec<Option<Next>>)> {
        let answers = self.protocol.answers(&group.items, elements)?;
        if answers.decisions.len() != group.items.len() {
            return None;
        }
        let entries = group.items.iter().zip(&group.waiters);
        let next = entries
            .zip(answers.decisions)
            .map(|((item, waiter), decision)| {
                let Some(waiter) = waiter else {
                    return Some(None);
                };
                after(item.step, decision, waiter.passed.as_ref()).map(Some)
            });
        Some((answers.now, next.collect::<Option<_>>()?))
    }

    fn answered(&mut self, group: Group, (now, next): (Millis, Vec<Option<Next>>)) {
        for (entry, next) in group.into_entries().zip(next) {
            let Entry { item, waiter, .. } = entry;
            match (waiter, next) {
                (Some(mut waiter), Some(Next::Owner(standing))) => {
                    waiter.passed = Some(standing);
                    let step = Step::Owner;
                    let entry = self.entry(Item { step, ..item }, Some(waiter));
                    self.line.join(entry);
                }
                (Some(waiter), Some(Next::Decided(verdict))) => {
                    let refused = !matches!(verdict, Verdict::Allowed(..));
                    if refused && waiter.passed.is_some() {
                        self.owe(giving_back(&item.ask));
                    }
                    self.answer(waiter, item, Answer::Decided(verdict, now));
                }
                // Given back, or undone.
                _ => {}
            }
        }
    }

    /// A call failed, and with it everybody who waits.
    pub(super) fn failed(&mut self, groups: Vec<Group>, fault: StoreFault, now: Millis) {
        self.notice(Notice::Fault(fault));
        let mut breaker = self.breaker.get();
        if let Some(Transition::Opened { failures }) = breaker.failed(now) {
            self.notice(Notice::Opened { fault, failures });
        }
        self.breaker.set(breaker);
        self.fail_groups(groups, fault);
        for entry in self.line.take_waiting() {
            self.fail(entry, fault);
        }
    }

    fn fail_groups(&mut self, groups: Vec<Group>, fault: StoreFault) {
        for entry in groups.into_iter().flat_map(Group::into_entries) {
            self.fail(entry, fault);
        }
    }

    /// The breaker is open, or a probe finds out: nobody else waits for that.
    pub(super) fn turn_away(&mut self) {
        for entry in self.line.take_waiting() {
            self.not_sent(entry, StoreFault::Breaker);
        }
    }

    pub(super) fn not_sent(&mut self, entry: Entry, fault: StoreFault) {
        if entry.waiter.as_ref().is_some_and(|w| self.line.is_open(w)) {
            self.notice(Notice::Fault(fault));
        }
        self.fail(entry, fault);
    }

    /// The store did not decide. An address that let it pass gets its point back.
    fn fail(&mut self, entry: Entry, fault: StoreFault) {
        let Entry { item, waiter, .. } = entry;
        let Some(waiter) = waiter else {
            return;
        };
        if waiter.passed.is_some() {
            self.owe(giving_back(&item.ask));
        }
        self.answer(waiter, item, Answer::Failed(fault));
    }

    /// Nobody waits for a question that was not sent.
    pub(super) fn drop_question(&mut self, entry: Entry) {
        if entry.waiter.is_some_and(|w| w.passed.is_some()) {
            self.owe(giving_back(&entry.item.ask));
        }
    }

    fn answer(&mut self, waiter: Waiter, item: Item, answer: Answer) {
        if self.line.is_open(&waiter) {
            self.ready.push_back(Ready {
                waiter,
                item,
                answer,
            });
        } else {
            self.undo(&item, &answer);
        }
    }

    /// Nobody takes an answer: what it allowed is undone.
    pub(super) fn undo(&mut self, item: &Item, answer: &Answer) {
        if matches!(answer, Answer::Decided(Verdict::Allowed(..), _)) {
            for item in undoing(&item.ask, item.step) {
                self.owe(item);
            }
        }
    }

    fn owe(&mut self, item: Item) {
        let entry = self.entry(item, None);
        self.owe_entry(entry);
    }

    pub(super) fn owe_entry(&mut self, entry: Entry) {
        if !self.line.owe(entry) {
            self.notice(Notice::Fault(StoreFault::Overload));
        }
    }

    pub(super) fn entry(&self, item: Item, waiter: Option<Waiter>) -> Entry {
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
