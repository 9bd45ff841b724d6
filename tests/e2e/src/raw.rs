//! A connection for bytes no HTTP library would send. Owns the socket; must not understand what goes over it.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// An open TCP connection; dropping it closes it.
#[derive(Debug)]
pub struct RawConnection(TcpStream);

impl RawConnection {
    pub(crate) async fn open(to: SocketAddr) -> Self {
        Self(
            TcpStream::connect(to)
                .await
                .expect("a connection to the gateway"),
        )
    }

    /// Sends these bytes. That the other side has hung up already shows when reading.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.0.write_all(bytes.as_ref()).await;
    }

    /// Says that nothing more will be sent, and still listens.
    pub async fn finish(&mut self) {
        let _ = self.0.shutdown().await;
    }

    /// Everything the other side sends until it closes, or until nothing has come for `quiet`.
    ///
    /// Ask for `connection: close` and the answer ends by itself.
    pub async fn receive(&mut self, quiet: Duration) -> Vec<u8> {
        let mut received = Vec::new();
        while let Ok(Ok(1..)) = timeout(quiet, self.0.read_buf(&mut received)).await {}
        received
    }
}
