use tollgate_config::{Stuffing, ThrottleId};

use super::*;
use crate::attempt::{Attempt, Attempts, Sign, Who};
use crate::limit::penalty::Lockout;
use crate::verdict::{AuthLockout, Throttled};

/// Of `who`; each number is told apart.
fn throttle(name: &str, who: Who) -> Attempt {
    Attempt {
        throttle: ThrottleId(0),
        name: name.into(),
        who,
        failures: 5,
        within: Millis(900_000),
        levels: [Millis(300_000), Millis(3_600_000), Millis(86_400_000)],
        max_level: if who == Who::Ip { 3 } else { 2 },
        offense_memory: Millis(172_800_000),
        provisional: true,
        spares: false,
        resets: who != Who::Ip,
    }
}

/// By address, by subject, which spares, and by pair, for two subjects.
fn attempts() -> Attempts {
    let spared = Attempt {
        spares: true,
        ..throttle("user", Who::Subject(0))
    };
    let loose = Attempt {
        provisional: false,
        ..throttle("app", Who::Subject(1))
    };
    let stuffing = Stuffing {
        failures: 500,
        subjects: 50,
        within: Millis(600_000),
    };
    Attempts {
        address: Address::Ip("192.0.2.1".parse().unwrap()),
        subjects: vec![Id::of(b"alice"), Id::of(b"app-1")],
        list: vec![
            spared,
            throttle("ip", Who::Ip),
            loose,
            throttle("pair", Who::Pair(0)),
        ],
        stuffing: Some((stuffing, Millis(86_400_000))),
    }
}

fn wanted() -> Wanted {
    Wanted {
        attempts: Some(Rc::new(attempts())),
        ..Wanted::nothing(HoldId(0x2aa5))
    }
}

/// A tenant's request that is an attempt.
pub(super) fn tenants() -> Ask {
    Ask {
        wanted: Some(wanted()),
        ..ask("acme", "a", Some("192.0.2.1"))
    }
}

/// One that presents credentials.
pub(super) fn credential() -> Ask {
    Ask {
        subject: Subject::Credential {
            address: Address::Ip("192.0.2.1".parse().unwrap()),
            ip_meter: Some(meter(600, 60, 600)),
        },
        ..tenants()
    }
}

const fn told(failed: u32, succeeded: bool) -> Keep {
    Keep {
        outcome: Some(Outcome {
            started: Millis(3),
            failed,
            succeeded,
        }),
        ..Keep::NOTHING
    }
}

/// Keys, terms and questions of a call.
fn parts(items: &[Item]) -> [Vec<String>; 3] {
    let mut all = arguments(items);
    let count: usize = all[0].parse().unwrap();
    let keys = all.drain(..=count).skip(1).collect();
    let terms: usize = all[4].parse().unwrap();
    let questions = all.split_off(5 + terms);
    [keys, all.split_off(5), questions]
}

#[test]
fn each_has_a_section_of_its_own() {
    let [keys, terms, questions] = parts(&[item(tenants(), Step::Whole)]);
    let own = [
        "p:au:{s:alice}:user",
        "p:pb:{s:alice}:box",
        "p:pb:{s:alice}:off",
        "p:pb:{s:alice}:at",
        "p:au:{s:alice}:user:192.0.2.1",
        "p:pb:{s:alice}:box:192.0.2.1",
        "p:pb:{s:alice}:off:192.0.2.1",
        "p:pb:{s:alice}:at:192.0.2.1",
        "p:pb:{s:alice}:known",
        "p:au:{ip:192.0.2.1}:ip",
        "p:pb:{ip:192.0.2.1}:box",
        "p:pb:{ip:192.0.2.1}:off",
        "p:rl:{ip:192.0.2.1}:an",
        "p:au:{s:app-1}:app",
        "p:pb:{s:app-1}:box",
        "p:pb:{s:app-1}:off",
        "p:pb:{s:app-1}:at",
        // The box is the one from the address that is spared.
        "p:au:{s:alice}:pair:192.0.2.1",
    ];
    assert_eq!(keys[6..], own);
    let levels = "900000 172800000 300000 3600000 86400000";
    assert_eq!(
        terms[1..],
        [
            format!("1 5 {levels} 2 1 1"),
            format!("0 5 {levels} 3 1 0"),
            format!("1 5 {levels} 2 0 1"),
            format!("2 5 {levels} 2 1 1"),
        ]
    );
    let sections: Vec<&str> = questions[0].split(';').collect();
    assert_eq!(
        sections,
        [
            "0 1 10 10 1 1 2 3 1 4 5 6 0000000000002aa5 0 0 0 0 0 0 0",
            "192.0.2.1",
            "2 7 8 9 10 11 12 13 14 15",
            "3 16 17 18 19",
            "4 20 21 22 23",
            "5 24 12 13 14",
        ]
    );
}

#[test]
fn what_is_told_later_names_what_it_needs() {
    let keep = |leg, keep| item(tenants(), Step::Keep(leg, keep));
    let question = |item: Item| {
        let [keys, _, questions] = parts(&[item]);
        let sections = questions[0].split(';').map(str::to_owned).skip(1);
        (keys.len(), sections.collect::<Vec<_>>())
    };
    let subject = Leg::Subject(0);
    for (step, keys, sections) in [
        (
            keep(subject, told(0b0001, false)),
            11,
            // Failed by the first, given back by the other.
            &["192.0.2.1 3", "3 1 1 2 3 4 5 6 7 8 9 10", "2 0 2 11 0 0 0"][..],
        ),
        (
            keep(subject, told(0, true)),
            4,
            &["192.0.2.1 3", "4 0 1 1 0 0 0 2 0 0 0 3", "4 0 2 4 0 0 0"],
        ),
        (
            keep(subject, Keep::NOTHING),
            3,
            &["192.0.2.1 0", "1 0 1 1 0 0 0 2 0 0 0 0", "1 0 2 3 0 0 0"],
        ),
        (keep(subject, Keep::ON), 0, &[]),
        (
            item(tenants(), Step::Revoke(subject)),
            3,
            &["192.0.2.1", "1 1 0 0 0 2 0 0 0 0", "2 3 0 0 0"],
        ),
        // It failed by some throttle, so the address did, though not by its own.
        (
            keep(Leg::Address, told(0b0001, false)),
            6,
            &["192.0.2.1 3", "2 0 1 1 0 0 0", "s 2 2 3 4 5 6 alice app-1"],
        ),
        (
            keep(Leg::Address, told(0, true)),
            1,
            &["192.0.2.1 3", "4 0 1 1 0 0 0"],
        ),
        // The tenant knows nothing of it.
        (keep(Leg::Owner, told(u32::MAX, false)), 1, &[]),
    ] {
        assert_eq!(
            question(step.clone()),
            (keys, sections.iter().map(|s| (*s).to_owned()).collect()),
            "{step:?}"
        );
    }
}

#[test]
fn each_leg_is_under_a_tag_of_its_own() {
    let legs = [
        (Leg::Address, "ip:192.0.2.1"),
        (Leg::Subject(0), "s:alice"),
        (Leg::Subject(1), "s:app-1"),
        (Leg::Owner, "t:acme"),
    ];
    let asked: Vec<Leg> = tenants().legs().collect();
    assert_eq!(asked, legs.map(|(leg, _)| leg));
    // With and without `ip_limit`: the address is the same.
    let mut without = tenants();
    if let Subject::Key { ip, .. } = &mut without.subject {
        *ip = None;
    }
    for ask in [tenants(), without] {
        for (leg, tag) in legs {
            for step in [
                Step::Part(leg),
                Step::Keep(leg, told(u32::MAX, false)),
                Step::Keep(leg, told(0, true)),
                Step::Keep(leg, Keep::NOTHING),
                Step::Revoke(leg),
            ] {
                let item = item(ask.clone(), step);
                assert_eq!(item.tag(), tag);
                let [keys, ..] = parts(&[item]);
                let tag = format!("{{{tag}}}");
                assert!(!keys.is_empty(), "{step:?}");
                assert!(
                    keys.iter().all(|key| key.contains(&tag)),
                    "{step:?} {keys:?}"
                );
            }
        }
    }
    // The owner is the address where there is no tenant.
    let legs: Vec<Leg> = credential().legs().collect();
    assert_eq!(legs, [Leg::Owner, Leg::Subject(0), Leg::Subject(1)]);
    for step in [
        Step::Part(Leg::Owner),
        Step::Keep(Leg::Owner, told(1, false)),
        Step::Undo,
    ] {
        let item = item(credential(), step);
        assert_eq!(item.tag(), "ip:192.0.2.1");
        let [keys, ..] = parts(&[item]);
        assert!(
            keys.iter().all(|key| key.contains("{ip:192.0.2.1}")),
            "{keys:?}"
        );
    }
    // Of a subject that nobody names nothing is asked.
    let nobody = item(tenants(), Step::Part(Leg::Subject(9)));
    assert!(parts(&[nobody])[0].is_empty());
}

#[test]
fn a_credential_request_names_the_address_limit_and_the_box() {
    let plain = Ask {
        wanted: None,
        ..credential()
    };
    let call = |ask: &Ask, step| {
        let [keys, terms, questions] = parts(&[item(ask.clone(), step)]);
        (keys, terms, questions)
    };
    let (keys, terms, questions) = call(&plain, Step::Whole);
    assert_eq!(
        keys,
        [
            "p:rl:{ip:192.0.2.1}:tb",
            "p:rl:{ip:192.0.2.1}:an",
            "p:pb:{ip:192.0.2.1}:box"
        ]
    );
    assert!(terms[0].ends_with(" 3 0 0 0 0 0 0 1 100 600"), "{terms:?}");
    assert_eq!(questions, ["0 1 10 0 1 0 0 1 2 3 0 0"]);
    assert_eq!(call(&plain, Step::Part(Leg::Owner)).0, keys);
    for strictness in [Strictness::Off, Strictness::Watched] {
        let mut ask = plain.clone();
        ask.penalty.strictness = strictness;
        assert_eq!(call(&ask, Step::Whole).0, keys[..1]);
    }
}

#[test]
fn answers_say_who_is_locked_out() {
    let locked = |attempt, level, until, tripped| {
        Decision::Verdict(Verdict::AuthLockout(AuthLockout {
            attempt,
            lockout: Lockout {
                level,
                until: Millis(until),
            },
            tripped,
        }))
    };
    let busy = Decision::Verdict(Verdict::AuthBusy);
    let (alice, app) = (Step::Part(Leg::Subject(0)), Step::Part(Leg::Subject(1)));
    let address = Step::Part(Leg::Address);
    for (step, line, expected) in [
        (Step::Whole, "l 7 2 2 9 0", locked(2, 2, 9, false)),
        (Step::Whole, "l 7 3 1 8 1", locked(3, 1, 8, true)),
        // Which of the leg's.
        (alice, "l 7 0 2 9 0", locked(0, 2, 9, false)),
        (alice, "l 7 1 2 9 0", locked(3, 2, 9, false)),
        (app, "l 7 0 1 9 1", locked(2, 1, 9, true)),
        (address, "l 7 0 3 9 0", locked(1, 3, 9, false)),
        (Step::Whole, "y 7", busy.clone()),
        (alice, "y 7", busy.clone()),
        (address, "y 7", busy),
        (alice, "p 7 -1", Decision::Passed(None)),
        (Step::Whole, "d 7", Decision::Done),
        (alice, "d 7", Decision::Done),
        (address, "d 7", Decision::Done),
    ] {
        assert_eq!(
            read_of(tenants(), step, line),
            Some(expected),
            "{step:?} {line}"
        );
    }
    assert!(matches!(
        read_of(tenants(), address, "p 7 0"),
        Some(Decision::Passed(Some(_)))
    ));
    for (step, line) in [
        (Step::Whole, "l 7 4 2 9 0"),
        (Step::Whole, "l 7 -1 2 9 0"),
        (Step::Whole, "l 7 0 0 9 0"),
        (Step::Whole, "l 7 0 4 9 0"),
        (Step::Whole, "l 7 0 2 7 0"),
        (Step::Whole, "l 7 0 2 9 2"),
        (Step::Whole, "l 7 0 2 9"),
        (Step::Whole, "l 7 0 2 9 0 0"),
        (Step::Whole, "y 7 0"),
        (alice, "l 7 2 2 9 0"),
        (app, "l 7 1 2 9 0"),
        // Nothing there takes room, or is held.
        (app, "y 7"),
        (app, "d 7"),
        (Step::Part(Leg::Owner), "l 7 0 2 9 0"),
        (Step::Part(Leg::Owner), "y 7"),
        (Step::Part(Leg::Owner), "d 7"),
        (Step::Part(Leg::Subject(9)), "y 7"),
        (alice, "p 7 0"),
        (alice, "p 7"),
        (address, "p 7 -1"),
        (alice, "i 7 1 5 5"),
        (alice, "a 7 -1 -1 -1 0"),
        (Step::Keep(Leg::Subject(0), told(1, false)), "l 7 0 2 9 0"),
        (Step::Revoke(Leg::Subject(0)), "y 7"),
    ] {
        assert_eq!(read_of(tenants(), step, line), None, "{step:?} {line}");
    }
    for line in ["l 7 0 2 9 0", "y 7"] {
        let plain = ask("acme", "a", Some("192.0.2.1"));
        assert_eq!(read_of(plain, Step::Whole, line), None, "{line}");
    }
}

#[test]
fn answers_say_what_was_noticed() {
    let kept = |signs: &[Sign]| {
        Some(Decision::Kept(Kept {
            all: true,
            signs: signs.to_vec(),
        }))
    };
    let lockout = |level, until| Lockout {
        level,
        until: Millis(until),
    };
    let failed = told(u32::MAX, false);
    let subject = Step::Keep(Leg::Subject(0), failed);
    let address = Step::Keep(Leg::Address, failed);
    let (first, pair) = (
        Sign::Locked(0, lockout(1, 9)),
        Sign::Locked(3, lockout(2, 10)),
    );
    let banned = Sign::Stuffing(lockout(3, 99));
    for (step, line, signs) in [
        (subject, "k 7 1", &[][..]),
        (subject, "k 7 1 1 0 1 9", &[first]),
        (
            subject,
            "k 7 1 1 0 1 9 1 1 2 10 3 0 0 0",
            &[first, pair, Sign::Spread(0)],
        ),
        (
            address,
            "k 7 1 1 0 1 9 2 0 3 99",
            &[Sign::Locked(1, lockout(1, 9)), banned],
        ),
        // It failed, if not by the throttle that counts here.
        (
            Step::Keep(Leg::Address, told(1, false)),
            "k 7 1 2 0 3 99",
            &[banned],
        ),
    ] {
        assert_eq!(read_of(tenants(), step, line), kept(signs), "{line}");
    }
    for (step, line) in [
        (subject, "k 7 1 1 0 1"),
        (subject, "k 7 1 1 0 1 9 0"),
        (subject, "k 7 1 0 0 1 9"),
        (subject, "k 7 1 4 0 1 9"),
        (subject, "k 7 1 1 2 1 9"),
        (subject, "k 7 1 1 -1 1 9"),
        (subject, "k 7 1 1 0 0 9"),
        (subject, "k 7 1 1 0 4 9"),
        (subject, "k 7 1 1 0 1 7"),
        (subject, "k 7 1 2 0 3 99"),
        (subject, "k 7 1 3 1 0 0"),
        (subject, "k 7 1 3 0 1 9"),
        (address, "k 7 1 3 0 0 0"),
        (address, "k 7 1 2 1 3 99"),
        // Of those that did not fail nothing is noticed.
        (
            Step::Keep(Leg::Subject(0), told(0b10, true)),
            "k 7 1 1 0 1 9",
        ),
        (Step::Keep(Leg::Subject(0), Keep::NOTHING), "k 7 1 1 0 1 9"),
        (Step::Keep(Leg::Address, told(0, true)), "k 7 1 2 0 3 99"),
        (Step::Keep(Leg::Owner, failed), "k 7 1 1 0 1 9"),
    ] {
        assert_eq!(read_of(tenants(), step, line), None, "{step:?} {line}");
    }
}

#[test]
fn answers_to_credential_requests_have_the_address_alone() {
    let read = |step, line: &str| read_of(credential(), step, line);
    for step in [Step::Whole, Step::Part(Leg::Owner)] {
        let Some(Decision::Verdict(Verdict::Allowed(standings, None))) =
            read(step, "a 7 -1 -1 100 0")
        else {
            panic!("not allowed");
        };
        let seen: Vec<_> = standings.iter().map(|s| (s.policy, s.remaining)).collect();
        assert_eq!(seen, [(Policy::Ip, 599)]);
        let Some(Decision::Verdict(Verdict::Throttled(throttled))) = read(step, "i 7 60000 9 9")
        else {
            panic!("not throttled");
        };
        let Throttled {
            wait, strikes_left, ..
        } = throttled;
        assert_eq!((wait, strikes_left), (Millis(9), None));
        assert!(matches!(
            read(step, "b 7 1 9 0"),
            Some(Decision::Verdict(Verdict::Boxed(_)))
        ));
    }
    let mut locks = credential();
    locks.wanted.as_mut().unwrap().lock = Some(Id::of(b"x"));
    let Some(Decision::Verdict(Verdict::Taken(taken))) =
        read_of(locks.clone(), Step::Whole, "h 7 2 -1 -1 100 900 -1")
    else {
        panic!("not taken");
    };
    assert_eq!(taken.strikes_left, None);
    let mut free = credential();
    if let Subject::Credential { ip_meter, .. } = &mut free.subject {
        *ip_meter = None;
    }
    let Some(Decision::Verdict(Verdict::Allowed(standings, None))) =
        read_of(free.clone(), Step::Whole, "a 7 -1 -1 -1 0")
    else {
        panic!("not allowed");
    };
    assert_eq!(standings.iter().count(), 0);
    assert_eq!(read_of(free, Step::Whole, "i 7 1 5 5"), None);
    assert_eq!(read_of(locks, Step::Whole, "h 7 2 -1 -1 100 900 3"), None);
    for line in [
        "a 7 100 -1 100 0",
        "a 7 0 0 0 0",
        "t 7 1 0 1 0 -1 5 3 0 0",
        "t 7 -1 0 -1 0 1 5 3 0 0",
        "h 7 2 -1 -1 1 9 -1",
    ] {
        assert_eq!(read(Step::Whole, line), None, "{line}");
    }
    assert_eq!(read(Step::Part(Leg::Address), "i 7 60000 9 9"), None);
}
