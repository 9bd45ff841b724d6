//! Problem documents (RFC 9457). They name no key, no store and no other tenant.

use std::borrow::Cow;

use serde::Serialize;
use tollgate_config::{Limit, Millis};

use super::Asker;
use super::wait::{RetryAfter, rfc3339};
use crate::limit::penalty::Lockout;
use crate::metrics::tier_name;
use crate::plan::TierLabel;
use crate::request::Request;
use crate::verdict::{Policy, Scope, Throttled};

/// Longest request id that is repeated, in bytes.
const LONGEST_ID: usize = 128;
/// Longest path that is repeated, in bytes.
const LONGEST_PATH: usize = 1024;

/// A problem document.
#[derive(Debug, Default, Serialize)]
pub struct Document {
    /// A URI reference that names the kind of problem.
    pub r#type: String,
    /// The kind of problem, for people.
    pub title: &'static str,
    /// The status of the answer.
    pub status: u16,
    /// What happened, for people.
    pub detail: String,
    /// The path of the request.
    pub instance: String,
    /// The id of the request.
    pub request_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retry_after_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) recommended_backoff: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) quota_tier: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) penalty_strikes_remaining: Option<u32>,
    #[serde(rename = "violated-policies", skip_serializing_if = "Vec::is_empty")]
    pub(super) violated_policies: Vec<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) penalty_level: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lockout_ends_at: Option<String>,
}

impl Document {
    /// A document that says just this.
    #[must_use]
    pub fn of(detail: String) -> Self {
        Self {
            detail,
            ..Self::default()
        }
    }

    /// With the wait its client is told.
    #[must_use]
    pub fn with_retry(self, retry: Option<RetryAfter>) -> Self {
        Self {
            retry_after_seconds: retry.map(RetryAfter::seconds),
            recommended_backoff: retry.map(|_| "exponential_with_full_jitter"),
            ..self
        }
    }

    /// As JSON.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        // Text, numbers and lists of text: this cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// The document of a refusal for lack of tokens.
#[must_use]
pub fn throttled(asker: &Asker<'_>, throttled: &Throttled, retry: RetryAfter) -> Document {
    let tier = tier_name(&asker.rules.config, asker.plan.tier);
    let described = throttled.standings.described();
    let quota = described.map_or_else(String::new, |standing| {
        let limit = standing.meter.limit();
        let whose = match (standing.policy, asker.plan.tier) {
            (Policy::Ip, _) => "requests from this address".to_owned(),
            (_, TierLabel::Tier(_)) => format!("tier '{tier}'"),
            _ => "anonymous requests from this address".to_owned(),
        };
        let share = match standing.policy {
            Policy::Key => " for each key",
            Policy::Tenant => " for all keys together",
            Policy::Ip | Policy::Anonymous => "",
        };
        let price = match standing.policy {
            Policy::Ip => "Every request costs 1 point".to_owned(),
            _ => price(asker),
        };
        format!(
            "Quota for {whose} exhausted ({} per {}{share}). {price}. Capacity refills at {}; ",
            count(limit.points.0, "point"),
            count(limit.per.0, "second"),
            refill(limit),
        )
    });
    let ip_only = throttled.strikes_left.is_none();
    Document {
        quota_tier: (!ip_only).then(|| tier.to_owned()),
        penalty_strikes_remaining: throttled.strikes_left,
        violated_policies: throttled
            .standings
            .iter()
            .filter(|s| s.wait.0 > 0)
            .map(|s| s.policy.name().into())
            .collect(),
        ..Document::of(format!(
            "{quota}retry in {}.",
            count(retry.seconds(), "second")
        ))
    }
}

/// The detail of a refusal for which nobody could tell whether the request was within its limits.
#[must_use]
pub fn unavailable(asker: &Asker<'_>, retry: RetryAfter) -> String {
    format!(
        "Limits cannot be checked at the moment, and route '{}' takes no request unchecked; retry in {}.",
        route_name(asker),
        count(retry.seconds(), "second")
    )
}

/// The document of a refusal because of the penalty box.
#[must_use]
pub fn boxed(scope: Scope, lockout: &Lockout) -> Document {
    let (whom, more) = match scope {
        Scope::Key => ("This API key is", ""),
        // Whoever is told need not know which of the two it was.
        Scope::Ip => (
            "Anonymous requests from this address are",
            ", or too many attempts failed",
        ),
        Scope::Subject => return auth_lockout(lockout),
    };
    let ends_at = rfc3339(lockout.until);
    locked_out(
        lockout,
        format!(
            "{whom} in the penalty box until {ends_at}: too many requests were sent while a whole bucket of retries was promised already{more}. Until then every request is refused."
        ),
    )
}

/// The document of a refusal after failed attempts at credentials: the same whoever is locked out, and whether there
/// is such a subject or not.
#[must_use]
pub fn auth_lockout(lockout: &Lockout) -> Document {
    let ends_at = rfc3339(lockout.until);
    locked_out(
        lockout,
        format!(
            "Too many attempts failed. Until {ends_at} every attempt is refused, whatever credentials it presents."
        ),
    )
}

fn locked_out(lockout: &Lockout, detail: String) -> Document {
    Document {
        penalty_level: Some(lockout.level),
        lockout_ends_at: Some(rfc3339(lockout.until)),
        ..Document::of(detail)
    }
}

/// The name of the request's route.
#[must_use]
pub fn route_name<'a>(asker: &'a Asker<'_>) -> &'a str {
    let route = asker.rules.config.routes.get(asker.plan.route.0);
    route.map_or("default", |r| r.name.as_str())
}

/// What a request to the route costs; the sentence goes on.
pub(super) fn price(asker: &Asker<'_>) -> String {
    let route = route_name(asker);
    let cost = count(asker.plan.cost(), "point");
    format!("A request to route '{route}' costs {cost}")
}

/// `1 second`, `2 seconds`.
pub(super) fn count(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// A length of time, in seconds where they are whole.
pub(super) fn period(length: Millis) -> String {
    if length.0.is_multiple_of(1000) {
        count(length.0 / 1000, "second")
    } else {
        count(length.0, "millisecond")
    }
}

/// `50 points/second`, or `1 point every 6 seconds` for a slow one.
fn refill(limit: &Limit) -> String {
    let (points, per) = (limit.points.0 as f64, limit.per.0 as f64);
    if limit.points.0 >= limit.per.0 {
        let rate = decimal(points / per);
        let plural = if rate == "1" { "" } else { "s" };
        format!("{rate} point{plural}/second")
    } else {
        format!("1 point every {} seconds", decimal(per / points))
    }
}

/// At most two decimals, none where they say nothing.
fn decimal(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The path of a request as a URI reference: what may not stand in one is escaped, and slashes at
/// its start are one, since two would name a host (RFC 3986, section 4.2).
#[must_use]
pub fn instance(path: &[u8]) -> String {
    let doubled = path.windows(2).take_while(|two| *two == b"//").count();
    let mut rest = path.get(doubled..).unwrap_or_default();
    let most = rest.len().saturating_sub(LONGEST_PATH);
    let mut out = String::new();
    while rest.len() > most {
        rest = match rest {
            [b'%', high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                out.extend(['%', char::from(*high), char::from(*low)]);
                rest
            }
            [byte, rest @ ..] => {
                match byte {
                    b'!' | b'$' | b'&'..=b';' | b'=' | b'@'..=b'Z' | b'_' | b'a'..=b'z' | b'~' => {
                        out.push(char::from(*byte));
                    }
                    other => out.push_str(&format!("%{other:02X}")),
                }
                rest
            }
            [] => break,
        };
    }
    out
}

/// The id the proxy gave the request, or one made here where there is none that can be repeated.
#[must_use]
pub fn request_id(request: &Request, nonce: u64) -> String {
    let given = request.first("x-request-id");
    let plain = given.iter().all(u8::is_ascii_graphic);
    match std::str::from_utf8(given) {
        Ok(id) if plain && (1..=LONGEST_ID).contains(&id.len()) => id.to_owned(),
        _ => format!("req_{nonce:016x}"),
    }
}

#[cfg(test)]
mod tests;
