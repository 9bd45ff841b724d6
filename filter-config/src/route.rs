//! What a request costs and what it must bring, by method and path.

use crate::{
    Mode,
    units::{Millis, Points},
};

/// Index of a route in [`Config::routes`](crate::Config::routes).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteId(pub usize);

/// A dearer price for a long range of dates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhenRange {
    /// Query parameter with the range's start.
    pub from: String,
    /// Query parameter with the range's end.
    pub to: String,
    /// A range longer than this costs `cost`.
    pub longer_than: Millis,
    /// The dearer price.
    pub cost: Points,
}

/// What a request costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    /// The price, at least 1.
    pub base: Points,
    /// Another price for a long range of dates.
    pub when_range: Option<WhenRange>,
}

/// Whether a request must carry an `Idempotency-Key`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IdempotencyKey {
    /// It may.
    #[default]
    Optional,
    /// It must.
    Required,
}

/// What happens when the store fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnStoreFailure {
    /// The degraded limiter decides.
    #[default]
    Degraded,
    /// 503.
    Closed,
}

/// Which limits a request meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Limiter {
    /// Those of its tenant's tier, or of anonymous requests.
    #[default]
    Tier,
    /// Neither: only `ip_limit` and auth throttles. Nobody is known yet where credentials are presented.
    Credential,
}

/// What becomes of a lease or a lock when the client goes away before the response is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnAbort {
    /// It is let go.
    Release,
    /// It is held on, up to its `ttl`: the upstream may still be at work.
    Hold,
}

/// One of the tenant's slots for requests of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Which kind: `[A-Za-z0-9_-]{1,24}`, one of some tier's `leases`.
    pub kind: String,
    /// How long it outlives the response at most; 15 minutes by default, 1 s to 31 days.
    pub ttl: Millis,
    /// `Release` by default.
    pub on_abort: OnAbort,
}

/// Where a request names the resource that it locks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockBy {
    /// A header, its name in lower case.
    Header(String),
    /// A query parameter.
    Query(String),
    /// A name in the route's path template.
    Path {
        /// The name.
        name: String,
        /// Which of the normal path's segments it is, those between its slashes, from 0: 1 in `/v1/{id}`.
        segment: usize,
    },
    /// A value in the JSON body: the tokens of a JSON pointer (RFC 6901), unescaped; at least one.
    Json(Vec<String>),
}

/// The one slot of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// What names the resource.
    pub by: LockBy,
    /// How long it outlives the response at most; 15 minutes by default, 1 s to 31 days.
    pub ttl: Millis,
    /// `Hold` by default.
    pub on_abort: OnAbort,
}

/// A route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// `[A-Za-z0-9_-]{1,64}`, unique; the last route is called `default`.
    pub name: String,
    /// The route's own mode.
    pub mode: Option<Mode>,
    /// Which limits a request meets.
    pub limiter: Limiter,
    /// What a request costs.
    pub cost: Cost,
    /// Whether a request must carry an `Idempotency-Key`.
    pub idempotency_key: IdempotencyKey,
    /// What happens when the store fails.
    pub on_store_failure: OnStoreFailure,
    /// A slot of the tenant's for requests of a kind. The route is then closed when the store fails.
    pub lease: Option<Lease>,
    /// The one slot of a resource. The route is then closed when the store fails.
    pub lock: Option<Lock>,
    /// Kind of the tenant's quota that a request takes from: `[A-Za-z0-9_-]{1,24}`, one of some tier's
    /// `quotas`. The route is then closed when the store fails.
    pub quota: Option<String>,
    /// Statuses of responses (200 to 599, in order) with which lease and lock outlive the response; none
    /// without a lease or a lock.
    pub hold_on: Vec<u16>,
}
