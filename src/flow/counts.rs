//! What a verdict leaves behind: its name for access logs, counters, and word of a trip.

use tollgate_config::Mode;

use super::{Effect, Trip};
use crate::attempt::Attempts;
use crate::metrics::{Counter, StoreError};
use crate::plan::Plan;
use crate::store::{Subject, Toll};
use crate::verdict::{AuthLockout, Boxed, Obstacle, Taken, Verdict};

pub(super) fn note(plan: &Plan, verdict: &Verdict) -> &'static str {
    match plan.mode {
        Mode::Enforce => verdict.name(),
        Mode::Shadow => verdict.shadow_name(),
    }
}

/// The points that were admitted; none where nobody pays any.
fn points(plan: &Plan) -> Option<Effect> {
    let ask = plan.check.ask()?;
    let pays = !matches!(ask.subject, Subject::Credential { .. });
    pays.then_some(Effect::Count(Counter::Points(plan.tier), ask.cost))
}

pub(super) fn counts(plan: &Plan, verdict: &Verdict) -> Vec<Effect> {
    let requests = Counter::Requests {
        route: plan.route,
        tier: plan.tier,
        verdict: verdict.name(),
        mode: plan.mode,
    };
    let mut effects = vec![
        Effect::Note(note(plan, verdict)),
        Effect::Count(requests, 1),
    ];
    let trip = match verdict {
        Verdict::Allowed(..) | Verdict::Degraded(_) => {
            effects.extend(points(plan));
            None
        }
        Verdict::Boxed(Boxed {
            scope,
            lockout,
            tripped: true,
        }) => Some((*scope, *lockout, plan.mode, owner(plan))),
        Verdict::Throttled(throttled) => {
            let watched = |(scope, lockout)| (scope, lockout, Mode::Shadow, owner(plan));
            throttled.would_box.map(watched)
        }
        Verdict::AuthLockout(AuthLockout {
            attempt,
            lockout,
            tripped: true,
        }) => attempts(plan).and_then(|of| {
            let who = of.list.get(*attempt)?.who;
            Some((who.scope(), *lockout, plan.mode, of.whose(who)))
        }),
        Verdict::Taken(Taken {
            by: Obstacle::Lease,
            ..
        }) => {
            effects.push(Effect::Count(Counter::LeasesRefused(plan.route), 1));
            None
        }
        Verdict::Contended => {
            effects.push(Effect::Count(
                Counter::StoreErrors(StoreError::Contention),
                1,
            ));
            None
        }
        _ => None,
    };
    if let Some((scope, lockout, mode, whose)) = trip {
        effects.push(Effect::Count(
            Counter::BoxTrips {
                level: lockout.level,
                scope,
            },
            1,
        ));
        effects.push(Effect::Trip(Trip {
            whose,
            route: plan.route,
            lockout,
            mode,
        }));
    }
    effects
}

/// Whose the box is that a request meets.
fn owner(plan: &Plan) -> String {
    let ask = plan.check.ask();
    ask.map_or_else(String::new, |ask| ask.subject.to_string())
}

fn attempts(plan: &Plan) -> Option<&Attempts> {
    plan.check.ask()?.wanted.as_ref()?.attempts.as_deref()
}

pub(super) fn toll_counts(toll: &Toll) -> Vec<Effect> {
    let counted = [
        (Counter::Evictions, toll.evictions),
        (Counter::Retries, toll.retries),
        (
            Counter::StoreErrors(StoreError::LostRefund),
            toll.lost_refunds,
        ),
    ];
    let some = counted.into_iter().filter(|(_, n)| *n > 0);
    some.map(|(counter, n)| Effect::Count(counter, u64::from(n)))
        .collect()
}
