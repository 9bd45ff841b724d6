//! Calls the filter makes to other services, and what may come of them.

use std::time::Duration;

use crate::Headers;

/// A call the filter dispatched and waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Names the call within its VM.
    pub token: u32,
    /// The root context that owns it.
    pub root: u32,
    /// The upstream: a cluster's name in Envoy.
    pub upstream: Vec<u8>,
    /// `:method`, `:path`, `:authority` and the rest.
    pub headers: Headers,
    /// The body; empty when there is none.
    pub body: Vec<u8>,
    /// How long the host waits; `None` for ever.
    pub timeout: Option<Duration>,
    /// When it was dispatched, in nanoseconds since the epoch.
    pub sent_at: u64,
}

impl Call {
    /// `:path` as text.
    pub fn path(&self) -> String {
        self.headers.text(":path").unwrap_or_default()
    }

    /// The body as text; what is not UTF-8 is replaced by U+FFFD.
    pub fn body_text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// What a service answered to a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// With `:status`; empty for a call that failed without an answer.
    pub headers: Headers,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// An answer with this status and body.
    pub fn new(status: u16, body: impl AsRef<[u8]>) -> Self {
        Self {
            headers: Headers::new().with(":status", status.to_string()),
            body: body.as_ref().to_vec(),
        }
    }

    /// The answer with one more header.
    #[must_use]
    pub fn header(mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        self.headers.push(name, value);
        self
    }
}

/// What becomes of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The service answered.
    Answered(Answer),
    /// Nobody listens: the host answers in the service's place.
    Refused,
    /// The timeout passed: the host answers in the service's place.
    TimedOut,
    /// The connection broke: an answer without headers.
    Reset,
    /// Nothing yet: the call stays in [`Vm::calls`](crate::Vm::calls).
    Pending,
}

impl From<Answer> for Outcome {
    fn from(answer: Answer) -> Self {
        Self::Answered(answer)
    }
}
