//! What is noticed: one subject that fails from many addresses, and credential stuffing.

use super::*;

fn unlimited(who: Who) -> Attempt {
    Attempt {
        failures: 1000,
        ..throttle("t", who)
    }
}

fn stuffing(failures: u32, subjects: u32) -> Option<(Stuffing, Millis)> {
    let within = Millis(10 * MINUTE);
    let stuffing = Stuffing {
        failures,
        subjects,
        within,
    };
    Some((stuffing, Millis(DAY)))
}

#[test]
fn a_subject_that_fails_from_ten_addresses_in_a_window_is_noticed_once() {
    let mut remote = remote();
    let tries = Tries::under([unlimited(Who::Subject(0))]);
    let mut id = 0;
    let mut fails = |from: u8, at: u64| {
        id += 1;
        remote.fails(&tries.from(address(from)), id, at)
    };
    for from in 0..9 {
        for again in 0..3 {
            assert_eq!(fails(from, T + again), []);
        }
    }
    assert_eq!(fails(9, T + 10), [Sign::Spread(0)]);
    let ends = T + 15 * MINUTE;
    for from in 0..100 {
        assert_eq!(fails(from, ends - 1), []);
    }
    // A window later it starts over.
    for from in 0..9 {
        assert_eq!(fails(from, ends), []);
    }
    assert_eq!(fails(10, ends + 1), [Sign::Spread(0)]);
    let there = remote.zset(&of_alice("pb", "from"));
    assert_eq!(there.len(), 10, "{there:?}");
    remote.all_expire();
}

#[test]
fn addresses_that_failed_before_the_window_are_not_many() {
    let mut remote = remote();
    let tries = Tries::under([unlimited(Who::Subject(0))]);
    for from in 0..40_u8 {
        let id = u64::from(from);
        // Nine within any window.
        let at = T + id * 100 * SECOND + 1;
        assert_eq!(remote.fails(&tries.from(address(from)), id, at), []);
    }
    let there = remote.zset(&of_alice("pb", "from"));
    assert!(there.len() <= 9, "{there:?}");
    // From one address it is a pair that fails.
    let pairs = Tries::under([unlimited(Who::Pair(0))]).for_subject("bob");
    for from in 0..20 {
        let tries = pairs.from(address(from));
        assert_eq!(remote.fails(&tries, u64::from(from), T), []);
    }
    // By two throttles of a subject it failed once.
    let both = Tries::under([
        unlimited(Who::Subject(0)),
        Attempt {
            within: Millis(HOUR),
            ..throttle("other", Who::Subject(0))
        },
    ]);
    let both = both.for_subject("carol");
    for from in 0..10 {
        let tries = both.from(address(from));
        let signs = remote.tell(&tries, u64::from(from), End::Failed, T, T);
        assert_eq!(signs.contains(&Sign::Spread(0)), from == 9, "{signs:?}");
        assert!(!signs.contains(&Sign::Spread(1)), "{signs:?}");
    }
}

#[test]
fn those_in_one_call_are_counted_together() {
    let mut remote = remote();
    let tries = Tries::under([unlimited(Who::Subject(0))]);
    let outcome = End::Failed.of(T);
    let items: Vec<Item> = (0..12_u8)
        .flat_map(|from| {
            let ask = tries.from(address(from)).ask(u64::from(from));
            telling(&Rc::new(ask), outcome)
        })
        .collect();
    let decisions = remote.call(&items, T);
    let noticed: Vec<Sign> = decisions.into_iter().flat_map(signs).collect();
    assert_eq!(noticed, [Sign::Spread(0)]);
}

#[test]
fn an_address_that_fails_for_many_subjects_is_banned() {
    let mut remote = remote();
    let mut tries = Tries::under([unlimited(Who::Subject(0))]);
    tries.attempts.stuffing = stuffing(30, 5);
    // Many failures, of few subjects; then enough of both.
    let mut id = 0;
    for subject in ["a", "b", "c", "d"] {
        for _ in 0..10 {
            id += 1;
            assert_eq!(remote.fails(&tries.for_subject(subject), id, T), []);
        }
    }
    let at = T + 10 * MINUTE - 1;
    let banned = Sign::Stuffing(lockout(3, at + DAY));
    assert_eq!(remote.fails(&tries.for_subject("e"), 100, at), [banned]);
    // It stops credential requests, whatever throttles are for them.
    let boxed = remote.tries(&tries.for_subject("f"), 101, at);
    match boxed {
        Verdict::Boxed(boxed) => assert_eq!(boxed.lockout, lockout(3, at + DAY)),
        other => panic!("{other:?}"),
    }
    let by_ip = Tries::under([by_address()]);
    assert_eq!(remote.locked(&by_ip, 102, at), (3, DAY));
    remote.passes(&by_ip.from(address(8)), 103, at);
    assert_eq!(
        remote.server.say::<String>("GET p:pb:{ip:192.0.2.7}:off"),
        "3"
    );
    // The window is cleared, and another begins.
    let gone: i64 = remote
        .server
        .say("EXISTS p:pb:{ip:192.0.2.7}:stuffing p:pb:{ip:192.0.2.7}:subjects");
    assert_eq!(gone, 0);
    let after = at + DAY;
    for subject in 0..29 {
        let tries = tries.for_subject(&format!("s{subject}"));
        assert_eq!(remote.fails(&tries, 200 + subject, after), []);
    }
    remote.all_expire();
    let banned = Sign::Stuffing(lockout(3, after + DAY));
    assert_eq!(remote.fails(&tries.for_subject("z"), 300, after), [banned]);
    // As a trip of the address's own it escalates from there.
    assert_eq!(remote.locks_out(&by_ip, 1, after + DAY), (3, DAY));
}

#[test]
fn the_window_of_stuffing_is_fixed_from_the_first_failure() {
    let mut remote = remote();
    let mut tries = Tries::under([unlimited(Who::Subject(0))]);
    tries.attempts.stuffing = stuffing(4, 2);
    for id in 0..3 {
        let tries = tries.for_subject(&format!("s{id}"));
        assert_eq!(remote.fails(&tries, id, T + id * 5 * MINUTE), []);
    }
    // The third began another.
    let at = T + 11 * MINUTE;
    assert_eq!(remote.fails(&tries.for_subject("s3"), 4, at), []);
    assert_eq!(remote.fails(&tries.for_subject("s3"), 5, at), []);
    assert_eq!(remote.fails(&tries.for_subject("s4"), 6, at).len(), 1);
    // After a clock was set back it begins again.
    let mut remote = super::remote();
    for id in 0..3 {
        remote.fails(&tries.for_subject(&format!("s{id}")), id, T);
    }
    assert_eq!(remote.fails(&tries.for_subject("s9"), 9, T - HOUR), []);
    remote.all_expire();
}

#[test]
fn failures_without_a_subject_are_not_stuffing() {
    let mut remote = remote();
    let mut tries = Tries::under([unlimited(Who::Ip)]);
    tries.attempts.subjects.clear();
    tries.attempts.stuffing = stuffing(2, 1);
    for id in 0..10 {
        assert_eq!(remote.fails(&tries, id, T), []);
    }
    let mut named = Tries::under([unlimited(Who::Subject(0))]);
    named.attempts.stuffing = stuffing(2, 1);
    assert_eq!(remote.fails(&named, 11, T).len(), 1);
    remote.all_expire();
}

#[test]
fn a_failure_that_is_told_twice_is_one_where_the_address_has_a_window() {
    let mut remote = remote();
    let mut tries = Tries::under([unlimited(Who::Ip), unlimited(Who::Subject(0))]);
    tries.attempts.stuffing = stuffing(3, 2);
    for subject in ["a", "b"] {
        let tries = tries.for_subject(subject);
        let id = u64::from(subject.as_bytes()[0]);
        remote.passes(&tries, id, T);
        for again in 0..10 {
            assert_eq!(remote.tell(&tries, id, End::Failed, T, T + again), []);
        }
    }
    assert_eq!(remote.fails(&tries.for_subject("c"), 1, T + 20).len(), 1);
}

#[test]
fn a_ban_and_a_lockout_of_an_address_at_once_are_a_ban() {
    let mut remote = remote();
    let mut tries = Tries::under([by_address()]);
    tries.attempts.stuffing = stuffing(3, 3);
    remote.fails(&tries.for_subject("a"), 1, T);
    remote.fails(&tries.for_subject("b"), 2, T);
    let expected = [
        Sign::Locked(0, lockout(1, T + 5 * MINUTE)),
        Sign::Stuffing(lockout(3, T + DAY)),
    ];
    assert_eq!(remote.fails(&tries.for_subject("c"), 3, T), expected);
    assert_eq!(remote.locked(&tries, 4, T), (3, DAY));
}

#[test]
fn stuffing_in_one_call_counts_what_is_before_in_it() {
    let mut remote = remote();
    let mut tries = Tries::under([unlimited(Who::Subject(0))]);
    tries.attempts.stuffing = stuffing(10, 10);
    let outcome = End::Failed.of(T);
    let items: Vec<Item> = (0..25)
        .flat_map(|id| {
            let ask = tries.for_subject(&format!("s{id}")).ask(id);
            telling(&Rc::new(ask), outcome)
        })
        .collect();
    assert!(items.len() <= 64);
    let decisions = remote.call(&items, T);
    let banned: Vec<Sign> = decisions.into_iter().flat_map(signs).collect();
    assert_eq!(banned, [Sign::Stuffing(lockout(3, T + DAY)); 2]);
    let n: u32 = remote.server.say("HGET p:pb:{ip:192.0.2.7}:stuffing n");
    assert_eq!(n, 5);
    remote.all_expire();
}
