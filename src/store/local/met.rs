//! What a request meets of one owner: which entries of his page, and the verdict over them.

use tollgate_config::Millis;

use super::record::{Kind, Name};
use super::section::Section;
use crate::hold::Fence;
use crate::limit::bucket::Meter;
use crate::limit::decision::{Bucket, Holding, Outcome};
use crate::store::{Ask, Leg, Subject};
use crate::verdict::{
    Boxed, Obstacle, Policy, Scope, Standing, Standings, Taken, Throttled, Verdict,
};

/// Hashes of an owner: of its page, its promising bucket, and what is held against it. A subject has no bucket.
pub(super) struct Owner {
    pub(super) scope: Scope,
    pub(super) page: u128,
    pub(super) first: u128,
    pub(super) penalty: u128,
}

impl Owner {
    pub(super) const fn ip(&self) -> Name {
        Name {
            id: self.page,
            kind: Kind::Ip,
        }
    }

    pub(super) const fn held(&self) -> Name {
        Name {
            id: self.penalty,
            kind: Kind::Penalty,
        }
    }
}

/// What came of what a request wanted besides points.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Besides {
    /// What was taken, and for how long it may be.
    pub(super) obstacle: Option<(Obstacle, Millis)>,
    /// The fence of a lock that it holds now.
    pub(super) fence: Option<Fence>,
}

/// The buckets of one owner that a request meets.
pub(super) struct Met {
    scope: Scope,
    pub(super) first: (Name, Meter, Policy),
    pub(super) second: Option<(Name, Meter, u64)>,
}

impl Met {
    /// Of the owner's leg. `None` of any other, and where the owner is met by `ip_limit` alone.
    pub(super) fn of(ask: &Ask, section: &Section<'_>) -> Option<Self> {
        let named = |id, kind| Name { id, kind };
        let owner = match section.leg {
            Leg::Owner => &section.owner,
            Leg::Address | Leg::Subject(_) => return None,
        };
        Some(match &ask.subject {
            Subject::Key {
                tenant_meter,
                key_meter,
                ..
            } => Self {
                scope: scope(ask),
                first: (named(owner.first, Kind::Key), *key_meter, Policy::Key),
                second: Some((named(owner.page, Kind::Tenant), *tenant_meter, ask.cost)),
            },
            Subject::Anonymous {
                meter, ip_meter, ..
            } => Self {
                scope: scope(ask),
                first: (
                    named(owner.first, Kind::Anonymous),
                    *meter,
                    Policy::Anonymous,
                ),
                second: ip_meter.map(|meter| (owner.ip(), meter, 1)),
            },
            Subject::Credential { .. } => return None,
        })
    }

    pub(super) fn verdict(
        &self,
        holding: &Holding,
        outcome: Outcome,
        besides: Besides,
        now: Millis,
    ) -> Verdict {
        let (wait, would_box) = match outcome {
            Outcome::Boxed { lockout, tripped } => {
                return Verdict::Boxed(Boxed {
                    scope: self.scope,
                    lockout,
                    tripped,
                });
            }
            Outcome::Allowed | Outcome::Taken => (None, None),
            Outcome::Throttled { wait, would_box } => (Some(wait), would_box),
        };
        let standing = |policy, bucket: &Bucket| {
            let level = bucket.level.seen(&bucket.meter, now);
            let wait = if wait.is_some() {
                bucket.wait(now)
            } else {
                Millis(0)
            };
            Standing::new(policy, bucket.meter, &level, wait)
        };
        let second_policy = match self.scope {
            Scope::Key => Policy::Tenant,
            Scope::Ip | Scope::Subject => Policy::Ip,
        };
        let standings = Standings::new([
            Some(standing(self.first.2, &holding.first)),
            holding.second.as_ref().map(|b| standing(second_policy, b)),
            None,
        ]);
        let strikes_left = Some(holding.penalty.strikes_left(now));
        match (wait, besides.obstacle) {
            (None, None) => Verdict::Allowed(standings, besides.fence),
            (None, Some((by, wait))) => Verdict::Taken(Taken {
                by,
                standings,
                wait,
                strikes_left,
            }),
            (Some(wait), _) => Verdict::Throttled(Throttled {
                standings,
                wait,
                strikes_left,
                would_box: would_box.map(|lockout| (self.scope, lockout)),
            }),
        }
    }
}

pub(super) const fn scope(ask: &Ask) -> Scope {
    match ask.subject {
        Subject::Key { .. } => Scope::Key,
        Subject::Anonymous { .. } | Subject::Credential { .. } => Scope::Ip,
    }
}
