//! At full speed over two workers, what a real Envoy admits is what the limits allow: never more, and
//! at least 99 % of it.

use tollgate_e2e::{Answer, Ask, Gateway, Setup, Volley};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const REQUESTS: usize = 20_000;
const CONNECTIONS: usize = 64;

/// A gateway with two workers and no penalty box, whose keys get `key` and whose tenants get `tenant`.
async fn gateway(tenant: &str, key: &str) -> Result<Gateway, Box<dyn std::error::Error>> {
    workers(2, tenant, key).await
}

async fn workers(
    workers: u32,
    tenant: &str,
    key: &str,
) -> Result<Gateway, Box<dyn std::error::Error>> {
    let config = format!(
        "
        identity: {{tenant: {{header: x-tenant-id}}, key: {{header: x-api-key-id}}, tier: {{header: x-tenant-tier}}}}
        tiers: {{one: {{tenant: {tenant}, key: {key}}}}}
        penalty_box: {{mode: off}}
        routes:
          - {{name: ten, match: {{path: /10}}, cost: 10}}
          - {{name: twentyfive, match: {{path: /25}}, cost: 25}}
        "
    );
    let gateway = Gateway::start(Setup::new(config.as_str()).workers(workers)).await?;
    gateway.upstream().always(Answer::ok());
    Ok(gateway)
}

/// Checks the admitted points of a volley against burst + rate x time.
fn admits(volley: &Volley, cost_of: impl Fn(usize) -> u64, rate: f64, burst: f64) {
    let answered = volley.count(200) + volley.count(429);
    assert_eq!(answered, volley.shots.len(), "{:?}", volley.statuses());
    let passed = volley.shots.iter().filter(|s| s.status == 200);
    let admitted: u64 = passed.map(|s| cost_of(s.index)).sum();
    let first = volley.shots.iter().map(|s| s.sent).min().unwrap();
    let last_sent = volley.shots.iter().map(|s| s.sent).max().unwrap();
    let last_done = volley.shots.iter().map(|s| s.sent + s.took).max().unwrap();
    // A decision falls between sending and answer; Envoy's clock tells whole milliseconds.
    let most = burst + rate * ((last_done - first).as_secs_f64() + 0.001);
    let least = burst + rate * ((last_sent - first).as_secs_f64() - 0.001);
    assert!(
        admitted as f64 <= most,
        "{admitted} admitted, {most:.1} allowed"
    );
    assert!(
        admitted as f64 >= 0.99 * least,
        "{admitted} admitted of {least:.1}"
    );
}

fn keys(
    gateway: &Gateway,
    path: impl Fn(usize) -> String,
    key: impl Fn(usize) -> usize,
) -> Vec<Ask> {
    (0..REQUESTS)
        .map(|n| {
            gateway
                .get(&path(n))
                .identity("acme", &format!("key-{}", key(n)), "one")
        })
        .collect()
}

/// Everybody asks for one key of so many workers: it gets its limit.
async fn hot_key(of_workers: u32) -> Result<(Gateway, Volley), Box<dyn std::error::Error>> {
    let (tenant, key) = (
        "{points: 1000000, per: 1s}",
        "{points: 500, per: 1s, burst: 2000}",
    );
    let gateway = workers(of_workers, tenant, key).await?;
    let asks = keys(&gateway, |_| "/v1".to_owned(), |_| 1);
    let volley = gateway.volley(CONNECTIONS, asks).await;
    admits(&volley, |_| 1, 500.0, 2000.0);
    assert!(gateway.traps().is_empty(), "{:?}", gateway.traps());
    Ok((gateway, volley))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_workers_share_one_hot_key_exactly() -> Outcome {
    let (gateway, _) = hot_key(4).await?;
    let stats = gateway.stats().await;
    let contended = stats.sum("tollgate_store_errors_total", &[("kind", "contention")]);
    assert_eq!(contended, 0.0, "a page was too contended to decide");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_key_gets_exactly_its_limit() -> Outcome {
    let (gateway, volley) = hot_key(2).await?;
    // What was counted is what was answered.
    let stats = gateway.stats().await;
    let counted = |verdict| stats.sum("tollgate_requests_total", &[("verdict", verdict)]) as usize;
    assert_eq!(counted("allowed"), volley.count(200));
    assert_eq!(counted("throttled"), volley.count(429));
    let points = stats.sum("tollgate_points_total", &[("tier", "one")]) as usize;
    assert_eq!(points, volley.count(200));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_it_does_with_mixed_costs() -> Outcome {
    let gateway = gateway(
        "{points: 1000000, per: 1s}",
        "{points: 500, per: 1s, burst: 5000}",
    )
    .await?;
    let cost = |n: usize| [1, 10, 25][n % 3];
    let path = |n: usize| ["/1", "/10", "/25"][n % 3].to_owned();
    let asks = keys(&gateway, path, |_| 1);
    let volley = gateway.volley(CONNECTIONS, asks).await;
    admits(&volley, cost, 500.0, 5000.0);
    assert!(gateway.traps().is_empty(), "{:?}", gateway.traps());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tenant_holds_eight_keys_to_its_limit() -> Outcome {
    let gateway = gateway(
        "{points: 500, per: 1s, burst: 2000}",
        "{points: 400, per: 1s, burst: 1600}",
    )
    .await?;
    let asks = keys(&gateway, |_| "/v1".to_owned(), |n| n % 8);
    let volley = gateway.volley(CONNECTIONS, asks).await;
    admits(&volley, |_| 1, 500.0, 2000.0);
    // And each key to its own.
    for key in 0..8 {
        let passed = volley
            .shots
            .iter()
            .filter(|s| s.index % 8 == key && s.status == 200)
            .count();
        assert!(passed as f64 <= 1600.0 + 400.0 * volley.took.as_secs_f64());
    }
    Ok(())
}
