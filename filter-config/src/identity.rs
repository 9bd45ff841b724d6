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

/// Who tells the client's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientIpFrom {
    /// The proxy that the filter runs in: the address it established.
    Connection,
    /// The proxies before it, by `X-Forwarded-For`: so many of them are trusted, at least 1. The client is
    /// that entry from the right.
    XForwardedFor(u32),
    /// The proxies before it, by `Forwarded` (RFC 7239): so many of them are trusted, at least 1. The client
    /// is the `for` of that element from the right.
    Forwarded(u32),
}

/// Which address counts as the client's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientIp {
    /// Who tells it.
    pub from: ClientIpFrom,
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
