//! Which headers and problem documents clients see.

use crate::units::Millis;

/// The rate limit header fields that are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// `RateLimit-Policy`, `-Limit`, `-Remaining`, `-Reset` of one bucket (draft-ietf-httpapi-ratelimit-headers-03).
    #[default]
    Draft03,
    /// `RateLimit-Policy` and `RateLimit` as structured fields of every bucket (draft 11).
    Draft11,
    /// draft-03's Limit, Remaining and Reset, and draft-11's two.
    Both,
    /// `X-RateLimit-Limit`, `-Remaining`, `-Reset`.
    XRateLimit,
    /// None.
    None,
}

/// Which headers are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headers {
    /// The rate limit header fields.
    pub dialect: Dialect,
    /// Waits of at least this are sent as an HTTP-date in `Retry-After`.
    pub retry_after_date_from: Option<Millis>,
}

/// How problem documents are named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What every problem type starts with; ends in `/`.
    pub type_base: String,
}
