//! Whom a request counts against, with which limits, and what its tier lends it besides points.

use std::rc::Rc;

use tollgate_config::{BoxMode, Config, Limiter, Mode, Route};

use super::TierLabel;
use crate::client_ip::Address;
use crate::hold::{LeaseWanted, QuotaWanted};
use crate::identity::Caller;
use crate::limit::{decision::Strictness, penalty::Terms};
use crate::rules::Rules;
use crate::store::{Ask, BoxTerms, Subject};

/// What a request is asked about that costs so much for a tenant.
pub(super) fn ask(
    rules: &Rules,
    (caller, limiter): (Caller, Limiter),
    cost: u64,
    mode: Mode,
    address: impl FnOnce() -> Address,
) -> (TierLabel, Ask) {
    let of_tier = match (&caller, limiter) {
        (Caller::Tenant { tier, .. }, Limiter::Tier) => rules.tier(*tier),
        _ => None,
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
            let (address, ip_meter) = (address(), rules.ip);
            let (subject, cost) = match limiter {
                // No bucket holds more than a point of it.
                Limiter::Credential => (Subject::Credential { address, ip_meter }, 1),
                Limiter::Tier => {
                    let meter = rules.anonymous;
                    let subject = Subject::Anonymous {
                        address,
                        meter,
                        ip_meter,
                    };
                    // It takes at most the burst: a dear route is not closed to anonymous requests.
                    (subject, cost.min(meter.burst()))
                }
            };
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

/// Lease and quota of a route for a tier.
pub(super) fn of_tier(
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

fn penalty(rules: &Rules, terms: Terms) -> BoxTerms {
    let strictness = match rules.config.penalty_box.mode {
        BoxMode::Enforce => Strictness::Enforced,
        BoxMode::Shadow => Strictness::Watched,
        BoxMode::Off => Strictness::Off,
    };
    BoxTerms { terms, strictness }
}
