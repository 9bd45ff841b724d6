//! A lease limit holds whatever happens: with thousands at once, with clients that crash, over two gateways, and when
//! one of those crashes. What nobody uses any more is free at once, or a minute after a crash.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tollgate_e2e::{
    Ask, Dice, Gateway, Redis, Setup, Webdis, Work, Workshop, allow_many_files, eventually,
};

#[path = "holds/crowd.rs"]
mod crowd;
#[path = "holds/held.rs"]
mod held;

use crowd::{Crowd, Habits, crowd};
use held::{holders, is_free};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const CLIENTS: usize = 2_000;
const SLOTS: usize = 2;
const KEY: &str = "cc:{t:acme}:heavy";
const RULES: &str = "
identity: {tenant: {header: x-tenant-id}, key: {header: x-api-key-id}, tier: {header: x-tenant-tier}}
tiers: {one: {tenant: 10000000/minute, key: 10000000/minute, leases: {heavy: 2}}}
penalty_box: {mode: off}
routes: [{name: heavy, match: {path: /heavy/*}, lease: {kind: heavy, ttl: 15m}, on_store_failure: closed}]
";
/// A lease is let go within a second; the rest is what a busy machine may add.
const SOON: Duration = Duration::from_millis(1_500);

/// Work of a few milliseconds for each; `/heavy/N` takes N milliseconds.
fn workshop() -> Workshop {
    let dice = Mutex::new(Dice::new(1));
    Workshop::open(move |received| {
        let said = received.path.rsplit('/').next().unwrap();
        let takes = match said.parse() {
            Ok(millis) => Duration::from_millis(millis),
            Err(_) => dice.lock().unwrap().millis(1..9),
        };
        Work::on("heavy", takes)
    })
}

fn ask(gateway: &Gateway, path: &str) -> Ask {
    gateway.get(path).identity("acme", "key", "one")
}

/// 2,000 clients at once, spread over these gateways, of which 30 % crash; then a few that crash again and again, most
/// of them at work, since nobody else is in their way.
async fn storm(gateways: &[&Gateway]) -> Crowd {
    let asks = (0..CLIENTS).map(|client| ask(gateways[client % gateways.len()], "/heavy/any"));
    let habits = Habits {
        attempts: 6,
        crash: 30,
        crash_within: 60,
    };
    let crowd = crowd(asks.collect(), habits).await;
    crash_at_work(gateways).await;
    crowd
}

/// A few clients that crash again and again.
async fn crash_at_work(gateways: &[&Gateway]) {
    let mut unlucky = JoinSet::new();
    for client in 0..4 {
        let ask = ask(gateways[client % gateways.len()], "/heavy/40");
        unlucky.spawn(async move {
            let mut dice = Dice::new(client as u64);
            for _ in 0..25 {
                let moment = tokio::time::sleep(dice.millis(0..50));
                // An error: its gateway has crashed.
                let _ = ask.clone().reset_when(moment).await;
            }
        });
    }
    unlucky.join_all().await;
}

/// Clients did crash while their requests were worked on. On a machine that is busy it takes more of them.
async fn some_crashed_at_work(gateways: &[&Gateway], workshop: &Workshop) {
    let cut_short = async || {
        workshop.is_still().await;
        let worked = workshop.worked("heavy");
        worked.begun.len() - worked.done
    };
    for _ in 0..20 {
        if cut_short().await >= 10 {
            return;
        }
        crash_at_work(gateways).await;
    }
    panic!("only {}", cut_short().await);
}

/// All slots are there for new requests, and no more than those.
async fn all_slots_are_free(gateway: &Gateway, workshop: &Workshop) {
    eventually("all slots", SOON, async || {
        workshop.is_still().await;
        let one = ask(gateway, "/heavy/100").send();
        let other = ask(gateway, "/heavy/100").send();
        let (one, other) = tokio::join!(one, other);
        (one.status == 200 && other.status == 200).then_some(())
    })
    .await;
    assert!(workshop.worked("heavy").most <= SLOTS);
}

/// The crowd was held to the limit, by refusals for lack of a slot alone.
async fn was_held_to_the_limit(crowd: &Crowd, workshop: &Workshop, gateways: &[&Gateway]) {
    let worked = workshop.worked("heavy");
    println!(
        "{} began, {} ended, {} at once at most; {crowd:?}",
        worked.begun.len(),
        worked.done,
        worked.most
    );
    assert_eq!(worked.most, SLOTS, "at work at once");
    assert!(crowd.served >= 30, "hardly anybody was served: {crowd:?}");
    assert!(crowd.crashed >= 100, "hardly anybody crashed: {crowd:?}");
    let refused = crowd.refusals(429, "concurrency-limit-exceeded");
    // Too many at once on a page of the local store: rare, and told apart.
    let contended = crowd.refusals(429, "rate-limit-exceeded");
    assert_eq!(
        refused + contended,
        crowd.refused.values().sum::<usize>(),
        "{crowd:?}"
    );
    assert!(contended * 20 <= refused, "{crowd:?}");

    for gateway in gateways {
        let stats = gateway.stats().await;
        let counted = stats.sum("tollgate_leases_refused_total", &[("kind", "heavy")]);
        let verdicts = stats.sum("tollgate_requests_total", &[("verdict", "lease")]);
        assert_eq!(counted, verdicts);
        assert!(counted >= 500.0, "{counted}");
        assert_eq!(stats.sum("tollgate_degraded_total", &[]), 0.0);
        assert_eq!(stats.sum("tollgate_outbox_dropped_total", &[]), 0.0);
        assert!(gateway.traps().is_empty(), "{:?}", gateway.traps());
        assert_eq!(gateway.vm_reloads().await, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_on_two_workers_of_one_proxy() -> Outcome {
    allow_many_files();
    let workshop = workshop();
    let setup = Setup::new(RULES).workers(2).upstream(workshop.address());
    let gateway = Gateway::start(setup).await?;
    let crowd = storm(&[&gateway]).await;
    workshop.is_still().await;
    all_slots_are_free(&gateway, &workshop).await;
    assert_eq!(crowd.cut, 0, "{crowd:?}");
    some_crashed_at_work(&[&gateway], &workshop).await;
    was_held_to_the_limit(&crowd, &workshop, &[&gateway]).await;
    Ok(())
}

/// Two gateways on one Redis, before one upstream.
struct Fleet {
    gateways: [Gateway; 2],
    redis: Redis,
    _webdis: Webdis,
    workshop: Workshop,
}

impl Fleet {
    async fn start() -> Result<Self, Box<dyn std::error::Error>> {
        allow_many_files();
        let redis = Redis::start().await;
        let webdis = Webdis::start(&redis).await;
        let workshop = workshop();
        // A machine that is busy must not make the store fail: that is another story.
        let config = format!("store: {{kind: redis, upstream: redis-front, timeout: 5s}}{RULES}");
        let setup = || {
            Setup::new(config.as_str())
                .front(webdis.address())
                .upstream(workshop.address())
        };
        Ok(Self {
            gateways: [
                Gateway::start(setup()).await?,
                Gateway::start(setup()).await?,
            ],
            redis,
            _webdis: webdis,
            workshop,
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_on_two_gateways() -> Outcome {
    let fleet = Fleet::start().await?;
    let [here, there] = &fleet.gateways;
    let crowd = storm(&[here, there]).await;
    fleet.workshop.is_still().await;
    is_free(&fleet.redis, KEY, SOON).await;
    all_slots_are_free(there, &fleet.workshop).await;
    assert_eq!(crowd.cut, 0, "{crowd:?}");
    some_crashed_at_work(&[here, there], &fleet.workshop).await;
    was_held_to_the_limit(&crowd, &fleet.workshop, &[here, there]).await;
    for key in fleet.redis.keys().await {
        assert!(key.ttl.is_some(), "{key:?}");
    }
    Ok(())
}

/// The one story that takes a minute of real time: that is how long a crashed gateway's leases stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_on_two_gateways_one_of_which_crashes() -> Outcome {
    let fleet = Fleet::start().await?;
    let [survivor, doomed] = &fleet.gateways;
    let workshop = &fleet.workshop;
    let crash = async {
        workshop.has_begun("heavy", 25).await;
        // So that it leaves a lease behind for certain: work that will not be over by then.
        let is_long = || {
            let begun = workshop.worked("heavy").begun;
            begun.iter().any(|received| received.path == "/heavy/14000")
        };
        let mut asked = tokio::spawn(ask(doomed, "/heavy/14000").try_send());
        eventually("a long one", Duration::from_secs(30), async || {
            if is_long() {
                return Some(());
            }
            if asked.is_finished() {
                asked = tokio::spawn(ask(doomed, "/heavy/14000").try_send());
            }
            None
        })
        .await;
        doomed.kill();
        Instant::now()
    };
    let both = [survivor, doomed];
    let (crowd, crashed) = tokio::join!(storm(&both), crash);
    workshop.is_still().await;
    let left = holders(&fleet.redis, KEY).await;
    assert!(!left.is_empty(), "{:?} after the crash", crashed.elapsed());
    assert!(left.len() <= SLOTS, "{left:?}");

    let minute = Duration::from_secs(61).saturating_sub(crashed.elapsed());
    is_free(&fleet.redis, KEY, minute).await;
    println!("free {:?} after the crash", crashed.elapsed());
    all_slots_are_free(survivor, workshop).await;
    assert!(crowd.cut > 0, "{crowd:?}");
    was_held_to_the_limit(&crowd, workshop, &[survivor]).await;
    Ok(())
}

/// A lease is granted for a minute; who is still at work has it for longer, which is said every twenty seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_lives_is_held_on() -> Outcome {
    let redis = Redis::start().await;
    let webdis = Webdis::start(&redis).await;
    let workshop = workshop();
    let config = format!("store: {{kind: redis, upstream: redis-front, timeout: 1s}}{RULES}");
    let patient = |hcm: &mut serde_json::Value| {
        let route = &mut hcm["route_config"]["virtual_hosts"][0]["routes"][0]["route"];
        route["timeout"] = serde_json::json!("60s");
        hcm["stream_idle_timeout"] = serde_json::json!("60s");
    };
    let setup = Setup::new(config.as_str())
        .front(webdis.address())
        .upstream(workshop.address());
    let gateway = Gateway::start(setup.hcm(patient)).await?;
    let job = ask(&gateway, "/heavy/43000").deadline(Duration::from_secs(60));
    let job = tokio::spawn(job.send());
    let end = async || {
        let member: Vec<String> = holders(&redis, KEY).await;
        let score: Option<f64> = match member.first() {
            Some(member) => redis.ask(&["ZSCORE", KEY, member]).await.unwrap(),
            None => None,
        };
        score
    };
    let granted = eventually("the lease", Duration::from_secs(10), end).await;
    // Twice now.
    let patience = Duration::from_secs(45);
    eventually("it is held on", patience, async || {
        let end = end().await.expect("it is held all the time");
        (end >= granted + 39_000.0).then_some(())
    })
    .await;
    assert_eq!(job.await?.status, 200);
    is_free(&redis, KEY, SOON).await;
    Ok(())
}
