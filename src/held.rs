//! What a request that was let through holds, from then to its end: when it is to be held on, and what becomes of it
//! in the end. Must not tell a store.

mod tried;

use std::rc::Rc;

use tollgate_config::{Millis, OnAbort, Route, Throttle};

use self::tried::Tried;
use crate::attempt::{Attempts, Outcome};
use crate::hold::{Fence, HELD_FOR, Keep, Wanted};
use crate::reply::Field;
use crate::response::{Response, Said};
use crate::store::Ask;

/// The lease, or the lock, or both that the upstream is served under.
pub const LEASE_HEADER: &str = "x-tollgate-lease";

/// The fence of a lock.
pub const FENCE_HEADER: &str = "x-tollgate-fence";

/// Two failures in a row lose nothing.
const RENEWED_EVERY: Millis = Millis(HELD_FOR.0 / 3);

/// Which store granted something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grantor {
    /// The configured one.
    Store,
    /// The degraded limiter of this node, over the local store.
    Node,
}

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With a whole response.
    Complete,
    /// Before that: its client went away.
    Aborted,
}

/// How long a part outlives what; `None`: it does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Outlives {
    handed_over: Millis,
    aborted: Option<Millis>,
}

/// What one request holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    ask: Rc<Ask>,
    grantor: Grantor,
    fence: Option<Fence>,
    hold_on: Vec<u16>,
    lease: Outlives,
    lock: Outlives,
    renewed: Millis,
    tried: Tried,
    /// When lease and lock were handed over to the upstream.
    handed_over: Option<Millis>,
}

impl Held {
    /// What a request holds that was let through on a route at `now`, by the clock of the grantor; `None` where
    /// that is nothing.
    #[must_use]
    pub fn of(
        ask: &Rc<Ask>,
        grantor: Grantor,
        fence: Option<Fence>,
        route: Option<&Route>,
        now: Millis,
    ) -> Option<Self> {
        let wanted = ask.wanted.as_ref().filter(|wanted| wanted.is_held())?;
        let outlives = |ttl: Millis, on_abort| Outlives {
            handed_over: ttl,
            aborted: (on_abort == OnAbort::Hold).then_some(ttl),
        };
        let nothing = outlives(Millis(0), OnAbort::Release);
        let lease = route.and_then(|r| r.lease.as_ref());
        let lock = route.and_then(|r| r.lock.as_ref());
        Some(Self {
            ask: Rc::clone(ask),
            grantor,
            fence,
            hold_on: route.map_or_else(Vec::new, |r| r.hold_on.clone()),
            lease: lease.map_or(nothing, |l| outlives(l.ttl, l.on_abort)),
            lock: lock.map_or(nothing, |l| outlives(l.ttl, l.on_abort)),
            renewed: now,
            tried: match wanted.attempts {
                Some(_) => Tried::Pending(now),
                None => Tried::Nothing,
            },
            handed_over: None,
        })
    }

    /// What was asked for, and of whom.
    #[must_use]
    pub fn of_whom(&self) -> (&Rc<Ask>, Grantor) {
        (&self.ask, self.grantor)
    }

    /// The headers that the upstream gets, where there is a lease or a lock. `member` is under what name
    /// the store has them.
    #[must_use]
    pub fn headers(&self, member: impl FnOnce(&Ask) -> String) -> Vec<Field> {
        let wanted = self.ask.wanted.as_ref();
        let named = wanted.is_some_and(|w| w.lease.is_some() || w.lock.is_some());
        let lease = named.then(|| (LEASE_HEADER, member(&self.ask)));
        let fence = self.fence.filter(|_| named);
        let fence = fence.map(|Fence(n)| (FENCE_HEADER, n.to_string()));
        [lease, fence].into_iter().flatten().collect()
    }

    /// Whether any of it lasts for as long as the stream: attempts alone are over once they are answered.
    #[must_use]
    pub fn lasts(&self) -> bool {
        let lasts = |w: &Wanted| w.flight.is_some() || w.lock.is_some() || w.lease.is_some();
        self.ask.wanted.as_ref().is_some_and(lasts)
    }

    /// Whether nothing is left to be told.
    #[must_use]
    pub fn is_over(&self) -> bool {
        !self.tried.is_open() && !self.lasts()
    }

    /// Whether the head of the response decides what becomes of it.
    #[must_use]
    pub fn depends_on_status(&self) -> bool {
        !self.hold_on.is_empty() || self.tried.is_open()
    }

    /// Whether the trailers of the response decide what became of attempts.
    #[must_use]
    pub const fn awaits_trailers(&self) -> bool {
        self.tried.is_answering()
    }

    /// The head of the response came: what is to be told, if that hands lease and lock over or decides what
    /// became of attempts. `throttles` are those of the configuration.
    pub fn answered(
        &mut self,
        response: &Response<'_>,
        throttles: &[Throttle],
        now: Millis,
    ) -> Option<Keep> {
        let is_awaited = !self.hold_on.is_empty() && self.handed_over.is_none();
        let hands_over = |status| self.hold_on.contains(&status);
        let is_handed_over = is_awaited && response.status().is_some_and(hands_over);
        let said = self.tried.is_open().then(|| response.said());
        let outcome = match said {
            Some(Said::Status(status)) => self.tried_with(throttles, status),
            Some(Said::BrokenOff) => self.broken_off(),
            Some(Said::Later) => {
                self.tried.answers();
                None
            }
            None => None,
        };
        if is_handed_over {
            self.handed_over = Some(now);
        } else if outcome.is_none() {
            return None;
        }
        Some(self.still(outcome, now))
    }

    /// The trailers of the response came: what is to be told, if they decide what became of attempts.
    pub fn trailed(
        &mut self,
        response: &Response<'_>,
        throttles: &[Throttle],
        now: Millis,
    ) -> Option<Keep> {
        if !self.tried.is_answering() {
            return None;
        }
        let outcome = self.tried_with(throttles, response.said_at_last())?;
        Some(self.still(Some(outcome), now))
    }

    /// Whether it is time to hold it on.
    #[must_use]
    pub fn is_due(&self, now: Millis) -> bool {
        let since = now.since(self.renewed);
        self.lasts() && (since >= RENEWED_EVERY || self.renewed > now)
    }

    /// What is to be told while the stream lives, if it is time to.
    pub fn renew(&mut self, now: Millis) -> Option<Keep> {
        if !self.is_due(now) {
            return None;
        }
        Some(self.still(None, now))
    }

    /// What is to be told when the stream ends.
    #[must_use]
    pub fn end(&self, end: End, now: Millis) -> Keep {
        let kept = |part: &Outlives| match (self.handed_over, end) {
            (Some(since), _) => part.handed_over.since(now.since(since)),
            (None, End::Aborted) => part.aborted.unwrap_or_default(),
            (None, End::Complete) => Millis(0),
        };
        Keep {
            lease: kept(&self.lease),
            lock: kept(&self.lock),
            flight: Millis(0),
            outcome: self.attempts().and_then(|of| self.tried.ended(of, end)),
        }
    }

    /// As what attempts it was let through.
    #[must_use]
    pub fn attempts(&self) -> Option<&Attempts> {
        self.ask.wanted.as_ref()?.attempts.as_deref()
    }

    fn tried_with(&mut self, throttles: &[Throttle], status: u16) -> Option<Outcome> {
        let attempts = self.ask.wanted.as_ref()?.attempts.as_ref()?;
        self.tried.answered(attempts, throttles, status)
    }

    /// The client broke its request off before it was answered.
    fn broken_off(&mut self) -> Option<Outcome> {
        let attempts = self.ask.wanted.as_ref()?.attempts.as_ref()?;
        std::mem::replace(&mut self.tried, Tried::Nothing).ended(attempts, End::Aborted)
    }

    /// All is held on, and this became of attempts.
    fn still(&mut self, outcome: Option<Outcome>, now: Millis) -> Keep {
        self.renewed = now;
        Keep {
            outcome,
            ..self.on(now)
        }
    }

    /// While the stream lives all is held on; what was handed over has its own end.
    fn on(&self, now: Millis) -> Keep {
        match self.handed_over {
            None => Keep::ON,
            Some(_) => Keep {
                flight: HELD_FOR,
                ..self.end(End::Complete, now)
            },
        }
    }
}

#[cfg(test)]
mod tests;
