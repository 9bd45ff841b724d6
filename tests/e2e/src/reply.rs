//! What a client got. Owns reading it comfortably; must not judge it.

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, Version};
use http_body_util::BodyExt;
use hyper::body::Incoming;

/// A whole response, body and trailers included.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The protocol it came by.
    pub version: Version,
    /// The headers; values are bytes.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// The trailers, where there were any.
    pub trailers: Option<HeaderMap>,
}

impl Reply {
    pub(crate) async fn read(response: http::Response<Incoming>) -> Result<Self, NoAnswer> {
        let (parts, body) = response.into_parts();
        let body = body.collect().await.map_err(NoAnswer::new)?;
        let trailers = body.trailers().cloned();
        Ok(Self {
            status: parts.status.as_u16(),
            version: parts.version,
            headers: parts.headers,
            body: body.to_bytes(),
            trailers,
        })
    }

    /// The header's only value.
    ///
    /// # Panics
    ///
    /// When the header is there twice, or its value is not ASCII: look into `headers` where that is expected.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?;
        assert!(
            values.next().is_none(),
            "{name} is there more than once: {:?}",
            self.headers
        );
        Some(
            value
                .to_str()
                .unwrap_or_else(|_| panic!("{name} is not ASCII: {value:?}")),
        )
    }

    /// A header that is a whole number (`retry-after`, `ratelimit-remaining`).
    ///
    /// # Panics
    ///
    /// When it is missing or something else.
    pub fn number(&self, name: &str) -> u64 {
        let value = self
            .header(name)
            .unwrap_or_else(|| panic!("no {name} in {self:?}"));
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} is {value:?}, not a number"))
    }

    /// The body as text, with replacement characters where it is not UTF-8.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Panics
    ///
    /// When it is something else.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }
}

/// No response came: refused, reset, cut short or too late.
#[derive(Debug)]
pub struct NoAnswer(String);

impl NoAnswer {
    /// Tells the error and everything behind it.
    pub(crate) fn new(error: impl std::error::Error) -> Self {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        Self(text)
    }

    pub(crate) fn because(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no answer: {}", self.0)
    }
}

impl std::error::Error for NoAnswer {}
