//! Debian's Webdis in front of a Redis. Owns the process, its port and its configuration; must not know what is
//! asked through it.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::ask::Ask;
use crate::eventually::{PATIENCE, eventually};
use crate::ports;
use crate::redis_server::Redis;
use crate::tied::Tied;

/// A running Webdis; it ends when this is dropped.
pub struct Webdis {
    port: u16,
    settings: Value,
    process: Mutex<Option<Tied>>,
    files: TempDir,
}

impl Webdis {
    /// Starts one with its usual 2 threads.
    ///
    /// # Panics
    ///
    /// When it does not start: `make test` installs it.
    pub async fn start(redis: &Redis) -> Self {
        Self::with(redis, json!({})).await
    }

    /// Starts one with these settings of webdis.json beside the usual ones: `{"threads": 4, "pool_size": 10}`.
    pub async fn with(redis: &Redis, settings: Value) -> Self {
        let mut webdis = Self {
            port: ports::free(),
            settings: json!({
                "redis_host": redis.address().ip(),
                "redis_port": redis.address().port(),
                "redis_auth": null,
                "http_host": "127.0.0.1",
                "threads": 2,
                "pool_size": 10,
                "daemonize": false,
                "database": 0,
                "verbosity": 0,
                "logfile": "/dev/null",
            }),
            process: Mutex::new(None),
            files: TempDir::with_prefix("tollgate-e2e-webdis-").expect("a temporary directory"),
        };
        for (name, value) in settings.as_object().expect("settings by name") {
            webdis.settings[name] = value.clone();
        }
        for _ in 0..10 {
            if webdis.run().await {
                return webdis;
            }
            webdis.port = ports::free();
        }
        panic!("Webdis does not start");
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Kills it: its port refuses.
    pub fn kill(&self) {
        self.process.lock().unwrap().take();
    }

    /// Starts it again on the same port.
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub async fn restart(&self) {
        self.kill();
        assert!(self.run().await, "Webdis is not back");
    }

    /// Whether it runs, and answers on its port.
    async fn run(&self) -> bool {
        let file = self.files.path().join("webdis.json");
        let mut settings = self.settings.clone();
        settings["http_port"] = json!(self.port);
        std::fs::write(&file, settings.to_string()).expect("a file written");
        let mut command = Command::new("webdis");
        command
            .arg(&file)
            .current_dir(self.files.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut process = Tied::start(&mut command);
        let up = eventually("Webdis answers", PATIENCE, async || {
            // Asked first: with the port taken, it is another one that answers.
            let answered = Ask::new(self.address(), Method::GET, "/PING")
                .try_send()
                .await
                .is_ok_and(|reply| reply.status == 200);
            match process.ended() {
                Some(_) => Some(false),
                None => answered.then_some(true),
            }
        })
        .await;
        if up {
            *self.process.lock().unwrap() = Some(process);
        }
        up
    }
}
