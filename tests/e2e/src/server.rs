//! A small HTTP server, versions 1.1 and 2. Owns its port and its connections; must not know what is answered.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};

/// Why a request gets no answer: its connection ends.
pub(crate) type Broken = Box<dyn std::error::Error + Send + Sync>;

/// What a request gets.
pub(crate) type Answered = Result<Response<BoxBody<Bytes, Infallible>>, Broken>;

/// The running server; it ends, with its connections, when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    task: AbortHandle,
}

impl Server {
    /// Starts it on a free port of 127.0.0.1.
    pub(crate) async fn start<F, A>(handler: F) -> Self
    where
        F: Fn(Request<Incoming>) -> A + Clone + Send + 'static,
        A: Future<Output = Answered> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let task = tokio::spawn(serve(listener, handler)).abort_handle();
        Self { address, task }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve<F, A>(listener: TcpListener, handler: F)
where
    F: Fn(Request<Incoming>) -> A + Clone + Send + 'static,
    A: Future<Output = Answered> + Send + 'static,
{
    // Ends its connections with it, so that a dropped server is gone at once.
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(_) => continue,
            },
            Some(_) = connections.join_next() => continue,
        };
        let _ = stream.set_nodelay(true);
        let handler = handler.clone();
        connections.spawn(async move {
            let mut builder = auto::Builder::new(TokioExecutor::new());
            // A proxy may open more streams than a limit allows before it has heard of the limit, and such streams
            // are refused; and one that passes on the resets of its clients is hung up on as an attacker. A crowd would
            // meet 503s that say nothing about the gateway.
            builder
                .http2()
                .max_concurrent_streams(None)
                .max_pending_accept_reset_streams(usize::MAX)
                .max_local_error_reset_streams(None);
            // A connection that breaks is the other side's affair.
            let _ = builder
                .serve_connection(TokioIo::new(stream), service_fn(handler))
                .await;
        });
    }
}
