//! Attempts at credentials: who may try, when that ends in a lockout, and what an outcome does.

use std::rc::Rc;

use tollgate_config::{Millis, Stuffing, ThrottleId};
use tollgate_filter::attempt::{Attempt, Attempts, Outcome, Sign, Who};
use tollgate_filter::client_ip::Address;
use tollgate_filter::hold::{HoldId, Keep, Wanted};
use tollgate_filter::identity::Id;
use tollgate_filter::limit::decision::Strictness;
use tollgate_filter::limit::penalty::Lockout;
use tollgate_filter::store::script::{Clock, Decision, Item, Step};
use tollgate_filter::store::{Ask, Leg, Subject};
use tollgate_filter::verdict::{AuthLockout, Verdict};

use super::{Remote, key, meter, terms};

#[path = "attempts/keys.rs"]
mod keys;
#[path = "attempts/legs.rs"]
mod legs;
#[path = "attempts/outcomes.rs"]
mod outcomes;
#[path = "attempts/random.rs"]
mod random;
#[path = "attempts/signs.rs"]
mod signs;
#[path = "attempts/spared.rs"]
mod spared;
#[path = "attempts/windows.rs"]
mod windows;

/// 2026-03-01T00:00:00Z.
const T: u64 = 1_772_323_200_000;

const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// How long offenses are remembered.
const MEMORY: u64 = 10 * DAY;

/// A throttle: 3 failures in 15 minutes, lockouts of 5 minutes, an hour and a day.
fn throttle(name: &str, who: Who) -> Attempt {
    let by_address = who == Who::Ip;
    Attempt {
        throttle: ThrottleId(0),
        name: name.into(),
        who,
        failures: 3,
        within: Millis(15 * MINUTE),
        levels: [Millis(5 * MINUTE), Millis(HOUR), Millis(DAY)],
        max_level: if by_address { 3 } else { 2 },
        offense_memory: Millis(MEMORY),
        provisional: true,
        spares: false,
        resets: !by_address,
    }
}

fn by_subject() -> Attempt {
    throttle("subject", Who::Subject(0))
}

fn by_address() -> Attempt {
    throttle("address", Who::Ip)
}

fn by_pair() -> Attempt {
    throttle("pair", Who::Pair(0))
}

fn address(last: u8) -> Address {
    Address::Ip(format!("192.0.2.{last}").parse().unwrap())
}

fn hashed(subject: &str) -> Id {
    Id::hashed(subject.as_bytes())
}

/// A key under Alice's hash tag.
fn of_alice(kind: &str, what: &str) -> String {
    format!("p:{kind}:{{s:{}}}:{what}", hashed("alice").as_str())
}

/// Requests for one subject from one address, and the throttles that they are under.
#[derive(Clone)]
struct Tries {
    attempts: Attempts,
    shadow: bool,
}

impl Tries {
    fn under(list: impl Into<Vec<Attempt>>) -> Self {
        let attempts = Attempts {
            address: address(7),
            subjects: vec![hashed("alice")],
            list: list.into(),
            stuffing: None,
        };
        Self {
            attempts,
            shadow: false,
        }
    }

    fn from(&self, address: Address) -> Self {
        let mut other = self.clone();
        other.attempts.address = address;
        other
    }

    fn for_subject(&self, subject: &str) -> Self {
        let mut other = self.clone();
        other.attempts.subjects = vec![hashed(subject)];
        other
    }

    fn wanted(&self, id: u64) -> Wanted {
        Wanted {
            attempts: Some(Rc::new(self.attempts.clone())),
            ..Wanted::nothing(HoldId(id))
        }
    }

    /// A request that meets nothing but throttles.
    fn ask(&self, id: u64) -> Ask {
        Ask {
            subject: Subject::Credential {
                address: self.attempts.address.clone(),
                ip_meter: None,
            },
            cost: 1,
            shadow: self.shadow,
            grace: Millis(1000),
            penalty: terms(2),
            wanted: Some(self.wanted(id)),
        }
    }

    fn item(&self, id: u64, step: Step) -> Item {
        Item {
            ask: Rc::new(self.ask(id)),
            step,
        }
    }
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Failed,
    Succeeded,
    GivenBack,
}

impl End {
    /// By all throttles alike.
    const fn of(self, started: u64) -> Outcome {
        Outcome {
            started: Millis(started),
            failed: if matches!(self, Self::Failed) {
                u32::MAX
            } else {
                0
            },
            succeeded: matches!(self, Self::Succeeded),
        }
    }
}

/// What an outcome is told by, on each leg that has attempts.
fn telling(ask: &Rc<Ask>, outcome: Outcome) -> Vec<Item> {
    let keep = Keep {
        outcome: Some(outcome),
        ..Keep::NOTHING
    };
    ask.legs()
        .map(|leg| Item {
            ask: Rc::clone(ask),
            step: Step::Keep(leg, keep),
        })
        .collect()
}

fn remote() -> Remote {
    Remote::new(Clock::Given)
}

impl Remote {
    fn tries(&mut self, tries: &Tries, id: u64, now: u64) -> Verdict {
        verdict(self.one(tries.item(id, Step::Whole), now))
    }

    /// A request is let through.
    fn passes(&mut self, tries: &Tries, id: u64, now: u64) {
        let verdict = self.tries(tries, id, now);
        assert!(matches!(verdict, Verdict::Allowed(..)), "{verdict:?}");
    }

    fn is_busy(&mut self, tries: &Tries, id: u64, now: u64) {
        assert_eq!(self.tries(tries, id, now), Verdict::AuthBusy);
    }

    /// A request meets a lockout that was there before: the level, and how long yet.
    fn locked(&mut self, tries: &Tries, id: u64, now: u64) -> (u8, u64) {
        match self.tries(tries, id, now) {
            Verdict::AuthLockout(AuthLockout {
                lockout,
                tripped: false,
                ..
            }) => (lockout.level, lockout.until.0 - now),
            other => panic!("not locked out: {other:?}"),
        }
    }

    /// The outcome of a request that was let through at `started`.
    fn tell(&mut self, tries: &Tries, id: u64, end: End, started: u64, now: u64) -> Vec<Sign> {
        self.tell_of(&Rc::new(tries.ask(id)), end.of(started), now)
    }

    fn tell_of(&mut self, ask: &Rc<Ask>, outcome: Outcome, now: u64) -> Vec<Sign> {
        let items = telling(ask, outcome);
        let decisions = self.call(&items, now).into_iter();
        decisions.flat_map(signs).collect()
    }

    /// A request that fails at once.
    fn fails(&mut self, tries: &Tries, id: u64, now: u64) -> Vec<Sign> {
        self.passes(tries, id, now);
        self.tell(tries, id, End::Failed, now, now)
    }

    /// As many fail as it takes for a lockout: the level, and for how long.
    fn locks_out(&mut self, tries: &Tries, id: u64, now: u64) -> (u8, u64) {
        for nth in 0..100 {
            if let [Sign::Locked(0, lockout)] = self.fails(tries, id * 1000 + nth, now)[..] {
                return (lockout.level, lockout.until.0 - now);
            }
        }
        panic!("never locked out");
    }

    fn zset(&mut self, key: &str) -> Vec<(String, i64)> {
        let read = ["ZRANGE", key, "0", "-1", "WITHSCORES"].map(str::to_owned);
        redis::from_redis_value(self.server.send(&read).unwrap()).unwrap()
    }
}

fn verdict(decision: Decision) -> Verdict {
    match decision {
        Decision::Verdict(verdict) => verdict,
        other => panic!("no verdict: {other:?}"),
    }
}

fn signs(decision: Decision) -> Vec<Sign> {
    match decision {
        Decision::Kept(kept) => {
            assert!(kept.all, "{kept:?}");
            kept.signs
        }
        other => panic!("not kept: {other:?}"),
    }
}

fn lockout(level: u8, until: u64) -> Lockout {
    Lockout {
        level,
        until: Millis(until),
    }
}
