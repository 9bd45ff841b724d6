//! What of a question is on which of its legs: points, attempts, what is held, and what is told of it later. Must
//! not know how a store is asked.

use tollgate_config::Millis;

use super::{Ask, Leg, Subject};
use crate::attempt::{Attempt, Attempts, Outcome, Who};
use crate::client_ip::Address;
use crate::hold::Keep;

impl Ask {
    /// The address that the request comes from, where anything counts against it.
    #[must_use]
    pub fn address(&self) -> Option<&Address> {
        match &self.subject {
            Subject::Key {
                ip: Some((address, _)),
                ..
            }
            | Subject::Anonymous { address, .. }
            | Subject::Credential { address, .. } => Some(address),
            Subject::Key { ip: None, .. } => self.tried().map(|attempts| &attempts.address),
        }
    }

    /// The leg on which the address's attempts and credential stuffing are counted.
    #[must_use]
    pub const fn address_leg(&self) -> Leg {
        match self.subject {
            Subject::Key { .. } => Leg::Address,
            Subject::Anonymous { .. } | Subject::Credential { .. } => Leg::Owner,
        }
    }

    /// The leg on which the attempts of somebody are counted.
    #[must_use]
    pub const fn leg_of(&self, who: Who) -> Leg {
        match who {
            Who::Ip => self.address_leg(),
            Who::Subject(subject) | Who::Pair(subject) => Leg::Subject(subject),
        }
    }

    /// The attempts that are counted on a leg, with their places among all.
    pub fn attempts_on(&self, leg: Leg) -> impl Iterator<Item = (usize, &Attempt)> {
        let list = self.tried().map_or(&[][..], |attempts| &attempts.list);
        let all = list.iter().enumerate();
        all.filter(move |(_, attempt)| self.leg_of(attempt.who) == leg)
    }

    /// Whether a request that is let through has something on a leg that has to be let go some time.
    #[must_use]
    pub fn holds_on(&self, leg: Leg) -> bool {
        self.has_parts_on(leg) || self.is_pending_on(leg)
    }

    /// Whether a request that is let through pays points on a leg.
    #[must_use]
    pub const fn pays_on(&self, leg: Leg) -> bool {
        match (leg, &self.subject) {
            (Leg::Address, Subject::Key { ip, .. }) => ip.is_some(),
            (Leg::Owner, Subject::Credential { ip_meter, .. }) => ip_meter.is_some(),
            (Leg::Owner, _) => true,
            (Leg::Address | Leg::Subject(_), _) => false,
        }
    }

    /// Whether what is told of other requests may change what is decided on a leg: what they let go, and the
    /// failures for which an address is locked out.
    #[must_use]
    pub fn heeds_on(&self, leg: Leg) -> bool {
        let is_address = leg == Leg::Owner && self.address_leg() == Leg::Owner;
        is_address || self.has_parts_on(leg) || self.attempts_on(leg).next().is_some()
    }

    /// What there is to tell on a leg, where this is to be told of the whole request: leases, locks and
    /// idempotency keys are the owner's, outcomes are told where they change something, and attempts are given
    /// back where all is let go.
    #[must_use]
    pub fn told_on(&self, leg: Leg, keep: Keep) -> Option<Keep> {
        let outcome = keep
            .outcome
            .filter(|outcome| self.is_changed_by(outcome, leg));
        let gives_back = keep == Keep::NOTHING && self.is_pending_on(leg);
        let parts = self.has_parts_on(leg);
        let kept = |part: Millis| if parts { part } else { Millis(0) };
        (parts || gives_back || outcome.is_some()).then(|| Keep {
            lease: kept(keep.lease),
            lock: kept(keep.lock),
            flight: kept(keep.flight),
            outcome,
        })
    }

    fn tried(&self) -> Option<&Attempts> {
        self.wanted.as_ref()?.attempts.as_deref()
    }

    /// Whether a lease, a lock or an idempotency key is wanted on a leg.
    fn has_parts_on(&self, leg: Leg) -> bool {
        let wanted = self.wanted.as_ref().filter(|_| leg == Leg::Owner);
        wanted.is_some_and(|w| w.lease.is_some() || w.lock.is_some() || w.flight.is_some())
    }

    /// Whether an attempt takes a slot on a leg while it is in flight.
    fn is_pending_on(&self, leg: Leg) -> bool {
        self.attempts_on(leg).any(|(_, one)| one.provisional)
    }

    /// Whether an outcome changes anything on a leg.
    fn is_changed_by(&self, outcome: &Outcome, leg: Leg) -> bool {
        let is_changed = |(place, one): (usize, &Attempt)| {
            let clears = outcome.succeeded && (one.resets || one.spares);
            one.provisional || clears || outcome.is_failed(place)
        };
        let stuffing = self.tried().is_some_and(|a| a.stuffing.is_some());
        let may_be_stuffing = stuffing && outcome.failed != 0 && leg == self.address_leg();
        may_be_stuffing || self.attempts_on(leg).any(is_changed)
    }
}

#[cfg(test)]
mod tests;
