//! Under load Redis or its front dies, halts and comes back: every request is answered in time, closed routes refuse,
//! the others are held to their share, and all of it ends by itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tollgate_e2e::{Answer, Gateway, Redis, Reply, Setup, Webdis, eventually};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const TIMEOUT: Duration = Duration::from_millis(50);
const OPEN_FOR: Duration = Duration::from_millis(500);
const CONFIG: &str = "
store: {kind: redis, upstream: redis-front, timeout: 50ms, breaker: {failures: 5, open_for: 500ms}}
identity: {tenant: {header: x-tenant-id}, key: {header: x-api-key-id}, tier: {header: x-tenant-tier}}
tiers: {wide: {tenant: 10000000/minute, key: 10000000/minute},
        capped: {tenant: {points: 400, per: 1h, burst: 400}, key: {points: 400, per: 1h, burst: 400}}}
penalty_box: {mode: off}
routes: [{name: strict, match: {path: /strict}, on_store_failure: closed}]
degraded: {share: 0.25}
";

/// Whom a request of the load is from, and where it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Strict,
    Open,
    Capped,
}

struct Seen {
    kind: Kind,
    gateway: usize,
    sent: Instant,
    done: Instant,
    reply: Reply,
}

impl Seen {
    fn took(&self) -> Duration {
        self.done - self.sent
    }

    fn limit(&self) -> Option<u64> {
        let limit = self.reply.header("ratelimit-limit")?;
        limit.parse().ok()
    }
}

/// Asks through all gateways at a steady pace, until it is told to stop.
struct Load {
    stop: Arc<AtomicBool>,
    clients: JoinSet<Vec<Seen>>,
}

impl Load {
    fn start(gateways: &Arc<[Gateway; 2]>, capped: &'static str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut clients = JoinSet::new();
        for client in 0..12 {
            let gateways = Arc::clone(gateways);
            let stop = Arc::clone(&stop);
            let gateway = client % 2;
            let kind = [Kind::Strict, Kind::Open, Kind::Capped][client / 2 % 3];
            clients.spawn(async move {
                let mut seen = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let (path, tenant, tier) = match kind {
                        Kind::Strict => ("/strict", "strict", "wide"),
                        Kind::Open => ("/open", "open", "wide"),
                        Kind::Capped => ("/open", capped, "capped"),
                    };
                    let ask = gateways[gateway].get(path).identity(tenant, "k", tier);
                    let sent = Instant::now();
                    // No answer within its 20 seconds fails the story.
                    let reply = ask.send().await;
                    seen.push(Seen {
                        kind,
                        gateway,
                        sent,
                        done: Instant::now(),
                        reply,
                    });
                    tokio::time::sleep(Duration::from_millis(8)).await;
                }
                seen
            });
        }
        Self { stop, clients }
    }

    async fn stop(self) -> Vec<Seen> {
        self.stop.store(true, Ordering::Relaxed);
        self.clients
            .join_all()
            .await
            .into_iter()
            .flatten()
            .collect()
    }
}

fn p99(seen: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<Duration> = seen.collect();
    times.sort_unstable();
    times[times.len() * 99 / 100]
}

/// One outage. To end and to start a server takes a while, in which it may be either: nothing is asked of those
/// requests, except that they are answered.
struct Outage {
    /// Until here all was well.
    ending: Instant,
    /// From here on nothing answers.
    down: Instant,
    /// From here on something may.
    starting: Instant,
    /// From here on all is well.
    up: Instant,
}

/// Judges one outage by all that was asked before, meanwhile and afterwards.
fn judge(what: &str, seen: &[Seen], outage: &Outage) {
    let up = outage.up;
    let before = seen.iter().filter(|one| one.done < outage.ending);
    let before: Vec<&Seen> = before.collect();
    let during = seen
        .iter()
        .filter(|one| one.sent > outage.down && one.done < outage.starting);
    let during: Vec<&Seen> = during.collect();
    assert!(before.len() > 50 && during.len() > 100, "{what}: too few");

    for one in &before {
        assert_ne!(one.reply.status, 503, "{what}: it was well before");
    }
    // Who holds the store for well waits for its timeout; then the breaker answers. What the machine itself adds is
    // as much as without an outage, more or less.
    let normal = p99(before.iter().map(|one| one.took()));
    let meanwhile = p99(during.iter().map(|one| one.took()));
    let most = TIMEOUT + Duration::from_millis(10) + 3 * normal.max(Duration::from_millis(10));
    println!("{what}: p99 {normal:?} before, {meanwhile:?} meanwhile");
    assert!(
        meanwhile <= most,
        "{what}: {meanwhile:?}, normally {normal:?}"
    );

    let mut statuses = BTreeMap::<_, usize>::new();
    for one in &during {
        *statuses.entry((one.kind, one.reply.status)).or_default() += 1;
        match (one.kind, one.reply.status) {
            (Kind::Strict, 503) => {
                assert_eq!(one.reply.header("retry-after"), Some("15"), "{what}");
            }
            // Its tenant has 10,000,000 points; a quarter of it is plenty.
            (Kind::Open, 200) => assert_eq!(one.limit(), Some(2_500_000), "{what}"),
            (Kind::Capped, 200 | 429) => assert_eq!(one.limit(), Some(100), "{what}"),
            (kind, status) => panic!("{what}: {status} for {kind:?}: {:?}", one.reply),
        }
    }
    println!("{what}: {statuses:?}");
    // A quarter of 400 on each gateway, which nobody had used before; 1 more comes back in 36 s.
    for gateway in 0..2 {
        let asked = |one: &&&Seen| one.gateway == gateway && one.kind == Kind::Capped;
        let asked: Vec<_> = during.iter().filter(asked).collect();
        let passed = |one: &&&&Seen| one.reply.status == 200;
        let admitted = asked.iter().filter(passed).count();
        assert!(admitted <= 101, "{what}: {admitted} by gateway {gateway}");
        let least = asked.len().min(100) * 9 / 10;
        assert!(admitted >= least, "{what}: {admitted} by gateway {gateway}");
    }
    // Full service: from some moment on every request is decided by the store.
    let degraded =
        |one: &&Seen| one.reply.status == 503 || matches!(one.limit(), Some(100 | 2_500_000));
    let last = seen.iter().filter(degraded).map(|one| one.done).max();
    let recovery = last.map_or(Duration::ZERO, |last| last.saturating_duration_since(up));
    println!("{what}: back after {recovery:?}");
    assert!(
        recovery <= OPEN_FOR + Duration::from_secs(1),
        "{what}: {recovery:?}"
    );
    let after = seen.iter().filter(|one| one.sent > up + recovery).count();
    assert!(after > 30, "{what}: {after} requests afterwards");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outages_under_load() -> Outcome {
    let redis = Redis::start().await;
    let webdis = Webdis::start(&redis).await;
    let setup = || Setup::new(CONFIG).front(webdis.address());
    let gateways = Arc::new([
        Gateway::start(setup()).await?,
        Gateway::start(setup()).await?,
    ]);
    let is_well = async || {
        eventually("all is well", Duration::from_secs(10), async || {
            for gateway in gateways.iter() {
                let ask = gateway.get("/strict").identity("first", "k", "wide");
                if ask.send().await.status != 200 {
                    return None;
                }
            }
            Some(())
        })
        .await;
    };
    let (second, pause) = (Duration::from_secs(1), Duration::from_millis(2_500));
    for (what, capped) in [
        ("Redis killed", "capped-1"),
        ("Redis halted", "capped-2"),
        ("Webdis killed", "capped-3"),
    ] {
        is_well().await;
        let load = Load::start(&gateways, capped);
        tokio::time::sleep(second).await;
        let ending = Instant::now();
        match what {
            "Redis killed" => redis.kill(),
            "Redis halted" => redis.pause(),
            _ => webdis.kill(),
        }
        let down = Instant::now();
        tokio::time::sleep(pause).await;
        let starting = Instant::now();
        match what {
            "Redis killed" => redis.restart().await,
            "Redis halted" => redis.resume(),
            _ => webdis.restart().await,
        }
        let up = Instant::now();
        tokio::time::sleep(OPEN_FOR + 2 * second).await;
        let outage = Outage {
            ending,
            down,
            starting,
            up,
        };
        judge(what, &load.stop().await, &outage);
    }
    for gateway in gateways.iter() {
        let stats = gateway.stats().await;
        assert_eq!(stats.sum("tollgate_degraded", &[]), 0.0);
        assert!(gateway.traps().is_empty(), "{:?}", gateway.traps());
        assert_eq!(gateway.vm_reloads().await, 0);
    }
    Ok(())
}

#[tokio::test]
async fn the_first_request_of_an_outage_waits_for_the_timeout_only() -> Outcome {
    let redis = Redis::start().await;
    let webdis = Webdis::start(&redis).await;
    let gateway = Gateway::start(Setup::new(CONFIG).front(webdis.address())).await?;
    gateway.upstream().always(Answer::ok());
    let ask = || gateway.get("/strict").identity("acme", "k", "wide").send();
    eventually("all is well", Duration::from_secs(10), async || {
        (ask().await.status == 200).then_some(())
    })
    .await;
    redis.pause();
    let start = Instant::now();
    assert_eq!(ask().await.status, 503);
    let took = start.elapsed();
    assert!(took >= TIMEOUT - Duration::from_millis(5), "{took:?}");
    assert!(took < TIMEOUT + Duration::from_millis(500), "{took:?}");
    redis.resume();
    Ok(())
}
