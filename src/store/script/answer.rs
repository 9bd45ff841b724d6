//! One line of the script's reply, as what was decided. Must not know how replies come.

use tollgate_config::Millis;

use super::{Decision, Item, Met, Step};
use crate::hold::{Fence, Wanted};
use crate::limit::bucket::{Level, Meter};
use crate::limit::penalty::Lockout;
use crate::verdict::{Boxed, Obstacle, Policy, Standing, Standings, Taken, Throttled, Verdict};

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
        let first = |spent, wait| standing(met.first.0, Some(met.first.1), spent, wait);
        let second =
            |spent, wait| standing(met.second_policy, met.second.map(|(m, _)| m), spent, wait);
        let ip = |spent, wait| standing(Policy::Ip, met.ip, spent, wait);
        let millis = |number: i64| u64::try_from(number).ok().map(Millis);
        let verdict = match (self.kind, item.step, self.rest.as_slice()) {
            ('a', Step::Whole | Step::Owner, &[f, s, i, ref fence @ ..]) => Verdict::Allowed(
                Standings::new([Some(first(f, 0)?), second(s, 0), ip(i, 0)]),
                fence_of(fence, wanted)?,
            ),
            ('h', Step::Whole | Step::Owner, &[what, f, s, i, wait, left]) => {
                Verdict::Taken(Taken {
                    by: obstacle(what, wanted?)?,
                    standings: Standings::new([Some(first(f, 0)?), second(s, 0), ip(i, 0)]),
                    wait: millis(wait).filter(|wait| *wait > Millis(0))?,
                    strikes_left: Some(u32::try_from(left).ok()?),
                })
            }
            ('t', Step::Whole | Step::Owner, &[f, fw, s, sw, i, told, left, level, until]) => {
                let standings = Standings::new([Some(first(f, fw)?), second(s, sw), ip(i, 0)]);
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
            ('b', Step::Whole | Step::Owner, &[level, until, tripped]) => Verdict::Boxed(Boxed {
                scope: met.scope,
                lockout: lockout(level, until).filter(|l| l.level > 0 && l.until > self.now)?,
                tripped: tripped == 1,
            }),
            ('i', Step::Whole | Step::Address, &[i, wait, told]) => Verdict::Throttled(Throttled {
                standings: Standings::new([Some(ip(i, wait)?), None, None]),
                wait: millis(told).filter(|told| *told > Millis(0))?,
                strikes_left: None,
                would_box: None,
            }),
            ('p', Step::Address, &[i]) => return Some(Decision::Passed(ip(i, 0)?)),
            ('k', Step::Keep(_), &[all @ (0 | 1)]) => return Some(Decision::Kept(all == 1)),
            ('d', Step::GiveBack | Step::Undo | Step::Revoke, []) => return Some(Decision::Done),
            ('d', Step::Whole | Step::Owner, []) if wanted.is_some_and(Wanted::is_held) => {
                return Some(Decision::Done);
            }
            _ => return None,
        };
        Some(Decision::Verdict(verdict))
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
