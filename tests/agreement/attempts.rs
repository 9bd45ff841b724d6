//! Both stores agree about attempts at credentials: asked whole, and leg by leg as a cluster is.

use std::rc::Rc;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use tollgate_config::Millis;
use tollgate_filter::attempt::Outcome;
use tollgate_filter::hold::{HELD_FOR, Keep};
use tollgate_filter::store::local::{Local, heap::Heap};
use tollgate_filter::store::script::{Decision, Item, Step};
use tollgate_filter::store::{Ask, Kept, Leg, Store as _};
use tollgate_filter::verdict::Verdict;

use super::logins::{Act, End, Login, Terms, Turn, stories};
use super::{REMOTE, Remote, START, Story, local};

/// How Redis is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Whole,
    ByLegs,
}

/// A request that was let through, and when.
#[derive(Debug, Clone)]
struct Open {
    ask: Rc<Ask>,
    started: Millis,
}

struct Scene<'a> {
    how: How,
    terms: &'a Terms,
    remote: &'a mut Remote,
    local: Local<Heap>,
    now: Millis,
    asked: u64,
    open: Vec<Open>,
    under_way: Vec<Rc<Ask>>,
    fences: Story,
}

fn of(ask: &Rc<Ask>, step: Step) -> Item {
    Item {
        ask: Rc::clone(ask),
        step,
    }
}

impl Remote {
    /// Leg by leg; who is refused by one gets back what those before gave.
    fn leg_by_leg(&mut self, ask: &Rc<Ask>, now: Millis) -> Verdict {
        let mut step = |step| self.call(&[of(ask, step)], now).remove(0);
        let legs: Vec<Leg> = ask.legs().collect();
        let (mut address, mut allowed) = (None, None);
        for (number, leg) in legs.iter().enumerate() {
            let refused = match step(Step::Part(*leg)) {
                Decision::Passed(standing) => {
                    address = address.or(standing);
                    continue;
                }
                Decision::Verdict(Verdict::Allowed(standings, fence)) => {
                    allowed = Some((standings, fence));
                    continue;
                }
                Decision::Verdict(refused) => refused,
                Decision::Done => Verdict::Contended,
                Decision::Kept(_) => panic!("nothing was told"),
            };
            for done in legs[..number].iter().rev() {
                if ask.holds_on(*done) {
                    step(Step::Keep(*done, Keep::NOTHING));
                }
                if ask.pays_on(*done) {
                    step(match done {
                        Leg::Address => Step::GiveBack,
                        _ => Step::Undo,
                    });
                }
            }
            return refused;
        }
        let (standings, fence) = allowed.expect("the owner gives a verdict");
        match address {
            Some(address) => Verdict::Allowed(standings.with(address), fence),
            None => Verdict::Allowed(standings, fence),
        }
    }
}

impl Scene<'_> {
    fn question(&mut self, login: &Login) -> Rc<Ask> {
        self.asked += 1;
        let login = match self.how {
            How::Whole => login.clone(),
            How::ByLegs => login.plentiful(),
        };
        Rc::new(login.ask(self.asked, self.terms))
    }

    /// Asks both; who is let through is open then, the last of all.
    fn decide(&mut self, asks: Vec<Rc<Ask>>) -> Result<usize, TestCaseError> {
        let by_script: Vec<Verdict> = match self.how {
            How::Whole => {
                let items: Vec<Item> = asks.iter().map(|ask| of(ask, Step::Whole)).collect();
                let decisions = self.remote.call(&items, self.now);
                let verdict = |decision| match decision {
                    Decision::Verdict(verdict) => verdict,
                    _ => Verdict::Contended,
                };
                decisions.into_iter().map(verdict).collect()
            }
            How::ByLegs => asks
                .iter()
                .map(|ask| self.remote.leg_by_leg(ask, self.now))
                .collect(),
        };
        let mut let_through = 0;
        for (ask, by_script) in asks.into_iter().zip(by_script) {
            let (by_local, toll) = self.local.decide(&ask, self.now);
            prop_assert_eq!(toll.evictions, 0);
            let by_script = self.fences.fenced(0, &ask, by_script)?;
            let by_local = self.fences.fenced(1, &ask, by_local)?;
            let is_allowed = matches!(by_local, Verdict::Allowed(..));
            match self.how {
                // Of several reasons the first leg that has one tells its own.
                How::ByLegs if !is_allowed => {
                    let refused = !matches!(by_script, Verdict::Allowed(..));
                    prop_assert!(refused, "{:?}, but {:?}: {:?}", by_script, by_local, ask);
                    let revoked = matches!(by_local, Verdict::Contended);
                    let attempts = ask.wanted.as_ref().and_then(|w| w.attempts.as_ref());
                    if attempts.is_some_and(|a| !revoked && a.list.len() == 1) {
                        prop_assert_eq!(by_local.name(), by_script.name(), "{:?}", ask);
                    }
                }
                _ => prop_assert_eq!(
                    &by_local,
                    &by_script,
                    "local, script at {:?}: {:?}",
                    self.now,
                    ask
                ),
            }
            if is_allowed {
                let_through += 1;
                let started = self.now;
                self.open.push(Open { ask, started });
            }
        }
        Ok(let_through)
    }

    /// Tells both; Redis in one call.
    fn keep(&mut self, told: &[(Rc<Ask>, Keep)]) -> Result<(), TestCaseError> {
        let by_script = self.keep_by_script(told);
        for ((ask, keep), by_script) in told.iter().zip(by_script) {
            let by_local = self.local.keep(ask, *keep, self.now);
            // Lockouts and what else is noticed come in any order.
            let sorted = |mut kept: Kept| {
                kept.signs.sort_by_key(|sign| format!("{sign:?}"));
                kept
            };
            let (by_local, by_script) = (sorted(by_local.unwrap()), sorted(by_script));
            prop_assert_eq!(
                by_local,
                by_script,
                "local, script at {:?}: {:?} of {:?}",
                self.now,
                keep,
                ask
            );
        }
        Ok(())
    }

    fn keep_by_script(&mut self, told: &[(Rc<Ask>, Keep)]) -> Vec<Kept> {
        let mut items = Vec::new();
        let mut whose = Vec::new();
        for (place, (ask, keep)) in told.iter().enumerate() {
            for leg in ask.legs() {
                if let Some(keep) = ask.told_on(leg, *keep) {
                    items.push(of(ask, Step::Keep(leg, keep)));
                    whose.push(place);
                }
            }
        }
        let mut all = vec![Kept::silently(true); told.len()];
        if items.is_empty() {
            return all;
        }
        let decisions = self.remote.call(&items, self.now);
        for (place, decision) in whose.into_iter().zip(decisions) {
            let Decision::Kept(kept) = decision else {
                panic!("something was told");
            };
            all[place].all &= kept.all;
            all[place].signs.extend(kept.signs);
        }
        all
    }

    fn tell(&mut self, ended: Vec<(Open, End)>, twice: bool) -> Result<(), TestCaseError> {
        // To Redis one that ran out, and was counted for a lockout, may have been told already, and is not counted
        // for stuffing again; a page is told once.
        let (now, stuffing) = (self.now, self.terms.stuffing.is_some());
        let in_time = |open: &Open| open.started.plus(HELD_FOR) > now;
        let ended = ended
            .into_iter()
            .filter(|(open, _)| in_time(open) || !stuffing);
        let keep = |(open, end): (Open, End)| {
            let outcome = Outcome {
                started: open.started,
                failed: end.failed,
                succeeded: end.succeeded,
            };
            let outcome = Some(outcome);
            (
                open.ask,
                Keep {
                    outcome,
                    ..Keep::NOTHING
                },
            )
        };
        let told: Vec<_> = ended.map(keep).collect();
        if !twice {
            return self.keep(&told);
        }
        for one in told {
            let one = [one];
            self.keep(&one)?;
            // Word may come to Redis twice, while a page is told once. It changes nothing, unless others failed
            // between the two. (Where no window of the address tells, it counts twice for stuffing.)
            if self.terms.stuffing.is_none() {
                let again = self.keep_by_script(&one).remove(0);
                prop_assert_eq!(again.signs, [], "{:?}", one);
            }
        }
        Ok(())
    }

    fn revoke(&mut self, ask: &Rc<Ask>) {
        let held = ask.legs().filter(|leg| ask.holds_on(*leg));
        let items: Vec<Item> = held.map(|leg| of(ask, Step::Revoke(leg))).collect();
        if !items.is_empty() {
            self.remote.call(&items, self.now);
            self.local.revoke(ask, self.now).unwrap();
        }
    }

    fn take_open(&mut self, place: usize) -> Option<Open> {
        let place = place.checked_rem(self.open.len())?;
        Some(self.open.remove(place))
    }

    fn take_under_way(&mut self, place: usize) -> Option<Rc<Ask>> {
        let place = place.checked_rem(self.under_way.len())?;
        Some(self.under_way.remove(place))
    }

    /// Leg by leg, a window that is full without anybody having told of it would be found out by a request that
    /// another leg refuses, and where all are looked at first it would not.
    fn end_in_time(&mut self, advance: u64) -> Result<(), TestCaseError> {
        let then = self.now.plus(Millis(advance));
        if self.how == How::Whole {
            return Ok(());
        }
        let open = std::mem::take(&mut self.open);
        let (late, open) = open
            .into_iter()
            .partition(|open| open.started.plus(HELD_FOR) <= then);
        self.open = open;
        let late: Vec<Open> = late;
        let failed = End {
            failed: u32::MAX,
            succeeded: false,
        };
        self.tell(late.into_iter().map(|open| (open, failed)).collect(), false)
    }

    fn play(&mut self, turn: &Turn) -> Result<(), TestCaseError> {
        self.end_in_time(turn.advance)?;
        self.now = self.now.plus(Millis(turn.advance));
        match &turn.act {
            Act::Ask(logins, end) => {
                let asks = logins.iter().map(|login| self.question(login)).collect();
                let let_through = self.decide(asks)?;
                if let Some(end) = end {
                    let ended = self.open.split_off(self.open.len() - let_through);
                    self.tell(ended.into_iter().map(|open| (open, *end)).collect(), false)?;
                }
            }
            Act::Send(login) => {
                let ask = self.question(login);
                self.under_way.push(ask);
            }
            Act::Arrive(place) => {
                if let Some(ask) = self.take_under_way(*place) {
                    self.decide(vec![ask])?;
                }
            }
            Act::Overtake(place) => {
                if let Some(place) = place.checked_rem(self.under_way.len()) {
                    let ask = Rc::clone(&self.under_way[place]);
                    self.revoke(&ask);
                }
            }
            Act::Tell(which, twice) => {
                let mut ended = Vec::new();
                for (place, end) in which {
                    ended.extend(self.take_open(*place).map(|open| (open, *end)));
                }
                self.tell(ended, *twice)?;
            }
            Act::Renew(place) => {
                if let Some(place) = place.checked_rem(self.open.len()) {
                    let ask = Rc::clone(&self.open[place].ask);
                    self.keep(&[(ask, Keep::ON)])?;
                }
            }
            Act::Undo(place) => {
                // What ran out before that is a failure to Redis, which cannot tell it from one that it was told of;
                // a page can, and lets it go.
                let now = self.now;
                let open = self.take_open(*place);
                if let Some(open) = open.filter(|open| open.started.plus(HELD_FOR) > now) {
                    self.keep(&[(open.ask, Keep::NOTHING)])?;
                }
            }
            Act::Revoke(place) => {
                if let Some(open) = self.take_open(*place) {
                    self.revoke(&open.ask);
                }
            }
        }
        Ok(())
    }
}

fn agree(how: How, terms: &Terms, turns: &[Turn]) -> Result<(), TestCaseError> {
    REMOTE.with_borrow_mut(|remote| {
        remote.server.say::<String>("FLUSHDB");
        let mut scene = Scene {
            how,
            terms,
            remote,
            local: local(),
            now: Millis(START),
            asked: 0,
            open: Vec::new(),
            under_way: Vec::new(),
            fences: Story::default(),
        };
        for turn in turns {
            scene.play(turn)?;
        }
        let keys: Vec<String> = remote.server.say("KEYS *");
        for key in keys {
            let ttl: i64 = remote.server.say(&format!("PTTL {key}"));
            prop_assert!(ttl > 0, "{} does not expire", key);
        }
        Ok(())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(450) })]

    #[test]
    fn both_stores_agree_about_attempts((terms, turns) in stories()) {
        agree(How::Whole, &terms, &turns)?;
    }

    #[test]
    fn asked_leg_by_leg_attempts_are_let_through_alike((terms, turns) in stories()) {
        agree(How::ByLegs, &terms, &turns)?;
    }
}
