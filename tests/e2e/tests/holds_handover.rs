//! How long a lease and a lock are held: as long as the stream lives, longer where the upstream has taken them over, and
//! no longer than that.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use http::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tollgate_e2e::{
    Answer, Ask, Gate, Gateway, Redis, Reply, RestFront, Setup, Webdis, eventually, repository,
};

#[path = "holds/held.rs"]
mod held;

use held::{holders, is_free};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const LEASE: &str = "cc:{t:acme}:heavy";
const LOCK: &str = "lk:{t:acme}:ledger-7";
const RULES: &str = "
identity: {tenant: {header: x-tenant-id}, key: {header: x-api-key-id}, tier: {header: x-tenant-tier}}
tiers: {one: {tenant: 10000000/minute, key: 10000000/minute, leases: {heavy: 1}}}
penalty_box: {mode: off}
routes:
- {name: both, match: {path: /both/*}, lease: {kind: heavy, ttl: 15m}, lock: {by: {header: x-ledger-id}, ttl: 15m},
   hold_on: [202], on_store_failure: closed}
- {name: lease, match: {path: /lease/*}, lease: {kind: heavy, ttl: 15m}, hold_on: [202], on_store_failure: closed}
- {name: lock, match: {path: /lock/*}, lock: {by: {header: x-ledger-id}, ttl: 15m}, hold_on: [202], on_store_failure: closed}
- {name: short, match: {path: /short/*}, lease: {kind: heavy, ttl: 2s}, lock: {by: {header: x-ledger-id}, ttl: 2s},
   hold_on: [202], on_store_failure: closed}
- {name: abort, match: {path: /abort/*}, lease: {kind: heavy, ttl: 2s, on_abort: hold},
   lock: {by: {header: x-ledger-id}, ttl: 2s, on_abort: release}, on_store_failure: closed}
";
const TTL: Duration = Duration::from_secs(2);
/// What is let go is free at once; the rest is what a busy machine may add.
const SOON: Duration = Duration::from_millis(1_500);

struct Story {
    gateway: Gateway,
    redis: Redis,
    _webdis: Webdis,
}

impl Story {
    async fn start(change: impl Fn(Setup) -> Setup) -> Result<Self, Box<dyn std::error::Error>> {
        let redis = Redis::start().await;
        let webdis = Webdis::start(&redis).await;
        let config = format!("store: {{kind: redis, upstream: redis-front, timeout: 5s}}{RULES}");
        let setup = Setup::new(config.as_str()).front(webdis.address());
        Ok(Self {
            gateway: Gateway::start(change(setup)).await?,
            redis,
            _webdis: webdis,
        })
    }

    async fn is_well(&self) {
        assert!(
            self.gateway.traps().is_empty(),
            "{:?}",
            self.gateway.traps()
        );
        for key in self.redis.keys().await {
            assert!(key.ttl.is_some(), "{key:?}");
        }
    }
}

fn ask(gateway: &Gateway, path: &str) -> Ask {
    gateway
        .request(Method::POST, path)
        .identity("acme", "key", "one")
        .header("x-ledger-id", "ledger-7")
}

/// The last part of a problem's type.
fn kind(reply: &Reply) -> String {
    let problem = reply.json();
    let kind = problem["type"].as_str().unwrap();
    kind.rsplit('/').next().unwrap().to_owned()
}

/// The words of the user that is documented for upstreams, after its name.
fn rights() -> Vec<String> {
    let guide = std::fs::read_to_string(repository().join("docs/heavy-endpoints.md")).unwrap();
    let line = guide
        .lines()
        .find_map(|line| line.strip_prefix("user jobs "));
    let words = line.expect("the user of upstreams").split(' ');
    words.map(ToOwned::to_owned).collect()
}

/// The command that is documented for upstreams, run as the user that is.
async fn release(redis: &Redis, lease: &str) -> String {
    let rights = rights();
    let mut user = vec!["ACL", "SETUSER", "jobs"];
    user.extend(rights.iter().map(String::as_str));
    let () = redis.ask(&user).await.unwrap();
    let output = run_release(redis, "jobs:jobs-password", lease);
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn run_release(redis: &Redis, user: &str, lease: &str) -> Output {
    let script = repository().join("examples/release-hold/release.sh");
    let url = format!("redis://{user}@{}", redis.address());
    let mut command = Command::new(script);
    command.arg(lease).env("REDIS_URL", url).output().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_redis_refuses_fails() -> Outcome {
    let redis = Redis::start().await;
    let user = ["ACL", "SETUSER", "nobody", "on", ">password", "+ping"];
    let () = redis.ask(&user).await?;
    let lease = "cc:{t:acme}:job 00000000000000ff";
    let refused = run_release(&redis, "nobody:password", lease);
    assert!(!refused.status.success(), "{refused:?}");
    let nothing_held = run_release(&redis, "nobody:password", "");
    assert_eq!(nothing_held.stdout, b"0\n", "{nothing_held:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upstream_that_has_taken_over_releases() -> Outcome {
    let story = Story::start(|setup| setup).await?;
    let gateway = &story.gateway;
    for (path, words, refusal) in [
        ("/both/1", 3, "resource-locked"),
        ("/lease/1", 2, "concurrency-limit-exceeded"),
        ("/lock/1", 2, "resource-locked"),
    ] {
        gateway.upstream().forget();
        gateway.upstream().always(Answer::status(202));
        let accepted = ask(gateway, path).send().await;
        assert_eq!(accepted.status, 202, "{accepted:?}");
        let received = &gateway.upstream().requests()[0];
        let lease = received.header("x-tollgate-lease").unwrap();
        assert_eq!(lease.split(' ').count(), words, "{lease}");
        let has_lock = path != "/lease/1";
        assert_eq!(received.header("x-tollgate-fence").is_some(), has_lock);

        // The stream has ended, and what it held is the upstream's.
        for _ in 0..3 {
            let refused = ask(gateway, path).send().await;
            assert_eq!(kind(&refused), refusal, "{path}");
        }
        // For as long as was configured, from now on.
        eventually("the hand-over", SOON, async || {
            let key = lease.split(' ').next().unwrap();
            let left: i64 = story.redis.ask(&["PTTL", key]).await.unwrap();
            (left > 14 * 60 * 1_000).then_some(())
        })
        .await;

        assert_eq!(release(&story.redis, &lease).await, (words - 1).to_string());
        assert!(holders(&story.redis, LEASE).await.is_empty());
        assert!(holders(&story.redis, LOCK).await.is_empty());
        assert_eq!(release(&story.redis, &lease).await, "0", "once is enough");

        // Any other status ends it with the stream.
        for status in [200, 500, 409] {
            gateway.upstream().always(Answer::status(status));
            eventually("the next one", SOON, async || {
                (ask(gateway, path).send().await.status == status).then_some(())
            })
            .await;
        }
        is_free(&story.redis, LEASE, SOON).await;
        is_free(&story.redis, LOCK, SOON).await;
    }
    story.is_well().await;
    Ok(())
}

#[test]
fn the_guide_shows_the_command_as_it_is() {
    let file = |path| std::fs::read_to_string(repository().join(path)).unwrap();
    let block = format!("```sh\n{}```\n", file("examples/release-hold/release.sh"));
    assert!(file("docs/heavy-endpoints.md").contains(&block));
}

#[tokio::test]
async fn one_command_does_where_there_is_one_hold() -> Outcome {
    let story = Story::start(|setup| setup).await?;
    story.gateway.upstream().always(Answer::status(202));
    for (path, command) in [("/lease/1", "ZREM"), ("/lock/1", "HDEL")] {
        story.gateway.upstream().forget();
        assert_eq!(ask(&story.gateway, path).send().await.status, 202);
        let received = &story.gateway.upstream().requests()[0];
        let lease = received.header("x-tollgate-lease").unwrap();
        let (key, _) = lease.split_once(' ').unwrap();
        let gone: u64 = story.redis.ask(&[command, key, &lease]).await?;
        assert_eq!(gone, 1);
        assert!(holders(&story.redis, key).await.is_empty());
    }
    Ok(())
}

/// Handed over for two seconds: refused until then, and not after.
async fn ends_by_itself(gateway: &Gateway) {
    gateway.upstream().always(Answer::status(202));
    let start = Instant::now();
    assert_eq!(ask(gateway, "/short/1").send().await.status, 202);
    let handed_over = Instant::now();
    let refused = ask(gateway, "/short/1").send().await;
    assert_eq!(
        (refused.status, kind(&refused).as_str()),
        (409, "resource-locked")
    );
    let wait = refused.number("retry-after");
    assert!((1..=30).contains(&wait), "{wait}");
    eventually("the ttl ends", TTL + SOON, async || {
        (ask(gateway, "/short/1").send().await.status == 202).then_some(())
    })
    .await;
    assert!(start.elapsed() >= TTL, "{:?}", start.elapsed());
    let took = handed_over.elapsed();
    assert!(took <= TTL + SOON, "{took:?}");
}

#[tokio::test]
async fn what_was_handed_over_ends_by_itself() -> Outcome {
    let story = Story::start(|setup| setup).await?;
    ends_by_itself(&story.gateway).await;
    story.is_well().await;
    let local = Gateway::start(Setup::new(RULES).workers(2)).await?;
    ends_by_itself(&local).await;
    assert!(local.traps().is_empty(), "{:?}", local.traps());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_lets_go_of_what_its_route_says() -> Outcome {
    let story = Story::start(|setup| setup).await?;
    let upstream = story.gateway.upstream();
    let gate = Gate::closed();
    upstream.always(Answer::ok().behind(&gate));
    // By default the lease goes and the lock stays: the upstream may still be at work on the resource.
    for (path, goes, stays) in [("/short/1", LEASE, LOCK), ("/abort/1", LOCK, LEASE)] {
        upstream.forget();
        let in_flight = async {
            upstream.received(1).await;
            assert_eq!(holders(&story.redis, LEASE).await.len(), 1);
            assert_eq!(holders(&story.redis, LOCK).await.len(), 1);
        };
        let start = Instant::now();
        ask(&story.gateway, path)
            .leave_when(in_flight)
            .await
            .unwrap();
        let left = Instant::now();
        is_free(&story.redis, goes, SOON).await;
        let held = holders(&story.redis, stays).await;
        assert!(held.len() == 1 || left.elapsed() > TTL, "{path}");
        is_free(&story.redis, stays, TTL + SOON).await;
        assert!(start.elapsed() >= TTL, "{path}: {:?}", start.elapsed());
    }
    story.is_well().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_download_holds_its_lease_to_its_end() -> Outcome {
    let story = Story::start(|setup| setup).await?;
    let gateway = &story.gateway;
    let gate = Gate::closed();
    let download = Answer::ok().body("one ").then_behind(&gate, "two");
    gateway.upstream().always(download);
    for http2 in [false, true] {
        gate.close();
        gateway.upstream().forget();
        let first = ask(gateway, "/lease/1");
        let first = if http2 { first.http2() } else { first };
        let first = tokio::spawn(first.send());
        gateway.upstream().received(1).await;
        // Its headers are with the client.
        eventually("the response has begun", SOON, async || {
            let begun = gateway.stat("cluster.upstream.upstream_rq_2xx").await;
            (begun >= Some(1 + u64::from(http2))).then_some(())
        })
        .await;
        let refused = ask(gateway, "/lease/1").send().await;
        assert_eq!(kind(&refused), "concurrency-limit-exceeded");
        assert!(!first.is_finished());
        gate.open();
        assert_eq!(first.await?.text(), "one two");
        is_free(&story.redis, LEASE, SOON).await;
    }
    story.is_well().await;
    Ok(())
}

/// An upstream that takes every upgrade, and echoes what comes then.
async fn upgrading() -> Result<(std::net::SocketAddr, tokio::task::JoinHandle<()>), std::io::Error>
{
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let task = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
                        return;
                    }
                }
                let answer = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
                let _ = stream.write_all(answer.as_bytes()).await;
                let (mut from, mut to) = stream.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
            });
        }
    });
    Ok((address, task))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_websocket_holds_its_lease_while_it_is_open() -> Outcome {
    let (address, server) = upgrading().await?;
    let upgrades = |hcm: &mut serde_json::Value| {
        hcm["upgrade_configs"] = serde_json::json!([{"upgrade_type": "websocket"}]);
    };
    let story = Story::start(|setup| setup.upstream(address).hcm(upgrades)).await?;
    let head = "GET /lease/socket HTTP/1.1\r\nhost: a\r\nx-tenant-id: acme\r\nx-api-key-id: key\r\nx-tenant-tier: one\r\n\
                connection: upgrade\r\nupgrade: websocket\r\n\r\n";
    let pause = Duration::from_millis(300);
    let mut socket = story.gateway.raw().await;
    socket.send(head).await;
    let answer = eventually("the upgrade", Duration::from_secs(10), async || {
        let answer = socket.receive(pause).await;
        (!answer.is_empty()).then_some(answer)
    })
    .await;
    assert!(answer.starts_with(b"HTTP/1.1 101"), "{answer:?}");
    for word in ["one", "two"] {
        socket.send(word).await;
        assert_eq!(socket.receive(pause).await, word.as_bytes());
        assert_eq!(holders(&story.redis, LEASE).await.len(), 1);
        let refused = ask(&story.gateway, "/lease/1").send().await;
        assert_eq!(kind(&refused), "concurrency-limit-exceeded");
    }
    drop(socket);
    is_free(&story.redis, LEASE, SOON).await;
    story.is_well().await;
    server.abort();
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_internal_redirect_keeps_what_is_held() -> Outcome {
    let follows = |hcm: &mut serde_json::Value| {
        let route = &mut hcm["route_config"]["virtual_hosts"][0]["routes"][0]["route"];
        route["internal_redirect_policy"] = serde_json::json!({"max_internal_redirects": 3});
    };
    let story = Story::start(|setup| setup.hcm(follows)).await?;
    let gateway = &story.gateway;
    let gate = Gate::closed();
    let behind = gate.clone();
    gateway.upstream().respond(move |received| {
        if received.path == "/both/start" {
            let to = format!(
                "http://{}/both/end",
                received.headers["host"].to_str().unwrap()
            );
            Answer::status(302).header("location", to)
        } else {
            Answer::ok().behind(&behind)
        }
    });
    for _ in 0..2 {
        gate.close();
        gateway.upstream().forget();
        // An internal redirect is followed for requests without a body: this has none.
        let first = gateway
            .get("/both/start")
            .identity("acme", "key", "one")
            .header("x-ledger-id", "ledger-7");
        let first = tokio::spawn(first.send());
        let received = gateway.upstream().received(2).await;
        assert_eq!(received[1].path, "/both/end");
        for header in ["x-tollgate-lease", "x-tollgate-fence"] {
            assert_eq!(
                received[0].header(header),
                received[1].header(header),
                "{header}"
            );
            assert_eq!(received[1].headers.get_all(header).iter().count(), 1);
        }
        let lease = received[1].header("x-tollgate-lease").unwrap();
        assert_eq!(
            holders(&story.redis, LEASE).await,
            std::slice::from_ref(&lease)
        );
        assert_eq!(holders(&story.redis, LOCK).await, [lease]);
        let refused = ask(gateway, "/both/1").send().await;
        assert_eq!(kind(&refused), "resource-locked");
        gate.open();
        assert_eq!(first.await?.status, 200);
        is_free(&story.redis, LEASE, SOON).await;
        is_free(&story.redis, LOCK, SOON).await;
    }
    story.is_well().await;
    Ok(())
}

/// An upstream that breaks off every response in the middle.
async fn breaking() -> Result<(std::net::SocketAddr, tokio::task::JoinHandle<()>), std::io::Error> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let task = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
                        return;
                    }
                }
                let answer = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nthe beginning";
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    Ok((address, task))
}

/// The upstream is not at work any more: there is nothing to hold a lock on for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_that_the_upstream_breaks_off_lets_go() -> Outcome {
    let (address, server) = breaking().await?;
    let story = Story::start(|setup| setup.upstream(address)).await?;
    for _ in 0..2 {
        let mut client = story.gateway.raw().await;
        client
            .send(
                "POST /lock/1 HTTP/1.1\r\nhost: a\r\nx-tenant-id: acme\r\nx-api-key-id: key\r\nx-tenant-tier: one\r\n\
                 x-ledger-id: ledger-7\r\ncontent-length: 0\r\n\r\n",
            )
            .await;
        let answer = client.receive(Duration::from_secs(2)).await;
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{answer:?}");
        is_free(&story.redis, LOCK, SOON).await;
    }
    story.is_well().await;
    server.abort();
    Ok(())
}

/// A listener that was replaced ends its streams when it has drained, and its filter with them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_of_the_configuration_leaves_nothing_held() -> Outcome {
    let redis = Redis::start().await;
    let webdis = Webdis::start(&redis).await;
    let config = format!("store: {{kind: redis, upstream: redis-front, timeout: 5s}}{RULES}");
    let setup = Setup::new(config.as_str())
        .front(webdis.address())
        .dynamic();
    let gateway = Gateway::start(setup).await?;
    let gate = Gate::closed();
    gateway.upstream().always(Answer::ok().behind(&gate));
    let jobs = ["/lease/1", "/lock/1"].map(|path| tokio::spawn(ask(&gateway, path).try_send()));
    gateway.upstream().received(2).await;
    assert_eq!(holders(&redis, LEASE).await.len(), 1);
    let changed = format!("headers: {{dialect: draft-11}}\n{config}");
    assert!(gateway.reconfigure(changed.as_str()).await.is_ok());

    // They work on, and what they hold is theirs, also in the eyes of the new configuration.
    let refused = ask(&gateway, "/lease/2").send().await;
    assert_eq!(kind(&refused), "concurrency-limit-exceeded");
    // Then the old listener is done with draining, and their connections are closed.
    for job in jobs {
        assert!(job.await?.is_err(), "its connection was closed");
    }
    is_free(&redis, LEASE, SOON).await;
    gate.open();
    assert_eq!(ask(&gateway, "/lease/3").send().await.status, 200);
    assert!(gateway.traps().is_empty(), "{:?}", gateway.traps());
    Ok(())
}

/// By either front, on a cluster, where an address and a tenant are asked one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_holds_and_lets_go_by_either_front() -> Outcome {
    let redis = Redis::cluster().await;
    let rest = RestFront::start(&redis, "secret").await;
    let webdis = Webdis::start(&redis).await;
    for (store, front) in [
        (
            r#"dialect: upstash, authorization: "Bearer secret""#,
            rest.address(),
        ),
        ("dialect: webdis", webdis.address()),
    ] {
        let () = redis.ask(&["FLUSHALL"]).await?;
        let config = format!(
            "store: {{kind: redis, upstream: redis-front, topology: cluster, timeout: 5s, {store}}}\n\
             ip_limit: 6/hour{RULES}"
        );
        let gateway = Gateway::start(Setup::new(config.as_str()).front(front)).await?;
        let gate = Gate::closed();
        gateway.upstream().always(Answer::ok().behind(&gate));
        let first = tokio::spawn(ask(&gateway, "/both/1").send());
        gateway.upstream().received(1).await;
        // More than the address has points: whoever is refused gets his back.
        for _ in 0..8 {
            let refused = ask(&gateway, "/both/2").send().await;
            assert_eq!(kind(&refused), "resource-locked", "{store}");
        }
        gate.open();
        assert_eq!(first.await?.status, 200);
        is_free(&redis, LEASE, SOON).await;
        is_free(&redis, LOCK, SOON).await;

        gateway.upstream().always(Answer::status(202));
        assert_eq!(ask(&gateway, "/both/3").send().await.status, 202);
        let refused = ask(&gateway, "/lease/4").send().await;
        assert_eq!(kind(&refused), "concurrency-limit-exceeded", "{store}");
        let received = gateway.upstream().requests();
        let lease = received.last().unwrap().header("x-tollgate-lease");
        assert_eq!(release(&redis, &lease.unwrap()).await, "2");
        gateway.upstream().always(Answer::ok());
        assert_eq!(ask(&gateway, "/both/5").send().await.status, 200);
        let stats = gateway.stats().await;
        assert_eq!(stats.sum("tollgate_degraded_total", &[]), 0.0, "{store}");
        assert!(gateway.traps().is_empty(), "{:?}", gateway.traps());
    }
    Ok(())
}
