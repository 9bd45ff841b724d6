//! What `docs/auth-throttles.md` says an attacker can do: its attacks are played through the built filter, whole days of
//! them in virtual time, and its tables have to show what comes out; what has no attack to it is computed. And the
//! commands that it tells operators let out whom they say they let out.

#[path = "redis/front.rs"]
mod front;
#[path = "../../agreement/server.rs"]
mod server;

use std::collections::VecDeque;
use std::path::Path;
use std::process::Command;

use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value as Json, json};
use tollgate_host::{Exchange, Options, Process, Request, Response, Upstream, Vm, filter_wasm};

use front::Front;

const MINUTE: u64 = 60_000_000_000;
const DAY: u64 = 24 * 60;

fn guide() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/auth-throttles.md");
    std::fs::read_to_string(path).unwrap()
}

/// A gateway, and how late it is.
struct Gateway {
    process: Process,
    vm: Vm,
    started: u64,
}

impl Gateway {
    fn start(throttles: Json, level_2: &str, front: Option<&Front>) -> Self {
        let mut config = json!({
            "penalty_box": {"level_2": level_2},
            "routes": [{"name": "token", "match": {"path": "/token"}, "limiter": "credential", "on_store_failure": "closed"}],
            "auth_throttles": throttles,
        });
        let process = Process::with(&filter_wasm(), Options::new()).unwrap();
        let mut vm = process.vm().unwrap();
        if let Some(front) = front.cloned() {
            front.forget_everything();
            config["store"] = json!({"kind": "redis", "upstream": "redis-front"});
            process.upstream("redis-front", Upstream::Up);
            vm.set_backend(move |call| front.answer(call));
        }
        let accepted = vm.configure(config.to_string().as_bytes()).unwrap();
        assert!(accepted, "{:?}", vm.take_logs());
        let started = process.now();
        Self {
            process,
            vm,
            started,
        }
    }

    /// Lets time go by until so many minutes after the start.
    fn until(&mut self, minute: u64) {
        self.process.set_now(self.started + minute * MINUTE);
        self.vm.tick().unwrap();
        self.vm.run().unwrap();
    }

    fn ask(&mut self, subject: &str, from: &str, status: u16) -> Exchange {
        let credentials = BASE64_STANDARD.encode(format!("{subject}:secret"));
        let request = Request::get("/token")
            .header("authorization", format!("Basic {credentials}"))
            .source(&format!("{from}:1"));
        self.vm.exchange(request, Response::status(status))
    }

    /// Guesses, wrongly; whether that reached the upstream.
    fn guess(&mut self, subject: &str, from: &str) -> bool {
        let exchange = self.ask(subject, from, 401);
        let has_reached = exchange.upstream.is_some();
        let wanted = if has_reached { 401 } else { 429 };
        assert_eq!(exchange.status(), Some(wanted), "{exchange:?}");
        has_reached
    }
}

/// One throttle, and how long its second lockout is.
#[derive(Clone, Copy)]
struct Throttle {
    by: &'static str,
    failures: usize,
    within: &'static str,
    within_minutes: u64,
    level_2: &'static str,
}

impl Throttle {
    fn gateway(self) -> Gateway {
        let mut throttle = json!({
            "name": "one",
            "by": self.by,
            "failures": self.failures,
            "within": self.within,
            "lockout": "5m",
        });
        if self.by != "ip" {
            throttle["subject"] = json!({"basic": true});
        }
        Gateway::start(json!([throttle]), self.level_2, None)
    }

    /// Guesses a day, for two days, of an attacker who goes on whenever he is let; `who` tells for whom, and from where,
    /// the n-th guess is. Every one of `attackers` does it by himself.
    fn never_stopping(
        self,
        attackers: usize,
        who: fn(usize, usize) -> (String, String),
    ) -> Vec<usize> {
        let mut gateway = self.gateway();
        let mut days = vec![0, 0];
        let mut made = 0;
        for minute in 0..2 * DAY {
            gateway.until(minute);
            for attacker in 0..attackers {
                loop {
                    let (subject, from) = who(attacker, made);
                    if !gateway.guess(&subject, &from) {
                        break;
                    }
                    made += 1;
                    days[(minute / DAY) as usize] += 1;
                }
            }
        }
        days
    }

    /// The same of one who never lets `failures` of his guesses be in a window, and is never refused.
    fn just_below(self, attackers: usize, who: fn(usize, usize) -> (String, String)) -> usize {
        let mut gateway = self.gateway();
        let mut recent = vec![VecDeque::new(); attackers];
        let mut made = 0;
        for minute in 0..DAY {
            gateway.until(minute);
            for (attacker, recent) in recent.iter_mut().enumerate() {
                while recent
                    .front()
                    .is_some_and(|at| at + self.within_minutes <= minute)
                {
                    recent.pop_front();
                }
                while recent.len() + 1 < self.failures {
                    let (subject, from) = who(attacker, made);
                    assert!(gateway.guess(&subject, &from), "at minute {minute}");
                    recent.push_back(minute);
                    made += 1;
                }
            }
        }
        made
    }
}

fn address(number: usize) -> String {
    format!("198.51.{}.{}", 100 + number / 250, number % 250)
}

/// One subject, each time from another address.
fn one_subject(_: usize, made: usize) -> (String, String) {
    ("alice".to_owned(), address(made % 200))
}

/// One address, each time for another subject.
fn one_address(_: usize, made: usize) -> (String, String) {
    (format!("user-{made}"), address(0))
}

/// One subject from an address of each attacker's own.
fn one_pair(attacker: usize, _: usize) -> (String, String) {
    ("alice".to_owned(), address(attacker))
}

/// With commas between thousands.
fn number(n: usize) -> String {
    match n / 1000 {
        0 => n.to_string(),
        thousands => format!("{},{:03}", number(thousands), n % 1000),
    }
}

/// Wherever its lines end.
fn must_show(text: &str) {
    let guide = guide().replace('\n', " ");
    assert!(guide.contains(text), "this is not in the guide:\n{text}");
}

const SUBJECT: Throttle = Throttle {
    by: "subject",
    failures: 5,
    within: "15m",
    within_minutes: 15,
    level_2: "60m",
};
const ADDRESS: Throttle = Throttle {
    by: "ip",
    failures: 20,
    ..SUBJECT
};
const PAIR: Throttle = Throttle {
    by: "subject_ip",
    ..SUBJECT
};

#[test]
fn guesses_at_one_subject_from_however_many_addresses() {
    let below = SUBJECT.just_below(1, one_subject);
    let never = SUBJECT.never_stopping(1, one_subject);
    must_show(&format!(
        "| at one subject, `by: subject`, 5 in 15m, from however many addresses | {below} | {} ({} the first day) |",
        never[1], never[0]
    ));
    must_show(&format!("{below} guesses a day find a PIN"));
    must_show(&format!(
        "10,000 / {below} = {} days",
        10_000usize.div_ceil(below)
    ));
}

#[test]
fn guesses_from_one_address_and_from_a_thousand() {
    let below = ADDRESS.just_below(1, one_address);
    let never = ADDRESS.never_stopping(1, one_address);
    assert_eq!(never[0], never[1]);
    let row = |what: &str, times: usize| {
        let (below, never) = (number(below * times), number(never[0] * times));
        must_show(&format!("| {what} | {below} | {never} |"));
    };
    row(
        "from one address, `by: ip`, 20 in 15m, at however many subjects",
        1,
    );
    row(
        "at all subjects from 1,000 addresses, `by: ip`, 20 in 15m",
        1000,
    );
}

#[test]
fn guesses_at_one_subject_by_pairs() {
    // Ten addresses stand for a thousand.
    let below = PAIR.just_below(10, one_pair) * 100;
    let never = PAIR.never_stopping(10, one_pair);
    must_show(&format!(
        "| at one subject from 1,000 addresses, `by: subject_ip`, 5 in 15m | {} | {} ({} the first day) |",
        number(below),
        number(never[1] * 100),
        number(never[0] * 100)
    ));
}

#[test]
fn longer_windows_leave_fewer_guesses() {
    for (within, within_minutes, level_2) in
        [("15m", 15, "60m"), ("1h", 60, "60m"), ("4h", 240, "4h")]
    {
        let throttle = Throttle {
            within,
            within_minutes,
            level_2,
            ..SUBJECT
        };
        let below = throttle.just_below(1, one_subject);
        let never = throttle.never_stopping(1, one_subject);
        must_show(&format!(
            "| 5 in {within}, 5m and {level_2} | {below} | {} ({} the first day) |",
            never[1], never[0]
        ));
    }
    let behind = Throttle {
        failures: 100,
        ..SUBJECT
    };
    let below = behind.just_below(1, one_subject);
    must_show(&format!("99 * 96 = {} guesses a day", number(below)));
}

/// Twelve subjects, each locked out again when its hour is over, five minutes after one another: any 15 minutes hold
/// three rounds of five, which is fewer than the address's twenty. The first round of each, which is a lockout of five
/// minutes only, comes from elsewhere.
#[test]
fn one_address_keeps_twelve_subjects_locked_out() {
    const SUBJECTS: u64 = 12;
    let throttles = json!([
        {"name": "subject", "by": "subject", "subject": {"basic": true}, "failures": 5, "within": "15m", "lockout": "5m"},
        {"name": "ip", "by": "ip", "failures": 20, "within": "15m", "lockout": "5m"},
    ]);
    let mut gateway = Gateway::start(throttles, "60m", None);
    let mut made = [0, 0];
    for minute in 0..2 * DAY {
        gateway.until(minute);
        for i in 0..SUBJECTS {
            let subject = format!("user-{i}");
            // One more of them each hour, in its five minutes of it.
            let started = 60 * i + 5 * i;
            if minute + 5 == started + 60 {
                while gateway.guess(&subject, &address(1)) {}
            } else if minute >= started + 60 {
                while gateway.guess(&subject, &address(0)) {
                    made[(minute / DAY) as usize] += 1;
                }
            }
            // On the second day no owner gets in from where it has not been.
            if minute >= DAY {
                let exchange = gateway.ask(&subject, &address(2), 200);
                assert_eq!(
                    exchange.state("tollgate_verdict").as_deref(),
                    Some("auth_lockout"),
                    "at minute {minute}"
                );
            }
        }
    }
    let banned = gateway
        .process
        .metric("tollgate_box_trips_total.level.1.scope.ip");
    assert!(
        banned.is_none_or(|metric| metric.value == 0),
        "the address was locked out"
    );
    must_show(&format!(
        "3 * 4 = 12 subjects locked out with 12 * 120 = {} requests a day",
        number(made[1])
    ));
    must_show(&format!(
        "and 1,000 addresses {} subjects",
        number(SUBJECTS as usize * 1000)
    ));
}

/// Of one subject: `failures` requests for each lockout.
#[test]
fn keeping_one_subject_locked_out_takes_a_request_every_twelve_minutes() {
    let mut gateway = SUBJECT.gateway();
    let mut days = [0, 0];
    for minute in 0..2 * DAY {
        gateway.until(minute);
        while gateway.guess("alice", &address(0)) {
            days[(minute / DAY) as usize] += 1;
        }
        let owner = gateway.ask("alice", &address(1), 200);
        assert_eq!(owner.status(), Some(429), "at minute {minute}");
    }
    must_show(&format!(
        "{} on the first day, then 24h / 60m * 5 = {} a day",
        days[0], days[1]
    ));
}

/// The chance that at least `least` of `n` fail, each with a chance of `share`.
fn at_least(least: u32, n: u32, share: f64) -> f64 {
    // The chance that none does, then from each number of them to the next.
    let mut exactly = (1.0 - share).powi(n as i32);
    let mut fewer = 0.0;
    for k in 0..least {
        fewer += exactly;
        exactly *= f64::from(n - k) / f64::from(k + 1) * share / (1.0 - share);
    }
    1.0 - fewer
}

#[test]
fn so_many_may_share_an_address() {
    for failures in [20, 50, 100, 200] {
        let mut row = format!("| {failures} |");
        for share in [0.02, 0.05, 0.1, 0.2] {
            let more = (failures..).find(|n| at_least(failures, *n, share) > 0.001);
            row += &format!(" {} |", number(more.unwrap() as usize - 1));
        }
        must_show(&row);
    }
    // The office of the guide.
    assert!(at_least(20, 200, 0.05) > 0.001);
}

/// The commands of the guide that let out, without those of Redis' own address.
fn commands() -> String {
    let guide = guide();
    let block = guide
        .split("\n```")
        .find(|block| block.contains("redis-cli DEL"));
    let (info, commands) = block.expect("the commands").split_once('\n').unwrap();
    assert_eq!(info, "text");
    commands.to_owned()
}

#[test]
fn operators_let_out_by_deleting_boxes() {
    let front = Front::start();
    let throttles = json!([
        {"name": "subject", "by": "subject", "subject": {"basic": true}, "failures": 3, "within": "15m", "lockout": "5m"},
        {"name": "ip", "by": "ip", "failures": 5, "within": "15m", "lockout": "5m"},
    ]);
    let mut gateway = Gateway::start(throttles, "60m", Some(&front));
    let (home, elsewhere) = ("198.51.100.7", "198.51.100.8");
    let lock_all_out = |gateway: &mut Gateway| {
        // From elsewhere, at home, and home for whomever.
        for (subject, from) in [("acme", elsewhere), ("acme", home), ("other", home)] {
            while gateway.guess(subject, from) {}
        }
        for (subject, from) in [("acme", elsewhere), ("acme", home), ("third", home)] {
            assert!(!gateway.guess(subject, from), "{subject} from {from}");
        }
    };
    assert_eq!(gateway.ask("acme", home, 200).status(), Some(200));
    lock_all_out(&mut gateway);
    let socket = front.socket();
    let script = format!(
        "redis-cli() {{ command redis-cli -s '{}' \"$@\"; }}\n{}",
        socket.display(),
        commands()
    );
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &script])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    // A box and an offense of each.
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "2\n2\n2\n");
    // What the gateway has seen it goes by for ten seconds.
    gateway
        .process
        .set_now(gateway.process.now() + 10_000_000_000);
    for (subject, from) in [("acme", elsewhere), ("acme", home), ("third", home)] {
        assert_eq!(
            gateway.ask(subject, from, 200).status(),
            Some(200),
            "{subject} from {from}"
        );
    }
}
