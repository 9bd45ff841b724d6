//! A front of Redis that takes many commands a request, of the kind that Upstash and serverless-redis-http are:
//! `POST /pipeline` with `[["GET","a"],...]` is answered `[{"result":...},{"error":"..."}]`. Owns the translation;
//! must not know what is asked.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, Cmd, RedisError};
use serde_json::{Value, json};

use crate::redis_server::Redis;
use crate::server::{Answered, Server};

/// The running front; it ends when this is dropped.
pub struct RestFront {
    server: Server,
    counted: Arc<Counted>,
}

#[derive(Default)]
struct Counted {
    requests: AtomicUsize,
    commands: AtomicUsize,
}

impl RestFront {
    /// Starts one that lets in whoever carries this token: `authorization: Bearer TOKEN`.
    ///
    /// # Panics
    ///
    /// When Redis does not answer.
    pub async fn start(redis: &Redis, token: &str) -> Self {
        // It comes back when Redis does; meanwhile each request learns at once that it is away.
        let config = ConnectionManagerConfig::new()
            .set_number_of_retries(1)
            .set_min_delay(Duration::from_millis(10))
            .set_connection_timeout(Some(Duration::from_millis(200)));
        let client = Client::open(redis.url()).expect("an address");
        let connection = ConnectionManager::new_with_config(client, config)
            .await
            .expect("Redis");
        let bearer: Arc<str> = format!("Bearer {token}").into();
        let counted = Arc::<Counted>::default();
        let counts = Arc::clone(&counted);
        let server = Server::start(move |request| {
            handle(
                request,
                connection.clone(),
                Arc::clone(&bearer),
                Arc::clone(&counts),
            )
        })
        .await;
        Self { server, counted }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// How many requests have come so far, and how many commands in them.
    pub fn counts(&self) -> (usize, usize) {
        (
            self.counted.requests.load(Ordering::Relaxed),
            self.counted.commands.load(Ordering::Relaxed),
        )
    }
}

async fn handle(
    request: Request<Incoming>,
    connection: ConnectionManager,
    bearer: Arc<str>,
    counted: Arc<Counted>,
) -> Answered {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let allowed = head
        .headers
        .get(AUTHORIZATION)
        .is_some_and(|value| value.as_bytes() == bearer.as_bytes());
    if !allowed {
        return answer(401, &json!({"error": "Unauthorized"}));
    }
    if head.method != Method::POST || head.uri.path() != "/pipeline" {
        return answer(404, &json!({"error": "ERR no such command"}));
    }
    let Ok(commands) = serde_json::from_slice::<Vec<Vec<Value>>>(&body) else {
        return answer(
            400,
            &json!({"error": "ERR failed to parse pipeline request"}),
        );
    };
    counted.requests.fetch_add(1, Ordering::Relaxed);
    counted
        .commands
        .fetch_add(commands.len(), Ordering::Relaxed);
    let mut results = Vec::new();
    for command in commands {
        let result = run(connection.clone(), &command).await;
        results.push(match result {
            Ok(value) => json!({ "result": value }),
            Err(error) => match error_text(&error) {
                Some(text) => json!({ "error": text }),
                None => return answer(500, &json!({"error": "ERR Redis cannot be reached"})),
            },
        });
    }
    answer(200, &Value::Array(results))
}

async fn run(mut connection: ConnectionManager, command: &[Value]) -> Result<Value, RedisError> {
    let mut words = Cmd::new();
    for word in command {
        match word {
            Value::String(text) => words.arg(text),
            other => words.arg(other.to_string()),
        };
    }
    let answer: redis::Value = words.query_async(&mut connection).await?;
    plain(answer)
}

/// Redis' answer as JSON.
fn plain(value: redis::Value) -> Result<Value, RedisError> {
    Ok(match value {
        redis::Value::Nil => Value::Null,
        redis::Value::Int(number) => json!(number),
        redis::Value::Okay => json!("OK"),
        redis::Value::SimpleString(text) => json!(text),
        redis::Value::BulkString(bytes) => json!(String::from_utf8_lossy(&bytes)),
        redis::Value::Array(values) => {
            let values: Result<Vec<_>, _> = values.into_iter().map(plain).collect();
            Value::Array(values?)
        }
        other => json!(format!("{other:?}")),
    })
}

/// An error as Redis wrote it; none where Redis did not write it.
fn error_text(error: &RedisError) -> Option<String> {
    let code = error.code()?;
    Some(match error.detail() {
        Some(detail) => format!("{code} {detail}"),
        None => code.to_owned(),
    })
}

fn answer(status: u16, body: &Value) -> Answered {
    let response = Response::builder()
        .status(status)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body.to_string())).boxed())?;
    Ok(response)
}
