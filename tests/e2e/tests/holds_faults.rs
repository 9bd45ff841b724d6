//! While Redis halts, answers late or forgets its scripts nobody gets in beyond the limit, and what was taken by calls
//! whose answers never came is free again long before its minute is over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tollgate_e2e::{
    Ask, Dice, Fault, Faulty, Gateway, Redis, Setup, Webdis, Work, Workshop, eventually,
};

#[path = "holds/held.rs"]
mod held;

use held::{holders, is_free};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const SLOTS: usize = 2;
const KEYS: [&str; 3] = [
    "cc:{t:acme}:heavy",
    "lk:{t:acme}:ledger-7",
    "ik:{t:acme}:order-1",
];
const RULES: &str = "
identity: {tenant: {header: x-tenant-id}, key: {header: x-api-key-id}, tier: {header: x-tenant-tier}}
tiers: {one: {tenant: 10000000/minute, key: 10000000/minute, leases: {heavy: 2}}}
penalty_box: {mode: off}
routes:
- {name: lease, match: {path: /lease}, lease: {kind: heavy}, on_store_failure: closed}
- {name: lock, match: {path: /lock}, lock: {by: {header: x-ledger-id}}, on_store_failure: closed}
- {name: pay, match: {path: /pay}, idempotency_key: required, on_store_failure: closed}
";
/// Far below the minute after which everything would be free by itself.
const LONG_BEFORE: Duration = Duration::from_secs(20);

struct Story {
    gateways: Arc<[Gateway; 2]>,
    workshop: Workshop,
    redis: Redis,
    front: Faulty,
    _webdis: Webdis,
}

impl Story {
    async fn start() -> Result<Self, Box<dyn std::error::Error>> {
        let redis = Redis::start().await;
        let webdis = Webdis::start(&redis).await;
        let front = Faulty::start(webdis.address()).await;
        let dice = Mutex::new(Dice::new(3));
        let workshop = Workshop::open(move |received| {
            let takes = match received.path.ends_with("long") {
                true => Duration::from_secs(10),
                false => dice.lock().unwrap().millis(1..20),
            };
            Work::on(received.path.clone(), takes)
        });
        let config = format!(
            "store: {{kind: redis, upstream: redis-front, timeout: 250ms, breaker: {{failures: 5, open_for: 300ms}}}}{RULES}"
        );
        let setup = || {
            Setup::new(config.as_str())
                .front(front.address())
                .upstream(workshop.address())
        };
        let gateways = [
            Gateway::start(setup()).await?,
            Gateway::start(setup()).await?,
        ];
        Ok(Self {
            gateways: Arc::new(gateways),
            workshop,
            redis,
            front,
            _webdis: webdis,
        })
    }

    /// Nothing is left, of whatever happened.
    async fn nothing_leaks(&self, since: Instant) {
        self.workshop.is_still().await;
        for key in KEYS {
            is_free(&self.redis, key, LONG_BEFORE).await;
        }
        println!("all is free {:?} after the last request", since.elapsed());
        assert_eq!(self.workshop.worked("/lease").most, SLOTS);
        assert_eq!(self.workshop.worked("/lock").most, 1);
        assert_eq!(self.workshop.worked("/pay").most, 1);
        // And all of it can be had again, through each gateway.
        for gateway in self.gateways.iter() {
            for path in ["/lease", "/lock", "/pay"] {
                eventually(path, Duration::from_secs(5), async || {
                    let reply = ask(gateway, path).send().await;
                    (reply.status == 200).then_some(())
                })
                .await;
            }
            let stats = gateway.stats().await;
            assert_eq!(stats.sum("tollgate_outbox_dropped_total", &[]), 0.0);
            assert!(gateway.traps().is_empty(), "{:?}", gateway.traps());
            assert_eq!(gateway.vm_reloads().await, 0);
        }
        for key in self.redis.keys().await {
            assert!(key.ttl.is_some(), "{key:?}");
        }
    }
}

fn ask(gateway: &Gateway, path: &str) -> Ask {
    let ask = gateway.get(path).identity("acme", "key", "one");
    match path {
        "/lock" => ask.header("x-ledger-id", "ledger-7"),
        "/pay" => ask.header("idempotency-key", "order-1"),
        _ => ask,
    }
}

/// Clients that ask for all three through both gateways, and some of which crash.
struct Load {
    stop: Arc<AtomicBool>,
    clients: JoinSet<BTreeMap<u16, usize>>,
}

impl Load {
    fn start(gateways: &Arc<[Gateway; 2]>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut clients = JoinSet::new();
        for client in 0..18 {
            let gateways = Arc::clone(gateways);
            let stop = Arc::clone(&stop);
            clients.spawn(async move {
                let mut dice = Dice::new(client as u64);
                let mut statuses = BTreeMap::<u16, usize>::new();
                while !stop.load(Ordering::Relaxed) {
                    let path = ["/lease", "/lock", "/pay"][client / 2 % 3];
                    let ask = ask(&gateways[client % 2], path);
                    // A lock and a key are held on when their client leaves: those stay.
                    let status = if path == "/lease" && dice.percent(20) {
                        let moment = tokio::time::sleep(dice.millis(0..40));
                        ask.reset_when(moment).await.unwrap()
                    } else {
                        Some(ask.send().await.status)
                    };
                    if let Some(status) = status {
                        *statuses.entry(status).or_default() += 1;
                    }
                    tokio::time::sleep(dice.millis(1..15)).await;
                }
                statuses
            });
        }
        Self { stop, clients }
    }

    /// How many answers there were of each status, and when the last one came.
    async fn stop(self) -> (BTreeMap<u16, usize>, Instant) {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = BTreeMap::new();
        for statuses in self.clients.join_all().await {
            for (status, count) in statuses {
                *all.entry(status).or_default() += count;
            }
        }
        (all, Instant::now())
    }
}

/// The load has been served for so many more pieces of work.
async fn goes_on(workshop: &Workshop, pieces: usize) {
    let begun = |path| workshop.worked(path).begun.len();
    for path in ["/lease", "/lock", "/pay"] {
        let so_far = begun(path);
        eventually(path, Duration::from_secs(15), async || {
            (begun(path) >= so_far + pieces).then_some(())
        })
        .await;
    }
}

fn judge(statuses: &BTreeMap<u16, usize>) {
    println!("{statuses:?}");
    for status in statuses.keys() {
        assert!(matches!(status, 200 | 409 | 429 | 503), "{statuses:?}");
    }
    assert!(statuses[&503] > 10, "the store did not fail: {statuses:?}");
    assert!(statuses[&200] > 30, "hardly anything passed: {statuses:?}");
    assert!(statuses[&409] > 30, "hardly anything met: {statuses:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_halts_and_forgets_its_scripts() -> Outcome {
    let story = Story::start().await?;
    let load = Load::start(&story.gateways);
    goes_on(&story.workshop, 10).await;
    for _ in 0..2 {
        story.redis.pause();
        // Calls are under way, in Webdis and in Redis' socket: they are carried out when it goes on.
        tokio::time::sleep(Duration::from_secs(2)).await;
        story.redis.resume();
        story.redis.forget_scripts().await;
        goes_on(&story.workshop, 10).await;
    }
    let (statuses, last) = load.stop().await;
    story.nothing_leaks(last).await;
    judge(&statuses);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_come_too_late() -> Outcome {
    let story = Story::start().await?;
    let load = Load::start(&story.gateways);
    goes_on(&story.workshop, 10).await;
    for fault in [
        // Before the decision, and it is made long after the request was answered.
        Fault::Slow(Duration::from_millis(600)),
        // A front that closes has not asked; one that hangs neither.
        Fault::Close,
        Fault::Hang,
        Fault::Refuse,
    ] {
        story.front.fail(fault).await;
        tokio::time::sleep(Duration::from_millis(1_200)).await;
        story.front.heal().await;
        goes_on(&story.workshop, 5).await;
    }
    let (statuses, last) = load.stop().await;
    story.nothing_leaks(last).await;
    judge(&statuses);
    Ok(())
}

/// What is over while the store cannot be told is let go when it can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ends_during_an_outage_is_let_go_after_it() -> Outcome {
    let story = Story::start().await?;
    let gateway = &story.gateways[0];
    for round in 1..=3 {
        let halt = async {
            story.workshop.has_begun("/lease?long", round).await;
            assert_eq!(holders(&story.redis, KEYS[0]).await.len(), 1);
            story.redis.pause();
        };
        // The client leaves, and the gateway cannot tell anybody.
        ask(gateway, "/lease?long").leave_when(halt).await.unwrap();
        story.workshop.is_still().await;
        let refused = ask(gateway, "/lock").send().await;
        assert_eq!(refused.status, 503);
        let resumed = Instant::now();
        story.redis.resume();
        for key in KEYS {
            is_free(&story.redis, key, LONG_BEFORE).await;
        }
        println!("free {:?} after it", resumed.elapsed());
        eventually("all is well", Duration::from_secs(5), async || {
            (ask(gateway, "/lease").send().await.status == 200).then_some(())
        })
        .await;
    }
    assert!(gateway.traps().is_empty(), "{:?}", gateway.traps());
    Ok(())
}
