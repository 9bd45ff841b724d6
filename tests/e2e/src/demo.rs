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
        Self::start_with("envoy/envoy.yaml").await
    }

    /// Starts the same with another bootstrap: a path in the repository.
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub async fn start_with(bootstrap: &str) -> Self {
        let [port, admin, api] = free();
        let ports = [("PORT", port), ("ADMIN_PORT", admin), ("API_PORT", api)];
        Self::run("scripts/run.sh", Some(bootstrap), &ports).await
    }

    /// Starts what `make run-redis` does, and tells where its Redis and its Webdis listen.
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub async fn start_with_redis() -> (Self, [SocketAddr; 2]) {
        let [port, admin, api, redis, webdis] = free();
        let ports = [
            ("PORT", port),
            ("ADMIN_PORT", admin),
            ("API_PORT", api),
            ("REDIS_PORT", redis),
            ("WEBDIS_PORT", webdis),
        ];
        let demo = Self::run("scripts/run-redis.sh", None, &ports).await;
        (demo, [redis, webdis])
    }

    async fn run(script: &str, bootstrap: Option<&str>, ports: &[(&str, SocketAddr)]) -> Self {
        let port_of = |name: &str| ports.iter().find(|(n, _)| *n == name).unwrap().1;
        let (port, admin) = (port_of("PORT"), port_of("ADMIN_PORT"));
        let variables = ports
            .iter()
            .map(|(name, at)| (*name, at.port().to_string()));
        let mut script = Command::new("bash")
            .args([
                "-c",
                &format!("{script} & read -r _; kill -TERM $!; wait $!"),
            ])
            .current_dir(repository())
            .envs(variables)
            .envs(bootstrap.map(|path| ("ENVOY_CONFIG", path)))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        eventually("the demo is ready", Duration::from_secs(60), async || {
            assert!(script.try_wait().unwrap().is_none(), "the script has ended");
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

/// Free ports. All are held until all are known, so that they differ.
fn free<const N: usize>() -> [SocketAddr; N] {
    let free = [(); N].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    free.map(|listener| listener.local_addr().unwrap())
}
