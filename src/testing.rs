//! What the unit tests share: configurations from JSON, requests, buckets. Test builds only.

pub(crate) mod throttles;

use tollgate_config::{Config, Limit, Millis, Points, Seconds, ThrottleId};

use crate::attempt::{Attempt, Who};
use crate::body::Body;
use crate::hold::{HoldId, LeaseWanted, Wanted};
use crate::limit::bucket::Meter;
use crate::limit::decision::Strictness;
use crate::limit::penalty::Terms;
use crate::plan::{Facts, Plan};
use crate::request::Request;
use crate::rules::Rules;
use crate::store::BoxTerms;
use crate::verdict::{Policy, Standing, Standings};

/// 2025-04-01T00:00:00Z.
pub(crate) const NOW: Millis = Millis(1_743_465_600_000);

/// What requests get for a nonce.
pub(crate) const NONCE: u64 = 7;

/// A configuration that must be good.
pub(crate) fn config(json: &str) -> Config {
    Config::parse(json.as_bytes(), &|_| None).expect("a good configuration")
}

/// The rules of a configuration that must be good.
pub(crate) fn rules(json: &str) -> Rules {
    Rules::new(config(json))
}

/// A request with these header fields.
pub(crate) fn head(fields: &[(&str, &[u8])]) -> Request {
    let owned = |(name, value): &(&str, &[u8])| ((*name).to_owned(), value.to_vec());
    Request::new(fields.iter().map(owned).collect())
}

/// A request of a method and target with these header fields.
pub(crate) fn request(method: &str, target: &str, fields: &[(&str, &str)]) -> Request {
    let mut all: Vec<(&str, &[u8])> = vec![
        (":method", method.as_bytes()),
        (":path", target.as_bytes()),
        (":authority", b"api.example.com"),
    ];
    all.extend(fields.iter().map(|(name, value)| (*name, value.as_bytes())));
    head(&all)
}

/// The plan of a request that came from 192.0.2.1 at [`NOW`]; the proxy has no properties.
pub(crate) fn plan(rules: &Rules, request: &Request) -> Plan {
    let facts = Facts {
        now: NOW,
        properties: &|_| None,
        source: &|| b"192.0.2.1:4711".to_vec(),
        body: Some(&Body::NONE),
    };
    Plan::of(rules, request, &facts, NONCE)
}

/// A meter of `points` per `per` seconds with a burst.
pub(crate) fn meter(points: u64, per: u64, burst: u64) -> Meter {
    Meter::new(Limit {
        points: Points(points),
        per: Seconds(per),
        burst: Points(burst),
    })
}

/// The default penalty box of a tier, enforced.
pub(crate) fn box_terms() -> BoxTerms {
    BoxTerms {
        terms: Terms {
            strikes: 20,
            within: Millis(60_000),
            offense_memory: Millis(86_400_000),
            levels: [Millis(300_000), Millis(3_600_000), Millis(86_400_000)],
            max_level: 3,
        },
        strictness: Strictness::Enforced,
    }
}

/// A standing written down, not worked out.
pub(crate) fn standing(
    policy: Policy,
    meter: Meter,
    remaining: u64,
    reset: u64,
    wait: u64,
) -> Standing {
    Standing {
        policy,
        meter,
        remaining,
        reset: Millis(reset),
        wait: Millis(wait),
    }
}

/// Up to three standings.
pub(crate) fn standings(of: &[Standing]) -> Standings {
    let at = |index: usize| of.get(index).copied();
    Standings::new([at(0), at(1), at(2)])
}

/// One of two leases of a kind.
pub(crate) fn a_lease(id: u64) -> Wanted {
    let lease = LeaseWanted {
        kind: "reconcile".into(),
        slots: 2,
    };
    Wanted {
        lease: Some(lease),
        ..Wanted::nothing(HoldId(id))
    }
}

/// An attempt under a throttle that takes slots, of 5 failures in 15 minutes.
pub(crate) fn an_attempt(throttle: &str, who: Who) -> Attempt {
    Attempt {
        throttle: ThrottleId(0),
        name: throttle.into(),
        who,
        failures: 5,
        within: Millis(900_000),
        levels: [Millis(300_000), Millis(3_600_000), Millis(86_400_000)],
        max_level: if who == Who::Ip { 3 } else { 2 },
        offense_memory: Millis(86_400_000),
        provisional: true,
        spares: matches!(who, Who::Subject(_)),
        resets: who != Who::Ip,
    }
}
