//! `tiers`: what a tenant may use.

use super::{burst::Bursts, limit, penalty};
use crate::{
    quote::is_name,
    reader::{At, Fields, NAME, Reader},
    tier::{Tier, TierId},
};

/// The names of the tiers in the order of their ids; `None` if `tiers` is no object, which is
/// reported where it is read.
pub(super) fn names<'t>(fields: &Fields<'t>) -> Option<Vec<&'t str>> {
    match fields.get("tiers") {
        Some(at) => at.peek_names(),
        None => Some(Vec::new()),
    }
}

/// The tier of a name among [`names`].
pub(super) fn id(names: &[&str], name: &str) -> Option<TierId> {
    names.iter().position(|known| *known == name).map(TierId)
}

/// Reads all tiers, and keeps each bucket that can be read.
pub(super) fn read(reader: &mut Reader<'_>, at: &At<'_>, bursts: &mut Bursts) -> Option<Vec<Tier>> {
    let entries = reader.entries(at, "an object: a tier by its name")?;
    let tiers: Vec<Option<Tier>> = entries
        .iter()
        .map(|(name, at)| tier(reader, name, at, bursts))
        .collect();
    tiers.into_iter().collect()
}

fn tier(reader: &mut Reader<'_>, name: &str, at: &At<'_>, bursts: &mut Bursts) -> Option<Tier> {
    // They are what metrics and problem documents show for requests without a tier.
    let named = if matches!(name, "anonymous" | "none") {
        let message = "expected another name: it is the one of requests that have no tier";
        reader.error(&at.path, format!("found a tier called {name}, {message}"));
        None
    } else if is_name(name) {
        Some(name.to_owned())
    } else {
        reader.error(
            &at.path,
            format!("found this as a tier's name, expected {NAME}"),
        );
        None
    };
    let fields = reader.fields(at, &["tenant", "key", "penalty"])?;
    let tenant = fields.required(reader, "tenant", limit::EXPECTED, limit::read);
    let key = fields.required(reader, "key", limit::EXPECTED, limit::read);
    let penalty = fields.optional(reader, "penalty", penalty::STRIKES, penalty::strikes);
    for (scope, limit) in [("key", key), ("tenant", tenant)] {
        if let Some(limit) = limit {
            bursts.add(scope, name, limit);
        }
    }
    Some(Tier {
        name: named?,
        tenant: tenant?,
        key: key?,
        penalty: penalty?,
        leases: Vec::new(),
        quotas: Vec::new(),
    })
}
