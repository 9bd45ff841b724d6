//! The decision over a page where no bucket promises anything: an address's `ip_limit`, of a tenant's request or of
//! one that presents credentials, and attempts at credentials. Nobody is struck here.

use tollgate_config::Millis;

use super::Local;
use super::memory::Memory;
use super::met::scope;
use super::page::Page;
use super::page::held::NoRoom;
use super::passed::Passed;
use super::record::Bucket as Kept;
use super::section::Section;
use crate::hold::Fence;
use crate::limit::bucket::{Level, Meter};
use crate::store::{Ask, Leg, Subject, Toll};
use crate::verdict::{Boxed, Obstacle, Policy, Standing, Standings, Taken, Throttled, Verdict};

/// What besides attempts a request meets at such a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gate {
    /// `ip_limit`.
    pub(super) meter: Option<Meter>,
    /// The box refuses.
    boxes: bool,
}

impl Gate {
    pub(super) const fn of(ask: &Ask, leg: Leg) -> Self {
        match (&ask.subject, leg) {
            (
                Subject::Key {
                    ip: Some((_, meter)),
                    ..
                },
                Leg::Address,
            ) => Self {
                meter: Some(*meter),
                boxes: false,
            },
            (Subject::Credential { ip_meter, .. }, Leg::Owner) => Self {
                meter: *ip_meter,
                boxes: ask.penalty.strictness.refuses(),
            },
            _ => Self {
                meter: None,
                boxes: false,
            },
        }
    }
}

/// What was decided over such a page.
enum Opened {
    /// The level of `ip_limit` after that, and the fence of a lock.
    Passed(Option<(Meter, Level)>, Option<Fence>),
    /// `ip_limit` is spent.
    Shut(Standing),
    Taken(Obstacle, Millis, Option<Standing>),
    Refused(Verdict),
    NoRoom,
}

impl<M: Memory> Local<M> {
    /// Decides over the page of a leg: why it refuses, or what it gave is added to what `passed`.
    pub(super) fn refuse_at_gate(
        &self,
        ask: &Ask,
        section: &Section<'_>,
        gate: &Gate,
        passed: &mut Passed,
        now: Millis,
        toll: &mut Toll,
    ) -> Option<Verdict> {
        let meets_nothing = gate.meter.is_none() && !gate.boxes;
        if meets_nothing && section.wishes.is_none() && section.attempts().is_none() {
            return None;
        }
        let opened = self.change(&section.owner, toll, |page| {
            open(ask, section, gate, page, now)
        });
        let strikes_left = None;
        Some(match opened {
            None => Verdict::Contended,
            Some(Opened::Passed(ip, fence)) => {
                passed.ip = passed.ip.or(ip);
                passed.fence = passed.fence.or(fence);
                return None;
            }
            Some(Opened::Refused(verdict)) => verdict,
            Some(Opened::NoRoom) => {
                toll.evictions = toll.evictions.saturating_add(1);
                Verdict::Contended
            }
            Some(Opened::Shut(standing)) => {
                // Waiting for the address alone would lead to the next refusal.
                let owners = match section.leg {
                    Leg::Owner => Millis(0),
                    Leg::Address | Leg::Subject(_) => self.owner_wait(ask, now),
                };
                Verdict::Throttled(Throttled {
                    standings: Standings::new([Some(standing), None, None]),
                    wait: standing.wait.max(owners),
                    strikes_left,
                    would_box: None,
                })
            }
            Some(Opened::Taken(by, wait, standing)) => Verdict::Taken(Taken {
                by,
                standings: Standings::new([standing, None, None]),
                wait,
                strikes_left,
            }),
        })
    }
}

/// Decides over the page as it is now, and whether it is to be written.
fn open(
    ask: &Ask,
    section: &Section<'_>,
    gate: &Gate,
    page: &mut Page,
    now: Millis,
) -> (Opened, bool) {
    if section.is_marked(page, now) {
        return (Opened::Refused(Verdict::Contended), false);
    }
    let held = section.owner.held();
    let lockout = page.penalty(held).lockout(now).filter(|_| gate.boxes);
    if let Some(tries) = section.attempts() {
        match tries.refuse(page, lockout.is_some(), now) {
            Ok(None) => {}
            Ok(Some((verdict, changed))) => return (Opened::Refused(verdict), changed),
            Err(NoRoom) => return (Opened::NoRoom, false),
        }
    }
    if let Some(lockout) = lockout {
        let boxed = Boxed {
            scope: scope(ask),
            lockout,
            tripped: false,
        };
        return (Opened::Refused(Verdict::Boxed(boxed)), false);
    }
    let name = section.owner.ip();
    let others = [name, held];
    let met = gate.meter.map(|meter| {
        let seat = page.seat(name, &others, now);
        (seat, page.bucket(seat, &meter, now), meter)
    });
    if let Some((_, kept, meter)) = &met {
        let level = kept.level.seen(meter, now);
        let wait = level.wait(meter, 1);
        if wait > Millis(0) {
            let standing = Standing::new(Policy::Ip, *meter, &level, wait);
            return (Opened::Shut(standing), false);
        }
    }
    let wishes = section.wishes.as_ref();
    let obstacle = wishes.and_then(|wishes| wishes.obstacle(page, now));
    let taken = match obstacle {
        Some(_) => Ok((None, false)),
        None => section.take(page, &others, now),
    };
    let Ok((fence, taken)) = taken else {
        return (Opened::NoRoom, false);
    };
    let level = met.map(|(seat, kept, meter)| {
        let level = kept.level.charged(&meter, now, 1);
        page.keep_bucket(seat, &Kept { level, ..kept });
        (meter, level)
    });
    let opened = match obstacle {
        None => Opened::Passed(level, fence),
        Some((by, wait)) => {
            let standing = level.map(|(meter, level)| {
                let level = level.seen(&meter, now);
                Standing::new(Policy::Ip, meter, &level, Millis(0))
            });
            Opened::Taken(by, wait, standing)
        }
    };
    (opened, taken || level.is_some())
}
