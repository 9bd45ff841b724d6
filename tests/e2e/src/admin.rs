//! Envoy's admin interface. Owns asking it; must not change anything through it.

use std::net::SocketAddr;
use std::time::Duration;

use http::Method;
use serde_json::Value;

use crate::ask::Ask;
use crate::reply::NoAnswer;
use crate::stats::Stats;

/// The memory of the whole Envoy process, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// In use.
    pub allocated: u64,
    /// Taken from the system by the allocator, used or not.
    pub heap_size: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Admin(pub(crate) SocketAddr);

impl Admin {
    pub(crate) async fn get(self, path: &str) -> Result<String, NoAnswer> {
        let reply = Ask::new(self.0, Method::GET, path)
            .deadline(Duration::from_secs(10))
            .try_send()
            .await?;
        match reply.status {
            200 => Ok(reply.text()),
            other => Err(NoAnswer::because(format!(
                "{path} is {other}: {}",
                reply.text()
            ))),
        }
    }

    pub(crate) async fn is_ready(self) -> bool {
        self.get("/ready")
            .await
            .is_ok_and(|text| text.trim() == "LIVE")
    }

    async fn must_get(self, path: &str) -> String {
        self.get(path)
            .await
            .unwrap_or_else(|error| panic!("Envoy's admin interface: {error}"))
    }

    async fn json(self, path: &str) -> Value {
        serde_json::from_str(&self.must_get(path).await).expect("JSON of Envoy's admin interface")
    }

    pub(crate) async fn prometheus(self) -> Stats {
        Stats::parse(&self.must_get("/stats/prometheus").await)
    }

    /// A counter or gauge by its full name; none where Envoy has not made it yet.
    pub(crate) async fn stat(self, name: &str) -> Option<u64> {
        let stats = self.must_get("/stats").await;
        stats
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")?.parse().ok())
    }

    pub(crate) async fn memory(self) -> Memory {
        let memory = self.json("/memory").await;
        let bytes = |name: &str| {
            memory[name]
                .as_str()
                .and_then(|text| text.parse().ok())
                .expect("bytes")
        };
        Memory {
            allocated: bytes("allocated"),
            heap_size: bytes("heap_size"),
        }
    }

    /// Where a listener listens; none while there is no such listener.
    pub(crate) async fn listener(self, name: &str) -> Option<SocketAddr> {
        let listeners = self.json("/listeners?format=json").await;
        let listener = listeners["listener_statuses"]
            .as_array()?
            .iter()
            .find(|status| status["name"] == name)?;
        let socket = &listener["local_address"]["socket_address"];
        let port = socket["port_value"]
            .as_u64()
            .and_then(|port| u16::try_from(port).ok())?;
        Some(SocketAddr::new(
            socket["address"].as_str()?.parse().ok()?,
            port,
        ))
    }
}
