//! Whatever a store behind a front answers, and whoever leaves meanwhile: every request that stays gets
//! one legal answer, and the host never sees what it would not forgive.

#[path = "redis/dice.rs"]
mod dice;
#[path = "redis/front.rs"]
mod front;
#[path = "../../agreement/server.rs"]
mod server;

use std::time::Duration;

use tollgate_host::{
    Action, Answer, Options, Outcome, Process, Request, StreamId, Upstream, Vm, filter_wasm,
};

use dice::Dice;
use front::Front;

const CONFIG: &str = r#"{
    "store": {"kind": "redis", "upstream": "redis-front", "breaker": {"failures": 3, "open_for": "200ms"}},
    "identity": {"tenant": {"header": "t"}, "key": {"header": "k"}, "default_tier": "one"},
    "ip_limit": "100000/minute",
    "tiers": {"one": {"tenant": "2000/minute", "key": "400/minute"}},
    "routes": [{"name": "closed", "match": {"path": "/closed"}, "on_store_failure": "closed"}]
}"#;

/// Streams that one callback may serve: each nests on the host's stack.
const MOST_SERVED: usize = 16;

struct Gateway {
    process: Process,
    vm: Vm,
    front: Front,
    dice: Dice,
    waiting: Vec<StreamId>,
    answered: u32,
}

impl Gateway {
    fn start(wasm: &[u8], front: &Front, coalesce: &str, seed: u64) -> Self {
        front.forget_everything();
        let options = Options::new().env("TOLLGATE_COALESCE", coalesce).seed(seed);
        let process = Process::with(wasm, options).unwrap();
        process.upstream("redis-front", Upstream::Up);
        let mut vm = process.vm().unwrap();
        assert!(vm.configure(CONFIG.as_bytes()).unwrap());
        Self {
            process,
            vm,
            front: front.clone(),
            dice: Dice(seed),
            waiting: Vec::new(),
            answered: 0,
        }
    }

    fn turn(&mut self) {
        match self.dice.below(10) {
            0..=4 => self.ask(),
            5 => self.leave(),
            6 | 7 => self.call_ends(),
            8 => {
                let by = self.dice.below(40);
                self.process.advance(Duration::from_millis(by));
                self.vm.expire_calls().unwrap();
            }
            _ => match self.dice.below(3) {
                0 => self.process.upstream("redis-front", Upstream::Down),
                1 => self.process.upstream("redis-front", Upstream::Up),
                _ => {
                    self.vm.tick().unwrap();
                }
            },
        }
        // Queue notices; no call is answered by that.
        self.vm.run().unwrap();
        self.look();
    }

    fn ask(&mut self) {
        for _ in 0..=self.dice.below(30) {
            let path = if self.dice.below(3) == 0 {
                "/closed"
            } else {
                "/"
            };
            let tenant = format!("t{}", self.dice.below(3));
            let key = format!("k{}", self.dice.below(4));
            let request = Request::new("GET", path)
                .header("t", tenant)
                .header("k", key);
            self.waiting.push(self.vm.request(request).unwrap());
        }
    }

    fn leave(&mut self) {
        for _ in 0..self.dice.below(5).min(self.waiting.len() as u64) {
            let place = self.dice.below(self.waiting.len() as u64) as usize;
            let id = self.waiting.swap_remove(place);
            if self.dice.below(2) == 0 {
                self.vm.abort(id).unwrap();
            } else {
                self.vm.abort_unlogged(id).unwrap();
            }
        }
    }

    fn call_ends(&mut self) {
        let calls = self.vm.calls();
        if calls.is_empty() {
            return;
        }
        let place = self.dice.below(calls.len() as u64) as usize;
        let call = self.vm.calls()[place].clone();
        let says = |status, body: &str| Outcome::Answered(Answer::new(status, body));
        let outcome = match self.dice.below(14) {
            0 => Outcome::Refused,
            1 => Outcome::TimedOut,
            2 => Outcome::Reset,
            3 => says(200, ""),
            4 => says(200, r#"{"EVALSHA":["tollgate 1 0.1.0","a 1 0 0 -1"]}"#),
            5 => says(200, r#"{"EVALSHA":[false,"NOSCRIPT No matching script."]}"#),
            6 => says(500, "oops"),
            7 => says(200, &"[".repeat(300_000)),
            _ => self.front.answer(&call),
        };
        self.vm.conclude(call.token, outcome).unwrap();
    }

    /// Whoever has an answer has a legal one.
    fn look(&mut self) {
        let vm = &self.vm;
        let before = self.waiting.len();
        self.waiting.retain(|id| {
            let stream = vm.stream(*id);
            if let Some(reply) = stream.reply() {
                assert!(matches!(reply.status, 429 | 503), "{reply:?}");
                assert_eq!(stream.resumed(), 0, "answered and resumed");
                return false;
            }
            assert!(stream.resumed() <= 1);
            stream.upstream().is_none() || stream.action() == Action::Pause
        });
        self.answered += (before - self.waiting.len()) as u32;
        assert!(vm.misuses().is_empty(), "{:?}", vm.misuses());
        assert!(vm.peak_fan_out() <= MOST_SERVED, "{}", vm.peak_fan_out());
    }

    /// The store fails for good: nobody is left waiting.
    fn end(mut self) -> u32 {
        for _ in 0..1000 {
            let tokens: Vec<u32> = self.vm.calls().iter().map(|call| call.token).collect();
            for token in tokens {
                self.vm.conclude(token, Outcome::Refused).unwrap();
            }
            self.vm.tick().unwrap();
            self.vm.run().unwrap();
        }
        self.look();
        assert!(
            self.waiting.is_empty(),
            "{} wait for ever",
            self.waiting.len()
        );
        self.answered
    }
}

#[test]
fn nobody_is_left_waiting_whatever_the_store_does() {
    let wasm = filter_wasm();
    let front = Front::start();
    let mut answered = 0;
    for coalesce in ["on", "off"] {
        for seed in 1..=6 {
            let mut gateway = Gateway::start(&wasm, &front, coalesce, seed);
            for _ in 0..400 {
                gateway.turn();
            }
            answered += gateway.end();
        }
    }
    assert!(answered > 10_000, "only {answered} answers");
}
