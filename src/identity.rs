//! Who is counted. A raw secret is hashed as soon as it is read and never printed.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use tollgate_config::{Config, IdSource, Source, TierId};

use crate::request::{Occurs, Request};
use crate::verdict::Invalid;

/// A header that Envoy joins with commas when it is sent twice. One credential has none.
const JOINED: &str = "authorization";

/// Longest identifier that is used as it is.
const LONGEST: usize = 64;

/// An identifier that is safe in keys: `[A-Za-z0-9_-]{1,64}`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(String);

impl Id {
    /// An identifier that fits the alphabet as it is; anything else as its SHA-256 in base64url.
    #[must_use]
    pub fn of(raw: &[u8]) -> Self {
        let plain = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
        match std::str::from_utf8(raw) {
            Ok(text) if (1..=LONGEST).contains(&raw.len()) && raw.iter().all(plain) => {
                Self(text.to_owned())
            }
            _ => Self::hashed(raw),
        }
    }

    /// The SHA-256 of a secret in base64url, 43 characters.
    #[must_use]
    pub fn hashed(raw: &[u8]) -> Self {
        Self(URL_SAFE_NO_PAD.encode(Sha256::digest(raw)))
    }

    /// The identifier.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Id(..)")
    }
}

/// Who sent a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// A key of a tenant with a tier.
    Tenant {
        /// The tenant.
        tenant: Id,
        /// Its key.
        key: Id,
        /// Its tier.
        tier: TierId,
    },
    /// No tenant, no key, or no tier.
    Anonymous,
}

/// Looks up a property of the proxy.
pub type Properties<'a> = &'a dyn Fn(&[String]) -> Option<Vec<u8>>;

impl Caller {
    /// Reads who sent a request.
    ///
    /// # Errors
    /// A header that says who is calling was sent twice: the upstream might believe the other one.
    pub fn of(
        config: &Config,
        request: &Request,
        properties: Properties<'_>,
    ) -> Result<Self, Invalid> {
        let identity = &config.identity;
        let read = |source| value(source, request, properties);
        let raw_tenant = read(identity.tenant.as_ref().map(|id| &id.from))?;
        let raw_key = read(identity.key.as_ref().map(|id| &id.from))?;
        let tier_name = read(identity.tier.as_ref())?;
        let (Some(raw_tenant), Some(raw_key)) = (raw_tenant, raw_key) else {
            return Ok(Self::Anonymous);
        };
        let tenant = id(identity.tenant.as_ref(), &raw_tenant);
        let key = id(identity.key.as_ref(), &raw_key);
        let named = |name: &[u8]| {
            let tier = config.tiers.iter().position(|t| t.name.as_bytes() == name);
            tier.map(TierId)
        };
        let tier = identity
            .tenants
            .get(raw_tenant.as_ref())
            .copied()
            .or_else(|| tier_name.and_then(|name| named(&name)))
            .or(identity.default_tier);
        Ok(match tier {
            Some(tier) => Self::Tenant { tenant, key, tier },
            None => Self::Anonymous,
        })
    }
}

fn id(source: Option<&IdSource>, raw: &[u8]) -> Id {
    if source.is_some_and(|s| s.sha256) {
        Id::hashed(raw)
    } else {
        Id::of(raw)
    }
}

fn value<'a>(
    source: Option<&Source>,
    request: &'a Request,
    properties: Properties<'_>,
) -> Result<Option<Cow<'a, [u8]>>, Invalid> {
    match source {
        None => Ok(None),
        Some(Source::Header(name)) => match request.occurs(name) {
            Occurs::Never => Ok(None),
            Occurs::Once(value) if name == JOINED && value.contains(&b',') => {
                Err(Invalid::DoubledHeader(name.clone()))
            }
            Occurs::Once(value) => Ok(Some(Cow::Borrowed(value))),
            Occurs::Doubled => Err(Invalid::DoubledHeader(name.clone())),
        },
        Some(Source::Property(path)) => Ok(properties(path)
            .filter(|value| !value.is_empty())
            .map(Cow::Owned)),
    }
}

#[cfg(test)]
mod tests;
