//! A crowd that comes at once and leaves in the middle neither stops a gateway nor leaves anything behind in it.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tollgate_e2e::{Answer, Gateway, Redis, Setup, Webdis, allow_many_files, eventually};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const CONNECTIONS: usize = 2_000;
const STREAMS: usize = 200;
const CONFIG: &str = "
store: {kind: redis, upstream: redis-front, timeout: 1s}
identity: {tenant: {header: x-tenant-id}, key: {header: x-api-key-id}, tier: {header: x-tenant-tier}}
tiers: {one: {tenant: 10000000/minute, key: 10000000/minute}}
";

async fn gateway() -> Result<(Redis, Webdis, Gateway), Box<dyn std::error::Error>> {
    allow_many_files();
    let redis = Redis::start().await;
    let webdis = Webdis::start(&redis).await;
    let setup = Setup::new(CONFIG).workers(2).front(webdis.address());
    let gateway = Gateway::start(setup).await?;
    gateway.upstream().always(Answer::ok());
    Ok((redis, webdis, gateway))
}

/// Nothing is left over, and the next ones are served by the store.
async fn is_as_before(gateway: &Gateway) {
    eventually("no request is left", Duration::from_secs(10), async || {
        let active = gateway.stat("http.gateway.downstream_rq_active").await;
        (active == Some(0)).then_some(())
    })
    .await;
    let idle = gateway
        .stat("http.gateway.downstream_rq_idle_timeout")
        .await;
    assert_eq!(idle, Some(0), "a stream was stuck");
    assert!(gateway.traps().is_empty(), "{:?}", gateway.traps());
    assert_eq!(gateway.vm_reloads().await, 0);
    let asks = (0..500).map(|_| gateway.get("/").identity("after", "k", "one"));
    let volley = gateway.volley(8, asks).await;
    assert_eq!(volley.count(200), 500, "{:?}", volley.statuses());
    for shot in &volley.shots {
        assert_eq!(shot.headers["ratelimit-limit"], "10000000");
    }
    assert!(gateway.is_alive());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_connections_at_once_half_of_them_killed() -> Outcome {
    let (_redis, _webdis, gateway) = gateway().await?;
    let address = gateway.address();
    let together = std::sync::Arc::new(Barrier::new(CONNECTIONS));
    let mut clients = JoinSet::new();
    for client in 0..CONNECTIONS {
        let together = std::sync::Arc::clone(&together);
        clients.spawn(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            together.wait().await;
            let request = format!(
                "GET /{client} HTTP/1.1\r\nhost: a\r\nx-tenant-id: t-{}\r\nx-api-key-id: k\r\n\
                 x-tenant-tier: one\r\nconnection: close\r\n\r\n",
                client % 50
            );
            stream.write_all(request.as_bytes()).await.unwrap();
            if client % 2 == 0 {
                // Some before Envoy has read it, some while the store is asked, some later.
                tokio::time::sleep(Duration::from_micros((client % 400) as u64 * 50)).await;
                // A reset, as of a client that crashed.
                stream.set_zero_linger().unwrap();
                return None;
            }
            let mut answer = Vec::new();
            let reading = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut answer);
            let read = tokio::time::timeout(Duration::from_secs(20), reading).await;
            read.expect("an answer in time").unwrap();
            Some(String::from_utf8_lossy(&answer[..12]).into_owned())
        });
    }
    let answers = clients.join_all().await;
    let answered: Vec<_> = answers.into_iter().flatten().collect();
    assert_eq!(answered.len(), CONNECTIONS / 2);
    for status in answered {
        assert_eq!(status, "HTTP/1.1 200");
    }
    is_as_before(&gateway).await;
    Ok(())
}

/// The status of an answer, and where it is none of the upstream's, the reason.
async fn said(answer: hyper::Result<Response<Incoming>>) -> String {
    match answer {
        Ok(answer) if answer.status() == 200 => "200".to_owned(),
        Ok(answer) => {
            let status = answer.status();
            let body = answer.into_body().collect().await.map(|b| b.to_bytes());
            format!("{status}: {body:?}")
        }
        Err(error) => error.to_string(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_of_two_hundred_streams_that_break() -> Outcome {
    let (_redis, _webdis, gateway) = gateway().await?;
    let address = gateway.address();
    let mut clients = JoinSet::new();
    for client in 0..20 {
        clients.spawn(async move {
            let stream = TcpStream::connect(address).await.unwrap();
            let (sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                    .await
                    .unwrap();
            let connection = tokio::spawn(connection);
            let mut streams = JoinSet::new();
            for stream in 0..STREAMS {
                let mut sender = sender.clone();
                let request = Request::get(format!("http://{address}/{client}/{stream}"))
                    .header("x-tenant-id", format!("t-{client}"))
                    .header("x-api-key-id", format!("k-{}", stream % 8))
                    .header("x-tenant-tier", "one")
                    .body(Full::<Bytes>::default())
                    .unwrap();
                streams.spawn(async move {
                    match stream % 4 {
                        // Resets the stream.
                        0 => {
                            let wait = Duration::from_micros(stream as u64 * 50);
                            let _ = tokio::time::timeout(wait, sender.send_request(request)).await;
                            None
                        }
                        _ => {
                            let answer = sender.send_request(request).await;
                            Some(said(answer).await)
                        }
                    }
                });
            }
            if client % 2 == 0 {
                // The whole connection goes, with all its streams.
                tokio::time::sleep(Duration::from_millis(client)).await;
                connection.abort();
                let _ = streams.join_all().await;
                return Vec::new();
            }
            let deadline = tokio::time::timeout(Duration::from_secs(20), streams.join_all());
            let answers = deadline.await.expect("answers in time");
            answers.into_iter().flatten().collect()
        });
    }
    let answers = clients.join_all().await;
    let mut answered = 0;
    for answer in answers.into_iter().flatten() {
        assert_eq!(answer, "200");
        answered += 1;
    }
    assert_eq!(answered, 10 * STREAMS * 3 / 4);
    is_as_before(&gateway).await;
    Ok(())
}
