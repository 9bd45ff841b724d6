//! What a request is and what has to be checked: made once, before anything is asked or changed.

use std::rc::Rc;

use tollgate_config::{
    BoxMode, Config, IdempotencyKey, Millis, Mode, OnStoreFailure, Route, RouteId, Share, TierId,
    path,
};

use crate::body::{self, Body};
use crate::client_ip::Address;
use crate::hold::{HoldId, LeaseWanted, QuotaWanted, Wanted};
use crate::idempotency;
use crate::identity::{Caller, Id, Properties};
use crate::limit::{bucket::Meter, decision::Strictness, penalty::Terms};
use crate::price;
use crate::request::{Occurs, Request};
use crate::resource;
use crate::rules::Rules;
use crate::store::{Ask, BoxTerms, Subject};
use crate::verdict::{Invalid, KeyFault, ResourceFault, Verdict};

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
}

impl Fault {
    /// The verdict on it.
    #[must_use]
    pub const fn verdict(self) -> Verdict {
        match self {
            Self::IdempotencyKey(fault) => Verdict::IdempotencyKey(fault),
            Self::Resource(fault) => Verdict::Invalid(Invalid::Resource(fault)),
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
        let (route_id, route) = dearest(config, request.method(), &path);
        let mode = route.and_then(|r| r.mode).unwrap_or(config.mode);
        let plan = |tier, check| Self {
            route: route_id,
            mode,
            tier,
            check,
        };
        if is_exempt(config, request.method(), &path) {
            return plan(TierLabel::None, Check::Exempt);
        }
        let caller = match Caller::of(config, request, facts.properties) {
            Ok(caller) => caller,
            Err(invalid) => return plan(TierLabel::None, Check::Invalid(invalid)),
        };
        let lock = match locked(route, request, &path, facts.body) {
            Locked::Unread => return plan(TierLabel::None, Check::Body),
            Locked::Read(lock) => lock,
        };
        let cost = route.map_or(1, |r| price::of(&r.cost, request.query(), facts.now));
        let (tier, mut ask) = ask(rules, request, facts, caller, cost, mode);
        let required = route.is_some_and(|r| r.idempotency_key == IdempotencyKey::Required);
        let key = idempotency::key(request);
        let fault = match (&key, &lock) {
            (Err(fault), _) if required => Some(Fault::IdempotencyKey(*fault)),
            (_, Some(Err(fault))) => Some(Fault::Resource(*fault)),
            _ => None,
        };
        if let Some(fault) = fault {
            return plan(tier, Check::Faulty(fault, Rc::new(ask)));
        }
        let (lease, quota) = of_tier(config, route, tier);
        let wanted = Wanted {
            id: HoldId(nonce),
            flight: key.ok().map(Id::of),
            lock: lock.and_then(Result::ok),
            lease,
            quota,
        };
        if wanted.is_held() || wanted.quota.is_some() {
            ask.wanted = Some(wanted);
        }
        plan(tier, Check::Store(Rc::new(ask)))
    }
}

/// The resource that a request locks.
enum Locked {
    /// It is in the body, which is not known yet.
    Unread,
    /// `None`: it locks none.
    Read(Option<Result<Id, ResourceFault>>),
}

fn locked(route: Option<&Route>, request: &Request, path: &[u8], body: Option<&Body>) -> Locked {
    let Some(lock) = route.and_then(|r| r.lock.as_ref()) else {
        return Locked::Read(None);
    };
    let known = match body {
        _ if !resource::is_in_body(&lock.by) => &Body::NONE,
        Some(body) => body,
        None if is_upgrade(request) => &Body::NONE,
        None if is_too_large(request) => &Body::TooLarge,
        None => return Locked::Unread,
    };
    Locked::Read(Some(resource::of(&lock.by, request, path, known)))
}

/// Whether what follows the head is not the request's body, but comes once the upstream has answered. (The proxy
/// removes an `upgrade` that is none.)
fn is_upgrade(request: &Request) -> bool {
    request.method() == b"CONNECT" || request.values("upgrade").next().is_some()
}

/// Whether a request says that its body is larger than what is read.
fn is_too_large(request: &Request) -> bool {
    let Occurs::Once(length) = request.occurs("content-length") else {
        return false;
    };
    let length = std::str::from_utf8(length).ok();
    length.is_some_and(|l| l.parse().is_ok_and(|l: u64| l > body::LARGEST as u64))
}

/// Lease and quota of a route for a tier.
fn of_tier(
    config: &Config,
    route: Option<&Route>,
    tier: TierLabel,
) -> (Option<LeaseWanted>, Option<QuotaWanted>) {
    let (Some(route), TierLabel::Tier(id)) = (route, tier) else {
        return (None, None);
    };
    let Some(tier) = config.tier(id) else {
        return (None, None);
    };
    let lease = route.lease.as_ref().and_then(|lease| {
        let (kind, slots) = tier.leases.iter().find(|(kind, _)| *kind == lease.kind)?;
        Some(LeaseWanted {
            kind: Rc::from(kind.as_str()),
            slots: slots.0,
        })
    });
    let quota = route.quota.as_ref().and_then(|wanted| {
        let (kind, quota) = tier.quotas.iter().find(|(kind, _)| kind == wanted)?;
        Some(QuotaWanted {
            kind: Rc::from(kind.as_str()),
            requests: quota.requests,
            per: quota.per,
        })
    });
    (lease, quota)
}

/// Whether a path is exempt, in whichever way servers may read it.
fn is_exempt(config: &Config, method: &[u8], path: &[u8]) -> bool {
    let exempt = |path: &[u8]| config.exempt.find(method, path).is_some();
    exempt(path) && path::other_reading(path).is_none_or(|other| exempt(&other))
}

/// The route of a path; the dearer one where servers may read the path in two ways.
fn dearest<'c>(config: &'c Config, method: &[u8], path: &[u8]) -> (RouteId, Option<&'c Route>) {
    let price = |route: Option<&Route>| {
        route.map_or(1, |r| {
            r.cost.when_range.as_ref().map_or(r.cost.base, |w| w.cost).0
        })
    };
    let plain = config.route(method, path);
    match path::other_reading(path) {
        Some(other) => {
            let other = config.route(method, &other);
            if price(other.1) > price(plain.1) {
                other
            } else {
                plain
            }
        }
        None => plain,
    }
}

fn ask(
    rules: &Rules,
    request: &Request,
    facts: &Facts<'_>,
    caller: Caller,
    cost: u64,
    mode: Mode,
) -> (TierLabel, Ask) {
    let address = || Address::of(&rules.config.identity.client_ip, request, &(facts.source)());
    let of_tier = match &caller {
        Caller::Tenant { tier, .. } => rules.tier(*tier),
        Caller::Anonymous => None,
    };
    let (tier, subject, cost, terms) = match (caller, of_tier) {
        (Caller::Tenant { tenant, key, tier }, Some(of_tier)) => {
            let subject = Subject::Key {
                tenant,
                key,
                tenant_meter: of_tier.tenant,
                key_meter: of_tier.key,
                ip: rules.ip.map(|meter| (address(), meter)),
            };
            (TierLabel::Tier(tier), subject, cost, of_tier.terms)
        }
        _ => {
            let subject = Subject::Anonymous {
                address: address(),
                meter: rules.anonymous,
                ip_meter: rules.ip,
            };
            // It takes at most the burst: a dear route is not closed to anonymous requests.
            let cost = cost.min(rules.anonymous.burst());
            (TierLabel::Anonymous, subject, cost, rules.anonymous_terms)
        }
    };
    let ask = Ask {
        subject,
        cost,
        shadow: mode == Mode::Shadow,
        grace: rules.config.penalty_box.grace,
        penalty: penalty(rules, terms),
        wanted: None,
    };
    (tier, ask)
}

/// The same question to the degraded limiter: a share of each limit, and nobody is struck.
fn degraded(ask: &Ask, share: Share) -> Ask {
    let reduce = |meter: &Meter| Meter::new(share.of(*meter.limit()));
    let (subject, cost) = match &ask.subject {
        Subject::Key {
            tenant,
            key,
            tenant_meter,
            key_meter,
            ip,
        } => {
            let subject = Subject::Key {
                tenant: tenant.clone(),
                key: key.clone(),
                tenant_meter: reduce(tenant_meter),
                key_meter: reduce(key_meter),
                ip: ip
                    .as_ref()
                    .map(|(address, meter)| (address.clone(), reduce(meter))),
            };
            (subject, ask.cost)
        }
        Subject::Anonymous {
            address,
            meter,
            ip_meter,
        } => {
            let meter = reduce(meter);
            let subject = Subject::Anonymous {
                address: address.clone(),
                meter,
                ip_meter: ip_meter.as_ref().map(reduce),
            };
            (subject, ask.cost.min(meter.burst()))
        }
    };
    Ask {
        subject,
        cost,
        penalty: BoxTerms {
            strictness: ask.penalty.strictness.without_strikes(),
            ..ask.penalty
        },
        wanted: in_flight(ask),
        ..*ask
    }
}

/// The idempotency key alone: leases, locks and quotas are never degraded.
fn in_flight(ask: &Ask) -> Option<Wanted> {
    let wanted = ask.wanted.as_ref()?;
    wanted.flight.as_ref()?;
    Some(Wanted {
        flight: wanted.flight.clone(),
        ..Wanted::nothing(wanted.id)
    })
}

fn penalty(rules: &Rules, terms: Terms) -> BoxTerms {
    let strictness = match rules.config.penalty_box.mode {
        BoxMode::Enforce => Strictness::Enforced,
        BoxMode::Shadow => Strictness::Watched,
        BoxMode::Off => Strictness::Off,
    };
    BoxTerms { terms, strictness }
}

#[cfg(test)]
mod tests;
