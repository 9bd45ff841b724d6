//! What a request that was let through holds, from then to its end: when it is to be held on, and what becomes of it
//! in the end. Must not tell a store.

use std::rc::Rc;

use tollgate_config::{Millis, OnAbort, Route};

use crate::hold::{Fence, HELD_FOR, Keep};
use crate::reply::Field;
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
    /// When lease and lock were handed over to the upstream.
    handed_over: Option<Millis>,
}

impl Held {
    /// What a request holds that was let through on a route at `now`; `None` where that is nothing.
    #[must_use]
    pub fn of(
        ask: &Rc<Ask>,
        grantor: Grantor,
        fence: Option<Fence>,
        route: Option<&Route>,
        now: Millis,
    ) -> Option<Self> {
        ask.wanted.as_ref().filter(|wanted| wanted.is_held())?;
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
        let fence = self.fence.map(|Fence(n)| (FENCE_HEADER, n.to_string()));
        [lease, fence].into_iter().flatten().collect()
    }

    /// Whether the response's status decides what becomes of it.
    #[must_use]
    pub fn depends_on_status(&self) -> bool {
        !self.hold_on.is_empty()
    }

    /// The response's status came: what is to be told, if that hands lease and lock over.
    pub fn answered(&mut self, status: u16, now: Millis) -> Option<Keep> {
        if !self.hold_on.contains(&status) || self.handed_over.is_some() {
            return None;
        }
        self.handed_over = Some(now);
        self.renewed = now;
        Some(self.on(now))
    }

    /// Whether it is time to hold it on.
    #[must_use]
    pub fn is_due(&self, now: Millis) -> bool {
        now.since(self.renewed) >= RENEWED_EVERY || self.renewed > now
    }

    /// What is to be told while the stream lives, if it is time to.
    pub fn renew(&mut self, now: Millis) -> Option<Keep> {
        if !self.is_due(now) {
            return None;
        }
        self.renewed = now;
        Some(self.on(now))
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
