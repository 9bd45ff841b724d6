//! What a request is and what has to be checked: made once, before anything is asked or changed.

use std::rc::Rc;

use tollgate_config::{
    BoxMode, Config, IdempotencyKey, Millis, Mode, OnStoreFailure, Route, RouteId, Share, TierId,
    path,
};

use crate::client_ip::Address;
use crate::idempotency;
use crate::identity::{Caller, Properties};
use crate::limit::{bucket::Meter, decision::Strictness, penalty::Terms};
use crate::price;
use crate::request::Request;
use crate::rules::Rules;
use crate::store::{Ask, BoxTerms, Subject};
use crate::verdict::{Invalid, KeyFault};

/// What is known of the world when a request arrives.
pub struct Facts<'a> {
    /// The time.
    pub now: Millis,
    /// Properties of the proxy.
    pub properties: Properties<'a>,
    /// The address the proxy established. Asked only where it matters.
    pub source: &'a dyn Fn() -> Vec<u8>,
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
    /// Its key is at fault; a box comes first, though.
    IdempotencyKey(KeyFault, Rc<Ask>),
    /// The store decides.
    Store(Rc<Ask>),
}

impl Check {
    /// What the store is or would be asked.
    #[must_use]
    pub fn ask(&self) -> Option<&Ask> {
        match self {
            Self::IdempotencyKey(_, ask) | Self::Store(ask) => Some(ask),
            Self::Exempt | Self::Invalid(_) => None,
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

    /// The plan for a request.
    #[must_use]
    pub fn of(rules: &Rules, request: &Request, facts: &Facts<'_>) -> Self {
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
        let cost = route.map_or(1, |r| price::of(&r.cost, request.query(), facts.now));
        let (tier, ask) = ask(rules, request, facts, caller, cost, mode);
        let required = route.is_some_and(|r| r.idempotency_key == IdempotencyKey::Required);
        match idempotency::key(request) {
            Err(fault) if required => plan(tier, Check::IdempotencyKey(fault, ask)),
            _ => plan(tier, Check::Store(ask)),
        }
    }
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
) -> (TierLabel, Rc<Ask>) {
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
    (tier, Rc::new(ask))
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
        wanted: ask.wanted.clone(),
        ..*ask
    }
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
