//! One request from its first byte to its last: events in, effects out.
//!
//! Invariants: at most one open question; `Resume` only while waiting; nothing after a reply; every
//! way out of a question ends in `Resume` or `Reply`, with one more question in between where the
//! store failed; no bytes can make it panic.

mod counts;
mod effect;
mod event;
mod served;

use std::rc::Rc;

use tollgate_config::{Millis, Mode};

use self::counts::{counts, note, toll_counts};
pub use self::effect::{Effect, Question, Told, Trip};
pub use self::event::{Broke, Event};
use self::served::given_up;
use crate::body::Body;
use crate::held::{End, Grantor, Held};
use crate::hold::Fence;
use crate::metrics::Counter;
use crate::passes::{Parked, Pass};
use crate::plan::{Check, Facts, Plan};
use crate::reply::{Asker, fields, refusal};
use crate::request::Request;
use crate::rules::Rules;
use crate::store::Ask;
use crate::verdict::Verdict;

/// A request's state.
#[derive(Debug, Default)]
pub enum Flow {
    /// Nothing happened yet.
    #[default]
    Fresh,
    /// The body is waited for.
    Reading(Box<Request>),
    /// A question is open.
    Asking(Box<Asking>),
    /// The store failed, and the question to the degraded limiter is open.
    Degrading(Box<Asking>),
    /// It was let through.
    Passed(Rc<Pass>, Option<Box<Held>>),
    /// It was let through, and its response came; whether that is complete.
    Responded(Option<Box<Held>>, End),
    /// It was answered.
    Refused,
    /// Its stream is over.
    Over,
}

/// A request with an open question.
#[derive(Debug)]
pub struct Asking {
    request: Request,
    plan: Plan,
}

impl Flow {
    /// What the store was asked, while that question is open.
    #[must_use]
    pub fn asked(&self) -> Option<&Ask> {
        match self {
            Self::Asking(asking) => asking.plan.check.ask(),
            _ => None,
        }
    }

    /// Whether the body is waited for.
    #[must_use]
    pub const fn is_reading(&self) -> bool {
        matches!(self, Self::Reading(_))
    }

    /// Whether the request waits for something.
    #[must_use]
    pub const fn is_waiting(&self) -> bool {
        matches!(
            self,
            Self::Reading(_) | Self::Asking(_) | Self::Degrading(_)
        )
    }

    /// Whether it was let through and holds something.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.held().is_some()
    }

    /// Whether anything becomes of the [end](Event::Done) of the stream.
    #[must_use]
    pub fn ends(&self) -> bool {
        match self {
            Self::Passed(pass, held) => held.is_some() || !pass.id.is_empty(),
            Self::Responded(held, _) => held.is_some(),
            _ => false,
        }
    }

    /// Whether it makes a difference who broke off a response that is not complete.
    #[must_use]
    pub const fn asks_who_broke(&self) -> bool {
        matches!(self, Self::Responded(Some(_), End::Aborted))
    }

    /// Whether the head of the response makes a difference to what is held.
    #[must_use]
    pub fn asks_status(&self) -> bool {
        self.held().is_some_and(Held::depends_on_status)
    }

    /// Whether the trailers of the response make a difference.
    #[must_use]
    pub fn awaits_trailers(&self) -> bool {
        self.held().is_some_and(Held::awaits_trailers)
    }

    /// Whether [`Event::Tick`] makes a difference at `now`.
    #[must_use]
    pub fn is_due(&self, now: Millis) -> bool {
        self.held().is_some_and(|held| held.is_due(now))
    }

    fn held(&self) -> Option<&Held> {
        match self {
            Self::Passed(_, held) | Self::Responded(held, _) => held.as_deref(),
            _ => None,
        }
    }

    /// Takes an event, at a nonce, and says what to do.
    pub fn on(&mut self, rules: &Rules, event: Event<'_>, nonce: u64) -> Vec<Effect> {
        match (std::mem::take(self), event) {
            (Self::Fresh, Event::Headers(request, facts, Some(Parked { pass, held }))) => {
                let tried = held.as_deref().and_then(Held::attempts);
                if Plan::continues(rules, &request, &facts, tried) {
                    let mut effects = strip(&request);
                    effects.push(Effect::Note(pass.note));
                    effects.extend(self.pass(rules, pass, held));
                    effects
                } else {
                    let mut effects = held.map_or_else(Vec::new, |held| given_up(&held, facts.now));
                    effects.extend(self.arrive(rules, request, &facts, nonce));
                    effects
                }
            }
            (Self::Fresh, Event::Headers(request, facts, None)) => {
                self.arrive(rules, request, &facts, nonce)
            }
            (Self::Reading(request), Event::Body(facts)) => {
                let plan = Plan::of(rules, &request, &facts, nonce);
                self.begin(
                    rules,
                    Asking {
                        request: *request,
                        plan,
                    },
                    &facts,
                    nonce,
                )
            }
            (Self::Reading(request), Event::NoBody(facts)) => {
                let facts = Facts {
                    body: Some(&Body::NONE),
                    ..facts
                };
                let plan = Plan::of(rules, &request, &facts, nonce);
                let asking = Asking {
                    request: *request,
                    plan,
                };
                let (verdict, now) = (Verdict::Unavailable, facts.now);
                self.settle(rules, &asking, verdict, Grantor::Store, now, nonce)
            }
            (Self::Asking(asking), Event::Decided(verdict, toll, now)) => {
                let mut effects = toll_counts(&toll);
                effects.extend(self.settle(rules, &asking, verdict, Grantor::Store, now, nonce));
                effects
            }
            (Self::Degrading(asking), Event::Decided(verdict, toll, now)) => {
                let mut effects = toll_counts(&toll);
                let granted = verdict.degraded();
                effects.extend(self.settle(rules, &asking, granted, Grantor::Node, now, nonce));
                effects
            }
            (Self::Asking(asking), Event::StoreFailed(now)) => {
                self.degrade(rules, asking, now, nonce)
            }
            (Self::Asking(asking), Event::Lockout(boxed, now)) => {
                let verdict = match (boxed, &asking.plan.check) {
                    (Some(boxed), _) => Verdict::Boxed(boxed),
                    (None, Check::Faulty(fault, _)) => fault.verdict(),
                    (None, _) => Verdict::Contended,
                };
                self.settle(rules, &asking, verdict, Grantor::Store, now, nonce)
            }
            (passed @ (Self::Passed(..) | Self::Responded(..)), event) => {
                *self = passed;
                self.served(rules, event)
            }
            (_, Event::Done(..)) => {
                *self = Self::Over;
                Vec::new()
            }
            // Whatever else comes changes nothing: a second head, an answer nobody waits for.
            (same, _) => {
                *self = same;
                Vec::new()
            }
        }
    }

    fn arrive(
        &mut self,
        rules: &Rules,
        request: Request,
        facts: &Facts<'_>,
        nonce: u64,
    ) -> Vec<Effect> {
        let plan = Plan::of(rules, &request, facts, nonce);
        let mut effects = strip(&request);
        if plan.check == Check::Body {
            effects.push(Effect::AwaitBody);
            *self = Self::Reading(Box::new(request));
        } else {
            effects.extend(self.begin(rules, Asking { request, plan }, facts, nonce));
        }
        effects
    }

    /// What has to be checked is known.
    fn begin(
        &mut self,
        rules: &Rules,
        asking: Asking,
        facts: &Facts<'_>,
        nonce: u64,
    ) -> Vec<Effect> {
        let mut effects = Vec::new();
        let question = match &asking.plan.check {
            Check::Store(ask) => Some(Question::Decide(Rc::clone(ask))),
            Check::Faulty(_, ask) => Some(Question::Lockout(Rc::clone(ask))),
            Check::Exempt | Check::Invalid(_) | Check::Body => None,
        };
        match question {
            Some(question) => {
                effects.push(Effect::Ask(question));
                *self = Self::Asking(Box::new(asking));
            }
            None => {
                let verdict = match &asking.plan.check {
                    Check::Invalid(invalid) => Verdict::Invalid(invalid.clone()),
                    _ => Verdict::Exempt,
                };
                let now = facts.now;
                effects.extend(self.settle(rules, &asking, verdict, Grantor::Store, now, nonce));
            }
        }
        effects
    }

    /// The store failed for a request.
    fn degrade(
        &mut self,
        rules: &Rules,
        mut asking: Box<Asking>,
        now: Millis,
        nonce: u64,
    ) -> Vec<Effect> {
        let mut effects = vec![Effect::Count(Counter::Degraded(asking.plan.route), 1)];
        if let Some(ask) = asking.plan.degrade(rules) {
            effects.push(Effect::Ask(Question::Degraded(ask)));
            *self = Self::Degrading(asking);
            return effects;
        }
        let verdict = match &asking.plan.check {
            // Whatever the store knows, it would not have passed.
            Check::Faulty(fault, _) => fault.verdict(),
            _ => Verdict::Unavailable,
        };
        effects.extend(self.settle(rules, &asking, verdict, Grantor::Store, now, nonce));
        effects
    }

    fn settle(
        &mut self,
        rules: &Rules,
        asking: &Asking,
        verdict: Verdict,
        grantor: Grantor,
        now: Millis,
        nonce: u64,
    ) -> Vec<Effect> {
        let Asking { request, plan } = asking;
        let mut effects = counts(plan, &verdict);
        let reply = match plan.mode {
            Mode::Shadow => None,
            Mode::Enforce => refusal(
                &verdict,
                &Asker {
                    rules,
                    request,
                    plan,
                    now,
                    nonce,
                },
            ),
        };
        match reply {
            Some(reply) => {
                *self = Self::Refused;
                effects.push(Effect::Reply(reply));
            }
            None => {
                let dialect = rules.config.headers.dialect;
                let standings = verdict.standings();
                let fields = standings.map(|s| fields::rate_limit(dialect, s));
                let id = match verdict {
                    // It paid nothing that it would have to pay twice.
                    Verdict::Exempt => &[],
                    _ => request.first("x-request-id"),
                };
                let held = held(rules, plan, &verdict, grantor, now);
                let pass = Rc::new(Pass {
                    id: id.to_vec(),
                    fields: fields.unwrap_or_default(),
                    note: note(plan, &verdict),
                });
                effects.extend(self.pass(rules, pass, held));
            }
        }
        effects
    }

    fn pass(&mut self, rules: &Rules, pass: Rc<Pass>, held: Option<Box<Held>>) -> Vec<Effect> {
        let mut effects = Vec::new();
        if let Some(held) = &held {
            let headers = held.headers(|ask| rules.member(ask));
            effects.extend(headers.into_iter().map(Effect::Lend));
            if held.lasts() {
                effects.push(Effect::Hold);
            }
        }
        effects.push(Effect::Resume(Rc::clone(&pass)));
        *self = Self::Passed(pass, held);
        effects
    }
}

/// What a request holds that was let through.
fn held(
    rules: &Rules,
    plan: &Plan,
    verdict: &Verdict,
    grantor: Grantor,
    now: Millis,
) -> Option<Box<Held>> {
    let fence: Option<Fence> = match verdict {
        Verdict::Allowed(_, fence) => *fence,
        Verdict::Degraded(_) => None,
        _ => return None,
    };
    let Check::Store(ask) = &plan.check else {
        return None;
    };
    let route = rules.config.routes.get(plan.route.0);
    Held::of(ask, grantor, fence, route, now).map(Box::new)
}

fn strip(request: &Request) -> Vec<Effect> {
    request
        .own_fields()
        .into_iter()
        .map(Effect::Strip)
        .collect()
}

#[cfg(test)]
mod tests;
