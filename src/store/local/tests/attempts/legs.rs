//! Tests of attempts among all else that a request meets: in which order, and all or nothing.

use super::*;
use crate::hold::LeaseWanted;
use crate::store::{Kept, Leg};
use crate::verdict::Obstacle;

fn with_ip_limit(burst: u64, mut ask: Ask) -> Ask {
    match &mut ask.subject {
        Subject::Key { ip, .. } => *ip = Some((address(1), meter(60, burst))),
        Subject::Anonymous { ip_meter, .. } | Subject::Credential { ip_meter, .. } => {
            *ip_meter = Some(meter(60, burst));
        }
    }
    ask
}

fn with_lock(resource: &str, mut ask: Ask) -> Ask {
    let id = ask.wanted.as_ref().map_or(HoldId(0), |wanted| wanted.id);
    let wanted = ask.wanted.get_or_insert_with(|| Wanted::nothing(id));
    wanted.lock = Some(Id::of(resource.as_bytes()));
    ask
}

/// The name of the page of a leg.
fn page_of<M: Memory>(store: &Local<M>, ask: &Ask, leg: Leg) -> String {
    let owner = store.section(ask, leg).owner;
    store.page_of(&owner).unwrap().clone()
}

/// An address whose page is not the subject's.
fn apart(subject: &str) -> u8 {
    let store = open(Heap::default());
    let page = |from, leg| page_of(&store, &login(1, from, subject, vec![by_subject()]), leg);
    let mut addresses = 1..200;
    let apart = |from: &u8| page(*from, Leg::Owner) != page(*from, Leg::Subject(0));
    addresses.find(apart).unwrap()
}

#[test]
fn credentials_meet_the_limit_of_their_address_alone() {
    let mut store = open(Heap::default());
    assert_eq!(left(&allowed(decide(&mut store, &credential(1), 0))), []);
    let limited = with_ip_limit(
        3,
        Ask {
            cost: 50,
            ..credential(1)
        },
    );
    for remaining in [2, 1, 0] {
        let standings = allowed(decide(&mut store, &limited, 0));
        assert_eq!(left(&standings), [(Policy::Ip, remaining)]);
    }
    for _ in 0..200 {
        let refused = throttled(decide(&mut store, &limited, 0));
        assert_eq!(left(&refused.standings), [(Policy::Ip, 0)]);
        assert_eq!((refused.wait, refused.strikes_left), (Millis(1000), None));
        assert_eq!(refused.would_box, None);
    }
    allowed(decide(&mut store, &limited, 1000));
    // It is the bucket that everybody meets from there.
    throttled(decide(&mut store, &with_ip_limit(3, anonymous(1)), 1000));
    let unlimited = with_ip_limit(3, credential(2));
    allowed(decide(&mut store, &unlimited, 1000));
}

#[test]
fn credentials_and_a_lock_take_all_or_a_point() {
    let mut store = open(Heap::default());
    let locked = |id| {
        with_lock(
            "r",
            with_ip_limit(5, login(id, 1, "alice", vec![by_subject()])),
        )
    };
    let verdict = decide(&mut store, &locked(1), 0);
    assert!(
        matches!(verdict, Verdict::Allowed(_, Some(_))),
        "{verdict:?}"
    );
    match decide(&mut store, &locked(2), 0) {
        Verdict::Taken(taken) => {
            assert_eq!((taken.by, taken.wait), (Obstacle::Lock, Millis(MINUTE)));
            assert_eq!(left(&taken.standings), [(Policy::Ip, 3)]);
            assert_eq!(taken.strikes_left, None);
        }
        other => panic!("{other:?}"),
    }
    // It holds no place: two more may.
    for id in [3, 4] {
        allowed(decide(
            &mut store,
            &login(id, 1, "alice", vec![by_subject()]),
            0,
        ));
    }
    let busy = login(5, 1, "alice", vec![by_subject()]);
    assert_eq!(decide(&mut store, &busy, 0), Verdict::AuthBusy);
}

#[test]
fn a_box_of_the_address_refuses_credentials_and_touches_nothing() {
    let heap = Heap::default();
    let mut store = open(heap.clone());
    let lockout = until_boxed(&mut store, &anonymous(1)).lockout;
    let before = bytes(&heap);
    let ask = with_ip_limit(5, login(1, 1, "alice", vec![by_subject(), by_ip()]));
    for ask in [&ask, &with_ip_limit(5, credential(1))] {
        let expected = Boxed {
            scope: Scope::Ip,
            lockout,
            tripped: false,
        };
        assert_eq!(boxed(decide(&mut store, ask, 0)), expected);
        for strictness in [Strictness::Off, Strictness::Watched] {
            let ask = Ask {
                wanted: None,
                ..strictly(strictness, ask.clone())
            };
            let mut undisturbed = open(heap.clone());
            allowed(undisturbed.decide(&ask, NOW).0);
        }
    }
    // The last two took points, of `ip_limit` alone.
    assert_ne!(bytes(&heap), before);
    boxed(decide(&mut store, &anonymous(1), 0));
}

#[test]
fn a_box_for_strikes_is_in_the_way_of_no_tenants_attempts_and_a_lockout_is() {
    let tenants = |id| attempting(key("t", "a"), id, 1, &[], vec![by_ip()]);
    let mut store = open(Heap::default());
    until_boxed(&mut store, &anonymous(1));
    allowed(decide(&mut store, &tenants(1), 0));
    // A lockout takes its place, one level higher.
    for id in 2..4 {
        tell(&store, &tenants(id), outcome(0, 1, false), 0);
    }
    let signs = tell(&store, &tenants(4), outcome(0, 1, false), 0);
    let until = after(HOUR);
    assert_eq!(signs, [Sign::Locked(0, Lockout { level: 2, until })]);
    let verdict = decide(&mut store, &tenants(5), 1);
    assert_eq!(lockout(verdict, 1), (0, 2, HOUR - 1, false));
    // Whoever makes no attempt of this throttle's: the tenant passes, the others meet a box.
    allowed(decide(&mut store, &key_from(1, "t", "a"), 1));
    boxed(decide(&mut store, &anonymous(1), 1));
    boxed(decide(&mut store, &credential(1), 1));
    boxed(decide(
        &mut store,
        &login(6, 1, "alice", vec![by_subject()]),
        1,
    ));
    for strictness in [Strictness::Off, Strictness::Watched] {
        // The box is in the way no more; the strikes had emptied the bucket.
        throttled(decide(&mut store, &strictly(strictness, anonymous(1)), 1));
    }
    // And whoever does: whatever becomes of strikes.
    for ask in [anonymous(1), credential(1)] {
        for strictness in [
            Strictness::Enforced,
            Strictness::Known,
            Strictness::Watched,
            Strictness::Off,
        ] {
            let ask = strictly(strictness, ask.clone());
            let ask = attempting(ask, 7, 1, &[], vec![by_ip()]);
            let verdict = decide(&mut store, &ask, 1);
            assert_eq!(lockout(verdict, 1), (0, 2, HOUR - 1, false));
        }
    }
    allowed(decide(&mut store, &anonymous(2), 1));
}

#[test]
fn anonymous_requests_attempt_with_their_own_bucket() {
    let mut store = open(Heap::default());
    let list = || {
        vec![Attempt {
            provisional: true,
            ..by_ip()
        }]
    };
    let ask = |id| attempting(anonymous(1), id, 1, &[], list());
    assert_eq!(
        left(&allowed(decide(&mut store, &ask(1), 0))),
        [(Policy::Anonymous, 1)]
    );
    allowed(decide(&mut store, &ask(2), 0));
    // Too few points: that is a strike, and no attempt.
    for id in 3..5 {
        assert!(
            throttled(decide(&mut store, &ask(id), 0))
                .strikes_left
                .is_some()
        );
    }
    for id in 1..3 {
        assert_eq!(tell(&store, &ask(id), outcome(0, 1, false), 0), []);
    }
    let at = MINUTE;
    let lockout = match fail(&mut store, &ask(5), at)[..] {
        [Sign::Locked(0, lockout)] => lockout,
        ref other => panic!("{other:?}"),
    };
    assert_eq!(locked(decide(&mut store, &ask(6), at)).lockout, lockout);
}

#[test]
fn attempts_come_after_the_box_and_before_all_points() {
    let mut store = open(Heap::default());
    let ask = |id| {
        let ask = with_ip_limit(1, key("t", "a"));
        attempting(ask, id, 1, &["alice"], vec![by_ip(), by_subject()])
    };
    until_locked(&mut store, |id| login(id, 1, "alice", vec![by_ip()]), 0);
    allowed(decide(&mut store, &with_ip_limit(1, key("u", "a")), 0));
    // The address has no points, nor has the key; the lockout comes first and touches neither.
    allowed(decide(&mut store, &key("t", "a"), 0));
    allowed(decide(&mut store, &key("t", "a"), 0));
    for id in 0..50 {
        assert_eq!(locked(decide(&mut store, &ask(id), 0)).attempt, 0);
    }
    let refused = throttled(decide(&mut store, &key("t", "a"), 0));
    assert_eq!(refused.strikes_left, Some(3));
    // The key's box comes first of all.
    until_boxed(&mut store, &key("t", "a"));
    assert_eq!(boxed(decide(&mut store, &ask(60), 0)).scope, Scope::Key);
}

#[test]
fn refused_for_anything_else_it_takes_no_attempt_anywhere() {
    let list = || {
        let by_ip = Attempt {
            provisional: true,
            ..by_ip()
        };
        vec![by_ip, by_subject()]
    };
    // By the address, the key, and a lock that is taken.
    for (burst, spent, lock) in [(0, 0, false), (50, 2, false), (50, 0, true)] {
        let heap = Heap::default();
        let mut store = open(heap.clone());
        for _ in 0..spent {
            allowed(decide(&mut store, &key("t", "a"), 0));
        }
        if lock {
            let holder = with_lock("r", key("t", "b"));
            decide(&mut store, &holder, 0);
        }
        for id in 10..12 {
            let ask = attempting(key("t", "a"), id, 1, &["alice"], list());
            let ask = with_ip_limit(burst, if lock { with_lock("r", ask) } else { ask });
            let verdict = store.decide(&ask, NOW).0;
            match verdict {
                Verdict::Throttled(_) => {}
                Verdict::Taken(_) if lock => {}
                other => panic!("{other:?}"),
            }
        }
        for id in 0..3 {
            let ask = attempting(key("u", &id.to_string()), id, 1, &["alice"], list());
            allowed(decide(&mut store, &ask, 0));
        }
        let ask = attempting(key("u", "9"), 9, 1, &["alice"], list());
        assert_eq!(decide(&mut store, &ask, 0), Verdict::AuthBusy);
    }
}

/// A store in which, before its `nth` write, something else happens.
fn raced(heap: &Heap, nth: u32, mut rival: impl FnMut() + 'static) -> Local<Disturbed> {
    open(heap.clone());
    let mut writes = 0;
    open(Disturbed::new(heap, move |_| {
        writes += 1;
        if writes == nth {
            rival();
        }
        Ok(())
    }))
}

#[test]
fn a_subject_that_became_busy_in_between_gives_back_what_the_address_gave() {
    let heap = Heap::default();
    let from = apart("alice");
    let alice = |id| login(id, 99, "alice", vec![by_subject()]);
    let mut rival = open(heap.clone());
    let mut store = raced(&heap, 1, move || {
        for id in 0..3 {
            allowed(decide(&mut rival, &alice(100 + id), 0));
        }
    });
    let ip = Attempt {
        provisional: true,
        ..by_ip()
    };
    let limited = |id| {
        let ask = Ask {
            subject: Subject::Credential {
                address: address(from),
                ip_meter: Some(meter(60, 10)),
            },
            ..key("", "")
        };
        let ask = attempting(ask, id, from, &["alice"], vec![ip.clone(), by_subject()]);
        with_lock("r", ask)
    };
    let (verdict, toll) = store.decide(&limited(1), NOW);
    assert_eq!((verdict, toll.lost_refunds), (Verdict::AuthBusy, 0));
    let mut store = open(heap);
    for id in 100..103 {
        tell(&store, &alice(id), outcome(0, 0, false), 0);
    }
    // Its point, its lock and its place among the address's attempts.
    for id in 2..5 {
        let verdict = decide(&mut store, &limited(id), 0);
        assert_eq!(left(&allowed(verdict)), [(Policy::Ip, 11 - id)]);
        tell(&store, &limited(id), Keep::NOTHING, 0);
    }
}

#[test]
fn an_anonymous_bucket_gets_its_cost_back_from_a_subject_that_became_busy() {
    let heap = Heap::default();
    let from = apart("alice");
    let alice = |id| login(id, 99, "alice", vec![by_subject()]);
    let mut rival = open(heap.clone());
    let mut store = raced(&heap, 1, move || {
        for id in 0..3 {
            allowed(decide(&mut rival, &alice(100 + id), 0));
        }
    });
    let mut ask = with_ip_limit(10, anonymous(from));
    if let Subject::Anonymous { meter: own, .. } = &mut ask.subject {
        *own = meter(60, 7);
    }
    let ask = Ask { cost: 4, ..ask };
    let attempt = attempting(ask.clone(), 1, from, &["alice"], vec![by_subject()]);
    let (verdict, toll) = store.decide(&attempt, NOW);
    assert_eq!((verdict, toll.lost_refunds), (Verdict::AuthBusy, 0));
    let standings = allowed(decide(&mut open(heap), &ask, 0));
    assert_eq!(left(&standings), [(Policy::Ip, 9), (Policy::Anonymous, 3)]);
}

#[test]
fn a_page_that_nobody_can_change_lets_nothing_through_and_keeps_nothing() {
    let heap = Heap::default();
    let from = apart("alice");
    let ask = |id| {
        let ask = login(id, from, "alice", vec![by_subject()]);
        let subject = Subject::Credential {
            address: address(from),
            ip_meter: Some(meter(60, 10)),
        };
        Ask { subject, ..ask }
    };
    let busy = page_of(&open(heap.clone()), &ask(1), Leg::Subject(0));
    let mut store = open(Disturbed::new(&heap, move |name| {
        if name == busy { Err(Changed) } else { Ok(()) }
    }));
    let (verdict, toll) = store.decide(&ask(1), NOW);
    assert_eq!((verdict, toll.lost_refunds), (Verdict::Contended, 0));
    assert!(toll.retries >= 8);
    let standings = allowed(decide(&mut open(heap), &ask(2), 0));
    assert_eq!(left(&standings), [(Policy::Ip, 9)]);
}

#[test]
fn what_cannot_be_given_back_is_counted() {
    let heap = Heap::default();
    let from = apart("alice");
    let ask = login(1, from, "alice", vec![by_subject()]);
    let subject = Subject::Credential {
        address: address(from),
        ip_meter: Some(meter(60, 10)),
    };
    let ask = Ask { subject, ..ask };
    let mut writes = 0;
    open(heap.clone());
    let mut store = open(Disturbed::new(&heap, move |_| {
        writes += 1;
        if writes == 1 { Ok(()) } else { Err(Changed) }
    }));
    let (verdict, toll) = store.decide(&ask, NOW);
    assert_eq!((verdict, toll.lost_refunds), (Verdict::Contended, 1));
}

/// A page of so many entries for everybody.
fn small(room: usize, heap: &Heap) -> Local<Heap> {
    let size = 16 + 48 * room;
    Local::open(heap.clone(), Bytes(size as u64), size, SECRET)
}

#[test]
fn without_room_nothing_is_let_through_or_changed_and_an_eviction_is_counted() {
    let heap = Heap::default();
    let mut store = small(3, &heap);
    let ask = |id| {
        login(
            id,
            1,
            "alice",
            vec![by_subject(), throttle("b", Who::Subject(0))],
        )
    };
    allowed(decide(&mut store, &ask(1), 0));
    let before = bytes(&heap);
    let (verdict, toll) = store.decide(&ask(2), NOW);
    assert_eq!((verdict, toll.evictions), (Verdict::Contended, 1));
    assert_eq!(bytes(&heap), before);
    // A failure has the room that its attempt had, and a lockout that of its failures.
    tell(&store, &ask(1), outcome(0, 0b11, false), 0);
    assert_eq!(store.decide(&ask(2), NOW).0, Verdict::Contended);
    let one = |id| login(id, 1, "alice", vec![by_subject()]);
    for id in 3..10 {
        let unheard = tell(&store, &one(id), outcome(0, 1, false), 0);
        assert_eq!(unheard.len(), usize::from(id == 4), "{id}");
    }
    locked(decide(&mut store, &one(10), 0));
}

#[test]
fn a_failure_without_room_is_to_be_told_again() {
    let heap = Heap::default();
    let mut store = small(3, &heap);
    let holder = with_lock("r", with_lock("r", key("t", "a")));
    let holder = Ask {
        wanted: holder.wanted.map(|wanted| Wanted {
            lease: Some(LeaseWanted {
                kind: "l".into(),
                slots: 1,
            }),
            ..wanted
        }),
        ..credential(9)
    };
    allowed(decide(&mut store, &holder, 0));
    let ask = login(
        1,
        1,
        "alice",
        vec![Attempt {
            failures: 1,
            ..by_ip()
        }],
    );
    let failed = outcome(0, 1, false);
    assert_eq!(store.keep(&ask, failed, NOW), None);
    assert_eq!(store.keep(&ask, failed, after(1)), None);
    assert!(store.keep(&holder, Keep::NOTHING, after(2)).unwrap().all);
    let until = after(3 + 5 * MINUTE);
    let kept = store.keep(&ask, failed, after(3)).unwrap();
    assert_eq!(kept.signs, [Sign::Locked(0, Lockout { level: 1, until })]);
}

#[test]
fn told_again_where_one_page_was_too_contended_it_counts_once_everywhere() {
    let from = apart("alice");
    for contended in [Leg::Owner, Leg::Subject(0)] {
        let heap = Heap::default();
        let list = || {
            let subject = Attempt {
                provisional: false,
                ..by_subject()
            };
            vec![by_ip(), subject]
        };
        let ask = |id| login(id, from, "alice", list());
        let busy = page_of(&open(heap.clone()), &ask(1), contended);
        let free = Rc::new(Cell::new(true));
        let is_free = Rc::clone(&free);
        let store = open(Disturbed::new(&heap, move |name| {
            if name == busy && !is_free.get() {
                Err(Changed)
            } else {
                Ok(())
            }
        }));
        let failed = outcome(0, 0b11, false);
        for id in 1..3 {
            free.set(false);
            assert_eq!(store.keep(&ask(id), failed, NOW), None);
            assert_eq!(store.keep(&ask(id), failed, NOW), None);
            free.set(true);
            assert_eq!(
                store.keep(&ask(id), failed, NOW),
                Some(Kept::silently(true))
            );
        }
        // The third one locks out, by each, and what was noticed is told in the end.
        free.set(false);
        assert_eq!(store.keep(&ask(3), failed, NOW), None);
        free.set(true);
        let signs = store.keep(&ask(3), failed, NOW).unwrap().signs;
        let until = after(5 * MINUTE);
        let locked = |index| Sign::Locked(index, Lockout { level: 1, until });
        assert_eq!(signs.len(), 2);
        assert!(
            signs.contains(&locked(0)) && signs.contains(&locked(1)),
            "{signs:?}"
        );
    }
}

#[test]
fn word_that_a_stream_lives_leaves_attempts_alone_and_a_keep_of_nothing_gives_them_back() {
    let heap = Heap::default();
    let mut store = open(heap.clone());
    let ask = |id| {
        login(
            id,
            1,
            "alice",
            vec![
                by_subject(),
                Attempt {
                    provisional: true,
                    ..by_ip()
                },
            ],
        )
    };
    let before = bytes(&heap);
    for id in 0..3 {
        allowed(decide(&mut store, &ask(id), 0));
        assert_eq!(
            store.keep(&ask(id), Keep::ON, after(1)),
            Some(Kept::silently(true))
        );
    }
    assert_eq!(decide(&mut store, &ask(3), 1), Verdict::AuthBusy);
    for id in 0..3 {
        for _ in 0..2 {
            tell(&store, &ask(id), Keep::NOTHING, 2);
        }
    }
    assert_eq!(bytes(&heap), before);
    allowed(decide(&mut store, &ask(3), 2));
}

#[test]
fn outcomes_and_keeps_that_change_nothing_write_nothing() {
    let heap = Heap::default();
    open(heap.clone());
    let mut store = open(Disturbed::new(&heap, |_| panic!("written")));
    let unprovisional = |id| attempting(key("t", "a"), id, 1, &["alice"], vec![by_ip()]);
    for keep in [
        outcome(0, 0, false),
        Keep::NOTHING,
        Keep::ON,
        outcome(0, 0, true),
    ] {
        assert_eq!(
            store.keep(&unprovisional(1), keep, NOW),
            Some(Kept::silently(true))
        );
    }
    let login = login(1, 1, "alice", vec![by_ip()]);
    allowed(decide(&mut store, &login, 0));
}

#[test]
fn a_revoked_attempt_that_comes_late_takes_nothing() {
    let pair = throttle("p", Who::Pair(0));
    for list in [vec![by_subject()], vec![by_ip(), by_subject()], vec![pair]] {
        let heap = Heap::default();
        let mut store = open(heap.clone());
        let ask = |id| login(id, 1, "alice", list.clone());
        assert_eq!(store.revoke(&ask(1), NOW), Some(()));
        assert_eq!(store.revoke(&ask(1), NOW), Some(()));
        let before = bytes(&heap);
        for at in [0, MINUTE - 1] {
            assert_eq!(decide(&mut store, &ask(1), at), Verdict::Contended);
        }
        assert_eq!(bytes(&heap), before);
        allowed(decide(&mut store, &ask(2), 0));
        allowed(decide(&mut store, &ask(1), MINUTE));
    }
}

#[test]
fn of_an_attempt_that_takes_no_place_there_is_nothing_to_revoke() {
    let heap = Heap::default();
    open(heap.clone());
    let mut store = open(Disturbed::new(&heap, |_| panic!("written")));
    let ask = login(1, 1, "alice", vec![by_ip()]);
    assert_eq!(store.revoke(&ask, NOW), Some(()));
    allowed(decide(&mut store, &ask, 0));
    assert_eq!(store.revoke(&ask, NOW), Some(()));
}

#[test]
fn given_back_is_what_flies_and_not_what_ran_out() {
    let mut store = open(Heap::default());
    let ask = |id| login(id, 1, "alice", vec![throttle("s", Who::Subject(0))]);
    for (id, at) in [(1, 0), (2, 10), (3, 10)] {
        allowed(decide(&mut store, &ask(id), at));
    }
    // The first one has failed by then; an undo says nothing of what became of it.
    for id in 1..3 {
        tell(&store, &ask(id), Keep::NOTHING, MINUTE);
    }
    allowed(decide(&mut store, &ask(4), MINUTE));
    assert_eq!(decide(&mut store, &ask(5), MINUTE), Verdict::AuthBusy);
}

#[test]
fn a_revoked_attempt_that_came_is_taken_back_everywhere() {
    let mut store = open(Heap::default());
    let list = || {
        vec![
            by_subject(),
            Attempt {
                provisional: true,
                ..by_ip()
            },
        ]
    };
    let tenants = |id: u64| attempting(key("t", &id.to_string()), id, 1, &["alice"], list());
    for id in 0..20 {
        allowed(decide(
            &mut store,
            &Ask {
                cost: 0,
                ..tenants(id)
            },
            0,
        ));
        assert_eq!(store.revoke(&tenants(id), after(1)), Some(()));
    }
    let contended = open(Disturbed::new(&Heap::default(), |_| Err(Changed)));
    assert_eq!(contended.revoke(&tenants(1), NOW), None);
}

#[test]
fn several_subjects_are_each_asked_and_told() {
    let mut store = open(Heap::default());
    let list = |names: &[&str]| {
        let one = |(which, _): (usize, &&str)| Attempt {
            name: format!("by-{which}").into(),
            ..throttle("", Who::Subject(which as u8))
        };
        names.iter().enumerate().map(one).collect::<Vec<_>>()
    };
    let both = |id| {
        let subjects = ["alice", "bob"];
        attempting(credential(1), id, 1, &subjects, list(&subjects))
    };
    let only_bob = |id| {
        let throttle = Attempt {
            name: "by-1".into(),
            ..throttle("", Who::Subject(0))
        };
        login(id, 1, "bob", vec![throttle])
    };
    fail(&mut store, &only_bob(1), 0);
    fail(&mut store, &both(2), 0);
    let signs = fail(&mut store, &both(3), 0);
    let until = after(5 * MINUTE);
    assert_eq!(signs, [Sign::Locked(1, Lockout { level: 1, until })]);
    assert_eq!(locked(decide(&mut store, &both(4), 0)).attempt, 1);
    locked(decide(&mut store, &only_bob(5), 0));
}

#[test]
fn a_revoked_attempt_that_ran_out_meanwhile_is_no_failure() {
    let spared = login(9, 1, "alice", vec![by_subject()]);
    for knows in [false, true] {
        let mut store = open(Heap::default());
        if knows {
            succeed(&mut store, &spared, 0);
        }
        let ask = |id| login(id, 1, "alice", vec![by_subject()]);
        for id in 1..4 {
            allowed(decide(&mut store, &ask(id), 0));
        }
        // Nobody was let through, though nobody said so in time.
        for id in 1..4 {
            assert_eq!(store.revoke(&ask(id), after(2 * MINUTE)), Some(()));
        }
        for id in 4..7 {
            allowed(decide(&mut store, &ask(id), 2 * MINUTE));
        }
    }
}
