//! What attempts come to, worked out the plain way: every attempt that ever was stays, with what became of it.

use std::collections::BTreeMap;

use tollgate_config::Millis;
use tollgate_filter::attempt::{Attempt, Attempts, KNOWN_FOR, Outcome, SPREAD, Sign, Who};
use tollgate_filter::hold::{HELD_FOR, Keep, MARKED_FOR};
use tollgate_filter::limit::penalty::Lockout;
use tollgate_filter::store::Kept;
use tollgate_filter::store::script::{Decision, Item, Step};
use tollgate_filter::store::{Ask, Leg};
use tollgate_filter::verdict::{AuthLockout, Standings, Verdict};

/// What is known of an attempt in a window.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// It was let through then.
    Pending(u64),
    /// It failed then.
    Failed(u64),
    /// Nothing of it counts until then.
    Marked(u64),
}

impl State {
    /// When it failed, or will have.
    fn fails(self) -> Option<u64> {
        match self {
            Self::Pending(since) => Some(since + HELD_FOR.0),
            Self::Failed(at) => Some(at),
            Self::Marked(_) => None,
        }
    }
}

#[derive(Default, Clone, Copy)]
struct Held {
    level: u8,
    until: u64,
    offenses: u32,
    remembered: u64,
}

/// Whose a window is, and a box: names that tell them apart.
#[derive(Clone)]
struct Place {
    window: String,
    held: String,
}

#[derive(Default)]
pub(super) struct Model {
    windows: BTreeMap<String, BTreeMap<u64, State>>,
    held: BTreeMap<String, Held>,
    known: BTreeMap<String, BTreeMap<String, u64>>,
    spread: BTreeMap<String, (u64, Vec<String>)>,
}

impl Model {
    /// The answer to a line. Requests meet no buckets, and are so few that no more than 16 addresses are known.
    pub(super) fn answer(&mut self, item: &Item, now: u64) -> Decision {
        let wanted = item.ask.wanted.as_ref().unwrap();
        let (id, attempts) = (wanted.id.0, wanted.attempts.as_deref().unwrap());
        let on = |leg: Leg| {
            let all = attempts.list.iter().enumerate();
            all.filter(move |(_, one)| match one.who {
                Who::Ip => leg == Leg::Owner,
                Who::Subject(of) | Who::Pair(of) => leg == Leg::Subject(of),
            })
        };
        match item.step {
            Step::Whole => self.ask(&item.ask, attempts, id, now),
            Step::Keep(leg, Keep { outcome, .. }) => {
                let signs = match outcome {
                    Some(outcome) => self.tell(attempts, on(leg).collect(), id, outcome, now),
                    None => {
                        for (_, one) in on(leg) {
                            let place = self.found(attempts, one, id, now);
                            self.end(&place, id, now);
                        }
                        Vec::new()
                    }
                };
                Decision::Kept(Kept { all: true, signs })
            }
            Step::Revoke(leg) => {
                let mut came = false;
                for (_, one) in on(leg).filter(|(_, one)| one.provisional) {
                    for place in places(attempts, one) {
                        let since = now.saturating_sub(one.within.0);
                        came |= self.end(&place, id, since);
                    }
                }
                let first = on(leg).find(|(_, one)| one.provisional);
                if let (false, Some((_, one))) = (came, first) {
                    let place = places(attempts, one).remove(0);
                    self.put(&place, id, State::Marked(now + MARKED_FOR.0));
                }
                Decision::Done
            }
            other => panic!("{other:?}"),
        }
    }

    fn ask(&mut self, ask: &Ask, attempts: &Attempts, id: u64, now: u64) -> Decision {
        for one in attempts.list.iter().filter(|one| one.provisional) {
            let place = places(attempts, one).remove(0);
            if let Some(State::Marked(until)) = self.state(&place, id)
                && until > now
            {
                return Decision::Done;
            }
        }
        let refused = |attempt, lockout, tripped| {
            Decision::Verdict(Verdict::AuthLockout(AuthLockout {
                attempt,
                lockout,
                tripped,
            }))
        };
        let here = |model: &Self, one: &Attempt| {
            let known = one.spares && model.is_known(attempts, one, now);
            places(attempts, one).remove(usize::from(known))
        };
        let all = || attempts.list.iter().enumerate();
        let mut latest: Option<(usize, Lockout)> = None;
        for (number, one) in all() {
            if let Some(lockout) = self.lockout(&here(self, one), now)
                && latest.is_none_or(|(_, last)| lockout.until > last.until)
            {
                latest = Some((number, lockout));
            }
        }
        // Where a throttle put the address there, that is the answer.
        let by_address = all()
            .any(|(_, one)| one.who == Who::Ip && self.lockout(&here(self, one), now).is_some());
        if ask.penalty.strictness.refuses()
            && !by_address
            && let Some(held) = self.held.get(&address_of(attempts))
            && held.until > now
        {
            let boxed = tollgate_filter::verdict::Boxed {
                scope: tollgate_filter::verdict::Scope::Ip,
                lockout: Lockout {
                    level: held.level,
                    until: Millis(held.until),
                },
                tripped: false,
            };
            return Decision::Verdict(Verdict::Boxed(boxed));
        }
        if let Some((attempt, lockout)) = latest {
            return refused(attempt, lockout, false);
        }
        for (number, one) in all() {
            let place = here(self, one);
            let failed = self.failed(&place, one, now);
            let pending = self.count(&place, |at| at > now);
            if failed >= one.failures {
                let lockout = self.trip(&place, one, id, now);
                return refused(number, lockout, true);
            }
            if one.provisional && failed + pending >= one.failures {
                return Decision::Verdict(Verdict::AuthBusy);
            }
        }
        for (_, one) in all().filter(|(_, one)| one.provisional) {
            let place = here(self, one);
            self.put(&place, id, State::Pending(now));
        }
        Decision::Verdict(Verdict::Allowed(Standings::default(), None))
    }

    fn tell(
        &mut self,
        attempts: &Attempts,
        list: Vec<(usize, &Attempt)>,
        id: u64,
        outcome: Outcome,
        now: u64,
    ) -> Vec<Sign> {
        let mut signs = Vec::new();
        let found: Vec<(Place, bool)> = list
            .iter()
            .map(|(_, one)| {
                let place = self.found(attempts, one, id, now);
                let locked = self.lockout(&place, now).is_some();
                (place, locked)
            })
            .collect();
        let mut noted = false;
        for ((number, one), (place, locked)) in list.into_iter().zip(found) {
            let since = now.saturating_sub(one.within.0);
            if outcome.is_failed(number) {
                if let Some(lockout) = self.fail(&place, one, locked, id, &outcome, now) {
                    signs.push(Sign::Locked(number, lockout));
                }
                if matches!(one.who, Who::Subject(_)) && !noted {
                    noted = true;
                    if self.is_from_many(attempts, one, now) {
                        signs.push(Sign::Spread(number));
                    }
                }
                continue;
            }
            self.end(&place, id, since);
            if outcome.succeeded {
                if one.resets {
                    self.clear(&place, one, id, now);
                }
                if one.spares {
                    let known = self.known.entry(subject_of(attempts, one)).or_default();
                    let last = known.entry(address_of(attempts)).or_insert(0);
                    if now - *last > 3_600_000 {
                        *last = now;
                    }
                }
            }
        }
        signs
    }

    fn fail(
        &mut self,
        place: &Place,
        one: &Attempt,
        locked: bool,
        id: u64,
        outcome: &Outcome,
        now: u64,
    ) -> Option<Lockout> {
        let failed_at = outcome.started.0.min(now);
        match self.state(place, id) {
            Some(State::Marked(until)) if until > now => return None,
            Some(State::Failed(at)) if at == failed_at && counts(at, one, now) => return None,
            _ => {}
        }
        if locked {
            self.put(place, id, State::Marked(now + MARKED_FOR.0));
            return None;
        }
        self.put(place, id, State::Failed(failed_at));
        // Even where it is so long ago that it is none any more.
        (self.failed(place, one, now) >= one.failures).then(|| self.trip(place, one, id, now))
    }

    fn trip(&mut self, place: &Place, one: &Attempt, id: u64, now: u64) -> Lockout {
        let held = self.held.entry(place.held.clone()).or_default();
        if held.remembered <= now {
            held.offenses = 0;
        }
        held.offenses += 1;
        held.level = held.offenses.min(3).min(u32::from(one.max_level)) as u8;
        held.until = now + one.levels[usize::from(held.level) - 1].0;
        held.remembered = now + one.offense_memory.0;
        self.clear(place, one, id, now);
        self.lockout(place, now).unwrap()
    }

    fn clear(&mut self, place: &Place, one: &Attempt, id: u64, now: u64) {
        let window = self.windows.entry(place.window.clone()).or_default();
        for (other, state) in window.iter_mut() {
            if let Some(at) = state.fails().filter(|at| counts(*at, one, now)) {
                let again = at + 120_000 > now || *other == id;
                *state = State::Marked(if again { now + MARKED_FOR.0 } else { 0 });
            }
        }
    }

    fn is_from_many(&mut self, attempts: &Attempts, one: &Attempt, now: u64) -> bool {
        let (until, from) = self.spread.entry(subject_of(attempts, one)).or_default();
        if *until <= now || *until > now + one.within.0 {
            *until = now + one.within.0;
            from.clear();
        }
        let address = address_of(attempts);
        if from.contains(&address) {
            return false;
        }
        from.push(address);
        from.len() == SPREAD as usize
    }

    /// Takes out what is no mark, and fails later than `since`.
    fn end(&mut self, place: &Place, id: u64, since: u64) -> bool {
        let fails = self.state(place, id).and_then(State::fails);
        let ends = fails.is_some_and(|at| at > since);
        if ends {
            self.windows
                .entry(place.window.clone())
                .or_default()
                .remove(&id);
        }
        ends
    }

    /// Where an attempt is; else where it would be.
    fn found(&self, attempts: &Attempts, one: &Attempt, id: u64, now: u64) -> Place {
        let there = |place: &&Place| match self.state(place, id) {
            Some(State::Marked(until)) => until > now,
            Some(state) => state.fails().is_some_and(|at| at + one.within.0 > now),
            None => false,
        };
        let places = places(attempts, one);
        let known = one.spares && self.is_known(attempts, one, now);
        let found = places.iter().rev().find(there);
        found.unwrap_or(&places[usize::from(known)]).clone()
    }

    fn state(&self, place: &Place, id: u64) -> Option<State> {
        self.windows.get(&place.window)?.get(&id).copied()
    }

    fn put(&mut self, place: &Place, id: u64, state: State) {
        let window = self.windows.entry(place.window.clone()).or_default();
        window.insert(id, state);
    }

    fn failed(&self, place: &Place, one: &Attempt, now: u64) -> u32 {
        self.count(place, |at| counts(at, one, now))
    }

    fn count(&self, place: &Place, wanted: impl Fn(u64) -> bool) -> u32 {
        let window = self.windows.get(&place.window);
        let all = window.into_iter().flat_map(BTreeMap::values);
        let all = all.filter_map(|state| state.fails());
        u32::try_from(all.filter(|at| wanted(*at)).count()).unwrap()
    }

    fn lockout(&self, place: &Place, now: u64) -> Option<Lockout> {
        let held = self.held.get(&place.held)?;
        (held.until > now).then_some(Lockout {
            level: held.level,
            until: Millis(held.until),
        })
    }

    fn is_known(&self, attempts: &Attempts, one: &Attempt, now: u64) -> bool {
        let known = self.known.get(&subject_of(attempts, one));
        let last = known.and_then(|known| known.get(&address_of(attempts)));
        last.is_some_and(|last| last + KNOWN_FOR.0 > now)
    }
}

/// Whether what failed then is in the window.
fn counts(at: u64, one: &Attempt, now: u64) -> bool {
    at <= now && at + one.within.0 > now
}

fn address_of(attempts: &Attempts) -> String {
    attempts.address.to_string()
}

fn subject_of(attempts: &Attempts, one: &Attempt) -> String {
    match one.who {
        Who::Ip => String::new(),
        Who::Subject(of) | Who::Pair(of) => attempts.subjects[usize::from(of)].as_str().to_owned(),
    }
}

/// Where an attempt counts, and, if it spares addresses, where from one that is known.
fn places(attempts: &Attempts, one: &Attempt) -> Vec<Place> {
    let (address, subject) = (address_of(attempts), subject_of(attempts, one));
    let place = |held: String| Place {
        window: format!("{} {held}", one.name),
        held,
    };
    let shared = match one.who {
        Who::Ip => place(address.clone()),
        Who::Subject(_) => place(subject.clone()),
        Who::Pair(_) => place(format!("{subject} {address}")),
    };
    let mut places = vec![shared];
    if one.spares {
        places.push(place(format!("{subject} {address}")));
    }
    places
}
