//! What `make run` starts, for tests that use it as a newcomer does. Owns the process and its ports.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use http::Method;

use crate::{Ask, Reply, eventually, repository};

/// The demo on ports of its own. It ends when its standard input does: with this test, however that ends.
#[derive(Debug)]
pub struct Demo {
    script: Child,
    /// Where clients go.
    pub port: SocketAddr,
    /// Envoy's admin interface.
    pub admin: SocketAddr,
}

impl Demo {
    /// Starts it, and waits until it is ready.
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub async fn start() -> Self {
        // All are held until all are known, so that they differ.
        let free = [(); 3].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
        let [port, admin, api] = free.map(|listener| listener.local_addr().unwrap());
        let mut script = Command::new("bash")
            .args(["-c", "scripts/run.sh & read -r _; kill -TERM $!; wait $!"])
            .current_dir(repository())
            .env("PORT", port.port().to_string())
            .env("ADMIN_PORT", admin.port().to_string())
            .env("API_PORT", api.port().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        eventually("the demo is ready", Duration::from_secs(60), async || {
            assert!(
                script.try_wait().unwrap().is_none(),
                "scripts/run.sh has ended"
            );
            let ready = Ask::new(admin, Method::GET, "/ready")
                .try_send()
                .await
                .ok()?;
            (ready.status == 200).then_some(())
        })
        .await;
        Self {
            script,
            port,
            admin,
        }
    }

    /// Sends a request as `key-1` of a tenant.
    pub async fn ask(&self, method: Method, path: &str, tenant: &str, tier: &str) -> Reply {
        Ask::new(self.port, method, path)
            .identity(tenant, "key-1", tier)
            .send()
            .await
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        drop(self.script.stdin.take());
        let _ = self.script.wait();
    }
}
