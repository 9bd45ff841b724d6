//! The life of a configuration on a real Envoy: refused at boot, refused or taken while it runs.

use tollgate_e2e::{Answer, Configuration, Gateway, Setup};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const GOOD: &str = "
identity: {tenant: {header: x-tenant-id}, key: {header: x-api-key-id}, tier: {header: x-tenant-tier}}
tiers: {one: {tenant: 100/minute, key: 50/minute}}
";

#[tokio::test]
async fn a_bad_one_stops_the_boot_with_every_error_in_the_log() {
    let bad = "
        mode: enforced
        anonymous: {limit: 60/fortnight}
        tiers: {one: {tenant: {points: 0, per: 60s}, key: 50/minute}}
        routes: [{name: a b, match: {path: v1}, cost: 0}]
        identity: {default_tier: two}
        store: {kind: redis}
        surprise: 1
    ";
    let failure = Gateway::start(Setup::new(bad))
        .await
        .err()
        .expect("it does not boot");
    let logs = failure.logs.to_string();
    for path in [
        "mode",
        "anonymous.limit",
        "tiers.one.tenant.points",
        "routes[0].name",
        "routes[0].match.path",
        "routes[0].cost",
        "identity.default_tier",
        "store.upstream",
        "surprise",
    ] {
        assert!(
            logs.contains(&format!("configuration refused: {path}: ")),
            "{path} is missing in:\n{logs}"
        );
    }
}

#[tokio::test]
async fn text_that_is_not_json_stops_the_boot_too() {
    let failure = Gateway::start(Setup::new(Configuration::Text("mode: shadow".to_owned()))).await;
    let logs = failure.err().expect("it does not boot").logs.to_string();
    assert!(logs.contains("configuration refused"), "{logs}");
}

#[tokio::test]
async fn no_configuration_at_all_is_the_empty_one() -> Outcome {
    let setup = Setup::new(Configuration::yaml_struct("{}"));
    let gateway = Gateway::start(setup).await?;
    gateway.upstream().always(Answer::ok());
    let reply = gateway.get("/").send().await;
    assert_eq!(
        (reply.status, reply.header("ratelimit-policy")),
        (200, Some("60;w=60"))
    );
    Ok(())
}

#[tokio::test]
async fn a_bad_update_leaves_the_old_one_serving_and_a_good_one_keeps_the_counters() -> Outcome {
    let gateway = Gateway::start(Setup::new(GOOD).workers(2).dynamic()).await?;
    gateway.upstream().always(Answer::ok());
    let ask = || gateway.get("/v1").identity("acme", "key", "one");
    for _ in 0..10 {
        ask().send().await;
    }

    let refused = gateway
        .reconfigure("{tiers: {one: {tenant: 100/minute, key: nothing}}, more: 1}")
        .await;
    let logs = refused.expect_err("it is refused").logs.to_string();
    assert!(
        logs.contains("configuration refused: tiers.one.key: "),
        "{logs}"
    );
    assert!(logs.contains("configuration refused: more: "), "{logs}");
    let reply = ask().send().await;
    assert_eq!(
        (reply.status, reply.header("ratelimit-limit")),
        (200, Some("50"))
    );
    let left = reply.number("ratelimit-remaining");
    // 11 of 50 spent, and a second or so of refill at most.
    assert!((39..=45).contains(&left), "{left} left");

    let wider = GOOD.replace("50/minute", "{points: 70, per: 60s}");
    gateway
        .reconfigure(wider.as_str())
        .await
        .expect("it is taken");
    let reply = ask().send().await;
    assert_eq!(
        (reply.status, reply.header("ratelimit-limit")),
        (200, Some("70"))
    );
    let left = reply.number("ratelimit-remaining");
    // 12 of 70 spent: what was used stays used.
    assert!((58..=66).contains(&left), "{left} left");
    assert!(gateway.traps().is_empty(), "{:?}", gateway.traps());
    Ok(())
}

#[tokio::test]
async fn native_yaml_and_the_environment() -> Outcome {
    // Envoy's reader of YAML makes `off` a boolean and a fraction a string.
    let config = Configuration::yaml_struct(
        "
        anonymous: {limit: {points: '${TOLLGATE_POINTS:-60}', per: 60s}}
        penalty_box: {mode: false}
        degraded: {share: '0.5'}
        headers: {retry_after_date_from: false}
        ",
    );
    let gateway = Gateway::start(Setup::new(config).env("TOLLGATE_POINTS", "7")).await?;
    gateway.upstream().always(Answer::ok());
    let reply = gateway.get("/").send().await;
    assert_eq!(
        (reply.status, reply.header("ratelimit-policy")),
        (200, Some("7;w=60"))
    );
    Ok(())
}
