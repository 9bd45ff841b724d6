//! One line of the script's reply, as what was decided. Must not know how replies come.

use tollgate_config::Millis;

use super::attempts::{self, Fate};
use super::met::Met;
use super::{Decision, Item, Step};
use crate::attempt::{Sign, Who};
use crate::hold::{Fence, Wanted};
use crate::limit::bucket::{Level, Meter};
use crate::limit::penalty::Lockout;
use crate::store::{Kept, Leg};
use crate::verdict::{
    AuthLockout, Boxed, Obstacle, Policy, Standing, Standings, Taken, Throttled, Verdict,
};

/// 2^53: Lua's numbers are exact up to here.
const MOST: i64 = 1 << 53;

/// One line of the reply.
pub(super) struct Line {
    kind: char,
    pub(super) now: Millis,
    rest: Vec<i64>,
}

impl Line {
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let mut kind = words.next()?.chars();
        let (kind, None) = (kind.next()?, kind.next()) else {
            return None;
        };
        // Nothing that the script counts goes further; -1 is what was not met.
        let in_range = |number: &i64| (-1..=MOST).contains(number);
        let mut numbers = words.map(|word| word.parse::<i64>().ok().filter(in_range));
        let now = u64::try_from(numbers.next()??).ok()?;
        Some(Self {
            kind,
            now: Millis(now),
            rest: numbers.collect::<Option<_>>()?,
        })
    }

    pub(super) fn decision(&self, item: &Item) -> Option<Decision> {
        let met = Met::of(&item.ask);
        let wanted = item.ask.wanted.as_ref();
        let standing = |policy, meter: Option<Meter>, spent: i64, wait: i64| {
            let (meter, spent) = (meter?, u64::try_from(spent).ok()?);
            let level = Level {
                spent,
                unit: meter.unit(),
                refill: meter.refill(),
                at: self.now,
            };
            let wait = Millis(u64::try_from(wait).ok()?);
            Some(Standing::new(policy, meter, &level, wait))
        };
        // There is one unless the subject has none.
        let first = |spent, wait| match met.first {
            Some((policy, meter)) => standing(policy, Some(meter), spent, wait).map(Some),
            None => (spent == -1).then_some(None),
        };
        let second =
            |spent, wait| standing(met.second_policy, met.second.map(|(m, _)| m), spent, wait);
        let ip = |spent, wait| standing(Policy::Ip, met.ip, spent, wait);
        let millis = |number: i64| u64::try_from(number).ok().map(Millis);
        let verdict = match (self.kind, item.step, self.rest.as_slice()) {
            ('a', Step::Whole | Step::Part(Leg::Owner), &[f, s, i, ref fence @ ..]) => {
                Verdict::Allowed(
                    Standings::new([first(f, 0)?, second(s, 0), ip(i, 0)]),
                    fence_of(fence, wanted)?,
                )
            }
            ('h', Step::Whole | Step::Part(Leg::Owner), &[what, f, s, i, wait, left]) => {
                Verdict::Taken(Taken {
                    by: obstacle(what, wanted?)?,
                    standings: Standings::new([first(f, 0)?, second(s, 0), ip(i, 0)]),
                    wait: millis(wait).filter(|wait| *wait > Millis(0))?,
                    strikes_left: strikes_left(left, &met)?,
                })
            }
            (
                't',
                Step::Whole | Step::Part(Leg::Owner),
                &[f, fw, s, sw, i, told, left, level, until],
            ) => {
                let standings = Standings::new([Some(first(f, fw)??), second(s, sw), ip(i, 0)]);
                let would_box = match lockout(level, until)? {
                    lockout if lockout.level == 0 => None,
                    lockout => Some((met.scope, lockout)),
                };
                Verdict::Throttled(Throttled {
                    standings,
                    wait: millis(told).filter(|told| *told > Millis(0))?,
                    strikes_left: Some(u32::try_from(left).ok()?),
                    would_box,
                })
            }
            ('l', Step::Whole | Step::Part(_), &[attempt, level, until, tripped @ (0 | 1)]) => {
                Verdict::AuthLockout(AuthLockout {
                    attempt: attempt_of(attempt, item)?.0,
                    lockout: self.in_force(level, until)?,
                    tripped: tripped == 1,
                })
            }
            ('y', Step::Whole | Step::Part(_), [])
                if attempts::of(item).any(|(_, attempt, _)| attempt.provisional) =>
            {
                Verdict::AuthBusy
            }
            ('b', Step::Whole | Step::Part(Leg::Owner), &[level, until, tripped]) => {
                Verdict::Boxed(Boxed {
                    scope: met.scope,
                    lockout: self.in_force(level, until)?,
                    tripped: tripped == 1,
                })
            }
            ('i', step, &[i, wait, told]) if asks_address(step, &met) => {
                Verdict::Throttled(Throttled {
                    standings: Standings::new([Some(ip(i, wait)?), None, None]),
                    wait: millis(told).filter(|told| *told > Millis(0))?,
                    strikes_left: None,
                    would_box: None,
                })
            }
            ('p', Step::Part(Leg::Address), &[i]) if met.ip.is_some() => {
                return Some(Decision::Passed(Some(ip(i, 0)?)));
            }
            ('p', Step::Part(Leg::Address | Leg::Subject(_)), [-1]) => {
                return Some(Decision::Passed(None));
            }
            ('k', Step::Keep(..), &[all @ (0 | 1), ref signs @ ..]) => {
                let signs = self.signs(signs, item)?;
                return Some(Decision::Kept(Kept {
                    all: all == 1,
                    signs,
                }));
            }
            ('d', Step::GiveBack | Step::Undo | Step::Revoke(_), []) => {
                return Some(Decision::Done);
            }
            ('d', Step::Whole | Step::Part(_), []) if attempts::is_held(item) => {
                return Some(Decision::Done);
            }
            _ => return None,
        };
        Some(Decision::Verdict(verdict))
    }

    /// A lockout that goes on.
    fn in_force(&self, level: i64, until: i64) -> Option<Lockout> {
        lockout(level, until).filter(|l| l.level > 0 && l.until > self.now)
    }

    /// What was noticed when an outcome was told.
    fn signs(&self, said: &[i64], item: &Item) -> Option<Vec<Sign>> {
        let (signs, []) = said.as_chunks::<4>() else {
            return None;
        };
        let sign = |&[sign, attempt, level, until]: &[i64; 4]| {
            if (sign, attempt) == (2, 0) {
                attempts::stuffing(item)?;
                return Some(Sign::Stuffing(self.in_force(level, until)?));
            }
            let (place, who, fate) = attempt_of(attempt, item)?;
            match (sign, who, fate) {
                (1, _, Fate::Failed) => Some(Sign::Locked(place, self.in_force(level, until)?)),
                (3, Who::Subject(_), Fate::Failed) if (level, until) == (0, 0) => {
                    Some(Sign::Spread(place))
                }
                _ => None,
            }
        };
        signs.iter().map(sign).collect()
    }
}

/// Which of a request's attempts a step's nth is, counted from 0.
fn attempt_of(number: i64, item: &Item) -> Option<(usize, Who, Fate)> {
    let number = usize::try_from(number).ok()?;
    let (place, attempt, fate) = attempts::of(item).nth(number)?;
    Some((place, attempt.who, fate))
}

/// Whether a step meets `ip_limit` as that which refuses by itself.
const fn asks_address(step: Step, met: &Met) -> bool {
    match step {
        Step::Whole => true,
        Step::Part(Leg::Address) => met.first.is_some(),
        Step::Part(Leg::Owner) => met.first.is_none(),
        _ => false,
    }
}

/// Strikes that are left; none are counted where nothing promises.
fn strikes_left(left: i64, met: &Met) -> Option<Option<u32>> {
    match met.first {
        Some(_) => u32::try_from(left).ok().map(Some),
        None => (left == -1).then_some(None),
    }
}

/// The fence of an allowed request: there is one if it wanted a lock, and only then. Of requests that want
/// nothing besides points nothing is said.
fn fence_of(said: &[i64], wanted: Option<&Wanted>) -> Option<Option<Fence>> {
    let wants_lock = wanted.is_some_and(|wanted| wanted.lock.is_some());
    match (said, wants_lock) {
        ([] | [0], false) => Some(None),
        (&[fence], true) if fence > 0 => Some(Some(Fence(u64::try_from(fence).ok()?))),
        _ => None,
    }
}

/// What is taken, if it is something that was wanted.
fn obstacle(what: i64, wanted: &Wanted) -> Option<Obstacle> {
    let (is_wanted, obstacle) = match what {
        1 => (wanted.flight.is_some(), Obstacle::Flight),
        2 => (wanted.lock.is_some(), Obstacle::Lock),
        3 => (wanted.lease.is_some(), Obstacle::Lease),
        4 => (wanted.quota.is_some(), Obstacle::Quota),
        _ => return None,
    };
    is_wanted.then_some(obstacle)
}

fn lockout(level: i64, until: i64) -> Option<Lockout> {
    Some(Lockout {
        level: u8::try_from(level).ok().filter(|level| *level <= 3)?,
        until: Millis(u64::try_from(until).ok()?),
    })
}
