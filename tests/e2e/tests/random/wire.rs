//! HTTP/1.1 as bytes: requests that no HTTP library would send, fast, and their answers.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

use super::requests::Asked;

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(15);

/// What says that an answer is the upstream's.
pub(crate) const MARK: &str = "x-upstream";

/// An answer as it came.
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) fields: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        for (name, value) in &self.fields {
            write!(f, "\n  {name}: {}", value.escape_ascii())?;
        }
        write!(f, "\n  {}", String::from_utf8_lossy(&self.body))
    }
}

impl Reply {
    /// Whether it is the last one of its connection.
    pub(crate) fn closes(&self) -> bool {
        let close = |(name, value): &(String, Vec<u8>)| name == "connection" && value == b"close";
        self.fields.iter().any(close)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(n, _)| n == name)
    }
}

/// A connection that is kept.
pub(crate) struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
    read: usize,
}

impl Connection {
    pub(crate) async fn open(from: Ipv4Addr, to: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(from.into(), 0)).unwrap();
        let stream = socket.connect(to).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            received: Vec::new(),
            read: 0,
        }
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// The next answer; `head` says that the request was a HEAD.
    pub(crate) async fn reply(&mut self, head: bool) -> Result<Reply, String> {
        let end = self.find(b"\r\n\r\n").await?;
        let text = self.received[self.read..end].to_vec();
        self.read = end + 4;
        let mut lines = text.split(|byte| *byte == b'\n');
        let first = lines.next().unwrap_or_default();
        let status = first.get(9..12).and_then(|s| std::str::from_utf8(s).ok());
        let status = status.and_then(|s| s.parse().ok());
        let status = status.ok_or_else(|| format!("no status: {}", first.escape_ascii()))?;
        let field = |line: &[u8]| {
            let at = line.iter().position(|byte| *byte == b':')?;
            let name = String::from_utf8_lossy(&line[..at]).to_ascii_lowercase();
            Some((name, line[at + 1..].trim_ascii().to_vec()))
        };
        let fields: Vec<_> = lines.filter_map(field).collect();
        let of = |name: &str| fields.iter().find(|(n, _)| n == name).map(|(_, v)| v);
        let length = of("content-length").and_then(|v| std::str::from_utf8(v).ok()?.parse().ok());
        let length = match (head, length) {
            (true, _) => 0,
            (false, Some(length)) => length,
            (false, None) => return Err(format!("no length: {}", text.escape_ascii())),
        };
        while self.received.len() < self.read + length {
            self.more().await?;
        }
        let body = self.received[self.read..self.read + length].to_vec();
        self.read += length;
        Ok(Reply {
            status,
            fields,
            body,
        })
    }

    /// Where these bytes are next.
    async fn find(&mut self, wanted: &[u8]) -> Result<usize, String> {
        let mut from = self.read;
        loop {
            let rest = &self.received[from..];
            if let Some(at) = rest.windows(wanted.len()).position(|bytes| bytes == wanted) {
                return Ok(from + at);
            }
            from = self
                .read
                .max((self.received.len() + 1).saturating_sub(wanted.len()));
            if self.read > 65_536 {
                self.received.drain(..self.read);
                from -= self.read;
                self.read = 0;
            }
            self.more().await?;
        }
    }

    async fn more(&mut self) -> Result<(), String> {
        match timeout(PATIENCE, self.stream.read_buf(&mut self.received)).await {
            Ok(Ok(1..)) => Ok(()),
            Ok(Ok(0)) => Err("the connection was closed".to_owned()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("no answer".to_owned()),
        }
    }
}

/// Appends the bytes of a request without a body.
pub(crate) fn encode(asked: &Asked, out: &mut Vec<u8>) {
    for part in [
        asked.method.as_bytes(),
        b" ",
        &asked.target,
        b" HTTP/1.1\r\nhost: api.example\r\n",
    ] {
        out.extend(part);
    }
    for (name, value) in &asked.headers {
        for part in [name.as_bytes(), b": ", value, b"\r\n"] {
            out.extend(part);
        }
    }
    if !matches!(asked.method, "GET" | "HEAD") {
        out.extend(b"content-length: 0\r\n");
    }
    out.extend(b"\r\n");
}

/// An upstream that is no burden: it answers every end of a head, and looks for one thing that must not
/// be there. It ends with its runtime.
pub(crate) async fn upstream(answer: &'static [u8], forbidden: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, answer, forbidden));
        }
    });
    address
}

/// A head with the forbidden bytes is answered with a status that nobody expects.
async fn serve(mut stream: TcpStream, answer: &[u8], forbidden: &[u8]) {
    let _ = stream.set_nodelay(true);
    let mut received = Vec::new();
    while let Ok(1..) = stream.read_buf(&mut received).await {
        while let Some(end) = received.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            let head: Vec<u8> = received.drain(..end + 4).collect();
            let found = head
                .windows(forbidden.len())
                .any(|bytes| bytes == forbidden);
            let answer = if found {
                b"HTTP/1.1 599 Forbidden Header\r\ncontent-length: 0\r\n\r\n"
            } else {
                answer
            };
            if stream.write_all(answer).await.is_err() {
                return;
            }
        }
    }
}
