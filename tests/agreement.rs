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
use std::rc::Rc;

use proptest::prelude::*;
use tollgate_config::{Bytes, Limit, Millis, Points, Seconds};
use tollgate_filter::client_ip::Address;
use tollgate_filter::identity::Id;
use tollgate_filter::limit::bucket::Meter;
use tollgate_filter::limit::decision::Strictness;
use tollgate_filter::limit::penalty::Terms;
use tollgate_filter::store::local::{Local, PAGE_SIZE, heap::Heap};
use tollgate_filter::store::script::{Clock, Decision, Item, Script, Step};
use tollgate_filter::store::{Ask, BoxTerms, Store as _, Subject};
use tollgate_filter::verdict::{Throttled, Verdict};

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

/// One request, in numbers that a failing case can be shrunk by.
#[derive(Debug, Clone)]
struct Choice {
    who: u8,
    cost: u64,
    first: usize,
    second: usize,
    ip: Option<usize>,
    terms: u8,
    strictness: u8,
}

/// Time that goes on (or back), and the requests of one call.
#[derive(Debug, Clone)]
struct Turn {
    advance: i64,
    batch: Vec<Choice>,
}

fn choices() -> impl Strategy<Value = Choice> {
    // Mostly one regime of limits, so that buckets empty and boxes trip, and others on the way.
    let limit = || prop_oneof![8 => 0..2_usize, 2 => 0..LIMITS.len()];
    let cost = prop_oneof![4 => 1..3_u64, 2 => 5..30_u64, 1 => 1..u64::MAX];
    (
        0..6_u8,
        cost,
        limit(),
        limit(),
        prop_oneof![2 => Just(None), 1 => limit().prop_map(Some)],
        prop_oneof![8 => 0..1_u8, 2 => 0..4_u8],
        prop_oneof![8 => 0..1_u8, 2 => 0..3_u8],
    )
        .prop_map(|(who, cost, first, second, ip, terms, strictness)| Choice {
            who,
            cost,
            first,
            second,
            ip,
            terms,
            strictness,
        })
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
    // A hammer: many of the same in one call.
    let batch = prop_oneof![
        3 => prop::collection::vec(choices(), 1..6),
        2 => (choices(), 1..40_usize).prop_map(|(one, n)| vec![one; n]),
    ];
    prop::collection::vec(
        (advance, batch).prop_map(|(advance, batch)| Turn { advance, batch }),
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

fn ask(choice: &Choice) -> Ask {
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
        wanted: None,
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
        let Decision::Verdict(verdict) = step(Step::Owner) else {
            panic!("an owner gives a verdict");
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

fn local() -> Local<Heap> {
    Local::open(Heap::default(), Bytes(1 << 20), PAGE_SIZE, [1, 2])
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn the_script_and_the_local_store_agree(turns in turns()) {
        REMOTE.with_borrow_mut(|remote| {
            remote.server.say::<String>("FLUSHDB");
            let mut local = local();
            let mut now = START;
            for (number, turn) in turns.iter().enumerate() {
                now = now.saturating_add_signed(turn.advance);
                let asks: Vec<Rc<Ask>> = turn.batch.iter().map(|c| Rc::new(ask(c))).collect();
                let items: Vec<Item> = asks
                    .iter()
                    .map(|ask| Item { ask: Rc::clone(ask), step: Step::Whole })
                    .collect();
                let decisions = remote.call(&items, Millis(now));
                for (place, (ask, decision)) in asks.iter().zip(decisions).enumerate() {
                    let (verdict, _) = local.decide(ask, Millis(now));
                    prop_assert_eq!(
                        Decision::Verdict(verdict), decision,
                        "turn {}, request {}: {:?}", number, place, ask
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
            let mut now = START;
            for turn in &turns {
                // The clock is not set back: a boxed request touches the address here, and does not there.
                now = now.saturating_add_signed(turn.advance.max(0));
                for choice in &turn.batch {
                    // The address is asked before the box is known to be in force, and given its point back
                    // after that: the same but for a limit that changed between the two.
                    let ip = choice.ip.map(|_| 1);
                    let ask = Rc::new(ask(&Choice { ip, ..choice.clone() }));
                    let tenant = matches!(ask.subject, Subject::Key { ip: Some(_), .. });
                    if !tenant {
                        continue;
                    }
                    let (expected, _) = local.decide(&ask, Millis(now));
                    let verdict = remote.in_steps(&ask, Millis(now));
                    let boxed = matches!(expected, Verdict::Boxed(boxed) if !boxed.tripped);
                    let by_address =
                        matches!(verdict, Verdict::Throttled(t) if t.strikes_left.is_none());
                    if boxed && by_address {
                        // The address is asked first, and refused.
                        continue;
                    }
                    prop_assert_eq!(comparable(expected), comparable(verdict), "{:?}", ask);
                }
            }
            Ok(())
        })?;
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
        Verdict::Throttled(throttled) => {
            let without_address = throttled
                .standings
                .iter()
                .filter(|s| s.policy != tollgate_filter::verdict::Policy::Ip);
            let kept: Vec<_> = without_address.copied().collect();
            let at = |i: usize| kept.get(i).copied();
            let standings = tollgate_filter::verdict::Standings::new([at(0), at(1), at(2)]);
            Verdict::Throttled(Throttled {
                standings,
                ..throttled
            })
        }
        other => other,
    }
}
