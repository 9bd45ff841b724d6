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

/// A route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// `[A-Za-z0-9_-]{1,64}`, unique; the last route is called `default`.
    pub name: String,
    /// The route's own mode.
    pub mode: Option<Mode>,
    /// What a request costs.
    pub cost: Cost,
    /// Whether a request must carry an `Idempotency-Key`.
    pub idempotency_key: IdempotencyKey,
    /// What happens when the store fails.
    pub on_store_failure: OnStoreFailure,
}
