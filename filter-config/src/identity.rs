//! Who is counted: where tenant, key, tier and client address are read from.

use std::collections::BTreeMap;

use crate::tier::TierId;

/// Where a value is read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A request header, its name in lower case.
    Header(String),
    /// A property of the proxy, such as another filter's metadata.
    Property(Vec<String>),
}

/// Where an identifier is read from, and whether it is a raw secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdSource {
    /// Where it is.
    pub from: Source,
    /// Replace it by its SHA-256 whatever it looks like: it is a secret.
    pub sha256: bool,
}

/// Which address counts as the client's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientIp {
    /// `None`: the address the proxy established. `Some(n)`: the n-th `X-Forwarded-For` entry from
    /// the right, n at least 1.
    pub trusted_hops: Option<u32>,
    /// Leading bits of an IPv6 address that count as one client, 1 to 128; 64 by default.
    pub ipv6_prefix: u8,
}

/// Who is counted. The default knows nobody: every request is anonymous.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The tenant's identifier.
    pub tenant: Option<IdSource>,
    /// The API key's identifier.
    pub key: Option<IdSource>,
    /// The name of the tenant's tier.
    pub tier: Option<Source>,
    /// Static tiers by tenant, which win over the above.
    pub tenants: BTreeMap<Vec<u8>, TierId>,
    /// Tier of a tenant with no or an unknown tier; without it such a tenant is anonymous.
    pub default_tier: Option<TierId>,
    /// Which address counts as the client's.
    pub client_ip: ClientIp,
}
