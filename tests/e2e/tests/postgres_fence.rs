//! The service's own second line, as docs/heavy-endpoints.md shows it, on a real PostgreSQL: what the gateway's lock
//! cannot promise once a holder was paused or Redis was emptied, the fence and the database keep. Owns
//! examples/postgres-fence.

use std::time::{Duration, Instant};

use tollgate_e2e::{Postgres, Session, eventually, repository};

fn example(file: &str) -> String {
    std::fs::read_to_string(repository().join("examples/postgres-fence").join(file)).unwrap()
}

/// The script with its parameters: all that psql is told by `-v`.
fn reconcile(script: &str, fence: u64, amount: i64) -> String {
    format!(
        "\\set tenant acme\n\\set ledger ledger-7\n\\set fence {fence}\n\\set amount {amount}\n{script}"
    )
}

/// The script up to the work, and from there on.
fn halves(script: &str) -> (&str, &str) {
    script.split_once("-- The work goes here.\n").unwrap()
}

/// A PostgreSQL with one ledger.
async fn database() -> Postgres {
    let postgres = Postgres::start().await;
    postgres.run(&example("schema.sql")).unwrap();
    postgres
        .run("INSERT INTO ledgers (tenant, ledger) VALUES ('acme', 'ledger-7');")
        .unwrap();
    postgres
}

fn state(postgres: &Postgres) -> String {
    postgres
        .run("SELECT balance, last_fence FROM ledgers;")
        .unwrap()
}

/// A holder that has begun its transaction, and is at work.
fn at_work(postgres: &Postgres, script: &str, fence: u64, amount: i64) -> Session {
    let mut session = postgres.session();
    session.say(&reconcile(halves(script).0, fence, amount));
    session
}

#[tokio::test]
async fn of_two_at_once_the_second_is_refused_at_once() {
    let postgres = database().await;
    let script = example("reconcile.sql");
    let mut first = at_work(&postgres, &script, 10, 5);
    let start = Instant::now();
    let refused = postgres.run(&reconcile(&script, 11, 7)).unwrap_err();
    assert!(refused.contains("55P03"), "{refused}");
    assert!(
        refused.contains("this ledger is being reconciled"),
        "{refused}"
    );
    // It did not queue: neither for the row nor for the lock.
    assert!(start.elapsed() < Duration::from_secs(2));
    assert_eq!(state(&postgres), "0|0");

    // Another ledger is nobody else's affair.
    let other = reconcile(&script, 11, 7).replace("ledger-7", "ledger-8");
    let unknown = postgres.run(&other).unwrap_err();
    assert!(unknown.contains("55000"), "no such row: {unknown}");

    first.say(halves(&script).1);
    first.end().unwrap();
    assert_eq!(state(&postgres), "5|10");
    postgres.run(&reconcile(&script, 11, 7)).unwrap();
    assert_eq!(state(&postgres), "12|11");
}

#[tokio::test]
async fn who_was_paused_cannot_write_after_a_newer_holder() {
    let postgres = database().await;
    let script = example("reconcile.sql");
    // It has read the state, and is paused before it writes: the lock at the gateway runs out meanwhile.
    let mut old = postgres.session();
    old.say("SELECT balance FROM ledgers WHERE ledger = 'ledger-7';");
    old.pause();
    old.begin(&reconcile(&script, 10, 100));
    postgres.run(&reconcile(&script, 11, 7)).unwrap();
    old.resume();
    let refused = old.end().unwrap_err();
    assert!(
        refused.contains("55000") && refused.contains("this fence is stale"),
        "{refused}"
    );
    assert_eq!(state(&postgres), "7|11");

    // Nor does the same holder twice, as when its job is delivered again.
    let again = postgres.run(&reconcile(&script, 11, 7)).unwrap_err();
    assert!(again.contains("55000"), "{again}");
    assert_eq!(state(&postgres), "7|11");
}

#[tokio::test]
async fn who_hangs_within_its_transaction_loses_it() {
    let postgres = database().await;
    let script = example("reconcile.sql").replace("'60s'", "'300ms'");
    let mut old = at_work(&postgres, &script, 10, 100);
    old.pause();
    // Refused while the old one has its transaction, and admitted when the database has ended that.
    eventually("a newer holder", Duration::from_secs(10), async || {
        postgres.run(&reconcile(&script, 11, 7)).ok()
    })
    .await;
    old.resume();
    old.begin(halves(&script).1);
    assert!(old.end().is_err());
    assert_eq!(state(&postgres), "7|11");
}

#[tokio::test]
async fn no_wait_and_no_statement_is_without_end() {
    let postgres = database().await;
    let script = example("reconcile.sql");
    // Something else has the row, and knows nothing of advisory locks.
    let mut other = postgres.session();
    other.say("BEGIN; SELECT balance FROM ledgers WHERE ledger = 'ledger-7' FOR UPDATE;");
    let start = Instant::now();
    let refused = postgres.run(&reconcile(&script, 10, 5)).unwrap_err();
    let took = start.elapsed();
    assert!(
        refused.contains("55P03") && refused.contains("lock timeout"),
        "{refused}"
    );
    let expected = Duration::from_secs(2)..Duration::from_secs(10);
    assert!(expected.contains(&took), "{took:?}");
    other.say("ROLLBACK;");

    let (before, after) = halves(&script);
    let endless = format!("{before}SELECT pg_sleep(60);\n{after}").replace("'30s'", "'300ms'");
    let start = Instant::now();
    let ended = postgres.run(&reconcile(&endless, 10, 5)).unwrap_err();
    assert!(
        ended.contains("57014") && ended.contains("statement timeout"),
        "{ended}"
    );
    assert!(start.elapsed() < Duration::from_secs(20));
    assert_eq!(state(&postgres), "0|0");
    // The settings were the transaction's alone.
    let settings = "BEGIN; SET LOCAL lock_timeout = '2s'; ROLLBACK; SHOW lock_timeout;";
    assert_eq!(postgres.run(settings).unwrap(), "0");
}

#[test]
fn the_guide_shows_the_example_as_it_is() {
    let guide = std::fs::read_to_string(repository().join("docs/heavy-endpoints.md")).unwrap();
    for file in ["schema.sql", "reconcile.sql"] {
        let block = format!("```sql\n{}```\n", example(file));
        assert!(guide.contains(&block), "{file} is shown otherwise");
    }
}
