//! One worker: an instance of the filter.
//!
//! This file owns entering the guest and what happens after it returns. What is played is below:
//! configurations, ticks and queues in `vm/roots.rs`, streams in `vm/streams.rs`, calls in
//! `vm/calls.rs`.

use std::collections::BTreeSet;
use std::fmt;

use wasmi::{Linker, Module, Store, TypedFunc, WasmParams, WasmResults};

use crate::state::{Deferred, State};
use crate::{Call, LogLine, Outcome, Trap};

mod calls;
mod exports;
mod flow;
mod roots;
mod streams;

use exports::Exports;

/// The last log lines a trap carries.
const LINES_OF_A_TRAP: usize = 8;
/// So many rounds of queue notices and calls mean that the guest never comes to rest.
const ROUNDS_TO_REST: usize = 100_000;

/// Something the guest asked for that a real host does not forgive, though it may look harmless here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Misuse {
    /// The context it was asked for.
    pub stream: u32,
    /// What it was.
    pub what: &'static str,
}

type Backend = Box<dyn FnMut(&Call) -> Outcome + Send>;

/// One worker's VM. It can be moved to a thread of its own; its process's shared data, queues and
/// metrics go with it.
pub struct Vm {
    store: Store<State>,
    exports: Exports,
    /// The root context that new streams belong to.
    root: Option<u32>,
    last_context: u32,
    trap: Option<Trap>,
    draining: bool,
    most_deferred: usize,
    backend: Option<Backend>,
    metered: bool,
}

impl fmt::Debug for Vm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vm")
            .field("root", &self.root)
            .field("streams", &self.store.data().streams)
            .field("calls", &self.store.data().calls)
            .field("trap", &self.trap)
            .finish_non_exhaustive()
    }
}

impl Vm {
    pub(crate) fn start(
        linker: &Linker<State>,
        module: &Module,
        state: State,
    ) -> Result<Self, Trap> {
        let metered = state.shared.options.metered;
        let mut store = Store::new(linker.engine(), state);
        if metered {
            store.set_fuel(u64::MAX).expect("fuel is metered");
        }
        let instance = linker
            .instantiate_and_start(&mut store, module)
            .map_err(|error| Trap {
                function: "start",
                message: error.to_string(),
                logs: Vec::new(),
            })?;
        let exports = Exports::of(&store, &instance);
        store.data_mut().memory = instance.get_memory(&store, "memory");
        store.data_mut().allocate = exports.allocate;
        let mut vm = Self {
            store,
            exports,
            root: None,
            last_context: 0,
            trap: None,
            draining: false,
            most_deferred: 0,
            backend: None,
            metered,
        };
        vm.enter(0, vm.exports.initialize, ())?;
        Ok(vm)
    }

    /// The lines logged so far, oldest first; only the last ones are kept (see
    /// [`Options::log_lines`](crate::Options::log_lines)).
    pub fn logs(&self) -> impl Iterator<Item = &LogLine> {
        self.store.data().logs.iter()
    }

    /// Takes the lines logged so far.
    pub fn take_logs(&mut self) -> Vec<LogLine> {
        self.store.data_mut().logs.drain(..).collect()
    }

    /// Why the VM is dead, if it is.
    pub fn trap(&self) -> Option<&Trap> {
        self.trap.as_ref()
    }

    /// What the guest did that a real host does not forgive: replying and resuming, resuming what is
    /// not paused, replying twice, and the like.
    pub fn misuses(&self) -> &[Misuse] {
        &self.store.data().misuses
    }

    /// The stubs the guest called, as (module, name): functions this host does not serve.
    pub fn unserved_calls(&self) -> &BTreeSet<(String, String)> {
        &self.store.data().unserved_calls
    }

    /// The most replies and resumptions any single callback asked for. Envoy nests each on its stack:
    /// about 300 kill the VM.
    pub fn peak_fan_out(&self) -> usize {
        self.most_deferred
    }

    /// The guest's instructions so far, in fuel; `None` if the process is not metered.
    pub fn fuel_used(&self) -> Option<u64> {
        let left = self.metered.then(|| self.store.get_fuel())?;
        Some(u64::MAX - left.expect("fuel is metered"))
    }

    /// The size of the guest's memory in bytes: it never shrinks.
    pub fn memory_bytes(&self) -> usize {
        let memory = self.store.data().memory;
        memory.map_or(0, |memory| memory.data_size(&self.store))
    }

    fn alive(&self) -> Result<(), Trap> {
        self.trap.clone().map_or(Ok(()), Err)
    }

    fn next_context(&mut self) -> u32 {
        self.last_context += 1;
        self.last_context
    }

    /// Calls an export in a context; `None` if the guest does not have it.
    fn enter<P: WasmParams, R: WasmResults>(
        &mut self,
        context: u32,
        export: exports::Export<P, R>,
        args: P,
    ) -> Result<Option<R>, Trap> {
        self.alive()?;
        let state = self.store.data_mut();
        state.replied = false;
        let (name, Some(func)) = (export.name, export.func) else {
            return Ok(None);
        };
        state.context = context;
        state.effective = context;
        state.callback = name;
        let before = state.deferred.len();
        let result = TypedFunc::call(&func, &mut self.store, args);
        let state = self.store.data();
        self.most_deferred = self.most_deferred.max(state.deferred.len() - before);
        result
            .map(Some)
            .map_err(|error| self.die(name, error.to_string()))
    }

    fn die(&mut self, function: &'static str, message: String) -> Trap {
        let logs = &self.store.data().logs;
        let from = logs.len().saturating_sub(LINES_OF_A_TRAP);
        let trap = Trap {
            function,
            message,
            logs: logs.iter().skip(from).cloned().collect(),
        };
        self.store.data_mut().deferred.clear();
        self.trap.insert(trap).clone()
    }

    /// Does what the guest asked for during its last callbacks, and what it asks for meanwhile.
    fn drain(&mut self) -> Result<(), Trap> {
        if self.draining {
            return Ok(());
        }
        self.draining = true;
        let done = self.drain_all();
        self.draining = false;
        done
    }

    fn drain_all(&mut self) -> Result<(), Trap> {
        while let Some(deferred) = self.store.data_mut().deferred.pop_front() {
            match deferred {
                Deferred::Reply(id, reply) => self.reply(id, reply)?,
                Deferred::Resume(id, side) => self.resume(id, side)?,
                Deferred::Reset(id) => self.reset(id)?,
                Deferred::RootDone(id) => self.delete_root(id)?,
            }
        }
        Ok(())
    }
}
