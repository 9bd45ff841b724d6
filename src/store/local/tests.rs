//! Tests of `local`.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use proptest::prelude::*;
use tollgate_config::{Bytes, Limit, Millis, Points, Seconds};

use super::heap::Heap;
use super::memory::{Changed, Memory, Slot};
use super::{Local, PAGE_SIZE};
use crate::client_ip::Address;
use crate::identity::Id;
use crate::limit::{bucket::Meter, decision::Strictness, penalty::Terms};
use crate::store::{Ask, BoxTerms, Store, Subject, Toll};
use crate::verdict::{Boxed, Policy, Scope, Standing, Standings, Throttled, Verdict};

mod attempts;
mod holds;

pub(super) const NOW: Millis = Millis(1_700_000_000_000);
pub(super) const SIZE: Bytes = Bytes(64 * 1024);
pub(super) const SECRET: [u64; 2] = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];

/// So many points a minute, a burst of so many.
pub(super) fn meter(points: u64, burst: u64) -> Meter {
    Meter::new(Limit {
        points: Points(points),
        per: Seconds(60),
        burst: Points(burst),
    })
}

fn address(last: u8) -> Address {
    Address::Ip(IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)))
}

fn terms() -> BoxTerms {
    BoxTerms {
        terms: Terms {
            strikes: 3,
            within: Millis(60_000),
            offense_memory: Millis(24 * 3_600_000),
            levels: [300_000, 3_600_000, 86_400_000].map(Millis),
            max_level: 3,
        },
        strictness: Strictness::Enforced,
    }
}

/// A request of cost 1: the key has 2 points of 60 a minute, the tenant 5 of 60.
pub(super) fn key(tenant: &str, key: &str) -> Ask {
    Ask {
        subject: Subject::Key {
            tenant: Id::of(tenant.as_bytes()),
            key: Id::of(key.as_bytes()),
            tenant_meter: meter(60, 5),
            key_meter: meter(60, 2),
            ip: None,
        },
        cost: 1,
        shadow: false,
        grace: Millis(0),
        wanted: None,
        penalty: terms(),
    }
}

/// The same, from an address with an `ip_limit` of 60 a minute and 10 points.
pub(super) fn key_from(last: u8, tenant: &str, named: &str) -> Ask {
    let mut ask = key(tenant, named);
    if let Subject::Key { ip, .. } = &mut ask.subject {
        *ip = Some((address(last), meter(60, 10)));
    }
    ask
}

/// A request of cost 1 of an address with 2 points of 60 a minute.
pub(super) fn anonymous(last: u8) -> Ask {
    Ask {
        subject: Subject::Anonymous {
            address: address(last),
            meter: meter(60, 2),
            ip_meter: None,
        },
        ..key("", "")
    }
}

fn anonymous_with_ip_limit(last: u8, burst: u64) -> Ask {
    let mut ask = anonymous(last);
    if let Subject::Anonymous { ip_meter, .. } = &mut ask.subject {
        *ip_meter = Some(meter(60, burst));
    }
    ask
}

pub(super) fn shadow(ask: Ask) -> Ask {
    Ask {
        shadow: true,
        ..ask
    }
}

pub(super) fn strictly(strictness: Strictness, mut ask: Ask) -> Ask {
    ask.penalty.strictness = strictness;
    ask
}

pub(super) fn open<M: Memory>(memory: M) -> Local<M> {
    Local::open(memory, SIZE, PAGE_SIZE, SECRET)
}

fn ask<M: Memory>(store: &mut Local<M>, ask: &Ask) -> Verdict {
    let (verdict, toll) = store.decide(ask, NOW);
    assert_eq!(toll, Toll::default());
    verdict
}

pub(super) fn allowed(verdict: Verdict) -> Standings {
    match verdict {
        Verdict::Allowed(standings, _) => standings,
        other => panic!("not allowed: {other:?}"),
    }
}

pub(super) fn throttled(verdict: Verdict) -> Throttled {
    match verdict {
        Verdict::Throttled(throttled) => throttled,
        other => panic!("not throttled: {other:?}"),
    }
}

pub(super) fn boxed(verdict: Verdict) -> Boxed {
    match verdict {
        Verdict::Boxed(boxed) => boxed,
        other => panic!("not boxed: {other:?}"),
    }
}

pub(super) fn left(standings: &Standings) -> Vec<(Policy, u64)> {
    standings.iter().map(|s| (s.policy, s.remaining)).collect()
}

/// Asks until the box answers; the one that tripped it.
pub(super) fn until_boxed<M: Memory>(store: &mut Local<M>, question: &Ask) -> Boxed {
    let tripped = (0..100).find_map(|_| match store.decide(question, NOW).0 {
        Verdict::Boxed(boxed) => Some(boxed),
        _ => None,
    });
    tripped.unwrap()
}

#[test]
fn key_and_tenant_are_debited_or_neither() {
    let mut store = open(Heap::default());
    let standing = |policy, remaining| (policy, remaining);
    for (first, tenant) in [(1, 4), (0, 3)] {
        let standings = allowed(ask(&mut store, &key("t", "a")));
        let expected = [
            standing(Policy::Key, first),
            standing(Policy::Tenant, tenant),
        ];
        assert_eq!(left(&standings), expected);
    }
    let refused = throttled(ask(&mut store, &key("t", "a")));
    assert_eq!(refused.wait, Millis(1000));
    assert_eq!(refused.strikes_left, Some(3));
    assert_eq!(
        left(&refused.standings),
        [(Policy::Key, 0), (Policy::Tenant, 3)]
    );
    let waits: Vec<u64> = refused.standings.iter().map(|s| s.wait.0).collect();
    assert_eq!(waits, [1000, 0]);

    // The tenant's points go to its other keys, and then it is the tenant that refuses.
    allowed(ask(&mut store, &key("t", "b")));
    allowed(ask(&mut store, &key("t", "b")));
    let standings = allowed(ask(&mut store, &key("t", "c")));
    assert_eq!(left(&standings), [(Policy::Key, 1), (Policy::Tenant, 0)]);
    let refused = throttled(ask(&mut store, &key("t", "c")));
    assert_eq!(
        left(&refused.standings),
        [(Policy::Key, 1), (Policy::Tenant, 0)]
    );
}

#[test]
fn standings_tell_the_time_to_full_after_the_decision() {
    let mut store = open(Heap::default());
    let standings = allowed(ask(&mut store, &key("t", "a")));
    let expected = Standing {
        policy: Policy::Key,
        meter: meter(60, 2),
        remaining: 1,
        reset: Millis(1000),
        wait: Millis(0),
    };
    assert_eq!(standings.iter().next(), Some(&expected));
}

#[test]
fn refused_by_key_or_tenant_the_address_gets_its_point_back() {
    let mut store = open(Heap::default());
    allowed(ask(&mut store, &key_from(1, "t", "a")));
    let standings = allowed(ask(&mut store, &key_from(1, "t", "a")));
    let expected = [(Policy::Key, 0), (Policy::Tenant, 3), (Policy::Ip, 8)];
    assert_eq!(left(&standings), expected);
    // By the key.
    for _ in 0..2 {
        let refused = throttled(ask(&mut store, &key_from(1, "t", "a")));
        assert_eq!(left(&refused.standings), expected);
        let waits: Vec<bool> = refused.standings.iter().map(|s| s.wait.0 > 0).collect();
        assert_eq!(waits, [true, false, false]);
    }
    // By the tenant.
    for named in ["b", "b", "c"] {
        allowed(ask(&mut store, &key_from(2, "t", named)));
    }
    throttled(ask(&mut store, &key_from(1, "t", "c")));
    let standings = allowed(ask(&mut store, &key_from(1, "u", "a")));
    assert_eq!(
        left(&standings),
        [(Policy::Key, 1), (Policy::Tenant, 4), (Policy::Ip, 7)]
    );
}

#[test]
fn refused_by_the_address_key_and_tenant_are_untouched_and_nobody_is_struck() {
    let mut store = open(Heap::default());
    for tenant in 0..5 {
        for _ in 0..2 {
            allowed(ask(&mut store, &key_from(1, &format!("t{tenant}"), "a")));
        }
    }
    for _ in 0..200 {
        let refused = throttled(ask(&mut store, &key_from(1, "new", "a")));
        assert_eq!(left(&refused.standings), [(Policy::Ip, 0)]);
        assert_eq!(refused.wait, Millis(1000));
        assert_eq!(refused.strikes_left, None);
    }
    let standings = allowed(ask(&mut store, &key("new", "a")));
    assert_eq!(left(&standings), [(Policy::Key, 1), (Policy::Tenant, 4)]);
}

#[test]
fn an_address_limit_takes_one_point_whatever_the_request_costs() {
    let mut store = open(Heap::default());
    let dear = Ask {
        cost: 2,
        ..key_from(1, "t", "a")
    };
    let standings = allowed(ask(&mut store, &dear));
    let expected = [(Policy::Key, 0), (Policy::Tenant, 3), (Policy::Ip, 9)];
    assert_eq!(left(&standings), expected);
    let dear = Ask {
        cost: 2,
        ..anonymous_with_ip_limit(2, 10)
    };
    let standings = allowed(ask(&mut store, &dear));
    assert_eq!(left(&standings), [(Policy::Ip, 9), (Policy::Anonymous, 0)]);
}

#[test]
fn anonymous_and_address_limit_are_debited_or_neither() {
    let mut store = open(Heap::default());
    let standings = allowed(ask(&mut store, &anonymous_with_ip_limit(1, 1)));
    assert_eq!(left(&standings), [(Policy::Ip, 0), (Policy::Anonymous, 1)]);
    let refused = throttled(ask(&mut store, &anonymous_with_ip_limit(1, 1)));
    assert_eq!(
        left(&refused.standings),
        [(Policy::Ip, 0), (Policy::Anonymous, 1)]
    );
}

#[test]
fn anonymous_and_authenticated_requests_of_an_address_share_its_limit() {
    let mut store = open(Heap::default());
    allowed(ask(&mut store, &anonymous_with_ip_limit(1, 10)));
    let standings = allowed(ask(&mut store, &key_from(1, "t", "a")));
    assert_eq!(left(&standings)[2], (Policy::Ip, 8));
}

#[test]
fn a_box_answers_before_any_bucket() {
    let mut store = open(Heap::default());
    let tripped = until_boxed(&mut store, &key_from(1, "t", "a"));
    let lockout = tripped.lockout;
    assert_eq!(
        (lockout.level, lockout.until),
        (1, NOW.plus(Millis(300_000)))
    );
    assert_eq!((tripped.scope, tripped.tripped), (Scope::Key, true));
    // Two points were admitted: the tripping request and all refused before have theirs back.
    for _ in 0..50 {
        let again = boxed(ask(&mut store, &key_from(1, "t", "a")));
        assert_eq!(
            again,
            Boxed {
                tripped: false,
                ..tripped
            }
        );
    }
    let standings = allowed(ask(&mut store, &key_from(1, "t", "b")));
    assert_eq!(
        left(&standings),
        [(Policy::Key, 1), (Policy::Tenant, 2), (Policy::Ip, 7)]
    );
    // Where the address is exhausted, the box still answers first.
    for number in 0..7 {
        allowed(ask(&mut store, &key_from(1, &format!("u{number}"), "a")));
    }
    throttled(ask(&mut store, &key_from(1, "u9", "a")));
    boxed(ask(&mut store, &key_from(1, "t", "a")));
}

#[test]
fn a_box_is_of_one_key_and_ends() {
    let mut store = open(Heap::default());
    let end = until_boxed(&mut store, &key("t", "a")).lockout.until;
    allowed(ask(&mut store, &key("t", "b")));
    allowed(ask(&mut store, &key("u", "a")));
    boxed(store.decide(&key("t", "a"), Millis(end.0 - 1)).0);
    // Strikes and promises were cleared: a fresh start, but the offense is remembered.
    let standings = allowed(store.decide(&key("t", "a"), end).0);
    assert_eq!(left(&standings), [(Policy::Key, 1), (Policy::Tenant, 4)]);
    let mut verdicts = (0..100).map(|_| store.decide(&key("t", "a"), end).0);
    let second = verdicts.find(|v| matches!(v, Verdict::Boxed(_))).unwrap();
    assert_eq!(boxed(second).lockout.level, 2);
}

#[test]
fn a_box_of_an_address_stops_only_its_anonymous_requests() {
    let mut store = open(Heap::default());
    assert_eq!(until_boxed(&mut store, &anonymous(1)).scope, Scope::Ip);
    boxed(ask(&mut store, &anonymous_with_ip_limit(1, 10)));
    allowed(ask(&mut store, &key_from(1, "t", "a")));
    allowed(ask(&mut store, &anonymous(2)));
}

#[test]
fn asking_for_a_box_changes_nothing() {
    let heap = Heap::default();
    let mut store = open(heap.clone());
    let bytes = |heap: &Heap| -> BTreeMap<String, Slot> {
        let names = heap.names().into_iter();
        names.map(|n| (n.clone(), heap.read(&n).unwrap())).collect()
    };
    for question in [key_from(1, "t", "a"), anonymous_with_ip_limit(1, 10)] {
        assert_eq!(store.lockout(&question, NOW), None);
        let tripped = until_boxed(&mut store, &question);
        let before = bytes(&heap);
        let found = store.lockout(&question, NOW);
        assert_eq!(
            found,
            Some(Boxed {
                tripped: false,
                ..tripped
            })
        );
        assert_eq!(store.lockout(&question, tripped.lockout.until), None);
        for other in [Strictness::Watched, Strictness::Off] {
            assert_eq!(store.lockout(&strictly(other, question.clone()), NOW), None);
        }
        assert_eq!(store.lockout(&shadow(question.clone()), NOW), None);
        assert_eq!(bytes(&heap), before);
    }
}

#[test]
fn shadow_state_is_apart_from_the_real_one() {
    for question in [key_from(1, "t", "a"), anonymous_with_ip_limit(1, 10)] {
        let mut store = open(Heap::default());
        let first = allowed(ask(&mut store, &shadow(question.clone())));
        until_boxed(&mut store, &shadow(question.clone()));
        // The real one starts afresh, and the shadow goes on where it was.
        let real = allowed(ask(&mut store, &question));
        assert_eq!(left(&real), left(&first));
        boxed(ask(&mut store, &shadow(question.clone())));
        until_boxed(&mut store, &question);
        let other = Ask {
            subject: key_from(1, "t", "b").subject,
            ..question
        };
        allowed(ask(&mut store, &other));
    }
}

#[test]
fn a_watched_box_is_apart_but_shares_the_buckets() {
    let mut store = open(Heap::default());
    let watched = strictly(Strictness::Watched, key("t", "a"));
    allowed(ask(&mut store, &watched));
    let standings = allowed(ask(&mut store, &watched));
    assert_eq!(left(&standings), [(Policy::Key, 0), (Policy::Tenant, 3)]);
    let trips: Vec<_> = (0..100)
        .filter_map(|_| throttled(ask(&mut store, &watched)).would_box)
        .collect();
    assert_eq!(trips.len(), 1, "told once, refused never");
    let (scope, lockout) = trips[0];
    assert_eq!((scope, lockout.level), (Scope::Key, 1));
    // Enforced from now on: no strike is held against the key, but its bucket is empty.
    let refused = throttled(ask(&mut store, &key("t", "a")));
    assert_eq!(
        left(&refused.standings),
        [(Policy::Key, 0), (Policy::Tenant, 3)]
    );
    assert!(refused.strikes_left >= Some(2));
    assert_eq!(store.lockout(&key("t", "a"), NOW), None);
    // And the other way round.
    until_boxed(&mut store, &key("t", "b"));
    throttled(ask(
        &mut store,
        &strictly(Strictness::Watched, key("t", "b")),
    ));
}

#[test]
fn without_a_penalty_box_there_is_none() {
    let mut store = open(Heap::default());
    let off = strictly(Strictness::Off, key("t", "a"));
    for _ in 0..2 {
        allowed(ask(&mut store, &off));
    }
    for _ in 0..200 {
        let refused = throttled(ask(&mut store, &off));
        assert_eq!(refused.would_box, None);
    }
}

#[test]
fn equal_names_of_different_owners_are_different() {
    // All on one page.
    let size = Bytes(PAGE_SIZE as u64);
    let mut store = Local::open(Heap::default(), size, PAGE_SIZE, SECRET);
    let owners = [
        key("a", "bc"),
        key("ab", "c"),
        key("abc", "c"),
        key("b", "bc"),
        key("bc", "a"),
        key("t", "ip"),
        key("ip", "t"),
    ];
    for owner in &owners {
        let standings = allowed(ask(&mut store, owner));
        assert_eq!(left(&standings), [(Policy::Key, 1), (Policy::Tenant, 4)]);
    }
    for owner in owners {
        let standings = allowed(ask(&mut store, &shadow(owner)));
        assert_eq!(left(&standings), [(Policy::Key, 1), (Policy::Tenant, 4)]);
    }
}

#[test]
fn a_changed_limit_keeps_what_is_spent() {
    let mut store = open(Heap::default());
    allowed(ask(&mut store, &key("t", "a")));
    let mut raised = key("t", "a");
    if let Subject::Key {
        tenant_meter,
        key_meter,
        ..
    } = &mut raised.subject
    {
        (*key_meter, *tenant_meter) = (meter(70, 4), meter(77, 7));
    }
    let standings = allowed(ask(&mut store, &raised));
    assert_eq!(left(&standings), [(Policy::Key, 2), (Policy::Tenant, 5)]);
}

#[test]
fn the_second_opener_finds_the_secret_and_the_state_of_the_first() {
    let heap = Heap::default();
    let mut first = open(heap.clone());
    allowed(ask(&mut first, &key("t", "a")));
    let mut second = Local::open(heap.clone(), SIZE, PAGE_SIZE, [1, 2]);
    let standings = allowed(ask(&mut second, &key("t", "a")));
    assert_eq!(left(&standings), [(Policy::Key, 0), (Policy::Tenant, 3)]);
    throttled(ask(&mut first, &key("t", "a")));
}

#[test]
fn whose_page_is_whose_depends_on_the_secret() {
    let page_of = |secret: [u64; 2], tenant: u32| {
        let heap = Heap::default();
        let mut store = Local::open(heap.clone(), SIZE, PAGE_SIZE, secret);
        let empty = |heap: &Heap| heap.size();
        let before = empty(&heap);
        allowed(ask(&mut store, &key(&format!("t{tenant}"), "a")));
        assert!(empty(&heap) > before);
        let mut names = heap.names();
        names.sort();
        let longest = names
            .into_iter()
            .max_by_key(|n| heap.read(n).unwrap().bytes.len());
        longest.unwrap()
    };
    let pages = |secret| -> Vec<String> { (0..20).map(|t| page_of(secret, t)).collect() };
    assert_eq!(pages(SECRET), pages(SECRET));
    assert_ne!(pages(SECRET), pages([1, 2]));
    assert!(
        pages(SECRET).into_iter().collect::<BTreeSet<_>>().len() > 8,
        "spread over 16 pages"
    );
}

#[test]
fn memory_never_grows_past_its_size() {
    let heap = Heap::default();
    let mut store = open(heap.clone());
    let names = heap.names().len();
    let mut now = NOW;
    let mut evictions = 0;
    for number in 0..6000u32 {
        now = now.plus(Millis(1));
        let tenant = format!("t{}", number % 1500);
        let key = key_from((number % 251) as u8, &tenant, &format!("k{number}"));
        let [_, ip, ..] = number.to_le_bytes();
        for question in [key, anonymous((number % 255) as u8), anonymous(ip)] {
            let (verdict, toll) = store.decide(&question, now);
            assert_ne!(verdict, Verdict::Contended);
            evictions += toll.evictions;
        }
    }
    assert!(evictions > 1000, "the flood was too small: {evictions}");
    assert_eq!(
        heap.names().len(),
        names,
        "slots are made at the start only"
    );
    let pages = heap.names().into_iter().filter(|n| !n.ends_with("/ready"));
    let bytes: usize = pages.map(|n| heap.read(&n).unwrap().bytes.len()).sum();
    assert!(bytes as u64 <= SIZE.0, "{bytes} bytes");
}

#[test]
fn foreign_bytes_in_memory_are_no_state() {
    for (length, byte) in [
        (0, 0),
        (1, 1),
        (15, 1),
        (16, 1),
        (64, 1),
        (64, 0xff),
        (9000, 1),
    ] {
        let heap = Heap::default();
        let mut store = open(heap.clone());
        for name in heap.names() {
            heap.write(&name, &vec![byte; length], 0).unwrap();
        }
        for question in [key_from(1, "t", "a"), anonymous_with_ip_limit(1, 10)] {
            let _ = store.lockout(&question, NOW);
            assert!(matches!(
                store.decide(&question, NOW).0,
                Verdict::Allowed(..) | Verdict::Throttled(_)
            ));
        }
        // A secret of another length is no secret.
        let mut store = Local::open(heap, SIZE, PAGE_SIZE, [5, 6]);
        let _ = store.decide(&key("t", "a"), NOW);
    }
}

type Disturbance = dyn FnMut(&str) -> Result<(), Changed>;

/// Memory in which something happens before every write.
#[derive(Clone)]
struct Disturbed {
    heap: Heap,
    before_write: Rc<RefCell<Disturbance>>,
}

impl Disturbed {
    fn new(heap: &Heap, before_write: impl FnMut(&str) -> Result<(), Changed> + 'static) -> Self {
        Self {
            heap: heap.clone(),
            before_write: Rc::new(RefCell::new(before_write)),
        }
    }
}

impl Memory for Disturbed {
    fn read(&self, name: &str) -> Option<Slot> {
        self.heap.read(name)
    }

    fn write(&self, name: &str, bytes: &[u8], version: u32) -> Result<(), Changed> {
        (self.before_write.borrow_mut())(name)?;
        self.heap.write(name, bytes, version)
    }
}

#[test]
fn what_happens_between_read_and_write_is_not_lost() {
    let heap = Heap::default();
    let mut rival = open(heap.clone());
    let visits = Cell::new(0);
    let memory = Disturbed::new(&heap, move |_| {
        visits.set(visits.get() + 1);
        if visits.get() == 1 {
            allowed(ask(&mut rival, &key("t", "a")));
        }
        Ok(())
    });
    let mut store = open(memory);
    let (verdict, toll) = store.decide(&key("t", "a"), NOW);
    assert_eq!(
        left(&allowed(verdict)),
        [(Policy::Key, 0), (Policy::Tenant, 3)]
    );
    assert_eq!(toll.retries, 1);
    let (verdict, _) = store.decide(&key("t", "a"), NOW);
    throttled(verdict);
}

#[test]
fn more_contention_than_attempts_is_contended() {
    let heap = Heap::default();
    open(heap.clone());
    let mut store = open(Disturbed::new(&heap, |_| Err(Changed)));
    for question in [key("t", "a"), key_from(1, "t", "a"), anonymous(1)] {
        let (verdict, toll) = store.decide(&question, NOW);
        assert_eq!(verdict, Verdict::Contended);
        assert!(toll.retries >= 8, "{} tries", toll.retries);
        assert_eq!((toll.evictions, toll.lost_refunds), (0, 0));
    }
    // No strike, no debit.
    let mut undisturbed = open(heap);
    let standings = allowed(ask(&mut undisturbed, &key_from(1, "t", "a")));
    assert_eq!(
        left(&standings),
        [(Policy::Key, 1), (Policy::Tenant, 4), (Policy::Ip, 9)]
    );
}

/// A store in which the first page that is written, the address's, can be written as often as
/// `writes` says, and no other page at all. (Under this secret tenant `u` has another one.)
fn contended_tenant(heap: &Heap, writes: u32) -> Local<Disturbed> {
    open(heap.clone());
    let (mut first, mut count) = (None::<String>, 0);
    open(Disturbed::new(heap, move |name| {
        let first = first.get_or_insert_with(|| name.to_owned());
        count += u32::from(name == first);
        let free = name == first && count <= writes;
        if free { Ok(()) } else { Err(Changed) }
    }))
}

#[test]
fn a_contended_tenant_gives_the_point_of_the_address_back() {
    let heap = Heap::default();
    let mut store = contended_tenant(&heap, 2);
    let (verdict, toll) = store.decide(&key_from(1, "u", "a"), NOW);
    assert_eq!(verdict, Verdict::Contended);
    assert_eq!(toll.lost_refunds, 0);
    let standings = allowed(ask(&mut open(heap), &key_from(1, "u", "a")));
    assert_eq!(
        left(&standings),
        [(Policy::Key, 1), (Policy::Tenant, 4), (Policy::Ip, 9)]
    );
}

#[test]
fn a_point_that_cannot_be_given_back_is_counted() {
    let heap = Heap::default();
    let mut store = contended_tenant(&heap, 1);
    let (verdict, toll) = store.decide(&key_from(1, "u", "a"), NOW);
    assert_eq!(verdict, Verdict::Contended);
    assert_eq!(toll.lost_refunds, 1);
    let standings = allowed(ask(&mut open(heap), &key_from(1, "u", "a")));
    assert_eq!(left(&standings)[2], (Policy::Ip, 8));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Two workers, one in the middle of whose every write the other may decide as well: together
    /// they admit what one alone would have, to the point.
    #[test]
    fn sums_are_exact_over_all_workers(
        burst in 1..60u64,
        with_ip in any::<bool>(),
        asks in prop::collection::vec((1..4u64, 0..3usize), 1..60),
        disturbances in prop::collection::vec(any::<bool>(), 1..64),
    ) {
        let heap = Heap::default();
        let question = move |cost: u64, named: usize| {
            let mut ask = Ask { cost, ..key_from(1, "t", ["a", "b", "c"][named]) };
            ask.penalty.strictness = Strictness::Off;
            if let Subject::Key { key_meter, tenant_meter, ip, .. } = &mut ask.subject {
                (*key_meter, *tenant_meter) = (meter(60, 1000), meter(60, burst));
                *ip = ip.clone().filter(|_| with_ip).map(|(a, _)| (a, meter(60, 100_000)));
            }
            ask
        };
        let admitted = Rc::new(Cell::new(0u64));
        let requests = Rc::new(Cell::new(0u64));
        let count = {
            let (admitted, requests) = (Rc::clone(&admitted), Rc::clone(&requests));
            move |verdict: &Verdict, cost: u64| {
                if matches!(verdict, Verdict::Allowed(..)) {
                    admitted.set(admitted.get() + cost);
                    requests.set(requests.get() + 1);
                }
            }
        };
        let mut rival = open(heap.clone());
        let (mut turn, counted) = (0, count.clone());
        let memory = Disturbed::new(&heap, move |_| {
            turn += 1;
            if disturbances[turn % disturbances.len()] && !turn.is_multiple_of(7) {
                let cost = turn as u64 % 3 + 1;
                let (verdict, _) = rival.decide(&question(cost, turn % 3), NOW);
                counted(&verdict, cost);
            }
            Ok(())
        });
        let mut store = open(memory);
        for (cost, named) in asks {
            let (verdict, toll) = store.decide(&question(cost, named), NOW);
            prop_assert_ne!(&verdict, &Verdict::Contended);
            prop_assert_eq!(toll.lost_refunds, 0);
            count(&verdict, cost);
        }
        prop_assert!(admitted.get() <= burst);
        let probe = open(heap).decide(&question(burst, 0), NOW).0;
        let standings = match &probe {
            Verdict::Throttled(throttled) => throttled.standings,
            Verdict::Allowed(..) => {
                prop_assert_eq!(admitted.get(), 0);
                return Ok(());
            }
            other => panic!("{other:?}"),
        };
        for standing in standings.iter() {
            match standing.policy {
                Policy::Tenant => {
                    prop_assert_eq!(standing.remaining, (burst - admitted.get()).min(60));
                    let reset = admitted.get() * 1000;
                    prop_assert_eq!(standing.reset.0, reset);
                }
                Policy::Ip => prop_assert_eq!(standing.reset.0, requests.get() * 1000),
                _ => {}
            }
        }
    }
}

/// Who asks in a flood.
#[derive(Debug, Clone, Copy)]
enum Who {
    Key(u8, u8),
    Anonymous(u8),
}

fn who() -> impl Strategy<Value = Who> {
    prop_oneof![
        (0..5u8, 0..4u8).prop_map(|(tenant, key)| Who::Key(tenant, key)),
        (0..16u8).prop_map(Who::Anonymous),
    ]
}

/// Limits of a flood: each tenant has its own, so that buckets of many kinds share a page.
fn flood(who: Who, with_ip: bool, cost: u64) -> Ask {
    let ip = |last| with_ip.then(|| (address(last), meter(90, 6)));
    let subject = match who {
        Who::Key(tenant, key) => Subject::Key {
            tenant: Id::of(&[b't', b'0' + tenant]),
            key: Id::of(&[b'k', b'0' + key]),
            tenant_meter: meter(60 << tenant, 4 + u64::from(tenant)),
            key_meter: meter(60 + 7 * u64::from(tenant), 3),
            ip: ip(100 + tenant),
        },
        Who::Anonymous(last) => Subject::Anonymous {
            address: address(last),
            meter: meter(60, 3),
            ip_meter: ip(last).map(|(_, meter)| meter),
        },
    };
    let mut penalty = terms();
    penalty.terms.strikes = 2;
    penalty.terms.within = Millis(20_000);
    penalty.terms.offense_memory = Millis(40_000);
    penalty.terms.levels = [5000, 15_000, 60_000].map(Millis);
    Ask {
        subject,
        cost,
        shadow: false,
        grace: Millis(0),
        wanted: None,
        penalty,
    }
}

/// The buckets a flood's request meets, and what it takes from them.
fn met(ask: &Ask) -> Vec<(String, Meter, u64)> {
    match &ask.subject {
        Subject::Key {
            tenant,
            key,
            tenant_meter,
            key_meter,
            ip,
        } => {
            let (tenant, key) = (tenant.as_str(), key.as_str());
            let mut met = vec![
                (format!("{tenant}/{key}"), *key_meter, ask.cost),
                (tenant.to_owned(), *tenant_meter, ask.cost),
            ];
            met.extend(ip.as_ref().map(|(a, m)| (format!("ip {a:?}"), *m, 1)));
            met
        }
        Subject::Anonymous {
            address,
            meter,
            ip_meter,
        } => {
            let mut met = vec![(format!("anonymous {address:?}"), *meter, ask.cost)];
            met.extend(ip_meter.map(|meter| (format!("ip {address:?}"), meter, 1)));
            met
        }
        Subject::Credential { address, ip_meter } => ip_meter
            .iter()
            .map(|meter| (format!("ip {address:?}"), *meter, 1))
            .collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whoever floods a page, whatever had to go from it: nobody gets more than his limit, no box
    /// that was told ends early, and the page keeps its size.
    #[test]
    fn a_flood_frees_nobody(
        room in 3..14usize,
        with_ip in any::<bool>(),
        asks in prop::collection::vec((who(), 1..=3u64, prop_oneof![
            4 => Just(0u64), 3 => 0..200u64, 1 => 0..4000u64,
        ], 1..12usize), 1..250),
    ) {
        let size = 16 + 48 * room;
        let heap = Heap::default();
        let mut store = Local::open(heap.clone(), Bytes(size as u64), size, SECRET);
        let mut now = NOW;
        let mut admitted: BTreeMap<String, u64> = BTreeMap::new();
        let mut boxes: BTreeMap<String, Millis> = BTreeMap::new();
        for (who, cost, step, times) in asks {
            now = now.plus(Millis(step));
            for _ in 0..times {
                let ask = flood(who, with_ip, cost);
                let (verdict, _) = store.decide(&ask, now);
                let met = met(&ask);
                let told = boxes.get(&met[0].0).copied().filter(|until| *until > now);
                match &verdict {
                    Verdict::Boxed(boxed) => {
                        if let Some(until) = told {
                            prop_assert_eq!(boxed.lockout.until, until);
                            prop_assert!(!boxed.tripped);
                        }
                        boxes.insert(met[0].0.clone(), boxed.lockout.until);
                    }
                    _ => prop_assert_eq!(told, None, "a box was dropped: {:?}", verdict),
                }
                if matches!(verdict, Verdict::Allowed(..)) {
                    for (name, meter, cost) in &met {
                        let sum = admitted.entry(name.clone()).or_default();
                        *sum += cost;
                        let limit = meter.limit();
                        let per = limit.per.0 * 1000;
                        let most = limit.burst.0 * per + (now.0 - NOW.0) * limit.points.0;
                        prop_assert!(*sum * per <= most, "{} was admitted {} points", name, sum);
                    }
                }
                for name in heap.names().iter().filter(|n| !n.ends_with("/ready")) {
                    prop_assert!(heap.read(name).unwrap().bytes.len() <= size);
                }
            }
        }
    }
}
