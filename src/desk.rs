//! Who waits for which call of the store. Must not call, and must not know the script's encoding.
//!
//! Questions of many streams leave in one call, and one call is in flight at a time: whoever asks
//! meanwhile waits for the next. A call has `timeout`, whoever waited before it; who waited that long
//! is not sent any more. So a store that answers in time is used, a question is answered within two
//! timeouts, and within one where the store does not answer: the fault of a call ends
//! everybody who waits behind it, since they would meet the same.
//!
//! A call's answer may come when the stream is gone; what it took is then given back. That, and what else
//! the store must be told though nobody waits for it, is in the desk's [`Outbox`] until it is.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;

use tollgate_config::{Millis, Redis, Topology};

use self::course::first_step;
use self::line::{Line, MOST_WAITING, Waiter};
use self::pick::{Group, Shape};
pub use self::protocol::Protocol;
use self::settle::Effect;
use self::words::Words;
use crate::attempt::Sign;
use crate::breaker::Breaker;
use crate::outbox::Outbox;
use crate::store::Ask;
use crate::store::front::{Call, Front, Raw, StoreFault};
use crate::store::script::{Command, Item, Script};
use crate::verdict::Verdict;

mod course;
mod last;
mod line;
mod own;
mod pick;
mod protocol;
mod settle;
mod told;
mod words;

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
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// A call failed, or a question was not sent. Not to be counted again when a question's answer says so.
    Fault(StoreFault),
    /// So many letters were dropped: there was no room, the store could not be told of them within
    /// [`KEPT_FOR`](crate::outbox::KEPT_FOR), or they are told only once and it is not known whether it was.
    Dropped(u64),
    /// Told of the outcome of attempts, the store noticed something.
    Sign(Rc<Ask>, Sign),
    /// A lease, a lock or an idempotency key that was to be held for longer was not held any more.
    Lost,
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
    outbox: Outbox,
    /// It makes calls for letters alone.
    for_letters: bool,
    /// The time when it was last told.
    seen: Millis,
    words: Words,
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
            .field("letters", &self.outbox.len())
            .field("in_flight", &self.flight.is_some())
            .field("ready", &self.ready.len())
            .finish_non_exhaustive()
    }
}

impl Desk<Script> {
    /// The desk of a configured Redis. By the seed, a random number, its answers are told from those to
    /// others.
    #[must_use]
    pub fn new(redis: &Redis, seed: u64) -> Self {
        Self::with(redis, Script::of(&redis.key_prefix), seed)
    }
}

impl<P: Protocol> Desk<P> {
    /// The desk of a Redis that speaks a protocol.
    #[must_use]
    pub fn with(redis: &Redis, protocol: P, seed: u64) -> Self {
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
            outbox: Outbox::default(),
            for_letters: true,
            seen: Millis(0),
            words: Words::new(seed),
            flight: None,
            load: false,
            ready: VecDeque::new(),
            notices: Vec::new(),
        }
    }

    /// A stream asks. It has one question at a time: asking again replaces it.
    pub fn ask(&mut self, stream: u32, ask: Rc<Ask>, now: Millis) -> Asked {
        self.seen = now;
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
        let entry = self.entry(Item { ask, step }, waiter);
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
        self.seen = now;
        if let Some(flight) = self.flight.take_if(|flight| flight.is_overdue(now)) {
            let groups = with(flight.groups, Effect::Unknown);
            self.failed(groups, StoreFault::Timeout, now);
        }
        self.outbox.expire(now);
        if self.flight.is_some() {
            return None;
        }
        let timeout = self.patience();
        while let Some(entry) = self.line.take_expired(timeout, now) {
            self.not_sent(entry, StoreFault::Overload, now);
        }
        let mut breaker = self.breaker.get();
        if !breaker.admits(now) {
            self.turn_away(now);
            return None;
        }
        for entry in self.line.take_left() {
            self.drop_question(&entry, now);
        }
        let shape = Shape {
            protocol: &self.protocol,
            topology: self.topology,
            most_commands: self.most_commands(),
            for_letters: self.for_letters,
        };
        let groups = self.line.pick(&mut self.outbox, &shape, now);
        if groups.is_empty() {
            return None;
        }
        breaker.may_call(now);
        self.breaker.set(breaker);
        if breaker.is_probing() {
            self.turn_away(now);
        }
        let loads = std::mem::take(&mut self.load);
        let id = self.words.next_call();
        let commands = self.commands(id, &groups, loads, now);
        let Some(call) = self.front.call(&commands).into_iter().next() else {
            let groups = with(groups, Effect::None);
            self.failed(groups, StoreFault::Malformed, now);
            return None;
        };
        self.flight = Some(Flight {
            id,
            sent: now,
            timeout,
            loads,
            probes: breaker.is_probing(),
            groups,
        });
        Some(Outgoing { id, call, timeout })
    }

    fn most_commands(&self) -> usize {
        let most = self.front.most_commands();
        if self.load {
            most.min(MOST_LOADS)
        } else {
            most
        }
    }

    /// What a call says, a command for each group.
    fn commands(&self, id: CallId, groups: &[Group], loads: bool, now: Millis) -> Vec<Command> {
        let command = |(place, group): (usize, &Group)| {
            let word = self.words.of(id, place);
            match loads {
                true => self.protocol.load_and_call(&group.items, &word, now),
                false => self.protocol.call(&group.items, &word, now),
            }
        };
        groups.iter().enumerate().map(command).collect()
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

    /// The host refused to make a call. The next one is for others, if for anybody.
    pub fn dispatch_failed(&mut self, id: CallId, fault: StoreFault, now: Millis) {
        self.seen = now;
        if let Some(flight) = self.flight.take_if(|f| f.id == id) {
            self.failed(with(flight.groups, Effect::None), fault, now);
        }
    }

    /// A call came back: the [next](Self::next_call) may leave. One that is not in flight is nobody's.
    pub fn returned(&mut self, id: CallId, raw: Raw<'_>, now: Millis) {
        let Some(flight) = self.flight.take_if(|f| f.id == id) else {
            return;
        };
        self.seen = now;
        self.notice(Notice::Latency(now.since(flight.sent)));
        match self.front.read(raw, flight.groups.len()) {
            Err(fault) => self.failed(with(flight.groups, Effect::Unknown), fault, now),
            Ok(replies) => self.settle(flight, replies, now),
        }
    }

    /// The next answer, and whose it is.
    pub fn ready(&mut self) -> Option<(u32, Answer)> {
        while let Some(ready) = self.ready.pop_front() {
            if self.line.close(&ready.waiter) {
                return Some((ready.waiter.stream, ready.answer));
            }
            self.undo(&ready.item, &ready.answer, self.seen);
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
        let mut notices = std::mem::take(&mut self.notices);
        let dropped = self.outbox.take_dropped();
        notices.extend((dropped > 0).then_some(Notice::Dropped(dropped)));
        notices
    }
}

impl Flight {
    /// The host did not report it though it should have.
    fn is_overdue(&self, now: Millis) -> bool {
        now >= self.sent.plus(self.timeout).plus(OVERDUE)
    }
}

fn with(groups: Vec<Group>, effect: Effect) -> impl Iterator<Item = (Group, Effect)> {
    groups.into_iter().map(move |group| (group, effect))
}

#[cfg(test)]
mod tests;
