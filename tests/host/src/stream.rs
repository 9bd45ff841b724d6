//! One HTTP exchange: what was played, what the guest did to it, and what went on to whom.
//!
//! Data and its small invariants; [`Vm`](crate::Vm) plays it.

use std::collections::BTreeMap;
use std::fmt;

use crate::Headers;
use crate::headers::Escaped;

mod half;
mod played;

pub(crate) use half::{Half, Stop};
pub use played::{Request, Response};

/// The id of a stream, which is the id of its context in the guest.
pub type StreamId = u32;

/// Which way a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// From the client to the upstream.
    Request,
    /// From the upstream, or the filter, to the client.
    Response,
}

/// Whether a message goes on or is held by the filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It goes on.
    Continue,
    /// The filter holds it, or has replied.
    Pause,
}

/// A response the filter sent by itself, as it sent it; what the client gets of it is
/// [`Stream::client`].
#[derive(Clone, PartialEq, Eq)]
pub struct LocalReply {
    /// The HTTP status.
    pub status: u16,
    /// The headers the filter gave, without `:status`.
    pub headers: Headers,
    /// The body.
    pub body: Vec<u8>,
    /// The gRPC status, if the filter gave one.
    pub grpc_status: Option<u32>,
}

impl LocalReply {
    /// The body as text; what is not UTF-8 is replaced by U+FFFD.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl fmt::Debug for LocalReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalReply")
            .field("status", &self.status)
            .field("headers", &self.headers)
            .field("body", &Escaped(&self.body))
            .field("grpc_status", &self.grpc_status)
            .finish()
    }
}

/// A message as its receiver sees it.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// All headers, pseudo-headers included.
    pub headers: Headers,
    /// As much of the body as has gone on.
    pub body: Vec<u8>,
    /// Whether that is all of it.
    pub complete: bool,
}

impl Message {
    /// `:status` as a number.
    pub fn status(&self) -> Option<u16> {
        self.headers.status()
    }

    /// The body as text; what is not UTF-8 is replaced by U+FFFD.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("headers", &self.headers)
            .field("body", &Escaped(&self.body))
            .field("complete", &self.complete)
            .finish()
    }
}

/// One exchange, alive or ended.
#[derive(Debug)]
pub struct Stream {
    pub(crate) root: u32,
    pub(crate) request: Half,
    pub(crate) response: Half,
    pub(crate) properties: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) filter_state: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) reply: Option<LocalReply>,
    pub(crate) ended: bool,
    pub(crate) reset: bool,
}

impl Stream {
    pub(crate) fn new(root: u32, request: Request) -> Self {
        Self {
            root,
            request: Half::new(request.headers, request.chunks, request.complete),
            response: Half::default(),
            properties: request.properties,
            filter_state: BTreeMap::new(),
            reply: None,
            ended: false,
            reset: false,
        }
    }

    pub(crate) fn half(&self, side: Side) -> &Half {
        match side {
            Side::Request => &self.request,
            Side::Response => &self.response,
        }
    }

    pub(crate) fn half_mut(&mut self, side: Side) -> &mut Half {
        match side {
            Side::Request => &mut self.request,
            Side::Response => &mut self.response,
        }
    }

    /// Whether the request is held: `Pause` until it is resumed, and for ever after a reply.
    pub fn action(&self) -> Action {
        self.action_of(Side::Request)
    }

    /// The same for either side.
    pub fn action_of(&self, side: Side) -> Action {
        match self.half(side).stop {
            Stop::Nothing => Action::Continue,
            Stop::Headers | Stop::Everything | Stop::Body => Action::Pause,
        }
    }

    /// The response the filter sent by itself.
    pub fn reply(&self) -> Option<&LocalReply> {
        self.reply.as_ref()
    }

    /// The request as the upstream sees it; `None` if it was not reached.
    pub fn upstream(&self) -> Option<Message> {
        self.request.sent()
    }

    /// The response as the client sees it; `None` if there is none yet.
    pub fn client(&self) -> Option<Message> {
        self.response.sent()
    }

    /// What the filter left in the filter state under that name, without Envoy's `wasm.` before it.
    pub fn filter_state(&self, name: &str) -> Option<&[u8]> {
        self.filter_state.get(name.as_bytes()).map(Vec::as_slice)
    }

    /// All that the filter left in the filter state, by name without Envoy's `wasm.` before it.
    pub fn filter_states(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        self.filter_state.clone()
    }

    /// How often the filter resumed the request.
    pub fn resumed(&self) -> u32 {
        self.request.resumed
    }

    /// Whether the stream is over and its context deleted.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// Whether the stream was reset instead of answered.
    pub fn was_reset(&self) -> bool {
        self.reset
    }
}
