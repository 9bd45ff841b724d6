//! Any bytes as a configuration: refused with errors an operator can read, or one that can work.

use tollgate_config::{Config, Limiter, OnStoreFailure, Route, RouteId, ThrottleBy, Tier};
use tollgate_filter::rules::Rules;

/// Paths that a router has to find something for.
const PATHS: [&[u8]; 4] = [b"/", b"/v1/ledgers/7/entries", b"", b"/%FF/\xff"];

fn env(name: &str) -> Option<String> {
    let value = match name {
        "SET" => "7",
        "EMPTY" => "",
        "MODE" => "shadow",
        "HOSTILE" => "${SET}\u{0}\n\u{2028}",
        _ => return None,
    };
    Some(value.to_owned())
}

/// Reads the bytes as a configuration.
pub fn run(bytes: &[u8]) {
    match Config::parse(bytes, &env) {
        Err(errors) => {
            assert!(!errors.0.is_empty(), "refused without an error");
            for error in &errors.0 {
                let text = error.to_string();
                assert!(error.message.starts_with("found "), "{text:?}");
                assert!(!text.contains(char::is_control), "{text:?}");
            }
        }
        Ok(config) => check(config),
    }
}

fn check(config: Config) {
    assert_eq!(config.routes.last().unwrap().name, "default");
    for (method, path) in [b"GET".as_slice(), b"", b"\xff"].iter().zip(PATHS) {
        let (id, route) = config.route(method, path);
        assert!(route.is_some(), "{id:?} is no route");
        let _ = config.exempt.find(method, path);
    }
    let named = config.identity.tenants.values();
    for tier in named.chain(&config.identity.default_tier) {
        assert!(config.tier(*tier).is_some(), "{tier:?} is no tier");
    }
    // What costs more than a bucket holds could never pass.
    let bursts = config
        .tiers
        .iter()
        .flat_map(|t| [t.key.burst, t.tenant.burst]);
    if let Some(least) = bursts.min() {
        let of_tenants = |route: &&Route| route.limiter == Limiter::Tier;
        for route in config.routes.iter().filter(of_tenants) {
            let dear = route.cost.when_range.as_ref().map(|range| range.cost);
            let most = dear.unwrap_or_default().max(route.cost.base);
            assert!(most <= least, "{} costs {most:?} of {least:?}", route.name);
        }
    }
    // What a route asks of a tier, some tier has; and only the store can see to it.
    for route in &config.routes {
        let kind = route.lease.as_ref().map(|lease| &lease.kind);
        let has = |tier: &Tier| tier.leases.iter().any(|(known, _)| Some(known) == kind);
        assert!(
            kind.is_none() || config.tiers.iter().any(has),
            "{kind:?} of no tier"
        );
        let quota = route.quota.as_ref();
        let has = |tier: &Tier| tier.quotas.iter().any(|(known, _)| Some(known) == quota);
        assert!(
            quota.is_none() || config.tiers.iter().any(has),
            "{quota:?} of no tier"
        );
        let is_held = route.lease.is_some() || route.lock.is_some();
        assert!(
            is_held || route.hold_on.is_empty(),
            "{} holds nothing",
            route.name
        );
        let is_closed = route.on_store_failure == OnStoreFailure::Closed;
        assert!(
            is_closed || !(is_held || quota.is_some()),
            "{} is open",
            route.name
        );
    }
    check_throttles(&config);
    for warning in &config.warnings {
        assert!(!warning.to_string().contains(char::is_control), "{warning}");
    }
    let _ = Rules::new(config);
}

/// What is counted can be kept, and a route that knows nobody has nobody hold something.
fn check_throttles(config: &Config) {
    assert!(config.auth_throttles.len() <= 32);
    for (index, throttle) in config.auth_throttles.iter().enumerate() {
        let name = &throttle.name;
        let same = |other: &&tollgate_config::Throttle| other.name == *name;
        assert_eq!(config.auth_throttles.iter().filter(same).count(), 1);
        let is_by_subject = throttle.by != ThrottleBy::Ip;
        assert!(
            !is_by_subject || throttle.subject.is_some(),
            "{name} counts nobody"
        );
        let is_known = |route: &RouteId| config.routes.get(route.0).is_some();
        let routes = throttle.routes.iter().flatten();
        assert!(
            routes.clone().all(is_known),
            "{name} is for a route that is none"
        );
        assert!(
            routes.clone().is_sorted() && throttle.routes.as_ref().is_none_or(|r| !r.is_empty())
        );
        assert!((1..=1000).contains(&throttle.failures));
        let may_degrade = |(index, route): (usize, &Route)| {
            throttle.covers(RouteId(index)) && route.on_store_failure == OnStoreFailure::Degraded
        };
        let is_local = config.store.kind == tollgate_config::StoreKind::Local;
        let is_kept_locally = is_local || config.routes.iter().enumerate().any(may_degrade);
        assert!(
            throttle.failures <= 100 || !is_kept_locally,
            "{index}: too many for a page"
        );
        assert!(!throttle.spare_known_ips || throttle.by == ThrottleBy::Subject);
        assert!(!throttle.count.is_empty() && throttle.count.is_sorted());
    }
    if let Some(stuffing) = config.stuffing {
        assert!((1..=stuffing.failures).contains(&stuffing.subjects));
        assert!(config.auth_throttles.iter().any(|t| t.subject.is_some()));
    }
    for route in &config.routes {
        let holds = route.lease.is_some() || route.lock.is_some() || route.quota.is_some();
        assert!(
            route.limiter == Limiter::Tier || !holds,
            "{} knows nobody",
            route.name
        );
    }
}
