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
}
