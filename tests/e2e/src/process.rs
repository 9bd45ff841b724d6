//! The Envoy process. Owns starting it, waiting until it is ready, and its log. Must not know what is configured.

use std::fmt;
use std::fs::{File, read_to_string};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::admin::Admin;
use crate::eventually::PATIENCE;
use crate::places::envoy_binary;
use crate::tied::Tied;

/// Envoy did not start.
pub struct BootFailure {
    /// What happened.
    pub reason: String,
    /// Everything that Envoy and the filter logged.
    pub logs: String,
}

impl fmt::Display for BootFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Envoy did not start: {}\n{}", self.reason, self.logs)
    }
}

// What `?` shows in a test that fails: the text, not its escaped form.
impl fmt::Debug for BootFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for BootFailure {}

#[derive(Debug)]
pub(crate) struct Process {
    envoy: Tied,
    log: PathBuf,
}

impl Process {
    /// Starts Envoy and waits until it serves; its files go to `directory`.
    pub(crate) async fn start(
        bootstrap: &Path,
        workers: u32,
        log_level: &str,
        environment: &[(String, String)],
        directory: &Path,
    ) -> Result<(Self, Admin), BootFailure> {
        let log = directory.join("envoy.log");
        let admin_address = directory.join("admin.address");
        let output = File::create(&log).expect("a log file");
        let mut command = Command::new(envoy_binary());
        command
            .envs(environment.iter().cloned())
            .arg("--config-path")
            .arg(bootstrap)
            .arg("--admin-address-path")
            .arg(&admin_address)
            .args(["--concurrency", &workers.to_string()])
            // Envoy's own chatter would bury what the filter says.
            .args([
                "--log-level",
                "warning",
                "--component-log-level",
                &format!("wasm:{log_level}"),
            ])
            .args([
                "--file-flush-interval-msec",
                "20",
                "--drain-time-s",
                "1",
                "--disable-hot-restart",
            ])
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("the log file again"))
            .stderr(output);
        let envoy = Tied::start(&mut command);
        let mut process = Self { envoy, log };
        match process.wait_until_ready(&admin_address).await {
            Ok(admin) => Ok((process, admin)),
            Err(reason) => Err(BootFailure {
                reason,
                logs: process.logs(),
            }),
        }
    }

    async fn wait_until_ready(&mut self, admin_address: &Path) -> Result<Admin, String> {
        let start = Instant::now();
        let mut admin = None;
        loop {
            if let Some(status) = self.envoy.ended() {
                return Err(format!("it ended with {status}"));
            }
            admin = admin.or_else(|| {
                read_to_string(admin_address)
                    .ok()?
                    .parse::<SocketAddr>()
                    .ok()
                    .map(Admin)
            });
            if let Some(admin) = admin
                && admin.is_ready().await
            {
                return Ok(admin);
            }
            if start.elapsed() > 2 * PATIENCE {
                return Err("it was not ready within 60 s".to_owned());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) fn logs(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Ends it at once, as a crash would.
    pub(crate) fn kill(&mut self) {
        self.envoy.end("KILL", PATIENCE);
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.envoy.ended().is_none()
    }
}
