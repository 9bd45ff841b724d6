//! The script on a real Redis: its clock, its keys, and what operators do to them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

#[path = "script/attempts.rs"]
mod attempts;
#[path = "script/held.rs"]
mod held;
#[path = "agreement/server.rs"]
mod server;

use std::rc::Rc;

use tollgate_config::{Limit, Millis, Points, Seconds};
use tollgate_filter::client_ip::Address;
use tollgate_filter::identity::Id;
use tollgate_filter::limit::bucket::Meter;
use tollgate_filter::limit::decision::Strictness;
use tollgate_filter::limit::penalty::Terms;
use tollgate_filter::store::script::{Clock, Decision, Item, Script, Step};
use tollgate_filter::store::{Ask, BoxTerms, Subject};
use tollgate_filter::verdict::{Boxed, Verdict};

use server::Server;

fn meter(points: u64, per: u64, burst: u64) -> Meter {
    Meter::new(Limit {
        points: Points(points),
        per: Seconds(per),
        burst: Points(burst),
    })
}

fn terms(strikes: u32) -> BoxTerms {
    BoxTerms {
        terms: Terms {
            strikes,
            within: Millis(60_000),
            offense_memory: Millis(86_400_000),
            levels: [Millis(300_000), Millis(3_600_000), Millis(86_400_000)],
            max_level: 3,
        },
        strictness: Strictness::Enforced,
    }
}

/// A key of 10 points a minute, boxed at its second strike.
fn key(key: &str, cost: u64) -> Rc<Ask> {
    let limit = meter(10, 60, 10);
    Rc::new(Ask {
        subject: Subject::Key {
            tenant: Id::of(b"acme"),
            key: Id::of(key.as_bytes()),
            tenant_meter: meter(1000, 60, 1000),
            key_meter: limit,
            ip: Some((
                Address::Ip("2001:db8::".parse().unwrap()),
                meter(600, 60, 600),
            )),
        },
        cost,
        shadow: false,
        grace: Millis(1000),
        wanted: None,
        penalty: terms(2),
    })
}

/// What each call has said back; longer ones are rare.
const WORD: &str = "c0ffee00c0ffee00.ffffffffffff.3f";

struct Remote {
    server: Server,
    script: Script,
}

impl Remote {
    fn new(clock: Clock) -> Self {
        let mut server = Server::start("script");
        let load = ["SCRIPT", "LOAD", Script::source()].map(str::to_owned);
        server.send(&load).unwrap();
        let script = Script {
            key_prefix: "p:".to_owned(),
            clock,
        };
        Self { server, script }
    }

    fn ask(&mut self, ask: &Rc<Ask>, now: u64) -> (Verdict, Millis) {
        let items = [Item {
            ask: Rc::clone(ask),
            step: Step::Whole,
        }];
        let reply = redis::from_redis_value::<Vec<String>>(
            self.server
                .send(&self.script.call(&items, WORD, Millis(now)))
                .unwrap(),
        )
        .unwrap();
        let mut answers = self.script.answers(&items, WORD, &reply).unwrap();
        match answers.decisions.remove(0) {
            Decision::Verdict(verdict) => (verdict, answers.now),
            other => panic!("{other:?}"),
        }
    }

    fn verdict(&mut self, ask: &Rc<Ask>) -> Verdict {
        self.ask(ask, 0).0
    }
}

/// Redis' time in milliseconds.
fn time(server: &mut Server) -> u64 {
    let [seconds, micros]: [u64; 2] = server.say("TIME");
    seconds * 1000 + micros / 1000
}

#[test]
fn it_decides_by_the_clock_of_redis() {
    let mut remote = Remote::new(Clock::Store);
    let before = time(&mut remote.server);
    // One gateway is a year behind, the other a year ahead.
    let year = 31_536_000_000;
    let (first, at) = remote.ask(&key("k", 10), before - year);
    let (second, _) = remote.ask(&key("k", 10), before + year);
    let after = time(&mut remote.server);
    assert!((before..=after).contains(&at.0), "{before} {at:?} {after}");
    assert!(matches!(first, Verdict::Allowed(..)), "{first:?}");
    assert!(matches!(second, Verdict::Throttled(_)), "{second:?}");
}

#[test]
fn where_redis_does_not_tell_the_time_it_goes_by_the_callers_and_never_back() {
    let mut remote = Remote::new(Clock::Store);
    remote
        .server
        .say::<()>("ACL SETUSER default resetpass nopass ~* +@all -time");
    let now = 1_772_323_200_000;
    let ahead = now + 300_000;
    // Two gateways, five minutes apart, take turns: the bucket refills by the later clock only.
    let mut admitted = 0;
    for turn in 0..40 {
        let at = if turn % 2 == 0 { ahead } else { now };
        let (verdict, told) = remote.ask(&key("k", 1), at);
        assert_eq!(told.0, ahead);
        admitted += u32::from(matches!(verdict, Verdict::Allowed(..)));
    }
    assert_eq!(admitted, 10);
    // Six seconds later, by the clock that is ahead, there is one more.
    let (verdict, _) = remote.ask(&key("k", 1), now + 6000);
    assert!(!matches!(verdict, Verdict::Allowed(..)), "{verdict:?}");
    let (verdict, _) = remote.ask(&key("k", 1), ahead + 6000);
    assert!(!matches!(verdict, Verdict::Throttled(_)), "{verdict:?}");
}

#[test]
fn its_keys_are_those_of_the_contract_and_all_expire() {
    let mut remote = Remote::new(Clock::Store);
    let anonymous = Rc::new(Ask {
        subject: Subject::Anonymous {
            address: Address::Ip("192.0.2.7".parse().unwrap()),
            meter: meter(1, 86_400, 1),
            ip_meter: Some(meter(600, 60, 600)),
        },
        ..(*key("", 1)).clone()
    });
    let shadow = Rc::new(Ask {
        shadow: true,
        ..(*key("k", 10)).clone()
    });
    for ask in [key("k", 10), anonymous, shadow] {
        for _ in 0..5 {
            remote.verdict(&ask);
        }
    }
    let mut keys: Vec<String> = remote.server.say("KEYS *");
    keys.sort();
    let expected = [
        "p:pb:{ip:192.0.2.7}:box",
        "p:pb:{ip:192.0.2.7}:off",
        "p:pb:{t:acme}:box:k",
        "p:pb:{t:acme}:off:k",
        "p:rl:{ip:192.0.2.7}:an",
        "p:rl:{ip:192.0.2.7}:tb",
        "p:rl:{ip:2001:db8::}:tb",
        "p:rl:{t:acme}:tb",
        "p:rl:{t:acme}:tb:k",
        "p:sh:pb:{t:acme}:box:k",
        "p:sh:pb:{t:acme}:off:k",
        "p:sh:rl:{ip:2001:db8::}:tb",
        "p:sh:rl:{t:acme}:tb",
        "p:sh:rl:{t:acme}:tb:k",
    ];
    assert_eq!(keys, expected);
    for key in keys {
        let ttl: i64 = remote.server.say(&format!("PTTL {key}"));
        assert!(ttl > 0, "{key} has a time to live of {ttl}");
    }
    let level: String = remote.server.say("GET p:pb:{t:acme}:box:k");
    assert_eq!(level, "1");
    let ttl: i64 = remote.server.say("PTTL p:pb:{t:acme}:box:k");
    assert!((299_000..=300_000).contains(&ttl), "{ttl}");
}

#[test]
fn a_box_that_an_operator_removes_or_sets_counts_at_once() {
    let mut remote = Remote::new(Clock::Store);
    let ask = key("k", 1);
    let boxed = |verdict: Verdict| match verdict {
        Verdict::Boxed(Boxed { lockout, .. }) => Some(lockout.level),
        _ => None,
    };
    let tripped = (0..200).find_map(|_| boxed(remote.verdict(&ask)));
    assert_eq!(tripped, Some(1));
    assert_eq!(boxed(remote.verdict(&ask)), Some(1));
    let removed: i64 = remote.server.say("DEL p:pb:{t:acme}:box:k");
    assert_eq!(removed, 1);
    assert_eq!(boxed(remote.verdict(&ask)), None);
    remote
        .server
        .say::<String>("SET p:pb:{t:acme}:box:k 2 EX 100");
    let now = time(&mut remote.server);
    match remote.verdict(&ask) {
        Verdict::Boxed(Boxed { lockout, .. }) => {
            assert_eq!(lockout.level, 2);
            let left = lockout.until.0 - now;
            assert!(
                (99_000..=100_500).contains(&left),
                "{left} ms left of a box that was set for 100 s"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn another_version_of_the_interface_is_refused() {
    let mut remote = Remote::new(Clock::Store);
    let items = [Item {
        ask: key("k", 1),
        step: Step::Whole,
    }];
    let mut command = remote.script.call(&items, WORD, Millis(0));
    let keys: usize = command[2].parse().unwrap();
    "2".clone_into(&mut command[3 + keys]);
    let error = remote.server.send(&command).unwrap_err();
    assert!(error.to_string().contains("version 1"), "{error}");
}

#[test]
fn what_others_left_in_a_bucket_is_a_full_bucket() {
    let mut remote = Remote::new(Clock::Store);
    for fields in [
        "s x u 0 r -1 a nan p {}",
        "s nan u 6000 r 1 a nan p nan b nan w nan m nan",
        "s 1e999 u 6000 r 1 a 1e999 p 1e999",
        "s -5 u -0 r 1 a -1 p -1",
        "b 1e300 w 1e300 m 1e19",
        "b inf w 1796094546193.5 m -inf",
        "p 1e18",
    ] {
        remote.server.say::<String>("FLUSHDB");
        let write = format!("HSET p:rl:{{t:acme}}:tb:k {fields}");
        remote.server.say::<i64>(&write);
        let verdict = remote.verdict(&key("k", 10));
        assert!(
            matches!(verdict, Verdict::Allowed(..)),
            "{fields}: {verdict:?}"
        );
        let verdict = remote.verdict(&key("k", 10));
        assert!(
            matches!(verdict, Verdict::Throttled(_)),
            "{fields}: {verdict:?}"
        );
        let ttl: i64 = remote.server.say("PTTL p:rl:{t:acme}:tb:k");
        assert!((1..=400_000_000_000).contains(&ttl), "{fields}: {ttl}");
    }
}

#[test]
fn keys_of_another_type_are_not_ours_and_harm_nobody() {
    let mut remote = Remote::new(Clock::Store);
    let ours = [
        "p:rl:{t:acme}:tb:k",
        "p:rl:{t:acme}:tb",
        "p:rl:{ip:2001:db8::}:tb",
        "p:pb:{t:acme}:box:k",
        "p:pb:{t:acme}:strikes:k",
        "p:pb:{t:acme}:off:k",
    ];
    for name in ours {
        remote.server.say::<i64>(&format!("LPUSH {name} x"));
    }
    let verdict = remote.verdict(&key("k", 10));
    assert!(matches!(verdict, Verdict::Allowed(..)), "{verdict:?}");
    // Strikes and all: it gets to the box.
    let boxed = (0..200).any(|_| matches!(remote.verdict(&key("k", 1)), Verdict::Boxed(_)));
    assert!(boxed);
    for name in ours.into_iter().filter(|name| !name.contains("strikes")) {
        let ttl: i64 = remote.server.say(&format!("PTTL {name}"));
        assert!(ttl > 0, "{name}: {ttl}");
    }
}

#[test]
fn whatever_is_in_a_box_key_boxes_at_a_level_there_is() {
    let mut remote = Remote::new(Clock::Store);
    for (value, level) in [
        ("1", 1),
        ("3", 3),
        ("9", 3),
        ("0", 1),
        ("-1", 1),
        ("inf", 1),
        ("nan", 1),
        ("x", 1),
        ("2.5", 2),
        ("1e300", 1),
    ] {
        let set = format!("SET p:pb:{{t:acme}}:box:k {value} EX 100");
        remote.server.say::<String>(&set);
        match remote.verdict(&key("k", 1)) {
            Verdict::Boxed(boxed) => assert_eq!(boxed.lockout.level, level, "{value}"),
            other => panic!("{value}: {other:?}"),
        }
    }
}

#[test]
fn without_the_right_to_let_keys_expire_nothing_is_written() {
    let mut remote = Remote::new(Clock::Store);
    remote
        .server
        .say::<()>("ACL SETUSER default resetpass nopass ~* +@all -pexpire");
    let items = [Item {
        ask: key("k", 1),
        step: Step::Whole,
    }];
    let command = remote.script.call(&items, WORD, Millis(0));
    let error = remote.server.send(&command).unwrap_err().to_string();
    assert!(error.contains("can't run this command"), "{error}");
    let keys: Vec<String> = remote.server.say("KEYS *");
    assert!(keys.is_empty(), "{keys:?}");
}
