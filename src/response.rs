//! A response as the proxy hands it over: its fields are read one by one, and only where they matter, since each
//! costs a call of the host.

use std::fmt;

/// What gRPC's codes are as statuses (as in google.rpc.Code), as far as they say who may pass.
const GRPC: [(&[u8], u16); 3] = [(b"0", 200), (b"7", 403), (b"16", 401)];

/// How Envoy's details of a response begin where what the client sent was no request to its end: its codecs', and the
/// time that a request may take to come.
const BROKEN_OFF: [&[u8]; 4] = [b"http1.", b"http2.", b"http3.", b"request_overall_timeout"];

/// Of what went wrong otherwise, or cannot be read.
const OTHER: u16 = 500;

/// Where the proxy's own word of a response is not read.
const UNTOLD: &dyn Fn() -> Option<Vec<u8>> = &|| None;

/// The head of a response, or its trailers.
#[derive(Clone, Copy)]
pub struct Response<'a> {
    field: &'a dyn Fn(&str) -> Option<Vec<u8>>,
    details: &'a dyn Fn() -> Option<Vec<u8>>,
}

impl fmt::Debug for Response<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Response(..)")
    }
}

/// What a response says of what was tried with its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// It was answered with this status.
    Status(u16),
    /// The trailers will tell.
    Later,
    /// The proxy answered, in place of the upstream, because the client broke off its own request.
    BrokenOff,
}

impl<'a> Response<'a> {
    /// The response whose fields are read by their names.
    #[must_use]
    pub const fn new(read: &'a dyn Fn(&str) -> Option<Vec<u8>>) -> Self {
        Self {
            field: read,
            details: UNTOLD,
        }
    }

    /// The same, of which the proxy says in these details why it is as it is (Envoy's details of the response code).
    #[must_use]
    pub const fn with_details(self, details: &'a dyn Fn() -> Option<Vec<u8>>) -> Self {
        Self { details, ..self }
    }

    /// Its status, of a head.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        let status = (self.field)(":status")?;
        std::str::from_utf8(&status).ok()?.parse().ok()
    }

    /// What a head says. A gRPC response is 200 whatever came of it; proxies write their own refusals of gRPC
    /// requests so, too.
    #[must_use]
    pub fn said(&self) -> Said {
        let status = self.status().unwrap_or(OTHER);
        if self.is_broken_off(status) {
            return Said::BrokenOff;
        }
        if status != 200 || !self.is_grpc() {
            return Said::Status(status);
        }
        match (self.field)("grpc-status") {
            Some(code) => Said::Status(of_grpc(&code)),
            None => Said::Later,
        }
    }

    /// What the trailers of a gRPC response say.
    #[must_use]
    pub fn said_at_last(&self) -> u16 {
        (self.field)("grpc-status").map_or(OTHER, |code| of_grpc(&code))
    }

    /// Whether the client went on with its request as nobody may, or not at all: that ends it before the upstream has
    /// answered, as hanging up does. Envoy answers gRPC with 200.
    fn is_broken_off(&self, status: u16) -> bool {
        if !(matches!(status, 400..=499) || (status == 200 && self.is_grpc())) {
            return false;
        }
        let details = (self.details)().unwrap_or_default();
        BROKEN_OFF.iter().any(|by| details.starts_with(by))
            // Of a request that is complete it says that the upstream took too long.
            || (status == 408 && details.starts_with(b"stream_idle_timeout"))
    }

    fn is_grpc(&self) -> bool {
        let media = (self.field)("content-type").unwrap_or_default();
        media.to_ascii_lowercase().starts_with(b"application/grpc")
    }
}

fn of_grpc(code: &[u8]) -> u16 {
    let code = code.trim_ascii();
    let known = GRPC.iter().find(|(of, _)| *of == code);
    known.map_or(OTHER, |(_, status)| *status)
}

#[cfg(test)]
mod tests;
