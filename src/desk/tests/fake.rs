//! A stand-in for the script, and one for the front behind which it runs.

use std::rc::Rc;

use tollgate_config::{Breaker, Front as Dialect, Millis, Redis, Topology};

use crate::attempt::{Attempts, Outcome, Sign, Who};
use crate::client_ip::Address;
use crate::desk::{Desk, Protocol};
use crate::hold::{HoldId, Wanted};
use crate::identity::Id;
use crate::limit::bucket::Meter;
use crate::limit::penalty::Lockout;
use crate::store::front::Call;
use crate::store::script::{Answers, Command, Decision, Item, Step, WrongReply};
use crate::store::{Ask, Subject};
use crate::store::{Kept, Leg};
use crate::testing::{a_lease, an_attempt, box_terms, meter, standing, standings};
use crate::verdict::{
    AuthLockout, Boxed, Obstacle, Policy, Scope, Standing, Taken, Throttled, Verdict,
};

pub(super) const TIMEOUT: Millis = Millis(20);
pub(super) const OPEN_FOR: Millis = Millis(2000);
pub(super) const FAILURES: u32 = 5;

/// What the desk's words begin with.
const SEED: u64 = 0xc0de;

/// The store's time in all answers.
pub(super) const THEN: Millis = Millis(4711);

const LOCKOUT: Lockout = Lockout {
    level: 1,
    until: Millis(10_000),
};

/// Asks in words: the call's own, then `step|tag|owner`, the owner with the hold that it wants; counts no
/// answers.
#[derive(Debug, Clone)]
pub(super) struct Fake;

impl Fake {
    fn words(verb: &str, word: &str, items: &[Item]) -> Command {
        let mut words = vec![verb.to_owned(), word.to_owned()];
        words.extend(items.iter().map(|item| {
            let Item { ask, step } = item;
            format!("{}|{}|{}", name(*step), tag(item), owner(ask))
        }));
        words
    }
}

/// What a step is called.
pub(super) fn name(step: Step) -> String {
    let of_leg = |leg: Leg| match leg {
        Leg::Address | Leg::Owner => format!("{leg:?}"),
        Leg::Subject(which) => format!("Subject{which}"),
    };
    match step {
        Step::Part(leg) => of_leg(leg),
        Step::Keep(_, keep) => {
            let [lease, lock, flight] = [keep.lease, keep.lock, keep.flight].map(|part| part.0);
            let kept = match lease + lock + flight {
                0 => "LetGo".to_owned(),
                _ => format!("Keep:{lease}:{lock}:{flight}"),
            };
            match keep.outcome {
                None => kept,
                Some(Outcome {
                    failed: 0,
                    succeeded: false,
                    ..
                }) => kept + "+back",
                Some(Outcome { failed: 0, .. }) => kept + "+good",
                Some(Outcome { failed, .. }) => format!("{kept}+bad{failed}"),
            }
        }
        Step::Revoke(_) => "Revoke".to_owned(),
        Step::Whole | Step::GiveBack | Step::Undo => format!("{step:?}"),
    }
}

pub(super) fn tag(item: &Item) -> String {
    let ask = &item.ask;
    let leg = match item.step {
        Step::Part(leg) | Step::Keep(leg, _) | Step::Revoke(leg) => leg,
        Step::GiveBack => Leg::Address,
        Step::Whole | Step::Undo => Leg::Owner,
    };
    leg_tag(ask, leg)
}

/// The hash tag of a leg.
pub(super) fn leg_tag(ask: &Ask, leg: Leg) -> String {
    match (leg, &ask.subject) {
        (Leg::Subject(which), _) => {
            let attempts = ask.wanted.as_ref().and_then(|w| w.attempts.as_ref());
            let subjects = &attempts.expect("attempts").subjects;
            format!("s={}", subjects[usize::from(which)].as_str())
        }
        (Leg::Owner, Subject::Key { tenant, .. }) => format!("t={}", tenant.as_str()),
        (Leg::Owner | Leg::Address, _) => match ask.address() {
            Some(Address::Other(ip)) => format!("ip={}", String::from_utf8_lossy(ip)),
            _ => leg_tag(ask, Leg::Owner),
        },
    }
}

fn owner(ask: &Ask) -> String {
    let hold = ask
        .wanted
        .as_ref()
        .map(|wanted| format!("#{}", wanted.id.0));
    let hold = hold.unwrap_or_default();
    match &ask.subject {
        Subject::Key { key, ip, .. } => {
            let ip = if ip.is_some() { "+ip" } else { "" };
            format!("{}{ip}{hold}", key.as_str())
        }
        Subject::Anonymous { .. } | Subject::Credential { .. } => format!("-{hold}"),
    }
}

impl Protocol for Fake {
    fn call(&self, items: &[Item], word: &str, _: Millis) -> Command {
        Self::words("EVALSHA", word, items)
    }

    fn load_and_call(&self, items: &[Item], word: &str, _: Millis) -> Command {
        Self::words("EVAL", word, items)
    }

    fn answers(&self, items: &[Item], word: &str, reply: &[String]) -> Result<Answers, WrongReply> {
        let (first, rest) = reply.split_first().ok_or(WrongReply::Malformed)?;
        if first != word {
            return Err(WrongReply::Mismatched);
        }
        let meets_ip_limit = |place: usize| {
            items.get(place).is_some_and(|item| {
                item.step != Step::Part(Leg::Address) || item.ask.pays_on(Leg::Address)
            })
        };
        let is_subject = |place: usize| {
            let step = items.get(place).map(|item| item.step);
            matches!(step, Some(Step::Part(Leg::Subject(_))))
        };
        let decision = |(place, word): (usize, &String)| match word.as_str() {
            "a" => Some(Decision::Verdict(allowed())),
            "t" => Some(Decision::Verdict(throttled())),
            "b" => Some(Decision::Verdict(boxed())),
            "p" if is_subject(place) || !meets_ip_limit(place) => Some(Decision::Passed(None)),
            "p" => Some(Decision::Passed(Some(passed()))),
            "q" => Some(Decision::Verdict(locked_out())),
            "n" => Some(Decision::Verdict(Verdict::AuthBusy)),
            "o" => Some(Decision::Verdict(taken())),
            "d" => Some(Decision::Done),
            "k" => Some(Decision::Kept(Kept::silently(true))),
            "l" => Some(Decision::Kept(Kept::silently(false))),
            "s" => Some(Decision::Kept(Kept {
                all: true,
                signs: vec![sign()],
            })),
            _ => None,
        };
        let decisions = rest.iter().enumerate().map(decision).collect::<Option<_>>();
        Ok(Answers {
            now: THEN,
            decisions: decisions.ok_or(WrongReply::Malformed)?,
        })
    }

    fn tag(&self, item: &Item) -> String {
        tag(item)
    }
}

pub(super) fn ip_meter() -> Meter {
    meter(600, 60, 600)
}

pub(super) fn key_standing() -> Standing {
    standing(Policy::Key, meter(10, 60, 10), 9, 6000, 0)
}

pub(super) fn allowed() -> Verdict {
    Verdict::Allowed(standings(&[key_standing()]), None)
}

pub(super) fn throttled() -> Verdict {
    Verdict::Throttled(Throttled {
        standings: standings(&[key_standing()]),
        wait: Millis(6000),
        strikes_left: Some(3),
        would_box: None,
    })
}

pub(super) fn boxed() -> Verdict {
    Verdict::Boxed(Boxed {
        scope: Scope::Key,
        lockout: LOCKOUT,
        tripped: false,
    })
}

/// What is noticed where somebody is locked out.
pub(super) fn sign() -> Sign {
    Sign::Locked(0, LOCKOUT)
}

pub(super) fn locked_out() -> Verdict {
    Verdict::AuthLockout(AuthLockout {
        attempt: 0,
        lockout: LOCKOUT,
        tripped: false,
    })
}

pub(super) fn taken() -> Verdict {
    Verdict::Taken(Taken {
        by: Obstacle::Lease,
        standings: standings(&[key_standing()]),
        wait: Millis(900),
        strikes_left: None,
    })
}

/// An address that has 598 points left and is full in 200 ms.
pub(super) fn passed() -> Standing {
    standing(Policy::Ip, ip_meter(), 598, 200, 0)
}

fn ask_of(subject: Subject) -> Rc<Ask> {
    Rc::new(Ask {
        subject,
        cost: 1,
        shadow: false,
        grace: Millis(1000),
        wanted: None,
        penalty: box_terms(),
    })
}

/// A question of a tenant's key, which meets `ip_limit` if there is an address.
pub(super) fn key(tenant: &str, key: &str, ip: Option<&str>) -> Rc<Ask> {
    ask_of(Subject::Key {
        tenant: Id::of(tenant.as_bytes()),
        key: Id::of(key.as_bytes()),
        tenant_meter: meter(20, 60, 20),
        key_meter: meter(10, 60, 10),
        ip: ip.map(|ip| (Address::Other(ip.as_bytes().to_vec()), ip_meter())),
    })
}

/// A question of an address.
pub(super) fn anonymous(ip: &str) -> Rc<Ask> {
    ask_of(Subject::Anonymous {
        address: Address::Other(ip.as_bytes().to_vec()),
        meter: meter(10, 60, 10),
        ip_meter: Some(ip_meter()),
    })
}

/// The same question, which wants a lease besides.
pub(super) fn with_lease(ask: &Ask, id: u64) -> Rc<Ask> {
    Rc::new(Ask {
        wanted: Some(a_lease(id)),
        ..ask.clone()
    })
}

/// A question of an address that presents credentials, which meets `ip_limit` or nothing.
pub(super) fn credential(ip: &str, meets_ip_limit: bool) -> Rc<Ask> {
    ask_of(Subject::Credential {
        address: Address::Other(ip.as_bytes().to_vec()),
        ip_meter: meets_ip_limit.then(ip_meter),
    })
}

/// The same question, as an attempt for somebody from an address: by a throttle of each, or of one alone.
pub(super) fn attempt(ask: &Ask, id: u64, ip: Option<&str>, subject: Option<&str>) -> Rc<Ask> {
    let address = match ask.address() {
        Some(address) => address.clone(),
        None => Address::Other(ip.unwrap_or("?").as_bytes().to_vec()),
    };
    let by_ip = ip.map(|_| an_attempt("ip", Who::Ip));
    let by_subject = subject.map(|_| an_attempt("subject", Who::Subject(0)));
    let attempts = Attempts {
        address,
        subjects: subject.map(|s| Id::of(s.as_bytes())).into_iter().collect(),
        list: by_ip.into_iter().chain(by_subject).collect(),
        stuffing: None,
    };
    let wanted = Wanted {
        attempts: Some(Rc::new(attempts)),
        ..ask
            .wanted
            .clone()
            .unwrap_or_else(|| Wanted::nothing(HoldId(id)))
    };
    Rc::new(Ask {
        wanted: Some(wanted),
        ..ask.clone()
    })
}

/// What becomes of attempts: those by these throttles failed, or they succeeded.
pub(super) fn outcome(failed: u32, succeeded: bool) -> Outcome {
    Outcome {
        started: THEN,
        failed,
        succeeded,
    }
}

/// What is told of a question.
pub(super) fn item(ask: &Rc<Ask>, step: Step) -> Item {
    let ask = Rc::clone(ask);
    Item { ask, step }
}

pub(super) fn redis(dialect: Dialect, topology: Topology) -> Redis {
    Redis {
        upstream: "redis-front".to_owned(),
        dialect,
        topology,
        timeout: TIMEOUT,
        authorization: None,
        key_prefix: String::new(),
        breaker: Breaker {
            failures: FAILURES,
            open_for: OPEN_FOR,
        },
    }
}

pub(super) fn desk(dialect: Dialect, topology: Topology) -> Desk<Fake> {
    Desk::with(&redis(dialect, topology), Fake, SEED)
}

/// The commands of a call: their verbs, and the items.
pub(super) fn commands(call: &Call) -> Vec<(String, Vec<String>)> {
    let split = |mut words: Vec<String>| (words.remove(0), words.split_off(1));
    spoken(call).into_iter().map(split).collect()
}

/// The word of each command of a call.
pub(super) fn words_of(call: &Call) -> Vec<String> {
    let word = |mut words: Vec<String>| words.swap_remove(1);
    spoken(call).into_iter().map(word).collect()
}

fn spoken(call: &Call) -> Vec<Vec<String>> {
    if call.header(":path") == Some("/pipeline") {
        return serde_json::from_slice(&call.body).expect("JSON");
    }
    let text = match call.header(":method") {
        Some("GET") => call.header(":path").expect("a path")[1..].to_owned(),
        _ => String::from_utf8(call.body.clone()).expect("UTF-8"),
    };
    let decode = |word| {
        let bytes = percent_encoding::percent_decode_str(word);
        bytes.decode_utf8().expect("UTF-8").into_owned()
    };
    vec![text.split('/').map(decode).collect()]
}

/// What a front answers to a call: a reply to each command.
pub(super) fn answer(call: &Call, replies: &[Result<Vec<String>, String>]) -> Vec<u8> {
    let dialect = match call.header(":path") {
        Some("/pipeline") => Dialect::Upstash,
        _ => Dialect::Webdis,
    };
    said(dialect, &words_of(call), replies)
}

/// The same, said back with these words.
pub(super) fn said(
    dialect: Dialect,
    own: &[String],
    replies: &[Result<Vec<String>, String>],
) -> Vec<u8> {
    let greeted = |place: usize, words: &[String]| [&own[place..=place], words].concat();
    let value = match dialect {
        Dialect::Webdis => match replies {
            [Ok(words)] => serde_json::json!({"EVALSHA": greeted(0, words)}),
            [Err(error)] => serde_json::json!({"EVALSHA": [false, error]}),
            _ => panic!("Webdis answers one command"),
        },
        Dialect::Upstash => {
            let reply = |(place, reply): (usize, &Result<Vec<String>, String>)| match reply {
                Ok(words) => serde_json::json!({"result": greeted(place, words)}),
                Err(error) => serde_json::json!({"error": error}),
            };
            replies.iter().enumerate().map(reply).collect()
        }
    };
    serde_json::to_vec(&value).expect("JSON")
}
