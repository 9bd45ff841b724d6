//! What a test may choose about a process before it starts.

use crate::process::START;
use crate::{LogLevel, Personality};

/// How a [`Process`](crate::Process) is set up. Two processes with equal options behave equally.
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) env: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) seed: u64,
    pub(crate) metered: bool,
    pub(crate) personality: Personality,
    pub(crate) vm_configuration: Vec<u8>,
    pub(crate) properties: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) log_level: LogLevel,
    pub(crate) log_lines: usize,
    pub(crate) start: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            env: Vec::new(),
            seed: 1,
            metered: false,
            personality: Personality::default(),
            vm_configuration: Vec::new(),
            properties: Vec::new(),
            log_level: LogLevel::Info,
            log_lines: 1_000,
            start: START,
        }
    }
}

impl Options {
    /// Envoy, no environment, seed 1, not metered, log level info, time from 2026-01-01T00:00:00Z.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more environment variable of the VMs.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env
            .push((name.as_bytes().to_vec(), value.as_bytes().to_vec()));
        self
    }

    /// The seed of the guest's randomness; each VM draws a sequence of its own from it.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Counts the guest's instructions as fuel: see [`Vm::fuel_used`](crate::Vm::fuel_used).
    #[must_use]
    pub fn metered(mut self) -> Self {
        self.metered = true;
        self
    }

    /// Which host to be.
    #[must_use]
    pub fn personality(mut self, personality: Personality) -> Self {
        self.personality = personality;
        self
    }

    /// The VM's configuration, apart from the plugin's.
    #[must_use]
    pub fn vm_configuration(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.vm_configuration = bytes.as_ref().to_vec();
        self
    }

    /// A property readable everywhere, root contexts included (`["plugin_root_id"]`, `["node", "id"]`).
    #[must_use]
    pub fn property(mut self, path: &[&str], value: impl AsRef<[u8]>) -> Self {
        self.properties
            .push((path.join("\0").into_bytes(), value.as_ref().to_vec()));
        self
    }

    /// Lines below this level are dropped, and the guest is told so when it asks.
    #[must_use]
    pub fn log_level(mut self, level: LogLevel) -> Self {
        self.log_level = level;
        self
    }

    /// How many log lines a VM keeps; older ones go first.
    #[must_use]
    pub fn log_lines(mut self, lines: usize) -> Self {
        self.log_lines = lines;
        self
    }

    /// Virtual time at the start, in nanoseconds since the epoch.
    #[must_use]
    pub fn start(mut self, now: u64) -> Self {
        self.start = now;
        self
    }
}
