//! Who waits for which call of the store. Must not call, and must not know the script's encoding.
//!
//! Questions of many streams leave in one call, and one call is in flight at a time: whoever asks
//! meanwhile waits for the next. A call has `timeout`, whoever waited before it; who waited that long
//! is not sent any more. So a store that answers in time is used, a question is answered within two
//! timeouts, and within one where the store does not answer: the fault of a call ends
//! everybody who waits behind it, since they would meet the same.
//!
//! A call's answer may come when the stream is gone; what it took is then given back.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;

use tollgate_config::{Millis, Redis, Topology};

use self::course::first_step;
use self::line::{Group, Line, MOST_WAITING, Waiter};
pub use self::protocol::Protocol;
use crate::breaker::Breaker;
use crate::store::Ask;
use crate::store::front::{Call, Front, Raw, StoreFault};
use crate::store::script::{Command, Item, Script};
use crate::verdict::Verdict;

mod course;
mod line;
mod protocol;
mod settle;

/// Commands of a call that loads the script: each carries its source.
const MOST_LOADS: usize = 8;

/// So many timeouts are added at most where the host is slow.
const MOST_LAG: u64 = 5;

/// A call whose host did not report it so long after its timeout is lost.
const OVERDUE: Millis = Millis(1000);

/// Notices that are kept until they are taken.
const MOST_NOTICES: usize = 2 * MOST_WAITING;

/// What becomes of a question at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// It waits for a call.
    Waiting {
        /// Somebody has to see to it that [`Desk::next_call`] is called soon.
        kick: bool,
    },
    /// The store is not asked.
    Failed(StoreFault),
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are verdicts, and few live at a time"
)]
pub enum Answer {
    /// The store's verdict, and the store's time of it.
    Decided(Verdict, Millis),
    /// The store did not decide.
    Failed(StoreFault),
}

/// Which call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallId(u64);

/// A call to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// By which its outcome is to be reported.
    pub id: CallId,
    /// What to send.
    pub call: Call,
    /// When to give up; at least 1 ms.
    pub timeout: Millis,
}

/// What counters and logs are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// The store is given up for now.
    Opened {
        /// The last failure.
        fault: StoreFault,
        /// How many there were in a row.
        failures: u32,
    },
    /// The store answers again.
    Recovered,
    /// A call failed, or a question was not sent, or something owed was dropped. Not to be counted again
    /// when a question's answer says so.
    Fault(StoreFault),
    /// How long a call took, whatever came of it.
    Latency(Millis),
}

/// The desk.
pub struct Desk<P = Script> {
    protocol: P,
    front: Front,
    topology: Topology,
    timeout: Millis,
    /// How late the host calls back, by what was seen last.
    lag: Millis,
    breaker: Rc<Cell<Breaker>>,
    line: Line,
    calls: u64,
    flight: Option<Flight>,
    /// Redis does not have the script.
    load: bool,
    ready: VecDeque<Ready>,
    notices: Vec<Notice>,
}

struct Flight {
    id: CallId,
    sent: Millis,
    timeout: Millis,
    loads: bool,
    probes: bool,
    groups: Vec<Group>,
}

struct Ready {
    waiter: Waiter,
    /// The step that was answered last.
    item: Item,
    answer: Answer,
}

impl<P> fmt::Debug for Desk<P> {
    /// Without who asks what.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk")
            .field("breaker", &self.breaker.get())
            .field("waiting", &self.line.waiting())
            .field("in_flight", &self.flight.is_some())
            .field("ready", &self.ready.len())
            .finish_non_exhaustive()
    }
}

impl Desk<Script> {
    /// The desk of a configured Redis.
    #[must_use]
    pub fn new(redis: &Redis) -> Self {
        Self::with(redis, Script::of(&redis.key_prefix))
    }
}

impl<P: Protocol> Desk<P> {
    /// The desk of a Redis that speaks a protocol.
    #[must_use]
    pub fn with(redis: &Redis, protocol: P) -> Self {
        let timeout = redis.timeout.max(Millis(1));
        let breaker = Rc::new(Cell::new(Breaker::new(redis.breaker, timeout)));
        Self {
            protocol,
            front: Front::new(redis),
            topology: redis.topology,
            timeout,
            lag: Millis(0),
            breaker,
            line: Line::default(),
            calls: 0,
            flight: None,
            load: false,
            ready: VecDeque::new(),
            notices: Vec::new(),
        }
    }

    /// An empty desk that shares this one's breaker: for hosts where each stream makes its own calls.
    #[must_use]
    pub fn another(&self) -> Self
    where
        P: Clone,
    {
        Self {
            protocol: self.protocol.clone(),
            front: self.front.clone(),
            breaker: Rc::clone(&self.breaker),
            line: Line::default(),
            flight: None,
            ready: VecDeque::new(),
            notices: Vec::new(),
            ..*self
        }
    }

    /// Takes over what another desk owes to the store and has noticed, when that one is done with.
    pub fn inherit(&mut self, other: &mut Self) {
        for entry in other.line.take_owed() {
            self.owe_entry(entry);
        }
        for notice in other.notices() {
            self.notice(notice);
        }
    }

    /// A stream asks. It has one question at a time: asking again replaces it.
    pub fn ask(&mut self, stream: u32, ask: Rc<Ask>, now: Millis) -> Asked {
        let fault = if !self.breaker.get().admits(now) {
            Some(StoreFault::Breaker)
        } else if self.line.waiting() >= MOST_WAITING {
            Some(StoreFault::Overload)
        } else {
            None
        };
        if let Some(fault) = fault {
            self.line.leave(stream);
            self.notice(Notice::Fault(fault));
            return Asked::Failed(fault);
        }
        let kick = self.flight.is_none() && self.line.waiting() == 0;
        let waiter = self.line.open(stream, now);
        let step = first_step(&ask, self.topology);
        let entry = self.entry(Item { ask, step }, Some(waiter));
        self.line.join(entry);
        Asked::Waiting { kick }
    }

    /// A stream is gone, or wants no answer any more. It may have asked nothing, or have its answer.
    pub fn left(&mut self, stream: u32) {
        self.line.leave(stream);
    }

    /// The call to be made now: none while one is in flight or nothing is to be sent. Questions may be
    /// [ready](Self::ready) after it that were not before.
    pub fn next_call(&mut self, now: Millis) -> Option<Outgoing> {
        let overdue = |f: &mut Flight| now >= f.sent.plus(f.timeout).plus(OVERDUE);
        if let Some(flight) = self.flight.take_if(overdue) {
            self.failed(flight.groups, StoreFault::Timeout, now);
        }
        if self.flight.is_some() {
            return None;
        }
        let timeout = self.patience();
        while let Some(entry) = self.line.take_expired(timeout, now) {
            self.not_sent(entry, StoreFault::Overload);
        }
        let mut breaker = self.breaker.get();
        if !breaker.admits(now) {
            self.turn_away();
            return None;
        }
        let most = self.front.most_commands();
        let most = if self.load {
            most.min(MOST_LOADS)
        } else {
            most
        };
        let picked = self.line.pick(most);
        for entry in picked.left {
            self.drop_question(entry);
        }
        if picked.groups.is_empty() {
            return None;
        }
        breaker.may_call(now);
        self.breaker.set(breaker);
        if breaker.is_probing() {
            self.turn_away();
        }
        let loads = std::mem::take(&mut self.load);
        let command = |group: &Group| match loads {
            true => self.protocol.load_and_call(&group.items, now),
            false => self.protocol.call(&group.items, now),
        };
        let commands: Vec<Command> = picked.groups.iter().map(command).collect();
        let Some(call) = self.front.call(&commands).into_iter().next() else {
            self.failed(picked.groups, StoreFault::Malformed, now);
            return None;
        };
        self.calls = self.calls.wrapping_add(1);
        let id = CallId(self.calls);
        self.flight = Some(Flight {
            id,
            sent: now,
            timeout,
            loads,
            probes: breaker.is_probing(),
            groups: picked.groups,
        });
        Some(Outgoing { id, call, timeout })
    }

    /// The host called back so much later than it could have.
    pub fn lagged(&mut self, by: Millis) {
        self.lag = by.max(Millis(self.lag.0 / 4 * 3));
    }

    /// What a call may take. A host whose turns are as long as the timeout notices the timeout before
    /// the answer that is there already: the store is not to blame for that.
    fn patience(&self) -> Millis {
        let late = self.lag.since(Millis(self.timeout.0 / 2));
        let most = self.timeout.0.saturating_mul(MOST_LAG);
        self.timeout.plus(Millis(late.0.min(most)))
    }

    /// The host refused to make a call.
    pub fn dispatch_failed(&mut self, id: CallId, fault: StoreFault, now: Millis) {
        if let Some(flight) = self.flight.take_if(|f| f.id == id) {
            self.failed(flight.groups, fault, now);
        }
    }

    /// A call came back: the [next](Self::next_call) may leave. One that is not in flight is nobody's.
    pub fn returned(&mut self, id: CallId, raw: Raw<'_>, now: Millis) {
        let Some(flight) = self.flight.take_if(|f| f.id == id) else {
            return;
        };
        self.notice(Notice::Latency(now.since(flight.sent)));
        match self.front.read(raw, flight.groups.len()) {
            Err(fault) => self.failed(flight.groups, fault, now),
            Ok(replies) => self.settle(flight, replies, now),
        }
    }

    /// The next answer, and whose it is.
    pub fn ready(&mut self) -> Option<(u32, Answer)> {
        while let Some(ready) = self.ready.pop_front() {
            if self.line.close(&ready.waiter) {
                return Some((ready.waiter.stream, ready.answer));
            }
            self.undo(&ready.item, &ready.answer);
        }
        None
    }

    /// Whether [`Self::ready`] has more.
    #[must_use]
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// What happened since this was last called.
    pub fn notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }
}

#[cfg(test)]
mod tests;
