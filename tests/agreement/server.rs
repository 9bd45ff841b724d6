//! A real Redis for a test: its own, on a socket in a directory of its own, and gone with it.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use redis::{Client, Connection, Value};

static STARTED: AtomicU32 = AtomicU32::new(0);

/// A running Redis.
pub(crate) struct Server {
    process: Child,
    directory: PathBuf,
    connection: Connection,
}

impl Server {
    /// Starts one.
    pub(crate) fn start(name: &str) -> Self {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let unique = format!("tollgate-{name}-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(unique);
        std::fs::create_dir_all(&directory).unwrap();
        let socket = directory.join("redis.sock");
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--appendonly", "no"]);
        command.arg("--unixsocket").arg(&socket);
        command.arg("--dir").arg(&directory);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let process = command
            .spawn()
            .expect("redis-server is needed: `make test` installs it");
        let client = Client::open(format!("redis+unix://{}", socket.display())).unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        let connection = loop {
            match client.get_connection() {
                Ok(connection) => break connection,
                Err(error) => assert!(Instant::now() < deadline, "no Redis: {error}"),
            }
            std::thread::yield_now();
        };
        Self {
            process,
            directory,
            connection,
        }
    }

    /// The socket it listens on.
    #[allow(dead_code, reason = "of the tests that share this, few need it")]
    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.join("redis.sock")
    }

    /// Sends a command; an error of Redis is an error.
    pub(crate) fn send(&mut self, command: &[String]) -> Result<Value, redis::RedisError> {
        let (name, arguments) = command.split_first().unwrap();
        let mut sent = redis::cmd(name);
        for argument in arguments {
            sent.arg(argument);
        }
        sent.query(&mut self.connection)
    }

    /// Sends words.
    pub(crate) fn say<T: redis::FromRedisValue>(&mut self, words: &str) -> T {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        redis::from_redis_value(self.send(&words).unwrap()).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
