//! Rate limit header fields in every dialect.

use std::fmt::Write as _;

use tollgate_config::Dialect;

use super::Field;
use crate::verdict::{Standing, Standings};

/// The fields that tell a client where it stands; none if its request met no bucket.
#[must_use]
pub fn rate_limit(dialect: Dialect, standings: &Standings) -> Vec<Field> {
    let Some(one) = standings.described() else {
        return Vec::new();
    };
    match dialect {
        Dialect::Draft03 => {
            let limit = one.meter.limit();
            let mut fields = vec![(
                "ratelimit-policy",
                format!("{};w={}", limit.points.0, limit.per.0),
            )];
            fields.extend(three(
                one,
                ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"],
            ));
            fields
        }
        Dialect::Draft11 => structured(standings).into(),
        Dialect::Both => {
            let mut fields = Vec::from(structured(standings));
            fields.extend(three(
                one,
                ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"],
            ));
            fields
        }
        Dialect::XRateLimit => three(
            one,
            [
                "x-ratelimit-limit",
                "x-ratelimit-remaining",
                "x-ratelimit-reset",
            ],
        )
        .into(),
        Dialect::None => Vec::new(),
    }
}

fn three(one: &Standing, [limit, remaining, reset]: [&'static str; 3]) -> [Field; 3] {
    [
        (limit, one.meter.limit().points.0.to_string()),
        (remaining, one.remaining.to_string()),
        (reset, one.reset.ceil_secs().to_string()),
    ]
}

/// draft-ietf-httpapi-ratelimit-headers-11: two Lists of Strings with integer parameters (RFC 9651).
fn structured(standings: &Standings) -> [Field; 2] {
    let (mut policy, mut state) = (String::new(), String::new());
    for standing in standings.iter() {
        let separator = if policy.is_empty() { "" } else { ", " };
        let limit = standing.meter.limit();
        let name = standing.policy.name();
        // Writing to a String cannot fail.
        let _ = write!(
            policy,
            "{separator}\"{name}\";q={};w={}",
            limit.points.0, limit.per.0
        );
        let (remaining, reset) = (standing.remaining, standing.reset.ceil_secs());
        let _ = write!(state, "{separator}\"{name}\";r={remaining};t={reset}");
    }
    [("ratelimit-policy", policy), ("ratelimit", state)]
}

#[cfg(test)]
mod tests;
