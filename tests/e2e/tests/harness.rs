//! The harness proves itself, on an Envoy without a filter and on one with a stub. Owns no story of Tollgate.

use std::time::{Duration, Instant};

use http::{Method, Version};
use tempfile::TempDir;
use tollgate_e2e::{Answer, Configuration, Gate, Gateway, Setup, eventually, frame};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// A setup with the stub in it; the directory holds its file.
fn stub(configuration: impl Into<Configuration>) -> (TempDir, Setup) {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("stub.wasm");
    std::fs::write(
        &file,
        wat::parse_bytes(include_bytes!("fixtures/stub.wat")).unwrap(),
    )
    .unwrap();
    (directory, Setup::new(configuration).wasm(file))
}

#[tokio::test]
async fn requests_reach_the_upstream_as_written() -> Outcome {
    let gateway = Gateway::start(Setup::without_filter()).await?;
    gateway
        .upstream()
        .always(Answer::status(201).header("x-odd", b"\xfe").body("made"));

    let reply = gateway
        .post("/a/../b//%7Ec?q=1")
        .header("x-odd", b"\xff")
        .header("x-twice", "1")
        .header("x-twice", "2");
    let reply = reply
        .identity("t-1", "k-1", "growth")
        .body("hello")
        .send()
        .await;

    assert_eq!(
        (reply.status, reply.version, reply.text().as_str()),
        (201, Version::HTTP_11, "made")
    );
    assert_eq!(reply.headers["x-odd"].as_bytes(), b"\xfe");
    let [received] = &gateway.upstream().requests()[..] else {
        panic!("one request")
    };
    assert_eq!(
        (&received.method, received.path.as_str()),
        (&Method::POST, "/a/../b//%7Ec?q=1")
    );
    assert_eq!(received.headers["x-odd"].as_bytes(), b"\xff");
    assert_eq!(
        received
            .headers
            .get_all("x-twice")
            .iter()
            .collect::<Vec<_>>(),
        ["1", "2"]
    );
    assert_eq!(received.header("x-tenant-tier").as_deref(), Some("growth"));
    assert_eq!(received.body, "hello");

    let line = &gateway.access_log(1).await[0];
    assert_eq!(
        (line.status, line.method.as_str(), line.path.as_str()),
        (201, "POST", "/a/../b//%7Ec?q=1")
    );
    assert_eq!(
        (&line.verdict, line.details.as_deref()),
        (&None, Some("via_upstream"))
    );
    Ok(())
}

#[tokio::test]
async fn http2_goes_through_as_http2() -> Outcome {
    let gateway = Gateway::start(Setup::without_filter()).await?;
    let reply = gateway.get("/v1/x").http2().send().await;
    assert_eq!((reply.status, reply.version), (200, Version::HTTP_2));
    assert_eq!(gateway.upstream().requests()[0].version, Version::HTTP_2);
    Ok(())
}

#[tokio::test]
async fn a_client_has_the_address_it_chooses() -> Outcome {
    let gateway = Gateway::start(Setup::without_filter()).await?;
    gateway.get("/").from([127, 0, 0, 9]).send().await;
    assert_eq!(
        gateway.upstream().requests()[0]
            .header("x-forwarded-for")
            .as_deref(),
        Some("127.0.0.9")
    );
    Ok(())
}

#[tokio::test]
async fn grpc_messages_and_statuses_come_through() -> Outcome {
    let gateway = Gateway::start(Setup::without_filter()).await?;
    gateway
        .upstream()
        .respond(|request| match request.path.as_str() {
            "/ledger.Ledger/Get" => Answer::grpc(b"entry").header("x-answer", "1"),
            _ => Answer::grpc_status(8),
        });
    let client = gateway.grpc().await;

    let response = client
        .call("/ledger.Ledger/Get", &[("x-tenant-id", "t-1")], "which")
        .await?;
    assert_eq!(response.metadata().get("x-answer").unwrap(), "1");
    assert_eq!(response.into_inner(), "entry");
    let status = client
        .call("/ledger.Ledger/Other", &[], "")
        .await
        .unwrap_err();
    assert_eq!(status.code(), tonic::Code::ResourceExhausted);

    let received = gateway.upstream().requests();
    assert_eq!(received[0].body, frame(b"which"));
    assert_eq!(received[0].header("x-tenant-id").as_deref(), Some("t-1"));
    Ok(())
}

#[tokio::test]
async fn raw_bytes_are_sent_raw() -> Outcome {
    let gateway = Gateway::start(Setup::without_filter()).await?;
    let mut connection = gateway.raw().await;
    connection
        .send("GET / HTTP/1.1\r\nhost: x\r\nx-bad: \0\r\n\r\n")
        .await;
    let answer = connection.receive(Duration::from_secs(5)).await;
    assert!(
        answer.starts_with(b"HTTP/1.1 400 "),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    assert!(gateway.upstream().requests().is_empty());
    Ok(())
}

#[tokio::test]
async fn a_gate_keeps_requests_in_flight() -> Outcome {
    let gateway = Gateway::start(Setup::without_filter()).await?;
    let gate = Gate::closed();
    gateway.upstream().always(Answer::ok().behind(&gate));
    let (one, two, ()) = tokio::join!(gateway.get("/1").send(), gateway.get("/2").send(), async {
        gateway.upstream().received(2).await;
        assert_eq!(gateway.upstream().in_flight(), 2);
        gate.open();
    });
    assert_eq!((one.status, two.status), (200, 200));
    assert_eq!(
        (gateway.upstream().in_flight(), gateway.upstream().peak()),
        (0, 2)
    );
    Ok(())
}

#[tokio::test]
async fn a_client_can_leave_in_the_middle() -> Outcome {
    let gateway = Gateway::start(Setup::without_filter()).await?;
    let gate = Gate::closed();
    gateway.upstream().always(Answer::ok().behind(&gate));
    let arrived = async {
        gateway.upstream().received(1).await;
    };
    assert!(gateway.get("/").leave_when(arrived).await.is_ok());
    let line = &gateway.access_log(1).await[0];
    assert_eq!((line.status, line.flags.as_deref()), (0, Some("DC")));
    Ok(())
}

#[tokio::test]
async fn an_upstream_that_hangs_up_is_a_503() -> Outcome {
    let gateway = Gateway::start(Setup::without_filter()).await?;
    gateway.upstream().always(Answer::hang_up());
    assert_eq!(gateway.get("/").send().await.status, 503);
    gateway
        .upstream()
        .always(Answer::status(418).after(Duration::from_millis(200)));
    let start = Instant::now();
    assert_eq!(gateway.get("/").send().await.status, 418);
    assert!(start.elapsed() >= Duration::from_millis(200));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volley_sends_everything_once() -> Outcome {
    let gateway = Gateway::start(Setup::without_filter().workers(2)).await?;
    gateway
        .upstream()
        .respond(|request| match request.path.as_str() {
            // Ends its connection: the volley must open another one.
            "/7" => Answer::status(429).header("retry-after", "3"),
            _ => Answer::ok(),
        });
    for http2 in [false, true] {
        gateway.upstream().forget();
        let asks = (0..500).map(|i| {
            let ask = gateway.get(&format!("/{i}"));
            if http2 { ask.http2() } else { ask }
        });
        let volley = gateway.volley(20, asks).await;

        assert_eq!(
            volley.statuses(),
            [(200, 499), (429, 1)].into(),
            "http2: {http2}"
        );
        assert_eq!(volley.shots[7].headers["retry-after"], "3");
        assert!(
            volley.quantile(0.5) <= volley.quantile(0.99) && volley.quantile(1.0) <= volley.took
        );
        let mut paths: Vec<_> = gateway
            .upstream()
            .requests()
            .into_iter()
            .map(|request| request.path)
            .collect();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), 500);
    }
    Ok(())
}

#[tokio::test]
async fn a_closed_connection_is_opened_again() -> Outcome {
    let setup = Setup::without_filter().hcm(|hcm| {
        hcm["common_http_protocol_options"] = serde_json::json!({"max_requests_per_connection": 2});
    });
    let gateway = Gateway::start(setup).await?;
    let volley = gateway.volley(1, (0..9).map(|_| gateway.get("/"))).await;
    assert_eq!(volley.count(200), 9, "{volley:?}");
    Ok(())
}

#[tokio::test]
async fn a_filter_gets_its_configuration_in_both_forms() -> Outcome {
    let (_file, setup) = stub("{name: one}");
    let gateway = Gateway::start(setup).await?;
    assert_eq!(
        gateway.get("/").send().await.header("x-stub"),
        Some(r#"{"name":"one"}"#)
    );
    assert_eq!(
        gateway.access_log(1).await[0].verdict.as_deref(),
        Some("stub")
    );

    // Protobuf bytes, which the stub does not show.
    let (_file, setup) = stub(Configuration::yaml_struct("{name: one}"));
    let gateway = Gateway::start(setup).await?;
    assert_eq!(gateway.get("/").send().await.header("x-stub"), None);
    Ok(())
}

#[tokio::test]
async fn a_refused_configuration_does_not_boot() {
    let (_file, setup) = stub("{refuse: me}");
    let failure = Gateway::start(setup).await.err().expect("a failure");
    assert!(
        failure.logs.contains("stub: told to refuse it."),
        "{failure}"
    );
    assert!(failure.reason.contains("ended"), "{failure}");
}

#[tokio::test]
async fn a_running_gateway_takes_a_configuration_or_refuses_it() -> Outcome {
    let (_file, setup) = stub("{name: one}");
    let gateway = Gateway::start(setup.workers(2).dynamic()).await?;
    let served = async || {
        let mut seen = Vec::new();
        for _ in 0..8 {
            seen.push(
                gateway
                    .get("/")
                    .send()
                    .await
                    .header("x-stub")
                    .unwrap_or_default()
                    .to_owned(),
            );
        }
        seen.dedup();
        seen
    };
    assert_eq!(served().await, [r#"{"name":"one"}"#]);

    gateway.reconfigure("{name: two}").await?;
    assert_eq!(served().await, [r#"{"name":"two"}"#]);

    let refused = gateway.reconfigure("{refuse: me}").await.unwrap_err();
    assert!(
        refused.logs.contains("stub: told to refuse it."),
        "{refused}"
    );
    assert_eq!(served().await, [r#"{"name":"two"}"#]);

    // The same again is no change, and is not waited for in vain.
    gateway.reconfigure("{name: two}").await?;
    gateway.reconfigure("{name: three}").await?;
    assert_eq!(served().await, [r#"{"name":"three"}"#]);
    Ok(())
}

#[tokio::test]
async fn a_trap_is_seen() -> Outcome {
    let (_file, setup) = stub("{trap: true}");
    let gateway = Gateway::start(setup).await?;
    assert_eq!((gateway.traps().len(), gateway.vm_reloads().await), (0, 0));
    eventually("a new VM", Duration::from_secs(10), async || {
        assert_eq!(gateway.get("/").send().await.status, 503);
        (gateway.vm_reloads().await > 0).then_some(())
    })
    .await;
    assert_eq!(gateway.traps().len(), 2);
    assert!(
        gateway.traps()[0].contains("proxy_on_request_headers"),
        "{:?}",
        gateway.traps()
    );
    Ok(())
}

#[tokio::test]
async fn envoy_tells_of_itself() -> Outcome {
    let (_file, setup) = stub("{}");
    let gateway = Gateway::start(setup.workers(2)).await?;
    // The main thread has a VM of its own.
    assert_eq!(
        gateway.stat("wasm.envoy.wasm.runtime.v8.active").await,
        Some(4)
    );
    assert_eq!(
        gateway.stat("wasm.envoy.wasm.runtime.v8.no_such").await,
        None
    );
    let memory = gateway.memory().await;
    assert!(
        memory.allocated > 0 && memory.heap_size > memory.allocated,
        "{memory:?}"
    );
    Ok(())
}

/// The expressions in envoy/envoy.yaml make labels of every name, also where a value is called like a label.
#[tokio::test]
async fn the_shipped_stats_tags_make_labels() -> Outcome {
    let (_file, setup) = stub("{}");
    let gateway = Gateway::start(setup).await?;
    let stats = gateway.stats().await;
    let expected = [
        r#"tollgate_alerts_total{"result": "sent"}"#,
        r#"tollgate_auth_failures_total{"throttle": "token-subject"}"#,
        r#"tollgate_box_trips_total{"level": "2", "scope": "level"}"#,
        r#"tollgate_degraded_total{"route": "route"}"#,
        r#"tollgate_degraded{}"#,
        r#"tollgate_evictions_total{}"#,
        r#"tollgate_leases_refused_total{"kind": "kind"}"#,
        r#"tollgate_outbox_dropped_total{}"#,
        r#"tollgate_points_total{"tier": "tier"}"#,
        r#"tollgate_requests_total{"mode": "enforce", "route": "reconcile", "tier": "growth", "verdict": "allowed"}"#,
        r#"tollgate_requests_total{"mode": "route", "route": "tier", "tier": "verdict", "verdict": "mode"}"#,
        r#"tollgate_requests_total{"mode": "shadow", "route": "a_rq_200", "tier": "worker_0", "verdict": "throttled"}"#,
        r#"tollgate_requests_total{"mode": "verdict", "route": "mode", "tier": "route", "verdict": "tier"}"#,
        r#"tollgate_store_errors_total{"kind": "timeout"}"#,
        r#"tollgate_store_latency_ms_count{}"#,
    ];
    let mut found: Vec<_> = stats
        .starting("tollgate_")
        .filter(|sample| !sample.name.contains("latency") || sample.name.ends_with("_count"))
        .map(|sample| format!("{}{:?}", sample.name, sample.labels))
        .collect();
    found.sort_unstable();
    assert_eq!(found, expected);
    Ok(())
}
