//! What requests hold besides points: who gets it, for how long, and how it is let go.

use std::rc::Rc;

use tollgate_config::{Config, Millis, StoreKind, Stuffing, ThrottleId};
use tollgate_filter::attempt::{Attempt, Attempts, Outcome, Who};
use tollgate_filter::client_ip::Address;
use tollgate_filter::hold::{Fence, HoldId, Keep, LeaseWanted, QuotaWanted, Wanted};
use tollgate_filter::identity::Id;
use tollgate_filter::limit::decision::Strictness;
use tollgate_filter::store::front::Front;
use tollgate_filter::store::script::{Clock, Decision, Item, Script, Step};
use tollgate_filter::store::{Ask, Subject};
use tollgate_filter::store::{Kept, Leg};
use tollgate_filter::verdict::{Obstacle, Policy, Standings, Taken, Verdict};

use super::{Remote, WORD, key, meter, time};

/// 2026-03-01T00:00:00Z.
const T: u64 = 1_772_323_200_000;

const LEASE: &str = "p:cc:{t:acme}:reconcile";
const LOCK: &str = "p:lk:{t:acme}:ledger-7";
const FLIGHT: &str = "p:ik:{t:acme}:key-1";
const QUOTA: &str = "p:qt:{t:acme}:export";

/// What the upstream is told to release everything by.
const RELEASE: &str = "for _,k in ipairs(KEYS) do redis.call(redis.call('TYPE',k).ok=='zset' and 'ZREM' or 'HDEL',k,ARGV[1]) end";

fn nothing(id: u64) -> Wanted {
    Wanted::nothing(HoldId(id))
}

fn lease(id: u64, slots: u32) -> Wanted {
    let kind = "reconcile".into();
    Wanted {
        lease: Some(LeaseWanted { kind, slots }),
        ..nothing(id)
    }
}

fn lock(id: u64) -> Wanted {
    Wanted {
        lock: Some(Id::of(b"ledger-7")),
        ..nothing(id)
    }
}

fn flight(id: u64) -> Wanted {
    Wanted {
        flight: Some(Id::of(b"key-1")),
        ..nothing(id)
    }
}

fn quota(id: u64, requests: u32, per: u64) -> Wanted {
    let (kind, per) = ("export".into(), Millis(per));
    Wanted {
        quota: Some(QuotaWanted {
            kind,
            requests,
            per,
        }),
        ..nothing(id)
    }
}

/// All four: one lease, one request a minute.
fn all(id: u64) -> Wanted {
    Wanted {
        flight: flight(id).flight,
        lock: lock(id).lock,
        quota: quota(id, 1, 60_000).quota,
        ..lease(id, 1)
    }
}

/// A request of 10 points, of 1000 a minute.
fn ask(wanted: Wanted) -> Rc<Ask> {
    let mut ask = (*key("k", 10)).clone();
    if let Subject::Key { key_meter, .. } = &mut ask.subject {
        *key_meter = meter(1000, 60, 1000);
    }
    ask.wanted = Some(wanted);
    Rc::new(ask)
}

fn whole(wanted: Wanted) -> Item {
    Item {
        ask: ask(wanted),
        step: Step::Whole,
    }
}

fn keep(wanted: Wanted, keep: Keep) -> Item {
    Item {
        ask: ask(wanted),
        step: Step::Keep(Leg::Owner, keep),
    }
}

fn release(wanted: Wanted) -> Item {
    keep(wanted, Keep::NOTHING)
}

fn revoke(wanted: Wanted) -> Item {
    Item {
        ask: ask(wanted),
        step: Step::Revoke(Leg::Owner),
    }
}

/// A Redis where time is an argument.
fn remote() -> Remote {
    Remote::new(Clock::Given)
}

impl Remote {
    pub(super) fn call(&mut self, items: &[Item], now: u64) -> Vec<Decision> {
        let command = self.script.call(items, WORD, Millis(now));
        let reply = self.server.send(&command).unwrap();
        let reply = redis::from_redis_value::<Vec<String>>(reply).unwrap();
        let answers = self.script.answers(items, WORD, &reply);
        answers
            .unwrap_or_else(|wrong| panic!("{wrong:?}: {command:?} answered by {reply:?}"))
            .decisions
    }

    pub(super) fn one(&mut self, item: Item, now: u64) -> Decision {
        self.call(&[item], now).remove(0)
    }

    /// The fence with which a request got what it wants.
    fn granted(&mut self, wanted: Wanted, now: u64) -> Option<Fence> {
        granted(&self.one(whole(wanted), now))
    }

    fn taken(&mut self, wanted: Wanted, now: u64) -> (Obstacle, u64) {
        taken(&self.one(whole(wanted), now))
    }

    pub(super) fn keys(&mut self) -> Vec<String> {
        let mut keys: Vec<String> = self.server.say("KEYS *");
        keys.sort();
        keys
    }

    /// Keys of what is held, without buckets.
    fn held_keys(&mut self) -> Vec<String> {
        let mut keys = self.keys();
        keys.retain(|key| !key.contains("rl:"));
        keys
    }

    pub(super) fn ttl(&mut self, key: &str) -> i64 {
        self.server.say(&format!("PTTL {key}"))
    }

    pub(super) fn all_expire(&mut self) {
        for key in self.keys() {
            let ttl = self.ttl(&key);
            assert!(ttl > 0, "{key} has a time to live of {ttl}");
        }
    }
}

fn granted(decision: &Decision) -> Option<Fence> {
    match decision {
        Decision::Verdict(Verdict::Allowed(_, fence)) => *fence,
        other => panic!("not allowed: {other:?}"),
    }
}

fn refused(decision: &Decision) -> &Taken {
    match decision {
        Decision::Verdict(Verdict::Taken(taken)) => taken,
        other => panic!("not taken: {other:?}"),
    }
}

fn taken(decision: &Decision) -> (Obstacle, u64) {
    let taken = refused(decision);
    (taken.by, taken.wait.0)
}

fn remaining(standings: &Standings) -> Vec<(Policy, u64, u64)> {
    let told = |s: &tollgate_filter::verdict::Standing| (s.policy, s.remaining, s.wait.0);
    standings.iter().map(told).collect()
}

#[test]
fn each_is_had_by_as_many_as_there_are_until_it_is_let_go_or_runs_out() {
    type Want = fn(u64) -> Wanted;
    let wants: [(Want, Obstacle); 4] = [
        (|id| lease(id, 1), Obstacle::Lease),
        (lock, Obstacle::Lock),
        (flight, Obstacle::Flight),
        (|id| quota(id, 1, 60_000), Obstacle::Quota),
    ];
    for (want, by) in wants {
        let mut remote = remote();
        remote.granted(want(1), T);
        assert_eq!(remote.taken(want(2), T), (by, 60_000));
        assert_eq!(remote.taken(want(2), T + 59_999), (by, 1));
        // At the very end it is free.
        remote.granted(want(3), T + 60_000);
        assert_eq!(remote.taken(want(4), T + 60_001), (by, 59_999));
        let done = remote.one(release(want(3)), T + 60_001);
        assert_eq!(done, Decision::Kept(Kept::silently(true)));
        if by == Obstacle::Quota {
            assert_eq!(remote.taken(want(5), T + 60_002), (by, 59_998));
        } else {
            remote.granted(want(5), T + 60_001);
        }
        remote.all_expire();
    }
}

#[test]
fn the_keys_are_those_of_the_contract_and_hold_whose_it_is() {
    let mut remote = remote();
    let item = whole(all(0x4fe1_c07b_9d1e_22aa));
    let member = remote.script.member(&item.ask);
    let id = "4fe1c07b9d1e22aa";
    assert_eq!(member, format!("{LEASE} {LOCK} {id}"));
    let fence = granted(&remote.one(item, T)).unwrap();
    assert_eq!(fence, Fence(T * 1000));
    assert_eq!(remote.held_keys(), [LEASE, FLIGHT, LOCK, QUOTA]);
    let ends = (T + 60_000).to_string();
    let scored = |key: &str| format!("ZRANGE {key} 0 -1 WITHSCORES");
    let found: Vec<String> = remote.server.say(&scored(LEASE));
    assert_eq!(found, [member.as_str(), &ends]);
    let found: Vec<String> = remote.server.say(&scored(QUOTA));
    assert_eq!(found, [id, &T.to_string()]);
    let found: Vec<String> = remote.server.say(&format!("HGETALL {FLIGHT}"));
    assert_eq!(found, [member.as_str(), &ends]);
    let read = ["HMGET", LOCK, &member, "fence"].map(str::to_owned);
    let found: Vec<String> = redis::from_redis_value(remote.server.send(&read).unwrap()).unwrap();
    assert_eq!(found, [ends, fence.0.to_string()]);
    remote.all_expire();
}

#[test]
fn the_name_of_a_holder_is_the_same_on_both_sides() {
    let mut other = (*ask(all(7))).clone();
    other.subject = Subject::Anonymous {
        address: Address::Ip("2001:db8::7".parse().unwrap()),
        meter: meter(1000, 60, 1000),
        ip_meter: None,
    };
    // Anonymous requests have neither lease nor quota.
    other.wanted = Some(Wanted {
        flight: flight(7).flight,
        ..lock(7)
    });
    let mut asks = vec![Rc::new(other)];
    asks.extend([lease(u64::MAX, 1), lock(0), flight(1), all(2)].map(ask));
    for plain in asks {
        for shadow in [false, true] {
            let mut remote = remote();
            let ask = Rc::new(Ask {
                shadow,
                ..(*plain).clone()
            });
            let member = remote.script.member(&ask);
            let item = |step| Item {
                ask: Rc::clone(&ask),
                step,
            };
            granted(&remote.one(item(Step::Whole), T));
            let mut seen = 0;
            for key in remote.held_keys() {
                assert_eq!(key.starts_with("p:sh:"), shadow, "{key}");
                let command = match remote.server.say::<String>(&format!("TYPE {key}")).as_str() {
                    _ if key.contains("qt:") => continue,
                    "zset" => "ZSCORE",
                    _ => "HGET",
                };
                let read = [command, &key, &member].map(str::to_owned);
                let ends: String =
                    redis::from_redis_value(remote.server.send(&read).unwrap()).unwrap();
                assert_eq!(ends, (T + 60_000).to_string(), "{key} of {member}");
                seen += 1;
            }
            assert!(seen > 0, "{member}");
            let kept = remote.one(item(Step::Keep(Leg::Owner, Keep::ON)), T + 59_999);
            assert_eq!(kept, Decision::Kept(Kept::silently(true)), "{member}");
            remote.all_expire();
        }
    }
}

#[test]
fn what_is_taken_first_is_the_obstacle_and_costs_a_point() {
    let mut remote = remote();
    let first = whole(all(1));
    let allowed = remote.one(first.clone(), T);
    let Decision::Verdict(Verdict::Allowed(standings, _)) = allowed else {
        panic!("{allowed:?}");
    };
    let full = remaining(&standings);
    assert_eq!(
        full,
        [
            (Policy::Key, 990, 0),
            (Policy::Tenant, 990, 0),
            (Policy::Ip, 599, 0)
        ]
    );
    let mut points = 990;
    let mut holder = all(1);
    for by in [
        Obstacle::Flight,
        Obstacle::Lock,
        Obstacle::Lease,
        Obstacle::Quota,
    ] {
        let before = remote.held_keys();
        let decision = remote.one(whole(all(2)), T);
        points -= 1;
        let refused = refused(&decision);
        assert_eq!((refused.by, refused.wait.0), (by, 60_000));
        assert_eq!(refused.strikes_left, Some(2));
        // The address has its point back.
        let expected = [
            (Policy::Key, points, 0),
            (Policy::Tenant, points, 0),
            (Policy::Ip, 599, 0),
        ];
        assert_eq!(remaining(&refused.standings), expected);
        // Nothing was taken.
        assert_eq!(remote.held_keys(), before);
        let member = remote.script.member(&ask(all(2)));
        for key in [LEASE, LOCK, FLIGHT] {
            let is_lease = key == LEASE;
            let read = [if is_lease { "ZSCORE" } else { "HGET" }, key, &member];
            let found = remote.server.send(&read.map(str::to_owned)).unwrap();
            assert_eq!(found, redis::Value::Nil, "{key}");
        }
        // And the obstacle goes.
        let (key, command) = match by {
            Obstacle::Flight => (FLIGHT, "HDEL"),
            Obstacle::Lock => (LOCK, "HDEL"),
            Obstacle::Lease => (LEASE, "ZREM"),
            Obstacle::Quota => break,
        };
        holder.id = HoldId(1);
        let member = remote.script.member(&ask(holder.clone()));
        let go = [command, key, &member].map(str::to_owned);
        assert_eq!(remote.server.send(&go).unwrap(), redis::Value::Int(1));
    }
    remote.all_expire();
}

#[test]
fn an_anonymous_request_pays_a_point_for_what_is_taken_too() {
    let mut remote = remote();
    let anonymous = |id| {
        let mut ask = (*ask(flight(id))).clone();
        ask.subject = Subject::Anonymous {
            address: Address::Ip("192.0.2.7".parse().unwrap()),
            meter: meter(60, 60, 60),
            ip_meter: Some(meter(600, 60, 600)),
        };
        Item {
            ask: Rc::new(ask),
            step: Step::Whole,
        }
    };
    granted(&remote.one(anonymous(1), T));
    let decision = remote.one(anonymous(2), T);
    let expected = [(Policy::Ip, 598, 0), (Policy::Anonymous, 49, 0)];
    assert_eq!(remaining(&refused(&decision).standings), expected);
    assert_eq!(remote.held_keys(), ["p:ik:{ip:192.0.2.7}:key-1"]);
}

#[test]
fn too_few_points_and_a_box_come_before_what_is_taken() {
    let mut remote = remote();
    let dear = |id| {
        let mut ask = (*ask(all(id))).clone();
        ask.cost = 600;
        Item {
            ask: Rc::new(ask),
            step: Step::Whole,
        }
    };
    granted(&remote.one(dear(1), T));
    let decision = remote.one(dear(2), T);
    let Decision::Verdict(Verdict::Throttled(_)) = decision else {
        panic!("{decision:?}");
    };
    remote
        .server
        .say::<()>("SET p:pb:{t:acme}:box:k 1 PX 100000");
    let field = format!("HSET p:rl:{{t:acme}}:tb:k b {}", T + 100_000);
    remote.server.say::<i64>(&field);
    let decision = remote.one(whole(all(3)), T);
    assert!(
        matches!(decision, Decision::Verdict(Verdict::Boxed(_))),
        "{decision:?}"
    );
}

#[test]
fn a_request_that_is_refused_for_points_takes_nothing() {
    let mut remote = remote();
    let mut poor = (*ask(all(1))).clone();
    if let Subject::Key { tenant_meter, .. } = &mut poor.subject {
        *tenant_meter = meter(5, 60, 5);
    }
    let step = Step::Whole;
    let ask = Rc::new(poor);
    let decision = remote.one(Item { ask, step }, T);
    assert!(
        matches!(decision, Decision::Verdict(Verdict::Throttled(_))),
        "{decision:?}"
    );
    assert!(remote.held_keys().is_empty(), "{:?}", remote.keys());
}

#[test]
fn what_is_kept_is_held_on_and_what_ran_out_stays_so() {
    let mut remote = remote();
    let wants = |id| Wanted {
        quota: None,
        ..all(id)
    };
    remote.granted(wants(1), T);
    assert_eq!(
        remote.one(keep(wants(1), Keep::ON), T + 59_999),
        Decision::Kept(Kept::silently(true))
    );
    assert_eq!(
        remote.taken(wants(2), T + 60_000),
        (Obstacle::Flight, 59_999)
    );
    // Each part by its own: the key goes, the lease stays for 15 minutes, the lock for a second.
    let parts = Keep {
        lease: Millis(900_000),
        lock: Millis(1000),
        flight: Millis(0),
        outcome: None,
    };
    for _ in 0..2 {
        assert_eq!(
            remote.one(keep(wants(1), parts), T + 60_000),
            Decision::Kept(Kept::silently(true))
        );
    }
    assert_eq!(remote.taken(wants(2), T + 60_000), (Obstacle::Lock, 1000));
    assert_eq!(
        remote.taken(wants(2), T + 61_000),
        (Obstacle::Lease, 899_000)
    );
    let ttl = remote.ttl(LEASE);
    assert!((900_000..=900_000 + 3_660_000).contains(&ttl), "{ttl}");
    // The lock ran out: some of it is not held any more, the rest is held on.
    assert_eq!(
        remote.one(keep(wants(1), parts), T + 61_000),
        Decision::Kept(Kept::silently(false))
    );
    assert_eq!(
        remote.taken(wants(2), T + 61_000),
        (Obstacle::Lease, 900_000)
    );
    remote.granted(lock(3), T + 61_001);
    assert_eq!(
        remote.one(keep(wants(1), Keep::ON), T + 61_002),
        Decision::Kept(Kept::silently(false))
    );
    assert_eq!(remote.taken(lock(4), T + 61_002), (Obstacle::Lock, 59_999));
    // Letting go of what another has by now takes nothing from that one.
    for _ in 0..2 {
        assert_eq!(
            remote.one(release(wants(1)), T + 61_003),
            Decision::Kept(Kept::silently(true))
        );
    }
    assert_eq!(remote.taken(lock(4), T + 61_003), (Obstacle::Lock, 59_998));
    remote.granted(lease(5, 1), T + 61_003);
    remote.all_expire();
}

#[test]
fn word_that_a_stream_lives_takes_nothing_back_of_what_was_handed_over() {
    let mut redis = remote();
    redis.granted(lock(1), T);
    let handed_over = Keep {
        lock: Millis(600_000),
        ..Keep::NOTHING
    };
    assert_eq!(
        redis.one(keep(lock(1), handed_over), T + 1),
        Decision::Kept(Kept::silently(true))
    );
    assert_eq!(
        redis.one(keep(lock(1), Keep::ON), T + 2),
        Decision::Kept(Kept::silently(true))
    );
    assert_eq!(redis.taken(lock(2), T + 600_000), (Obstacle::Lock, 1));
    redis.granted(lock(2), T + 600_001);
}

#[test]
fn what_was_never_had_is_neither_kept_nor_written() {
    let mut remote = remote();
    assert_eq!(
        remote.one(keep(all(1), Keep::ON), T),
        Decision::Kept(Kept::silently(false))
    );
    assert_eq!(
        remote.one(release(all(1)), T),
        Decision::Kept(Kept::silently(true))
    );
    let none = quota(1, 1, 1000);
    assert_eq!(
        remote.one(keep(none.clone(), Keep::ON), T),
        Decision::Kept(Kept::silently(true))
    );
    assert_eq!(remote.one(revoke(none), T), Decision::Done);
    let mut plain = (*ask(nothing(1))).clone();
    plain.wanted = None;
    for step in [Step::Keep(Leg::Owner, Keep::ON), Step::Revoke(Leg::Owner)] {
        let ask = Rc::new(plain.clone());
        remote.one(Item { ask, step }, T);
    }
    assert!(remote.keys().is_empty(), "{:?}", remote.keys());
}

#[test]
fn fences_grow() {
    let mut remote = remote();
    let mut last = Fence(0);
    let mut grows = |fence: Option<Fence>| {
        let fence = fence.unwrap();
        assert!(fence > last, "{fence:?} after {last:?}");
        last = fence;
    };
    // Several holders in one call, one after the other.
    let mut items = vec![whole(lock(1))];
    for id in 2..30 {
        items.extend([release(lock(id - 1)), whole(lock(id))]);
    }
    for decision in remote.call(&items, T).iter().step_by(2) {
        grows(granted(decision));
    }
    remote.one(release(lock(29)), T);
    // Taken and let go in one call: it counts.
    let both = [whole(lock(30)), release(lock(30))];
    grows(granted(&remote.call(&both, T)[0]));
    grows(remote.granted(lock(31), T));
    // A clock that is set back while nobody holds it.
    remote.one(release(lock(31)), T);
    assert_eq!(remote.server.say::<i64>(&format!("HLEN {LOCK}")), 1);
    grows(remote.granted(lock(32), T - 3_000_000));
    remote.one(release(lock(32)), T - 3_000_000);
    grows(remote.granted(lock(33), T + 1));
    remote.all_expire();
    // Redis' own time, and everything gone in between.
    remote.script.clock = Clock::Store;
    let mut last = Fence(0);
    for id in 0..200 {
        remote.server.say::<String>("FLUSHALL");
        let fence = remote.granted(lock(id), 0).unwrap();
        assert!(fence > last, "{fence:?} after {last:?}");
        last = fence;
    }
    let micros = time(&mut remote.server) * 1000;
    assert!(last.0.abs_diff(micros) < 60_000_000, "{last:?} {micros}");
}

#[test]
fn a_lock_that_is_free_remembers_its_fence_for_an_hour() {
    let mut remote = Remote::new(Clock::Store);
    remote.granted(lock(1), 0);
    let hour = 3_600_000;
    let ttl = remote.ttl(LOCK);
    assert!((hour + 59_000..=hour + 60_000).contains(&ttl), "{ttl}");
    remote.one(release(lock(1)), 0);
    let ttl = remote.ttl(LOCK);
    assert!((hour - 1000..=hour).contains(&ttl), "{ttl}");
    // Others go with the last who had them, or a minute after.
    remote.granted(lease(2, 1), 0);
    remote.granted(flight(2), 0);
    for key in [LEASE, FLIGHT] {
        let ttl = remote.ttl(key);
        assert!((119_000..=120_000).contains(&ttl), "{key}: {ttl}");
    }
    remote.call(&[release(lease(2, 1)), release(flight(2))], 0);
    assert_eq!(remote.held_keys(), [LOCK]);
    remote.granted(quota(3, 1, 3_600_000), 0);
    let ttl = remote.ttl(QUOTA);
    assert!((hour + 59_000..=hour + 60_000).contains(&ttl), "{ttl}");
    remote.one(revoke(lease(4, 1)), 0);
    let ttl = remote.ttl(LEASE);
    assert!((119_000..=120_000).contains(&ttl), "{ttl}");
}

#[test]
fn a_call_that_came_is_revoked() {
    let mut remote = remote();
    remote.granted(all(1), T);
    for _ in 0..2 {
        assert_eq!(remote.one(revoke(all(1)), T + 1), Decision::Done);
    }
    // What it had is free but for the quota.
    assert_eq!(remote.taken(all(2), T + 1), (Obstacle::Quota, 59_999));
    let rest = Wanted {
        quota: None,
        ..all(2)
    };
    remote.granted(rest, T + 1);
    remote.all_expire();
}

#[test]
fn a_call_that_comes_after_it_was_revoked_gets_nothing() {
    for step in [Step::Whole, Step::Part(Leg::Owner)] {
        let wants: [(Wanted, &str); 4] = [
            (all(1), LEASE),
            (lease(1, 1), LEASE),
            (lock(1), LOCK),
            (flight(1), FLIGHT),
        ];
        for (wanted, key) in wants {
            let mut remote = remote();
            let late = || Item {
                ask: ask(wanted.clone()),
                step,
            };
            for _ in 0..2 {
                assert_eq!(remote.one(revoke(wanted.clone()), T), Decision::Done);
            }
            assert_eq!(remote.held_keys(), [key]);
            remote.all_expire();
            // It pays nothing either, and the mark stays.
            for at in [T, T + 59_999] {
                assert_eq!(remote.one(late(), at), Decision::Done, "{key}");
                assert_eq!(remote.keys(), [key]);
            }
            // A mark takes nothing from others, and is not to be held on.
            let kept = remote.one(keep(wanted.clone(), Keep::ON), T + 1);
            assert_eq!(kept, Decision::Kept(Kept::silently(false)));
            remote.one(release(wanted.clone()), T + 1);
            let other = Wanted {
                id: HoldId(2),
                ..wanted.clone()
            };
            remote.granted(other.clone(), T + 1);
            remote.one(release(other), T + 2);
            assert_eq!(remote.one(late(), T + 3), Decision::Done, "{key}");
            // After a minute it is over.
            let expected = if wanted.quota.is_some() {
                assert_eq!(taken(&remote.one(late(), T + 60_000)).0, Obstacle::Quota);
                continue;
            } else {
                wanted.lock.is_some()
            };
            let fence = granted(&remote.one(late(), T + 60_000));
            assert_eq!(fence.is_some(), expected, "{key}");
            remote.all_expire();
        }
    }
}

#[test]
fn the_upstream_lets_go_by_what_it_was_told() {
    let wants = Wanted {
        quota: None,
        ..all(1)
    };
    let wants = |id| Wanted {
        flight: None,
        id: HoldId(id),
        ..wants.clone()
    };
    let mut remote = remote();
    remote.granted(wants(1), T);
    let told = remote.script.member(&ask(wants(1)));
    let words: Vec<&str> = told.split(' ').collect();
    let (_, keys) = words.split_last().unwrap();
    let count = keys.len().to_string();
    let mut command = vec!["EVAL", RELEASE, &count];
    command.extend(keys);
    command.push(&told);
    let command: Vec<String> = command.into_iter().map(str::to_owned).collect();
    remote.server.send(&command).unwrap();
    let fence = remote.granted(wants(2), T + 1).unwrap();
    assert!(fence > Fence(T * 1000));
    // The first one's name lets go of nothing of the second's.
    remote.server.send(&command).unwrap();
    assert_eq!(remote.taken(wants(3), T + 1).0, Obstacle::Lock);
    remote.one(release(wants(2)), T + 1);
    for (wanted, command) in [(lease(4, 1), "ZREM"), (lock(4), "HDEL")] {
        remote.granted(wanted.clone(), T + 2);
        let told = remote.script.member(&ask(wanted.clone()));
        let key = told.split(' ').next().unwrap();
        let gone = remote
            .server
            .send(&[command, key, &told].map(str::to_owned));
        assert_eq!(gone.unwrap(), redis::Value::Int(1));
        let next = Wanted {
            id: HoldId(5),
            ..wanted
        };
        remote.granted(next, T + 3);
    }
}

#[test]
fn of_a_kind_as_many_are_had_as_there_are_slots_now() {
    let mut remote = remote();
    let at = |id: u64| T + id * 1000;
    for id in 0..8 {
        remote.granted(lease(id, 8), at(id));
    }
    assert_eq!(remote.taken(lease(8, 8), at(8)), (Obstacle::Lease, 52_000));
    // Who lets go in the same call is not waited for any more.
    let items = [release(lease(0, 8)), whole(lease(8, 7))];
    let decisions = remote.call(&items, at(8));
    assert_eq!(taken(&decisions[1]), (Obstacle::Lease, 53_000));
    remote.granted(lease(0, 8), at(8));
    // Fewer slots: who has one keeps it, and nobody comes until there are fewer.
    assert_eq!(remote.taken(lease(8, 2), at(8)), (Obstacle::Lease, 53_000));
    for id in 0..6 {
        assert_eq!(
            remote.one(keep(lease(id, 2), Keep::ON), at(8)),
            Decision::Kept(Kept::silently(true))
        );
    }
    assert_eq!(remote.taken(lease(8, 2), at(8)), (Obstacle::Lease, 58_000));
    let gone: Vec<Item> = (0..6).map(|id| release(lease(id, 2))).collect();
    remote.call(&gone, at(9));
    assert_eq!(remote.taken(lease(8, 2), at(9)), (Obstacle::Lease, 57_000));
    assert_eq!(remote.taken(lease(8, 1), at(66) - 1), (Obstacle::Lease, 1));
    remote.granted(lease(8, 2), at(66));
    // More slots again, at once.
    remote.granted(lease(9, 1000), at(66));
    remote.granted(lease(10, 4), at(66));
    // What ran out is swept.
    assert_eq!(remote.server.say::<i64>(&format!("ZCARD {LEASE}")), 4);
    remote.granted(lease(11, 1), at(200));
    assert_eq!(remote.server.say::<i64>(&format!("ZCARD {LEASE}")), 1);
}

#[test]
fn a_quota_is_a_sliding_window() {
    let mut remote = remote();
    let hour = 3_600_000;
    let grants = [T, T + 10, T + 1000, T + 2_000_000, T + 2_000_001];
    for (id, at) in (0..).zip(grants) {
        remote.granted(quota(id, 5, hour), at);
    }
    let at = T + 2_000_002;
    let spent = |wait| (Obstacle::Quota, wait);
    assert_eq!(remote.taken(quota(5, 5, hour), at), spent(T + hour - at));
    // Fewer: until the third oldest is through.
    let third = T + 1000 + hour;
    assert_eq!(remote.taken(quota(5, 3, hour), at), spent(third - at));
    assert_eq!(
        remote.taken(quota(5, 1, hour), at),
        spent(T + 2_000_001 + hour - at)
    );
    // The wait is exact.
    assert_eq!(remote.taken(quota(5, 3, hour), third - 1), spent(1));
    remote.granted(quota(5, 3, hour), third);
    // Three are left in the window: 2_000_000, 2_000_001 and this one.
    assert_eq!(remote.server.say::<i64>(&format!("ZCARD {QUOTA}")), 3);
    // A shorter window, and a longer one.
    remote.granted(quota(6, 2, 60_000), third);
    assert_eq!(remote.taken(quota(7, 2, 60_000), third + 1), spent(59_999));
    remote.granted(quota(7, 3, hour), third + hour);
    remote.all_expire();
    // Several in one call know of each other.
    remote.server.say::<String>("FLUSHALL");
    let items: Vec<Item> = (0..6).map(|id| whole(quota(id, 4, hour))).collect();
    let decisions = remote.call(&items, T);
    for decision in &decisions[..4] {
        granted(decision);
    }
    for decision in &decisions[4..] {
        assert_eq!(taken(decision), spent(hour));
    }
    // A mix of those before and those of this call: the second oldest, then the fifth.
    let items = [
        whole(quota(10, 6, hour)),
        whole(quota(11, 6, hour)),
        whole(quota(12, 6, hour)),
        whole(quota(12, 5, hour)),
        whole(quota(12, 2, hour)),
    ];
    let decisions = remote.call(&items, T + 50);
    let waits: Vec<_> = decisions[2..].iter().map(|d| taken(d).1).collect();
    assert_eq!(waits, [hour - 50, hour - 50, hour]);
}

#[test]
fn after_a_clock_was_set_back_a_quota_waits_for_no_longer_than_its_window() {
    let mut remote = remote();
    remote.granted(quota(1, 1, 60_000), T);
    let back = T - 10_000_000;
    assert_eq!(
        remote.taken(quota(2, 1, 60_000), back),
        (Obstacle::Quota, 60_000)
    );
    remote.granted(quota(2, 2, 60_000), back);
    remote.all_expire();
}

#[test]
fn keys_of_another_type_are_not_ours_and_make_room() {
    for other in ["LPUSH", "SADD"] {
        let mut remote = remote();
        for key in [LEASE, LOCK, FLIGHT, QUOTA] {
            remote.server.say::<i64>(&format!("{other} {key} x"));
        }
        // Nothing is there to be kept, and nothing is written.
        assert_eq!(
            remote.one(keep(all(1), Keep::ON), T),
            Decision::Kept(Kept::silently(false))
        );
        remote.one(release(all(1)), T);
        let kind: String = remote.server.say(&format!("TYPE {LEASE}"));
        assert!(["list", "set"].contains(&kind.as_str()), "{kind}");
        assert!(remote.granted(all(1), T).is_some());
        assert_eq!(remote.taken(all(2), T), (Obstacle::Flight, 60_000));
        remote.all_expire();
    }
    let mut remote = remote();
    remote.server.say::<String>(&format!("SET {LEASE} x"));
    remote.one(revoke(all(1)), T);
    assert_eq!(remote.one(whole(all(1)), T), Decision::Done);
    remote.all_expire();
}

#[test]
fn what_others_left_in_our_keys_is_nobodys() {
    let mut remote = remote();
    for left in [
        "x", "nan", "inf", "-inf", "1e300", "-1e300", "{}", "0", "-0",
    ] {
        remote.server.say::<String>("FLUSHALL");
        for key in [LOCK, FLIGHT] {
            remote
                .server
                .say::<i64>(&format!("HSET {key} somebody {left} fence {left}"));
        }
        if left.parse::<f64>().is_ok_and(|score| !score.is_nan()) {
            for key in [LEASE, QUOTA] {
                remote
                    .server
                    .say::<i64>(&format!("ZADD {key} {left} somebody"));
            }
        }
        let fence = remote.granted(all(1), T);
        assert_eq!(fence, Some(Fence(T * 1000)), "{left}");
        for key in [LOCK, FLIGHT] {
            let there: bool = remote.server.say(&format!("HEXISTS {key} somebody"));
            assert!(!there, "{left} in {key} is swept");
        }
        remote.all_expire();
        remote.one(release(all(1)), T + 1);
        remote.all_expire();
    }
    // An operator may hold a lease, with a fraction and for long; and a fence may be as far as it goes.
    remote.server.say::<String>("FLUSHALL");
    remote
        .server
        .say::<i64>(&format!("ZADD {LEASE} {}.5 operator", T + 100_000));
    remote
        .server
        .say::<i64>(&format!("HSET {LOCK} fence 9007199254740992"));
    assert_eq!(remote.taken(all(1), T), (Obstacle::Lease, 100_001));
    remote.granted(lease(1, 2), T);
    let ttl = remote.ttl(LEASE);
    assert!(ttl > 100_000, "{ttl}");
    remote.granted(lock(1), T).unwrap();
}

#[test]
fn a_full_redis_holds_nothing_for_anybody() {
    let mut remote = remote();
    remote.granted(all(1), T);
    remote.server.say::<String>("CONFIG SET maxmemory 1");
    let before = remote.keys();
    let is_full = |remote: &mut Remote, items: &[Item]| {
        let command = remote.script.call(items, WORD, Millis(T + 1));
        let error = remote.server.send(&command).unwrap_err().to_string();
        assert!(error.contains("OOM"), "{error}");
    };
    let other = || Wanted {
        quota: None,
        ..all(2)
    };
    is_full(&mut remote, &[whole(other())]);
    // Whatever else is in the call, and in whichever order.
    let parts = Keep {
        lease: Millis(0),
        ..Keep::ON
    };
    for items in [
        [release(all(1)), whole(other())],
        [whole(other()), release(all(1))],
        [release(all(1)), revoke(lease(9, 1))],
        [release(lock(9)), keep(all(1), Keep::ON)],
        [keep(all(1), parts), release(lock(9))],
    ] {
        is_full(&mut remote, &items);
    }
    let holder = remote.script.member(&ask(all(1)));
    let there = ["ZSCORE", LEASE, &holder].map(str::to_owned);
    let there: u64 = redis::from_redis_value(remote.server.send(&there).unwrap()).unwrap();
    assert_eq!(there, T + 60_000, "nothing was let go, or held on");
    assert_eq!(remote.keys(), before);
    // Keys of another type do not open a way.
    remote.server.say::<String>("CONFIG SET maxmemory 0");
    remote.server.say::<String>("FLUSHALL");
    for key in [
        "p:rl:{t:acme}:tb:k",
        "p:rl:{t:acme}:tb",
        "p:rl:{ip:2001:db8::}:tb",
        LEASE,
    ] {
        remote.server.say::<i64>(&format!("LPUSH {key} x"));
    }
    remote.server.say::<String>("CONFIG SET maxmemory 1");
    is_full(&mut remote, &[whole(other())]);
    remote.server.say::<String>("CONFIG SET maxmemory 0");
    remote.granted(all(1), T);
    // Letting go takes no memory, so it works.
    remote.server.say::<String>("CONFIG SET maxmemory 1");
    assert_eq!(
        remote.one(release(all(1)), T + 1),
        Decision::Kept(Kept::silently(true))
    );
    remote.server.say::<String>("CONFIG SET maxmemory 0");
    remote.granted(other(), T + 1);
    remote.all_expire();
}

#[test]
fn a_user_without_the_right_to_our_commands_is_told_so_and_pays_nothing() {
    let mut remote = remote();
    remote
        .server
        .say::<()>("ACL SETUSER default resetpass nopass ~* +@all -zcount -hgetall");
    let items = [whole(all(1))];
    let command = remote.script.call(&items, WORD, Millis(T));
    let error = remote.server.send(&command).unwrap_err().to_string();
    assert!(error.contains("can't run this command"), "{error}");
    assert!(remote.keys().is_empty(), "{:?}", remote.keys());
}

#[test]
fn the_rights_that_operators_are_told_to_give_are_enough() {
    let manual = include_str!("../../docs/redis.md");
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
    for shadow in [false, true] {
        let all = |id| {
            let mut item = whole(all(id));
            Rc::make_mut(&mut item.ask).shadow = shadow;
            item
        };
        let step = |id, step| Item { step, ..all(id) };
        granted(&remote.one(all(1), T));
        assert_eq!(taken(&remote.one(all(2), T)).0, Obstacle::Flight);
        let decisions = remote.call(
            &[
                step(1, Step::Keep(Leg::Owner, Keep::ON)),
                step(1, Step::Keep(Leg::Owner, Keep::NOTHING)),
                all(2),
                step(3, Step::Revoke(Leg::Owner)),
            ],
            T,
        );
        assert_eq!(taken(&decisions[2]).0, Obstacle::Quota);
        let full = Wanted {
            quota: None,
            ..self::all(4)
        };
        let mut item = whole(full);
        Rc::make_mut(&mut item.ask).shadow = shadow;
        granted(&remote.one(item.clone(), T));
        let mut other = item;
        if let Some(wanted) = &mut Rc::make_mut(&mut other.ask).wanted {
            (wanted.flight, wanted.lock) = (None, None);
        }
        assert_eq!(taken(&remote.one(other, T)).0, Obstacle::Lease);
    }
}

#[test]
fn with_callers_clocks_what_is_held_knows_the_later_one() {
    let mut remote = Remote::new(Clock::Store);
    remote
        .server
        .say::<()>("ACL SETUSER default resetpass nopass ~* +@all -time");
    let now = time_of_system();
    let ahead = now + 300_000;
    let fence = remote.granted(all(1), ahead).unwrap();
    assert_eq!(fence, Fence(ahead * 1000));
    // A gateway that is behind: nothing lasts for longer there, and nothing is held on by its own clock.
    assert_eq!(remote.taken(all(2), now), (Obstacle::Flight, 60_000));
    assert_eq!(
        remote.one(keep(all(1), Keep::ON), now + 5),
        Decision::Kept(Kept::silently(true))
    );
    assert_eq!(remote.taken(all(2), ahead + 10), (Obstacle::Flight, 59_990));
    assert_eq!(remote.one(revoke(all(1)), now), Decision::Done);
    assert_eq!(remote.one(revoke(all(3)), now), Decision::Done);
    assert_eq!(remote.one(whole(all(3)), ahead + 60_009), Decision::Done);
    let next = Wanted {
        quota: None,
        ..all(4)
    };
    assert!(remote.granted(next, now).unwrap() > fence);
    remote.all_expire();
}

/// The time of this machine, as a gateway has it.
fn time_of_system() -> u64 {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

#[test]
fn a_call_of_everything_at_once() {
    let mut remote = remote();
    let plain = Item {
        ask: key("other", 1),
        step: Step::Whole,
    };
    remote.granted(all(100), T);
    let mut items = vec![
        keep(all(100), Keep::ON),
        revoke(all(101)),
        whole(all(101)),
        release(all(100)),
    ];
    for id in 0..15 {
        items.push(plain.clone());
        items.push(whole(lease(id, 10)));
        items.push(whole(lock(id)));
        items.push(release(lock(id)));
    }
    assert_eq!(items.len(), 64);
    let decisions = remote.call(&items, T + 1);
    assert_eq!(decisions[0], Decision::Kept(Kept::silently(true)));
    assert_eq!(decisions[1], Decision::Done);
    assert_eq!(decisions[2], Decision::Done);
    assert_eq!(decisions[3], Decision::Kept(Kept::silently(true)));
    let mut last = None;
    for (id, four) in decisions[4..].chunks(4).enumerate() {
        let allowed = matches!(four[0], Decision::Verdict(Verdict::Allowed(_, None)));
        assert_eq!(allowed, id < 10, "{four:?}");
        if id < 10 {
            assert_eq!(granted(&four[1]), None);
        } else {
            assert_eq!(taken(&four[1]), (Obstacle::Lease, 60_000));
        }
        let fence = granted(&four[2]);
        assert!(fence > last, "{fence:?} {last:?}");
        last = fence;
        assert_eq!(four[3], Decision::Kept(Kept::silently(true)));
    }
    // Ten leases and a mark.
    assert_eq!(remote.server.say::<i64>(&format!("ZCARD {LEASE}")), 11);
    remote.all_expire();
}

#[test]
fn the_largest_call_fits_four_kilobytes() {
    // What a proxy adds to it (fields of its own, the front's credentials) is less than this.
    let largest = largest_path(None);
    println!("the largest path has {largest} bytes");
    assert!(largest + 1024 < 4096, "{largest}");
}

#[test]
fn the_largest_call_that_is_an_attempt_too_fits_four_kilobytes() {
    let name = |n: u32| "n".repeat(23) + &n.to_string();
    let address = "fd12:3456:789a:bcde:f012:3456:789a:bcde";
    let long = |name: String, who: Who| Attempt {
        throttle: ThrottleId(0),
        name: name.into(),
        who,
        failures: 1000,
        within: Millis(2_678_400_000),
        levels: [Millis(7_776_000_000); 3],
        max_level: 3,
        offense_memory: Millis(7_776_000_000),
        provisional: true,
        spares: matches!(who, Who::Subject(_)),
        resets: true,
    };
    let under = |who: [Who; 3], subjects: usize| Attempts {
        address: Address::Ip(address.parse().unwrap()),
        subjects: (0..subjects).map(|n| Id::hashed(&[n as u8])).collect(),
        list: (1..).zip(who).map(|(n, who)| long(name(n), who)).collect(),
        stuffing: Some((
            Stuffing {
                failures: 100_000,
                subjects: 100_000,
                within: Millis(2_678_400_000),
            },
            Millis(7_776_000_000),
        )),
    };
    // One of each kind; and by two names of the caller, each of which spares.
    for (who, subjects) in [
        ([Who::Ip, Who::Subject(0), Who::Pair(0)], 1),
        ([Who::Ip, Who::Subject(0), Who::Subject(1)], 2),
    ] {
        let largest = largest_path(Some(under(who, subjects)));
        println!("the largest path of {who:?} has {largest} bytes");
        assert!(largest < 3800, "{largest}");
    }
}

/// The largest path of a call for one tenant with the longest identifiers, which wants all there is.
fn largest_path(attempts: Option<Attempts>) -> usize {
    let config = r#"{"store": {"kind": "redis", "upstream": "redis-front"}}"#;
    let config = Config::parse(config.as_bytes(), &|_| None).unwrap();
    let StoreKind::Redis(redis) = &config.store.kind else {
        panic!("{:?}", config.store);
    };
    let front = Front::new(redis);
    let kind = || -> Rc<str> { "k".repeat(24).into() };
    let long = |of: &str| Id::of(of.repeat(64).as_bytes());
    let limit = meter(999_999, 86_399, 999_999);
    let outcome = |failed, succeeded| Keep {
        outcome: Some(Outcome {
            started: Millis(T),
            failed,
            succeeded,
        }),
        ..Keep::ON
    };
    let mut largest = 0;
    let mut ask = (*key("k", 999_998)).clone();
    ask.subject = Subject::Key {
        tenant: long("t"),
        key: long("k"),
        tenant_meter: limit,
        key_meter: limit,
        ip: Some((
            Address::Ip("fd12:3456:789a:bcde:f012:3456:789a:bcde".parse().unwrap()),
            limit,
        )),
    };
    ask.grace = Millis(3_600_000);
    ask.penalty.terms.levels = [Millis(7_776_000_000); 3];
    ask.wanted = Some(Wanted {
        id: HoldId(u64::MAX),
        flight: Some(Id::hashed(b"x")),
        lock: Some(long("l")),
        lease: Some(LeaseWanted {
            kind: kind(),
            slots: 1000,
        }),
        quota: Some(QuotaWanted {
            kind: kind(),
            requests: 10_000,
            per: Millis(7_776_000_000),
        }),
        attempts: attempts.map(Rc::new),
    });
    for strictness in [Strictness::Enforced, Strictness::Watched, Strictness::Off] {
        ask.penalty.strictness = strictness;
        let mut steps = vec![Step::Whole];
        for leg in ask.legs() {
            let keeps = [
                Keep::ON,
                Keep::NOTHING,
                outcome(u32::MAX, false),
                outcome(0, true),
            ];
            steps.extend(keeps.map(|keep| Step::Keep(leg, keep)));
            steps.extend([Step::Part(leg), Step::Revoke(leg)]);
        }
        for step in steps {
            let items = [Item {
                ask: Rc::new(ask.clone()),
                step,
            }];
            let script = Script {
                key_prefix: String::new(),
                clock: Clock::Store,
            };
            let command = script.call(&items, WORD, Millis(T));
            let call = front.call(&[command]).remove(0);
            assert_eq!(call.header(":method"), Some("GET"), "{step:?}");
            largest = largest.max(call.header(":path").unwrap().len());
        }
    }
    largest
}
