//! A real Redis of one's own. Owns the process, its port and its files; must not know Tollgate's keys.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Client, FromRedisValue, RedisResult};
use tempfile::TempDir;

use crate::eventually::{PATIENCE, eventually};
use crate::ports;
use crate::tied::Tied;

/// A key as it is in Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Its name, with replacement characters where it is not UTF-8.
    pub name: String,
    /// Its type: `string`, `hash`, `zset`, `stream`.
    pub kind: String,
    /// How long it will live; none: for ever.
    pub ttl: Option<Duration>,
}

/// A running Redis that writes nothing to disk; it ends when this is dropped.
pub struct Redis {
    port: u16,
    options: Vec<String>,
    process: Mutex<Option<Tied>>,
    files: TempDir,
}

impl Redis {
    /// Starts one on a free port.
    ///
    /// # Panics
    ///
    /// When it does not start: `make test` installs it.
    pub async fn start() -> Self {
        Self::with(&[]).await
    }

    /// Starts one with these options: `["--maxmemory", "10mb"]`.
    pub async fn with(options: &[&str]) -> Self {
        let mut redis = Self {
            port: ports::free(),
            options: options.iter().map(|&option| option.to_owned()).collect(),
            process: Mutex::new(None),
            files: TempDir::with_prefix("tollgate-e2e-redis-").expect("a temporary directory"),
        };
        for _ in 0..10 {
            if redis.run().await {
                return redis;
            }
            // Another one was faster: it has the port.
            redis.port = ports::free();
        }
        panic!("Redis does not start:\n{}", redis.logs());
    }

    /// Starts a cluster of one node, which has every slot and refuses a call for several as any cluster does.
    pub async fn cluster() -> Self {
        let redis = Self::with(&["--cluster-enabled", "yes"]).await;
        let () = redis
            .ask(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"])
            .await
            .expect("all slots");
        eventually("the cluster is up", PATIENCE, async || {
            let info: String = redis.ask(&["CLUSTER", "INFO"]).await.ok()?;
            info.contains("cluster_state:ok").then_some(())
        })
        .await;
        redis
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Kills it as a crash would: what it held is gone, and its port refuses.
    pub fn kill(&self) {
        self.process.lock().unwrap().take();
    }

    /// Starts it again, empty, on the same port.
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub async fn restart(&self) {
        self.kill();
        assert!(self.run().await, "Redis is not back:\n{}", self.logs());
    }

    /// Halts it: connections stay open, and nothing is answered.
    ///
    /// # Panics
    ///
    /// When it does not run.
    pub fn pause(&self) {
        self.process.lock().unwrap().as_ref().unwrap().pause();
    }

    /// Lets it go on; it answers all that was asked meanwhile.
    ///
    /// # Panics
    ///
    /// When it does not run.
    pub fn resume(&self) {
        self.process.lock().unwrap().as_ref().unwrap().resume();
    }

    /// Sends a command.
    ///
    /// # Errors
    ///
    /// What Redis answers, or that it does not.
    pub async fn ask<T: FromRedisValue>(&self, command: &[&str]) -> RedisResult<T> {
        let mut connection = self.connect().await?;
        words(command).query_async(&mut connection).await
    }

    /// Forgets all scripts, as a restart or a failover does.
    ///
    /// # Panics
    ///
    /// When Redis does not answer.
    pub async fn forget_scripts(&self) {
        let () = self
            .ask(&["SCRIPT", "FLUSH", "SYNC"])
            .await
            .expect("no scripts");
    }

    /// Every key there is, by name.
    ///
    /// # Panics
    ///
    /// When Redis does not answer.
    pub async fn keys(&self) -> Vec<Key> {
        let mut connection = self.connect().await.expect("Redis");
        let names: Vec<Vec<u8>> = words(&["KEYS", "*"])
            .query_async(&mut connection)
            .await
            .expect("the keys");
        let mut keys = Vec::new();
        for name in names {
            let (kind, ttl): (String, i64) = redis::pipe()
                .cmd("TYPE")
                .arg(&name)
                .cmd("PTTL")
                .arg(&name)
                .query_async(&mut connection)
                .await
                .expect("a key's type and time to live");
            // -2: it has gone meanwhile.
            if ttl != -2 {
                keys.push(Key {
                    name: String::from_utf8_lossy(&name).into_owned(),
                    kind,
                    ttl: u64::try_from(ttl).ok().map(Duration::from_millis),
                });
            }
        }
        keys.sort_by(|one, other| one.name.cmp(&other.name));
        keys
    }

    /// What it has logged.
    pub fn logs(&self) -> String {
        std::fs::read_to_string(self.files.path().join("redis.log")).unwrap_or_default()
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        Client::open(self.url())?
            .get_multiplexed_async_connection()
            .await
    }

    /// Whether it runs, and answers on its port.
    async fn run(&self) -> bool {
        let log = File::create(self.files.path().join("redis.log")).expect("a log file");
        let mut command = Command::new("redis-server");
        command
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no"])
            .arg("--dir")
            .arg(self.files.path())
            .args(&self.options)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("the log file again"))
            .stderr(log);
        let mut process = Tied::start(&mut command);
        let mine = format!("process_id:{}\r\n", process.id());
        let up = eventually("Redis answers", PATIENCE, async || {
            if process.ended().is_some() {
                return Some(false);
            }
            let info: String = self.ask(&["INFO", "server"]).await.ok()?;
            Some(info.contains(&mine))
        })
        .await;
        if up {
            *self.process.lock().unwrap() = Some(process);
        }
        up
    }
}

fn words(command: &[&str]) -> redis::Cmd {
    let mut words = redis::Cmd::new();
    for &word in command {
        words.arg(word);
    }
    words
}
