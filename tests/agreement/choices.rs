//! Random stories: who asks for what and when, what becomes of it later, and under which limits.

use proptest::prelude::*;
use tollgate_config::{Limit, Millis, Points, Seconds};
use tollgate_filter::client_ip::Address;
use tollgate_filter::hold::{HoldId, LeaseWanted, QuotaWanted, Wanted};
use tollgate_filter::identity::Id;
use tollgate_filter::limit::bucket::Meter;
use tollgate_filter::limit::decision::Strictness;
use tollgate_filter::limit::penalty::Terms;
use tollgate_filter::store::{Ask, BoxTerms, Subject};

/// Limits of every kind: points, seconds, burst. The last ones are as far as a configuration may go.
const LIMITS: [(u64, u64, u64); 10] = [
    (10, 1, 100),
    (5, 1, 10),
    (3000, 60, 3000),
    (7, 13, 50),
    (60, 60, 60),
    (1, 86_400, 3),
    (1000, 1, 20),
    (1_000_000_000, 1, 1_000_000_000),
    (999_999_937, 2_678_400, 3_362_880),
    (1, 2_678_400, 3_362_880),
];

/// What a request wants besides points; each name is one of a few.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wish {
    pub(crate) flight: Option<u8>,
    pub(crate) lock: Option<u8>,
    pub(crate) lease: Option<u8>,
    pub(crate) quota: Option<u8>,
}

/// One request, in numbers that a failing case can be shrunk by.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    pub(crate) wish: Wish,
    pub(crate) who: u8,
    pub(crate) cost: u64,
    pub(crate) first: usize,
    pub(crate) second: usize,
    pub(crate) ip: Option<usize>,
    pub(crate) terms: u8,
    pub(crate) strictness: u8,
}

/// One line of a call.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// A request that asks now.
    Ask(Choice),
    /// A request whose question is under way for now.
    Send(Choice),
    /// One of the questions that are under way comes.
    Arrive(usize),
    /// One of all requests so far keeps what it holds for so long, or lets it go.
    Keep(usize, [u64; 3]),
    /// One of all requests so far is revoked, whether its question came or not.
    Revoke(usize),
    /// One of those whose questions are under way is revoked.
    Overtake(usize),
}

/// How many leases and places of a quota there are, and how long such a place is taken (s): a
/// configuration may change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plenty {
    pub(crate) slots: u32,
    pub(crate) requests: u32,
    pub(crate) per: u64,
}

/// Time that goes on (or back), and the lines of one call.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    pub(crate) advance: i64,
    pub(crate) plenty: Plenty,
    pub(crate) batch: Vec<Act>,
}

fn choices() -> impl Strategy<Value = Choice> {
    // Mostly one regime of limits, so that buckets empty and boxes trip, and others on the way.
    let limit = || prop_oneof![8 => 0..2_usize, 2 => 0..LIMITS.len()];
    let cost = prop_oneof![4 => 1..3_u64, 2 => 5..30_u64, 1 => 1..u64::MAX];
    let name = || prop::option::weighted(0.4, 0..2_u8);
    let wish = (name(), name(), name(), name()).prop_map(|(flight, lock, lease, quota)| Wish {
        flight,
        lock,
        lease,
        quota,
    });
    (
        prop_oneof![1 => Just(Wish::default()), 1 => wish],
        0..6_u8,
        cost,
        limit(),
        limit(),
        prop_oneof![2 => Just(None), 1 => limit().prop_map(Some)],
        prop_oneof![8 => 0..1_u8, 2 => 0..4_u8],
        prop_oneof![8 => 0..1_u8, 2 => 0..3_u8],
    )
        .prop_map(
            |(wish, who, cost, first, second, ip, terms, strictness)| Choice {
                wish,
                who,
                cost,
                first,
                second,
                ip,
                terms,
                strictness,
            },
        )
}

pub(crate) fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let advance = prop_oneof![
        6 => Just(0_i64),
        6 => 1..200_i64,
        3 => 200..20_000_i64,
        2 => Just(300_000_i64),
        1 => 3_600_000..100_000_000_i64,
        1 => -900..0_i64,
        1 => -2_000_000..-1000_i64,
    ];
    let length = || prop_oneof![2 => Just(0_u64), 3 => 1..90_000_u64, 1 => Just(60_000_u64)];
    let lengths = (length(), length(), length());
    let act = prop_oneof![
        12 => choices().prop_map(Act::Ask),
        2 => choices().prop_map(Act::Send),
        2 => any::<usize>().prop_map(Act::Arrive),
        1 => any::<usize>().prop_map(Act::Overtake),
        2 => (any::<usize>(), lengths).prop_map(|(of, (a, b, c))| Act::Keep(of, [a, b, c])),
        2 => any::<usize>().prop_map(|of| Act::Keep(of, [0; 3])),
        2 => any::<usize>().prop_map(Act::Revoke),
    ];
    // A hammer: many of the same in one call.
    let batch = prop_oneof![
        3 => prop::collection::vec(act, 1..8),
        2 => (choices(), 1..40_usize).prop_map(|(one, n)| vec![Act::Ask(one); n]),
    ];
    let plenty = prop_oneof![
        4 => Just((2, 4, 20)),
        1 => (1..4_u32, 1..12_u32, 1..120_u64),
    ];
    let plenty = plenty.prop_map(|(slots, requests, per)| Plenty {
        slots,
        requests,
        per,
    });
    prop::collection::vec(
        (advance, plenty, batch).prop_map(|(advance, plenty, batch)| Turn {
            advance,
            plenty,
            batch,
        }),
        1..40,
    )
}

fn meter(index: usize) -> Meter {
    let (points, per, burst) = LIMITS[index];
    Meter::new(Limit {
        points: Points(points),
        per: Seconds(per),
        burst: Points(burst),
    })
}

fn wanted(choice: &Choice, id: HoldId, plenty: Plenty) -> Option<Wanted> {
    let wish = &choice.wish;
    let named = |what: &str, name: u8| Id::of(format!("{what}-{name}").as_bytes());
    // Leases and quotas come from tiers.
    let of_tier = |name: Option<u8>| name.filter(|_| choice.who < 4);
    let wanted = Wanted {
        id,
        flight: wish.flight.map(|name| named("flight", name)),
        lock: wish.lock.map(|name| named("lock", name)),
        lease: of_tier(wish.lease).map(|kind| LeaseWanted {
            kind: format!("lease-{kind}").into(),
            slots: plenty.slots,
        }),
        quota: of_tier(wish.quota).map(|kind| QuotaWanted {
            kind: format!("quota-{kind}").into(),
            requests: plenty.requests,
            per: Millis(plenty.per * 1000),
        }),
        attempts: None,
    };
    let some = wanted.is_held() || wanted.quota.is_some();
    some.then_some(wanted)
}

pub(crate) fn ask(choice: &Choice, id: HoldId, plenty: Plenty) -> Ask {
    let (first, second) = (meter(choice.first), meter(choice.second));
    let address = Address::Ip(format!("192.0.2.{}", choice.who % 2).parse().unwrap());
    let ip = choice.ip.map(meter);
    let (subject, burst) = if choice.who < 4 {
        let tenant = Id::of(format!("tenant-{}", choice.who / 2).as_bytes());
        let key = Id::of(format!("key-{}", choice.who).as_bytes());
        let subject = Subject::Key {
            tenant,
            key,
            tenant_meter: second,
            key_meter: first,
            ip: ip.map(|meter| (address, meter)),
        };
        (subject, first.burst().min(second.burst()))
    } else {
        let subject = Subject::Anonymous {
            address,
            meter: first,
            ip_meter: ip,
        };
        (subject, first.burst())
    };
    let (strikes, within, memory, max_level, grace) = match choice.terms {
        0 => (3, 60_000, 86_400_000, 3, 1000),
        1 => (1, 1000, 1000, 2, 0),
        2 => (20, 60_000, 86_400_000, 1, 1000),
        _ => (2, 500, 10_000_000, 3, 60_000),
    };
    Ask {
        subject,
        cost: 1 + (choice.cost - 1) % burst,
        // A watched box of live requests and the box of requests in shadow are one in Redis and two in
        // a page: nobody is met in both ways here.
        shadow: matches!(choice.who, 3 | 5),
        grace: Millis(grace),
        wanted: wanted(choice, id, plenty),
        penalty: BoxTerms {
            terms: Terms {
                strikes,
                within: Millis(within),
                offense_memory: Millis(memory),
                levels: [Millis(300_000), Millis(3_600_000), Millis(86_400_000)],
                max_level,
            },
            strictness: match choice.strictness {
                0 => Strictness::Enforced,
                1 => Strictness::Watched,
                _ => Strictness::Off,
            },
        },
    }
}
