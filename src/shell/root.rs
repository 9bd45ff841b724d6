//! The configuration's life on the proxy, and what all its requests share.

use std::cell::{Cell, RefCell, RefMut};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use fastrand::Rng;
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::ContextType;
use tollgate_config::{Config, Millis, StoreKind};

use super::gauges::Gauges;
use super::host::{self, SharedMemory};
use super::http::{Life, Stream};
use super::remote::{Put, Remote, SERVED};
use super::signs;
use crate::desk::Answer;
use crate::flow::{Event, Question, Told};
use crate::held::{End, Grantor, Held};
use crate::metrics::Counter;
use crate::passes::Passes;
use crate::rules::Rules;
use crate::store::local::known::Barred;
use crate::store::local::{Local, PAGE_SIZE};
use crate::store::{Ask, Store as _, Toll};

/// Errors of a configuration that are logged one by one.
const LOGGED: usize = 1000;

/// How often the root is called.
const TICK: Millis = Millis(250);

/// A body that has not begun by then is not waited for.
const BODY_BEGINS_WITHIN: Millis = Millis(5000);

/// What the local store is to be told at most, when it is contended.
const MOST_UNTOLD: usize = 4096;

/// What the requests of one configuration share.
#[derive(Debug)]
pub(super) struct Shared {
    /// The rules in force.
    pub(super) rules: Rules,
    /// The local store; with a remote one, the degraded limiter and the boxes that this node knows.
    local: RefCell<Local<SharedMemory>>,
    /// The store behind a front, where there is one.
    pub(super) remote: Option<Remote>,
    /// How far the store's clock is ahead, in milliseconds.
    store_ahead: Cell<i64>,
    gauges: Gauges,
    random: RefCell<Rng>,
    passes: RefCell<Passes>,
    /// Requests that were let through and hold something, by their streams.
    holders: RefCell<HashMap<u32, Rc<Life>>>,
    /// Requests whose body is waited for and has not begun, by their streams, and since when.
    readers: RefCell<HashMap<u32, (Rc<Life>, Millis)>>,
    /// What the local store was too contended to be told.
    untold: RefCell<VecDeque<Told>>,
    root: u32,
}

impl Shared {
    fn new(rules: Rules, root: u32) -> Self {
        let memory = rules.config.store.memory;
        let secret = [host::random(), host::random()];
        let remote = match &rules.config.store.kind {
            StoreKind::Local => None,
            StoreKind::Redis(redis) => Some(Remote::new(redis, root)),
        };
        Self {
            rules,
            local: RefCell::new(Local::open(SharedMemory, memory, PAGE_SIZE, secret)),
            remote,
            store_ahead: Cell::new(0),
            gauges: Gauges::default(),
            random: RefCell::new(Rng::with_seed(host::random())),
            passes: RefCell::default(),
            holders: RefCell::default(),
            readers: RefCell::default(),
            untold: RefCell::default(),
            root,
        }
    }

    /// A number that nobody can guess cheaply and that need not be secret.
    pub(super) fn nonce(&self) -> u64 {
        self.random.borrow_mut().u64(..)
    }

    /// Requests whose streams ended without a response, in this turn.
    pub(super) fn passes(&self) -> RefMut<'_, Passes> {
        self.passes.borrow_mut()
    }

    /// Asks for a request: the answer, or none yet.
    pub(super) fn ask(
        &self,
        life: &Rc<Life>,
        question: &Question,
        now: Millis,
    ) -> Option<Event<'static>> {
        let mut local = self.local.borrow_mut();
        let decided = |(verdict, toll)| Event::Decided(verdict, toll, now);
        match (question, &self.remote) {
            (Question::Decide(ask), None) | (Question::Degraded(ask), _) => {
                Some(decided(local.decide(ask, now)))
            }
            (Question::Lockout(ask), None) => Some(Event::Lockout(local.lockout(ask, now), now)),
            (Question::Lockout(ask), Some(remote)) => {
                let known = local.known(ask, now, remote.is_failing());
                Some(Event::Lockout(known, now))
            }
            (Question::Decide(ask), Some(remote)) => {
                if let Some(known) = local.recall(ask, now) {
                    if known.fresh || remote.is_failing() {
                        let until = self.by_store(known.barred.lockout().until);
                        let verdict = known.barred.until(until).verdict();
                        let at = self.by_store(now);
                        return Some(Event::Decided(verdict, Toll::default(), at));
                    }
                    life.doubts_box.set(true);
                }
                let put = remote.ask(life, ask, now);
                self.tell();
                match put {
                    Put::Waiting => None,
                    Put::Failed => Some(Event::StoreFailed(now)),
                }
            }
        }
    }

    /// Has a request that holds something told of the time, until it is [let go](Self::let_go).
    pub(super) fn hold(&self, life: &Rc<Life>) {
        self.holders.borrow_mut().insert(life.id, Rc::clone(life));
    }

    /// The body of a request is waited for.
    pub(super) fn read(&self, life: &Rc<Life>, now: Millis) {
        let mut readers = self.readers.borrow_mut();
        readers.insert(life.id, (Rc::clone(life), now));
    }

    /// Some of a body has come, or its stream is over.
    pub(super) fn was_read(&self, life: &Life) {
        let mut readers = self.readers.borrow_mut();
        if !readers.is_empty() {
            readers.remove(&life.id);
        }
    }

    /// Ends the wait for bodies that do not come: a host may keep them back.
    fn give_up_bodies(&self, now: Millis) {
        let late = |(_, (_, since)): &(&u32, &(Rc<Life>, Millis))| {
            now.since(*since) >= BODY_BEGINS_WITHIN || *since > now
        };
        let readers = self.readers.borrow();
        let late: Vec<Rc<Life>> = readers
            .iter()
            .filter(late)
            .take(SERVED)
            .map(|(_, (life, _))| Rc::clone(life))
            .collect();
        drop(readers);
        if late.is_empty() {
            return;
        }
        log::error!(
            "{} requests were answered unread: nothing of their bodies came within {} ms. A route that reads bodies (lock by json, subjects by form or json) \
             needs allow_on_headers_stop_iteration: true in the filter's configuration in Envoy",
            late.len(),
            BODY_BEGINS_WITHIN.0
        );
        for life in late {
            self.was_read(&life);
            if host::be(life.id).is_ok() {
                life.no_body();
            }
        }
        if host::be(self.root).is_err() {
            log::error!("the proxy lost the filter's root");
        }
    }

    /// A stream is over.
    pub(super) fn let_go(&self, life: &Life) {
        let mut holders = self.holders.borrow_mut();
        // Most hold nothing; even to look is not free.
        if !holders.is_empty() {
            holders.remove(&life.id);
        }
    }

    /// Tells whoever granted something for how long it is held on.
    pub(super) fn tell_grantor(&self, told: Told, now: Millis) {
        match (&self.remote, told.grantor) {
            (Some(remote), Grantor::Store) => remote.keep(&told.ask, told.keep, now),
            _ => self.tell_local(told, now),
        }
    }

    fn tell_local(&self, mut told: Told, now: Millis) {
        let mut untold = self.untold.borrow_mut();
        let id = |told: &Told| told.ask.wanted.as_ref().map(|wanted| wanted.id);
        if let Some(place) = untold.iter().position(|other| id(other) == id(&told))
            && let Some(earlier) = untold.remove(place)
        {
            told.keep = earlier.keep.then(told.keep);
        }
        let Some(kept) = self.local.borrow().keep(&told.ask, told.keep, now) else {
            untold.push_back(told);
            if untold.len() > MOST_UNTOLD {
                untold.pop_front();
                self.count(Counter::OutboxDropped, 1);
            }
            return;
        };
        for sign in &kept.signs {
            signs::tell(&self.rules, &self.gauges, &told.ask, sign);
        }
    }

    /// Ends what requests hold whose streams are over and that nobody continued.
    pub(super) fn end_parked(&self, now: Millis) {
        let parked: Vec<Held> = self.passes().take_held().collect();
        for held in parked {
            let told = Told::of(&held, held.end(End::Aborted, now));
            for failure in told.failures() {
                self.count(failure, 1);
            }
            self.tell_grantor(told, now);
        }
    }

    /// Time went by.
    fn tick(&self, now: Millis) {
        self.end_parked(now);
        self.give_up_bodies(now);
        let untold = self.untold.take();
        for told in untold {
            self.tell_local(told, now);
        }
        let holders: Vec<Rc<Life>> = self.holders.borrow().values().cloned().collect();
        for life in holders {
            life.tick(now);
        }
    }

    /// The event that an answer of the store is. A box or a lockout is kept in mind.
    /// `doubted`: this node remembers one that may have been released.
    pub(super) fn heard(
        &self,
        ask: Option<&Ask>,
        doubted: bool,
        answer: Answer,
        now: Millis,
    ) -> Event<'static> {
        let (verdict, at) = match answer {
            Answer::Failed(_) => return Event::StoreFailed(now),
            Answer::Decided(verdict, at) => (verdict, at),
        };
        let ahead = i128::from(at.0) - i128::from(now.0);
        self.store_ahead.set(i64::try_from(ahead).unwrap_or(0));
        let local = self.local.borrow();
        let toll = match (Barred::of(&verdict), ask) {
            (Some(barred), Some(ask)) => {
                // By this node's clock.
                let until = now.plus(barred.lockout().until.since(at));
                local.remember(ask, barred.until(until), now)
            }
            (None, Some(ask)) if doubted => local.forget(ask, now),
            _ => Toll::default(),
        };
        Event::Decided(verdict, toll, at)
    }

    /// A time of this node's as the store's clock has it, so that a box is told to end at the same time
    /// by every node.
    fn by_store(&self, at: Millis) -> Millis {
        Millis(at.0.saturating_add_signed(self.store_ahead.get()))
    }

    /// Counts.
    pub(super) fn count(&self, counter: Counter, by: u64) {
        self.gauges.count(&self.rules.config, counter, by);
    }

    /// Counts and logs what the desk noticed.
    pub(super) fn tell(&self) {
        if let Some(remote) = &self.remote {
            remote.tell(&self.rules, &self.gauges);
        }
    }

    /// The root was called by its queue or the clock.
    fn woken(&self, by_queue: bool) {
        let now = host::now();
        if by_queue {
            self.end_parked(now);
        } else {
            self.tick(now);
        }
        if let Some(remote) = &self.remote {
            remote.woken(by_queue, now);
            self.tell();
        }
    }
}

/// The root of one configuration.
#[derive(Debug)]
pub(super) struct Root {
    id: u32,
    shared: Option<Rc<Shared>>,
}

impl Root {
    pub(super) const fn new(id: u32) -> Self {
        Self { id, shared: None }
    }
}

impl Context for Root {
    fn on_http_call_response(&mut self, token: u32, _: usize, body_size: usize, _: usize) {
        let Some(shared) = &self.shared else { return };
        if let Some(remote) = &shared.remote {
            remote.returned(token, body_size);
            shared.tell();
        }
    }

    fn on_done(&mut self) -> bool {
        if let Some(shared) = &self.shared {
            let now = host::now();
            shared.end_parked(now);
            if let Some(remote) = &shared.remote {
                remote.last_words(now);
                remote.count_as_degraded(&shared.gauges, false);
            }
        }
        true
    }
}

impl RootContext for Root {
    fn on_configure(&mut self, size: usize) -> bool {
        let bytes = host::configuration(size);
        match Config::parse(&bytes, &|name| std::env::var(name).ok()) {
            Ok(config) => {
                for warning in &config.warnings {
                    log::warn!("configuration: {warning}");
                }
                self.shared = Some(Rc::new(Shared::new(Rules::new(config), self.id)));
                if let Err(status) = host::tick_every(TICK) {
                    log::error!("the proxy refused a tick: {status:?}");
                }
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

    fn on_queue_ready(&mut self, _: u32) {
        if let Some(shared) = &self.shared {
            shared.woken(true);
        }
    }

    fn on_tick(&mut self) {
        if let Some(shared) = &self.shared {
            shared.woken(false);
        }
    }

    fn create_http_context(&self, id: u32) -> Option<Box<dyn HttpContext>> {
        let shared = Rc::clone(self.shared.as_ref()?);
        Some(Box::new(Stream::new(shared, id)))
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}
