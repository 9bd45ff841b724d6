//! A front between the gateway and the real one that fails as it is told, and keeps every byte that was asked. Owns
//! the port and the failures; must not know what a good answer is.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use crate::ports;

/// How the front fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Nobody listens.
    Refuse,
    /// Hangs up instead of answering.
    Close,
    /// Never answers.
    Hang,
    /// Answers by HTTP, with this status and body.
    Says(u16, String),
    /// Sends these bytes, and hangs up.
    Sends(Vec<u8>),
    /// Answers rightly, this much later.
    Slow(Duration),
}

struct State {
    behind: SocketAddr,
    fault: Mutex<Option<Fault>>,
    asked: Mutex<Vec<Vec<u8>>>,
}

/// The running front; it passes everything on until told otherwise, and ends when this is dropped.
pub struct Faulty {
    address: SocketAddr,
    state: Arc<State>,
    server: Mutex<Option<AbortHandle>>,
}

impl Faulty {
    /// Starts it before the real front at this address.
    ///
    /// # Panics
    ///
    /// When there is no port for it.
    pub async fn start(behind: SocketAddr) -> Self {
        let state = Arc::new(State {
            behind,
            fault: Mutex::default(),
            asked: Mutex::default(),
        });
        for _ in 0..10 {
            if let Ok(listener) = TcpListener::bind(("127.0.0.1", ports::free())).await {
                let faulty = Self {
                    address: listener.local_addr().expect("its address"),
                    state,
                    server: Mutex::default(),
                };
                faulty.serve(listener);
                return faulty;
            }
        }
        panic!("no port is free");
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Fails like this from now on.
    pub async fn fail(&self, fault: Fault) {
        self.turn(Some(fault)).await;
    }

    /// Passes everything on again.
    pub async fn heal(&self) {
        self.turn(None).await;
    }

    /// Every request so far, as it came: head and body.
    pub fn asked(&self) -> Vec<Vec<u8>> {
        self.state.asked.lock().unwrap().clone()
    }

    /// Forgets what was asked.
    pub fn forget(&self) {
        self.state.asked.lock().unwrap().clear();
    }

    async fn turn(&self, fault: Option<Fault>) {
        let refuses = fault == Some(Fault::Refuse);
        *self.state.fault.lock().unwrap() = fault;
        let mut listens = self.server.lock().unwrap().is_some();
        if refuses {
            if let Some(server) = self.server.lock().unwrap().take() {
                server.abort();
            }
            listens = true;
        }
        if !listens {
            let listener = TcpListener::bind(self.address).await;
            self.serve(listener.expect("the same port again"));
        }
    }

    fn serve(&self, listener: TcpListener) {
        let task = tokio::spawn(serve(listener, Arc::clone(&self.state)));
        *self.server.lock().unwrap() = Some(task.abort_handle());
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        if let Some(server) = self.server.lock().unwrap().take() {
            server.abort();
        }
    }
}

async fn serve(listener: TcpListener, state: Arc<State>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                connections.spawn(connection(stream, Arc::clone(&state)));
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// One connection, one request after the other; none: it is over.
async fn connection(mut stream: TcpStream, state: Arc<State>) -> Option<()> {
    let _ = stream.set_nodelay(true);
    let mut real: Option<TcpStream> = None;
    loop {
        let request = message(&mut stream).await?;
        state.asked.lock().unwrap().push(request.clone());
        let fault = state.fault.lock().unwrap().clone();
        match fault {
            Some(Fault::Refuse | Fault::Close) => return None,
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::Says(status, body)) => {
                let answer = format!(
                    "HTTP/1.1 {status} Said\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                );
                stream.write_all(answer.as_bytes()).await.ok()?;
                continue;
            }
            Some(Fault::Sends(bytes)) => {
                stream.write_all(&bytes).await.ok()?;
                return stream.shutdown().await.ok();
            }
            Some(Fault::Slow(delay)) => tokio::time::sleep(delay).await,
            None => {}
        }
        let mut there = match real.take() {
            Some(there) => there,
            None => TcpStream::connect(state.behind).await.ok()?,
        };
        there.write_all(&request).await.ok()?;
        let answer = message(&mut there).await?;
        stream.write_all(&answer).await.ok()?;
        real = Some(there);
    }
}

/// A whole message: its head, and as much body as `content-length` says.
async fn message(stream: &mut (impl AsyncRead + Unpin)) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let length: usize = String::from_utf8_lossy(&bytes[..head])
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .map_or(Some(0), |(_, length)| length.trim().parse().ok())?;
    while bytes.len() < head + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    Some(bytes)
}
