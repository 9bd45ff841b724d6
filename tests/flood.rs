//! The local store under floods of keys, in virtual time: it never grows, and nobody who is being
//! limited gets more than his bound, however many others come and go.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tollgate_config::{Bytes, Limit, Millis, Points, Seconds};
use tollgate_filter::client_ip::Address;
use tollgate_filter::identity::Id;
use tollgate_filter::limit::bucket::Meter;
use tollgate_filter::limit::decision::Strictness;
use tollgate_filter::limit::penalty::Terms;
use tollgate_filter::store::local::{Local, PAGE_SIZE, heap::Heap};
use tollgate_filter::store::{Ask, BoxTerms, Store as _, Subject};
use tollgate_filter::verdict::Verdict;

/// 2026-03-01T00:00:00Z.
const START: u64 = 1_772_323_200_000;
const MINUTE: u64 = 60_000;

fn meter(points: u64, per: u64, burst: u64) -> Meter {
    Meter::new(Limit {
        points: Points(points),
        per: Seconds(per),
        burst: Points(burst),
    })
}

fn ask(subject: Subject, strictness: Strictness) -> Ask {
    let terms = Terms {
        strikes: 20,
        within: Millis(MINUTE),
        offense_memory: Millis(24 * 60 * MINUTE),
        levels: [
            Millis(5 * MINUTE),
            Millis(60 * MINUTE),
            Millis(24 * 60 * MINUTE),
        ],
        max_level: 3,
    };
    let penalty = BoxTerms { terms, strictness };
    Ask {
        subject,
        cost: 1,
        shadow: false,
        grace: Millis(1000),
        wanted: None,
        penalty,
    }
}

fn key_of(tenant: u32, key: u32, strictness: Strictness) -> Ask {
    let id = |prefix: &str, n: u32| Id::of(format!("{prefix}-{n}").as_bytes());
    let subject = Subject::Key {
        tenant: id("tenant", tenant),
        key: id("key", key),
        tenant_meter: meter(1_000_000, 1, 1_000_000),
        key_meter: meter(60, 60, 30),
        ip: None,
    };
    ask(subject, strictness)
}

fn address(ip: IpAddr, strictness: Strictness) -> Ask {
    let subject = Subject::Anonymous {
        address: Address::Ip(ip),
        meter: meter(60, 60, 60),
        ip_meter: None,
    };
    ask(subject, strictness)
}

fn store(memory: u64) -> (Heap, Local<Heap>) {
    let heap = Heap::default();
    let store = Local::open(heap.clone(), Bytes(memory), PAGE_SIZE, [3, 5]);
    (heap, store)
}

/// How many distinct keys come by; `TOLLGATE_FLOOD_KEYS` for more.
fn flood_size() -> u32 {
    let given = std::env::var("TOLLGATE_FLOOD_KEYS").ok();
    given.map_or(1_000_000, |n| n.parse().unwrap())
}

const LIMITED: usize = 500;

/// 500 clients want twice what they may have, while `flood_size` strangers come by, 2,000 a second.
/// Returns the share of their limits that the 500 used, and how many entries made room.
fn flooded(memory: u64) -> (f64, u32) {
    let (heap, mut store) = store(memory);
    let mut random = fastrand::Rng::with_seed(11);
    let mut admitted = [0_u64; LIMITED];
    let mut evictions = 0;
    let keys = flood_size();
    for n in 0..keys {
        let now = Millis(START + u64::from(n) / 2);
        let stranger = if n % 2 == 0 {
            address(IpAddr::V4(Ipv4Addr::from_bits(n)), Strictness::Off)
        } else {
            key_of(1_000_000 + n, n, Strictness::Off)
        };
        let (_, toll) = store.decide(&stranger, now);
        evictions += toll.evictions;
        if n % 2 == 0 {
            let client = random.usize(0..LIMITED);
            let ask = key_of(client as u32, 1, Strictness::Off);
            let (verdict, _) = store.decide(&ask, now);
            admitted[client] += u64::from(matches!(verdict, Verdict::Allowed(..)));
        }
    }
    // Pages and the 16 bytes of the secret.
    assert!(heap.size() as u64 <= memory + 16, "{} bytes", heap.size());
    // 30 points at once and one a second.
    let most = 30.0 + f64::from(keys) / 2000.0;
    for (client, admitted) in admitted.iter().enumerate() {
        assert!(
            *admitted as f64 <= most,
            "client {client}: {admitted} of {most}"
        );
    }
    (
        admitted.iter().sum::<u64>() as f64 / (most * LIMITED as f64),
        evictions,
    )
}

#[test]
fn five_hundred_limited_clients_among_a_million_keys_get_their_limits() {
    let (used, evictions) = flooded(16 << 20);
    assert!(
        used > 0.95,
        "only {:.1} % of the limits were used",
        used * 100.0
    );
    assert_eq!(evictions, 0, "what is full again makes room first");
}

#[test]
fn where_memory_is_far_too_small_they_still_get_no_more() {
    let (_, evictions) = flooded(64 << 10);
    assert!(evictions > 0, "the flood was too small to fill the pages");
}

#[test]
fn flooding_his_own_page_frees_no_one() {
    // All keys of a tenant lie on one page. One is spent; the others come in thousands.
    let (_, mut store) = store(1 << 20);
    let mut admitted = 0_u64;
    for n in 0..200_000_u32 {
        let now = Millis(START + u64::from(n) / 10);
        store.decide(&key_of(7, 1000 + n % 5000, Strictness::Enforced), now);
        if n % 20 == 0 {
            let (verdict, _) = store.decide(&key_of(7, 1, Strictness::Off), now);
            admitted += u64::from(matches!(verdict, Verdict::Allowed(..)));
        }
    }
    // 20 s: 30 at once, 20 refilled.
    assert!(admitted <= 50, "{admitted} of 50");
}

#[test]
fn no_flood_lets_a_boxed_client_out() {
    for memory in [64 << 10, 1 << 20] {
        let (_, mut store) = store(memory);
        let boxed = |store: &mut Local<Heap>, n: u32, now: u64| {
            let (verdict, _) = store.decide(&key_of(n, 1, Strictness::Enforced), Millis(now));
            matches!(verdict, Verdict::Boxed(_))
        };
        // Ten clients hammer until they are boxed, for five minutes.
        let mut until = START;
        for client in 0..10 {
            let tripped = (0..1000).find(|n| boxed(&mut store, client, START + n));
            until = until.max(START + tripped.expect("it is boxed") + 5 * MINUTE);
        }
        // Keys of theirs, other tenants and addresses come by, each hammering as well.
        let mut random = fastrand::Rng::with_seed(2);
        for n in 0..300_000_u32 {
            let now = Millis(START + 1000 + u64::from(n) / 2);
            let ask = match n % 3 {
                0 => key_of(random.u32(0..10), random.u32(2..5000), Strictness::Enforced),
                1 => key_of(random.u32(10..50_000), 1, Strictness::Enforced),
                _ => {
                    let ip = Ipv6Addr::from_bits(u128::from(random.u32(..)) << 64);
                    address(IpAddr::V6(ip), Strictness::Enforced)
                }
            };
            store.decide(&ask, now);
        }
        for client in 0..10 {
            assert!(
                boxed(&mut store, client, START + 200_000),
                "client {client} is out early"
            );
            assert!(
                !boxed(&mut store, client, until),
                "client {client} is in late"
            );
        }
    }
}
