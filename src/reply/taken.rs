//! What is said of a request that found what it needs besides points taken. Names no resource and no key.

use tollgate_config::{Route, Tier};

use super::Asker;
use super::kind::{
    CONCURRENCY_LIMIT_EXCEEDED, IDEMPOTENCY_KEY_IN_USE, Kind, QUOTA_EXCEEDED, RESOURCE_LOCKED,
};
use super::problem::{Document, count, period, price, route_name};
use super::wait::RetryAfter;
use crate::metrics::tier_name;
use crate::plan::TierLabel;
use crate::verdict::{Obstacle, Taken};

/// The kind of a refusal because something is taken.
pub(super) const fn kind(by: Obstacle) -> &'static Kind {
    match by {
        Obstacle::Flight => &IDEMPOTENCY_KEY_IN_USE,
        Obstacle::Lock => &RESOURCE_LOCKED,
        Obstacle::Lease => &CONCURRENCY_LIMIT_EXCEEDED,
        Obstacle::Quota => &QUOTA_EXCEEDED,
    }
}

/// The wait that its client is told.
///
/// A holder may be done long before its time is up, and is asked after again in half a minute at most. A
/// place in a quota is never free sooner. Neither is spread: who waits for it is one tenant.
pub(super) const fn retry(taken: &Taken) -> RetryAfter {
    match taken.by {
        Obstacle::Flight => RetryAfter::SOON,
        Obstacle::Lock | Obstacle::Lease => RetryAfter::exactly(taken.wait).at_most_half_a_minute(),
        Obstacle::Quota => RetryAfter::exactly(taken.wait),
    }
}

/// Its document.
pub(super) fn document(asker: &Asker<'_>, taken: &Taken, retry: RetryAfter) -> Document {
    let route = route_name(asker);
    let wait = count(retry.seconds(), "second");
    let price = price(asker);
    match taken.by {
        Obstacle::Flight => Document::of(format!(
            "A request with this Idempotency-Key is still being served. Wait for its answer before a retry \
             with the same key, or use another key for another operation; retry in {wait}."
        )),
        Obstacle::Lock => Document::of(format!(
            "Another request of yours holds the lock on this resource, and route '{route}' waits for no one. \
             {price}, 1 when refused. Wait for the other one to end; retry in {wait}."
        )),
        Obstacle::Lease => {
            let kind = route_of(asker).and_then(|r| r.lease.as_ref());
            let kind = kind.map_or("default", |lease| lease.kind.as_str());
            let slots = tier_of(asker).and_then(|tier| find(&tier.leases, kind));
            let limit = slots.map_or_else(String::new, |slots| {
                format!(" ({} at once)", count(slots.0.into(), "request"))
            });
            of_tier(asker, taken, kind, |whose| {
                format!(
                    "Concurrency limit '{kind}' for {whose} reached{limit}. {price}, 1 when refused. \
                     Wait for one of your requests to end; retry in {wait}."
                )
            })
        }
        Obstacle::Quota => {
            let kind = route_of(asker).and_then(|r| r.quota.as_deref());
            let kind = kind.unwrap_or("default");
            let quota = tier_of(asker).and_then(|tier| find(&tier.quotas, kind));
            let limit = quota.map_or_else(String::new, |quota| {
                let requests = count(quota.requests.into(), "request");
                format!(" ({requests} per {})", period(quota.per))
            });
            of_tier(asker, taken, kind, |whose| {
                format!(
                    "Quota '{kind}' for {whose} exhausted{limit}. {price}, 1 when refused. \
                     The oldest request leaves the quota first; retry in {wait}."
                )
            })
        }
    }
}

/// A document about a limit of the tier's.
fn of_tier(
    asker: &Asker<'_>,
    taken: &Taken,
    kind: &str,
    detail: impl FnOnce(&str) -> String,
) -> Document {
    let tier = tier_name(&asker.rules.config, asker.plan.tier);
    Document {
        quota_tier: Some(tier.to_owned()),
        penalty_strikes_remaining: taken.strikes_left,
        violated_policies: vec![kind.to_owned().into()],
        ..Document::of(detail(&format!("tier '{tier}'")))
    }
}

fn route_of<'a>(asker: &Asker<'a>) -> Option<&'a Route> {
    asker.rules.config.routes.get(asker.plan.route.0)
}

fn tier_of<'a>(asker: &Asker<'a>) -> Option<&'a Tier> {
    match asker.plan.tier {
        TierLabel::Tier(id) => asker.rules.config.tier(id),
        TierLabel::Anonymous | TierLabel::None => None,
    }
}

fn find<'a, T>(of: &'a [(String, T)], kind: &str) -> Option<&'a T> {
    of.iter().find(|(k, _)| k == kind).map(|(_, it)| it)
}
