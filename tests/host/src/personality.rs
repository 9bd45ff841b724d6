//! Everything in which one host differs from another.
//!
//! The rest of the crate asks here and knows no host by name. A second host is one more variant and
//! one more file beside `personality/envoy.rs`.

use crate::abi::Status;
use crate::process::Options;
use crate::state::State;
use crate::stream::Stream;
use crate::{Answer, Headers, LocalReply, Message, Upstream};

mod envoy;

pub use envoy::EnvoyOptions;

/// Which host to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Personality {
    /// Envoy 1.40 with V8.
    Envoy(EnvoyOptions),
}

impl Default for Personality {
    fn default() -> Self {
        Self::Envoy(EnvoyOptions::default())
    }
}

/// What is called when a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rite {
    Log,
    Done,
    Delete,
}

impl Personality {
    /// Whether `set_effective_context` does anything.
    pub(crate) fn effective_contexts(self) -> bool {
        match self {
            Self::Envoy(_) => true,
        }
    }

    /// Whether the guest is shown the body of a message whose headers it holds.
    pub(crate) fn body_while_headers_are_held(self) -> bool {
        match self {
            Self::Envoy(options) => options.allow_on_headers_stop_iteration,
        }
    }

    /// The most bytes of body that can be held.
    pub(crate) fn buffer_limit(self) -> usize {
        match self {
            Self::Envoy(options) => options.buffer_limit,
        }
    }

    /// In which order a stream's last callbacks come.
    pub(crate) fn last_rites(self) -> [Rite; 3] {
        match self {
            Self::Envoy(_) => [Rite::Log, Rite::Done, Rite::Delete],
        }
    }

    /// What becomes of a reply of the filter before it is shown to the filter as a response.
    pub(crate) fn reply(self, request: &Headers, reply: &LocalReply) -> Message {
        match self {
            Self::Envoy(_) => envoy::reply(request, reply),
        }
    }

    /// Whether a call may leave.
    pub(crate) fn dispatch(
        self,
        upstream: Option<Upstream>,
        headers: &Headers,
        timeout_millis: u32,
    ) -> Result<(), Status> {
        match self {
            Self::Envoy(_) => envoy::dispatch(upstream, headers, timeout_millis),
        }
    }

    /// The answer the host makes up when nobody listens.
    pub(crate) fn refused(self) -> Answer {
        match self {
            Self::Envoy(_) => envoy::refused(),
        }
    }

    /// The answer the host makes up when the timeout has passed.
    pub(crate) fn timed_out(self) -> Answer {
        match self {
            Self::Envoy(_) => envoy::timed_out(),
        }
    }

    /// The header map of that number, for reading; `None` reads as an empty map, or as a bad
    /// argument where one value is asked for.
    pub(crate) fn readable(self, state: &State, map: u32) -> Option<&Headers> {
        match self {
            Self::Envoy(_) => envoy::readable(state, map),
        }
    }

    /// The header map of that number, for writing; `None` is a bad argument.
    pub(crate) fn writable(self, state: &mut State, map: u32) -> Option<&mut Headers> {
        match self {
            Self::Envoy(_) => envoy::writable(state, map),
        }
    }

    /// Appends a property to `out`; false if there is none at that path.
    pub(crate) fn property(
        self,
        options: &Options,
        stream: Option<(&Stream, bool)>,
        path: &[u8],
        out: &mut Vec<u8>,
    ) -> bool {
        match self {
            Self::Envoy(_) => envoy::property(options, stream, path, out),
        }
    }
}
