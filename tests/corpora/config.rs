//! Any bytes as a configuration: refused with errors an operator can read, or one that can work.

use tollgate_config::{Config, OnStoreFailure, Tier};
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
        for route in &config.routes {
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
    for warning in &config.warnings {
        assert!(!warning.to_string().contains(char::is_control), "{warning}");
    }
    let _ = Rules::new(config);
}
