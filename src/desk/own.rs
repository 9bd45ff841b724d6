//! The desk of a single stream, for hosts where each makes its own calls: what of the common desk goes along
//! with it, and what comes back. Must not make calls.

use std::collections::VecDeque;
use std::rc::Rc;

use tollgate_config::{Millis, Topology};

use super::line::Line;
use super::pick::{MOST_BEFORE, heeded};
use super::settle::Effect;
use super::{Desk, Protocol};
use crate::outbox::Outbox;
use crate::store::front::StoreFault;

impl<P: Protocol> Desk<P> {
    /// An empty desk that shares this one's breaker. It makes no calls for letters alone: those that its
    /// own calls do not take along [come back](Self::inherit).
    #[must_use]
    pub fn another(&self) -> Self
    where
        P: Clone,
    {
        Self {
            protocol: self.protocol.clone(),
            front: self.front.clone(),
            breaker: Rc::clone(&self.breaker),
            words: self.words.clone(),
            line: Line::default(),
            outbox: Outbox::default(),
            for_letters: false,
            flight: None,
            ready: VecDeque::new(),
            notices: Vec::new(),
            ..*self
        }
    }

    /// Lends letters to a stream's own desk before each of its [calls](Self::next_call): those that have to go
    /// ahead of its question, then, under `topology: standalone`, others; at most half a call. They come back
    /// with [`Self::inherit`], which must therefore be called of every desk that was lent any.
    pub fn lend(&mut self, other: &mut Self) {
        let Some(question) = other.line.waiting.front() else {
            return;
        };
        if self.outbox.is_empty() {
            return;
        }
        let mut tags: Vec<String> = heeded(&self.protocol, &question.item).collect();
        tags.push(question.tag.clone());
        let outbox = &mut other.outbox;
        let room = |outbox: &Outbox| MOST_BEFORE.saturating_sub(outbox.len());
        let most = room(outbox);
        self.outbox.lend(outbox, most, |letter| {
            tags.iter().any(|tag| tag == letter.tag())
        });
        if self.topology == Topology::Standalone {
            let most = room(outbox);
            self.outbox.lend(outbox, most, |_| true);
        }
    }

    /// Takes over what another desk must still tell the store and has noticed, when that one is done with.
    /// A call that it has in flight has an unknown outcome: its answer is nobody's.
    pub fn inherit(&mut self, other: &mut Self) {
        let now = self.seen.max(other.seen);
        other.close(now);
        self.outbox.inherit(&mut other.outbox, now);
        for notice in other.notices() {
            self.notice(notice);
        }
    }

    /// Nobody waits any more, and a call in flight has an unknown outcome.
    pub(super) fn close(&mut self, now: Millis) {
        self.line.leave_all();
        if let Some(flight) = self.flight.take() {
            for group in flight.groups {
                self.fail_group(group, StoreFault::Timeout, Effect::Unknown, now);
            }
        }
        for entry in self.line.take_waiting() {
            self.drop_question(&entry, now);
        }
        while self.ready().is_some() {}
    }
}
