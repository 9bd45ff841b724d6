//! Random stories: the script does what a plain model of windows does, and a call of many lines what many calls do.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use tollgate_filter::hold::LeaseWanted;

#[path = "model.rs"]
mod model;

use model::Model;

/// Who tries, under which throttles.
#[derive(Debug, Clone)]
struct Choice {
    throttles: u8,
    subject: u8,
    from: u8,
    kind: u8,
}

/// One line of a call.
#[derive(Debug, Clone)]
enum Act {
    /// A request that asks now.
    Ask(Choice),
    /// One whose question is under way.
    Send(Choice),
    /// One of those comes.
    Arrive(usize),
    /// One of all so far ends, however often it did before.
    End(usize, u8),
    /// One of all so far is undone.
    Undo(usize),
    /// One of all so far is revoked.
    Revoke(usize),
    /// One of those under way is revoked.
    Overtake(usize),
}

#[derive(Debug, Clone)]
struct Turn {
    advance: i64,
    acts: Vec<Act>,
}

fn choices() -> impl Strategy<Value = Choice> {
    (0..6_u8, 0..2_u8, 0..3_u8, 0..4_u8).prop_map(|(throttles, subject, from, kind)| Choice {
        throttles,
        subject,
        from,
        kind,
    })
}

fn turns(set_back: bool) -> impl Strategy<Value = Vec<Turn>> {
    let back = u32::from(set_back);
    let advance = prop_oneof![
        8 => Just(0_i64),
        8 => 1..2000_i64,
        6 => 2000..70_000_i64,
        3 => Just(60_000_i64),
        3 => Just(300_000_i64),
        2 => 300_000..4_000_000_i64,
        1 => Just(10 * 86_400_000_i64),
        1 => Just(30 * 86_400_000_i64),
        back => -5_000_000..0_i64,
    ];
    let act = prop_oneof![
        8 => choices().prop_map(Act::Ask),
        2 => choices().prop_map(Act::Send),
        2 => any::<usize>().prop_map(Act::Arrive),
        10 => (any::<usize>(), 0..8_u8).prop_map(|(of, end)| Act::End(of, end)),
        1 => any::<usize>().prop_map(Act::Undo),
        1 => any::<usize>().prop_map(Act::Revoke),
        1 => any::<usize>().prop_map(Act::Overtake),
    ];
    let acts = prop_oneof![
        4 => prop::collection::vec(act.clone(), 1..6),
        1 => prop::collection::vec(act, 30..64),
        1 => (choices(), 1..12_usize).prop_map(|(one, n)| vec![Act::Ask(one); n]),
    ];
    let turn = (advance, acts).prop_map(|(advance, acts)| Turn { advance, acts });
    prop::collection::vec(turn, 1..40)
}

/// The throttles of a choice: spared and not, with one box for several windows, and some that take no room.
fn throttles(number: u8) -> Vec<Attempt> {
    let spared = Attempt {
        spares: true,
        ..by_subject()
    };
    let quick = Attempt {
        failures: 2,
        within: Millis(90 * SECOND),
        levels: [Millis(10 * SECOND), Millis(MINUTE), Millis(HOUR)],
        ..throttle("quick", Who::Subject(0))
    };
    match number {
        0 => vec![spared],
        1 => vec![by_subject(), quick],
        2 => vec![by_address()],
        3 => vec![by_pair(), by_address(), spared],
        4 => vec![Attempt {
            provisional: false,
            spares: true,
            ..by_subject()
        }],
        _ => vec![Attempt {
            failures: 1,
            resets: true,
            ..by_address()
        }],
    }
}

fn tries_of(choice: &Choice) -> Tries {
    Tries::under(throttles(choice.throttles))
        .for_subject(["alice", "bob"][usize::from(choice.subject)])
        .from(address(choice.from))
}

/// A request, and when it was let through last.
struct Request {
    choice: Choice,
    started: u64,
}

#[derive(Default)]
struct Story {
    requests: Vec<Request>,
    under_way: Vec<usize>,
}

/// Which step of which request.
type Line = (usize, Step);

impl Story {
    fn lines(&mut self, act: &Act, now: u64) -> Vec<Line> {
        let all = self.requests.len();
        let legs = |story: &Self, of: usize, step: &dyn Fn(Leg) -> Step| -> Vec<Line> {
            let ask = tries_of(&story.requests[of].choice).ask(of as u64);
            ask.legs().map(|leg| (of, step(leg))).collect()
        };
        match act {
            Act::Ask(choice) | Act::Send(choice) => {
                self.requests.push(Request {
                    choice: choice.clone(),
                    started: now,
                });
                if matches!(act, Act::Ask(_)) {
                    return vec![(all, Step::Whole)];
                }
                self.under_way.push(all);
                Vec::new()
            }
            Act::Arrive(of) => match of.checked_rem(self.under_way.len()) {
                Some(place) => {
                    let of = self.under_way.remove(place);
                    self.requests[of].started = now;
                    vec![(of, Step::Whole)]
                }
                None => Vec::new(),
            },
            Act::End(of, end) => match of.checked_rem(all) {
                Some(of) if !self.under_way.contains(&of) => {
                    let outcome = Outcome {
                        started: Millis(self.requests[of].started),
                        failed: match end {
                            0..3 => u32::MAX,
                            3 => 0b01,
                            4 => 0b110,
                            _ => 0,
                        },
                        succeeded: *end >= 4 && *end < 7,
                    };
                    let keep = Keep {
                        outcome: Some(outcome),
                        ..Keep::NOTHING
                    };
                    legs(self, of, &|leg| Step::Keep(leg, keep))
                }
                _ => Vec::new(),
            },
            Act::Undo(of) => match of.checked_rem(all) {
                Some(of) => legs(self, of, &|leg| Step::Keep(leg, Keep::NOTHING)),
                None => Vec::new(),
            },
            Act::Revoke(of) => match of.checked_rem(all) {
                Some(of) => legs(self, of, &Step::Revoke),
                None => Vec::new(),
            },
            Act::Overtake(of) => match of.checked_rem(self.under_way.len()) {
                Some(place) => legs(self, self.under_way[place], &Step::Revoke),
                None => Vec::new(),
            },
        }
    }
}

thread_local! {
    static REMOTE: RefCell<Remote> = RefCell::new(remote());
}

/// A request of any kind: some meet buckets, or want a lease too.
fn any_ask(choice: &Choice, id: u64) -> Ask {
    let mut tries = tries_of(choice);
    let stuffing = Stuffing {
        failures: 6,
        subjects: 2,
        within: Millis(2 * MINUTE),
    };
    tries.attempts.stuffing = (choice.kind != 0).then_some((stuffing, Millis(HOUR)));
    let mut ask = tries.ask(id);
    let from = tries.attempts.address;
    match choice.kind {
        0 => {}
        1 => {
            ask.subject = Subject::Anonymous {
                address: from,
                meter: meter(5, 60, 5),
                ip_meter: Some(meter(600, 60, 600)),
            };
        }
        2 => {
            ask.subject = Subject::Credential {
                address: from,
                ip_meter: Some(meter(10, 60, 10)),
            };
        }
        _ => {
            ask.subject = (*key("k", 1)).clone().subject;
            if let Subject::Key { ip, .. } = &mut ask.subject {
                *ip = Some((from, meter(30, 60, 30)));
            }
            let lease = LeaseWanted {
                kind: "job".into(),
                slots: 2,
            };
            ask.wanted.as_mut().unwrap().lease = Some(lease);
        }
    }
    ask
}

impl Remote {
    /// All that there is under a prefix.
    fn dump(&mut self, prefix: &str) -> BTreeMap<String, (Vec<Vec<u8>>, i64)> {
        let mut all = BTreeMap::new();
        for key in self.keys() {
            let Some(name) = key.strip_prefix(prefix) else {
                continue;
            };
            let kind: String = self.server.say(&format!("TYPE {key}"));
            let read = match kind.as_str() {
                "zset" => vec!["ZRANGE", &key, "0", "-1", "WITHSCORES"],
                "hash" => vec!["HGETALL", &key],
                _ => vec!["GETRANGE", &key, "0", "-1"],
            };
            let read: Vec<String> = read.into_iter().map(str::to_owned).collect();
            let value = self.server.send(&read).unwrap();
            let mut found: Vec<Vec<u8>> = match value {
                redis::Value::Array(_) | redis::Value::Map(_) => {
                    redis::from_redis_value(value).unwrap()
                }
                one => vec![redis::from_redis_value(one).unwrap()],
            };
            if kind == "hash" {
                let pairs = found.chunks(2).map(<[Vec<u8>]>::concat);
                found = pairs.collect();
                found.sort();
            }
            // The names of holders begin with keys.
            for text in &mut found {
                if text.starts_with(prefix.as_bytes()) {
                    text.drain(..prefix.len());
                }
            }
            let ttl = self.ttl(&key);
            all.insert(name.to_owned(), (found, ttl));
        }
        all
    }
}

/// Cases of a kind of story; `PROPTEST_CASES` is for more.
fn cases(cases: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok();
    let cases = asked.and_then(|asked| asked.parse().ok()).unwrap_or(cases);
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases)
    }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn the_script_does_what_a_plain_model_does(turns in turns(false)) {
        REMOTE.with_borrow_mut(|remote| {
            remote.server.say::<String>("FLUSHDB");
            let mut story = Story::default();
            let mut model = Model::default();
            let mut now = T;
            for turn in &turns {
                now = now.saturating_add_signed(turn.advance);
                let lines: Vec<Line> =
                    turn.acts.iter().flat_map(|act| story.lines(act, now)).collect();
                for lines in lines.chunks(64) {
                    let items: Vec<Item> = lines
                        .iter()
                        .map(|&(of, step)| {
                            tries_of(&story.requests[of].choice).item(of as u64, step)
                        })
                        .collect();
                    let decisions = remote.call(&items, now);
                    for (item, decision) in items.iter().zip(decisions) {
                        let expected = model.answer(item, now);
                        prop_assert_eq!(decision, expected, "at {}: {:?}", now - T, item);
                    }
                }
            }
            for key in remote.keys() {
                let ttl = remote.ttl(&key);
                prop_assert!(ttl > 0, "{} does not expire", key);
            }
            Ok(())
        })?;
    }
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn a_call_of_many_lines_does_what_many_calls_do(turns in turns(true)) {
        REMOTE.with_borrow_mut(|remote| {
            remote.server.say::<String>("FLUSHDB");
            let mut story = Story::default();
            let mut now = T;
            for turn in &turns {
                now = now.saturating_add_signed(turn.advance);
                let lines: Vec<Line> =
                    turn.acts.iter().flat_map(|act| story.lines(act, now)).collect();
                for lines in lines.chunks(64) {
                    let items: Vec<Item> = lines
                        .iter()
                        .map(|&(of, step)| Item {
                            ask: Rc::new(any_ask(&story.requests[of].choice, of as u64)),
                            step,
                        })
                        .collect();
                    "p:".clone_into(&mut remote.script.key_prefix);
                    let together = remote.call(&items, now);
                    "q:".clone_into(&mut remote.script.key_prefix);
                    for (item, together) in items.iter().zip(together) {
                        let alone = remote.one(item.clone(), now);
                        prop_assert_eq!(alone, together, "at {}: {:?}", now - T, item);
                    }
                    let (together, alone) = (remote.dump("p:"), remote.dump("q:"));
                    prop_assert_eq!(
                        together.keys().collect::<Vec<_>>(), alone.keys().collect::<Vec<_>>()
                    );
                    for (key, (found, ttl)) in together {
                        let (expected, lives) = &alone[&key];
                        prop_assert_eq!(&found, expected, "{}", key);
                        prop_assert!(ttl > 0 && (ttl - lives).abs() < 30_000, "{}: {} {}", key, ttl, lives);
                    }
                }
            }
            "p:".clone_into(&mut remote.script.key_prefix);
            Ok(())
        })?;
    }
}
