//! The course of one question: which step comes first, what follows an answer, what undoes it. Must not
//! know of calls.
//!
//! Where a call may touch any key, a question is one step. Under `topology: cluster` its [legs](Ask::legs) may
//! live on different nodes, so each is a step: a leg is asked when those before it let the request pass, and if it
//! does not, they get back what they gave.

use std::rc::Rc;

use tollgate_config::{Millis, Topology};

use crate::attempt::Sign;
use crate::hold::Keep;
use crate::store::script::{Decision, Item, Step};
use crate::store::{Ask, Leg, Subject};
use crate::verdict::{Standing, Taken, Throttled, Verdict};

/// What follows an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// The question is decided.
    Decided(Verdict),
    /// A leg let it pass, and the next one is asked; what has been said so far.
    Asked(Leg, Passed),
    /// It is done: what nobody waits for. Of a question: it was revoked before it came, and took nothing.
    Done,
    /// What is held was kept, or let go.
    Kept {
        /// Something that was to be held for longer was not held any more.
        lost: bool,
        /// What was noticed.
        signs: Vec<Sign>,
    },
}

/// What the legs that let a question pass have to do with its verdict.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Passed {
    /// Nothing.
    #[default]
    Silently,
    /// The client stands so with its address.
    Address(Standing),
    /// The owner was asked first, and this is its verdict.
    Owner(Box<Verdict>),
}

/// The first step of a question.
pub(super) fn first_step(ask: &Ask, topology: Topology) -> Step {
    let mut legs = ask.legs();
    match (topology, legs.next(), legs.next()) {
        (Topology::Cluster, Some(first), Some(_)) => Step::Part(first),
        _ => Step::Whole,
    }
}

/// What follows an answer to a step of a question; `passed` is what was said before. `None`: that is no
/// answer to this step.
pub(super) fn after(item: &Item, decision: Decision, passed: &Passed) -> Option<Next> {
    match (item.step, decision) {
        (Step::Whole | Step::Part(_), Decision::Done) => Some(Next::Done),
        (Step::Whole, Decision::Verdict(verdict)) => Some(Next::Decided(verdict)),
        (Step::Part(leg), Decision::Verdict(Verdict::Allowed(..))) if leg != Leg::Owner => None,
        (Step::Part(leg), Decision::Verdict(verdict)) => match next_leg(&item.ask, leg) {
            Some(next) if matches!(verdict, Verdict::Allowed(..)) => {
                Some(Next::Asked(next, Passed::Owner(Box::new(verdict))))
            }
            _ => Some(Next::Decided(with_address(verdict, passed))),
        },
        (Step::Part(leg @ Leg::Address), Decision::Passed(Some(standing))) => {
            let next = next_leg(&item.ask, leg)?;
            Some(Next::Asked(next, Passed::Address(standing)))
        }
        (Step::Part(leg @ (Leg::Address | Leg::Subject(_))), Decision::Passed(None)) => {
            match (next_leg(&item.ask, leg), passed) {
                (Some(next), _) => Some(Next::Asked(next, passed.clone())),
                (None, Passed::Owner(verdict)) => Some(Next::Decided(Verdict::clone(verdict))),
                (None, _) => None,
            }
        }
        _ => None,
    }
}

/// The leg that is asked after one.
fn next_leg(ask: &Ask, leg: Leg) -> Option<Leg> {
    let mut legs = ask.legs();
    legs.find(|one| *one == leg)?;
    legs.next()
}

/// What follows an answer to what nobody waits for.
pub(super) fn after_letter(step: Step, decision: Decision) -> Option<Next> {
    match (step, decision) {
        (Step::Keep(_, keep), Decision::Kept(kept)) => Some(Next::Kept {
            // Whoever was handed something may have let it go already.
            lost: keep.is_renewal() && !kept.all,
            signs: kept.signs,
        }),
        (Step::GiveBack | Step::Undo | Step::Revoke(_), Decision::Done) => Some(Next::Done),
        _ => None,
    }
}

/// A verdict, with where the client of a tenant stands with its address.
fn with_address(verdict: Verdict, passed: &Passed) -> Verdict {
    let Passed::Address(standing) = passed else {
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

/// The legs of a question that a step asks.
pub(super) fn asked(item: &Item) -> impl Iterator<Item = Leg> + use<> {
    let step = item.step;
    item.ask.legs().filter(move |leg| match step {
        Step::Whole => true,
        Step::Part(one) => one == *leg,
        _ => false,
    })
}

/// What undoes a question that was allowed by the answer to this step: what it holds is let go, and it gets
/// its points back.
pub(super) fn undoing(item: &Item) -> Vec<Item> {
    let ask = &item.ask;
    let legs = ask.legs().rev();
    match item.step {
        Step::Whole => {
            let pays = ask.legs().any(|leg| ask.pays_on(leg));
            let points = pays.then(|| of(ask, Step::Undo));
            legs.filter_map(|leg| letting_go(ask, leg))
                .chain(points)
                .collect()
        }
        _ => legs.flat_map(|leg| undoing_leg(ask, leg)).collect(),
    }
}

/// What undoes the legs that were asked before this step, and let it pass.
pub(super) fn undoing_before(item: &Item) -> Vec<Item> {
    let Step::Part(last) = item.step else {
        return Vec::new();
    };
    let legs = item.ask.legs().rev().skip_while(|leg| *leg != last).skip(1);
    legs.flat_map(|leg| undoing_leg(&item.ask, leg)).collect()
}

/// What revokes a step of which it is not known whether it came, or will come yet.
pub(super) fn revoking(item: &Item) -> Vec<Item> {
    let ask = &item.ask;
    let held = asked(item).filter(|leg| ask.holds_on(*leg));
    held.map(|leg| of(ask, Step::Revoke(leg))).collect()
}

/// What tells that a request holds on to what it holds or lets it go, or what became of it: on each leg that it
/// concerns.
pub(super) fn keeping(ask: &Rc<Ask>, keep: Keep) -> impl Iterator<Item = Item> {
    ask.legs().filter_map(move |leg| {
        let keep = ask.told_on(leg, keep)?;
        Some(of(ask, Step::Keep(leg, keep)))
    })
}

fn undoing_leg(ask: &Rc<Ask>, leg: Leg) -> impl Iterator<Item = Item> + use<> {
    [letting_go(ask, leg), giving_back_points(ask, leg)]
        .into_iter()
        .flatten()
}

fn letting_go(ask: &Rc<Ask>, leg: Leg) -> Option<Item> {
    let step = Step::Keep(leg, Keep::NOTHING);
    ask.holds_on(leg).then(|| of(ask, step))
}

/// What gives back the points that a question paid on a leg, and those alone.
fn giving_back_points(ask: &Rc<Ask>, leg: Leg) -> Option<Item> {
    match (leg, &ask.subject) {
        _ if !ask.pays_on(leg) => None,
        (Leg::Address, _) => Some(of(ask, Step::GiveBack)),
        (_, Subject::Key { ip: Some(_), .. }) => {
            let mut tenants = Ask::clone(ask);
            if let Subject::Key { ip, .. } = &mut tenants.subject {
                *ip = None;
            }
            Some(of(&Rc::new(tenants), Step::Undo))
        }
        _ => Some(of(ask, Step::Undo)),
    }
}

fn of(ask: &Rc<Ask>, step: Step) -> Item {
    Item {
        ask: Rc::clone(ask),
        step,
    }
}
