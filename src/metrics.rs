//! Names of the metrics and of the verdict in access logs. Labels come from the configuration only.
//!
//! Proxies know flat names, so a label is two segments of a dotted one
//! (`tollgate_points_total.tier.growth`); `stats_tags` in Envoy's bootstrap turn them into labels.

use tollgate_config::{Config, Mode, RouteId, ThrottleId};

use crate::plan::TierLabel;
use crate::verdict::Scope;

/// The property under which the verdict is left for access logs.
pub const VERDICT_PROPERTY: &str = "tollgate_verdict";

/// The gauge that is 1 while the store fails, else 0.
pub const DEGRADED: &str = "tollgate_degraded";

/// The histogram of how long the store took to answer, in milliseconds.
pub const STORE_LATENCY: &str = "tollgate_store_latency_ms";

/// A counter, with its labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Counter {
    /// Requests by route, tier, verdict and mode.
    Requests {
        /// The route.
        route: RouteId,
        /// The tier.
        tier: TierLabel,
        /// The verdict's name.
        verdict: &'static str,
        /// Whether it was carried out.
        mode: Mode,
    },
    /// Points that were admitted.
    Points(TierLabel),
    /// Trips of the penalty box.
    BoxTrips {
        /// 1 to 3.
        level: u8,
        /// Whose box.
        scope: Scope,
    },
    /// Requests that the store failed for, by route.
    Degraded(RouteId),
    /// Entries of the local store that made room for others.
    Evictions,
    /// Changes of a page that were tried again because another worker was faster.
    Retries,
    /// Requests refused because all leases of the route's kind are held.
    LeasesRefused(RouteId),
    /// Failed attempts at credentials, by throttle.
    AuthFailures(ThrottleId),
    /// Messages to the store that were given up, after retries or for lack of room.
    OutboxDropped,
    /// Decisions that the store did not make.
    StoreErrors(StoreError),
}

/// What went wrong with the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreError {
    /// A change was tried too often.
    Contention,
    /// A debit could not be given back.
    LostRefund,
    /// A call of a store behind a front failed: the name of the fault's kind.
    Front(&'static str),
}

impl Counter {
    /// The counter's flat name.
    #[must_use]
    pub fn name(&self, config: &Config) -> String {
        match self {
            Self::Requests {
                route,
                tier,
                verdict,
                mode,
            } => {
                let route = route_name(config, *route);
                let tier = tier_name(config, *tier);
                let mode = mode_name(*mode);
                format!(
                    "tollgate_requests_total.route.{route}.tier.{tier}.verdict.{verdict}.mode.{mode}"
                )
            }
            Self::Points(tier) => {
                format!("tollgate_points_total.tier.{}", tier_name(config, *tier))
            }
            Self::BoxTrips { level, scope } => {
                format!(
                    "tollgate_box_trips_total.level.{level}.scope.{}",
                    scope.name()
                )
            }
            Self::Degraded(route) => {
                format!(
                    "tollgate_degraded_total.route.{}",
                    route_name(config, *route)
                )
            }
            Self::Evictions => "tollgate_evictions_total".to_owned(),
            Self::Retries => "tollgate_store_retries_total".to_owned(),
            Self::LeasesRefused(route) => {
                let lease = config.routes.get(route.0).and_then(|r| r.lease.as_ref());
                let kind = lease.map_or("none", |lease| lease.kind.as_str());
                format!("tollgate_leases_refused_total.kind.{kind}")
            }
            Self::AuthFailures(throttle) => {
                let throttle = config.auth_throttles.get(throttle.0);
                let name = throttle.map_or("none", |throttle| throttle.name.as_str());
                format!("tollgate_auth_failures_total.throttle.{name}")
            }
            Self::OutboxDropped => "tollgate_outbox_dropped_total".to_owned(),
            Self::StoreErrors(error) => {
                let kind = match error {
                    StoreError::Contention => "contention",
                    StoreError::LostRefund => "lost_refund",
                    StoreError::Front(kind) => kind,
                };
                format!("tollgate_store_errors_total.kind.{kind}")
            }
        }
    }
}

fn route_name(config: &Config, route: RouteId) -> &str {
    let route = config.routes.get(route.0);
    route.map_or("default", |r| r.name.as_str())
}

/// The tier's name in metrics and problem documents.
#[must_use]
pub fn tier_name(config: &Config, tier: TierLabel) -> &str {
    match tier {
        TierLabel::Tier(id) => config.tier(id).map_or("none", |t| t.name.as_str()),
        TierLabel::Anonymous => "anonymous",
        TierLabel::None => "none",
    }
}

const fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Enforce => "enforce",
        Mode::Shadow => "shadow",
    }
}

#[cfg(test)]
mod tests;
