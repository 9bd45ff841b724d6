//! `store`: where state lives, and how it is reached.

use crate::limit::Limit;
use crate::units::{Millis, Points};

/// Which store decides.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum StoreKind {
    /// The proxy's shared memory.
    #[default]
    Local,
    /// Redis, behind an HTTP front.
    Redis(Redis),
}

/// A Redis behind an HTTP front.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redis {
    /// The front: an Envoy cluster's name; on Kong `host:port`.
    pub upstream: String,
    /// The front's way to talk.
    pub dialect: Front,
    /// Whether a script call may span hash tags.
    pub topology: Topology,
    /// Past it the store has failed for a request; 20 ms by default, at least 1.
    pub timeout: Millis,
    /// The `authorization` header of every call. Never printed.
    pub authorization: Option<Secret>,
    /// Put before every key; no braces.
    pub key_prefix: String,
    /// When to stop calling.
    pub breaker: Breaker,
}

/// A string that `Debug` does not show.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// How a front is talked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Front {
    /// Webdis: a command in the path of a GET, or in the body of a POST.
    #[default]
    Webdis,
    /// `POST /pipeline` with a JSON array of commands.
    Upstash,
}

/// What is behind the front.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Topology {
    /// One Redis: a script call may touch any keys.
    #[default]
    Standalone,
    /// Redis Cluster: a script call stays under one hash tag.
    Cluster,
}

/// When a failing store is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breaker {
    /// Failures in a row that open it; 5 by default, at least 1.
    pub failures: u32,
    /// How long it stays open before one call probes the store; 2 s by default.
    pub open_for: Millis,
}

/// A part of a limit, in millionths: 1 to 1,000,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share(pub u32);

impl Share {
    const WHOLE: u64 = 1_000_000;

    /// This share of a limit's points and burst, rounded down, at least 1 of each.
    #[must_use]
    pub fn of(self, limit: Limit) -> Limit {
        let part = |points: Points| {
            let whole = u128::from(points.0) * u128::from(self.0) / u128::from(Self::WHOLE);
            Points(u64::try_from(whole).unwrap_or(u64::MAX).max(1))
        };
        Limit {
            points: part(limit.points),
            burst: part(limit.burst),
            per: limit.per,
        }
    }
}
