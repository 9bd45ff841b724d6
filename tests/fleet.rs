//! Fleets of clients in virtual time: whoever honours Retry-After is never held to have misbehaved
//! and gets the whole limit; whoever hammers is boxed.
//!
//! Every request goes through the real flow, from header bytes to the header bytes of the answer.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use tollgate_config::{Config, Millis};
use tollgate_filter::body::Body;
use tollgate_filter::flow::{Effect, Event, Flow, Question};
use tollgate_filter::plan::Facts;
use tollgate_filter::reply::{Form, Reply};
use tollgate_filter::request::Request;
use tollgate_filter::rules::Rules;
use tollgate_filter::store::Store as _;
use tollgate_filter::store::local::{Local, PAGE_SIZE, heap::Heap};

/// 2026-03-01T00:00:00Z.
const START: u64 = 1_772_323_200_000;
const HOUR: u64 = 3_600_000;

struct Gateway {
    rules: Rules,
    store: Local<Heap>,
    random: fastrand::Rng,
}

impl Gateway {
    /// A tier with this key limit (and a tenant limit that is never met), and a route for each cost.
    fn new(points: u64, per: &str, burst: u64, costs: &[u64]) -> Self {
        let costs: BTreeSet<u64> = costs.iter().copied().collect();
        let routes: Vec<String> = costs
            .iter()
            .map(|c| format!(r#"{{"name":"cost-{c}","match":{{"path":"/{c}"}},"cost":{c}}}"#))
            .collect();
        let json = format!(
            r#"{{"identity":{{"tenant":{{"header":"t"}},"key":{{"header":"k"}},"default_tier":"one"}},
                "tiers":{{"one":{{"tenant":{{"points":1000000000,"per":"1s"}},
                                  "key":{{"points":{points},"per":"{per}","burst":{burst}}}}}}},
                "routes":[{}]}}"#,
            routes.join(",")
        );
        let config = Config::parse(json.as_bytes(), &|_| None).unwrap();
        let memory = config.store.memory;
        Self {
            rules: Rules::new(config),
            store: Local::open(Heap::default(), memory, PAGE_SIZE, [1, 2]),
            random: fastrand::Rng::with_seed(7),
        }
    }

    /// Sends a request of this cost; `None` if it passed.
    fn send(&mut self, cost: u64, now: u64) -> Option<Reply> {
        let field = |n: &str, v: String| (n.to_owned(), v.into_bytes());
        let request = Request::new(vec![
            field(":method", "GET".to_owned()),
            field(":path", format!("/{cost}")),
            field("t", "acme".to_owned()),
            field("k", "k1".to_owned()),
        ]);
        let now = Millis(now);
        let facts = Facts {
            now,
            properties: &|_| None,
            source: &|| b"192.0.2.1:443".to_vec(),
            body: Some(&Body::NONE),
        };
        let mut flow = Flow::Fresh;
        let nonce = self.random.u64(..);
        for effect in flow.on(&self.rules, Event::Headers(request, facts, None), nonce) {
            let Effect::Ask(Question::Decide(ask)) = effect else {
                continue;
            };
            let (verdict, toll) = self.store.decide(&ask, now);
            let effects = flow.on(&self.rules, Event::Decided(verdict, toll, now), nonce);
            return effects.into_iter().find_map(|effect| match effect {
                Effect::Reply(reply) => Some(reply),
                _ => None,
            });
        }
        panic!("nothing was asked");
    }
}

fn field(reply: &Reply, name: &str) -> String {
    reply
        .fields
        .iter()
        .find(|(n, _)| *n == name)
        .map(|(_, v)| v.clone())
        .unwrap()
}

fn document(reply: &Reply) -> serde_json::Value {
    match &reply.form {
        Form::Http { body, .. } => serde_json::from_slice(body).unwrap(),
        Form::Grpc { .. } => panic!("not a gRPC request"),
    }
}

/// What a fleet achieved.
struct Outcome {
    admitted: u64,
    fewest_strikes_left: u64,
    boxed: bool,
}

/// Clients that always have a request waiting: they send the next `think` ms after one has passed,
/// and the same again exactly when Retry-After has passed after one was refused.
fn run(gateway: &mut Gateway, clients: &[Vec<u64>], think: u64, until: u64) -> Outcome {
    let mut agenda: BinaryHeap<Reverse<(u64, usize, usize)>> = (0..clients.len())
        .map(|client| Reverse((START, client, 0)))
        .collect();
    let mut outcome = Outcome {
        admitted: 0,
        fewest_strikes_left: u64::MAX,
        boxed: false,
    };
    while let Some(Reverse((now, client, nth))) = agenda.pop() {
        if now >= START + until {
            break;
        }
        let cost = clients[client][nth % clients[client].len()];
        match gateway.send(cost, now) {
            None => {
                outcome.admitted += cost;
                agenda.push(Reverse((now + think, client, nth + 1)));
            }
            Some(reply) => {
                let left = document(&reply)["penalty_strikes_remaining"].as_u64();
                outcome.fewest_strikes_left = outcome.fewest_strikes_left.min(left.unwrap_or(0));
                outcome.boxed |= field(&reply, "x-penalty-box-status") == "Active-Lockout";
                let wait: u64 = field(&reply, "retry-after").parse().unwrap();
                agenda.push(Reverse((now + wait * 1000, client, nth)));
            }
        }
    }
    outcome
}

/// A fleet of `count` clients whose requests cost these in turn, each starting elsewhere.
fn fleet(count: usize, costs: &[u64]) -> Vec<Vec<u64>> {
    (0..count)
        .map(|client| {
            costs
                .iter()
                .cycle()
                .skip(client % costs.len())
                .take(costs.len())
                .copied()
                .collect()
        })
        .collect()
}

const FLEETS: [usize; 7] = [1, 2, 3, 8, 20, 35, 50];

fn honours(points: u64, per: &str, seconds: u64, burst: u64, costs: &[u64]) {
    let dearest = *costs.iter().max().unwrap();
    assert!(
        (burst - dearest) * seconds >= 2 * points,
        "the claim needs 2 s of refill beyond the dearest"
    );
    for count in FLEETS {
        let clients = fleet(count, costs);
        // Each has one request waiting at most: all of them together below a burst.
        if count as u64 * dearest >= burst {
            continue;
        }
        for think in [1, 50] {
            let mut gateway = Gateway::new(points, per, burst, costs);
            let outcome = run(&mut gateway, &clients, think, HOUR);
            let whole = burst + points * (HOUR / 1000) / seconds;
            let story = format!(
                "{count} clients, {points} per {per}, burst {burst}, costs {costs:?}, think {think} ms"
            );
            assert!(!outcome.boxed, "{story}: boxed");
            assert!(outcome.fewest_strikes_left >= 20, "{story}: a strike");
            assert!(
                outcome.admitted <= whole,
                "{story}: {} of {whole} admitted",
                outcome.admitted
            );
            // A client that thinks longer than its share of the refill cannot use more.
            let able =
                (count as u64) * costs.iter().sum::<u64>() * HOUR / (think * costs.len() as u64);
            let share = outcome.admitted as f64 / whole.min(able) as f64;
            assert!(share >= 0.98, "{story}: only {:.2} % used", share * 100.0);
        }
    }
}

#[test]
fn fleets_that_honour_retry_after_get_no_strike_and_the_whole_limit() {
    honours(10, "1s", 1, 100, &[1]);
    honours(60, "60s", 60, 60, &[1]);
    honours(300, "60s", 60, 300, &[1]);
    honours(1500, "60s", 60, 1500, &[1]);
}

#[test]
fn so_do_fleets_with_mixed_costs() {
    honours(10, "1s", 1, 100, &[1, 10, 25]);
    honours(150, "60s", 60, 150, &[1, 10, 25]);
    honours(1500, "60s", 60, 1500, &[1, 10, 25]);
    honours(3000, "60s", 60, 3000, &[1, 1, 1, 10, 1, 25, 1, 50]);
}

#[test]
fn one_that_hammers_is_boxed_within_three_seconds() {
    let mut gateway = Gateway::new(10, "1s", 100, &[1]);
    let boxed = (0..300).find_map(|nth| {
        let now = START + nth * 10;
        let reply = gateway.send(1, now)?;
        (field(&reply, "x-penalty-box-status") == "Active-Lockout").then_some((now, reply))
    });
    let (now, reply) = boxed.expect("it is boxed within 300 requests at 100 a second");
    let wait: u64 = field(&reply, "retry-after").parse().unwrap();
    assert!(
        (300..=330).contains(&wait),
        "five minutes and at most a tenth more, not {wait}"
    );
    let document = document(&reply);
    assert_eq!(document["penalty_level"], 1);
    assert_eq!(
        document["type"],
        "https://api.yourdomain.com/errors/penalty-box-active"
    );
    // Nothing but the box answers until it ends, whatever is sent.
    let ends = now + 300_000;
    let last = gateway.send(1, ends - 1).expect("still boxed");
    assert_eq!(field(&last, "x-penalty-box-status"), "Active-Lockout");
    assert_eq!(field(&last, "retry-after"), "1");
    assert!(
        gateway.send(1, ends).is_none(),
        "the box has ended and the bucket has filled meanwhile"
    );
}
