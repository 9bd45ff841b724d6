//! Just enough HTTP/1.1: ready-made requests without bodies go out, answers with a Content-Length come back.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

const END_OF_HEAD: &[u8] = b"\r\n\r\n";

/// The requests of a file, one after the other as they go over the wire.
pub(crate) fn split_requests(mut file: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut requests = Vec::new();
    while let Some(end) = find(file, END_OF_HEAD) {
        let (request, rest) = file.split_at(end + END_OF_HEAD.len());
        requests.push(request.to_vec());
        file = rest;
    }
    if requests.is_empty() || !file.is_empty() {
        return Err(invalid("the file holds no requests, or part of one"));
    }
    Ok(requests)
}

/// One kept-alive connection.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(port: u16) -> Result<Connection> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(Connection {
            stream,
            buffer: Vec::with_capacity(4096),
        })
    }

    /// Sends a request, reads the whole answer and returns its status.
    pub(crate) fn ask(&mut self, request: &[u8]) -> Result<u16> {
        self.stream.write_all(request)?;
        self.buffer.clear();
        let head = loop {
            self.read_some()?;
            if let Some(end) = find(&self.buffer, END_OF_HEAD) {
                break end + END_OF_HEAD.len();
            }
        };
        let (status, length) = read_head(self.buffer.get(..head).unwrap_or_default())?;
        while self.buffer.len() < head + length {
            self.read_some()?;
        }
        Ok(status)
    }

    fn read_some(&mut self) -> Result<()> {
        let mut chunk = [0; 4096];
        let count = self.stream.read(&mut chunk)?;
        if count == 0 {
            return Err(Error::new(ErrorKind::UnexpectedEof, "the server hung up"));
        }
        self.buffer
            .extend_from_slice(chunk.get(..count).unwrap_or_default());
        Ok(())
    }
}

/// Status and length of the body.
fn read_head(head: &[u8]) -> Result<(u16, usize)> {
    let head = std::str::from_utf8(head).map_err(|_| invalid("a head that is not text"))?;
    let mut lines = head.split("\r\n");
    let status = lines
        .next()
        .and_then(|line| line.split(' ').nth(1))
        .and_then(|status| status.parse().ok())
        .ok_or_else(|| invalid("no status"))?;
    let length = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse().ok())
        .ok_or_else(|| invalid("no content-length"))?;
    Ok((status, length))
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

fn invalid(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}
