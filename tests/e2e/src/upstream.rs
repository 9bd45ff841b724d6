//! The API behind the gateway: a real HTTP server (HTTP/1.1, and HTTP/2 with prior knowledge) that remembers what it
//! was asked. Owns the server; must not decide anything a story did not tell it to.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, Version};
use http_body_util::channel::Channel;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::answer::{Answer, Gate};
use crate::eventually::PATIENCE;
use crate::server::{Broken, Server};

/// A request as the upstream got it.
#[derive(Debug, Clone)]
pub struct Received {
    /// The method.
    pub method: Method,
    /// Path and query, as they came.
    pub path: String,
    /// The protocol.
    pub version: Version,
    /// The headers; values are bytes.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
    /// The trailers, where there were any.
    pub trailers: Option<HeaderMap>,
    /// When it had come in whole.
    pub at: Instant,
}

impl Received {
    /// Reads all of it.
    pub(crate) async fn whole(request: Request<Incoming>) -> Result<Self, Broken> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?;
        let trailers = body.trailers().cloned();
        Ok(Self {
            method: parts.method,
            path: parts
                .uri
                .path_and_query()
                .map_or_else(|| parts.uri.to_string(), ToString::to_string),
            version: parts.version,
            headers: parts.headers,
            body: body.to_bytes(),
            trailers,
            at: Instant::now(),
        })
    }

    /// The first value of a header, with replacement characters where it is not UTF-8.
    pub fn header(&self, name: &str) -> Option<String> {
        self.headers
            .get(name)
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
    }
}

type Responder = Arc<dyn Fn(&Received) -> Answer + Send + Sync>;

struct State {
    responder: Mutex<Responder>,
    requests: Mutex<Vec<Received>>,
    /// How many requests have come: what `received` waits for.
    count: watch::Sender<usize>,
    /// In flight now, and at most so far.
    flight: Mutex<(usize, usize)>,
}

/// The running server; it ends when this is dropped.
pub struct Upstream {
    state: Arc<State>,
    server: Server,
}

impl Upstream {
    /// Starts it on a free port of 127.0.0.1; it answers [`Answer::ok`] until told otherwise.
    pub async fn start() -> Self {
        let state = Arc::new(State {
            responder: Mutex::new(Arc::new(|_| Answer::ok())),
            requests: Mutex::default(),
            count: watch::Sender::new(0),
            flight: Mutex::default(),
        });
        let shared = Arc::clone(&state);
        let server = Server::start(move |request| handle(request, Arc::clone(&shared))).await;
        Self { state, server }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Answers every request like this from now on.
    pub fn always(&self, answer: Answer) {
        self.respond(move |_| answer.clone());
    }

    /// Answers each request as this function says from now on.
    pub fn respond(&self, responder: impl Fn(&Received) -> Answer + Send + Sync + 'static) {
        *self.state.responder.lock().unwrap() = Arc::new(responder);
    }

    /// What has come so far, in order.
    pub fn requests(&self) -> Vec<Received> {
        self.state.requests.lock().unwrap().clone()
    }

    /// Forgets what has come.
    pub fn forget(&self) {
        self.state.requests.lock().unwrap().clear();
        self.state.count.send_replace(0);
    }

    /// Waits until `count` requests have come, and gives all that have.
    ///
    /// # Panics
    ///
    /// When they have not within 30 seconds.
    pub async fn received(&self, count: usize) -> Vec<Received> {
        let mut counter = self.state.count.subscribe();
        if timeout(PATIENCE, counter.wait_for(|n| *n >= count))
            .await
            .is_err()
        {
            panic!(
                "the upstream got {} requests, not {count}, within {PATIENCE:?}",
                *self.state.count.borrow()
            );
        }
        self.requests()
    }

    /// How many requests wait for their answer now.
    pub fn in_flight(&self) -> usize {
        self.state.flight.lock().unwrap().0
    }

    /// How many requests have waited for their answer at the same time, at most.
    pub fn peak(&self) -> usize {
        self.state.flight.lock().unwrap().1
    }
}

/// Counts a request as in flight for as long as it lives: also when the gateway goes away.
struct Flight(Arc<State>);

impl Flight {
    fn start(state: &Arc<State>) -> Self {
        let mut flight = state.flight.lock().unwrap();
        flight.0 += 1;
        flight.1 = flight.1.max(flight.0);
        Self(Arc::clone(state))
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.0.flight.lock().unwrap().0 -= 1;
    }
}

async fn handle(
    request: Request<Incoming>,
    state: Arc<State>,
) -> Result<Response<BoxBody<Bytes, Infallible>>, Broken> {
    let flight = Flight::start(&state);
    let received = Received::whole(request).await?;
    let responder = Arc::clone(&state.responder.lock().unwrap());
    let answer = responder(&received);
    state.requests.lock().unwrap().push(received);
    state.count.send_modify(|count| *count += 1);

    tokio::time::sleep(answer.delay).await;
    if let Some(gate) = &answer.gate {
        gate.pass().await;
    }
    drop(flight);
    if answer.hang_up {
        return Err("told to hang up".into());
    }
    let body = match answer.rest {
        Some((gate, rest)) => two_parts(answer.body, gate, rest),
        None => Full::new(answer.body).boxed(),
    };
    let body = match answer.trailers {
        Some(trailers) => body
            .with_trailers(async move { Some(Ok(trailers)) })
            .boxed(),
        None => body,
    };
    let mut response = Response::new(body);
    *response.status_mut() = answer.status.try_into()?;
    *response.headers_mut() = answer.headers;
    Ok(response)
}

/// A body that pauses in the middle until a gate is open.
fn two_parts(first: Bytes, gate: Gate, rest: Bytes) -> BoxBody<Bytes, Infallible> {
    let (mut sender, body) = Channel::new(1);
    tokio::spawn(async move {
        // An error: whoever reads it has gone.
        sender.send_data(first).await?;
        gate.pass().await;
        sender.send_data(rest).await
    });
    body.boxed()
}
