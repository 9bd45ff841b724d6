//! One request on the proxy: callbacks to events, effects to host calls.

use std::rc::Rc;

use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::{Action, Status};

use super::{host, root::Shared};
use tollgate_config::{Millis, Mode};

use crate::flow::{Effect, Event, Flow, Trip};
use crate::metrics::VERDICT_PROPERTY;
use crate::passes::continues;
use crate::plan::Facts;
use crate::reply::wait::rfc3339;

/// One request.
#[derive(Debug)]
pub(super) struct Stream {
    shared: Rc<Shared>,
    flow: Flow,
}

impl Stream {
    pub(super) const fn new(shared: Rc<Shared>) -> Self {
        Self {
            shared,
            flow: Flow::Fresh,
        }
    }

    /// Plays an event and all that follows from it. The store answers at once, so the request
    /// either goes on or is answered when this returns.
    fn play(&mut self, event: Event<'_>, now: Millis) -> Action {
        let shared = Rc::clone(&self.shared);
        let mut action = Action::Continue;
        let mut effects = self.flow.on(&shared.rules, event, shared.nonce());
        while !effects.is_empty() {
            let mut next = Vec::new();
            for effect in effects {
                let done = match effect {
                    Effect::Strip(name) => host::remove_request_header(&name),
                    Effect::Ask(question) => {
                        action = Action::Pause;
                        let answer = shared.ask(&question, now);
                        next.extend(self.flow.on(&shared.rules, answer, shared.nonce()));
                        Ok(())
                    }
                    Effect::Note(verdict) => host::set_property(VERDICT_PROPERTY, verdict),
                    Effect::Count(counter, by) => {
                        shared.count(counter, by);
                        Ok(())
                    }
                    Effect::Trip(trip) => {
                        log_trip(&shared, &trip);
                        Ok(())
                    }
                    Effect::Resume(pass) => {
                        action = Action::Continue;
                        shared.passes().keep(&pass);
                        Ok(())
                    }
                    Effect::Reply(reply) => {
                        action = Action::Pause;
                        host::reply(&reply)
                    }
                    Effect::Respond(pass) => {
                        shared.passes().take(&pass.id);
                        pass.fields.iter().try_for_each(host::set_response_header)
                    }
                };
                log_failure(done);
            }
            effects = next;
        }
        action
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

impl Context for Stream {}

impl HttpContext for Stream {
    fn on_http_request_headers(&mut self, _: usize, _: bool) -> Action {
        let properties = |path: &[String]| host::property(path.iter().map(String::as_str));
        let source = || host::property(["source", "address"]).unwrap_or_default();
        let now = host::now();
        let facts = Facts {
            now,
            properties: &properties,
            source: &source,
        };
        let request = host::request();
        let continued = continues(&request).and_then(|id| self.shared.passes().take(id));
        self.play(Event::Headers(request, facts, continued), now)
    }

    fn on_http_request_trailers(&mut self, _: usize) -> Action {
        for name in host::request_trailers().own_fields() {
            log_failure(host::remove_request_trailer(&name));
        }
        Action::Continue
    }

    fn on_http_response_headers(&mut self, _: usize, _: bool) -> Action {
        self.play(Event::ResponseHeaders, Millis(0))
    }
}
