//! `store`: where state lives, and how it is reached.

use std::fmt;

use crate::units::Millis;

/// Which store decides.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum StoreKind {
    /// The proxy's shared memory.
    #[default]
    Local,
    /// Redis, behind an HTTP front.
    Redis(Redis),
}

/// A Redis behind an HTTP front.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redis {
    /// The front: an Envoy cluster's name; on Kong `host:port`. Not empty, no whitespace or
    /// control character.
    pub upstream: String,
    /// The front's way to talk.
    pub dialect: Front,
    /// Whether a script call may span hash tags.
    pub topology: Topology,
    /// Past it the store has failed for a request; 20 ms by default, 1 ms to 60 s.
    pub timeout: Millis,
    /// The `authorization` header of every call: 1 to 4,096 bytes of printable ASCII. Never printed.
    pub authorization: Option<Secret>,
    /// Put before every key: at most 64 bytes of printable ASCII without spaces and braces.
    pub key_prefix: String,
    /// When to stop calling.
    pub breaker: Breaker,
}

/// A string that neither `Debug` nor an error shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// How a front is talked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Front {
    /// Webdis: a command in the path of a GET, or in the body of a POST.
    #[default]
    Webdis,
    /// `POST /pipeline` with a JSON array of commands.
    Upstash,
}

/// What is behind the front.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Topology {
    /// One Redis: a script call may touch any keys.
    #[default]
    Standalone,
    /// Redis Cluster: a script call stays under one hash tag.
    Cluster,
}

/// When a failing store is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breaker {
    /// Failures in a row that open it; 5 by default, at least 1.
    pub failures: u32,
    /// How long it stays open before one call probes the store; 2 s by default.
    pub open_for: Millis,
}
