//! Ports that can be had again after a restart. Owns the choice; must not listen.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the range that Linux takes the near ends of connections from: what is restarted finds its port free.
const FIRST: u16 = 20_000;
const PORTS: u16 = 12_000;

/// A port of 127.0.0.1 on which nobody listens. Somebody else may take it before it is used: try again then.
pub(crate) fn free() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    #[expect(clippy::cast_possible_truncation)]
    let own = (std::process::id() % u32::from(PORTS)) as u16;
    loop {
        // Test processes that run side by side start at different places.
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + own.wrapping_mul(61).wrapping_add(step) % PORTS;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
