//! What a test plays: requests of clients and responses of the upstream.

use crate::Headers;

/// A client's request.
#[derive(Debug, Clone)]
pub struct Request {
    pub(crate) headers: Headers,
    pub(crate) chunks: Vec<Vec<u8>>,
    pub(crate) complete: bool,
    pub(crate) properties: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Request {
    /// A request without a body, to `api.example`, from 192.0.2.1:40000.
    pub fn new(method: &str, path: impl AsRef<[u8]>) -> Self {
        Self {
            headers: Headers::new()
                .with(":method", method)
                .with(":scheme", "https")
                .with(":authority", "api.example")
                .with(":path", path),
            chunks: Vec::new(),
            complete: true,
            properties: Vec::new(),
        }
        .source("192.0.2.1:40000")
    }

    /// A GET.
    pub fn get(path: impl AsRef<[u8]>) -> Self {
        Self::new("GET", path)
    }

    /// A POST with a body.
    pub fn post(path: impl AsRef<[u8]>, body: impl AsRef<[u8]>) -> Self {
        Self::new("POST", path).body(body)
    }

    /// One more header, even if one of that name exists.
    #[must_use]
    pub fn header(mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        self.headers.push(name, value);
        self
    }

    /// The body so far, in one piece more.
    #[must_use]
    pub fn body(mut self, chunk: impl AsRef<[u8]>) -> Self {
        self.chunks.push(chunk.as_ref().to_vec());
        self
    }

    /// More body will come: see [`Vm::request_body`](crate::Vm::request_body).
    #[must_use]
    pub fn open(mut self) -> Self {
        self.complete = false;
        self
    }

    /// The address the proxy established for the client, as the host's property has it (`ip:port`).
    #[must_use]
    pub fn source(self, address: &str) -> Self {
        self.property(&["source", "address"], address)
    }

    /// A property of the stream; the last one given for a path counts.
    #[must_use]
    pub fn property(mut self, path: &[&str], value: impl AsRef<[u8]>) -> Self {
        let path = path.join("\0").into_bytes();
        self.properties.retain(|(have, _)| *have != path);
        self.properties.push((path, value.as_ref().to_vec()));
        self
    }

    /// The headers, for what the methods above do not do.
    pub fn headers_mut(&mut self) -> &mut Headers {
        &mut self.headers
    }
}

/// The upstream's response.
#[derive(Debug, Clone)]
pub struct Response {
    pub(crate) headers: Headers,
    pub(crate) chunks: Vec<Vec<u8>>,
    pub(crate) complete: bool,
}

impl Response {
    /// A response without a body.
    pub fn status(status: u16) -> Self {
        Self {
            headers: Headers::new().with(":status", status.to_string()),
            chunks: Vec::new(),
            complete: true,
        }
    }

    /// One more header, even if one of that name exists.
    #[must_use]
    pub fn header(mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        self.headers.push(name, value);
        self
    }

    /// The body so far, in one piece more.
    #[must_use]
    pub fn body(mut self, chunk: impl AsRef<[u8]>) -> Self {
        self.chunks.push(chunk.as_ref().to_vec());
        self
    }

    /// More body will come: see [`Vm::response_body`](crate::Vm::response_body).
    #[must_use]
    pub fn open(mut self) -> Self {
        self.complete = false;
        self
    }
}
