//! A Webdis in the process: what the filter calls, played on a real Redis, at the time of the story.

use std::sync::{Arc, Mutex};

use redis::Value;
use serde_json::{Value as Json, json};
use tollgate_host::{Answer, Call, Outcome};

use super::server::Server;

/// The front, and the Redis behind it.
#[derive(Clone)]
pub(crate) struct Front(Arc<Mutex<Server>>);

impl Front {
    /// A front of a Redis of its own.
    pub(crate) fn start() -> Self {
        Self(Arc::new(Mutex::new(Server::start("stories"))))
    }

    /// An empty Redis, which does not know the script either.
    pub(crate) fn forget_everything(&self) {
        let mut server = self.0.lock().unwrap();
        server.say::<String>("FLUSHALL");
        server.say::<String>("SCRIPT FLUSH");
    }

    /// Where the Redis listens.
    #[allow(dead_code, reason = "of the tests that share this, one needs it")]
    pub(crate) fn socket(&self) -> std::path::PathBuf {
        self.0.lock().unwrap().socket()
    }

    /// What is held at a time (ms): the key and the member.
    #[allow(dead_code, reason = "of the tests that share this, one needs it")]
    pub(crate) fn held(&self, now: u64) -> Vec<String> {
        let mut server = self.0.lock().unwrap();
        let keys: Vec<String> = server.say("KEYS *");
        let mut held = Vec::new();
        for key in keys {
            let found: Vec<(String, String)> = match key.split(':').next() {
                Some("cc") => server.say(&format!("ZRANGE {key} 0 -1 WITHSCORES")),
                Some("lk" | "ik") => server.say(&format!("HGETALL {key}")),
                _ => continue,
            };
            for (member, until) in found {
                let until: f64 = until.parse().unwrap();
                if member != "fence" && until > now as f64 {
                    held.push(format!("{key}: {member} until {until}"));
                }
            }
        }
        held
    }

    /// What becomes of a call.
    pub(crate) fn answer(&self, call: &Call) -> Outcome {
        let text = match call.headers.text(":method").as_deref() {
            Some("GET") => call.path().trim_start_matches('/').to_owned(),
            _ => call.body_text(),
        };
        let mut command: Vec<String> = text.split('/').map(decoded).collect();
        // The script is to go by the story's time, which the filter tells it, and not by Redis' own.
        let keys: usize = command[2].parse().unwrap();
        assert_eq!(command[4 + keys], "store", "{command:?}");
        "given".clone_into(&mut command[4 + keys]);
        let answer = match self.0.lock().unwrap().send(&command) {
            Ok(Value::Array(list)) => Json::Array(list.into_iter().map(text_of).collect()),
            Ok(other) => panic!("the script answered {other:?}"),
            Err(error) => json!([false, redis_text(&error)]),
        };
        Outcome::Answered(Answer::new(200, json!({ &command[0]: answer }).to_string()))
    }
}

fn redis_text(error: &redis::RedisError) -> String {
    let detail = error.detail().unwrap_or_default();
    format!("{} {detail}", error.code().unwrap_or("ERR"))
}

fn text_of(value: Value) -> Json {
    let text: String = redis::from_redis_value(value).unwrap();
    Json::String(text)
}

fn decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text)
        .decode_utf8()
        .unwrap()
        .into_owned()
}
