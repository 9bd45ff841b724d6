//! What a gateway should be like. Owns the description, in the words of a story; `bootstrap` makes Envoy's out of it.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::example::{self, tollgates};

/// How the filter's configuration is handed over.
#[derive(Debug, Clone)]
pub enum Configuration {
    /// A `StringValue` that holds this as JSON.
    Json(Value),
    /// A `google.protobuf.Struct`: what native YAML in an envoy.yaml becomes.
    Struct(Value),
    /// A `StringValue` that holds this text, whatever it is.
    Text(String),
}

impl Configuration {
    /// From YAML, to be handed over as JSON.
    ///
    /// # Panics
    ///
    /// When it is not YAML; that is [`Configuration::Text`].
    pub fn yaml(yaml: &str) -> Self {
        Self::Json(parse(yaml))
    }

    /// From YAML, to be handed over as a Struct.
    ///
    /// # Panics
    ///
    /// When it is not YAML.
    pub fn yaml_struct(yaml: &str) -> Self {
        Self::Struct(parse(yaml))
    }
}

impl From<&str> for Configuration {
    fn from(yaml: &str) -> Self {
        Self::yaml(yaml)
    }
}

pub(crate) fn parse(yaml: &str) -> Value {
    serde_yaml_ng::from_str(yaml).unwrap_or_else(|error| panic!("{error} in:\n{yaml}"))
}

/// The cluster that [`Setup::front`] makes.
const FRONT: &str = "redis-front";

#[derive(Debug, Clone)]
pub(crate) enum Filter {
    Shipped,
    At(PathBuf),
    None,
}

type Tweak = Arc<dyn Fn(&mut Value) + Send + Sync>;

/// A gateway to be started: Envoy with Tollgate between its clients and its upstream.
///
/// It starts with one worker, the filter of `dist/tollgate.wasm`, a listener that cannot be changed, an upstream of
/// its own, and the shipped `stats_tags`.
#[derive(Clone)]
#[must_use = "a setup does nothing until a gateway is started from it"]
pub struct Setup {
    pub(crate) example: Option<Value>,
    pub(crate) filter: Filter,
    pub(crate) configuration: Configuration,
    pub(crate) workers: u32,
    pub(crate) dynamic: bool,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) upstream: Option<SocketAddr>,
    pub(crate) clusters: Vec<(String, SocketAddr)>,
    pub(crate) before: Vec<Value>,
    pub(crate) after: Vec<Value>,
    pub(crate) hcm: Vec<Tweak>,
    pub(crate) tweaks: Vec<Tweak>,
    pub(crate) log_level: String,
    pub(crate) clock_ahead: i64,
    pub(crate) waits_for_bodies: bool,
}

impl Setup {
    /// With this Tollgate configuration: YAML in a `&str`, or a [`Configuration`].
    pub fn new(configuration: impl Into<Configuration>) -> Self {
        Self {
            example: None,
            filter: Filter::Shipped,
            configuration: configuration.into(),
            workers: 1,
            dynamic: false,
            environment: Vec::new(),
            upstream: None,
            clusters: Vec::new(),
            before: Vec::new(),
            after: Vec::new(),
            hcm: Vec::new(),
            tweaks: Vec::new(),
            log_level: "info".to_owned(),
            clock_ahead: 0,
            waits_for_bodies: false,
        }
    }

    /// Envoy alone, without any filter.
    pub fn without_filter() -> Self {
        Self {
            filter: Filter::None,
            ..Self::new("{}")
        }
    }

    /// As the shipped bootstrap `envoy/FILE` says, with the demo API in it. Only its ports are others.
    ///
    /// Its filters and their configuration are the file's. [`Setup::upstream`] stands for its cluster `api`,
    /// [`Setup::cluster`] for the one of that name or for a further one, and the environment is Envoy's own.
    ///
    /// # Panics
    ///
    /// When there is no such file.
    pub fn example(file: &str) -> Self {
        Self {
            example: Some(example::read(file)),
            ..Self::new("{}")
        }
    }

    /// With a change to Tollgate's configuration as a shipped bootstrap has it, in each instance.
    pub fn rules(self, change: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        self.hcm(move |hcm| {
            for tollgate in tollgates(hcm) {
                change(&mut tollgate["configuration"]["value"]);
            }
        })
    }

    /// With another filter than the shipped one.
    pub fn wasm(mut self, file: impl AsRef<Path>) -> Self {
        self.filter = Filter::At(file.as_ref().to_owned());
        self
    }

    /// With this many worker threads, each with a VM of its own.
    pub fn workers(mut self, workers: u32) -> Self {
        self.workers = workers;
        self
    }

    /// With a listener that [`crate::Gateway::reconfigure`] can change while Envoy runs.
    ///
    /// Such an Envoy also starts with a configuration that the filter refuses: without a listener.
    pub fn dynamic(mut self) -> Self {
        self.dynamic = true;
        self
    }

    /// With a variable in the environment of the VM.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With this upstream instead of one that the gateway starts.
    pub fn upstream(mut self, address: SocketAddr) -> Self {
        self.upstream = Some(address);
        self
    }

    /// With a further cluster, for the filter's own calls.
    pub fn cluster(mut self, name: &str, address: SocketAddr) -> Self {
        self.clusters.push((name.to_owned(), address));
        self
    }

    /// With a front of Redis as cluster `redis-front`.
    pub fn front(self, address: SocketAddr) -> Self {
        self.cluster(FRONT, address)
    }

    /// With a clock that is ahead by these seconds, for the whole Envoy. Redis and the test keep the right time.
    pub fn clock_ahead(mut self, seconds: i64) -> Self {
        self.clock_ahead = seconds;
        self
    }

    /// With a filter that may keep the headers until it has read the body (`allow_on_headers_stop_iteration`).
    pub fn waits_for_bodies(mut self) -> Self {
        self.waits_for_bodies = true;
        self
    }

    /// With a further HTTP filter (YAML) before Tollgate.
    pub fn filter_before(mut self, yaml: &str) -> Self {
        self.before.push(parse(yaml));
        self
    }

    /// With a further HTTP filter (YAML) between Tollgate and the router.
    pub fn filter_after(mut self, yaml: &str) -> Self {
        self.after.push(parse(yaml));
        self
    }

    /// With a change to the listener's `HttpConnectionManager`.
    pub fn hcm(mut self, change: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        self.hcm.push(Arc::new(change));
        self
    }

    /// With a change to the whole bootstrap, the listener included; the last word.
    pub fn tweak(mut self, change: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        self.tweaks.push(Arc::new(change));
        self
    }

    /// With this log level of the filter instead of `info`; of Envoy itself, only warnings are logged.
    pub fn log_level(mut self, level: &str) -> Self {
        level.clone_into(&mut self.log_level);
        self
    }
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup")
            .field("filter", &self.filter)
            .field("configuration", &self.configuration)
            .field("workers", &self.workers)
            .field("dynamic", &self.dynamic)
            .finish_non_exhaustive()
    }
}
