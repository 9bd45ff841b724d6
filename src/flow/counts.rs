//! What a verdict leaves behind: its name for access logs, counters, and word of a trip.

use tollgate_config::Mode;

use super::{Effect, Trip};
use crate::metrics::{Counter, StoreError};
use crate::plan::Plan;
use crate::store::Toll;
use crate::verdict::{Boxed, Obstacle, Taken, Verdict};

pub(super) fn note(plan: &Plan, verdict: &Verdict) -> &'static str {
    match plan.mode {
        Mode::Enforce => verdict.name(),
        Mode::Shadow => verdict.shadow_name(),
    }
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
            effects.push(Effect::Count(Counter::Points(plan.tier), plan.cost()));
            None
        }
        Verdict::Boxed(Boxed {
            scope,
            lockout,
            tripped: true,
        }) => Some((*scope, *lockout, plan.mode)),
        Verdict::Throttled(throttled) => {
            let watched = |(scope, lockout)| (scope, lockout, Mode::Shadow);
            throttled.would_box.map(watched)
        }
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
    if let Some((scope, lockout, mode)) = trip {
        effects.push(Effect::Count(
            Counter::BoxTrips {
                level: lockout.level,
                scope,
            },
            1,
        ));
        effects.push(Effect::Trip(Trip {
            whose: plan
                .check
                .ask()
                .map_or_else(String::new, |ask| ask.subject.to_string()),
            route: plan.route,
            lockout,
            mode,
        }));
    }
    effects
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
