//! What a request is and what has to be checked: made once, before anything is asked or changed.

mod ask;
mod degraded;
mod known;
mod reading;
mod throttles;

use std::cell::LazyCell;
use std::rc::Rc;

use tollgate_config::{
    IdempotencyKey, Limiter, Millis, Mode, OnStoreFailure, RouteId, ThrottleId, TierId,
};

use self::degraded::degraded;
use self::reading::{Found, Reading};
use self::throttles::Throttles;
use crate::attempt::Attempts;
use crate::body::Body;
use crate::client_ip::Address;
use crate::hold::{HoldId, Wanted};
use crate::idempotency;
use crate::identity::{Caller, Id, Properties};
use crate::price;
use crate::request::Request;
use crate::resource;
use crate::rules::Rules;
use crate::store::Ask;
use crate::verdict::{Invalid, KeyFault, ResourceFault, SubjectFault, Verdict};

/// What is known of the world when a request arrives.
pub struct Facts<'a> {
    /// The time.
    pub now: Millis,
    /// Properties of the proxy.
    pub properties: Properties<'a>,
    /// The address the proxy established. Asked only where it matters.
    pub source: &'a dyn Fn() -> Vec<u8>,
    /// The body, if it is known.
    pub body: Option<&'a Body>,
}

/// How a request is labelled in metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TierLabel {
    /// A tenant's tier.
    Tier(TierId),
    /// Anonymous.
    Anonymous,
    /// Not known: exempt, or contradicting itself.
    None,
}

/// What has to be checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    /// Nothing: it passes untouched.
    Exempt,
    /// It contradicts itself.
    Invalid(Invalid),
    /// The body has to be known first.
    Body,
    /// Something that it must bring is missing; a box comes first, though.
    Faulty(Fault, Rc<Ask>),
    /// The store decides.
    Store(Rc<Ask>),
}

/// What a request does not bring as it must.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Its idempotency key.
    IdempotencyKey(KeyFault),
    /// The resource to lock.
    Resource(ResourceFault),
    /// The subject whose attempts this throttle counts.
    Subject(ThrottleId, SubjectFault),
}

impl Fault {
    /// The verdict on it.
    #[must_use]
    pub const fn verdict(self) -> Verdict {
        match self {
            Self::IdempotencyKey(fault) => Verdict::IdempotencyKey(fault),
            Self::Resource(fault) => Verdict::Invalid(Invalid::Resource(fault)),
            Self::Subject(throttle, fault) => Verdict::Invalid(Invalid::Subject(throttle, fault)),
        }
    }
}

impl Check {
    /// What the store is or would be asked.
    #[must_use]
    pub fn ask(&self) -> Option<&Ask> {
        match self {
            Self::Faulty(_, ask) | Self::Store(ask) => Some(ask),
            Self::Exempt | Self::Body | Self::Invalid(_) => None,
        }
    }
}

/// What a request is and what has to be checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Its route.
    pub route: RouteId,
    /// Whether its verdict is carried out.
    pub mode: Mode,
    /// Its tier, for metrics.
    pub tier: TierLabel,
    /// What has to be checked.
    pub check: Check,
}

impl Plan {
    /// What the request costs, in points.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.check.ask().map_or(0, |ask| ask.cost)
    }

    /// Has the degraded limiter decide instead of the store, which failed: what it is asked, or
    /// `None` where the route is closed then, or where the store would not have decided it.
    pub fn degrade(&mut self, rules: &Rules) -> Option<Rc<Ask>> {
        let config = &rules.config;
        let route = config.routes.get(self.route.0);
        match (&self.check, route.map(|r| r.on_store_failure)) {
            (_, Some(OnStoreFailure::Closed)) => None,
            (Check::Store(ask), _) => {
                let ask = Rc::new(degraded(ask, config.degraded_share));
                self.check = Check::Store(Rc::clone(&ask));
                Some(ask)
            }
            _ => None,
        }
    }

    /// The plan for a request; `nonce` becomes the id of what it holds.
    #[must_use]
    pub fn of(rules: &Rules, request: &Request, facts: &Facts<'_>, nonce: u64) -> Self {
        let config = &rules.config;
        let path = request.path();
        let reading = Reading::of(config, request.method(), &path);
        let Found { id, route } = reading.route;
        let plan = |tier, check| Self {
            route: id,
            mode: reading.mode,
            tier,
            check,
        };
        if reading.is_exempt {
            return plan(TierLabel::None, Check::Exempt);
        }
        let caller = match Caller::of(config, request, facts.properties) {
            Ok(caller) => caller,
            Err(invalid) => return plan(TierLabel::None, Check::Invalid(invalid)),
        };
        let throttles = Throttles::of(rules, &reading);
        let lock_by = route.and_then(|r| r.lock.as_ref()).map(|lock| &lock.by);
        let reads_body = lock_by.is_some_and(resource::is_in_body) || throttles.read_the_body();
        let Some(body) = known::body(request, reads_body, facts.body) else {
            return plan(TierLabel::None, Check::Body);
        };
        let client_ip = &config.identity.client_ip;
        let address = LazyCell::new(|| Address::of(client_ip, request, &(facts.source)()));
        let cost = route.map_or(1, |r| price::of(&r.cost, request.query(), facts.now));
        let limiter = reading.route.limiter();
        let whom = (caller, limiter);
        let (tier, mut ask) = ask::ask(rules, whom, cost, reading.mode, || address.clone());
        let attempts = throttles.attempts(request, body, || address.clone());
        let key = idempotency::key(request);
        let is_required = route.is_some_and(|r| r.idempotency_key == IdempotencyKey::Required);
        let key_fault = key.as_ref().err().filter(|_| is_required);
        let key_fault = key_fault.map(|fault| Fault::IdempotencyKey(*fault));
        let lock = lock_by.map(|by| resource::of(by, request, &path, body));
        let (attempts, lock) = match (attempts, key_fault, lock.transpose()) {
            (Err(fault), ..) | (_, Some(fault), _) => {
                return plan(tier, Check::Faulty(fault, Rc::new(ask)));
            }
            (_, _, Err(fault)) => {
                let fault = Fault::Resource(fault);
                return plan(tier, Check::Faulty(fault, Rc::new(ask)));
            }
            (Ok(attempts), None, Ok(lock)) => (attempts, lock),
        };
        let (lease, quota) = ask::of_tier(config, route, tier);
        // Nobody's yet, on the way to credentials: whoever is called next counts it.
        let key = key.ok().filter(|_| limiter == Limiter::Tier);
        let wanted = Wanted {
            id: HoldId(nonce),
            flight: key.map(Id::of),
            lock,
            lease,
            quota,
            attempts,
        };
        if wanted.is_held() || wanted.quota.is_some() {
            ask.wanted = Some(wanted);
        }
        plan(tier, Check::Store(Rc::new(ask)))
    }

    /// Whether a request that says that it continues another, which was `tried` as these attempts, may go on with
    /// what that was let through with. Under throttles the two have to be the same attempts: whoever forged such a head
    /// would try another credential for nothing.
    #[must_use]
    pub fn continues(
        rules: &Rules,
        request: &Request,
        facts: &Facts<'_>,
        tried: Option<&Attempts>,
    ) -> bool {
        let config = &rules.config;
        let reading = Reading::of(config, request.method(), &request.path());
        let throttles = Throttles::of(rules, &reading);
        let reads_body = throttles.read_the_body();
        let Some(body) = known::body(request, reads_body, facts.body) else {
            return false;
        };
        let address = || Address::of(&config.identity.client_ip, request, &(facts.source)());
        match throttles.attempts(request, body, address) {
            Ok(None) => true,
            Ok(Some(attempts)) => reading.is_exempt || tried == Some(&*attempts),
            Err(_) => reading.is_exempt,
        }
    }
}

#[cfg(test)]
mod tests;
