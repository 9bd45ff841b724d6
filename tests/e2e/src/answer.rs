//! What the upstream is told to answer. Owns the description; [`crate::Upstream`] carries it out.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::sync::watch;

use crate::grpc::frame;

/// An answer: status, headers, body, trailers, and when.
#[derive(Debug, Clone)]
pub struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) trailers: Option<HeaderMap>,
    pub(crate) delay: Duration,
    pub(crate) gate: Option<Gate>,
    pub(crate) hang_up: bool,
    /// What follows the body, when its gate is open.
    pub(crate) rest: Option<(Gate, Bytes)>,
}

impl Answer {
    /// This status, at once, with nothing else.
    pub fn status(status: u16) -> Self {
        Self {
            status,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            trailers: None,
            delay: Duration::ZERO,
            gate: None,
            hang_up: false,
            rest: None,
        }
    }

    /// 200 with a small JSON body.
    pub fn ok() -> Self {
        Self::status(200)
            .header("content-type", "application/json")
            .body(r#"{"ok":true}"#)
    }

    /// A gRPC answer: one message, and status OK in the trailers.
    pub fn grpc(message: &[u8]) -> Self {
        Self::status(200)
            .header("content-type", "application/grpc")
            .body(frame(message))
            .trailer("grpc-status", "0")
    }

    /// A gRPC answer without a message, of this status.
    pub fn grpc_status(code: u32) -> Self {
        Self::status(200)
            .header("content-type", "application/grpc")
            .trailer("grpc-status", code.to_string())
    }

    /// No answer: the request is read, and the connection closed.
    pub fn hang_up() -> Self {
        Self {
            hang_up: true,
            ..Self::status(500)
        }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        append(&mut self.headers, name, value.as_ref());
        self
    }

    /// Adds a trailer.
    #[must_use]
    pub fn trailer(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        append(self.trailers.get_or_insert_default(), name, value.as_ref());
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Goes on with this after the body, when the gate is open: headers and body so far are sent at once.
    #[must_use]
    pub fn then_behind(mut self, gate: &Gate, rest: impl Into<Bytes>) -> Self {
        self.rest = Some((gate.clone(), rest.into()));
        self
    }

    /// Answers this much later.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Answers when the gate is open.
    #[must_use]
    pub fn behind(mut self, gate: &Gate) -> Self {
        self.gate = Some(gate.clone());
        self
    }
}

fn append(map: &mut HeaderMap, name: &str, value: &[u8]) {
    let name = HeaderName::from_bytes(name.as_bytes()).expect("a header name");
    map.append(
        name,
        HeaderValue::from_bytes(value).expect("a header value"),
    );
}

/// Holds answers back until a test lets them go, so that "in flight" is not a matter of time.
#[derive(Debug, Clone)]
pub struct Gate(watch::Sender<bool>);

impl Gate {
    /// A closed gate.
    #[must_use]
    pub fn closed() -> Self {
        Self(watch::Sender::new(false))
    }

    /// Lets everything pass that waits, and whatever comes later.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    /// Holds back what comes from now on.
    pub fn close(&self) {
        self.0.send_replace(false);
    }

    pub(crate) async fn pass(&self) {
        // The sender is held by `self`: the wait cannot fail.
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}
