//! One request of a polite client. Owns building and sending it, exactly as written: no path is normalised, nothing
//! is retried, and each goes over a connection of its own, so that requests spread over Envoy's workers.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use crate::payload::Payload;
use crate::reply::{NoAnswer, Reply};

/// A request that is being written; [`Ask::send`] sends it.
#[derive(Debug, Clone)]
#[must_use = "a request does nothing until it is sent"]
pub struct Ask {
    to: SocketAddr,
    from: Option<IpAddr>,
    http2: bool,
    deadline: Duration,
    request: Request<Payload>,
}

impl Ask {
    /// A request to any server; [`crate::Gateway::get`] and its like make those to the gateway.
    ///
    /// # Panics
    ///
    /// When the path cannot be part of a URI; then a [`crate::RawConnection`] can send it.
    pub fn new(to: SocketAddr, method: Method, path: &str) -> Self {
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{to}{path}"))
            .body(Payload::whole(Bytes::new()))
            .unwrap_or_else(|error| panic!("{path:?}: {error}: send it by a RawConnection"));
        Self {
            to,
            from: None,
            http2: false,
            deadline: Duration::from_secs(20),
            request,
        }
    }

    /// Adds a header; the same name again makes a second value. The value may be any bytes HTTP can carry.
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a header name");
        let value = HeaderValue::from_bytes(value.as_ref()).expect("a header value");
        self.request.headers_mut().append(name, value);
        self
    }

    /// Says who asks, by the headers `x-tenant-id`, `x-api-key-id` and `x-tenant-tier`.
    pub fn identity(self, tenant: &str, key: &str, tier: &str) -> Self {
        self.header("x-tenant-id", tenant)
            .header("x-api-key-id", key)
            .header("x-tenant-tier", tier)
    }

    /// Sends this body.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        *self.request.body_mut() = Payload::whole(body.into());
        self
    }

    /// Sends this body piece by piece, a little apart; by HTTP/1.1 it is chunked.
    pub fn pieces<B: Into<Bytes>>(mut self, pieces: impl IntoIterator<Item = B>) -> Self {
        *self.request.body_mut() = Payload::pieces(pieces.into_iter().map(Into::into).collect());
        self
    }

    /// Sends this trailer after the body. By HTTP/1.1 only where a header `trailer` names it.
    pub fn trailer(mut self, name: &'static str, value: &'static str) -> Self {
        let trailers = self.request.body_mut().trailers_mut();
        trailers.append(name, HeaderValue::from_static(value));
        self
    }

    /// Sends this JSON, with its content type.
    pub fn json(self, body: &serde_json::Value) -> Self {
        self.header("content-type", "application/json")
            .body(body.to_string())
    }

    /// Sends it by HTTP/2 with prior knowledge, instead of HTTP/1.1.
    pub fn http2(mut self) -> Self {
        self.http2 = true;
        self
    }

    /// Sends it from this address; Linux lets every 127.x.y.z be one's own.
    pub fn from(mut self, ip: impl Into<IpAddr>) -> Self {
        self.from = Some(ip.into());
        self
    }

    /// Waits this long for the whole answer, instead of 20 seconds.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sends it.
    ///
    /// # Panics
    ///
    /// When no answer comes; use [`Ask::try_send`] where that is expected.
    pub async fn send(self) -> Reply {
        let what = format!("{} {}", self.request.method(), self.request.uri());
        self.try_send()
            .await
            .unwrap_or_else(|error| panic!("{what}: {error}"))
    }

    /// Sends it.
    ///
    /// # Errors
    ///
    /// When no whole answer comes in time.
    pub async fn try_send(self) -> Result<Reply, NoAnswer> {
        let mut connector = HttpConnector::new();
        connector.set_local_address(self.from);
        let client: Client<_, Payload> = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .http2_only(self.http2)
            .build(connector);
        let exchange =
            async { Reply::read(client.request(self.request).await.map_err(NoAnswer::new)?).await };
        tokio::time::timeout(self.deadline, exchange)
            .await
            .unwrap_or_else(|_| Err(NoAnswer::because(format!("not within {:?}", self.deadline))))
    }

    /// Sends it by HTTP/1.1 and goes away, closing the connection, as soon as `moment` has come.
    ///
    /// # Errors
    ///
    /// Gives back the reply's status and headers where the answer was faster than the moment.
    pub async fn leave_when(
        self,
        moment: impl Future<Output = ()>,
    ) -> Result<(), http::response::Parts> {
        match self.go_when(moment, false).await {
            Ok(None) => Ok(()),
            Ok(Some(parts)) => Err(parts),
            Err(error) => panic!("an answer, or none before the moment: {error}"),
        }
    }

    /// Sends it by HTTP/1.1 and resets the connection, as a client that crashed, as soon as `moment` has come; gives
    /// the status where the answer was faster than the moment.
    ///
    /// # Errors
    ///
    /// When there is no connection, or it ends before the moment.
    pub async fn reset_when(
        self,
        moment: impl Future<Output = ()>,
    ) -> Result<Option<u16>, NoAnswer> {
        let answer = self.go_when(moment, true).await?;
        Ok(answer.map(|parts| parts.status.as_u16()))
    }

    async fn go_when(
        self,
        moment: impl Future<Output = ()>,
        reset: bool,
    ) -> Result<Option<http::response::Parts>, NoAnswer> {
        let stream = TcpStream::connect(self.to).await.map_err(NoAnswer::new)?;
        if reset {
            stream.set_zero_linger().map_err(NoAnswer::new)?;
        }
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(NoAnswer::new)?;
        let connection = tokio::spawn(connection);
        let response = sender.send_request(self.into_request());
        let outcome = tokio::select! {
            response = response => response.map(|r| Some(r.into_parts().0)).map_err(NoAnswer::new),
            () = moment => Ok(None),
        };
        // The task owns the socket: ending it closes the connection.
        connection.abort();
        let _ = connection.await;
        outcome
    }

    pub(crate) fn source(&self) -> Option<IpAddr> {
        self.from
    }

    pub(crate) fn is_http2(&self) -> bool {
        self.http2
    }

    /// The request for an HTTP/2 connection that is made already.
    pub(crate) fn into_absolute_request(self) -> Request<Payload> {
        self.request
    }

    /// The request for an HTTP/1.1 connection that is made already: with a path for a target, and a host.
    pub(crate) fn into_request(self) -> Request<Payload> {
        let mut request = self.request;
        if !request.headers().contains_key(http::header::HOST) {
            let host = HeaderValue::from_str(&self.to.to_string()).expect("a host");
            request.headers_mut().insert(http::header::HOST, host);
        }
        let path = request
            .uri()
            .path_and_query()
            .expect("a path")
            .as_str()
            .parse()
            .expect("a target");
        *request.uri_mut() = path;
        request
    }
}
