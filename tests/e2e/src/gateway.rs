//! A running gateway, the centre of a story. Owns one Envoy with its upstream and its files; must not know Tollgate's
//! rules.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Mutex;

use http::Method;
use serde_json::Value;
use tempfile::TempDir;

use crate::admin::{Admin, Memory};
use crate::ask::Ask;
use crate::bootstrap::{LISTENER, bootstrap, move_listeners_out};
use crate::clock;
use crate::eventually::{PATIENCE, eventually};
use crate::grpc::GrpcClient;
use crate::logs::LogLine;
use crate::process::{BootFailure, Process};
use crate::raw::RawConnection;
use crate::setup::{Configuration, Setup};
use crate::stats::Stats;
use crate::upstream::Upstream;
use crate::volley::Volley;

/// A running Envoy can refuse a new configuration, and serve on with the old one.
pub struct Refused {
    /// What Envoy and the filter logged meanwhile.
    pub logs: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Envoy refused the configuration:\n{}", self.logs)
    }
}

impl fmt::Debug for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Refused {}

/// An Envoy, the filter in it, and the upstream behind it. Dropping it ends them.
pub struct Gateway {
    process: Mutex<Process>,
    admin: Admin,
    address: Option<SocketAddr>,
    upstream: Option<Upstream>,
    upstream_address: Option<SocketAddr>,
    setup: Setup,
    files: TempDir,
}

impl Gateway {
    /// Starts it and waits until it serves.
    ///
    /// # Errors
    ///
    /// When Envoy does not start, most often because the filter refuses its configuration.
    pub async fn start(setup: Setup) -> Result<Self, BootFailure> {
        let files = TempDir::with_prefix("tollgate-e2e-").expect("a temporary directory");
        let upstream = match (&setup.example, setup.upstream) {
            (None, None) => Some(Upstream::start().await),
            _ => None,
        };
        let upstream_address = setup.upstream.or(upstream.as_ref().map(Upstream::address));

        let mut config = bootstrap(&setup, upstream_address, &files.path().join("access.log"));
        if setup.dynamic {
            let path = files.path().join("lds.json");
            let listeners = move_listeners_out(&mut config, &path);
            std::fs::write(path, listeners.to_string()).expect("a file written");
        }
        let file = files.path().join("envoy.json");
        std::fs::write(&file, config.to_string()).expect("a file written");

        let mut environment = match setup.clock_ahead {
            0 => Vec::new(),
            seconds => clock::ahead(seconds, files.path()),
        };
        if setup.example.is_some() {
            environment.extend(setup.environment.iter().cloned());
        }
        let (process, admin) = Process::start(
            &file,
            setup.workers,
            &setup.log_level,
            &environment,
            files.path(),
        )
        .await?;
        let address = admin.listener(LISTENER).await;
        Ok(Self {
            process: Mutex::new(process),
            admin,
            address,
            upstream,
            upstream_address,
            setup,
            files,
        })
    }

    /// Where the gateway listens.
    ///
    /// # Panics
    ///
    /// When it does not: a dynamic one whose first configuration was refused.
    pub fn address(&self) -> SocketAddr {
        self.address
            .unwrap_or_else(|| panic!("the gateway does not listen:\n{}", self.logs()))
    }

    /// The upstream that the gateway started.
    ///
    /// # Panics
    ///
    /// When the setup named another one, or is an example, which has one of its own.
    pub fn upstream(&self) -> &Upstream {
        self.upstream.as_ref().expect("an upstream of its own")
    }

    /// A request to this path, which goes out as written.
    pub fn request(&self, method: Method, path: &str) -> Ask {
        Ask::new(self.address(), method, path)
    }

    /// A GET.
    pub fn get(&self, path: &str) -> Ask {
        self.request(Method::GET, path)
    }

    /// A HEAD.
    pub fn head(&self, path: &str) -> Ask {
        self.request(Method::HEAD, path)
    }

    /// A POST.
    pub fn post(&self, path: &str) -> Ask {
        self.request(Method::POST, path)
    }

    /// A connection for bytes that are no HTTP, or very odd HTTP.
    pub async fn raw(&self) -> RawConnection {
        RawConnection::open(self.address()).await
    }

    /// A gRPC connection.
    pub async fn grpc(&self) -> GrpcClient {
        GrpcClient::connect(self.address()).await
    }

    /// Sends all these requests as fast as it can, so many at a time: over that many connections by HTTP/1.1, as that
    /// many streams of one connection by HTTP/2. The first request says which, and from which address.
    pub async fn volley(&self, at_a_time: usize, asks: impl IntoIterator<Item = Ask>) -> Volley {
        Volley::fire(self.address(), at_a_time, asks.into_iter().collect()).await
    }

    /// Gives the running Envoy a new Tollgate configuration, and waits until all its workers use it. Connections made
    /// before may still be served by the old one.
    ///
    /// # Errors
    ///
    /// When Envoy refuses it; the old configuration goes on.
    ///
    /// # Panics
    ///
    /// When the setup is not [`Setup::dynamic`].
    pub async fn reconfigure(
        &self,
        configuration: impl Into<Configuration>,
    ) -> Result<(), Refused> {
        assert!(
            self.setup.dynamic,
            "only a Setup::dynamic() can be reconfigured"
        );
        let setup = Setup {
            configuration: configuration.into(),
            ..self.setup.clone()
        };
        let path = self.files.path().join("lds.json");
        let mut config = bootstrap(
            &setup,
            self.upstream_address,
            &self.files.path().join("access.log"),
        );
        let listeners = move_listeners_out(&mut config, &path);
        self.push(&path, &listeners).await
    }

    async fn push(&self, path: &PathBuf, listeners: &Value) -> Result<(), Refused> {
        let count = async |name: &str| {
            self.admin
                .stat(&format!("listener_manager.{name}"))
                .await
                .unwrap_or(0)
        };
        let accepted = count("lds.update_success").await;
        let rejected = count("lds.update_rejected").await;
        let changed = count("listener_modified").await + count("listener_added").await;
        let on_workers = count("listener_create_success").await;
        let logged = self.logs().len();

        // Envoy sees files that are moved into place.
        let new = path.with_extension("new");
        std::fs::write(&new, listeners.to_string()).expect("a file written");
        std::fs::rename(&new, path).expect("a file renamed");

        let taken = eventually("Envoy reads the new configuration", PATIENCE, async || {
            if count("lds.update_rejected").await > rejected {
                return Some(false);
            }
            (count("lds.update_success").await > accepted).then_some(true)
        });
        if !taken.await {
            return Err(Refused {
                logs: self.logs().split_off(logged),
            });
        }
        if count("listener_modified").await + count("listener_added").await > changed {
            let wanted = on_workers + u64::from(self.setup.workers);
            eventually(
                "every worker uses the new configuration",
                PATIENCE,
                async || (count("listener_create_success").await >= wanted).then_some(()),
            )
            .await;
        }
        Ok(())
    }

    /// The metrics, as Prometheus would read them now.
    pub async fn stats(&self) -> Stats {
        self.admin.prometheus().await
    }

    /// One of Envoy's own counters or gauges by its full name, such as `wasm.envoy.wasm.runtime.v8.active`; none
    /// while Envoy has not made it.
    pub async fn stat(&self, name: &str) -> Option<u64> {
        self.admin.stat(name).await
    }

    /// How often the filter has trapped: what went wrong, and where, one text for each.
    pub fn traps(&self) -> Vec<String> {
        let logs = self.logs();
        let traps = logs
            .lines()
            .filter(|line| line.contains("[wasm]") && line.contains("Function: "));
        traps.map(ToOwned::to_owned).collect()
    }

    /// How often Envoy has put a new VM in the place of one that had trapped. It does so when a request comes, and
    /// no sooner than a second after the trap.
    pub async fn vm_reloads(&self) -> u64 {
        self.admin
            .stat("wasm.tollgate.vm_reload_success")
            .await
            .unwrap_or(0)
    }

    /// Envoy's memory now.
    pub async fn memory(&self) -> Memory {
        self.admin.memory().await
    }

    /// Where Envoy's admin interface listens.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin.0
    }

    /// What any page of Envoy's admin interface says.
    pub async fn admin(&self, path: &str) -> String {
        self.admin
            .get(path)
            .await
            .unwrap_or_else(|error| panic!("Envoy's admin interface: {error}"))
    }

    /// Everything that Envoy and the filter have logged so far.
    pub fn logs(&self) -> String {
        self.process.lock().unwrap().logs()
    }

    /// Waits until a line that contains this has been logged, and gives the line.
    pub async fn logged(&self, text: &str) -> String {
        eventually(&format!("{text:?} in the log"), PATIENCE, async || {
            self.logs()
                .lines()
                .find(|line| line.contains(text))
                .map(ToOwned::to_owned)
        })
        .await
    }

    /// Waits until so many requests have ended, and gives the whole access log.
    pub async fn access_log(&self, requests: usize) -> Vec<LogLine> {
        let path = self.files.path().join("access.log");
        eventually(
            &format!("{requests} lines in the access log"),
            PATIENCE,
            async || {
                let lines = LogLine::parse(&std::fs::read_to_string(&path).unwrap_or_default());
                (lines.len() >= requests).then_some(lines)
            },
        )
        .await
    }

    /// Kills Envoy as a crash would: with no word to anybody, and its connections cut.
    pub fn kill(&self) {
        self.process.lock().unwrap().kill();
    }

    /// Whether Envoy still runs.
    pub fn is_alive(&self) -> bool {
        self.process.lock().unwrap().is_alive()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // `try_lock`: the panic may have come from under the lock.
            let logs = self
                .process
                .try_lock()
                .map(|process| process.logs())
                .unwrap_or_default();
            eprintln!("--- Envoy's log ---\n{logs}--- end of Envoy's log ---");
        }
    }
}
