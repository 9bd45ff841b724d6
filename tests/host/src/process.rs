//! One proxy process: the compiled filter and what its VMs (workers) share.
//!
//! Never calls the guest; that is for [`Vm`].

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use wasmi::{CompilationMode, Config, Engine, Linker, Module};

use crate::metrics::Metrics;
use crate::queues::Queues;
use crate::state::State;
use crate::{Metric, SharedData, Trap, Vm, abi};

mod options;
pub use options::Options;

/// 2026-01-01T00:00:00Z in nanoseconds since the epoch: where virtual time starts.
pub(crate) const START: u64 = 1_767_225_600_000_000_000;

/// Whether a call to an upstream can leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upstream {
    /// Calls are dispatched; the test says what becomes of them.
    Up,
    /// Dispatching fails at once: no endpoint, or an open circuit breaker.
    Down,
}

/// Why a module cannot be hosted.
#[derive(Debug)]
pub struct LoadError(String);

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the module cannot be hosted: {}", self.0)
    }
}

impl std::error::Error for LoadError {}

/// What all VMs of a process reach.
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) now: AtomicU64,
    pub(crate) data: SharedData,
    pub(crate) queues: Mutex<Queues>,
    pub(crate) metrics: Mutex<Metrics>,
    pub(crate) upstreams: Mutex<HashMap<Vec<u8>, Upstream>>,
}

impl Shared {
    pub(crate) fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }
}

/// One proxy: compile once, then make as many VMs of it as it has workers.
pub struct Process {
    module: Module,
    linker: Linker<State>,
    shared: Arc<Shared>,
    vms: AtomicUsize,
    unserved: Vec<(String, String)>,
}

impl Process {
    /// A process with the default [`Options`].
    ///
    /// # Errors
    ///
    /// If `wasm` is no valid module or not one for Proxy-Wasm 0.2.
    pub fn new(wasm: &[u8]) -> Result<Self, LoadError> {
        Self::with(wasm, Options::new())
    }

    /// A process with these options.
    ///
    /// # Errors
    ///
    /// If `wasm` is no valid module or not one for Proxy-Wasm 0.2.
    pub fn with(wasm: &[u8], options: Options) -> Result<Self, LoadError> {
        let mut config = Config::default();
        config.consume_fuel(options.metered);
        if options.metered {
            // Compiling lazily would charge the first call of each function with its compilation.
            config.compilation_mode(CompilationMode::Eager);
        }
        let engine = Engine::new(&config);
        let module = Module::new(&engine, wasm).map_err(|error| LoadError(error.to_string()))?;
        if !module
            .exports()
            .any(|export| export.name().starts_with("proxy_abi_version_0_2_"))
        {
            return Err(LoadError("it exports no proxy_abi_version_0_2_*".into()));
        }
        let mut linker = Linker::new(&engine);
        let unserved = abi::link(&mut linker, &module);
        Ok(Self {
            module,
            linker,
            shared: Arc::new(Shared {
                now: AtomicU64::new(options.start),
                data: SharedData::default(),
                queues: Mutex::default(),
                metrics: Mutex::default(),
                upstreams: Mutex::default(),
                options,
            }),
            vms: AtomicUsize::new(0),
            unserved,
        })
    }

    /// One more worker's VM, not configured yet.
    ///
    /// # Errors
    ///
    /// If the guest traps while it initialises.
    pub fn vm(&self) -> Result<Vm, Trap> {
        let index = self.vms.fetch_add(1, Ordering::Relaxed);
        let state = State::new(Arc::clone(&self.shared), index);
        Vm::start(&self.linker, &self.module, state)
    }

    /// Whether the filter accepts `config`, tried on a VM of its own, as Envoy tries an update before
    /// any worker sees it. What that VM did to the shared data stays done.
    ///
    /// # Errors
    ///
    /// If the guest traps.
    pub fn accepts(&self, config: &[u8]) -> Result<bool, Trap> {
        self.vm()?.configure(config)
    }

    /// Virtual time in nanoseconds since the epoch.
    pub fn now(&self) -> u64 {
        self.shared.now()
    }

    /// Sets virtual time, in nanoseconds since the epoch; it may go backwards.
    pub fn set_now(&self, now: u64) {
        self.shared.now.store(now, Ordering::Relaxed);
    }

    /// Lets virtual time pass. Nothing runs by itself: see [`Vm::tick`] and [`Vm::expire_calls`].
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).expect("less than 584 years");
        self.shared.now.fetch_add(by, Ordering::Relaxed);
    }

    /// Makes an upstream known to the process; calls to unknown ones fail at once.
    pub fn upstream(&self, name: &str, state: Upstream) {
        let name = name.as_bytes().to_vec();
        self.shared.upstreams.lock().unwrap().insert(name, state);
    }

    /// The data the VMs of this process share.
    pub fn shared_data(&self) -> &SharedData {
        &self.shared.data
    }

    /// All metrics the guest defined, in order of definition.
    pub fn metrics(&self) -> Vec<Metric> {
        self.shared.metrics.lock().unwrap().all().to_vec()
    }

    /// The metric of that name; `None` if the guest never defined it.
    pub fn metric(&self, name: &str) -> Option<Metric> {
        let metrics = self.shared.metrics.lock().unwrap();
        metrics.all().iter().find(|m| m.name == name).cloned()
    }

    /// Imports of the module that this host links as stubs answering UNIMPLEMENTED.
    pub fn unserved(&self) -> &[(String, String)] {
        &self.unserved
    }
}
