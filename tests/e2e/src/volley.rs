//! Many requests as fast as they go. Owns the connections and the clock; must not judge the answers.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::ask::Ask;
use crate::payload::Payload;
use crate::reply::NoAnswer;

/// One request of a volley.
#[derive(Debug, Clone)]
pub struct Shot {
    /// Its place among the requests given.
    pub index: usize,
    /// When it was sent, counted from the first.
    pub sent: Duration,
    /// How long it took until the end of the answer.
    pub took: Duration,
    /// The status; 0 where no answer came.
    pub status: u16,
    /// The headers of the answer.
    pub headers: HeaderMap,
    /// Why no answer came.
    pub error: Option<String>,
}

/// What became of many requests.
#[derive(Debug, Clone)]
pub struct Volley {
    /// Every request, in the order given.
    pub shots: Vec<Shot>,
    /// When it began.
    pub started: Instant,
    /// From the first request to the last answer.
    pub took: Duration,
}

type Message = Request<Payload>;

/// The requests not sent yet, and what became of the others.
struct Magazine {
    messages: Vec<Mutex<Option<Message>>>,
    next: AtomicUsize,
    start: Instant,
    shots: Mutex<Vec<Shot>>,
}

impl Volley {
    pub(crate) async fn fire(to: SocketAddr, at_a_time: usize, asks: Vec<Ask>) -> Self {
        let Some(first) = asks.first() else {
            return Self {
                shots: Vec::new(),
                started: Instant::now(),
                took: Duration::ZERO,
            };
        };
        let lane = Lane {
            to,
            from: first.source(),
            http2: first.is_http2(),
        };
        let at_a_time = at_a_time.clamp(1, asks.len());

        // Everything that takes time is done before the clock starts.
        let mut guns = vec![lane.open().await];
        while guns.len() < at_a_time {
            guns.push(match &guns[0] {
                Gun::Two(sender) => Gun::Two(sender.clone()),
                Gun::One(_) => lane.open().await,
            });
        }
        let message = |ask: Ask| {
            if lane.http2 {
                ask.into_absolute_request()
            } else {
                ask.into_request()
            }
        };
        let messages: Vec<_> = asks
            .into_iter()
            .map(|ask| Mutex::new(Some(message(ask))))
            .collect();
        let shots = Mutex::new(Vec::with_capacity(messages.len()));
        let magazine = Arc::new(Magazine {
            messages,
            next: AtomicUsize::new(0),
            start: Instant::now(),
            shots,
        });

        let mut gunners = JoinSet::new();
        for gun in guns {
            gunners.spawn(shoot(gun, lane, Arc::clone(&magazine)));
        }
        while let Some(done) = gunners.join_next().await {
            done.expect("a client that does not panic");
        }
        let mut shots = std::mem::take(&mut *magazine.shots.lock().unwrap());
        shots.sort_by_key(|shot| shot.index);
        Self {
            started: magazine.start,
            took: magazine.start.elapsed(),
            shots,
        }
    }

    /// How many answers had this status; 0 counts those that never came.
    pub fn count(&self, status: u16) -> usize {
        self.shots
            .iter()
            .filter(|shot| shot.status == status)
            .count()
    }

    /// How many answers there were of each status.
    pub fn statuses(&self) -> BTreeMap<u16, usize> {
        let mut statuses = BTreeMap::new();
        for shot in &self.shots {
            *statuses.entry(shot.status).or_default() += 1;
        }
        statuses
    }

    /// The time that this share of the requests (0.5, 0.99) stayed within.
    pub fn quantile(&self, share: f64) -> Duration {
        let mut times: Vec<_> = self.shots.iter().map(|shot| shot.took).collect();
        times.sort_unstable();
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss
        )]
        let rank = ((times.len() as f64) * share).ceil() as usize;
        times[rank.clamp(1, times.len()) - 1]
    }
}

/// The way to the gateway.
#[derive(Debug, Clone, Copy)]
struct Lane {
    to: SocketAddr,
    from: Option<std::net::IpAddr>,
    http2: bool,
}

enum Gun {
    One(http1::SendRequest<Payload>),
    Two(http2::SendRequest<Payload>),
}

impl Lane {
    async fn open(self) -> Gun {
        self.try_open()
            .await
            .unwrap_or_else(|error| panic!("no connection to the gateway: {error}"))
    }

    async fn try_open(self) -> Result<Gun, NoAnswer> {
        let io = TokioIo::new(self.connect().await.map_err(NoAnswer::new)?);
        if self.http2 {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), io)
                .await
                .map_err(NoAnswer::new)?;
            tokio::spawn(connection);
            Ok(Gun::Two(sender))
        } else {
            let (sender, connection) = http1::handshake(io).await.map_err(NoAnswer::new)?;
            tokio::spawn(connection);
            Ok(Gun::One(sender))
        }
    }

    async fn connect(self) -> std::io::Result<TcpStream> {
        let socket = if self.to.is_ipv4() {
            TcpSocket::new_v4()?
        } else {
            TcpSocket::new_v6()?
        };
        if let Some(ip) = self.from {
            socket.bind(SocketAddr::new(ip, 0))?;
        }
        let stream = socket.connect(self.to).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

impl Gun {
    async fn send(&mut self, lane: Lane, message: Message) -> Result<Response<Incoming>, NoAnswer> {
        match self {
            Self::Two(sender) => sender.send_request(message).await.map_err(NoAnswer::new),
            Self::One(sender) => {
                // The answer before may have ended the connection.
                if sender.ready().await.is_err() {
                    *self = lane.try_open().await?;
                }
                let Self::One(sender) = self else {
                    unreachable!("a lane does not change its protocol")
                };
                sender.send_request(message).await.map_err(NoAnswer::new)
            }
        }
    }
}

async fn shoot(mut gun: Gun, lane: Lane, magazine: Arc<Magazine>) {
    loop {
        let index = magazine.next.fetch_add(1, Ordering::Relaxed);
        let Some(message) = magazine.messages.get(index) else {
            return;
        };
        let message = message
            .lock()
            .unwrap()
            .take()
            .expect("a request is sent once");
        let sent = magazine.start.elapsed();
        let outcome = async {
            let (parts, body) = gun.send(lane, message).await?.into_parts();
            body.collect().await.map_err(NoAnswer::new)?;
            Ok::<_, NoAnswer>(parts)
        };
        let outcome = outcome.await;
        let took = magazine.start.elapsed() - sent;
        let shot = match outcome {
            Ok(parts) => Shot {
                index,
                sent,
                took,
                status: parts.status.as_u16(),
                headers: parts.headers,
                error: None,
            },
            Err(error) => Shot {
                index,
                sent,
                took,
                status: 0,
                headers: HeaderMap::new(),
                error: Some(error.to_string()),
            },
        };
        magazine.shots.lock().unwrap().push(shot);
    }
}
