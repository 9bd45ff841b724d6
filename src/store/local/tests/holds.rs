//! Tests of what requests hold: leases, locks, keys in flight and quotas.

use super::*;
use crate::hold::{Fence, HoldId, Keep, LeaseWanted, QuotaWanted, Wanted};
use crate::store::Kept;
use crate::store::local::record::Entry;
use crate::verdict::{Obstacle, Taken};

mod model;

const MINUTE: u64 = 60_000;

fn nothing(id: u64) -> Wanted {
    Wanted::nothing(HoldId(id))
}

fn flight(key: &str, wanted: Wanted) -> Wanted {
    let flight = Some(Id::of(key.as_bytes()));
    Wanted { flight, ..wanted }
}

fn lock(resource: &str, wanted: Wanted) -> Wanted {
    let lock = Some(Id::of(resource.as_bytes()));
    Wanted { lock, ..wanted }
}

fn lease(kind: &str, slots: u32, wanted: Wanted) -> Wanted {
    let kind = kind.into();
    let lease = Some(LeaseWanted { kind, slots });
    Wanted { lease, ..wanted }
}

fn quota(kind: &str, requests: u32, per: u64, wanted: Wanted) -> Wanted {
    let kind = kind.into();
    let per = Millis(per);
    let quota = Some(QuotaWanted {
        kind,
        requests,
        per,
    });
    Wanted { quota, ..wanted }
}

fn all(id: u64) -> Wanted {
    let wanted = quota("q", 3, MINUTE, lease("l", 2, nothing(id)));
    flight(&format!("f{id}"), lock(&format!("r{id}"), wanted))
}

/// A request with plenty of points.
fn rich(tenant: &str, wanted: Wanted) -> Ask {
    let mut ask = wanting(key(tenant, "k"), wanted);
    if let Subject::Key {
        key_meter,
        tenant_meter,
        ..
    } = &mut ask.subject
    {
        (*key_meter, *tenant_meter) = (meter(60, 1000), meter(60, 1000));
    }
    ask
}

fn wanting(ask: Ask, wanted: Wanted) -> Ask {
    Ask {
        wanted: Some(wanted),
        ..ask
    }
}

fn taken(verdict: Verdict) -> Taken {
    match verdict {
        Verdict::Taken(taken) => taken,
        other => panic!("not taken: {other:?}"),
    }
}

fn by(verdict: Verdict) -> (Obstacle, u64) {
    let taken = taken(verdict);
    (taken.by, taken.wait.0)
}

fn fence(verdict: Verdict) -> Fence {
    match verdict {
        Verdict::Allowed(_, Some(fence)) => fence,
        other => panic!("no fence: {other:?}"),
    }
}

fn at<M: Memory>(store: &mut Local<M>, question: &Ask, after: u64) -> Verdict {
    store.decide(question, NOW.plus(Millis(after))).0
}

fn after(ms: u64) -> Millis {
    NOW.plus(Millis(ms))
}

#[test]
fn the_first_that_is_taken_is_the_obstacle_and_then_nothing_is_taken() {
    let mut store = open(Heap::default());
    let holder = lease("l", 1, quota("q", 1, 2 * MINUTE, nothing(1)));
    let holder = flight("f", lock("r", holder));
    allowed(ask(&mut store, &rich("t", holder.clone())));
    let mut wanted = Wanted {
        id: HoldId(2),
        ..holder
    };
    let mut expect = |wanted: &Wanted, obstacle, wait| {
        let verdict = at(&mut store, &rich("t", wanted.clone()), 1000);
        assert_eq!(by(verdict), (obstacle, wait));
    };
    expect(&wanted, Obstacle::Flight, MINUTE - 1000);
    wanted = flight("f2", wanted);
    expect(&wanted, Obstacle::Lock, MINUTE - 1000);
    wanted = lock("r2", wanted);
    expect(&wanted, Obstacle::Lease, MINUTE - 1000);
    wanted = lease("l2", 1, wanted);
    expect(&wanted, Obstacle::Quota, 2 * MINUTE - 1000);
    wanted = quota("q2", 1, MINUTE, wanted);
    // None of those refusals took anything.
    fence(at(&mut store, &rich("t", wanted.clone()), 1000));
    let third = Wanted {
        id: HoldId(3),
        ..wanted
    };
    let verdict = at(&mut store, &rich("t", third), 1000);
    assert_eq!(by(verdict), (Obstacle::Flight, MINUTE));
}

#[test]
fn who_meets_an_obstacle_pays_a_point_of_key_and_tenant_and_none_of_the_address() {
    let mut store = open(Heap::default());
    let question = |id, cost| {
        let mut ask = wanting(key_from(1, "t", "k"), lock("r", nothing(id)));
        if let Subject::Key {
            key_meter,
            tenant_meter,
            ..
        } = &mut ask.subject
        {
            (*key_meter, *tenant_meter) = (meter(60, 30), meter(60, 40));
        }
        Ask { cost, ..ask }
    };
    let standings = allowed(ask(&mut store, &question(1, 5)));
    let expected = [(Policy::Key, 25), (Policy::Tenant, 35), (Policy::Ip, 9)];
    assert_eq!(left(&standings), expected);
    let refused = taken(ask(&mut store, &question(2, 20)));
    assert_eq!(refused.by, Obstacle::Lock);
    let expected = [(Policy::Key, 24), (Policy::Tenant, 34), (Policy::Ip, 9)];
    assert_eq!(left(&refused.standings), expected);
    assert!(refused.standings.iter().all(|s| s.wait == Millis(0)));
    assert_eq!(refused.strikes_left, Some(3));
    // The address did get its point back.
    let standings = allowed(ask(&mut store, &key_from(1, "u", "a")));
    assert_eq!(left(&standings)[2], (Policy::Ip, 8));
}

#[test]
fn too_few_tokens_win_over_an_obstacle_and_a_box_over_both() {
    let mut store = open(Heap::default());
    let question = |id| wanting(key("t", "a"), lease("l", 1, lock("r", nothing(id))));
    fence(ask(&mut store, &question(1)));
    taken(ask(&mut store, &question(2)));
    let mut verdicts = (3..).map(|id| store.decide(&question(id), NOW).0);
    throttled(verdicts.next().unwrap());
    let box_comes = verdicts
        .by_ref()
        .find(|v| !matches!(v, Verdict::Throttled(_)));
    boxed(box_comes.unwrap());
    boxed(verdicts.next().unwrap());
    drop(verdicts);
    // None of them touched what the first one holds.
    let other = wanting(key("t", "b"), lock("r", nothing(99)));
    assert_eq!(
        by(at(&mut store, &other, 1000)),
        (Obstacle::Lock, MINUTE - 1000)
    );
}

#[test]
fn owners_shadows_kinds_and_names_are_apart() {
    // All on one page.
    let mut store = Local::open(Heap::default(), Bytes(PAGE_SIZE as u64), PAGE_SIZE, SECRET);
    let everything = |id, named: &str| {
        let wanted = lease(named, 1, quota(named, 1, MINUTE, nothing(id)));
        flight(named, lock(named, wanted))
    };
    let by_address = |last, id, named: &str| {
        let wanted = flight(named, lock(named, nothing(id)));
        wanting(anonymous(last), wanted)
    };
    let questions = [
        rich("t", everything(1, "x")),
        rich("u", everything(2, "x")),
        rich("t", everything(3, "y")),
        shadow(rich("t", everything(4, "x"))),
        by_address(1, 5, "x"),
        by_address(2, 6, "x"),
        by_address(1, 7, "y"),
    ];
    for question in &questions {
        fence(store.decide(question, NOW).0);
    }
    for question in &questions[..6] {
        let mut question = question.clone();
        if let Some(wanted) = &mut question.wanted {
            wanted.id = HoldId(50);
        }
        let obstacle = by(store.decide(&question, after(1000)).0);
        assert_eq!(obstacle, (Obstacle::Flight, MINUTE - 1000));
    }
}

#[test]
fn other_keys_of_the_tenant_meet_what_one_holds() {
    let mut store = open(Heap::default());
    let question = |named, id| wanting(key("t", named), flight("f", nothing(id)));
    allowed(ask(&mut store, &question("a", 1)));
    taken(ask(&mut store, &question("b", 2)));
}

#[test]
fn what_is_held_is_held_on_or_let_go_or_ends() {
    let mut store = open(Heap::default());
    let question = |id| rich("t", lease("l", 1, lock("r", flight("f", nothing(id)))));
    let first = question(1);
    fence(ask(&mut store, &first));
    // Held on: the lock for longer, the flight as it was, the lease let go.
    let keep = Keep {
        lease: Millis(0),
        lock: Millis(10 * MINUTE),
        flight: Millis(MINUTE),
        outcome: None,
    };
    assert_eq!(
        store.keep(&first, keep, after(1000)),
        Some(Kept::silently(true))
    );
    allowed(ask(&mut store, &rich("t", lease("l", 1, nothing(2)))));
    let flown = rich("t", flight("f", nothing(3)));
    assert_eq!(by(at(&mut store, &flown, MINUTE)), (Obstacle::Flight, 1000));
    allowed(at(&mut store, &flown, MINUTE + 1000));
    let locked = rich("t", lock("r", nothing(4)));
    let verdict = at(&mut store, &locked, MINUTE + 1000);
    assert_eq!(by(verdict), (Obstacle::Lock, 9 * MINUTE));
    // The flight is another's by now, and stays his.
    assert_eq!(
        store.keep(&first, keep, after(2 * MINUTE)),
        Some(Kept::silently(false))
    );
    assert_eq!(
        store.keep(&first, Keep::NOTHING, after(2 * MINUTE)),
        Some(Kept::silently(true))
    );
    assert_eq!(
        store.keep(&first, Keep::NOTHING, after(2 * MINUTE)),
        Some(Kept::silently(true))
    );
    let verdict = at(&mut store, &rich("t", flight("f", nothing(5))), 2 * MINUTE);
    assert_eq!(by(verdict), (Obstacle::Flight, 1000));
    fence(at(&mut store, &locked, 2 * MINUTE));
}

#[test]
fn word_that_a_stream_lives_takes_nothing_back_of_what_was_handed_over() {
    let mut store = open(Heap::default());
    let question = rich("acme", lease("job", 1, nothing(1)));
    let other = rich("acme", lease("job", 1, nothing(2)));
    allowed(at(&mut store, &question, 0));
    let handed_over = Keep {
        lease: Millis(600_000),
        ..Keep::NOTHING
    };
    assert_eq!(
        store.keep(&question, handed_over, after(1)),
        Some(Kept::silently(true))
    );
    assert_eq!(
        store.keep(&question, Keep::ON, after(2)),
        Some(Kept::silently(true))
    );
    let refused = by(at(&mut store, &other, 600_000));
    assert_eq!(refused, (Obstacle::Lease, 1));
    allowed(at(&mut store, &other, 600_001));
}

#[test]
fn a_keep_of_nothing_writes_nothing() {
    let heap = Heap::default();
    open(heap.clone());
    let store = open(Disturbed::new(&heap, |_| panic!("written")));
    for wanted in [quota("q", 1, MINUTE, nothing(1)), all(2)] {
        let question = rich("t", wanted);
        assert_eq!(
            store.keep(&question, Keep::NOTHING, NOW),
            Some(Kept::silently(true))
        );
    }
    let quota_only = rich("t", quota("q", 1, MINUTE, nothing(1)));
    assert_eq!(
        store.keep(&quota_only, Keep::ON, NOW),
        Some(Kept::silently(true))
    );
    assert_eq!(
        store.keep(&rich("t", all(1)), Keep::ON, NOW),
        Some(Kept::silently(false))
    );
    assert_eq!(
        store.keep(&key("t", "a"), Keep::ON, NOW),
        Some(Kept::silently(true))
    );
    assert_eq!(store.revoke(&quota_only, NOW), Some(()));
    assert_eq!(store.revoke(&key("t", "a"), NOW), Some(()));
}

#[test]
fn a_revoked_call_that_comes_late_takes_nothing() {
    for (ip, wanted) in [(false, all(1)), (true, flight("f", nothing(1)))] {
        let heap = Heap::default();
        let mut store = open(heap.clone());
        let mut late = rich("t", wanted.clone());
        if let (true, Subject::Key { ip, .. }) = (ip, &mut late.subject) {
            *ip = Some((address(1), meter(60, 10)));
        }
        store.revoke(&late, NOW).unwrap();
        let before = bytes(&heap);
        for ms in [0, MINUTE - 1] {
            let (verdict, toll) = store.decide(&late, after(ms));
            assert_eq!((verdict, toll), (Verdict::Contended, Toll::default()));
        }
        assert_eq!(bytes(&heap), before);
        // Another's call does.
        let other = Wanted {
            id: HoldId(2),
            ..wanted
        };
        let other = rich("t", other);
        allowed(ask(&mut store, &other));
        store.keep(&other, Keep::NOTHING, NOW).unwrap();
        // What comes later than a minute is taken, and ends by itself.
        allowed(at(&mut store, &late, MINUTE));
    }
}

fn bytes(heap: &Heap) -> BTreeMap<String, Vec<u8>> {
    let names = heap.names().into_iter();
    names
        .map(|n| (n.clone(), heap.read(&n).unwrap().bytes))
        .collect()
}

#[test]
fn a_revoked_call_that_came_holds_nothing_and_its_quota_is_spent() {
    let mut store = open(Heap::default());
    let wanted = |id| {
        flight(
            "f",
            lease("l", 1, lock("r", quota("q", 2, MINUTE, nothing(id)))),
        )
    };
    fence(ask(&mut store, &rich("t", wanted(1))));
    // A revocation that comes twice is one.
    for _ in 0..2 {
        store.revoke(&rich("t", wanted(1)), NOW).unwrap();
    }
    fence(ask(&mut store, &rich("t", wanted(2))));
    store.revoke(&rich("t", wanted(2)), NOW).unwrap();
    assert_eq!(
        by(ask(&mut store, &rich("t", wanted(3)))),
        (Obstacle::Quota, MINUTE)
    );
}

#[test]
fn what_is_let_go_leaves_no_entry_and_a_mark_leaves_one() {
    let heap = Heap::default();
    let mut store = open(heap.clone());
    let wanted = |id| flight("f", lease("l", 1, lock("r", nothing(id))));
    fence(ask(&mut store, &rich("t", wanted(1))));
    assert_eq!(held_entries(&heap).len(), 3);
    store.revoke(&rich("t", wanted(1)), NOW).unwrap();
    assert_eq!(held_entries(&heap).len(), 0);
    fence(ask(&mut store, &rich("t", wanted(2))));
    store
        .keep(&rich("t", wanted(2)), Keep::NOTHING, NOW)
        .unwrap();
    assert_eq!(held_entries(&heap).len(), 0);
    for _ in 0..3 {
        store.revoke(&rich("t", wanted(3)), NOW).unwrap();
        assert_eq!(held_entries(&heap).len(), 1);
    }
}

/// Entries of what somebody holds, or held and nobody swept.
fn held_entries(heap: &Heap) -> Vec<Entry> {
    let pages = bytes(heap)
        .into_iter()
        .filter(|(n, _)| !n.ends_with("/ready"));
    let entries = pages.flat_map(|(_, bytes)| {
        let (entries, rest) = bytes[16..].as_chunks::<48>();
        assert!(rest.is_empty());
        entries.iter().map(Entry::read).collect::<Vec<_>>()
    });
    entries
        .filter(|entry| entry.hold().is_some() || entry.grants().is_some())
        .collect()
}

#[test]
fn fences_of_a_resource_grow_whatever_the_clock_does() {
    let mut store = open(Heap::default());
    let mut last = Fence(0);
    for (id, now) in [
        (1, NOW),
        (2, NOW),
        (3, after(7)),
        (4, Millis(NOW.0 - 3_600_000)),
    ] {
        let question = rich("t", lock("r", nothing(id)));
        let fence = fence(store.decide(&question, now).0);
        assert!(fence > last, "{fence:?} after {last:?}");
        assert!(fence.0 >= now.0 * 1000);
        last = fence;
        store.keep(&question, Keep::NOTHING, now).unwrap();
    }
}

#[test]
fn changed_limits_keep_what_is_held() {
    let mut store = open(Heap::default());
    let leased = |id, slots| rich("t", lease("l", slots, nothing(id)));
    allowed(at(&mut store, &leased(1, 3), 0));
    allowed(at(&mut store, &leased(2, 3), 1));
    assert_eq!(
        by(at(&mut store, &leased(3, 1), 2)),
        (Obstacle::Lease, MINUTE - 2)
    );
    assert_eq!(
        by(at(&mut store, &leased(3, 2), 2)),
        (Obstacle::Lease, MINUTE - 2)
    );
    // The first ends; with one slot the second one still fills it.
    assert_eq!(
        by(at(&mut store, &leased(3, 1), MINUTE)),
        (Obstacle::Lease, 1)
    );
    allowed(at(&mut store, &leased(3, 2), MINUTE));

    let spending = |id, requests, per| rich("t", quota("q", requests, per, nothing(id)));
    for (id, ms) in [(1, 0), (2, 10), (3, 20)] {
        allowed(at(&mut store, &spending(id, 3, 1000), ms));
    }
    assert_eq!(
        by(at(&mut store, &spending(4, 3, 1000), 30)),
        (Obstacle::Quota, 970)
    );
    assert_eq!(
        by(at(&mut store, &spending(4, 1, 1000), 30)),
        (Obstacle::Quota, 990)
    );
    // A longer quota counts what the shorter one had not yet forgotten.
    assert_eq!(
        by(at(&mut store, &spending(4, 3, 5000), 900)),
        (Obstacle::Quota, 4100)
    );
    allowed(at(&mut store, &spending(4, 3, 1000), 1005));
    // From the future, since the clock was set back: counted, and waited for no longer than it lasts.
    let verdict = store
        .decide(&spending(5, 1, 1000), Millis(NOW.0 - 100_000))
        .0;
    assert_eq!(by(verdict), (Obstacle::Quota, 1000));
}

/// A page of so many entries for everybody.
fn small(room: usize, heap: &Heap) -> Local<Heap> {
    let size = 16 + 48 * room;
    Local::open(heap.clone(), Bytes(size as u64), size, SECRET)
}

#[test]
fn without_room_nothing_is_changed_and_an_eviction_is_counted() {
    // Two buckets and the overflow bucket's place leave room for four.
    let heap = Heap::default();
    let mut store = small(7, &heap);
    fence(store.decide(&rich("t", all(1)), NOW).0);
    let before = bytes(&heap);
    for second in [
        all(2),
        lease("l", 2, nothing(2)),
        quota("p", 1, MINUTE, nothing(2)),
    ] {
        let (verdict, toll) = store.decide(&rich("t", second), NOW);
        assert_eq!(verdict, Verdict::Contended);
        assert_eq!((toll.evictions, toll.retries), (1, 0));
    }
    assert_eq!(bytes(&heap), before);
    // A grant more of a quota has its place in the entry that is there.
    allowed(
        store
            .decide(&rich("t", quota("q", 3, MINUTE, nothing(3))), NOW)
            .0,
    );
    // Points alone are to be had still.
    allowed(
        store
            .decide(
                &Ask {
                    wanted: None,
                    ..rich("t", nothing(0))
                },
                NOW,
            )
            .0,
    );
    // There is no room for a mark either, nor need for one.
    assert_eq!(store.revoke(&rich("t", all(4)), NOW), Some(()));
    store.keep(&rich("t", all(1)), Keep::NOTHING, NOW).unwrap();
    allowed(store.decide(&rich("t", lease("l", 2, nothing(2))), NOW).0);
}

#[test]
fn without_room_the_address_gets_its_point_back() {
    let heap = Heap::default();
    // One page: the address's bucket lies there too.
    let mut store = small(5, &heap);
    let question = |wanted| wanting(key_from(1, "t", "a"), wanted);
    allowed(store.decide(&question(lock("r1", nothing(1))), NOW).0);
    let (verdict, toll) = store.decide(&question(all(2)), NOW);
    assert_eq!(verdict, Verdict::Contended);
    assert_eq!((toll.evictions, toll.lost_refunds), (1, 0));
    let standings = allowed(
        store
            .decide(
                &Ask {
                    wanted: None,
                    ..question(nothing(0))
                },
                NOW,
            )
            .0,
    );
    assert_eq!(left(&standings)[2], (Policy::Ip, 8));
}

#[test]
fn what_is_held_takes_the_place_of_the_fullest_bucket() {
    let heap = Heap::default();
    let mut store = small(6, &heap);
    allowed(store.decide(&key("u", "a"), NOW).0);
    let (verdict, toll) = store.decide(&rich("t", lock("r", nothing(1))), NOW);
    fence(verdict);
    assert_eq!(toll.evictions, 0);
    let (verdict, toll) = store.decide(&rich("t", lock("r2", nothing(2))), NOW);
    fence(verdict);
    assert_eq!(toll.evictions, 1);
}

#[test]
fn too_contended_to_keep_or_revoke_says_so() {
    let heap = Heap::default();
    let question = rich("t", all(1));
    fence(open(heap.clone()).decide(&question, NOW).0);
    let store = open(Disturbed::new(&heap, |_| Err(Changed)));
    assert_eq!(store.keep(&question, Keep::ON, NOW), None);
    assert_eq!(store.keep(&question, Keep::NOTHING, NOW), None);
    assert_eq!(store.revoke(&question, NOW), None);
}

#[test]
fn the_last_slot_taken_between_read_and_write_is_taken() {
    let heap = Heap::default();
    let mut rival = open(heap.clone());
    let question = |id| rich("t", lease("l", 1, lock("r", nothing(id))));
    let mut first = true;
    let memory = Disturbed::new(&heap, move |_| {
        if std::mem::take(&mut first) {
            fence(rival.decide(&question(1), NOW).0);
        }
        Ok(())
    });
    let mut store = open(memory);
    let (verdict, toll) = store.decide(&question(2), NOW);
    assert_eq!(by(verdict), (Obstacle::Lock, MINUTE));
    assert_eq!(toll.retries, 1);
}

#[test]
fn as_many_as_a_configuration_allows_fit_into_a_page() {
    let mut store = open(Heap::default());
    for id in 0..64 {
        allowed(ask(&mut store, &rich("t", lease("l", 64, nothing(id)))));
    }
    taken(ask(&mut store, &rich("t", lease("l", 64, nothing(64)))));
    for id in 0..200 {
        allowed(ask(
            &mut store,
            &rich("u", quota("q", 200, MINUTE, nothing(id))),
        ));
    }
    taken(ask(
        &mut store,
        &rich("u", quota("q", 200, MINUTE, nothing(200))),
    ));
}
