//! Whatever becomes of the calls of two gateways on one store (lost, late, carried out but never heard of), and
//! whoever leaves meanwhile: no more requests are at work than there are leases, no ledger is worked on twice, and
//! in the end nothing is held.

#[path = "redis/front.rs"]
mod front;
#[path = "../../agreement/server.rs"]
mod server;

use std::time::Duration;

use tollgate_host::{
    Answer, Call, Options, Outcome, Process, Request, Response, StreamId, Upstream, Vm, filter_wasm,
};

use front::Front;

const CONFIG: &str = r#"{
    "store": {"kind": "redis", "upstream": "redis-front", "breaker": {"failures": 5, "open_for": "200ms"}},
    "identity": {"tenant": {"header": "t"}, "key": {"header": "k"}, "default_tier": "one"},
    "tiers": {"one": {"tenant": "100000/minute", "key": "100000/minute", "leases": {"job": 2}}},
    "routes": [
        {"name": "job", "match": {"path": "/job"}, "lease": {"kind": "job"}, "on_store_failure": "closed"},
        {"name": "ledger", "match": {"path": "/ledger"}, "lock": {"by": {"header": "l"}, "on_abort": "release"},
         "on_store_failure": "closed"},
        {"name": "both", "match": {"path": "/both"}, "lease": {"kind": "job"},
         "lock": {"by": {"header": "l"}, "on_abort": "release"}, "on_store_failure": "closed"}
    ]
}"#;

const TENANTS: u64 = 2;
const LEDGERS: u64 = 2;
const LEASES: usize = 2;

/// A sequence of numbers that is the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// A request that is under way.
#[derive(Clone, Copy)]
struct Job {
    stream: StreamId,
    tenant: u64,
    leased: bool,
    ledger: Option<u64>,
}

struct Gateway {
    process: Process,
    vm: Vm,
    jobs: Vec<Job>,
}

impl Gateway {
    fn start(wasm: &[u8], coalesce: &str, seed: u64) -> Self {
        let options = Options::new().env("TOLLGATE_COALESCE", coalesce).seed(seed);
        let process = Process::with(wasm, options).unwrap();
        process.upstream("redis-front", Upstream::Up);
        let mut vm = process.vm().unwrap();
        assert!(vm.configure(CONFIG.as_bytes()).unwrap());
        Self {
            process,
            vm,
            jobs: Vec::new(),
        }
    }

    /// Those whose upstream is at work.
    fn at_work(&self) -> impl Iterator<Item = &Job> {
        let passed = |job: &&Job| self.vm.stream(job.stream).upstream().is_some();
        self.jobs.iter().filter(passed)
    }
}

struct World {
    front: Front,
    dice: Dice,
    gateways: Vec<Gateway>,
    /// Calls that have not come to the store yet, though nobody waits for them any more.
    late: Vec<Call>,
    worked: u32,
    refused: u32,
}

impl World {
    fn start(wasm: &[u8], front: &Front, coalesce: &str, seed: u64) -> Self {
        front.forget_everything();
        Self {
            front: front.clone(),
            dice: Dice(seed),
            gateways: [1, 2]
                .map(|n| Gateway::start(wasm, coalesce, seed * 2 + n))
                .into(),
            late: Vec::new(),
            worked: 0,
            refused: 0,
        }
    }

    fn any<T>(&mut self, of: &[T]) -> Option<usize> {
        (!of.is_empty()).then(|| self.dice.below(of.len() as u64) as usize)
    }

    fn turn(&mut self) {
        let gateway = self.dice.below(2) as usize;
        match self.dice.below(12) {
            0..=3 => self.ask(gateway),
            4 | 5 => self.end_one(gateway),
            6..=8 => self.call_ends(gateway),
            9 => {
                let millis = self.dice.below(40);
                self.pass_time(millis);
            }
            10 => {
                if let Some(place) = self.any(&self.late.clone()) {
                    let call = self.late.swap_remove(place);
                    let _ = self.front.answer(&call);
                }
            }
            _ => {
                let state = match self.dice.below(20) {
                    0 => Upstream::Down,
                    _ => Upstream::Up,
                };
                self.gateways[gateway]
                    .process
                    .upstream("redis-front", state);
            }
        }
        self.settle();
    }

    fn pass_time(&mut self, millis: u64) {
        for gateway in &mut self.gateways {
            gateway.process.advance(Duration::from_millis(millis));
            gateway.vm.expire_calls().unwrap();
            gateway.vm.tick().unwrap();
        }
    }

    fn ask(&mut self, gateway: usize) {
        for _ in 0..=self.dice.below(4) {
            let tenant = self.dice.below(TENANTS);
            let ledger = self.dice.below(LEDGERS);
            let (path, leased, ledger) = match self.dice.below(3) {
                0 => ("/job", true, None),
                1 => ("/ledger", false, Some(ledger)),
                _ => ("/both", true, Some(ledger)),
            };
            let mut request = Request::new("POST", path)
                .header("t", format!("t{tenant}"))
                .header("k", "k");
            if let Some(ledger) = ledger {
                request = request.header("l", format!("l{ledger}"));
            }
            let stream = self.gateways[gateway].vm.request(request).unwrap();
            self.gateways[gateway].jobs.push(Job {
                stream,
                tenant,
                leased,
                ledger,
            });
        }
    }

    /// The upstream is done, or the client goes away, whatever it waits for.
    fn end_one(&mut self, gateway: usize) {
        let jobs: Vec<Job> = self.gateways[gateway].jobs.clone();
        let Some(place) = self.any(&jobs) else { return };
        let job = jobs[place];
        let vm = &mut self.gateways[gateway].vm;
        let at_work = vm.stream(job.stream).upstream().is_some();
        if at_work && self.dice.below(3) > 0 {
            vm.respond(job.stream, Response::status(200).body("{}"))
                .unwrap();
            self.worked += 1;
        } else {
            vm.abort(job.stream).unwrap();
        }
    }

    fn call_ends(&mut self, gateway: usize) {
        let calls = self.gateways[gateway].vm.calls().to_vec();
        let Some(place) = self.any(&calls) else {
            return;
        };
        let call = calls[place].clone();
        let outcome = match self.dice.below(50) {
            // Nothing came to the store, or what is said of it is wrong.
            0 => Outcome::Refused,
            1 => {
                // It comes later, though nobody hears of it.
                self.late.push(call.clone());
                Outcome::TimedOut
            }
            2 => {
                // It was carried out, and the answer is lost.
                let _ = self.front.answer(&call);
                Outcome::TimedOut
            }
            3 => {
                let _ = self.front.answer(&call);
                Outcome::Reset
            }
            4 => Outcome::Answered(Answer::new(502, "bad gateway")),
            5 => Outcome::Answered(Answer::new(
                200,
                r#"{"EVALSHA":[false,"NOSCRIPT No matching script."]}"#,
            )),
            _ => self.front.answer(&call),
        };
        self.gateways[gateway]
            .vm
            .conclude(call.token, outcome)
            .unwrap();
    }

    /// Whoever was answered is gone; what must hold of the others holds.
    fn settle(&mut self) {
        for gateway in &mut self.gateways {
            gateway.vm.run().unwrap();
            let vm = &mut gateway.vm;
            let mut refused = 0;
            gateway.jobs.retain(|job| {
                let stream = vm.stream(job.stream);
                refused += u32::from(stream.reply().is_some());
                let over = stream.ended() || stream.reply().is_some();
                if over && stream.ended() {
                    vm.take_stream(job.stream);
                }
                !over
            });
            self.refused += refused;
            assert!(vm.misuses().is_empty(), "{:?}", vm.misuses());
        }
        let at_work: Vec<Job> = self
            .gateways
            .iter()
            .flat_map(|g| g.at_work().copied())
            .collect();
        for tenant in 0..TENANTS {
            let of_tenant = || at_work.iter().filter(|job| job.tenant == tenant);
            let leased = of_tenant().filter(|job| job.leased).count();
            assert!(leased <= LEASES, "{leased} leases of {LEASES} at work");
            for ledger in 0..LEDGERS {
                let inside = of_tenant().filter(|job| job.ledger == Some(ledger)).count();
                assert!(inside <= 1, "{inside} at work on one ledger");
            }
        }
    }

    /// All streams end, and the store answers again: nothing is held, without waiting for anything to run out.
    fn end(mut self) -> (u32, u32) {
        for gateway in &mut self.gateways {
            for job in std::mem::take(&mut gateway.jobs) {
                gateway.vm.abort(job.stream).unwrap();
            }
            gateway.process.upstream("redis-front", Upstream::Up);
        }
        for call in std::mem::take(&mut self.late) {
            let _ = self.front.answer(&call);
        }
        for _ in 0..40 {
            for gateway in &mut self.gateways {
                let calls = gateway.vm.calls().to_vec();
                for call in calls {
                    let outcome = self.front.answer(&call);
                    gateway.vm.conclude(call.token, outcome).unwrap();
                }
                gateway.vm.run().unwrap();
            }
            self.pass_time(250);
        }
        let now = self.gateways[0].process.now() / 1_000_000;
        let held = self.front.held(now);
        assert!(held.is_empty(), "still held: {held:?}");
        (self.worked, self.refused)
    }
}

#[test]
fn limits_hold_and_nothing_leaks_whatever_becomes_of_the_calls() {
    let wasm = filter_wasm();
    let front = Front::start();
    let (mut worked, mut refused) = (0, 0);
    for coalesce in ["on", "off"] {
        for seed in 1..=8 {
            let mut world = World::start(&wasm, &front, coalesce, seed);
            for _ in 0..600 {
                world.turn();
            }
            let (more_worked, more_refused) = world.end();
            worked += more_worked;
            refused += more_refused;
        }
    }
    assert!(
        worked > 150 && refused > 300,
        "{worked} worked, {refused} refused"
    );
}
