//! Several gateways on one Redis are one limiter: together they admit what the limits allow, whatever their clocks
//! say, and what one has boxed is boxed on all.

use std::time::{Duration, Instant};

use tollgate_e2e::{Answer, Ask, Gateway, Redis, Reply, Setup, Volley, Webdis, eventually};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const REQUESTS: usize = 20_000;
const KEYS: usize = 8;

/// Two gateways, the second with its clock ahead, on one Redis behind one Webdis.
struct Fleet {
    gateways: [Gateway; 2],
    redis: Redis,
    _webdis: Webdis,
}

impl Fleet {
    async fn start(rules: &str, ahead: i64) -> Result<Self, Box<dyn std::error::Error>> {
        let redis = Redis::start().await;
        let webdis = Webdis::start(&redis).await;
        // The timeout is no part of these stories: a machine that is busy must not change what is admitted.
        let config = format!(
            "{{
            store: {{kind: redis, upstream: redis-front, timeout: 5s}},
            identity: {{tenant: {{header: x-tenant-id}}, key: {{header: x-api-key-id}}, tier: {{header: x-tenant-tier}}}},
            {rules}
            }}"
        );
        let setup = || Setup::new(config.as_str()).front(webdis.address());
        let gateways = [
            Gateway::start(setup()).await?,
            Gateway::start(setup().clock_ahead(ahead)).await?,
        ];
        for gateway in &gateways {
            gateway.upstream().always(Answer::ok());
        }
        Ok(Self {
            gateways,
            redis,
            _webdis: webdis,
        })
    }

    /// So many requests of one tenant's keys, half of them through each gateway, as fast as they go.
    async fn volleys(&self, requests: usize) -> [Volley; 2] {
        let fire = async |gateway: &Gateway| {
            let asks = (0..requests / 2).map(|n| ask(gateway, n % KEYS));
            gateway.volley(32, asks).await
        };
        let [one, other] = &self.gateways;
        let (one, other) = tokio::join!(fire(one), fire(other));
        [one, other]
    }

    /// The store decided all of it.
    async fn was_never_degraded(&self) {
        for gateway in &self.gateways {
            let stats = gateway.stats().await;
            // Loading the script is counted, and no failure.
            let all = stats.sum("tollgate_store_errors_total", &[]);
            let loaded = stats.sum("tollgate_store_errors_total", &[("kind", "noscript")]);
            assert_eq!(all - loaded, 0.0);
            assert_eq!(stats.sum("tollgate_degraded_total", &[]), 0.0);
            assert!(gateway.traps().is_empty(), "{:?}", gateway.traps());
        }
    }
}

fn ask(gateway: &Gateway, key: usize) -> Ask {
    gateway
        .get("/v1")
        .identity("acme", &format!("key-{key}"), "one")
}

/// Checks what was admitted of these requests against burst + rate x time.
fn admits(volleys: &[Volley; 2], counts: impl Fn(usize) -> bool, rate: f64, burst: f64) {
    let mut admitted = 0;
    let (mut sent, mut done) = (Vec::new(), Vec::new());
    for volley in volleys {
        for shot in volley.shots.iter().filter(|shot| counts(shot.index)) {
            assert!(matches!(shot.status, 200 | 429), "{shot:?}");
            admitted += usize::from(shot.status == 200);
            sent.push(volley.started + shot.sent);
            done.push(volley.started + shot.sent + shot.took);
        }
    }
    let first = *sent.iter().min().unwrap();
    let since_first = |moment: Option<&Instant>| (*moment.unwrap() - first).as_secs_f64();
    // A decision falls between sending and answer; Redis' clock tells whole milliseconds.
    let most = burst + rate * (since_first(done.iter().max()) + 0.001);
    let least = burst + rate * (since_first(sent.iter().max()) - 0.001);
    #[expect(clippy::cast_precision_loss)]
    let admitted = admitted as f64;
    assert!(admitted <= most, "{admitted} admitted, {most:.1} allowed");
    assert!(
        admitted >= (0.99 * least).floor(),
        "{admitted} admitted of {least:.1}"
    );
}

/// With this tenant limit, the tenant's is what binds.
const TENANT_BINDS: &str = "
tiers: {one: {tenant: {points: 500, per: 1s, burst: 2000}, key: {points: 400, per: 1s, burst: 1600}}},
penalty_box: {mode: off}";

async fn the_tenant_is_held_to_its_limit(ahead: i64) -> Outcome {
    let fleet = Fleet::start(TENANT_BINDS, ahead).await?;
    let volleys = fleet.volleys(REQUESTS).await;
    admits(&volleys, |_| true, 500.0, 2000.0);
    for key in 0..KEYS {
        let passed: usize = volleys
            .iter()
            .flat_map(|volley| &volley.shots)
            .filter(|shot| shot.index % KEYS == key && shot.status == 200)
            .count();
        let took = volleys[0].took.max(volleys[1].took).as_secs_f64() + 0.1;
        #[expect(clippy::cast_precision_loss)]
        let passed = passed as f64;
        assert!(passed <= 1600.0 + 400.0 * took, "key-{key}: {passed}");
    }
    fleet.was_never_degraded().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gateways_hold_a_tenant_to_its_limit() -> Outcome {
    the_tenant_is_held_to_its_limit(0).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_they_do_with_clocks_five_minutes_apart() -> Outcome {
    the_tenant_is_held_to_its_limit(300).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_key_is_held_to_its_own_limit_too() -> Outcome {
    let rules = "
    tiers: {one: {tenant: {points: 1000, per: 1s, burst: 4000}, key: {points: 50, per: 1s, burst: 200}}},
    penalty_box: {mode: off}";
    let fleet = Fleet::start(rules, -300).await?;
    let volleys = fleet.volleys(REQUESTS).await;
    for key in 0..KEYS {
        admits(&volleys, |index| index % KEYS == key, 50.0, 200.0);
    }
    fleet.was_never_degraded().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_forgets_its_scripts_fails_nobody() -> Outcome {
    let rules = "
    tiers: {one: {tenant: {points: 1000000, per: 1s}, key: {points: 1000000, per: 1s}}},
    penalty_box: {mode: off}";
    let fleet = Fleet::start(rules, 0).await?;
    let flushes = async {
        for _ in 0..10 {
            fleet.redis.forget_scripts().await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let (volleys, ()) = tokio::join!(fleet.volleys(6_000), flushes);
    for volley in &volleys {
        assert_eq!(volley.count(200), 3_000, "{:?}", volley.statuses());
    }
    for gateway in &fleet.gateways {
        let stats = gateway.stats().await;
        // Not even in the first moment, when nobody has loaded it yet.
        let allowed = stats.sum("tollgate_requests_total", &[("verdict", "allowed")]);
        assert_eq!(allowed, 3_000.0);
    }
    fleet.was_never_degraded().await;
    Ok(())
}

fn is_boxed(reply: &Reply) -> bool {
    reply.header("x-penalty-box-status") == Some("Active-Lockout")
}

/// The time of day in `lockout_ends_at`, in milliseconds.
fn ends_at(reply: &Reply) -> u64 {
    let problem = reply.json();
    let moment = problem["lockout_ends_at"].as_str().unwrap();
    let digits = moment.split_once('T').unwrap().1.trim_end_matches('Z');
    let parts: Vec<u64> = digits
        .split([':', '.'])
        .map(|part| part.parse().unwrap())
        .collect();
    ((parts[0] * 60 + parts[1]) * 60 + parts[2]) * 1000 + parts.get(3).unwrap_or(&0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_box_holds_on_every_gateway_until_it_is_released() -> Outcome {
    let rules = "
    tiers: {one: {tenant: {points: 100000, per: 1s}, key: {points: 100, per: 1s, burst: 10},
                  penalty: {strikes: 3, within: 60s}}},
    penalty_box: {grace: 1s}";
    let fleet = Fleet::start(rules, 300).await?;
    let [here, there] = &fleet.gateways;
    let mut asked = 0;
    let tripped = eventually("a box", Duration::from_secs(20), async || {
        let asks = (0..100).map(|_| ask(here, 1));
        asked += here.volley(16, asks).await.shots.len();
        let reply = ask(here, 1).send().await;
        is_boxed(&reply).then_some(reply)
    })
    .await;
    assert_eq!(tripped.status, 429, "after {asked}");
    assert_eq!(tripped.json()["penalty_level"], 1);

    // The other gateway has never seen this key.
    let refused = ask(there, 1).send().await;
    assert_eq!((refused.status, is_boxed(&refused)), (429, true));
    assert_eq!(
        refused.json()["type"],
        "https://api.yourdomain.com/errors/penalty-box-active"
    );
    // The same moment by the store's clock, though theirs are five minutes apart.
    let apart = ends_at(&refused).abs_diff(ends_at(&tripped));
    assert!(apart < 1_000, "{apart} ms: {refused:?} {tripped:?}");
    // It boxes the key alone.
    assert_eq!(ask(there, 2).send().await.status, 200);

    let gone: i64 = fleet.redis.ask(&["DEL", "pb:{t:acme}:box:key-1"]).await?;
    assert_eq!(gone, 1);
    let released = Instant::now();
    for gateway in &fleet.gateways {
        eventually("the release is seen", Duration::from_secs(12), async || {
            (ask(gateway, 1).send().await.status == 200).then_some(())
        })
        .await;
    }
    let took = released.elapsed();
    assert!(took < Duration::from_secs(11), "{took:?}");
    fleet.was_never_degraded().await;
    Ok(())
}
