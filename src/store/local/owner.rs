//! The decision over the page of an owner whose bucket promises: a tenant, or an address without one.

use tollgate_config::Millis;

use super::Local;
use super::memory::Memory;
use super::met::{Besides, Met};
use super::page::held::NoRoom;
use super::record::Bucket as Kept;
use super::section::Section;
use crate::limit::decision::{Bucket, Holding, Outcome, Penalty};
use crate::store::{Ask, Toll};
use crate::verdict::Verdict;

impl<M: Memory> Local<M> {
    /// Decides over one owner's page. What was revoked before it came takes nothing, and its answer, which
    /// nobody waits for, says nothing.
    pub(super) fn decide_owner(
        &self,
        ask: &Ask,
        section: &Section<'_>,
        met: &Met,
        now: Millis,
        toll: &mut Toll,
    ) -> Verdict {
        let penalty_name = section.owner.held();
        let decided = self.change(&section.owner, toll, |page| {
            if section.is_marked(page, now) {
                return (Ok(Verdict::Contended), false);
            }
            if let Some(tries) = section.attempts() {
                let boxed = page.penalty(penalty_name).lockout(now);
                let boxed = boxed.filter(|_| ask.penalty.strictness.refuses());
                match tries.refuse(page, boxed.is_some(), now) {
                    Ok(None) => {}
                    Ok(Some((verdict, changed))) => return (Ok(verdict), changed),
                    Err(NoRoom) => return (Err(NoRoom), false),
                }
            }
            let second_name = met.second.map_or(met.first.0, |(name, ..)| name);
            let others = [met.first.0, second_name, penalty_name];
            let first_seat = page.seat(met.first.0, &others, now);
            let first = page.bucket(first_seat, &met.first.1, now);
            let second = met.second.map(|(name, meter, cost)| {
                let seat = page.seat(name, &others, now);
                (seat, page.bucket(seat, &meter, now), meter, cost)
            });
            let mut holding = Holding {
                first: Bucket {
                    meter: met.first.1,
                    level: first.level,
                    cost: ask.cost,
                },
                promise: first.promise,
                grace: ask.grace,
                second: second.map(|(_, kept, meter, cost)| Bucket {
                    meter,
                    level: kept.level,
                    cost,
                }),
                penalty: Penalty {
                    terms: ask.penalty.terms,
                    record: page.penalty(penalty_name),
                    strictness: ask.penalty.strictness,
                },
            };
            let held_before = holding.penalty.record;
            let mut besides = Besides::default();
            let outcome = holding.decide_if(now, || {
                let wishes = section.wishes.as_ref();
                besides.obstacle = wishes.and_then(|wishes| wishes.obstacle(page, now));
                besides.obstacle.is_none()
            });
            if outcome == Outcome::Allowed {
                besides.fence = match section.take(page, &others, now) {
                    Ok((fence, _)) => fence,
                    Err(NoRoom) => return (Err(NoRoom), false),
                };
            }
            let untouched = matches!(outcome, Outcome::Boxed { tripped: false, .. });
            if !untouched {
                let kept = Kept {
                    level: holding.first.level,
                    promise: holding.promise,
                };
                page.keep_bucket(first_seat, &kept);
                if let (Some((seat, kept, ..)), Some(bucket)) = (second, holding.second) {
                    page.keep_bucket(
                        seat,
                        &Kept {
                            level: bucket.level,
                            ..kept
                        },
                    );
                }
                let held = holding.penalty.record;
                if held != held_before {
                    page.keep_penalty(penalty_name, &held, &others, now);
                }
            }
            let verdict = met.verdict(&holding, outcome, besides, now);
            (Ok(verdict), !untouched)
        });
        match decided {
            None => Verdict::Contended,
            Some(Ok(verdict)) => verdict,
            Some(Err(NoRoom)) => {
                toll.evictions = toll.evictions.saturating_add(1);
                Verdict::Contended
            }
        }
    }
}
