//! Settings that work but are probably not meant, seen on the whole configuration.

use crate::{
    Config,
    reader::{Fields, Reader},
};

pub(super) fn warn(reader: &mut Reader<'_>, fields: &Fields<'_>, config: &Config) {
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
