//! What a request wants done on the proxy. Must not do it.

use std::rc::Rc;

use tollgate_config::{Mode, RouteId};

use crate::held::{Grantor, Held};
use crate::hold::Keep;
use crate::limit::penalty::Lockout;
use crate::metrics::Counter;
use crate::passes::{Parked, Pass};
use crate::reply::{Field, Reply};
use crate::store::Ask;

/// What the store is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// May it pass?
    Decide(Rc<Ask>),
    /// Which box is in force, as far as this node knows? Changes nothing.
    Lockout(Rc<Ask>),
    /// May it pass, though the store failed? For the degraded limiter, over the local store.
    Degraded(Rc<Ask>),
}

/// What is to be done on the proxy, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Take this header off the request.
    Strip(String),
    /// Wait for the whole body.
    AwaitBody,
    /// Ask; the request waits.
    Ask(Question),
    /// Leave the verdict for access logs.
    Note(&'static str),
    /// Count.
    Count(Counter, u64),
    /// Tell the operator of a trip of the box.
    Trip(Trip),
    /// Set a header of the request, in place of any other of this name.
    Lend(Field),
    /// Look after what the request holds for as long as it lasts, until it is [over](Event::Done): [`Event::Tick`] from time to time.
    Hold,
    /// Tell whoever granted it for how long what was granted is held on.
    Tell(Told),
    /// The stream is over, but its request may be continued by another one at once. If it is not, what it holds
    /// is to be [ended](Held::end) as aborted, and the [failures](Told::failures) in that counted.
    Park(Parked),
    /// Let the request go on.
    Resume(Rc<Pass>),
    /// Answer the request.
    Reply(Reply),
    /// Set the headers of this pass in the response.
    Respond(Rc<Pass>),
}

/// For how long what was granted is held on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// What was asked for.
    pub ask: Rc<Ask>,
    /// Of whom.
    pub grantor: Grantor,
    /// For how long.
    pub keep: Keep,
}

impl Told {
    /// What is to be told about something held.
    #[must_use]
    pub fn of(held: &Held, keep: Keep) -> Self {
        let (ask, grantor) = held.of_whom();
        Self {
            ask: Rc::clone(ask),
            grantor,
            keep,
        }
    }

    /// What is to be counted with it: the throttles by which attempts failed.
    pub fn failures(&self) -> impl Iterator<Item = Counter> {
        let attempts = self.ask.wanted.as_ref().and_then(|w| w.attempts.as_ref());
        let list = attempts.map_or(&[][..], |attempts| &attempts.list);
        let outcome = self.keep.outcome;
        let failed = move |place: usize| outcome.is_some_and(|o| o.is_failed(place));
        let failed = list
            .iter()
            .enumerate()
            .filter(move |(place, _)| failed(*place));
        failed.map(|(_, attempt)| Counter::AuthFailures(attempt.throttle))
    }
}

/// A trip of the penalty box, for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trip {
    /// Whose box, without the key's name: it may be a secret.
    pub whose: String,
    /// The route of the request that tripped it.
    pub route: RouteId,
    /// The box.
    pub lockout: Lockout,
    /// Whether it is carried out.
    pub mode: Mode,
}
