//! Everything an operator may write: the one place where a Tollgate configuration is read and checked.
//!
//! [`Config::parse`] takes the bytes a proxy hands over and gives either a configuration that can
//! work or every error it found, each with the path of the field it is about. It must not know
//! about requests, state or the proxy.

mod error;
mod headers;
mod identity;
mod limit;
mod nearest;
pub mod path;
mod penalty;
mod quote;
mod read;
mod reader;
mod route;
mod router;
mod share;
mod store;
mod substitute;
mod throttle;
mod tier;
mod tree;
mod units;

pub use error::{ConfigError, ConfigErrors};
pub use headers::{Dialect, Headers, Problem};
pub use identity::{ClientIp, ClientIpFrom, IdSource, Identity, Source};
pub use limit::Limit;
pub use penalty::{BoxMode, PenaltyBox};
pub use route::{
    Cost, IdempotencyKey, Lease, Limiter, Lock, LockBy, OnAbort, OnStoreFailure, Route, RouteId,
    WhenRange,
};
pub use router::Router;
pub use share::Share;
pub use store::{Breaker, Front, Redis, Secret, StoreKind, Topology};
pub use throttle::{Stuffing, SubjectSource, Throttle, ThrottleBy, ThrottleId};
pub use tier::{Penalty, Quota, Slots, Tier, TierId};
pub use units::{Bytes, Millis, Points, Seconds};

/// Whether verdicts are carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Refusals are sent to the client.
    #[default]
    Enforce,
    /// Everything is decided, counted and logged; nothing is enforced.
    Shadow,
}

/// Where state lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    /// Which store decides.
    pub kind: StoreKind,
    /// Bytes of the proxy's shared memory that local state may take, 16 MiB by default.
    pub memory: Bytes,
}

/// A configuration without contradictions.
#[derive(Debug, Clone)]
pub struct Config {
    /// Mode of every route that has none of its own.
    pub mode: Mode,
    /// Where state lives.
    pub store: Store,
    /// Who is counted.
    pub identity: Identity,
    /// Limit of every request that is not exempt, by client address; 1 point a request.
    pub ip_limit: Option<Limit>,
    /// Limit of requests with no tenant or no key, by client address.
    pub anonymous: Limit,
    /// Penalty terms of anonymous requests: the default of tiers.
    pub anonymous_penalty: Penalty,
    /// Paths that pass untouched (no methods: any).
    pub exempt: Router,
    /// All tiers; a [`TierId`] indexes this list.
    pub tiers: Vec<Tier>,
    /// How the penalty box works.
    pub penalty_box: PenaltyBox,
    /// All routes in their order, then the route `default`; a [`RouteId`] indexes this list.
    pub routes: Vec<Route>,
    /// Finds the first route of a method and path.
    pub router: Router,
    /// Throttles of failed credentials, at most 32; a [`ThrottleId`] indexes this list.
    pub auth_throttles: Vec<Throttle>,
    /// What from one address is taken for credential stuffing, and bans it.
    pub stuffing: Option<Stuffing>,
    /// Share of each limit that the degraded limiter grants, 0.25 by default.
    pub degraded_share: Share,
    /// Which rate limit headers are sent.
    pub headers: Headers,
    /// How problem documents are named.
    pub problem: Problem,
    /// Settings that work but are probably not meant, each with its path.
    pub warnings: Vec<ConfigError>,
}

impl Config {
    /// Reads a configuration: JSON text, or the bytes of a `google.protobuf.Struct` (which is how
    /// Envoy hands over native YAML). No bytes at all are the empty object, as an empty Struct has none.
    ///
    /// `env` looks up an environment variable for `${NAME:-default}`.
    ///
    /// # Errors
    /// Every error found, in the order of the reference, what the operator names by name: the
    /// same list however the document was handed over.
    pub fn parse(bytes: &[u8], env: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigErrors> {
        read::config(bytes, env)
    }

    /// Reads a configuration from any self-describing format, such as YAML.
    ///
    /// # Errors
    /// As [`Config::parse`]; what the format itself refuses is one error without a path.
    pub fn deserialize<'de, D: serde::Deserializer<'de>>(
        deserializer: D,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigErrors> {
        match <tree::Node as serde::Deserialize>::deserialize(deserializer) {
            Ok(node) => read::document(node, env),
            Err(error) => Err(read::whole_document(error.to_string())),
        }
    }

    /// The route of a request: `path` is already normalised by [`path::normalize`].
    #[must_use]
    pub fn route(&self, method: &[u8], path: &[u8]) -> (RouteId, Option<&Route>) {
        let id = self
            .router
            .find(method, path)
            .unwrap_or(RouteId(self.routes.len().saturating_sub(1)));
        (id, self.routes.get(id.0))
    }

    /// The tier behind an id.
    #[must_use]
    pub fn tier(&self, id: TierId) -> Option<&Tier> {
        self.tiers.get(id.0)
    }
}

#[cfg(test)]
mod tests;
