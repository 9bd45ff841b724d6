//! The configuration's life on the proxy, and what all its requests share.

use std::cell::{RefCell, RefMut};
use std::collections::HashMap;
use std::rc::Rc;

use fastrand::Rng;
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::ContextType;
use tollgate_config::{Config, Millis};

use super::host::{self, SharedMemory};
use super::http::Stream;
use crate::flow::{Event, Question};
use crate::metrics::Counter;
use crate::passes::Passes;
use crate::rules::Rules;
use crate::store::Store as _;
use crate::store::local::{Local, PAGE_SIZE};

/// Errors of a configuration that are logged one by one.
const LOGGED: usize = 1000;

/// What the requests of one configuration share.
#[derive(Debug)]
pub(super) struct Shared {
    /// The rules in force.
    pub(super) rules: Rules,
    store: RefCell<Local<SharedMemory>>,
    counters: RefCell<HashMap<Counter, Option<u32>>>,
    random: RefCell<Rng>,
    passes: RefCell<Passes>,
}

impl Shared {
    fn new(rules: Rules) -> Self {
        let memory = rules.config.store.memory;
        let secret = [host::random(), host::random()];
        Self {
            rules,
            store: RefCell::new(Local::open(SharedMemory, memory, PAGE_SIZE, secret)),
            counters: RefCell::default(),
            random: RefCell::new(Rng::with_seed(host::random())),
            passes: RefCell::default(),
        }
    }

    /// A number that nobody can guess cheaply and that need not be secret.
    pub(super) fn nonce(&self) -> u64 {
        self.random.borrow_mut().u64(..)
    }

    /// Requests that were let through and have no response yet.
    pub(super) fn passes(&self) -> RefMut<'_, Passes> {
        self.passes.borrow_mut()
    }

    /// Asks the store.
    pub(super) fn ask(&self, question: &Question, now: Millis) -> Event<'static> {
        let mut store = self.store.borrow_mut();
        match question {
            Question::Decide(ask) | Question::Degraded(ask) => {
                let (verdict, toll) = store.decide(ask, now);
                Event::Decided(verdict, toll, now)
            }
            Question::Lockout(ask) => Event::Lockout(store.lockout(ask, now), now),
        }
    }

    /// Counts.
    pub(super) fn count(&self, counter: Counter, by: u64) {
        let mut counters = self.counters.borrow_mut();
        let define = || {
            let name = counter.name(&self.rules.config);
            let defined = host::define_counter(&name);
            defined
                .inspect_err(|e| log::error!("metric {name} cannot be defined: {e:?}"))
                .ok()
        };
        if let Some(id) = *counters.entry(counter).or_insert_with(define)
            && let Err(error) = host::count(id, by)
        {
            log::error!("metric {id} cannot be counted: {error:?}");
        }
    }
}

/// The root of one configuration.
#[derive(Debug, Default)]
pub(super) struct Root {
    shared: Option<Rc<Shared>>,
}

impl Context for Root {}

impl RootContext for Root {
    fn on_configure(&mut self, size: usize) -> bool {
        let bytes = host::configuration(size);
        match Config::parse(&bytes, &|name| std::env::var(name).ok()) {
            Ok(config) => {
                for warning in &config.warnings {
                    log::warn!("configuration: {warning}");
                }
                self.shared = Some(Rc::new(Shared::new(Rules::new(config))));
                true
            }
            Err(errors) => {
                for error in errors.0.iter().take(LOGGED) {
                    log::error!("configuration refused: {error}");
                }
                let more = errors.0.len().saturating_sub(LOGGED);
                if more > 0 {
                    log::error!("configuration refused: and {more} more errors");
                }
                false
            }
        }
    }

    fn create_http_context(&self, _: u32) -> Option<Box<dyn HttpContext>> {
        let shared = Rc::clone(self.shared.as_ref()?);
        Some(Box::new(Stream::new(shared)))
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}
