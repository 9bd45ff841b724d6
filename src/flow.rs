//! One request from its first byte to its last: events in, effects out.
//!
//! Invariants: at most one open question; `Resume` only while waiting; nothing after a reply; every
//! way out of a question ends in `Resume` or `Reply`, with one more question in between where the
//! store failed; no bytes can make it panic.

mod counts;

use std::rc::Rc;

use tollgate_config::{Millis, Mode, RouteId};

use self::counts::{counts, note, toll_counts};
use crate::limit::penalty::Lockout;
use crate::metrics::Counter;
use crate::passes::Pass;
use crate::plan::{Check, Facts, Plan};
use crate::reply::{Asker, Reply, fields, refusal};
use crate::request::Request;
use crate::rules::Rules;
use crate::store::{Ask, Toll};
use crate::verdict::{Boxed, Verdict};

/// What happens to a request.
#[expect(
    clippy::large_enum_variant,
    reason = "made and consumed once, never stored"
)]
pub enum Event<'a> {
    /// Its headers came; and the pass of the request that it continues, if it does.
    Headers(Request, Facts<'a>, Option<Rc<Pass>>),
    /// The store decided; or the degraded limiter, where that was asked.
    Decided(Verdict, Toll, Millis),
    /// The store told which box is in force.
    Lockout(Option<Boxed>, Millis),
    /// The store failed to answer what it was asked.
    StoreFailed(Millis),
    /// The response's headers came: the upstream's, or a reply's.
    ResponseHeaders,
}

/// What the store is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// May it pass?
    Decide(Rc<Ask>),
    /// Which box is in force, as far as this node knows? Changes nothing.
    Lockout(Rc<Ask>),
    /// May it pass, though the store failed? For the degraded limiter, over the local store.
    Degraded(Rc<Ask>),
}

/// What is to be done on the proxy, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Take this header off the request.
    Strip(String),
    /// Ask; the request waits.
    Ask(Question),
    /// Leave the verdict for access logs.
    Note(&'static str),
    /// Count.
    Count(Counter, u64),
    /// Tell the operator of a trip of the box.
    Trip(Trip),
    /// Let the request go on, and keep its pass until the response comes.
    Resume(Rc<Pass>),
    /// Answer the request.
    Reply(Reply),
    /// Set the headers of this pass in the response, and keep it no longer.
    Respond(Rc<Pass>),
}

/// A trip of the penalty box, for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trip {
    /// Whose box, without the key's name: it may be a secret.
    pub whose: String,
    /// The route of the request that tripped it.
    pub route: RouteId,
    /// The box.
    pub lockout: Lockout,
    /// Whether it is carried out.
    pub mode: Mode,
}

/// A request's state.
#[derive(Debug, Default)]
pub enum Flow {
    /// Nothing happened yet.
    #[default]
    Fresh,
    /// A question is open.
    Asking(Box<Asking>),
    /// The store failed, and the question to the degraded limiter is open.
    Degrading(Box<Asking>),
    /// It was let through.
    Passed(Rc<Pass>),
    /// It was let through, and its response came.
    Responded,
    /// It was answered.
    Refused,
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

    /// Takes an event, at a nonce, and says what to do.
    pub fn on(&mut self, rules: &Rules, event: Event<'_>, nonce: u64) -> Vec<Effect> {
        match (std::mem::take(self), event) {
            (Self::Fresh, Event::Headers(request, _, Some(pass))) => {
                let mut effects = strip(&request);
                effects.push(Effect::Note(pass.note));
                effects.push(self.pass(pass));
                effects
            }
            (Self::Fresh, Event::Headers(request, facts, None)) => {
                self.arrive(rules, request, &facts, nonce)
            }
            (Self::Asking(asking), Event::Decided(verdict, toll, now)) => {
                let mut effects = toll_counts(&toll);
                effects.extend(self.settle(rules, &asking, verdict, now, nonce));
                effects
            }
            (Self::Degrading(asking), Event::Decided(verdict, toll, now)) => {
                let mut effects = toll_counts(&toll);
                effects.extend(self.settle(rules, &asking, verdict.degraded(), now, nonce));
                effects
            }
            (Self::Asking(asking), Event::StoreFailed(now)) => {
                self.degrade(rules, asking, now, nonce)
            }
            (Self::Asking(asking), Event::Lockout(boxed, now)) => {
                let verdict = match (boxed, &asking.plan.check) {
                    (Some(boxed), _) => Verdict::Boxed(boxed),
                    (None, Check::IdempotencyKey(fault, _)) => Verdict::IdempotencyKey(*fault),
                    (None, _) => Verdict::Contended,
                };
                self.settle(rules, &asking, verdict, now, nonce)
            }
            (Self::Passed(pass), Event::ResponseHeaders) => {
                *self = Self::Responded;
                let silent = pass.fields.is_empty() && pass.id.is_empty();
                if silent {
                    Vec::new()
                } else {
                    vec![Effect::Respond(pass)]
                }
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
        let plan = Plan::of(rules, &request, facts);
        let mut effects = strip(&request);
        let question = match &plan.check {
            Check::Store(ask) => Some(Question::Decide(Rc::clone(ask))),
            Check::IdempotencyKey(_, ask) => Some(Question::Lockout(Rc::clone(ask))),
            Check::Exempt | Check::Invalid(_) => None,
        };
        let asking = Asking { request, plan };
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
                effects.extend(self.settle(rules, &asking, verdict, facts.now, nonce));
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
            Check::IdempotencyKey(fault, _) => Verdict::IdempotencyKey(*fault),
            _ => Verdict::Unavailable,
        };
        effects.extend(self.settle(rules, &asking, verdict, now, nonce));
        effects
    }

    fn settle(
        &mut self,
        rules: &Rules,
        asking: &Asking,
        verdict: Verdict,
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
        effects.push(match reply {
            Some(reply) => {
                *self = Self::Refused;
                Effect::Reply(reply)
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
                self.pass(Rc::new(Pass {
                    id: id.to_vec(),
                    fields: fields.unwrap_or_default(),
                    note: note(plan, &verdict),
                }))
            }
        });
        effects
    }

    fn pass(&mut self, pass: Rc<Pass>) -> Effect {
        *self = Self::Passed(Rc::clone(&pass));
        Effect::Resume(pass)
    }
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
