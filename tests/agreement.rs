//! Both stores give the same verdicts: random sequences through the local store and through the real
//! script on a real Redis, in virtual time.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

#[path = "agreement/server.rs"]
mod server;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use tollgate_config::{Bytes, Limit, Millis, Points, Seconds};
use tollgate_filter::client_ip::Address;
use tollgate_filter::hold::{Fence, HoldId, Keep, LeaseWanted, QuotaWanted, Wanted};
use tollgate_filter::identity::Id;
use tollgate_filter::limit::bucket::Meter;
use tollgate_filter::limit::decision::Strictness;
use tollgate_filter::limit::penalty::Terms;
use tollgate_filter::store::local::{Local, PAGE_SIZE, heap::Heap};
use tollgate_filter::store::script::{Clock, Decision, Item, Script, Step};
use tollgate_filter::store::{Ask, BoxTerms, Store as _, Subject};
use tollgate_filter::verdict::{Policy, Standings, Taken, Throttled, Verdict};

use server::Server;

/// 2026-03-01T00:00:00Z.
const START: u64 = 1_772_323_200_000;

/// Limits of every kind: points, seconds, burst. The last ones are as far as a configuration may go.
const LIMITS: [(u64, u64, u64); 10] = [
    (10, 1, 100),
    (5, 1, 10),
    (3000, 60, 3000),
    (7, 13, 50),
    (60, 60, 60),
    (1, 86_400, 3),
    (1000, 1, 20),
    (1_000_000_000, 1, 1_000_000_000),
    (999_999_937, 2_678_400, 3_362_880),
    (1, 2_678_400, 3_362_880),
];

/// What a request wants besides points; each name is one of a few.
#[derive(Debug, Clone, Default)]
struct Wish {
    flight: Option<u8>,
    lock: Option<u8>,
    lease: Option<u8>,
    quota: Option<u8>,
}

/// One request, in numbers that a failing case can be shrunk by.
#[derive(Debug, Clone)]
struct Choice {
    wish: Wish,
    who: u8,
    cost: u64,
    first: usize,
    second: usize,
    ip: Option<usize>,
    terms: u8,
    strictness: u8,
}

/// One line of a call.
#[derive(Debug, Clone)]
enum Act {
    /// A request that asks now.
    Ask(Choice),
    /// A request whose question is under way for now.
    Send(Choice),
    /// One of the questions that are under way comes.
    Arrive(usize),
    /// One of all requests so far keeps what it holds for so long, or lets it go.
    Keep(usize, [u64; 3]),
    /// One of all requests so far is revoked, whether its question came or not.
    Revoke(usize),
    /// One of those whose questions are under way is revoked.
    Overtake(usize),
}

/// How many leases and places of a quota there are, and how long such a place is taken (s): a
/// configuration may change.
#[derive(Debug, Clone, Copy)]
struct Plenty {
    slots: u32,
    requests: u32,
    per: u64,
}

/// Time that goes on (or back), and the lines of one call.
#[derive(Debug, Clone)]
struct Turn {
    advance: i64,
    plenty: Plenty,
    batch: Vec<Act>,
}

fn choices() -> impl Strategy<Value = Choice> {
    // Mostly one regime of limits, so that buckets empty and boxes trip, and others on the way.
    let limit = || prop_oneof![8 => 0..2_usize, 2 => 0..LIMITS.len()];
    let cost = prop_oneof![4 => 1..3_u64, 2 => 5..30_u64, 1 => 1..u64::MAX];
    let name = || prop::option::weighted(0.4, 0..2_u8);
    let wish = (name(), name(), name(), name()).prop_map(|(flight, lock, lease, quota)| Wish {
        flight,
        lock,
        lease,
        quota,
    });
    (
        prop_oneof![1 => Just(Wish::default()), 1 => wish],
        0..6_u8,
        cost,
        limit(),
        limit(),
        prop_oneof![2 => Just(None), 1 => limit().prop_map(Some)],
        prop_oneof![8 => 0..1_u8, 2 => 0..4_u8],
        prop_oneof![8 => 0..1_u8, 2 => 0..3_u8],
    )
        .prop_map(
            |(wish, who, cost, first, second, ip, terms, strictness)| Choice {
                wish,
                who,
                cost,
                first,
                second,
                ip,
                terms,
                strictness,
            },
        )
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let advance = prop_oneof![
        6 => Just(0_i64),
        6 => 1..200_i64,
        3 => 200..20_000_i64,
        2 => Just(300_000_i64),
        1 => 3_600_000..100_000_000_i64,
        1 => -900..0_i64,
        1 => -2_000_000..-1000_i64,
    ];
    let length = || prop_oneof![2 => Just(0_u64), 3 => 1..90_000_u64, 1 => Just(60_000_u64)];
    let lengths = (length(), length(), length());
    let act = prop_oneof![
        12 => choices().prop_map(Act::Ask),
        2 => choices().prop_map(Act::Send),
        2 => any::<usize>().prop_map(Act::Arrive),
        1 => any::<usize>().prop_map(Act::Overtake),
        2 => (any::<usize>(), lengths).prop_map(|(of, (a, b, c))| Act::Keep(of, [a, b, c])),
        2 => any::<usize>().prop_map(|of| Act::Keep(of, [0; 3])),
        2 => any::<usize>().prop_map(Act::Revoke),
    ];
    // A hammer: many of the same in one call.
    let batch = prop_oneof![
        3 => prop::collection::vec(act, 1..8),
        2 => (choices(), 1..40_usize).prop_map(|(one, n)| vec![Act::Ask(one); n]),
    ];
    let plenty = prop_oneof![
        4 => Just((2, 4, 20)),
        1 => (1..4_u32, 1..12_u32, 1..120_u64),
    ];
    let plenty = plenty.prop_map(|(slots, requests, per)| Plenty {
        slots,
        requests,
        per,
    });
    prop::collection::vec(
        (advance, plenty, batch).prop_map(|(advance, plenty, batch)| Turn {
            advance,
            plenty,
            batch,
        }),
        1..40,
    )
}

fn meter(index: usize) -> Meter {
    let (points, per, burst) = LIMITS[index];
    Meter::new(Limit {
        points: Points(points),
        per: Seconds(per),
        burst: Points(burst),
    })
}

fn wanted(choice: &Choice, id: HoldId, plenty: Plenty) -> Option<Wanted> {
    let wish = &choice.wish;
    let named = |what: &str, name: u8| Id::of(format!("{what}-{name}").as_bytes());
    // Leases and quotas come from tiers.
    let of_tier = |name: Option<u8>| name.filter(|_| choice.who < 4);
    let wanted = Wanted {
        id,
        flight: wish.flight.map(|name| named("flight", name)),
        lock: wish.lock.map(|name| named("lock", name)),
        lease: of_tier(wish.lease).map(|kind| LeaseWanted {
            kind: format!("lease-{kind}").into(),
            slots: plenty.slots,
        }),
        quota: of_tier(wish.quota).map(|kind| QuotaWanted {
            kind: format!("quota-{kind}").into(),
            requests: plenty.requests,
            per: Millis(plenty.per * 1000),
        }),
    };
    let some = wanted.is_held() || wanted.quota.is_some();
    some.then_some(wanted)
}

fn ask(choice: &Choice, id: HoldId, plenty: Plenty) -> Ask {
    let (first, second) = (meter(choice.first), meter(choice.second));
    let address = Address::Ip(format!("192.0.2.{}", choice.who % 2).parse().unwrap());
    let ip = choice.ip.map(meter);
    let (subject, burst) = if choice.who < 4 {
        let tenant = Id::of(format!("tenant-{}", choice.who / 2).as_bytes());
        let key = Id::of(format!("key-{}", choice.who).as_bytes());
        let subject = Subject::Key {
            tenant,
            key,
            tenant_meter: second,
            key_meter: first,
            ip: ip.map(|meter| (address, meter)),
        };
        (subject, first.burst().min(second.burst()))
    } else {
        let subject = Subject::Anonymous {
            address,
            meter: first,
            ip_meter: ip,
        };
        (subject, first.burst())
    };
    let (strikes, within, memory, max_level, grace) = match choice.terms {
        0 => (3, 60_000, 86_400_000, 3, 1000),
        1 => (1, 1000, 1000, 2, 0),
        2 => (20, 60_000, 86_400_000, 1, 1000),
        _ => (2, 500, 10_000_000, 3, 60_000),
    };
    Ask {
        subject,
        cost: 1 + (choice.cost - 1) % burst,
        // A watched box of live requests and the box of requests in shadow are one in Redis and two in
        // a page: nobody is met in both ways here.
        shadow: matches!(choice.who, 3 | 5),
        grace: Millis(grace),
        wanted: wanted(choice, id, plenty),
        penalty: BoxTerms {
            terms: Terms {
                strikes,
                within: Millis(within),
                offense_memory: Millis(memory),
                levels: [Millis(300_000), Millis(3_600_000), Millis(86_400_000)],
                max_level,
            },
            strictness: match choice.strictness {
                0 => Strictness::Enforced,
                1 => Strictness::Watched,
                _ => Strictness::Off,
            },
        },
    }
}

/// The script on a Redis.
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
        let command = self.script.call(items, now);
        let reply =
            redis::from_redis_value::<Vec<String>>(self.server.send(&command).unwrap()).unwrap();
        let answers = self.script.answers(items, &reply);
        answers
            .unwrap_or_else(|| panic!("{items:?} answered by {reply:?}"))
            .decisions
    }

    /// Each in a step of its own, as Redis Cluster needs it, put together as one verdict.
    fn in_steps(&mut self, ask: &Rc<Ask>, now: Millis) -> Verdict {
        let mut step = |step| {
            let ask = Rc::clone(ask);
            self.call(&[Item { ask, step }], now).remove(0)
        };
        let address = match step(Step::Address) {
            Decision::Passed(standing) => standing,
            Decision::Verdict(refused) => return refused,
            Decision::Done | Decision::Kept(_) => panic!("nothing was given back"),
        };
        let verdict = match step(Step::Owner) {
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
                };
                (of.checked_rem(last)?, Step::Keep(keep))
            }
            Act::Revoke(of) => (of.checked_rem(last)?, Step::Revoke),
            Act::Overtake(of) => {
                let place = of.checked_rem(self.under_way.len())?;
                (self.under_way[place], Step::Revoke)
            }
        };
        let ask = ask(&self.choices[number], HoldId(number as u64), plenty);
        let later = matches!(step, Step::Keep(_) | Step::Revoke);
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
                Subject::Anonymous { address, .. } => address.to_string(),
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
        Step::Keep(keep) => Decision::Kept(local.keep(ask, keep, now).unwrap()),
        Step::Revoke => {
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
