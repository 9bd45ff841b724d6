//! Attempts among all else that a request meets: whose box refuses whom, what is paid, and what is asked leg by
//! leg.

use super::*;
use tollgate_filter::verdict::{Boxed, Policy, Scope, Standings, Throttled};

/// A tenant's request that is an attempt as well.
fn tenants(tries: &Tries, id: u64) -> Ask {
    let mut ask = (*key("k", 10)).clone();
    if let Subject::Key { key_meter, ip, .. } = &mut ask.subject {
        *key_meter = meter(1000, 60, 1000);
        *ip = Some((tries.attempts.address.clone(), meter(600, 60, 600)));
    }
    ask.wanted = Some(tries.wanted(id));
    ask
}

/// The same of an address without a tenant.
fn anonymous(tries: &Tries, id: u64) -> Ask {
    Ask {
        subject: Subject::Anonymous {
            address: tries.attempts.address.clone(),
            meter: meter(10, 60, 10),
            ip_meter: Some(meter(600, 60, 600)),
        },
        ..tries.ask(id)
    }
}

/// The same where credentials are presented, and `ip_limit` is met.
fn credential(tries: &Tries, id: u64) -> Ask {
    Ask {
        subject: Subject::Credential {
            address: tries.attempts.address.clone(),
            ip_meter: Some(meter(3, 60, 3)),
        },
        ..tries.ask(id)
    }
}

impl Remote {
    fn whole(&mut self, ask: &Ask, now: u64) -> Verdict {
        let ask = Rc::new(ask.clone());
        let step = Step::Whole;
        verdict(self.one(Item { ask, step }, now))
    }

    /// Leg by leg, as a cluster needs it; refusals undo what was let through before.
    fn in_parts(&mut self, ask: &Ask, now: u64) -> Verdict {
        let ask = Rc::new(ask.clone());
        let item = |step| Item {
            ask: Rc::clone(&ask),
            step,
        };
        let mut standings = None;
        for leg in ask.legs() {
            let found = match self.one(item(Step::Part(leg)), now) {
                Decision::Passed(_) => continue,
                Decision::Verdict(Verdict::Allowed(found, _)) => found,
                Decision::Verdict(refused) => {
                    for before in ask.legs().take_while(|before| *before != leg) {
                        let undo = item(Step::Keep(before, Keep::NOTHING));
                        assert_eq!(signs(self.one(undo, now)), []);
                    }
                    return refused;
                }
                other => panic!("{other:?}"),
            };
            standings = Some(found);
        }
        Verdict::Allowed(standings.unwrap(), None)
    }
}

fn remaining(verdict: &Verdict) -> Vec<(Policy, u64)> {
    let standings = verdict.standings().copied().unwrap_or_default();
    standings.iter().map(|s| (s.policy, s.remaining)).collect()
}

#[test]
fn a_refusal_by_attempts_pays_nothing_and_one_by_buckets_is_no_attempt() {
    let mut remote = remote();
    let tries = Tries::under([by_subject(), by_address()]);
    let full = [(Policy::Key, 990), (Policy::Tenant, 990), (Policy::Ip, 599)];
    assert_eq!(remaining(&remote.whole(&tenants(&tries, 1), T)), full);
    for id in 2..4 {
        remote.whole(&tenants(&tries, id), T);
    }
    for id in 4..9 {
        let verdict = remote.whole(&tenants(&tries, id), T);
        assert_eq!(verdict, Verdict::AuthBusy);
    }
    remote.tell_of(&Rc::new(tenants(&tries, 1)), End::GivenBack.of(T), T);
    let fourth = remote.whole(&tenants(&tries, 9), T);
    let after = [(Policy::Key, 960), (Policy::Tenant, 960), (Policy::Ip, 596)];
    assert_eq!(remaining(&fourth), after);
    // Too dear: no attempt. Nor where something else is taken.
    let mut remote = super::remote();
    let mut dear = tenants(&tries, 1);
    if let Subject::Key { tenant_meter, .. } = &mut dear.subject {
        *tenant_meter = meter(5, 60, 5);
    }
    let mut held = tenants(&tries, 2);
    held.wanted.as_mut().unwrap().lock = Some(Id::of(b"ledger-7"));
    let allowed = remote.whole(&held, T);
    assert!(
        matches!(allowed, Verdict::Allowed(_, Some(_))),
        "{allowed:?}"
    );
    for id in 10..20 {
        dear.wanted = Some(tries.wanted(id));
        let verdict = remote.whole(&dear, T);
        assert!(matches!(verdict, Verdict::Throttled(_)), "{verdict:?}");
        held.wanted.as_mut().unwrap().id = HoldId(id);
        let verdict = remote.whole(&held, T);
        assert!(matches!(verdict, Verdict::Taken(_)), "{verdict:?}");
    }
    // Of three two are free yet.
    for id in 20..22 {
        let verdict = remote.whole(&tenants(&tries, id), T);
        assert!(matches!(verdict, Verdict::Allowed(..)), "{verdict:?}");
    }
    assert_eq!(remote.whole(&tenants(&tries, 22), T), Verdict::AuthBusy);
    remote.all_expire();
}

#[test]
fn a_credential_request_meets_the_address_limit_alone() {
    let mut remote = remote();
    let tries = Tries::under([Attempt {
        failures: 100,
        ..by_subject()
    }]);
    for id in 0..3 {
        let verdict = remote.whole(&credential(&tries, id), T);
        assert_eq!(remaining(&verdict), [(Policy::Ip, 2 - id)]);
    }
    for _ in 0..50 {
        let verdict = remote.whole(&credential(&tries, 9), T);
        let Verdict::Throttled(Throttled {
            wait,
            strikes_left,
            would_box,
            ..
        }) = &verdict
        else {
            panic!("{verdict:?}");
        };
        assert_eq!(
            (wait.0, *strikes_left, *would_box),
            (20 * SECOND, None, None)
        );
        assert_eq!(remaining(&verdict), [(Policy::Ip, 0)]);
    }
    let keys = remote.keys();
    assert_eq!(
        keys,
        [
            of_alice("au", "subject"),
            "p:rl:{ip:192.0.2.7}:tb".to_owned()
        ]
    );
    // Undone, it has its point back.
    let ask = Rc::new(credential(&tries, 2));
    let step = Step::Undo;
    remote.one(Item { ask, step }, T);
    let verdict = remote.whole(&credential(&tries, 10), T);
    assert_eq!(remaining(&verdict), [(Policy::Ip, 0)]);
    // Without a limit it meets none.
    let verdict = remote.tries(&tries, 11, T);
    assert_eq!(verdict, Verdict::Allowed(Standings::default(), None));
    // What is taken costs it that point.
    let mut locks = credential(&tries, 12);
    locks.wanted.as_mut().unwrap().lock = Some(Id::of(b"x"));
    let at = T + MINUTE;
    assert_eq!(remaining(&remote.whole(&locks, at)), [(Policy::Ip, 2)]);
    locks.wanted.as_mut().unwrap().id = HoldId(13);
    match remote.whole(&locks, at) {
        Verdict::Taken(taken) => {
            assert_eq!(taken.strikes_left, None);
            let left: Vec<_> = taken.standings.iter().map(|s| s.remaining).collect();
            assert_eq!(left, [1]);
        }
        other => panic!("{other:?}"),
    }
    remote.all_expire();
}

#[test]
fn strikes_of_an_address_stop_no_tenant_and_a_throttle_stops_all() {
    let tries = Tries::under([by_address()]);
    let others = Tries::under([Attempt {
        failures: 100,
        ..by_subject()
    }]);
    let boxed = |verdict: Verdict, level, until| {
        let expected = Boxed {
            scope: Scope::Ip,
            lockout: lockout(level, until),
            tripped: false,
        };
        assert_eq!(verdict, Verdict::Boxed(expected));
    };
    // By strikes.
    let mut remote = remote();
    let struck = (0..500).find_map(|id| match remote.whole(&anonymous(&tries, id), T) {
        Verdict::Boxed(boxed) => Some(boxed.lockout),
        Verdict::Allowed(..) => {
            let ask = Rc::new(anonymous(&tries, id));
            remote.tell_of(&ask, End::GivenBack.of(T), T);
            None
        }
        _ => None,
    });
    let until = T + 5 * MINUTE;
    assert_eq!(struck, Some(lockout(1, until)));
    for tries in [&tries, &others] {
        boxed(remote.whole(&anonymous(tries, 1000), T), 1, until);
        boxed(remote.whole(&credential(tries, 1001), T), 1, until);
        let verdict = remote.whole(&tenants(tries, 1002), T);
        assert!(matches!(verdict, Verdict::Allowed(..)), "{verdict:?}");
    }
    // A tenant's requests trip the throttle: an offense more, in place of that box.
    let ask = Rc::new(tenants(&tries, 1002));
    remote.tell_of(&ask, End::GivenBack.of(T), T);
    let mut told = Vec::new();
    for id in 2000..2003 {
        let ask = tenants(&tries, id);
        remote.whole(&ask, T);
        told = remote.tell_of(&Rc::new(ask), End::Failed.of(T), T);
    }
    let until = T + HOUR;
    assert_eq!(told, [Sign::Locked(0, lockout(2, until))]);
    let locked = Verdict::AuthLockout(AuthLockout {
        attempt: 0,
        lockout: lockout(2, until),
        tripped: false,
    });
    for ask in [
        anonymous(&tries, 3000),
        credential(&tries, 3001),
        tenants(&tries, 3002),
    ] {
        assert_eq!(remote.whole(&ask, T), locked);
    }
    // Where no throttle by address is for it, it is a box as any other.
    boxed(remote.whole(&anonymous(&others, 3003), T), 2, until);
    boxed(remote.whole(&credential(&others, 3004), T), 2, until);
    let verdict = remote.whole(&tenants(&others, 3005), T);
    assert!(matches!(verdict, Verdict::Allowed(..)), "{verdict:?}");
    // With the box off only the throttle looks at it.
    for strictness in [Strictness::Off, Strictness::Watched] {
        let mut ask = anonymous(&tries, 3006);
        ask.penalty.strictness = strictness;
        assert_eq!(remote.whole(&ask, T), locked, "{strictness:?}");
        let mut ask = others.ask(3007);
        ask.penalty.strictness = strictness;
        let verdict = remote.whole(&ask, T);
        assert!(matches!(verdict, Verdict::Allowed(..)), "{verdict:?}");
    }
    // After it strikes count from the start, and stop tenants as little as before.
    let verdict = remote.whole(&tenants(&tries, 3008), until);
    assert!(matches!(verdict, Verdict::Allowed(..)), "{verdict:?}");
    remote.all_expire();
}

#[test]
fn a_tenants_own_box_comes_before_the_lockout_of_its_address() {
    let tries = Tries::under([by_address()]);
    let mut remote = remote();
    for id in 0..3 {
        let ask = Rc::new(credential(&tries, id));
        remote.whole(&ask, T);
        remote.tell_of(&ask, End::Failed.of(T), T);
    }
    let locked = remote.whole(&tenants(&tries, 3), T);
    assert!(matches!(locked, Verdict::AuthLockout(_)), "{locked:?}");
    let is_boxed = |verdict: &Verdict| {
        let key = |boxed: &Boxed| boxed.scope == Scope::Key;
        matches!(verdict, Verdict::Boxed(boxed) if key(boxed))
    };
    assert!((0..200).any(|_| is_boxed(&remote.whole(&key("k", 10), T))));
    let boxed = remote.whole(&tenants(&tries, 4), T);
    assert!(is_boxed(&boxed), "{boxed:?}");
}

#[test]
fn a_box_that_strikes_set_after_a_throttles_is_none_of_the_throttles() {
    let mut remote = remote();
    let tries = Tries::under([by_address()]);
    remote.locks_out(&tries, 1, T);
    // An operator lets it out.
    remote.server.say::<i64>("DEL p:pb:{ip:192.0.2.7}:box");
    let mut plain = anonymous(&tries, 1);
    plain.wanted = None;
    let boxed = (0..500).any(|_| matches!(remote.whole(&plain, T), Verdict::Boxed(_)));
    assert!(boxed);
    let verdict = remote.whole(&tenants(&tries, 2), T);
    assert!(matches!(verdict, Verdict::Allowed(..)), "{verdict:?}");
}

#[test]
fn shadow_is_apart() {
    let mut remote = remote();
    let live = Tries::under([
        Attempt {
            spares: true,
            ..by_subject()
        },
        by_address(),
    ]);
    let mut shadow = live.clone();
    shadow.shadow = true;
    shadow.attempts.stuffing = Some((
        Stuffing {
            failures: 2,
            subjects: 1,
            within: Millis(MINUTE),
        },
        Millis(DAY),
    ));
    for id in 0..3 {
        remote.fails(&shadow, id, T);
        let locked = matches!(remote.tries(&shadow, 10 + id, T), Verdict::AuthLockout(_));
        assert_eq!(locked, id > 0, "{id}");
        if locked {
            break;
        }
    }
    let keys = remote.keys();
    assert!(keys.iter().all(|key| key.starts_with("p:sh:")), "{keys:?}");
    for id in 20..23 {
        remote.passes(&live, id, T);
    }
    remote.all_expire();
}

#[test]
fn asked_leg_by_leg_the_verdict_is_the_same() {
    type Asks = fn(&Tries, u64) -> Ask;
    let asks: [Asks; 3] = [tenants, anonymous, credential];
    let list = [by_subject(), by_address(), by_pair()];
    for ask in asks {
        let tries = Tries::under(list.clone());
        let (mut at_once, mut in_parts) = (remote(), remote());
        let mut compare = |id: u64, at: u64| {
            let expected = at_once.whole(&ask(&tries, id), at);
            let found = in_parts.in_parts(&ask(&tries, id), at);
            match (&expected, &found) {
                (Verdict::Allowed(..), Verdict::Allowed(..)) => true,
                _ => {
                    assert_eq!(expected, found);
                    false
                }
            }
        };
        let passed: Vec<bool> = (0..5).map(|id| compare(id, T)).collect();
        assert_eq!(passed, [true, true, true, false, false]);
        let outcome = End::Failed.of(T);
        let tell = |remote: &mut Remote, id| {
            let mut told = remote.tell_of(&Rc::new(ask(&tries, id)), outcome, T);
            told.sort_by_key(|sign| format!("{sign:?}"));
            told
        };
        for id in 0..3 {
            let expected = tell(&mut at_once, id);
            assert_eq!(expected, tell(&mut in_parts, id));
            assert_eq!(expected.len(), if id == 2 { 3 } else { 0 });
        }
        let locked = match at_once.whole(&ask(&tries, 9), T) {
            Verdict::AuthLockout(locked) => locked,
            other => panic!("{other:?}"),
        };
        // Which of those that end together it is depends on who is asked first.
        match in_parts.in_parts(&ask(&tries, 9), T) {
            Verdict::AuthLockout(other) => {
                assert_eq!(other.lockout, locked.lockout);
                assert_eq!(other.tripped, locked.tripped);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_leg_that_refuses_says_which_of_the_requests_attempts_it_was() {
    let tries = Tries::under([by_subject(), by_pair(), by_address()]);
    let pair = Tries::under([by_pair()]);
    let mut remote = remote();
    remote.locks_out(&pair, 1, T);
    let item = |step| Item {
        ask: Rc::new(tenants(&tries, 9)),
        step,
    };
    assert!(matches!(
        remote.one(item(Step::Part(Leg::Address)), T),
        Decision::Passed(Some(_))
    ));
    match remote.one(item(Step::Part(Leg::Subject(0))), T) {
        Decision::Verdict(Verdict::AuthLockout(locked)) => assert_eq!(locked.attempt, 1),
        other => panic!("{other:?}"),
    }
    // Without `ip_limit` the address says nothing of it.
    let mut ask = tenants(&tries, 9);
    if let Subject::Key { ip, .. } = &mut ask.subject {
        *ip = None;
    }
    let ask = Rc::new(ask);
    let step = Step::Part(Leg::Address);
    assert_eq!(remote.one(Item { ask, step }, T), Decision::Passed(None));
}

#[test]
fn two_subjects_are_two_legs() {
    let mut remote = remote();
    let mut tries = Tries::under([by_subject(), throttle("client", Who::Subject(1))]);
    tries.attempts.subjects.push(hashed("an-app"));
    let legs: Vec<Leg> = tries.ask(1).legs().collect();
    assert_eq!(legs, [Leg::Owner, Leg::Subject(0), Leg::Subject(1)]);
    // By the second one alone it failed.
    for id in 0..3 {
        remote.passes(&tries, id, T);
        let outcome = Outcome {
            started: Millis(T),
            failed: 0b10,
            succeeded: false,
        };
        let told = remote.tell_of(&Rc::new(tries.ask(id)), outcome, T);
        let locked = Sign::Locked(1, lockout(1, T + 5 * MINUTE));
        assert_eq!(told, Vec::from_iter((id == 2).then_some(locked)));
    }
    match remote.tries(&tries, 9, T) {
        Verdict::AuthLockout(locked) => assert_eq!(locked.attempt, 1),
        other => panic!("{other:?}"),
    }
    remote.passes(&Tries::under([by_subject()]), 10, T);
}
