//! What an answer may look like, whoever asked and whatever was decided.

use serde_json::Value as Json;

/// An answer, and what shapes it.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(&'a str, &'a [u8])>,
    pub(crate) body: &'a [u8],
    pub(crate) dialect: &'a str,
    pub(crate) type_base: &'a str,
    /// From how many seconds on `Retry-After` is a date.
    pub(crate) date_from: Option<u64>,
    /// The request's method is HEAD: there is no body.
    pub(crate) head: bool,
    /// The request is one of gRPC.
    pub(crate) grpc: bool,
}

/// A kind of refusal.
#[derive(Debug, Clone, Copy)]
struct Kind {
    /// The last part of its type.
    name: &'static str,
    status: u16,
    grpc: &'static str,
    /// `X-Penalty-Box-Status`.
    box_status: Option<&'static str>,
    verdict: &'static str,
    /// It tells when to come back.
    waits: bool,
    /// It tells where the client stands.
    limits: bool,
    /// It names policies of a tier.
    violates: bool,
}

const THROTTLED: Kind = Kind {
    name: "rate-limit-exceeded",
    status: 429,
    grpc: "8",
    box_status: Some("Warning"),
    verdict: "throttled",
    waits: true,
    limits: true,
    violates: true,
};

/// A store that is too busy to decide knows no limits.
const BUSY: Kind = Kind {
    limits: false,
    violates: false,
    ..THROTTLED
};

const LEASE: Kind = Kind {
    name: "concurrency-limit-exceeded",
    box_status: None,
    verdict: "lease",
    ..THROTTLED
};

const LOCK: Kind = Kind {
    name: "resource-locked",
    status: 409,
    grpc: "10",
    verdict: "lock",
    violates: false,
    ..LEASE
};

const INVALID: Kind = Kind {
    name: "invalid-request",
    status: 400,
    grpc: "9",
    box_status: None,
    verdict: "invalid",
    waits: false,
    limits: false,
    violates: false,
};

const KINDS: [Kind; 10] = [
    THROTTLED,
    BUSY,
    Kind {
        name: "penalty-box-active",
        box_status: Some("Active-Lockout"),
        verdict: "boxed",
        ..BUSY
    },
    LEASE,
    Kind {
        name: "quota-exceeded",
        verdict: "quota",
        ..LEASE
    },
    LOCK,
    Kind {
        name: "idempotency-key-in-use",
        verdict: "idempotency",
        limits: false,
        ..LOCK
    },
    Kind {
        name: "idempotency-key-required",
        verdict: "idempotency",
        ..INVALID
    },
    INVALID,
    Kind {
        status: 413,
        ..INVALID
    },
];

type Checked<T> = Result<T, String>;

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Checked<()> {
    if holds { Ok(()) } else { Err(what()) }
}

impl<'a> Answer<'a> {
    /// Checks a refusal; returns the verdicts it may stand for.
    pub(crate) fn check_refusal(&self) -> Checked<Vec<&'static str>> {
        let kinds = if self.grpc {
            self.check_grpc()?
        } else {
            self.check_http()?
        };
        ensure(self.one("cache-control")? == Some("no-store"), || {
            "it may be cached".into()
        })?;
        let boxed = self.one("x-penalty-box-status")?;
        let retry = self.one("retry-after")?;
        // Without a dialect nothing tells where the client stands.
        let knows = self.has_limits()?;
        let tells = |kind: &Kind| kind.limits && !self.limit_names().is_empty();
        let soon = |kind: &Kind| kind.limits || kind.verdict != "throttled" || retry == Some("1");
        let fits = |kind: &&Kind| {
            kind.box_status == boxed
                && soon(kind)
                && kind.waits == retry.is_some()
                && tells(kind) == knows
        };
        let kinds: Vec<Kind> = kinds.iter().filter(fits).copied().collect();
        ensure(!kinds.is_empty(), || {
            format!("X-Penalty-Box-Status is {boxed:?}, Retry-After {retry:?}, limits: {knows}")
        })?;
        if knows {
            self.check_limits()?;
        }
        if !self.grpc && !self.head {
            self.check_document(&kinds, retry)?;
        }
        Ok(kinds.iter().map(|kind| kind.verdict).collect())
    }

    /// Checks the upstream's answer that went by; `limited` says whether the request met a bucket.
    pub(crate) fn check_passed(&self, limited: bool) -> Checked<()> {
        ensure(self.status == 200, || format!("status {}", self.status))?;
        for name in ["x-penalty-box-status", "retry-after", "cache-control"] {
            ensure(self.one(name)?.is_none(), || {
                format!("{name} on an answer of the upstream")
            })?;
        }
        if limited { self.check_limits() } else { Ok(()) }
    }

    /// Whether it says where the client stands, in this dialect.
    pub(crate) fn has_limits(&self) -> Checked<bool> {
        for name in self.limit_names() {
            if self.one(name)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn limit_names(&self) -> &'static [&'static str] {
        match self.dialect {
            "draft-03" => &[
                "ratelimit-policy",
                "ratelimit-limit",
                "ratelimit-remaining",
                "ratelimit-reset",
            ],
            "draft-11" => &["ratelimit-policy", "ratelimit"],
            "both" => &[
                "ratelimit-policy",
                "ratelimit",
                "ratelimit-limit",
                "ratelimit-remaining",
                "ratelimit-reset",
            ],
            "x-ratelimit" => &[
                "x-ratelimit-limit",
                "x-ratelimit-remaining",
                "x-ratelimit-reset",
            ],
            _ => &[],
        }
    }

    /// The one value of a field that the filter sets: visible ASCII.
    fn one(&self, name: &str) -> Checked<Option<&'a str>> {
        let mut values = self.fields.iter().filter(|(n, _)| *n == name);
        let Some((_, value)) = values.next() else {
            return Ok(None);
        };
        ensure(values.next().is_none(), || format!("{name} is there twice"))?;
        let visible = value.iter().all(|byte| matches!(byte, b' '..=b'~'));
        ensure(visible && !value.is_empty(), || {
            format!("{name}: {}", value.escape_ascii())
        })?;
        Ok(std::str::from_utf8(value).ok())
    }

    fn number(&self, name: &str) -> Checked<u64> {
        let value = self.one(name)?.unwrap_or_default();
        value.parse().map_err(|_| format!("{name} is {value:?}"))
    }

    fn check_limits(&self) -> Checked<()> {
        for name in self.limit_names() {
            ensure(self.one(name)?.is_some(), || format!("{name} is missing"))?;
        }
        let three = match self.dialect {
            "draft-03" | "both" => Some("ratelimit"),
            "x-ratelimit" => Some("x-ratelimit"),
            _ => None,
        };
        if let Some(prefix) = three {
            let [limit, remaining, _] =
                ["limit", "remaining", "reset"].map(|n| self.number(&format!("{prefix}-{n}")));
            ensure(remaining? <= limit?, || {
                "more remains than the limit".into()
            })?;
            self.number(&format!("{prefix}-reset"))?;
        }
        match self.dialect {
            "draft-03" => {
                let policy = self.one("ratelimit-policy")?.unwrap_or_default();
                let (points, per) = policy.split_once(";w=").unwrap_or_default();
                let limit = self.number("ratelimit-limit")?.to_string();
                let good = points == limit && per.parse::<u64>().is_ok();
                ensure(good, || format!("the policy is {policy}"))
            }
            "draft-11" | "both" => {
                let quotas = self.items("ratelimit-policy", ["q", "w"])?;
                let states = self.items("ratelimit", ["r", "t"])?;
                let alike = quotas
                    .iter()
                    .map(|(name, ..)| name)
                    .eq(states.iter().map(|(name, ..)| name));
                let within = quotas.iter().zip(&states).all(|(q, r)| r.1 <= q.1);
                ensure(alike && within, || format!("{quotas:?} and {states:?}"))
            }
            _ => Ok(()),
        }
    }

    /// `"name";a=1;b=2, ...`
    fn items(&self, name: &str, [a, b]: [&str; 2]) -> Checked<Vec<(&'a str, u64, u64)>> {
        let value = self.one(name)?.unwrap_or_default();
        let item = |text: &'a str| {
            let (name, rest) = text.strip_prefix('"')?.split_once("\";")?;
            let (first, second) = rest.split_once(';')?;
            let number = |text: &str, key| text.strip_prefix(key)?.strip_prefix('=')?.parse().ok();
            let known = ["key", "tenant", "ip", "anonymous"].contains(&name);
            known.then_some((name, number(first, a)?, number(second, b)?))
        };
        let items: Option<Vec<_>> = value.split(", ").map(item).collect();
        items.ok_or_else(|| format!("{name} is {value}"))
    }

    fn check_grpc(&self) -> Checked<Vec<Kind>> {
        let code = self.one("grpc-status")?.unwrap_or_default();
        let fits = |kind: &&Kind| kind.grpc == code;
        let kinds: Vec<Kind> = KINDS.iter().filter(fits).copied().collect();
        let good = self.status == 200 && !kinds.is_empty() && self.body.is_empty();
        ensure(good, || {
            format!("status {}, grpc-status {code:?}", self.status)
        })?;
        if !self.head {
            ensure(self.one("grpc-message")?.is_some(), || {
                "no grpc-message".into()
            })?;
        }
        Ok(kinds)
    }

    fn check_http(&self) -> Checked<Vec<Kind>> {
        let kind = self.one("content-type")?;
        ensure(kind == Some("application/problem+json"), || {
            format!("content-type {kind:?}")
        })?;
        let fits = |kind: &&Kind| kind.status == self.status;
        let kinds: Vec<Kind> = KINDS.iter().filter(fits).copied().collect();
        ensure(!kinds.is_empty(), || format!("status {}", self.status))?;
        let good = self.head == self.body.is_empty();
        ensure(good, || {
            "a body for HEAD, or none for another method".into()
        })?;
        Ok(kinds)
    }

    fn check_document(&self, kinds: &[Kind], retry: Option<&str>) -> Checked<()> {
        let body: Json = serde_json::from_slice(self.body).map_err(|error| error.to_string())?;
        let fail = |what: &str| Err(format!("{what}: {body}"));
        for name in ["type", "title", "detail", "instance", "request_id"] {
            let text = body[name].as_str().unwrap_or_default();
            let empty = text.is_empty() && name != "instance";
            if empty || !text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
                return fail(name);
            }
        }
        let name = body["type"]
            .as_str()
            .and_then(|t| t.strip_prefix(self.type_base));
        let kinds: Vec<&Kind> = kinds.iter().filter(|k| name == Some(k.name)).collect();
        if kinds.is_empty() {
            return fail("the type does not fit");
        }
        if body["status"] != self.status {
            return fail("status");
        }
        if self.body.windows(11).any(|part| part == b"secret-key-") {
            return fail("it names a key");
        }
        let seconds = body["retry_after_seconds"].as_u64();
        let told = match (retry, self.date_from) {
            (None, _) => None,
            (Some(date), Some(from)) if date.ends_with(" GMT") => seconds.filter(|s| *s >= from),
            (Some(number), _) => number.parse().ok().filter(|s| *s >= 1),
        };
        if seconds != told || retry.is_some() != seconds.is_some() {
            return fail("retry_after_seconds");
        }
        let backoff = retry.map(|_| "exponential_with_full_jitter");
        if body["recommended_backoff"].as_str() != backoff {
            return fail("recommended_backoff");
        }
        let violated = body["violated-policies"].as_array().map_or(0, Vec::len);
        if !kinds.iter().any(|kind| kind.violates == (violated > 0)) {
            return fail("violated-policies");
        }
        let level = body["penalty_level"].as_u64();
        let ends = body["lockout_ends_at"]
            .as_str()
            .is_some_and(|at| at.ends_with('Z'));
        let boxed = kinds.iter().any(|kind| kind.verdict == "boxed");
        if level.is_some_and(|level| (1..=3).contains(&level)) != boxed || ends != boxed {
            return fail("penalty_level, lockout_ends_at");
        }
        Ok(())
    }
}
