//! The desk on the host: makes its calls, brings their answers back to it, and serves who waits.
//!
//! Where the host has queues and lets the root act for a stream, all streams' questions leave in calls of
//! the root: whoever asks first kicks the queue, and the root is called once everybody of this turn has
//! asked. Elsewhere each stream makes a call of its own, by a desk of its own.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use tollgate_config::{Millis, Redis};

use super::gauges::Gauges;
use super::host;
use super::http::Life;
use super::signs;
use crate::desk::{Answer, Asked, CallId, Desk, Notice};
use crate::hold::Keep;
use crate::metrics::{Counter, StoreError};
use crate::rules::Rules;
use crate::store::Ask;
use crate::store::front::{Raw, StoreFault};

/// Streams served in one callback: each answer nests on the host's stack.
pub(super) const SERVED: usize = 16;

/// Last calls that a root makes.
const MOST_LAST_CALLS: usize = 64;

/// A call that nobody hears of may take its time.
const LAST_TIMEOUT: Millis = Millis(5000);

/// Set to `off` in the environment of the virtual machine, every stream makes its own calls.
const COALESCE: &str = "TOLLGATE_COALESCE";

/// The store behind a front.
#[derive(Debug)]
pub(super) struct Remote {
    upstream: String,
    way: Way,
    root: u32,
    desk: RefCell<Desk>,
    flight: RefCell<Option<Flight>>,
    waiting: RefCell<HashMap<u32, Rc<Life>>>,
    /// This worker is counted as one that does without the store.
    degraded: Cell<bool>,
}

/// A call that is under way.
#[derive(Debug, Clone, Copy)]
struct Flight {
    token: u32,
    id: CallId,
}

#[derive(Debug)]
enum Way {
    /// `kicked`: when the queue's owner was asked to be called, if that is still to come.
    Coalesced {
        queue: u32,
        kicked: Cell<Option<Millis>>,
    },
    Single,
}

/// The desk of one stream, where it has its own.
#[derive(Debug)]
pub(super) struct Own {
    desk: Desk,
    flight: Option<Flight>,
}

/// What becomes of a question.
pub(super) enum Put {
    /// The answer comes later.
    Waiting,
    /// The store fails for this request.
    Failed,
}

impl Remote {
    pub(super) fn new(redis: &Redis, root: u32) -> Self {
        let way = if std::env::var(COALESCE).is_ok_and(|value| value == "off") {
            Way::Single
        } else {
            // Machines that shared a name would share the queue, and only one of them be called.
            let name = format!("tollgate/{:016x}{:016x}", host::random(), host::random());
            match host::open_queue(&name) {
                Ok(queue) => Way::Coalesced {
                    queue,
                    kicked: Cell::new(None),
                },
                Err(status) => {
                    log::warn!("no queue ({status:?}): every request calls the store by itself");
                    Way::Single
                }
            }
        };
        Self {
            upstream: redis.upstream.clone(),
            way,
            root,
            desk: RefCell::new(Desk::new(redis, host::random())),
            flight: RefCell::default(),
            waiting: RefCell::default(),
            degraded: Cell::new(false),
        }
    }

    /// Whether the store is known to fail.
    pub(super) fn is_failing(&self) -> bool {
        self.degraded.get()
    }

    /// Asks for a stream, in its own callback.
    pub(super) fn ask(&self, life: &Rc<Life>, ask: &Rc<Ask>, now: Millis) -> Put {
        match &self.way {
            Way::Coalesced { queue, kicked } => {
                let asked = self.desk.borrow_mut().ask(life.id, Rc::clone(ask), now);
                let Asked::Waiting { kick } = asked else {
                    return Put::Failed;
                };
                if kick && !kick_once(*queue, kicked, now) {
                    self.desk.borrow_mut().left(life.id);
                    return Put::Failed;
                }
                self.waiting.borrow_mut().insert(life.id, Rc::clone(life));
                Put::Waiting
            }
            Way::Single => {
                let mut own = Own {
                    desk: self.desk.borrow().another(),
                    flight: None,
                };
                let asked = own.desk.ask(life.id, Rc::clone(ask), now);
                if let Asked::Waiting { .. } = asked {
                    own.flight = self.dispatch_own(&mut own.desk, now);
                }
                if own.flight.is_none() {
                    self.done_with(own);
                    return Put::Failed;
                }
                life.own.replace(Some(own));
                Put::Waiting
            }
        }
    }

    /// Has the store told for how long what a request holds is held on, and what became of its attempts: with the
    /// next call, which leaves at once where that is possible.
    pub(super) fn keep(&self, ask: &Rc<Ask>, keep: Keep, now: Millis) {
        let kick = self.desk.borrow_mut().keep(ask, keep, now);
        if kick && let Way::Coalesced { queue, kicked } = &self.way {
            kick_once(*queue, kicked, now);
        }
    }

    /// The root is about to go: has the store told what there is to tell. Nobody will hear its answers.
    pub(super) fn last_words(&self, now: Millis) {
        let calls = self.desk.borrow_mut().last_calls(now);
        for call in calls.into_iter().take(MOST_LAST_CALLS) {
            if host::call(&self.upstream, &call, LAST_TIMEOUT).is_err() {
                log::warn!(
                    "the store at {} was not told what the last requests of a configuration let go: that ends by itself",
                    self.upstream
                );
            }
        }
    }

    /// A stream is over.
    pub(super) fn left(&self, life: &Life) {
        if let Some(mut own) = life.own.take() {
            own.desk.left(life.id);
            self.done_with(own);
        }
        if self.waiting.borrow_mut().remove(&life.id).is_some() {
            self.desk.borrow_mut().left(life.id);
        }
    }

    /// The root was called: by its queue, or by the clock.
    pub(super) fn woken(&self, by_queue: bool, now: Millis) {
        if let Way::Coalesced { queue, kicked } = &self.way {
            host::drain(*queue);
            if let (Some(since), true) = (kicked.take(), by_queue) {
                self.desk.borrow_mut().lagged(now.since(since));
            }
        }
        self.turn(now);
    }

    /// A call of the root's came back.
    pub(super) fn returned(&self, token: u32, body_size: usize) {
        let heard = {
            let (mut desk, mut flight) = (self.desk.borrow_mut(), self.flight.borrow_mut());
            hear(&mut desk, &mut flight, token, body_size)
        };
        if let Some(now) = heard {
            self.turn(now);
        }
    }

    /// Sends what is to be sent, then serves who has an answer: some now, the rest when called again.
    fn turn(&self, now: Millis) {
        let flight = {
            let mut desk = self.desk.borrow_mut();
            self.dispatch(&mut desk, now)
        };
        if flight.is_some() {
            self.flight.replace(flight);
        }
        for _ in 0..SERVED {
            let Some((stream, answer)) = self.desk.borrow_mut().ready() else {
                break;
            };
            let Some(life) = self.waiting.borrow_mut().remove(&stream) else {
                continue;
            };
            if host::be(stream).is_ok() {
                life.answered(answer, now);
            }
        }
        if host::be(self.root).is_err() {
            log::error!("the proxy lost the filter's root");
        }
        let more = self.desk.borrow().has_ready();
        if let (true, Way::Coalesced { queue, kicked }) = (more, &self.way) {
            kick_once(*queue, kicked, now);
        }
    }

    /// Makes a desk's next call. None where there is none, or the host refuses it.
    fn dispatch(&self, desk: &mut Desk, now: Millis) -> Option<Flight> {
        // A refusal ends everybody who waits, so that there is no next one.
        while let Some(outgoing) = desk.next_call(now) {
            match host::call(&self.upstream, &outgoing.call, outgoing.timeout) {
                Ok(token) => {
                    return Some(Flight {
                        token,
                        id: outgoing.id,
                    });
                }
                Err(fault) => desk.dispatch_failed(outgoing.id, fault, now),
            }
        }
        None
    }

    /// A call that a stream made for itself came back: its answer, if that was all.
    pub(super) fn own_returned(
        &self,
        own: &mut Own,
        token: u32,
        body_size: usize,
    ) -> Option<Answer> {
        let now = hear(&mut own.desk, &mut own.flight, token, body_size)?;
        own.flight = self.dispatch_own(&mut own.desk, now);
        let (_, answer) = own.desk.ready()?;
        Some(answer)
    }

    /// Makes the next call of a stream's own desk, which takes along what has to go ahead of it.
    fn dispatch_own(&self, own: &mut Desk, now: Millis) -> Option<Flight> {
        self.desk.borrow_mut().lend(own);
        self.dispatch(own, now)
    }

    /// A stream's own desk is done with.
    pub(super) fn done_with(&self, mut own: Own) {
        self.desk.borrow_mut().inherit(&mut own.desk);
    }

    /// Counts and logs what was noticed.
    pub(super) fn tell(&self, rules: &Rules, gauges: &Gauges) {
        for notice in self.desk.borrow_mut().notices() {
            match notice {
                Notice::Latency(took) => gauges.latency(took),
                // No failure: it is sent again with the script.
                Notice::Fault(StoreFault::NoScript) => {
                    log::debug!("the store at {} is given the script", self.upstream);
                }
                Notice::Fault(fault) => {
                    let counter = Counter::StoreErrors(StoreError::Front(fault.name()));
                    gauges.count(&rules.config, counter, 1);
                }
                Notice::Dropped(letters) => {
                    log::warn!(
                        "the store at {} was not told in time, {letters} times, what a request let go or holds on, or what became of \
                         its attempts; that ends by itself",
                        self.upstream
                    );
                    gauges.count(&rules.config, Counter::OutboxDropped, letters);
                }
                Notice::Sign(ask, sign) => signs::tell(rules, gauges, &ask, &sign),
                Notice::Lost => {
                    log::warn!(
                        "the store at {} lost a lease, a lock or an idempotency key that a request still holds; another \
                         one may have it by now",
                        self.upstream
                    );
                }
                Notice::Opened { fault, failures } => {
                    log::error!(
                        "the store at {} failed {failures} times in a row ({}; {}): it is left alone for now; routes \
                         with on_store_failure: closed answer 503, others get the degraded share of their limits",
                        self.upstream,
                        fault.name(),
                        fault.advice()
                    );
                    self.count_as_degraded(gauges, true);
                }
                Notice::Recovered => {
                    log::warn!("the store at {} answers again", self.upstream);
                    self.count_as_degraded(gauges, false);
                }
            }
        }
    }

    /// Keeps the gauge at one for each worker that does without the store.
    pub(super) fn count_as_degraded(&self, gauges: &Gauges, degraded: bool) {
        if self.degraded.replace(degraded) != degraded {
            gauges.degraded(if degraded { 1 } else { -1 });
        }
    }
}

/// Has the queue's owner called soon, unless it will be anyway; whether it will be.
fn kick_once(queue: u32, kicked: &Cell<Option<Millis>>, now: Millis) -> bool {
    if kicked.get().is_none() {
        if let Err(status) = host::kick(queue) {
            log::error!("the proxy refused to call back: {status:?}");
            return false;
        }
        kicked.set(Some(now));
    }
    true
}

/// Brings a desk the answer to the call that it has under way, if it is of this token: the time of it.
fn hear(
    desk: &mut Desk,
    flight: &mut Option<Flight>,
    token: u32,
    body_size: usize,
) -> Option<Millis> {
    // Before anything else: the host has the answer for so long only.
    let (status, body) = (host::call_status(), host::call_body(body_size));
    let flight = flight.take_if(|flight| flight.token == token)?;
    let raw = Raw {
        status: status.as_deref(),
        body: &body,
    };
    let now = host::now();
    desk.returned(flight.id, raw, now);
    Some(now)
}
