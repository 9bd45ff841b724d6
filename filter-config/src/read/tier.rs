//! `tiers`: what a tenant may use.

use super::{
    burst::Bursts,
    kinds::{KIND, Kinds, is_kind},
    limit, penalty,
};
use crate::{
    quote::is_name,
    reader::{At, Fields, NAME, Reader, Value},
    tier::{Quota, Slots, Tier, TierId},
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

/// The most that a store can keep of a kind, each with how it is written.
pub(super) struct Most {
    slots: (u64, &'static str),
    requests: (u64, &'static str),
}

impl Most {
    /// Of a store that can fail, or of the local one, all of whose entries for a tenant share a page.
    pub(super) const fn with(store_can_fail: Option<bool>) -> Self {
        match store_can_fail {
            Some(false) => Self {
                slots: (64, "64 with the local store"),
                requests: (200, "200 with the local store"),
            },
            Some(true) | None => Self {
                slots: (1000, "1000"),
                requests: (10_000, "10000"),
            },
        }
    }
}

/// Reads all tiers, and keeps each bucket and each kind that can be read.
pub(super) fn read(
    reader: &mut Reader<'_>,
    at: &At<'_>,
    most: &Most,
    bursts: &mut Bursts,
    kinds: &mut Kinds,
) -> Option<Vec<Tier>> {
    let Some(entries) = reader.entries(at, "an object: a tier by its name") else {
        kinds.cannot_be_known();
        return None;
    };
    let tiers: Vec<Option<Tier>> = entries
        .iter()
        .map(|(name, at)| tier(reader, name, at, most, bursts, kinds))
        .collect();
    tiers.into_iter().collect()
}

fn tier(
    reader: &mut Reader<'_>,
    name: &str,
    at: &At<'_>,
    most: &Most,
    bursts: &mut Bursts,
    kinds: &mut Kinds,
) -> Option<Tier> {
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
    let fields = reader.fields(at, &["tenant", "key", "penalty", "leases", "quotas"]);
    kinds.add(name, fields.as_ref());
    let fields = fields?;
    let tenant = fields.required(reader, "tenant", limit::EXPECTED, limit::read);
    let key = fields.required(reader, "key", limit::EXPECTED, limit::read);
    let penalty = fields.optional(reader, "penalty", penalty::STRIKES, penalty::strikes);
    let leases = fields.optional(reader, "leases", Vec::new(), |reader, at| {
        by_kind(
            reader,
            at,
            "an object: a number of slots by its kind",
            |reader, at| slots(reader, at, most),
        )
    });
    let quotas = fields.optional(reader, "quotas", Vec::new(), |reader, at| {
        by_kind(
            reader,
            at,
            "an object: a quota {requests, per} by its kind",
            |reader, at| quota(reader, at, most),
        )
    });
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
        leases: leases?,
        quotas: quotas?,
    })
}

/// What stands under each kind.
fn by_kind<T>(
    reader: &mut Reader<'_>,
    at: &At<'_>,
    expected: &str,
    read: impl Fn(&mut Reader<'_>, &At<'_>) -> Option<T>,
) -> Option<Vec<(String, T)>> {
    let entries = reader.entries(at, expected)?;
    let all: Vec<Option<(String, T)>> = entries
        .iter()
        .map(|(kind, at)| {
            if !is_kind(kind) {
                let message = format!("found this as a kind's name, expected {KIND}");
                reader.error(&at.path, message);
            }
            Some(((*kind).to_owned(), read(reader, at)?))
        })
        .collect();
    all.into_iter().collect()
}

fn slots(reader: &mut Reader<'_>, at: &At<'_>, most: &Most) -> Option<Slots> {
    let slots = reader.whole_up_to(at, "a whole number of slots", 1, most.slots)?;
    u32::try_from(slots).ok().map(Slots)
}

fn quota(reader: &mut Reader<'_>, at: &At<'_>, most: &Most) -> Option<Quota> {
    const REQUESTS: &str = "a whole number of requests";
    let value = reader.value(at)?;
    if !matches!(value, Value::Map(_)) {
        let example = as_quota(&value, most);
        let example = example.as_deref().unwrap_or("{requests: 10, per: 1h}");
        let expected = format!("an object of requests, per, such as {example}");
        return reader.mismatch(at, &value, &expected);
    }
    let fields = reader.fields(at, &["requests", "per"])?;
    let requests = fields.required(reader, "requests", REQUESTS, |reader, at| {
        let requests = reader.whole_up_to(at, REQUESTS, 1, most.requests)?;
        u32::try_from(requests).ok()
    });
    let per = fields.required(reader, "per", "a duration", Reader::lifetime);
    Some(Quota {
        requests: requests?,
        per: per?,
    })
}

/// How a rate such as `3/minute` is written as a quota, if the store can keep that.
fn as_quota(value: &Value<'_>, most: &Most) -> Option<String> {
    let Value::Text(text) = value else {
        return None;
    };
    let rate = limit::short(&text.value)?;
    let fits = (1..=most.requests.0).contains(&rate.points.0);
    fits.then(|| format!("{{requests: {}, per: {}s}}", rate.points.0, rate.per.0))
}
