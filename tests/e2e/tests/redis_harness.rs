//! The harness' Redis and its fronts prove themselves, on an Envoy without a filter. Owns no story of Tollgate.

use std::time::{Duration, SystemTime};

use http::Method;
use serde_json::json;
use tollgate_e2e::{Ask, Fault, Faulty, Gateway, Redis, RestFront, Setup, Webdis};

type Outcome = Result<(), Box<dyn std::error::Error>>;

#[tokio::test]
async fn redis_can_be_looked_at_killed_and_halted() -> Outcome {
    let redis = Redis::with(&["--maxmemory-policy", "noeviction"]).await;
    let () = redis.ask(&["SET", "a", "1", "PX", "90000"]).await?;
    let () = redis.ask(&["HSET", "b", "f", "v"]).await?;
    let keys = redis.keys().await;
    let [a, b] = &keys[..] else {
        panic!("{keys:?}")
    };
    assert_eq!((a.name.as_str(), a.kind.as_str()), ("a", "string"));
    assert!(a.ttl.is_some_and(|ttl| ttl > Duration::from_secs(60)));
    assert_eq!(
        (b.name.as_str(), b.kind.as_str(), b.ttl),
        ("b", "hash", None)
    );
    let sha: String = redis.ask(&["SCRIPT", "LOAD", "return 1"]).await?;
    redis.forget_scripts().await;
    let error = redis.ask::<i64>(&["EVALSHA", &sha, "0"]).await.unwrap_err();
    assert_eq!(error.code(), Some("NOSCRIPT"));

    redis.pause();
    let asked = tokio::time::timeout(Duration::from_millis(100), redis.ask::<String>(&["PING"]));
    assert!(asked.await.is_err());
    redis.resume();
    assert_eq!(redis.ask::<String>(&["PING"]).await?, "PONG");

    let address = redis.address();
    redis.kill();
    assert!(redis.ask::<String>(&["PING"]).await.is_err());
    redis.restart().await;
    assert_eq!((redis.address(), redis.keys().await), (address, vec![]));
    Ok(())
}

#[tokio::test]
async fn a_cluster_refuses_a_call_for_several_slots() -> Outcome {
    let redis = Redis::cluster().await;
    let front = RestFront::start(&redis, "secret").await;
    let pipeline = |commands: serde_json::Value| {
        Ask::new(front.address(), Method::POST, "/pipeline").json(&commands)
    };
    let two_slots = json!([
        [
            "EVAL",
            "return redis.call('SET', KEYS[1], ARGV[1])",
            "2",
            "{a}1",
            "{a}2",
            "x"
        ],
        ["EVAL", "return {KEYS[1], false, 7}", 1, "{a}1"],
        ["EVAL", "return 1", "2", "{a}1", "{b}2"],
        ["GET", "{a}1"],
        ["GET", "{a}2"],
    ]);
    let reply = pipeline(two_slots.clone()).send().await;
    assert_eq!(reply.status, 401);
    let reply = pipeline(two_slots)
        .header("authorization", "Bearer secret")
        .send()
        .await;
    let answer = reply.json();
    assert_eq!(reply.status, 200, "{answer}");
    assert_eq!(
        (&answer[0], &answer[1]),
        (
            &json!({"result": "OK"}),
            &json!({"result": ["{a}1", null, 7]})
        )
    );
    assert!(
        answer[2]["error"]
            .as_str()
            .unwrap()
            .starts_with("CROSSSLOT Keys"),
        "{answer}"
    );
    assert_eq!(
        (&answer[3], &answer[4]),
        (&json!({"result": "x"}), &json!({"result": null}))
    );
    assert_eq!(front.counts(), (1, 5));

    redis.kill();
    let ping = || pipeline(json!([["PING"]])).header("authorization", "Bearer secret");
    assert_eq!(ping().send().await.status, 500);
    redis.restart().await;
    tollgate_e2e::eventually("Redis is back", Duration::from_secs(10), async || {
        (ping().send().await.status == 200).then_some(())
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn a_front_fails_as_it_is_told_and_heals() -> Outcome {
    let redis = Redis::start().await;
    let webdis = Webdis::with(&redis, json!({"threads": 1, "pool_size": 4})).await;
    let faulty = Faulty::start(webdis.address()).await;
    // Through Envoy, which is what will talk to it.
    let gateway = Gateway::start(Setup::without_filter().upstream(faulty.address())).await?;
    let ping = || gateway.get("/PING").deadline(Duration::from_millis(300));
    let works = async || {
        let reply = ping().try_send().await?;
        if reply.text() != r#"{"PING":[true,"PONG"]}"# {
            return Err(format!("{reply:?}").into());
        }
        Outcome::Ok(())
    };
    works().await?;
    assert!(faulty.asked()[0].starts_with(b"GET /PING HTTP/1.1\r\n"));
    faulty.forget();

    for (fault, status) in [
        (Fault::Refuse, Some(503)),
        (Fault::Close, Some(503)),
        (Fault::Hang, None),
        (Fault::Says(500, "[".to_owned()), Some(500)),
        (
            Fault::Sends(b"\x15\x03\x01 no HTTP\r\n\r\n".into()),
            Some(502),
        ),
        (Fault::Slow(Duration::from_millis(10)), Some(200)),
    ] {
        faulty.fail(fault.clone()).await;
        let status_now = ping().try_send().await.ok().map(|reply| reply.status);
        assert_eq!(status_now, status, "{fault:?}");
        faulty.heal().await;
        works().await?;
    }
    assert!(faulty.asked().len() >= 11);

    webdis.kill();
    assert_eq!(ping().send().await.status, 503);
    webdis.restart().await;
    works().await?;
    redis.kill();
    assert_eq!(ping().send().await.status, 503);
    redis.restart().await;
    tollgate_e2e::eventually("Webdis finds Redis", Duration::from_secs(10), async || {
        works().await.ok()
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn a_clock_can_be_ahead() -> Outcome {
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let before = now()?.as_secs();
    let gateway = Gateway::start(Setup::without_filter().clock_ahead(300)).await?;
    gateway.get("/").send().await;
    let log = gateway.admin("/server_info").await;
    let info: serde_json::Value = serde_json::from_str(&log)?;
    assert_eq!(info["state"], "LIVE");
    let reply = Ask::new(gateway.admin_address(), Method::GET, "/ready")
        .send()
        .await;
    let date = httpdate::parse_http_date(reply.header("date").unwrap())?;
    let ahead = date.duration_since(SystemTime::UNIX_EPOCH)?.as_secs() - before;
    assert!((300..330).contains(&ahead), "{ahead}");
    Ok(())
}
