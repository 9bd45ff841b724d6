//! `identity`: who is counted.

use std::collections::BTreeMap;

use super::tier;
use crate::{
    identity::{ClientIp, ClientIpFrom, IdSource, Identity, Source},
    quote::alternatives,
    reader::{At, Fields, Reader, Value},
    tier::TierId,
};

/// `identity` where it is not given.
pub(super) const fn nobody() -> Identity {
    Identity {
        tenant: None,
        key: None,
        tier: None,
        tenants: BTreeMap::new(),
        default_tier: None,
        client_ip: CONNECTION,
    }
}

/// `identity.client_ip` where it is not given.
const CONNECTION: ClientIp = ClientIp {
    from: ClientIpFrom::Connection,
    ipv6_prefix: 64,
};

pub(super) fn read(
    reader: &mut Reader<'_>,
    at: &At<'_>,
    tiers: &Option<Vec<&str>>,
) -> Option<Identity> {
    let fields = reader.fields(
        at,
        &[
            "tenant",
            "key",
            "tier",
            "tenants",
            "default_tier",
            "client_ip",
        ],
    )?;
    let tenant = fields.optional(reader, "tenant", None, |r, at| id_source(r, at).map(Some));
    let key = fields.optional(reader, "key", None, |r, at| id_source(r, at).map(Some));
    let from = fields.optional(reader, "tier", None, |reader, at| {
        let fields = reader.fields(at, &["header", "property"])?;
        source(reader, at, &fields).map(Some)
    });
    let tenants = fields.optional(reader, "tenants", BTreeMap::new(), |reader, at| {
        static_tiers(reader, at, tiers)
    });
    let default_tier = fields.optional(reader, "default_tier", None, |reader, at| {
        tier_id(reader, at, tiers).map(Some)
    });
    let client_ip = fields.optional(reader, "client_ip", CONNECTION, client_ip);
    Some(Identity {
        tenant: tenant?,
        key: key?,
        tier: from?,
        tenants: tenants?,
        default_tier: default_tier?,
        client_ip: client_ip?,
    })
}

fn id_source(reader: &mut Reader<'_>, at: &At<'_>) -> Option<IdSource> {
    let fields = reader.fields(at, &["header", "property", "sha256"])?;
    let from = source(reader, at, &fields);
    let sha256 = fields.optional(reader, "sha256", false, Reader::boolean);
    Some(IdSource {
        from: from?,
        sha256: sha256?,
    })
}

fn source(reader: &mut Reader<'_>, at: &At<'_>, fields: &Fields<'_>) -> Option<Source> {
    let header = fields.get("header");
    let property = fields.get("property");
    match (&header, &property) {
        (Some(_), Some(_)) => {
            let message = "found header and property, expected one of them";
            reader.error(&at.path, message.to_owned());
        }
        (None, None) => {
            let message = "found neither header nor property, expected one of them";
            reader.error(&at.path, message.to_owned());
        }
        _ => {}
    }
    let header = header.map(|at| header_name(reader, &at).map(Source::Header));
    let property = property.map(|at| segments(reader, &at).map(Source::Property));
    match (header, property) {
        (Some(source), None) | (None, Some(source)) => source,
        _ => None,
    }
}

/// A header's name, in lower case as proxies hand it over.
pub(super) fn header_name(reader: &mut Reader<'_>, at: &At<'_>) -> Option<String> {
    let value = reader.value(at)?;
    let Value::Text(text) = &value else {
        return reader.mismatch(at, &value, "a header's name");
    };
    if text.value.starts_with(':') {
        return reader.mismatch(at, &value, "a header's name, not a pseudo-header");
    }
    let is_token =
        (1..=128).contains(&text.value.len()) && text.value.bytes().all(super::matching::is_token);
    if !is_token {
        return reader.mismatch(
            at,
            &value,
            "a header's name (RFC 9110 token), at most 128 bytes",
        );
    }
    let name = text.value.to_ascii_lowercase();
    if name.starts_with("x-tollgate-") {
        return reader.mismatch(
            at,
            &value,
            "a header that clients may send: x-tollgate-* are removed from requests",
        );
    }
    Some(name)
}

fn segments(reader: &mut Reader<'_>, at: &At<'_>) -> Option<Vec<String>> {
    const LIST: &str = "a list of the property's path, such as [metadata, filter_metadata]";
    // Hosts take the path as one string with a NUL between segments.
    let segments = reader.list(at, LIST, |reader, at| {
        let value = reader.value(at)?;
        match value {
            Value::Text(text)
                if !text.value.is_empty() && !text.value.contains(char::is_control) =>
            {
                Some(text.value.into_owned())
            }
            _ => reader.mismatch(at, &value, "a part of a property's path"),
        }
    })?;
    if segments.is_empty() {
        reader.error(&at.path, format!("found an empty list, expected {LIST}"));
        return None;
    }
    Some(segments)
}

fn static_tiers(
    reader: &mut Reader<'_>,
    at: &At<'_>,
    tiers: &Option<Vec<&str>>,
) -> Option<BTreeMap<Vec<u8>, TierId>> {
    let entries = reader.entries(at, "an object: a tier's name by its tenant")?;
    let read: Vec<Option<(Vec<u8>, TierId)>> = entries
        .iter()
        .map(|(tenant, at)| {
            if tenant.is_empty() {
                let message = "found an empty name, expected a tenant's";
                reader.error(&at.path, message.to_owned());
            }
            Some((tenant.as_bytes().to_vec(), tier_id(reader, at, tiers)?))
        })
        .collect();
    read.into_iter().collect()
}

fn tier_id(reader: &mut Reader<'_>, at: &At<'_>, tiers: &Option<Vec<&str>>) -> Option<TierId> {
    let value = reader.value(at)?;
    let tiers = tiers.as_ref()?;
    let id = match &value {
        Value::Text(text) => tier::id(tiers, &text.value),
        _ => None,
    };
    if id.is_some() {
        return id;
    }
    let expected = if tiers.is_empty() {
        "the name of a tier, and there are no tiers".to_owned()
    } else {
        format!("a tier: {}", alternatives(tiers.iter().copied()))
    };
    reader.mismatch(at, &value, &expected)
}

/// `client_ip.from`, before `trusted_hops` is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Connection,
    XForwardedFor,
    Forwarded,
}

fn client_ip(reader: &mut Reader<'_>, at: &At<'_>) -> Option<ClientIp> {
    const MOST_HOPS: u64 = 100;
    let fields = reader.fields(at, &["from", "trusted_hops", "ipv6_prefix"])?;
    let from = fields.optional(reader, "from", From::Connection, |reader, at| {
        reader.choice(
            at,
            &[
                ("connection", From::Connection),
                ("x-forwarded-for", From::XForwardedFor),
                ("forwarded", From::Forwarded),
            ],
        )
    });
    let hops = fields.optional(reader, "trusted_hops", None, |reader, at| {
        let hops = reader.whole(at, "a whole number of proxies", 1, MOST_HOPS)?;
        if from == Some(From::Connection) {
            let message = format!(
                "found {hops} with client_ip.from connection, expected it only with \
                 x-forwarded-for or forwarded: the proxy has established the address"
            );
            reader.error(&at.path, message);
        }
        u32::try_from(hops).ok().map(Some)
    });
    let prefix = fields.optional(
        reader,
        "ipv6_prefix",
        CONNECTION.ipv6_prefix,
        |reader, at| {
            let bits = reader.whole(at, "a whole number of bits", 1, 128)?;
            u8::try_from(bits).ok()
        },
    );
    let (from, hops) = (from?, hops?);
    let mut hops_of = |header: &str| {
        hops.unwrap_or_else(|| {
            let own = match header {
                "forwarded" => "proxies such as Envoy add none of their own",
                _ => "the proxy's own entry counts",
            };
            let message = format!(
                "found {header} without trusted_hops, taken as 1: the last entry. Expected the \
                 place of the client's entry, counted from the right; {own}"
            );
            reader.warn(&at.path, message);
            1
        })
    };
    Some(ClientIp {
        from: match from {
            From::Connection => ClientIpFrom::Connection,
            From::XForwardedFor => ClientIpFrom::XForwardedFor(hops_of("x-forwarded-for")),
            From::Forwarded => ClientIpFrom::Forwarded(hops_of("forwarded")),
        },
        ipv6_prefix: prefix?,
    })
}
