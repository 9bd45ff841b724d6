//! What a tenant of a tier may use, and how much it may misbehave.

use crate::{limit::Limit, units::Millis};

/// Index of a tier in [`Config::tiers`](crate::Config::tiers).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TierId(pub usize);

/// When refusals become a box. 20 strikes within 60 s by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Penalty {
    /// Strikes that trip the box, at least 1.
    pub strikes: u32,
    /// The window, fixed from the first strike.
    pub within: Millis,
}

/// How many leases of a kind a tenant may hold at once: 1 to 1,000; to 64 with the local store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slots(pub u32);

/// Requests in any stretch of time of this length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// How many: 1 to 10,000; to 200 with the local store.
    pub requests: u32,
    /// In how long: 1 s to 31 days.
    pub per: Millis,
}

/// A tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tier {
    /// `[A-Za-z0-9_-]{1,64}`, never `anonymous`, unique.
    pub name: String,
    /// Limit of all the tenant's keys together.
    pub tenant: Limit,
    /// Limit of each key.
    pub key: Limit,
    /// Strikes that trip the penalty box.
    pub penalty: Penalty,
    /// How many requests of a kind a tenant may have under way, in the order of the kinds' names.
    pub leases: Vec<(String, Slots)>,
    /// How many requests of a kind a tenant may make in a while, in the order of the kinds' names.
    pub quotas: Vec<(String, Quota)>,
}
