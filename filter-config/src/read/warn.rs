//! Settings that work but are probably not meant, seen on the whole configuration.

mod throttles;

use std::collections::BTreeSet;

use crate::{
    Config, RouteId, StoreKind,
    reader::{Fields, Reader},
};

/// Warns of them; `met` are the routes that some request can meet.
pub(super) fn warn(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    config: &Config,
    met: &BTreeSet<RouteId>,
) {
    everyone_is_anonymous(reader, fields, config);
    hand_overs_that_nobody_ends(reader, fields, config);
    kinds_that_limit_nothing(reader, fields, config);
    throttles::warn(reader, fields, config, met);
}

fn everyone_is_anonymous(reader: &mut Reader<'_>, fields: &Fields<'_>, config: &Config) {
    let identity = &config.identity;
    let path = fields.path.field("identity");
    let reads: Vec<&str> = [
        (identity.tenant.is_some(), "tenant"),
        (identity.key.is_some(), "key"),
        (identity.tier.is_some(), "tier"),
    ]
    .into_iter()
    .filter_map(|(is_read, name)| is_read.then_some(name))
    .collect();
    let has_tier_source =
        identity.tier.is_some() || !identity.tenants.is_empty() || identity.default_tier.is_some();
    let why = if config.tiers.is_empty() {
        if reads.is_empty() {
            return;
        }
        format!("found {} but no tiers", reads.join(", "))
    } else if identity.tenant.is_none() {
        "found tiers but nothing that tells the tenant (identity.tenant)".to_owned()
    } else if identity.key.is_none() {
        "found tiers but nothing that tells the key (identity.key)".to_owned()
    } else if !has_tier_source {
        "found tiers but nothing that tells a tenant's tier (identity.tier, identity.tenants or \
         identity.default_tier)"
            .to_owned()
    } else {
        return;
    };
    reader.warn(&path, format!("{why}: every request is anonymous"));
}

/// Who has the work releases with a command to Redis.
fn hand_overs_that_nobody_ends(reader: &mut Reader<'_>, fields: &Fields<'_>, config: &Config) {
    if config.store.kind != StoreKind::Local {
        return;
    }
    for (index, route) in config.routes.iter().enumerate() {
        if !route.hold_on.is_empty() {
            let path = fields.path.field("routes").index(index).field("hold_on");
            let message = "found hold_on with the local store: nobody can release what is handed \
                           over, so it always lasts for ttl";
            reader.warn(&path, message.to_owned());
        }
    }
}

/// Kinds of tiers that no route asks for.
fn kinds_that_limit_nothing(reader: &mut Reader<'_>, fields: &Fields<'_>, config: &Config) {
    let leases = config
        .routes
        .iter()
        .filter_map(|route| route.lease.as_ref());
    let leases: BTreeSet<&str> = leases.map(|lease| lease.kind.as_str()).collect();
    let quotas = config
        .routes
        .iter()
        .filter_map(|route| route.quota.as_deref());
    let quotas: BTreeSet<&str> = quotas.collect();
    for tier in &config.tiers {
        let path = fields.path.field("tiers").field(&tier.name);
        for (kind, _) in &tier.leases {
            if !leases.contains(kind.as_str()) {
                let message = "found a kind that no route's lease names: it limits nothing";
                reader.warn(&path.field("leases").field(kind), message.to_owned());
            }
        }
        for (kind, _) in &tier.quotas {
            if !quotas.contains(kind.as_str()) {
                let message = "found a kind that no route's quota names: it limits nothing";
                reader.warn(&path.field("quotas").field(kind), message.to_owned());
            }
        }
    }
}
