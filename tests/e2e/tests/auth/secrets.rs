//! Names and passwords go to the upstream, and nowhere else; and what becomes of attempts is told in words that hold none.

use std::time::Duration;

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use tollgate_e2e::{Gate, Redis, eventually};

use crate::Outcome;
use crate::door::{Door, RIGHT, RULES, Store, authorization, basic, form, json, judge};
use crate::refusals::{is_busy, is_locked_out};

const SUBJECT: &str = "Alice.Archer@Example.com";
const CLIENT: &str = "ledger-batch-client";
const PASSWORD: &str = "Tr0ub4dor-and-3";

/// Every spelling in which they might leak, in lower case.
fn secrets() -> Vec<String> {
    let mut all = Vec::new();
    for name in [SUBJECT, CLIENT] {
        let lower = name.to_lowercase();
        let pairs = [authorization(name, PASSWORD), authorization(name, RIGHT)];
        all.extend(pairs.map(|pair| pair.trim_start_matches("Basic ").to_owned()));
        for name in [name, &lower] {
            all.push(
                BASE64_STANDARD
                    .encode(name)
                    .trim_end_matches('=')
                    .to_owned(),
            );
            all.push(BASE64_URL_SAFE_NO_PAD.encode(name));
            all.push(name.replace('@', "%40"));
        }
        all.push(lower);
    }
    all.extend([PASSWORD.to_owned(), RIGHT.to_owned(), "alice".to_owned()]);
    all.iter().map(|secret| secret.to_lowercase()).collect()
}

fn holds_none(what: &str, text: &str) {
    let text = text.to_lowercase();
    for secret in secrets() {
        if let Some(at) = text.find(&secret) {
            let around: String = text
                .chars()
                .skip(text[..at].chars().count().saturating_sub(80))
                .take(200)
                .collect();
            panic!("{what} tells {secret}: {around}");
        }
    }
}

/// Everything that Redis holds, names and values.
async fn everything(redis: &Redis) -> String {
    let mut all = String::new();
    for key in redis.keys().await {
        let name = key.name.as_str();
        let value: Vec<u8> = redis.ask(&["DUMP", name]).await.expect("a value");
        all.push_str(&format!("{name} {}\n", String::from_utf8_lossy(&value)));
    }
    all
}

async fn all_that_can_happen(door: &Door) {
    let gateway = door.gateway();
    for name in [SUBJECT, CLIENT] {
        assert_eq!(basic(gateway, name, RIGHT).send().await.status, 200);
        for n in 0..4 {
            let ask = match n % 3 {
                0 => basic(gateway, name, PASSWORD),
                1 => form(gateway, &name.replace('@', "%40"), PASSWORD),
                _ => json(gateway, name, PASSWORD),
            };
            assert_eq!(ask.from([127, 0, 0, 2]).send().await.status, 401);
        }
        // One that is under way, while another is busy.
        let gate = Gate::closed();
        let behind = gate.clone();
        door.upstream.forget();
        door.upstream
            .respond(move |received| judge(received).behind(&behind));
        let last = tokio::spawn(basic(gateway, name, PASSWORD).from([127, 0, 0, 2]).send());
        door.upstream.received(1).await;
        is_busy(
            &basic(gateway, name, RIGHT)
                .from([127, 0, 0, 3])
                .send()
                .await,
        );
        gate.open();
        assert_eq!(last.await.unwrap().status, 401);
        door.upstream.respond(judge);
        let refused = basic(gateway, name, PASSWORD)
            .from([127, 0, 0, 3])
            .send()
            .await;
        assert!(is_locked_out(&refused));
        holds_none("a refusal", &refused.text());
        let broken = form(gateway, &format!("{CLIENT}&client_id={name}"), PASSWORD);
        let broken = broken.send().await;
        assert_eq!(broken.status, 400);
        holds_none("a refusal", &broken.text());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_name_and_no_password_is_kept_or_told() -> Outcome {
    for store in [Store::Local, Store::Redis(1)] {
        let door = Door::with(store, RULES, |setup| setup.log_level("debug")).await?;
        all_that_can_happen(&door).await;
        let gateway = door.gateway();
        holds_none("a metric", &gateway.admin("/stats").await);
        holds_none("a metric", &gateway.admin("/stats/prometheus").await);
        let lines = gateway.access_log(18).await;
        holds_none("the access log", &format!("{lines:?}"));
        for verdict in ["allowed", "auth_busy", "auth_lockout", "invalid"] {
            let told = lines
                .iter()
                .filter(|line| line.verdict.as_deref() == Some(verdict));
            assert!(told.count() >= 2, "{verdict}: {lines:?}");
        }
        let trips = [("level", "1"), ("scope", "subject")];
        let stats = gateway.stats().await;
        assert_eq!(stats.sum("tollgate_box_trips_total", &trips), 2.0);
        assert_eq!(door.failures("token-subject").await, 10.0);
        for verdict in ["auth_busy", "auth_lockout"] {
            let labels = [
                ("route", "token"),
                ("verdict", verdict),
                ("mode", "enforce"),
            ];
            assert_eq!(
                stats.sum("tollgate_requests_total", &labels),
                2.0,
                "{verdict}"
            );
        }
        // The operator reads of the lockouts.
        let wanted = || {
            gateway
                .logs()
                .lines()
                .filter(|line| line.contains("token-subject"))
                .count()
        };
        eventually(
            "the lockouts are logged",
            Duration::from_secs(5),
            async || (wanted() >= 2).then_some(()),
        )
        .await;
        holds_none("the log", &gateway.logs());

        if let Store::Redis(_) = store {
            let keys = door.redis().keys().await;
            for prefix in ["au:{s:", "au:{ip:", "pb:{s:"] {
                assert!(
                    keys.iter().any(|key| key.name.starts_with(prefix)),
                    "{prefix}: {keys:?}"
                );
            }
            for key in &keys {
                assert!(key.ttl.is_some(), "it lives for ever: {key:?}");
            }
            holds_none("Redis", &everything(door.redis()).await);
        }
        door.is_well().await;
    }
    Ok(())
}
