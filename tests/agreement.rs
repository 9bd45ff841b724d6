//! Both stores give the same verdicts: random sequences through the local store and through the real
//! script on a real Redis, in virtual time.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

#[path = "agreement/attempts.rs"]
mod attempts;
#[path = "agreement/choices.rs"]
mod choices;
#[path = "agreement/logins.rs"]
mod logins;
#[path = "agreement/server.rs"]
mod server;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use tollgate_config::{Bytes, Millis};
use tollgate_filter::hold::{Fence, HoldId, Keep};
use tollgate_filter::store::Leg;
use tollgate_filter::store::local::{Local, PAGE_SIZE, heap::Heap};
use tollgate_filter::store::script::{Clock, Decision, Item, Script, Step};
use tollgate_filter::store::{Ask, Store as _, Subject};
use tollgate_filter::verdict::{Policy, Standings, Taken, Throttled, Verdict};

use choices::{Act, Choice, Plenty, ask, turns};
use server::Server;

/// 2026-03-01T00:00:00Z.
const START: u64 = 1_772_323_200_000;

/// The script on a Redis.
/// What each call has said back.
const WORD: &str = "a.1.0";

struct Remote {
    server: Server,
    script: Script,
}

impl Remote {
    fn new(name: &str) -> Self {
        let mut server = Server::start(name);
        let load = ["SCRIPT", "LOAD", Script::source()].map(str::to_owned);
        let sha: String = redis::from_redis_value(server.send(&load).unwrap()).unwrap();
        assert_eq!(sha, Script::sha());
        let script = Script {
            key_prefix: "p:".to_owned(),
            clock: Clock::Given,
        };
        Self { server, script }
    }

    fn call(&mut self, items: &[Item], now: Millis) -> Vec<Decision> {
        let command = self.script.call(items, WORD, now);
        let reply =
            redis::from_redis_value::<Vec<String>>(self.server.send(&command).unwrap()).unwrap();
        let answers = self.script.answers(items, WORD, &reply);
        answers
            .unwrap_or_else(|wrong| panic!("{wrong:?}: {items:?} answered by {reply:?}"))
            .decisions
    }

    /// Each in a step of its own, as Redis Cluster needs it, put together as one verdict.
    fn in_steps(&mut self, ask: &Rc<Ask>, now: Millis) -> Verdict {
        let mut step = |step| {
            let ask = Rc::clone(ask);
            self.call(&[Item { ask, step }], now).remove(0)
        };
        let address = match step(Step::Part(Leg::Address)) {
            Decision::Passed(Some(standing)) => standing,
            Decision::Verdict(refused) => return refused,
            Decision::Done | Decision::Kept(_) | Decision::Passed(None) => {
                panic!("nothing was given back")
            }
        };
        let verdict = match step(Step::Part(Leg::Owner)) {
            Decision::Verdict(verdict) => verdict,
            // It was revoked before it came.
            Decision::Done => Verdict::Contended,
            other => panic!("an owner gives a verdict, not {other:?}"),
        };
        match verdict {
            Verdict::Allowed(standings, fence) => Verdict::Allowed(standings.with(address), fence),
            refused => {
                assert_eq!(step(Step::GiveBack), Decision::Done);
                refused
            }
        }
    }
}

thread_local! {
    static REMOTE: RefCell<Remote> = RefCell::new(Remote::new("agreement"));
}

/// Pages have room for all that is held in a story.
fn local() -> Local<Heap> {
    Local::open(Heap::default(), Bytes(1 << 20), 16 * PAGE_SIZE, [1, 2])
}

/// Who asked so far, what of that is under way, and the fences that were given.
#[derive(Default)]
struct Story {
    choices: Vec<Choice>,
    under_way: Vec<usize>,
    fences: BTreeMap<String, [Option<Fence>; 2]>,
}

impl Story {
    /// A line as an item; `None` if it is about nobody. (The number of the request is its id.)
    fn item(&mut self, act: &Act, plenty: Plenty) -> Option<Item> {
        let last = self.choices.len();
        let (number, step) = match act {
            Act::Ask(choice) => {
                self.choices.push(choice.clone());
                (last, Step::Whole)
            }
            Act::Send(choice) => {
                self.choices.push(choice.clone());
                self.under_way.push(last);
                return None;
            }
            Act::Arrive(of) => {
                let place = of.checked_rem(self.under_way.len())?;
                (self.under_way.remove(place), Step::Whole)
            }
            Act::Keep(of, lengths) => {
                let [lease, lock, flight] = lengths.map(Millis);
                let keep = Keep {
                    lease,
                    lock,
                    flight,
                    outcome: None,
                };
                (of.checked_rem(last)?, Step::Keep(Leg::Owner, keep))
            }
            Act::Revoke(of) => (of.checked_rem(last)?, Step::Revoke(Leg::Owner)),
            Act::Overtake(of) => {
                let place = of.checked_rem(self.under_way.len())?;
                (self.under_way[place], Step::Revoke(Leg::Owner))
            }
        };
        let ask = ask(&self.choices[number], HoldId(number as u64), plenty);
        let later = matches!(step, Step::Keep(..) | Step::Revoke(_));
        let there = !later || ask.wanted.is_some();
        let ask = Rc::new(ask);
        there.then_some(Item { ask, step })
    }

    /// The decision without its fence, which grows for each resource, in both stores, but is not the same.
    fn fenced(
        &mut self,
        side: usize,
        ask: &Ask,
        verdict: Verdict,
    ) -> Result<Verdict, TestCaseError> {
        let Verdict::Allowed(standings, fence) = verdict else {
            return Ok(verdict);
        };
        let wanted = ask.wanted.as_ref().and_then(|wanted| wanted.lock.as_ref());
        prop_assert_eq!(wanted.is_some(), fence.is_some());
        if let Some(lock) = wanted {
            let owner = match &ask.subject {
                Subject::Key { tenant, .. } => tenant.as_str().to_owned(),
                Subject::Anonymous { address, .. } | Subject::Credential { address, .. } => {
                    address.to_string()
                }
            };
            let resource = format!("{owner} {} {}", ask.shadow, lock.as_str());
            let last = &mut self.fences.entry(resource).or_default()[side];
            prop_assert!(*last < fence, "{:?} after {:?}", fence, last);
            *last = fence;
        }
        Ok(Verdict::Allowed(standings, None))
    }
}

/// The same by the local store.
fn locally(local: &mut Local<Heap>, item: &Item, now: Millis) -> Decision {
    let ask = &item.ask;
    match item.step {
        Step::Keep(_, keep) => Decision::Kept(local.keep(ask, keep, now).unwrap()),
        Step::Revoke(Leg::Owner) => {
            local.revoke(ask, now).unwrap();
            Decision::Done
        }
        _ => match local.decide(ask, now) {
            // There is no other reason for it here.
            (Verdict::Contended, toll) => {
                assert_eq!(toll.evictions, 0);
                Decision::Done
            }
            (verdict, _) => Decision::Verdict(verdict),
        },
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn the_script_and_the_local_store_agree(turns in turns()) {
        REMOTE.with_borrow_mut(|remote| {
            remote.server.say::<String>("FLUSHDB");
            let mut local = local();
            let mut story = Story::default();
            let mut now = START;
            for (number, turn) in turns.iter().enumerate() {
                now = now.saturating_add_signed(turn.advance);
                let acts = turn.batch.iter();
                let items: Vec<Item> =
                    acts.filter_map(|act| story.item(act, turn.plenty)).collect();
                if items.is_empty() {
                    continue;
                }
                let decisions = remote.call(&items, Millis(now));
                for (place, (item, decision)) in items.iter().zip(decisions).enumerate() {
                    let mut comparable = |side, decision| match decision {
                        Decision::Verdict(verdict) => story
                            .fenced(side, &item.ask, verdict)
                            .map(Decision::Verdict),
                        other => Ok(other),
                    };
                    let by_script = comparable(0, decision)?;
                    let by_local = comparable(1, locally(&mut local, item, Millis(now)))?;
                    prop_assert_eq!(
                        by_local, by_script,
                        "turn {}, line {}: {:?}", number, place, item
                    );
                }
            }
            let without_end: Vec<String> = remote.server.say("KEYS *");
            for key in without_end {
                let ttl: i64 = remote.server.say(&format!("PTTL {key}"));
                prop_assert!(ttl > 0, "{} does not expire", key);
            }
            Ok(())
        })?;
    }

    #[test]
    fn asked_tag_by_tag_the_verdict_is_the_same(turns in turns()) {
        REMOTE.with_borrow_mut(|remote| {
            remote.server.say::<String>("FLUSHDB");
            let mut local = local();
            let mut story = Story::default();
            let mut now = START;
            for turn in &turns {
                // The clock is not set back: a boxed request touches the address here, and does not there.
                now = now.saturating_add_signed(turn.advance.max(0));
                for act in &turn.batch {
                    let Some(item) = story.item(&with_address_limit(act), turn.plenty) else {
                        continue;
                    };
                    let Item { ask, step } = &item;
                    let tenant = matches!(ask.subject, Subject::Key { ip: Some(_), .. });
                    if !tenant {
                        continue;
                    }
                    let expected = locally(&mut local, &item, Millis(now));
                    if *step != Step::Whole {
                        let told = remote.call(std::slice::from_ref(&item), Millis(now));
                        prop_assert_eq!(&[expected][..], &told, "{:?}", item);
                        continue;
                    }
                    let expected = match expected {
                        Decision::Verdict(verdict) => verdict,
                        _ => Verdict::Contended,
                    };
                    let verdict = remote.in_steps(ask, Millis(now));
                    let without_address = matches!(expected, Verdict::Contended)
                        || matches!(expected, Verdict::Boxed(boxed) if !boxed.tripped);
                    let by_address =
                        matches!(verdict, Verdict::Throttled(t) if t.strikes_left.is_none());
                    if without_address && by_address {
                        // The address is asked first, and refused.
                        continue;
                    }
                    let expected = story.fenced(0, ask, expected)?;
                    let verdict = story.fenced(1, ask, verdict)?;
                    prop_assert_eq!(comparable(expected), comparable(verdict), "{:?}", ask);
                }
            }
            Ok(())
        })?;
    }
}

/// The same, with an `ip_limit` that is always the same: the address is asked before the box is known to be in
/// force, and given its point back after that: the same but for a limit that changed between the two.
fn with_address_limit(act: &Act) -> Act {
    let changed = |choice: &Choice| Choice {
        ip: choice.ip.map(|_| 1),
        ..choice.clone()
    };
    match act {
        Act::Ask(choice) => Act::Ask(changed(choice)),
        Act::Send(choice) => Act::Send(changed(choice)),
        other => other.clone(),
    }
}

/// Step by step the address's own refusal cannot know the tenant's wait, and a refusal of the tenant's does not
/// tell the address's standing.
fn comparable(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Throttled(throttled) if throttled.strikes_left.is_none() => {
            Verdict::Throttled(Throttled {
                wait: Millis(0),
                ..throttled
            })
        }
        Verdict::Throttled(throttled) => Verdict::Throttled(Throttled {
            standings: without_address(&throttled.standings),
            ..throttled
        }),
        Verdict::Taken(taken) => Verdict::Taken(Taken {
            standings: without_address(&taken.standings),
            ..taken
        }),
        other => other,
    }
}

fn without_address(standings: &Standings) -> Standings {
    let kept = standings.iter().filter(|s| s.policy != Policy::Ip);
    let kept: Vec<_> = kept.copied().collect();
    let at = |i: usize| kept.get(i).copied();
    Standings::new([at(0), at(1), at(2)])
}
