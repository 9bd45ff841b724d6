//! Tests of what is noticed besides lockouts: subjects that fail from many addresses, and credential stuffing.

use tollgate_config::Stuffing;

use super::*;
use crate::attempt::SPREAD;

fn looking_for(stuffing: (u32, u32), ask: Ask) -> Ask {
    let (failures, subjects) = stuffing;
    let within = Millis(10 * MINUTE);
    let wanted = ask.wanted.clone().map(|wanted| {
        let attempts = wanted.attempts.as_deref().cloned();
        let attempts = attempts.map(|attempts| Attempts {
            stuffing: Some((
                Stuffing {
                    failures,
                    subjects,
                    within,
                },
                Millis(HOUR),
            )),
            ..attempts
        });
        Wanted {
            attempts: attempts.map(Rc::new),
            ..wanted
        }
    });
    Ask { wanted, ..ask }
}

/// So many failures that it is never locked out.
fn patient(throttle: Attempt) -> Attempt {
    Attempt {
        failures: 1000,
        provisional: false,
        ..throttle
    }
}

#[test]
fn a_subject_that_fails_from_ten_addresses_is_an_event_once_a_window() {
    let mut store = open(Heap::default());
    let from = |id, from| login(id, from, "alice", vec![by_ip(), patient(by_subject())]);
    let mut signs = Vec::new();
    for round in 0..3 {
        for n in 0..SPREAD as u8 {
            let id = 100 * round + u64::from(n);
            let at = round * 1000 + u64::from(n);
            let found = fail(&mut store, &from(id, n), at);
            signs.extend(found.into_iter().map(|sign| (at, sign)));
        }
    }
    let spread: Vec<_> = signs
        .iter()
        .filter(|(_, s)| matches!(s, Sign::Spread(_)))
        .collect();
    assert_eq!(spread, [&(9, Sign::Spread(1))]);
    // Nine in the next window are not, and the tenth is.
    for n in 0..9 {
        let found = fail(&mut store, &from(500 + n, 50 + n as u8), 15 * MINUTE + n);
        assert_eq!(found, []);
    }
    let found = fail(&mut store, &from(600, 60), 16 * MINUTE);
    assert_eq!(found, [Sign::Spread(1)]);
}

#[test]
fn only_attempts_by_subject_spread() {
    for (throttle, expected) in [
        (patient(by_subject()), 1),
        (patient(throttle("pair", Who::Pair(0))), 0),
        (patient(by_ip()), 0),
    ] {
        let mut store = open(Heap::default());
        let signs: Vec<Sign> = (0..30)
            .flat_map(|n| {
                fail(
                    &mut store,
                    &login(u64::from(n), n, "alice", vec![throttle.clone()]),
                    0,
                )
            })
            .collect();
        assert_eq!(signs.len(), expected, "{:?}", throttle.who);
    }
    // A success is no failure, from wherever it comes.
    let mut store = open(Heap::default());
    for n in 0..30 {
        let ask = login(u64::from(n), n, "alice", vec![patient(by_subject())]);
        assert_eq!(succeed(&mut store, &ask, 0), []);
    }
}

#[test]
fn stuffing_bans_the_address_straight_to_level_three() {
    for by in [by_ip(), by_subject()] {
        let mut store = open(Heap::default());
        let ask = |id, subject: &str| {
            let ask = login(id, 1, subject, vec![patient(by.clone())]);
            looking_for((10, 5), ask)
        };
        let mut banned = None;
        for n in 0..10 {
            assert_eq!(banned, None);
            let signs = fail(&mut store, &ask(n, &format!("user-{}", n % 6)), n);
            banned = signs.first().copied();
        }
        let until = after(9 + HOUR);
        let ban = Lockout { level: 3, until };
        assert_eq!(banned, Some(Sign::Stuffing(ban)));
        // All boxes of an address refuse whoever has no key, and a lockout refuses all attempts by address.
        assert_eq!(boxed(decide(&mut store, &anonymous(1), 9)).lockout, ban);
        allowed(decide(&mut store, &key_from(1, "t", "a"), 9));
        let tenants = attempting(key("t", "a"), 50, 1, &["bob"], vec![by_ip()]);
        assert_eq!(locked(decide(&mut store, &tenants, 9)).lockout, ban);
        allowed(decide(
            &mut store,
            &login(51, 2, "user-1", vec![by.clone()]),
            9,
        ));
        let end = 9 + HOUR;
        allowed(decide(&mut store, &anonymous(1), end));
        // The next lockout, while the ban is remembered, is of level 3 again.
        let again = |id| login(id, 1, "carol", vec![by_ip()]);
        assert_eq!(until_locked(&mut store, again, end).level, 3);
    }
}

#[test]
fn of_stuffing_both_failures_and_subjects_have_to_be_as_many() {
    for (failures, subjects, distinct, expected) in [
        (20, 10, 10, Some(19)),
        (20, 10, 9, None),
        (5, 10, 20, Some(9)),
        (40, 10, 20, Some(39)),
        (41, 10, 20, None),
    ] {
        let mut store = open(Heap::default());
        let mut first = None;
        for n in 0..40 {
            let subject = format!("user-{}", n % distinct);
            let ask = login(n, 1, &subject, vec![patient(by_subject())]);
            let signs = fail(&mut store, &looking_for((failures, subjects), ask), 0);
            if !signs.is_empty() {
                first = Some(n);
                break;
            }
        }
        assert_eq!(
            first, expected,
            "{failures} failures, {subjects} subjects, {distinct}"
        );
    }
}

#[test]
fn only_failures_within_the_window_from_the_first_are_stuffing() {
    let mut store = open(Heap::default());
    let ask = |id: u64| {
        let ask = login(id, 1, &format!("user-{id}"), vec![patient(by_subject())]);
        looking_for((4, 4), ask)
    };
    for (id, at) in [(1, 0), (2, 1), (3, 10 * MINUTE - 1)] {
        assert_eq!(fail(&mut store, &ask(id), at), []);
    }
    // Successes and what is given back are none.
    succeed(&mut store, &ask(4), 10 * MINUTE - 1);
    allowed(decide(&mut store, &ask(5), 10 * MINUTE - 1));
    tell(&store, &ask(5), outcome(0, 0, false), 10 * MINUTE - 1);
    for (id, at) in [(6, 10 * MINUTE), (7, 11 * MINUTE), (8, 12 * MINUTE)] {
        assert_eq!(fail(&mut store, &ask(id), at), []);
    }
    assert_eq!(fail(&mut store, &ask(9), 20 * MINUTE - 1).len(), 1);
}

#[test]
fn a_tenants_request_is_looked_at_for_its_address_too() {
    let mut store = open(Heap::default());
    let ask = |id: u64| {
        let subject = format!("user-{id}");
        let ask = attempting(
            key("t", &subject),
            id,
            1,
            &[&subject],
            vec![patient(by_subject())],
        );
        let free = Ask { cost: 0, ..ask };
        looking_for((3, 3), free)
    };
    for id in 0..2 {
        assert_eq!(fail(&mut store, &ask(id), 0), []);
    }
    assert!(matches!(
        fail(&mut store, &ask(2), 0)[..],
        [Sign::Stuffing(_)]
    ));
    boxed(decide(&mut store, &anonymous(1), 0));
}

#[test]
fn fifty_subjects_among_five_hundred_failures_are_seen() {
    let mut store = open(Heap::default());
    let mut banned = None;
    for n in 0..700_u64 {
        let subject = format!("user-{}", n % 70);
        let ask = login(n, 1, &subject, vec![patient(throttle("p", Who::Pair(0)))]);
        let ask = looking_for((500, 50), ask);
        let (verdict, _) = store.decide(&ask, after(n));
        let Verdict::Allowed(..) = verdict else {
            boxed(verdict);
            break;
        };
        let signs = tell(&store, &ask, outcome(n, 1, false), n);
        banned = signs.first().map(|_| n).or(banned);
    }
    assert_eq!(banned, Some(499));
}

#[test]
fn what_is_told_of_a_subject_comes_in_the_order_of_its_throttles() {
    let mut store = open(Heap::default());
    let one = |name: &str| Attempt {
        failures: 10,
        provisional: false,
        ..throttle(name, Who::Subject(0))
    };
    for n in 0..9 {
        let ask = login(n, n as u8, "alice", vec![one("a"), one("b")]);
        assert_eq!(fail(&mut store, &ask, 0), []);
    }
    let ask = login(9, 9, "alice", vec![one("a"), one("b")]);
    let signs = fail(&mut store, &ask, 0);
    let lockout = |level, length| Lockout {
        level,
        until: after(length),
    };
    // Both windows are full at once, and are two offenses.
    let expected = [
        Sign::Locked(0, lockout(1, 5 * MINUTE)),
        Sign::Spread(0),
        Sign::Locked(1, lockout(2, HOUR)),
    ];
    assert_eq!(signs, expected);
}

#[test]
fn a_failure_that_was_counted_when_its_time_ran_out_is_no_second_one_for_stuffing() {
    let mut store = open(Heap::default());
    let ask = |id: u64| {
        let by_ip = Attempt {
            failures: 1,
            ..throttle("ip", Who::Ip)
        };
        looking_for((2, 1), login(id, 1, "alice", vec![by_ip]))
    };
    allowed(decide(&mut store, &ask(1), 0));
    assert!(locked(decide(&mut store, &ask(2), MINUTE)).tripped);
    let failed = |at| outcome(at, 1, false);
    // It is told late, and then others fail that were let through before the lockout.
    for (id, expected) in [(1, 0), (3, 0), (4, 1)] {
        let signs = tell(&store, &ask(id), failed(0), MINUTE + 1);
        assert_eq!(signs.len(), expected, "{id}");
    }
}
