//! What the degraded limiter is asked, instead of the store that failed.

use tollgate_config::Share;

use crate::hold::Wanted;
use crate::limit::bucket::Meter;
use crate::store::{Ask, BoxTerms, Subject};

/// The same question: a share of each limit, and nobody is struck.
pub(super) fn degraded(ask: &Ask, share: Share) -> Ask {
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
        Subject::Credential { address, ip_meter } => {
            let subject = Subject::Credential {
                address: address.clone(),
                ip_meter: ip_meter.as_ref().map(reduce),
            };
            (subject, ask.cost)
        }
    };
    Ask {
        subject,
        cost,
        penalty: BoxTerms {
            strictness: ask.penalty.strictness.without_strikes(),
            ..ask.penalty
        },
        wanted: unscaled(ask),
        ..*ask
    }
}

/// The idempotency key and attempts: leases, locks and quotas are never degraded.
fn unscaled(ask: &Ask) -> Option<Wanted> {
    let wanted = ask.wanted.as_ref()?;
    let wanted = Wanted {
        flight: wanted.flight.clone(),
        attempts: wanted.attempts.clone(),
        ..Wanted::nothing(wanted.id)
    };
    wanted.is_held().then_some(wanted)
}
