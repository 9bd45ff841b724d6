//! What the legs of a question gave so far, and the verdict over all of them.

use tollgate_config::Millis;

use crate::hold::Fence;
use crate::limit::bucket::{Level, Meter};
use crate::verdict::{Policy, Standing, Standings, Taken, Throttled, Verdict};

/// What the legs so far gave.
#[derive(Debug, Default)]
pub(super) struct Passed {
    pub(super) standings: Standings,
    pub(super) fence: Option<Fence>,
    /// The level of `ip_limit`, where that is not the owner's.
    pub(super) ip: Option<(Meter, Level)>,
}

impl Passed {
    fn standing(&self, now: Millis, level: impl Fn(&Level) -> Level) -> Option<Standing> {
        let (meter, passed) = self.ip.as_ref()?;
        let level = level(passed).seen(meter, now);
        Some(Standing::new(Policy::Ip, *meter, &level, Millis(0)))
    }

    /// All legs let it pass.
    pub(super) fn allowed(self, now: Millis) -> Verdict {
        let standings = match self.standing(now, |level| *level) {
            Some(standing) => self.standings.with(standing),
            None => self.standings,
        };
        Verdict::Allowed(standings, self.fence)
    }

    /// The refusal of the next leg, with the standing of the address, which got its point back.
    pub(super) fn refused(&self, refused: Verdict, now: Millis) -> Verdict {
        let Some(standing) = self.standing(now, |level| level.give_back(1)) else {
            return refused;
        };
        match refused {
            Verdict::Throttled(throttled) => Verdict::Throttled(Throttled {
                standings: throttled.standings.with(standing),
                ..throttled
            }),
            Verdict::Taken(taken) => Verdict::Taken(Taken {
                standings: taken.standings.with(standing),
                ..taken
            }),
            other => other,
        }
    }
}
