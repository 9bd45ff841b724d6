//! The buckets that a question meets, and what each is to the script. Must not know keys.

use crate::limit::bucket::Meter;
use crate::store::{Ask, Subject};
use crate::verdict::{Policy, Scope};

/// The buckets that a question meets.
pub(super) struct Met {
    /// Whose box it is.
    pub(super) scope: Scope,
    /// The one that promises.
    pub(super) first: Option<(Policy, Meter)>,
    /// With what it takes from it, in points.
    pub(super) second: Option<(Meter, u64)>,
    /// Which that is.
    pub(super) second_policy: Policy,
    /// `ip_limit`, where that is neither.
    pub(super) ip: Option<Meter>,
}

impl Met {
    /// Those of a question.
    pub(super) fn of(ask: &Ask) -> Self {
        match &ask.subject {
            Subject::Key {
                tenant_meter,
                key_meter,
                ip,
                ..
            } => Self {
                scope: Scope::Key,
                first: Some((Policy::Key, *key_meter)),
                second: Some((*tenant_meter, ask.cost)),
                second_policy: Policy::Tenant,
                ip: ip.as_ref().map(|(_, meter)| *meter),
            },
            Subject::Anonymous {
                meter, ip_meter, ..
            } => Self {
                scope: Scope::Ip,
                first: Some((Policy::Anonymous, *meter)),
                second: ip_meter.map(|meter| (meter, 1)),
                second_policy: Policy::Ip,
                ip: None,
            },
            Subject::Credential { ip_meter, .. } => Self {
                scope: Scope::Ip,
                first: None,
                second: None,
                second_policy: Policy::Ip,
                ip: *ip_meter,
            },
        }
    }
}
