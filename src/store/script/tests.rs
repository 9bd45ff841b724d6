use std::rc::Rc;

use proptest::prelude::*;
use tollgate_config::Millis;

use super::{Clock, Decision, Item, Script, Step, WrongReply};
use crate::attempt::Outcome;
use crate::client_ip::Address;
use crate::hold::{Fence, HoldId, Keep, LeaseWanted, QuotaWanted, Wanted};
use crate::identity::Id;
use crate::limit::decision::Strictness;
use crate::store::{Ask, Subject};
use crate::store::{Kept, Leg};
use crate::testing::{box_terms, meter};
use crate::verdict::{Obstacle, Policy, Taken, Verdict};

mod attempts;

/// What a call has said back.
const WORD: &str = "c0de.7.0";

/// What its reply begins with.
const GREETING: &str = "tollgate 1 c0de.7.0";

fn ask(tenant: &str, key: &str, ip: Option<&str>) -> Ask {
    Ask {
        subject: Subject::Key {
            tenant: Id::of(tenant.as_bytes()),
            key: Id::of(key.as_bytes()),
            tenant_meter: meter(3000, 60, 3000),
            key_meter: meter(1500, 60, 1500),
            ip: ip.map(|ip| (Address::Ip(ip.parse().unwrap()), meter(600, 60, 600))),
        },
        cost: 10,
        shadow: false,
        grace: Millis(1000),
        wanted: None,
        penalty: box_terms(),
    }
}

/// The same, which wants everything there is.
fn greedy(tenant: &str, key: &str, ip: Option<&str>) -> Ask {
    let wanted = Wanted {
        id: HoldId(0xfe1c_07b9_d1e2_2aa5),
        flight: Some(Id::of(b"once")),
        lock: Some(Id::of(b"ledger-7")),
        lease: Some(LeaseWanted {
            kind: "reconcile".into(),
            slots: 2,
        }),
        quota: Some(QuotaWanted {
            kind: "export".into(),
            requests: 10,
            per: Millis(3_600_000),
        }),
        attempts: None,
    };
    Ask {
        wanted: Some(wanted),
        ..ask(tenant, key, ip)
    }
}

fn item(ask: Ask, step: Step) -> Item {
    Item {
        ask: Rc::new(ask),
        step,
    }
}

fn script() -> Script {
    Script {
        key_prefix: "p:".to_owned(),
        clock: Clock::Store,
    }
}

fn arguments(items: &[Item]) -> Vec<String> {
    script().call(items, WORD, Millis(5)).split_off(2)
}

#[test]
fn a_call_names_keys_and_terms_once() {
    let items = [
        item(ask("acme", "a", None), Step::Whole),
        item(ask("acme", "b", None), Step::Whole),
        item(ask("acme", "a", None), Step::Whole),
    ];
    let terms = "1000 20 60000 86400000 300000 3600000 86400000 3 1 40 1500 1 20 3000 0 0 0";
    assert_eq!(
        arguments(&items),
        [
            "9",
            "p:rl:{t:acme}:tb:a",
            "p:rl:{t:acme}:tb",
            "p:pb:{t:acme}:box:a",
            "p:pb:{t:acme}:strikes:a",
            "p:pb:{t:acme}:off:a",
            "p:rl:{t:acme}:tb:b",
            "p:pb:{t:acme}:box:b",
            "p:pb:{t:acme}:strikes:b",
            "p:pb:{t:acme}:off:b",
            "1",
            "store",
            "5",
            "c0de.7.0",
            "1",
            terms,
            "0 1 10 10 1 1 2 0 1 3 4 5",
            "0 1 10 10 1 6 2 0 6 7 8 9",
            "0 1 10 10 1 1 2 0 1 3 4 5",
        ]
    );
}

#[test]
fn what_is_wanted_comes_after_the_twelve_numbers() {
    let keep = Keep {
        lease: Millis(900_000),
        lock: Millis(0),
        flight: Millis(60_000),
        outcome: None,
    };
    let items = [
        item(greedy("acme", "a", None), Step::Whole),
        item(greedy("acme", "a", None), Step::Part(Leg::Owner)),
        item(greedy("acme", "a", None), Step::Keep(Leg::Owner, keep)),
        item(greedy("acme", "a", None), Step::Revoke(Leg::Owner)),
        item(greedy("acme", "a", None), Step::Undo),
        item(
            greedy("acme", "a", Some("192.0.2.1")),
            Step::Part(Leg::Address),
        ),
        item(greedy("acme", "a", Some("192.0.2.1")), Step::GiveBack),
    ];
    let arguments = arguments(&items);
    let held = [
        "p:cc:{t:acme}:reconcile",
        "p:lk:{t:acme}:ledger-7",
        "p:ik:{t:acme}:once",
        "p:qt:{t:acme}:export",
    ];
    assert_eq!(arguments[6..10], held);
    let questions = &arguments[arguments.len() - 7..];
    assert_eq!(
        questions,
        [
            "0 1 10 10 1 1 2 0 1 3 4 5 fe1c07b9d1e22aa5 6 2 7 8 9 10 3600000",
            "2 1 10 10 1 1 2 0 1 3 4 5 fe1c07b9d1e22aa5 6 2 7 8 9 10 3600000",
            "5 0 0 0 0 0 2 0 0 0 0 0 fe1c07b9d1e22aa5 6 900000 7 0 8 60000",
            "6 0 0 0 0 0 2 0 0 0 0 0 fe1c07b9d1e22aa5 6 7 8",
            "4 1 10 10 1 1 2 0 1 3 4 5",
            "1 2 10 10 1 0 0 10 0 0 0 0",
            "3 2 10 10 1 0 0 10 0 0 0 0",
        ]
    );
    assert_eq!(
        script().member(&items[0].ask),
        "p:cc:{t:acme}:reconcile p:lk:{t:acme}:ledger-7 fe1c07b9d1e22aa5"
    );
    assert_eq!(script().member(&ask("acme", "a", None)), "");
}

#[test]
fn a_step_names_the_keys_of_its_tag_only() {
    let whole = greedy("acme", "a", Some("192.0.2.1"));
    let keys = |step| {
        let item = item(whole.clone(), step);
        let tag = format!("{{{}}}", item.tag());
        let arguments = arguments(&[item]);
        let count: usize = arguments[0].parse().unwrap();
        (arguments[1..=count].to_vec(), tag)
    };
    for step in [
        Step::Part(Leg::Address),
        Step::Part(Leg::Owner),
        Step::GiveBack,
        Step::Keep(Leg::Owner, Keep::ON),
        Step::Revoke(Leg::Owner),
    ] {
        let (keys, tag) = keys(step);
        assert!(!keys.is_empty());
        for key in keys {
            assert!(key.contains(&tag), "{step:?} {key}");
        }
    }
    assert_eq!(keys(Step::Part(Leg::Address)).0, ["p:rl:{ip:192.0.2.1}:tb"]);
    assert_eq!(keys(Step::Whole).0.len(), 10);
}

#[test]
fn shadow_and_watched_boxes_are_apart() {
    let keys = |shadow, strictness| {
        let mut ask = ask("t", "k", None);
        ask.shadow = shadow;
        ask.penalty.strictness = strictness;
        let arguments = arguments(&[item(ask, Step::Whole)]);
        let count: usize = arguments[0].parse().unwrap();
        arguments[1..=count].join(" ")
    };
    assert_eq!(
        keys(true, Strictness::Enforced),
        "p:sh:rl:{t:t}:tb:k p:sh:rl:{t:t}:tb p:sh:pb:{t:t}:box:k p:sh:pb:{t:t}:strikes:k p:sh:pb:{t:t}:off:k"
    );
    assert_eq!(
        keys(false, Strictness::Watched),
        "p:rl:{t:t}:tb:k p:rl:{t:t}:tb p:sh:rl:{t:t}:tb:k p:sh:pb:{t:t}:box:k p:sh:pb:{t:t}:strikes:k p:sh:pb:{t:t}:off:k"
    );
    assert_eq!(
        keys(false, Strictness::Off),
        "p:rl:{t:t}:tb:k p:rl:{t:t}:tb"
    );
}

#[test]
fn an_address_that_is_none_is_in_keys_by_its_hash() {
    let mut anonymous = ask("", "", None);
    anonymous.subject = Subject::Anonymous {
        address: Address::Other(b"in{tern}al/../x".to_vec()),
        meter: meter(60, 60, 60),
        ip_meter: None,
    };
    let item = item(anonymous, Step::Whole);
    let name = item.tag();
    assert_eq!(name.len(), "ip:".len() + 43, "{name}");
    assert!(
        name.bytes()
            .skip(3)
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    );
    assert_eq!(
        arguments(&[item])[1],
        format!("p:rl:{{{name}}}:an").as_str()
    );
}

fn read(step: Step, line: &str) -> Option<Decision> {
    read_of(ask("acme", "a", Some("192.0.2.1")), step, line)
}

fn read_of(ask: Ask, step: Step, line: &str) -> Option<Decision> {
    let items = [item(ask, step)];
    let reply = [GREETING.to_owned(), line.to_owned()];
    let mut answers = script().answers(&items, WORD, &reply).ok()?;
    Some(answers.decisions.remove(0))
}

#[test]
fn answers_are_verdicts_with_standings() {
    // Of 1500 points of 40 units, 400 units are spent: 10 points, which refill in 400 ms.
    let Some(Decision::Verdict(Verdict::Allowed(standings, _))) =
        read(Step::Whole, "a 7 400 200 0")
    else {
        panic!("not allowed");
    };
    let seen: Vec<_> = standings
        .iter()
        .map(|s| (s.policy, s.remaining, s.reset.0))
        .collect();
    let expected = [
        (Policy::Key, 1490, 400),
        (Policy::Tenant, 2990, 200),
        (Policy::Ip, 600, 0),
    ];
    assert_eq!(seen, expected);
    let Some(Decision::Verdict(Verdict::Boxed(boxed))) = read(Step::Whole, "b 7 2 9 1") else {
        panic!("not boxed");
    };
    assert_eq!(
        (boxed.lockout.level, boxed.lockout.until, boxed.tripped),
        (2, Millis(9), true)
    );
}

#[test]
fn answers_say_what_is_held() {
    let all = || greedy("acme", "a", Some("192.0.2.1"));
    let read = |step, line: &str| read_of(all(), step, line);
    for step in [Step::Whole, Step::Part(Leg::Owner)] {
        let Some(Decision::Verdict(Verdict::Allowed(_, fence))) =
            read(step, "a 7 400 200 0 1772323200000000")
        else {
            panic!("not allowed");
        };
        assert_eq!(fence, Some(Fence(1_772_323_200_000_000)));
        // It was revoked before it came.
        assert_eq!(read(step, "d 7"), Some(Decision::Done));
        for (what, by) in [
            (1, Obstacle::Flight),
            (2, Obstacle::Lock),
            (3, Obstacle::Lease),
            (4, Obstacle::Quota),
        ] {
            let line = format!("h 7 {what} 40 20 0 900 3");
            let Some(Decision::Verdict(Verdict::Taken(taken))) = read(step, &line) else {
                panic!("not taken");
            };
            let Taken {
                standings,
                wait,
                strikes_left,
                ..
            } = taken;
            assert_eq!(
                (taken.by, wait, strikes_left),
                (by, Millis(900), Some(3)),
                "{line}"
            );
            let remaining: Vec<u64> = standings.iter().map(|s| s.remaining).collect();
            assert_eq!(remaining, [1499, 2999, 600]);
            assert!(standings.iter().all(|s| s.wait == Millis(0)));
        }
    }
    assert_eq!(
        read(Step::Keep(Leg::Owner, Keep::ON), "k 7 1"),
        Some(Decision::Kept(Kept::silently(true)))
    );
    assert_eq!(
        read(Step::Keep(Leg::Owner, Keep::ON), "k 7 0"),
        Some(Decision::Kept(Kept::silently(false)))
    );
    assert_eq!(read(Step::Revoke(Leg::Owner), "d 7"), Some(Decision::Done));
    for (step, line) in [
        (Step::Whole, "a 7 1 2 3"),
        (Step::Whole, "a 7 1 2 3 0"),
        (Step::Whole, "a 7 1 2 3 -1"),
        (Step::Whole, "a 7 1 2 3 4 5"),
        (Step::Whole, "h 7 0 1 2 3 4 5"),
        (Step::Whole, "h 7 5 1 2 3 4 5"),
        (Step::Whole, "h 7 1 1 2 3 0 5"),
        (Step::Whole, "h 7 1 1 2 3 4 -1"),
        (Step::Whole, "h 7 1 1 2 3 4"),
        (Step::Whole, "k 7 1"),
        (Step::Part(Leg::Address), "h 7 1 1 2 3 4 5"),
        (Step::Part(Leg::Address), "d 7"),
        (Step::Keep(Leg::Owner, Keep::ON), "k 7"),
        (Step::Keep(Leg::Owner, Keep::ON), "k 7 2"),
        (Step::Keep(Leg::Owner, Keep::ON), "k 7 -1"),
        (Step::Keep(Leg::Owner, Keep::ON), "d 7"),
        (Step::Revoke(Leg::Owner), "k 7 1"),
    ] {
        assert_eq!(read(step, line), None, "{step:?} {line}");
    }
    // Only what was wanted is taken, or had.
    let plain = || ask("acme", "a", Some("192.0.2.1"));
    assert_eq!(read_of(plain(), Step::Whole, "h 7 1 1 2 3 4 5"), None);
    let mut one = all();
    let Some(wanted) = &mut one.wanted else {
        panic!("{one:?}");
    };
    (wanted.flight, wanted.lock, wanted.lease) = (None, None, None);
    assert!(read_of(one.clone(), Step::Whole, "a 7 1 2 3 0").is_some());
    assert!(read_of(one.clone(), Step::Whole, "h 7 4 1 2 3 4 5").is_some());
    for line in ["a 7 1 2 3 9", "h 7 1 1 2 3 4 5", "d 7"] {
        assert_eq!(read_of(one.clone(), Step::Whole, line), None, "{line}");
    }
}

#[test]
fn what_the_script_never_says_is_no_answer() {
    for line in [
        "",
        "a",
        "a x",
        "a 7",
        "a 7 1 2",
        "a 7 1 2 3 4",
        "a 7 -1 2 3",
        "a 7 1 2 9007199254740993",
        "a -7 1 2 3",
        "A 7 1 2 3",
        "ab 7 1 2 3",
        "a 7  1 2 3",
        "a 7 1.5 2 3",
        "a 7 1e3 2 3",
        "b 7 0 9 0",
        "b 7 4 9 0",
        "b 7 1 7 0",
        "b 7 1 6 0",
        "t 7 1 0 1 0 -1 0 3 0 0",
        "t 7 1 5 1 0 -1 5 -3 0 0",
        "i 7 1 0 0",
        "p 7 1",
        "d 7",
    ] {
        assert_eq!(read(Step::Whole, line), None, "{line}");
    }
    assert!(read(Step::Part(Leg::Address), "p 7 1").is_some());
    assert!(read(Step::GiveBack, "d 7").is_some());
    assert_eq!(read(Step::GiveBack, "a 7 1 2 3"), None);
    assert_eq!(read(Step::Part(Leg::Address), "a 7 1 2 3"), None);
    // Another number of lines, or another greeting.
    let items = [item(ask("acme", "a", None), Step::Whole)];
    let reply = |lines: &[&str]| -> Vec<String> { lines.iter().map(|&l| l.to_owned()).collect() };
    for lines in [
        &[][..],
        &[GREETING],
        &["tollgate 1", "a 7 1 2 -1"],
        &["tollgate 2 c0de.7.0", "a 7 1 2 -1"],
        &[GREETING, "a 7 1 2 -1", "a 7 1 2 -1"],
    ] {
        let read = script().answers(&items, WORD, &reply(lines));
        assert_eq!(read, Err(WrongReply::Malformed), "{lines:?}");
    }
    // Another call's, whether it would fit or not.
    for lines in [
        &["tollgate 1 c0de.7.1", "a 7 1 2 -1"][..],
        &["tollgate 1 c0de.7.00", "a 7 1 2 -1"],
        &["tollgate 1 ", "a 7 1 2 -1"],
        &["tollgate 1 c0de.8.0"],
    ] {
        let read = script().answers(&items, WORD, &reply(lines));
        assert_eq!(read, Err(WrongReply::Mismatched), "{lines:?}");
    }
}

proptest! {
    #[test]
    fn no_reply_makes_it_panic(
        lines in prop::collection::vec("([atbiphkdly] )?(-?[0-9]{1,20} ?){0,12}|.*", 0..4), step in 0..11_usize,
        who in 0..3_u8,
    ) {
        let outcome = Outcome { started: Millis(7), failed: u32::MAX, succeeded: true };
        let told = Keep { outcome: Some(outcome), ..Keep::NOTHING };
        let steps = [
            Step::Whole, Step::Part(Leg::Address), Step::Part(Leg::Owner), Step::GiveBack, Step::Undo, Step::Keep(Leg::Owner, Keep::ON), Step::Revoke(Leg::Owner),
            Step::Part(Leg::Subject(0)), Step::Part(Leg::Subject(9)), Step::Keep(Leg::Address, told), Step::Keep(Leg::Subject(0), told),
        ];
        let step = steps[step];
        let asked = || match who {
            0 => greedy("a", "b", Some("::1")),
            1 => attempts::tenants(),
            _ => attempts::credential(),
        };
        let items: Vec<Item> = lines.iter().skip(1).map(|_| item(asked(), step)).collect();
        let mut reply = lines.clone();
        if let Some(first) = reply.first_mut() {
            GREETING.clone_into(first);
        }
        if let Ok(answers) = script().answers(&items, WORD, &reply) {
            prop_assert_eq!(answers.decisions.len(), items.len());
        }
    }
}
