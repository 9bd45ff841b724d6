//! No header, path or body can stop the filter: each gets a legal answer, and the same Envoy goes on.

use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_e2e::{Answer, Gateway, Setup};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const CONFIG: &str = "
identity: {tenant: {header: x-tenant-id}, key: {header: x-api-key-id}, tier: {header: x-tenant-tier}, default_tier: one,
           client_ip: {from: x-forwarded-for, trusted_hops: 1}}
ip_limit: 1000000/minute
tiers: {one: {tenant: 1000000/minute, key: 1000000/minute}}
routes: [{name: dated, match: {path: /dated}, cost: {base: 1, when_range: {from: from, to: to, longer_than: 1d, cost: 2}}},
         {name: writes, match: {methods: [POST], path: /v1/*}, idempotency_key: required}]
";

#[tokio::test]
async fn bytes_of_every_kind() -> Outcome {
    let gateway = Gateway::start(Setup::new(CONFIG)).await?;
    gateway.upstream().always(Answer::ok());
    let long = "a".repeat(40_000);
    let lines: Vec<Vec<u8>> = [
        b"x-tenant-id: \xff\xfe\r\nx-api-key-id: \x80\r\n".to_vec(),
        b"x-tenant-id: a\r\nx-tenant-id: b\r\n".to_vec(),
        b"x-api-key-id: \xc3\x28\r\nx-tenant-id: {t:x}\r\n".to_vec(),
        b"x-tenant-tier: \xf0\x28\x8c\xbc\r\nx-tenant-id: a\r\nx-api-key-id: b\r\n".to_vec(),
        format!("x-tenant-id: {long}\r\nx-api-key-id: k\r\n").into_bytes(),
        b"x-request-id: \xff\xff\"\\\r\n".to_vec(),
        b"idempotency-key: \xff\"\r\n".to_vec(),
        b"x-forwarded-for: \xff, ::ffff:1.2.3.4, [::1, 999.1.1.1, %%%\r\n".to_vec(),
        b"X-Tollgate-\xc3\xa9: 1\r\n".to_vec(),
        b"x-tollgate-: 1\r\nX-TOLLGATE-LEASE: \xff\r\n".to_vec(),
        b"content-type: application/grpc\xff\r\n".to_vec(),
        b"\xff\xfe: 1\r\n".to_vec(),
        Vec::new(),
    ]
    .into();
    let paths: [&[u8]; 9] = [
        b"/",
        b"/%",
        b"/%zz%2",
        b"/../../..//%2e%2e/\x80\xff",
        b"/dated?from=\xff&to=%ff%00&from",
        b"/dated?from=99999999999999999999&to=-1",
        b"/v1/%00%0d%0a",
        b"*",
        b"/?#\x01",
    ];
    let mut tried = JoinSet::new();
    for headers in &lines {
        for path in paths {
            for method in [&b"GET"[..], b"POST", b"HEAD", b"BREW", b"OPTIONS"] {
                let head = [
                    method,
                    b" ",
                    path,
                    b" HTTP/1.1\r\nhost: a\r\nconnection: close\r\n",
                    headers,
                    b"\r\n",
                ]
                .concat();
                let mut connection = gateway.raw().await;
                tried.spawn(async move {
                    connection.send(&head).await;
                    (connection.receive(Duration::from_secs(2)).await, head)
                });
            }
        }
    }
    let mut answered = 0;
    for (reply, head) in tried.join_all().await {
        // Envoy refuses some of it itself, with a 400 or by closing; the filter never with a 5xx.
        let status = reply.get(9..12).unwrap_or(b"---");
        assert!(
            reply.is_empty() || matches!(status, [b'2' | b'4', ..]),
            "{}: {}",
            String::from_utf8_lossy(&head),
            String::from_utf8_lossy(&reply)
        );
        answered += usize::from(status == b"200");
    }
    assert!(answered > 100, "only {answered} of them were let through");
    assert!(gateway.traps().is_empty(), "{:?}", gateway.traps());
    assert_eq!(gateway.vm_reloads().await, 0);
    assert_eq!(gateway.get("/").send().await.status, 200);
    Ok(())
}

#[tokio::test]
async fn bytes_that_are_not_utf8_are_an_identity() -> Outcome {
    let gateway = Gateway::start(Setup::new(CONFIG)).await?;
    gateway.upstream().always(Answer::ok());
    for time in 1..=2 {
        let ask = gateway
            .get("/")
            .header("x-tenant-id", b"\xff\xfe")
            .header("x-api-key-id", b"\x80");
        let reply = ask.send().await;
        assert_eq!(reply.status, 200, "{time}");
        assert_eq!(reply.header("ratelimit-limit"), Some("1000000"));
    }
    let twice = gateway
        .get("/")
        .header("x-tenant-id", "a")
        .header("x-tenant-id", b"\xff")
        .send()
        .await;
    assert_eq!(twice.status, 400);
    assert_eq!(
        twice.json()["detail"],
        "The header 'x-tenant-id' was sent more than once; send it once."
    );
    assert!(gateway.traps().is_empty());
    Ok(())
}
