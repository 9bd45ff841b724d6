//! Tests of `metrics`.

use tollgate_config::{Lease, Millis, OnAbort, ThrottleBy, TierId};

use super::*;
use crate::testing::config;
use crate::testing::throttles::throttle;

fn configured() -> Config {
    let mut config = config(
        r#"{
            "tiers": {
                "growth": {"tenant": "60/minute", "key": "30/minute"},
                "sandbox": {"tenant": "6/minute", "key": "3/minute"}
            },
            "routes": [
                {"name": "first_1", "match": {"path": "/1"}},
                {"name": "second-2", "match": {"path": "/2"}}
            ]
        }"#,
    );
    config.auth_throttles = vec![
        throttle("token-subject", ThrottleBy::Subject),
        throttle("token-ip", ThrottleBy::Ip),
    ];
    config.routes[1].lease = Some(Lease {
        kind: "audit_export".to_owned(),
        ttl: Millis(1000),
        on_abort: OnAbort::Release,
    });
    config
}

fn requests(route: usize, tier: TierLabel, verdict: &'static str, mode: Mode) -> Counter {
    Counter::Requests {
        route: RouteId(route),
        tier,
        verdict,
        mode,
    }
}

#[test]
fn counters_have_the_names_of_the_contract() {
    let config = configured();
    let growth = config
        .tiers
        .iter()
        .position(|t| t.name == "growth")
        .unwrap();
    let growth = TierLabel::Tier(TierId(growth));
    for (counter, name) in [
        (
            requests(0, growth, "allowed", Mode::Enforce),
            "tollgate_requests_total.route.first_1.tier.growth.verdict.allowed.mode.enforce",
        ),
        (
            requests(1, TierLabel::Anonymous, "throttled", Mode::Shadow),
            "tollgate_requests_total.route.second-2.tier.anonymous.verdict.throttled.mode.shadow",
        ),
        (
            requests(2, TierLabel::None, "exempt", Mode::Enforce),
            "tollgate_requests_total.route.default.tier.none.verdict.exempt.mode.enforce",
        ),
        // No id can make a label that is not in the configuration.
        (
            requests(99, TierLabel::Tier(TierId(99)), "boxed", Mode::Enforce),
            "tollgate_requests_total.route.default.tier.none.verdict.boxed.mode.enforce",
        ),
        (Counter::Points(growth), "tollgate_points_total.tier.growth"),
        (
            Counter::Points(TierLabel::Anonymous),
            "tollgate_points_total.tier.anonymous",
        ),
        (
            Counter::BoxTrips {
                level: 1,
                scope: Scope::Key,
            },
            "tollgate_box_trips_total.level.1.scope.key",
        ),
        (
            Counter::BoxTrips {
                level: 3,
                scope: Scope::Ip,
            },
            "tollgate_box_trips_total.level.3.scope.ip",
        ),
        (
            Counter::Degraded(RouteId(1)),
            "tollgate_degraded_total.route.second-2",
        ),
        (
            Counter::Degraded(RouteId(99)),
            "tollgate_degraded_total.route.default",
        ),
        (
            Counter::StoreErrors(StoreError::Front("timeout")),
            "tollgate_store_errors_total.kind.timeout",
        ),
        (
            Counter::LeasesRefused(RouteId(1)),
            "tollgate_leases_refused_total.kind.audit_export",
        ),
        // A route without a lease refuses none; no id can make a label of its own.
        (
            Counter::LeasesRefused(RouteId(0)),
            "tollgate_leases_refused_total.kind.none",
        ),
        (
            Counter::LeasesRefused(RouteId(99)),
            "tollgate_leases_refused_total.kind.none",
        ),
        (
            Counter::BoxTrips {
                level: 2,
                scope: Scope::Subject,
            },
            "tollgate_box_trips_total.level.2.scope.subject",
        ),
        (
            Counter::AuthFailures(ThrottleId(1)),
            "tollgate_auth_failures_total.throttle.token-ip",
        ),
        (
            Counter::AuthFailures(ThrottleId(99)),
            "tollgate_auth_failures_total.throttle.none",
        ),
        (Counter::OutboxDropped, "tollgate_outbox_dropped_total"),
        (Counter::Evictions, "tollgate_evictions_total"),
        (
            Counter::StoreErrors(StoreError::Contention),
            "tollgate_store_errors_total.kind.contention",
        ),
        (
            Counter::StoreErrors(StoreError::LostRefund),
            "tollgate_store_errors_total.kind.lost_refund",
        ),
    ] {
        assert_eq!(counter.name(&config), name);
    }
}

#[test]
fn what_is_no_counter_has_the_name_of_the_contract() {
    assert_eq!(DEGRADED, "tollgate_degraded");
    assert_eq!(STORE_LATENCY, "tollgate_store_latency_ms");
}

#[test]
fn every_configured_label_stays_one_segment() {
    // `stats_tags` split names at dots: no label may bring its own.
    let config = configured();
    for route in 0..config.routes.len() {
        for tier in 0..config.tiers.len() {
            let counter = requests(
                route,
                TierLabel::Tier(TierId(tier)),
                "allowed",
                Mode::Enforce,
            );
            assert_eq!(counter.name(&config).split('.').count(), 9);
        }
    }
    for throttle in 0..config.auth_throttles.len() {
        let counter = Counter::AuthFailures(ThrottleId(throttle));
        assert_eq!(counter.name(&config).split('.').count(), 3);
    }
}

#[test]
fn tiers_are_called_as_configured() {
    let config = configured();
    for (index, tier) in config.tiers.iter().enumerate() {
        assert_eq!(
            tier_name(&config, TierLabel::Tier(TierId(index))),
            tier.name
        );
    }
    assert_eq!(tier_name(&config, TierLabel::Anonymous), "anonymous");
    assert_eq!(tier_name(&config, TierLabel::None), "none");
}
