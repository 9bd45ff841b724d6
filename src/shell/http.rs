//! One request on the proxy: callbacks to events, effects to host calls.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::{Action, Status};

use super::remote::Own;
use super::{host, root::Shared};
use tollgate_config::{Millis, Mode};

use crate::body::{Body, LARGEST};
use crate::desk::Answer;
use crate::flow::{Broke, Effect, Event, Flow, Trip};
use crate::metrics::VERDICT_PROPERTY;
use crate::passes::continues;
use crate::plan::Facts;
use crate::reply::wait::rfc3339;
use crate::response::Response;

/// One request, as the proxy calls it.
#[derive(Debug)]
pub(super) struct Stream {
    life: Rc<Life>,
}

/// One request, as whoever holds it can serve it: its own callbacks, or the root when its answer came.
#[derive(Debug)]
pub(super) struct Life {
    /// The context of its stream.
    pub(super) id: u32,
    /// The desk of its own, while it waits for a call of its own.
    pub(super) own: RefCell<Option<Own>>,
    /// This node remembers a box that may have been released.
    pub(super) doubts_box: Cell<bool>,
    shared: Rc<Shared>,
    flow: RefCell<Flow>,
}

impl Stream {
    pub(super) fn new(shared: Rc<Shared>, id: u32) -> Self {
        let life = Life {
            id,
            own: RefCell::new(None),
            doubts_box: Cell::new(false),
            shared,
            flow: RefCell::default(),
        };
        Self {
            life: Rc::new(life),
        }
    }
}

impl Life {
    /// The answer of the store came, in a callback of another context: this one is in effect.
    pub(super) fn answered(self: &Rc<Self>, answer: Answer, now: Millis) {
        let event = {
            let flow = self.flow.borrow();
            let doubted = self.doubts_box.get();
            self.shared.heard(flow.asked(), doubted, answer, now)
        };
        if let Some(Action::Continue) = self.play(event, now) {
            log_failure(host::resume());
        }
    }

    /// The head of the request came.
    fn arrived(self: &Rc<Self>, ends: bool) -> Action {
        let none = Body::NONE;
        self.with_facts(ends.then_some(&none), |facts| {
            let request = host::request();
            let shared = &self.shared;
            let continued = continues(&request).and_then(|id| shared.passes().resume(id));
            shared.end_parked(facts.now);
            Event::Headers(request, facts, continued)
        })
    }

    /// Some of the request's body is there, or all of it; `size` bytes, where that is known.
    fn body(self: &Rc<Self>, size: Option<usize>, ends: bool) -> Action {
        let too_large = size.is_some_and(|size| size > LARGEST);
        self.shared.was_read(self);
        if self.flow.borrow().is_reading() && (ends || too_large) {
            let body = match size {
                Some(_) if too_large => Body::TooLarge,
                _ => Body::of(host::request_body(LARGEST.saturating_add(1))),
            };
            #[expect(
                clippy::redundant_closure,
                reason = "the variant alone is of one lifetime"
            )]
            return self.with_facts(Some(&body), |facts| Event::Body(facts));
        }
        // A host that goes on with the body goes on with the headers that wait, too.
        if self.flow.borrow().is_waiting() {
            Action::Pause
        } else {
            Action::Continue
        }
    }

    /// Nothing of the body came in time, and it was waited for: this one is in effect.
    pub(super) fn no_body(self: &Rc<Self>) {
        #[expect(
            clippy::redundant_closure,
            reason = "the variant alone is of one lifetime"
        )]
        let action = self.with_facts(None, |facts| Event::NoBody(facts));
        if action == Action::Continue {
            log_failure(host::resume());
        }
    }

    /// Plays an event that is made of the facts.
    fn with_facts(
        self: &Rc<Self>,
        body: Option<&Body>,
        event: impl for<'f> FnOnce(Facts<'f>) -> Event<'f>,
    ) -> Action {
        let properties = |path: &[String]| host::property(path.iter().map(String::as_str));
        let source = || host::property(["source", "address"]).unwrap_or_default();
        let now = host::now();
        let event = event(Facts {
            now,
            properties: &properties,
            source: &source,
            body,
        });
        self.play(event, now).unwrap_or(Action::Continue)
    }

    /// The response's headers came.
    fn responded(self: &Rc<Self>) {
        let now = match self.flow.borrow().asks_status() {
            true => host::now(),
            false => Millis(0),
        };
        let response = Response::new(&host::response_header).with_details(&host::response_details);
        self.play(Event::ResponseHeaders(response, now), now);
    }

    /// The response's trailers came.
    fn trailed(self: &Rc<Self>) {
        if self.flow.borrow().awaits_trailers() {
            let (response, now) = (Response::new(&host::response_trailer), host::now());
            self.play(Event::ResponseTrailers(response, now), now);
        }
    }

    fn response_ended(self: &Rc<Self>) {
        if self.flow.borrow().holds() {
            self.play(Event::ResponseEnd, Millis(0));
        }
    }

    /// The stream is over.
    fn done(self: &Rc<Self>) {
        let (ends, asks) = {
            let flow = self.flow.borrow();
            (flow.ends(), flow.asks_who_broke())
        };
        if ends {
            let broke = match asks && host::upstream_broke() {
                true => Broke::Upstream,
                false => Broke::Client,
            };
            let now = host::now();
            self.play(Event::Done(broke, now), now);
            self.shared.tell();
        }
    }

    /// Time went by.
    pub(super) fn tick(self: &Rc<Self>, now: Millis) {
        if self.flow.borrow().is_due(now) {
            self.play(Event::Tick(now), now);
        }
    }

    /// Plays an event and all that follows from it. Says whether the request goes on or stops here;
    /// neither where nothing was decided about that.
    fn play(self: &Rc<Self>, event: Event<'_>, now: Millis) -> Option<Action> {
        let shared = &self.shared;
        let mut action = None;
        let mut effects = self.on(event);
        while !effects.is_empty() {
            let mut next = Vec::new();
            for effect in effects {
                let done = match effect {
                    Effect::Strip(name) => host::remove_request_header(&name),
                    Effect::AwaitBody => {
                        action = Some(Action::Pause);
                        shared.read(self, now);
                        Ok(())
                    }
                    Effect::Ask(question) => {
                        action = Some(Action::Pause);
                        if let Some(answer) = shared.ask(self, &question, now) {
                            next.extend(self.on(answer));
                        }
                        Ok(())
                    }
                    Effect::Note(verdict) => host::set_property(VERDICT_PROPERTY, verdict),
                    Effect::Count(counter, by) => {
                        shared.count(counter, by);
                        Ok(())
                    }
                    Effect::Trip(trip) => {
                        log_trip(shared, &trip);
                        Ok(())
                    }
                    Effect::Lend((name, value)) => host::set_request_header(name, &value),
                    Effect::Hold => {
                        shared.hold(self);
                        Ok(())
                    }
                    Effect::Tell(told) => {
                        shared.tell_grantor(told, now);
                        Ok(())
                    }
                    Effect::Park(parked) => {
                        shared.passes().park(parked);
                        Ok(())
                    }
                    Effect::Resume(_) => {
                        action = Some(Action::Continue);
                        Ok(())
                    }
                    Effect::Reply(reply) => {
                        action = Some(Action::Pause);
                        host::reply(&reply)
                    }
                    Effect::Respond(pass) => {
                        pass.fields.iter().try_for_each(host::set_response_header)
                    }
                };
                log_failure(done);
            }
            effects = next;
        }
        action
    }

    fn on(&self, event: Event<'_>) -> Vec<Effect> {
        let nonce = self.shared.nonce();
        self.flow.borrow_mut().on(&self.shared.rules, event, nonce)
    }
}

fn log_trip(shared: &Shared, trip: &Trip) {
    let shadow = match trip.mode {
        Mode::Enforce => "",
        Mode::Shadow => " (shadow: not carried out)",
    };
    let route = shared
        .rules
        .config
        .routes
        .get(trip.route.0)
        .map_or("", |r| r.name.as_str());
    let (whose, level) = (&trip.whose, trip.lockout.level);
    let until = rfc3339(trip.lockout.until);
    log::warn!("penalty box: {whose}, level {level} until {until}, at route {route}{shadow}");
}

fn log_failure(done: Result<(), Status>) {
    if let Err(status) = done {
        log::error!("the proxy refused a call: {status:?}");
    }
}

impl Context for Stream {
    fn on_http_call_response(&mut self, token: u32, _: usize, body_size: usize, _: usize) {
        let life = &self.life;
        let (Some(remote), Some(mut own)) = (&life.shared.remote, life.own.take()) else {
            return;
        };
        match remote.own_returned(&mut own, token, body_size) {
            Some(answer) => {
                remote.done_with(own);
                life.answered(answer, host::now());
                life.shared.tell();
            }
            None => {
                life.own.replace(Some(own));
            }
        }
    }

    fn on_done(&mut self) -> bool {
        let shared = &self.life.shared;
        if let Some(remote) = &shared.remote {
            remote.left(&self.life);
        }
        shared.was_read(&self.life);
        shared.let_go(&self.life);
        self.life.done();
        true
    }
}

impl HttpContext for Stream {
    fn on_http_request_headers(&mut self, _: usize, ends: bool) -> Action {
        self.life.arrived(ends)
    }

    fn on_http_request_body(&mut self, size: usize, ends: bool) -> Action {
        self.life.body(Some(size), ends)
    }

    fn on_http_request_trailers(&mut self, _: usize) -> Action {
        for name in host::request_trailers().own_fields() {
            log_failure(host::remove_request_trailer(&name));
        }
        self.life.body(None, true)
    }

    fn on_http_response_headers(&mut self, _: usize, ends: bool) -> Action {
        self.life.responded();
        if ends {
            self.life.response_ended();
        }
        Action::Continue
    }

    fn on_http_response_body(&mut self, _: usize, ends: bool) -> Action {
        if ends {
            self.life.response_ended();
        }
        Action::Continue
    }

    fn on_http_response_trailers(&mut self, _: usize) -> Action {
        self.life.trailed();
        self.life.response_ended();
        Action::Continue
    }
}
