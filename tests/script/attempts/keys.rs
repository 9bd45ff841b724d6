//! The keys of attempts: their names, their contents and how long they live; clocks, operators and a Redis that
//! is full.

use super::*;
use crate::time;

/// Throttles of every kind, and stuffing.
fn everything() -> Tries {
    let spared = Attempt {
        spares: true,
        failures: 2,
        ..by_subject()
    };
    let pair = Attempt {
        failures: 2,
        ..by_pair()
    };
    let mut tries = Tries::under([spared, pair, by_address()]);
    tries.attempts.stuffing = Some((
        Stuffing {
            failures: 3,
            subjects: 1,
            within: Millis(10 * MINUTE),
        },
        Millis(DAY),
    ));
    tries
}

/// What writes every key there is.
fn story(remote: &mut Remote, now: u64) {
    let home = everything();
    let stranger = home.from(address(8));
    remote.passes(&home, 1, now);
    remote.tell(&home, 1, End::Succeeded, now, now);
    remote.fails(&home, 2, now);
    assert_eq!(remote.fails(&home, 3, now).len(), 2);
    remote.fails(&stranger, 4, now);
    remote.passes(&stranger, 5, now);
    assert_eq!(remote.tell(&stranger, 5, End::Failed, now, now).len(), 2);
    // An address that is locked out and banned at once.
    let mut third = Tries::under([Attempt {
        failures: 1,
        ..by_address()
    }]);
    third.attempts.stuffing = Some((
        Stuffing {
            failures: 1,
            subjects: 1,
            within: Millis(10 * MINUTE),
        },
        Millis(DAY),
    ));
    let third = third.from(address(9));
    remote.passes(&third, 6, now);
    assert_eq!(remote.tell(&third, 6, End::Failed, now, now).len(), 2);
}

#[test]
fn they_are_those_of_the_contract_and_all_expire() {
    for clock in [Clock::Given, Clock::Store] {
        let mut remote = Remote::new(clock);
        let now = time(&mut remote.server);
        story(&mut remote, now);
        let keys = remote.keys();
        let alice = hashed("alice").as_str().to_owned();
        let mut expected = Vec::new();
        for end in ["", ":192.0.2.7", ":192.0.2.8"] {
            expected.push(format!("p:au:{{s:{alice}}}:subject{end}"));
            for held in ["at", "box", "off"] {
                expected.push(format!("p:pb:{{s:{alice}}}:{held}{end}"));
            }
        }
        // No stranger is spared.
        expected.retain(|key| !key.contains("subject:192.0.2.8"));
        for last in [7, 8] {
            expected.push(format!("p:au:{{s:{alice}}}:pair:192.0.2.{last}"));
            expected.push(format!("p:au:{{ip:192.0.2.{last}}}:address"));
            expected.push(format!("p:pb:{{ip:192.0.2.{last}}}:stuffing"));
            expected.push(format!("p:pb:{{ip:192.0.2.{last}}}:subjects"));
        }
        expected.push(format!("p:pb:{{s:{alice}}}:known"));
        expected.push(format!("p:pb:{{s:{alice}}}:from"));
        let third = ["au:{ip:192.0.2.9}:address", "rl:{ip:192.0.2.9}:an"];
        expected.extend(third.map(|key| format!("p:{key}")));
        expected.extend(["box", "off"].map(|held| format!("p:pb:{{ip:192.0.2.9}}:{held}")));
        expected.sort();
        assert_eq!(keys, expected);
        remote.all_expire();
        assert!(keys.iter().all(|key| !key.contains("alice")), "{keys:?}");
        // Nor in what they hold.
        for key in keys {
            let dump = ["DUMP".to_owned(), key];
            let dump: Vec<u8> =
                redis::from_redis_value(remote.server.send(&dump).unwrap()).unwrap();
            assert!(!dump.windows(5).any(|part| part == b"alice"));
        }
    }
}

#[test]
fn they_live_for_as_long_as_they_matter() {
    let mut remote = Remote::new(Clock::Store);
    let now = time(&mut remote.server);
    story(&mut remote, now);
    let mut lives = |key: &str, expected: u64| {
        let ttl = u64::try_from(remote.ttl(key)).unwrap();
        let about = expected.saturating_sub(10 * SECOND)..=expected + SECOND;
        assert!(about.contains(&ttl), "{key}: {ttl} of {expected}");
    };
    // Failures while they are in the window, and a minute; marks for a minute and another.
    lives("p:au:{ip:192.0.2.7}:address", 16 * MINUTE);
    lives(&of_alice("au", "pair:192.0.2.7"), 2 * MINUTE);
    lives(&of_alice("pb", "box"), 5 * MINUTE);
    lives(&of_alice("pb", "off"), MEMORY);
    lives(&of_alice("pb", "at"), MEMORY + MINUTE);
    lives(&of_alice("pb", "known"), 30 * DAY + MINUTE);
    lives(&of_alice("pb", "from"), 16 * MINUTE);
    lives("p:pb:{ip:192.0.2.7}:stuffing", 11 * MINUTE);
    lives("p:pb:{ip:192.0.2.7}:subjects", 11 * MINUTE);
    // One in flight may yet fail by itself.
    remote.passes(&everything().for_subject("bob").from(address(10)), 99, now);
    let key = format!("p:au:{{s:{}}}:subject", hashed("bob").as_str());
    let ttl = u64::try_from(remote.ttl(&key)).unwrap();
    assert!((16 * MINUTE..=17 * MINUTE).contains(&ttl), "{ttl}");
}

#[test]
fn what_they_hold_can_be_read_by_operators() {
    let mut remote = remote();
    let tries = Tries::under([by_address()]);
    let key = "p:au:{ip:192.0.2.7}:address";
    let scored = |id: u64, score: u64| (format!("{id:016x}"), i64::try_from(score).unwrap());
    remote.passes(&tries, 0xbeef, T);
    assert_eq!(remote.zset(key), [scored(0xbeef, T + MINUTE)]);
    remote.tell(&tries, 0xbeef, End::Failed, T, T + SECOND);
    assert_eq!(remote.zset(key), [scored(0xbeef, T)]);
    remote.locks_out(&tries, 1, T + 2 * SECOND);
    let marks: Vec<i64> = remote
        .zset(key)
        .into_iter()
        .map(|(_, score)| score)
        .collect();
    let mark = -i64::try_from(T + 2 * SECOND + MINUTE).unwrap();
    assert_eq!(marks, [mark; 3]);
    let fields: Vec<(String, u64)> = remote.server.say("HGETALL p:rl:{ip:192.0.2.7}:an");
    let ends = T + 2 * SECOND + 5 * MINUTE;
    let expected = [("b", ends), ("m", T + 2 * SECOND + MEMORY), ("l", ends)];
    for (name, value) in expected {
        assert!(fields.contains(&(name.to_owned(), value)), "{fields:?}");
    }
}

#[test]
fn an_operator_lets_out_and_locks_out() {
    let mut remote = Remote::new(Clock::Store);
    let tries = Tries::under([by_subject()]);
    let now = time(&mut remote.server);
    for id in 0..3 {
        remote.passes(&tries, id, now);
        remote.tell(&tries, id, End::Failed, now, now);
    }
    let locked = |remote: &mut Remote, id| match remote.tries(&tries, id, now) {
        Verdict::AuthLockout(locked) => Some(locked.lockout),
        Verdict::Allowed(..) => None,
        other => panic!("{other:?}"),
    };
    assert_eq!(locked(&mut remote, 10).map(|l| l.level), Some(1));
    let key = of_alice("pb", "box");
    assert_eq!(remote.server.say::<i64>(&format!("DEL {key}")), 1);
    assert_eq!(locked(&mut remote, 11), None);
    let set = format!("SET {key} 2 EX 100");
    remote.server.say::<String>(&set);
    let lockout = locked(&mut remote, 12).unwrap();
    assert_eq!(lockout.level, 2);
    let left = lockout.until.0 - time(&mut remote.server);
    assert!((95_000..=101_000).contains(&left), "{left}");
}

#[test]
fn where_redis_does_not_tell_the_time_windows_know_the_later_one() {
    let mut remote = Remote::new(Clock::Store);
    remote
        .server
        .say::<()>("ACL SETUSER default resetpass nopass ~* +@all -time");
    let tries = Tries::under([by_subject()]);
    let now = T;
    let ahead = T + 5 * MINUTE;
    for id in 0..2 {
        remote.passes(&tries, id, ahead);
    }
    // A gateway that is behind takes the last place; nobody has another one.
    remote.passes(&tries, 2, now);
    remote.is_busy(&tries, 3, now);
    remote.is_busy(&tries, 4, ahead);
    for id in 0..2 {
        remote.tell(&tries, id, End::Failed, ahead, now);
    }
    let signs = remote.tell(&tries, 2, End::Failed, ahead, now);
    assert_eq!(signs.len(), 1);
    for at in [now, ahead] {
        let verdict = remote.tries(&tries, 5, at);
        assert!(matches!(verdict, Verdict::AuthLockout(_)), "{verdict:?}");
    }
}

#[test]
fn keys_of_another_type_are_not_ours_and_make_room() {
    for other in ["LPUSH", "SADD", "SET"] {
        let mut remote = remote();
        story(&mut remote, T);
        let keys = remote.keys();
        remote.server.say::<String>("FLUSHALL");
        for key in &keys {
            // Any text is a box, or a count.
            let command = if other == "SET" && (key.contains(":box") || key.contains(":off")) {
                continue;
            } else {
                format!("{other} {key} x")
            };
            remote.server.say::<redis::Value>(&command);
        }
        story(&mut remote, T);
        assert_eq!(remote.keys(), keys, "{other}");
        remote.all_expire();
    }
}

#[test]
fn what_others_left_in_our_keys_is_nobodys() {
    for score in [
        "inf", "-inf", "1e300", "-1e300", "0", "-0", "-1", "0.5", "1e17",
    ] {
        let mut remote = remote();
        let windows = [
            of_alice("au", "subject"),
            of_alice("au", "subject:192.0.2.7"),
            of_alice("au", "pair:192.0.2.7"),
            "p:au:{ip:192.0.2.7}:address".to_owned(),
            of_alice("pb", "from"),
        ];
        for key in &windows {
            for who in ["somebody", "another", "third", "*"] {
                remote
                    .server
                    .say::<i64>(&format!("ZADD {key} {score} {who}"));
            }
        }
        for (key, fields) in [
            ("p:pb:{ip:192.0.2.7}:stuffing", "n nan e inf"),
            ("p:rl:{ip:192.0.2.9}:an", "b x l 1e300 m -1 w nan"),
        ] {
            remote.server.say::<i64>(&format!("HSET {key} {fields}"));
        }
        story(&mut remote, T);
        remote.all_expire();
    }
}

#[test]
fn a_full_redis_lets_nobody_try() {
    let mut remote = remote();
    let tries = everything();
    story(&mut remote, T);
    let at = T + HOUR;
    remote.passes(&tries, 20, at);
    remote.server.say::<String>("CONFIG SET maxmemory 1");
    let before = remote.keys();
    let is_full = |remote: &mut Remote, items: &[Item]| {
        let command = remote.script.call(items, super::super::WORD, Millis(at));
        let error = remote.server.send(&command).unwrap_err().to_string();
        assert!(error.contains("OOM"), "{error}");
    };
    is_full(&mut remote, &[tries.item(21, Step::Whole)]);
    // Whatever else is in the call, and in whichever order.
    let letters = |end: End| telling(&Rc::new(tries.ask(20)), end.of(at));
    for mut items in [letters(End::Failed), letters(End::GivenBack)] {
        items.push(tries.item(22, Step::Whole));
        is_full(&mut remote, &items);
        items.reverse();
        is_full(&mut remote, &items);
        assert_eq!(remote.keys(), before);
    }
    is_full(&mut remote, &letters(End::Failed));
    is_full(&mut remote, &[tries.item(30, Step::Revoke(Leg::Owner))]);
    let window = of_alice("au", "subject:192.0.2.7");
    let there = remote.zset(&window);
    assert!(there.contains(&(
        "0000000000000014".to_owned(),
        i64::try_from(at + MINUTE).unwrap()
    )));
    // Giving back takes no memory.
    remote.tell(&tries, 20, End::GivenBack, at, at);
    remote.server.say::<String>("CONFIG SET maxmemory 0");
    remote.all_expire();
}

#[test]
fn without_the_right_to_let_keys_expire_nothing_is_kept() {
    let mut remote = remote();
    remote
        .server
        .say::<()>("ACL SETUSER default resetpass nopass ~* +@all -pexpire");
    let tries = everything();
    let mut calls = vec![vec![tries.item(1, Step::Whole)]];
    calls.extend(
        telling(&Rc::new(tries.ask(1)), End::Failed.of(T))
            .into_iter()
            .map(|item| vec![item]),
    );
    for items in calls {
        let command = remote.script.call(&items, super::super::WORD, Millis(T));
        let error = remote.server.send(&command).unwrap_err().to_string();
        assert!(error.contains("can't run this command"), "{error}");
        assert!(remote.keys().is_empty(), "{:?}", remote.keys());
    }
}

#[test]
fn the_rights_that_operators_are_told_to_give_are_enough() {
    let manual = include_str!("../../../docs/redis.md");
    let line = manual.lines().find(|l| l.starts_with("user tollgate on "));
    let rights = line.unwrap().strip_prefix("user ").unwrap();
    let mut remote = remote();
    remote
        .server
        .say::<String>(&format!("ACL SETUSER {rights}"));
    remote
        .server
        .say::<String>("AUTH tollgate tollgate-password");
    remote.script.key_prefix = String::new();
    story(&mut remote, T);
    let tries = everything().for_subject("bob");
    for leg in tries.ask(50).legs() {
        remote.one(tries.item(50, Step::Revoke(leg)), T);
    }
}
