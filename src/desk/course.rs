//! The course of one question: which step comes first, what follows an answer, what undoes it. Must not
//! know of calls.
//!
//! Where a call may touch any key, a question is one step. Under `topology: cluster` a tenant and a
//! client's address live on different nodes, so a question that meets both takes two: the address
//! first, then the tenant, and the address gets its point back if the tenant refuses.

use std::rc::Rc;

use tollgate_config::{Millis, Topology};

use crate::hold::{Keep, Wanted};
use crate::store::script::{Decision, Item, Step};
use crate::store::{Ask, Subject};
use crate::verdict::{Standing, Taken, Throttled, Verdict};

/// What follows an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// The question is decided.
    Decided(Verdict),
    /// The address let it pass; it stands so with `ip_limit`: the owner is asked.
    Owner(Standing),
    /// It is done: what nobody waits for. Of a question: it was revoked before it came, and took nothing.
    Done,
    /// The same, but something that was to be held for longer was not held any more.
    Lost,
}

/// The first step of a question.
pub(super) const fn first_step(ask: &Ask, topology: Topology) -> Step {
    match (topology, &ask.subject) {
        (Topology::Cluster, Subject::Key { ip: Some(_), .. }) => Step::Address,
        _ => Step::Whole,
    }
}

/// What follows an answer to a step; `passed` is where the client stands with an address that let it
/// pass before. `None`: that is no answer to this step.
pub(super) fn after(step: Step, decision: Decision, passed: Option<&Standing>) -> Option<Next> {
    match (step, decision) {
        (Step::Address, Decision::Passed(standing)) => Some(Next::Owner(standing)),
        (Step::Address, Decision::Verdict(Verdict::Allowed(..))) => None,
        (Step::Whole | Step::Address, Decision::Verdict(verdict)) => Some(Next::Decided(verdict)),
        (Step::Owner, Decision::Verdict(verdict)) => {
            Some(Next::Decided(with_address(verdict, passed)))
        }
        (Step::Whole | Step::Owner, Decision::Done) => Some(Next::Done),
        _ => None,
    }
}

/// The same of what nobody waits for.
pub(super) const fn after_letter(step: Step, decision: &Decision) -> Option<Next> {
    match (step, decision) {
        (Step::Keep(Keep::ON), Decision::Kept(false)) => Some(Next::Lost),
        // Whoever was handed something may have let it go already.
        (Step::Keep(_), Decision::Kept(_))
        | (Step::GiveBack | Step::Undo | Step::Revoke, Decision::Done) => Some(Next::Done),
        _ => None,
    }
}

/// A tenant's verdict, with where the client stands with its address.
fn with_address(verdict: Verdict, passed: Option<&Standing>) -> Verdict {
    let Some(standing) = passed else {
        return verdict;
    };
    match verdict {
        Verdict::Allowed(standings, fence) => Verdict::Allowed(standings.with(*standing), fence),
        Verdict::Taken(taken) => Verdict::Taken(Taken {
            standings: taken.standings.with(given_back(standing)),
            ..taken
        }),
        Verdict::Throttled(throttled) => Verdict::Throttled(Throttled {
            standings: throttled.standings.with(given_back(standing)),
            ..throttled
        }),
        other => other,
    }
}

/// A standing after its bucket got a point back; `reset` may be a millisecond too long, since the
/// level itself is not known here.
fn given_back(standing: &Standing) -> Standing {
    let meter = &standing.meter;
    let remaining = standing.remaining.saturating_add(1);
    let point = meter.unit().checked_div(meter.refill()).unwrap_or(0);
    Standing {
        remaining: remaining.min(meter.limit().points.0),
        reset: Millis(standing.reset.0.saturating_sub(point)),
        ..*standing
    }
}

/// What undoes a question that `step` allowed: gives its points back, one item for each hash tag, and lets
/// go what it holds.
pub(super) fn undoing(ask: &Rc<Ask>, step: Step) -> impl Iterator<Item = Item> {
    let (undo, rest) = match (step, &ask.subject) {
        (
            Step::Owner,
            Subject::Key {
                tenant,
                key,
                tenant_meter,
                key_meter,
                ..
            },
        ) => {
            let subject = Subject::Key {
                tenant: tenant.clone(),
                key: key.clone(),
                tenant_meter: *tenant_meter,
                key_meter: *key_meter,
                ip: None,
            };
            let owner = Ask {
                subject,
                ..Ask::clone(ask)
            };
            (Rc::new(owner), Some(giving_back(ask)))
        }
        _ => (Rc::clone(ask), None),
    };
    let undo = Item {
        ask: undo,
        step: Step::Undo,
    };
    let held = ask.wanted.as_ref().is_some_and(Wanted::is_held);
    let let_go = held.then(|| Item {
        ask: Rc::clone(ask),
        step: Step::Keep(Keep::NOTHING),
    });
    [let_go, Some(undo), rest].into_iter().flatten()
}

/// What revokes a question of which it is not known whether it came, or will come yet.
pub(super) fn revoking(ask: &Rc<Ask>) -> Item {
    Item {
        ask: Rc::clone(ask),
        step: Step::Revoke,
    }
}

/// What gives an address its point back.
pub(super) fn giving_back(ask: &Rc<Ask>) -> Item {
    Item {
        ask: Rc::clone(ask),
        step: Step::GiveBack,
    }
}
