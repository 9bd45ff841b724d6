//! What happens to a request.

use tollgate_config::Millis;

use crate::passes::Parked;
use crate::plan::Facts;
use crate::request::Request;
use crate::response::Response;
use crate::store::Toll;
use crate::verdict::{Boxed, Verdict};

/// What happens to a request.
#[allow(
    clippy::large_enum_variant,
    reason = "made and consumed once, never stored"
)]
pub enum Event<'a> {
    /// Its headers came; and what the request that it continues was let through with, if it does. Facts
    /// tell the body where it is known already: there is none.
    Headers(Request, Facts<'a>, Option<Parked>),
    /// The body came, which was waited for: as a fact.
    Body(Facts<'a>),
    /// Nothing of the body came in time.
    NoBody(Facts<'a>),
    /// The store decided; or the degraded limiter, where that was asked.
    Decided(Verdict, Toll, Millis),
    /// The store told which box is in force.
    Lockout(Option<Boxed>, Millis),
    /// The store failed to answer what it was asked.
    StoreFailed(Millis),
    /// The response's headers came: the upstream's, or a reply's. The time where
    /// [the status is asked for](super::Flow::asks_status).
    ResponseHeaders(Response<'a>, Millis),
    /// The response's trailers came. Told where [they are waited for](super::Flow::awaits_trailers).
    ResponseTrailers(Response<'a>, Millis),
    /// The response came to its end.
    ResponseEnd,
    /// Time went by.
    Tick(Millis),
    /// The stream is over; whether it was the upstream that broke off, where it had begun to respond.
    Done(Broke, Millis),
}

/// Who broke off, where a response is not complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broke {
    /// The client, or nobody knows.
    Client,
    /// The upstream: it is not at work any more.
    Upstream,
}
