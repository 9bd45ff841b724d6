//! What was decided for one request, and where the client stands after it.

use tollgate_config::{Millis, ThrottleId};

use crate::hold::Fence;
use crate::limit::{
    bucket::{Level, Meter},
    penalty::Lockout,
};

/// A bucket a request can meet, in the order in which they are listed to clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// The API key's.
    Key,
    /// The tenant's.
    Tenant,
    /// `ip_limit`.
    Ip,
    /// The anonymous limit of an address.
    Anonymous,
}

impl Policy {
    /// The policy's name in `RateLimit-Policy`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Tenant => "tenant",
            Self::Ip => "ip",
            Self::Anonymous => "anonymous",
        }
    }
}

/// Where a client stands with one bucket, just after the decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Which bucket.
    pub policy: Policy,
    /// Its terms.
    pub meter: Meter,
    /// Whole points that would be admitted now, never above the limit.
    pub remaining: u64,
    /// How long until it is full.
    pub reset: Millis,
    /// How long until it holds this request's cost; 0 if it did.
    pub wait: Millis,
}

impl Standing {
    /// The standing with a bucket whose level is as of now.
    #[must_use]
    pub fn new(policy: Policy, meter: Meter, level: &Level, wait: Millis) -> Self {
        Self {
            policy,
            meter,
            remaining: level.remaining(&meter),
            reset: level.reset(&meter),
            wait,
        }
    }
}

/// Where a client stands with every bucket its request met: at most three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Standings([Option<Standing>; 3]);

impl Standings {
    /// Of up to three buckets.
    #[must_use]
    pub fn new(mut of: [Option<Standing>; 3]) -> Self {
        of.sort_by_key(|s| s.as_ref().map_or(u8::MAX, |s| s.policy as u8));
        Self(of)
    }

    /// In the order of [`Policy`].
    pub fn iter(&self) -> impl Iterator<Item = &Standing> {
        self.0.iter().flatten()
    }

    /// With one more, if there is room.
    #[must_use]
    pub fn with(self, one: Standing) -> Self {
        let [a, b, c] = self.0;
        match (a, b, c) {
            (a, b, None) => Self::new([a, b, Some(one)]),
            _ => self,
        }
    }

    /// The one bucket that headers with room for one describe: on a refusal the one with the longer
    /// wait, else the one with the smaller remaining; the key's (or the anonymous one) on a tie.
    #[must_use]
    pub fn described(&self) -> Option<&Standing> {
        let refused = self.iter().any(|s| s.wait > Millis(0));
        let own_first = |s: &&Standing| matches!(s.policy, Policy::Tenant | Policy::Ip);
        if refused {
            self.iter()
                .min_by_key(|s| (std::cmp::Reverse(s.wait), own_first(s)))
        } else {
            self.iter().min_by_key(|s| (s.remaining, own_first(s)))
        }
    }
}

/// Whom a box belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// An API key.
    Key,
    /// A client address.
    Ip,
    /// A subject, whose credentials are presented.
    Subject,
}

impl Scope {
    /// The scope's name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Ip => "ip",
            Self::Subject => "subject",
        }
    }
}

/// A refusal for lack of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throttled {
    /// Where the client stands.
    pub standings: Standings,
    /// The moment it was told, or the real wait where that is longer.
    pub wait: Millis,
    /// Strikes still allowed, of those that are counted (none are where the box is off); `None` where
    /// it was the address that refused a tenant's request.
    pub strikes_left: Option<u32>,
    /// A box in shadow that this refusal tripped.
    pub would_box: Option<(Scope, Lockout)>,
}

/// What else than points a request was refused for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// The idempotency key is in flight.
    Flight,
    /// Somebody else holds the lock.
    Lock,
    /// All leases of the kind are held.
    Lease,
    /// The quota of the kind is spent.
    Quota,
}

impl Obstacle {
    const fn name(self) -> &'static str {
        match self {
            Self::Flight => "idempotency",
            Self::Lock => "lock",
            Self::Lease => "lease",
            Self::Quota => "quota",
        }
    }

    const fn shadow_name(self) -> &'static str {
        match self {
            Self::Flight => "shadow_idempotency",
            Self::Lock => "shadow_lock",
            Self::Lease => "shadow_lease",
            Self::Quota => "shadow_quota",
        }
    }
}

/// A refusal of a request whose cost the buckets held: they were debited a point instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// What is taken.
    pub by: Obstacle,
    /// Where the client stands, after that point.
    pub standings: Standings,
    /// Until the earliest holder's time runs out, or a place of the quota is free; at least 1 ms.
    pub wait: Millis,
    /// Strikes still allowed, as in [`Throttled`].
    pub strikes_left: Option<u32>,
}

/// A refusal because of the penalty box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Boxed {
    /// Whose box.
    pub scope: Scope,
    /// Its level and end.
    pub lockout: Lockout,
    /// This very request tripped it.
    pub tripped: bool,
}

/// A refusal because of failed attempts at credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthLockout {
    /// By which throttle: which of [`Attempts::list`](crate::attempt::Attempts::list).
    pub attempt: usize,
    /// Its level and end.
    pub lockout: Lockout,
    /// This very request found the window filled, by attempts whose outcome never came.
    pub tripped: bool,
}

/// Why the subject cannot be read, whose credentials are presented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubjectFault {
    /// It is nowhere, or empty.
    Missing,
    /// There is more than one, or servers may read it in different ways.
    Doubled,
    /// `Authorization: Basic` is followed by anything but the base64 of a user-id, a colon and a password.
    Basic,
    /// The body has a content coding.
    Encoded,
    /// The body is neither a form nor JSON, as far as it has to be.
    Malformed,
    /// The value is neither a string nor an integer.
    NoName,
    /// The body is too large to be read.
    TooLarge,
}

/// Why the resource to lock cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceFault {
    /// It is not there, or empty.
    Missing,
    /// It is there more than once.
    Doubled,
    /// The body has a content coding.
    Encoded,
    /// The body is no JSON.
    Malformed,
    /// The value is neither a string nor an integer.
    NoName,
    /// The body is too large to be read.
    TooLarge,
}

/// Why a request cannot be decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invalid {
    /// A header that says who is calling was sent more than once.
    DoubledHeader(String),
    /// The resource to lock is not named.
    Resource(ResourceFault),
    /// The subject is not named whose credentials are presented, as this throttle has to know it.
    Subject(ThrottleId, SubjectFault),
}

/// Why an `Idempotency-Key` was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyFault {
    /// There is none.
    Missing,
    /// There is more than one.
    Doubled,
    /// It is empty, longer than 255 bytes, or not visible ASCII.
    Malformed,
}

/// What was decided for one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The path is exempt.
    Exempt,
    /// It passes, and holds all that it asked for; with a lock, this is its fence.
    Allowed(Standings, Option<Fence>),
    /// The store failed, and the degraded limiter let it pass: where the client stands with that.
    Degraded(Standings),
    /// Too few tokens.
    Throttled(Throttled),
    /// Enough tokens, but something else is taken.
    Taken(Taken),
    /// In the penalty box.
    Boxed(Boxed),
    /// Locked out after failed attempts at credentials.
    AuthLockout(AuthLockout),
    /// As many attempts at credentials are in flight as may fail.
    AuthBusy,
    /// The `Idempotency-Key` is missing or malformed.
    IdempotencyKey(KeyFault),
    /// It contradicts itself.
    Invalid(Invalid),
    /// The store was too contended to decide.
    Contended,
    /// The store failed, and the route is closed then.
    Unavailable,
}

impl Verdict {
    /// The verdict's name in metrics and access logs.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Exempt => "exempt",
            Self::Allowed(..) => "allowed",
            Self::Degraded(_) => "degraded",
            Self::Throttled(_) | Self::Contended => "throttled",
            Self::Taken(taken) => taken.by.name(),
            Self::Boxed(_) => "boxed",
            Self::AuthLockout(_) => "auth_lockout",
            Self::AuthBusy => "auth_busy",
            Self::IdempotencyKey(_) => "idempotency",
            Self::Invalid(_) => "invalid",
            Self::Unavailable => "unavailable",
        }
    }

    /// The same, in shadow mode.
    #[must_use]
    pub const fn shadow_name(&self) -> &'static str {
        match self {
            Self::Exempt => "shadow_exempt",
            Self::Allowed(..) => "shadow_allowed",
            Self::Degraded(_) => "shadow_degraded",
            Self::Throttled(_) | Self::Contended => "shadow_throttled",
            Self::Taken(taken) => taken.by.shadow_name(),
            Self::Boxed(_) => "shadow_boxed",
            Self::AuthLockout(_) => "shadow_auth_lockout",
            Self::AuthBusy => "shadow_auth_busy",
            Self::IdempotencyKey(_) => "shadow_idempotency",
            Self::Invalid(_) => "shadow_invalid",
            Self::Unavailable => "shadow_unavailable",
        }
    }

    /// The same, decided by the degraded limiter: a refusal is a refusal, whoever decided it.
    #[must_use]
    pub fn degraded(self) -> Self {
        match self {
            Self::Allowed(standings, _) => Self::Degraded(standings),
            other => other,
        }
    }

    /// Where the client stands, if its buckets were met.
    #[must_use]
    pub const fn standings(&self) -> Option<&Standings> {
        match self {
            Self::Allowed(standings, _) | Self::Degraded(standings) => Some(standings),
            Self::Throttled(throttled) => Some(&throttled.standings),
            Self::Taken(taken) => Some(&taken.standings),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
