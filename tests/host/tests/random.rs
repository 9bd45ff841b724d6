//! Random requests through the built filter: whatever clients send and whatever operators change
//! meanwhile, it never dies, never misuses its host, never leaves a request hanging, answers only what
//! the documentation says, and its memory stays flat.
//!
//! The same requests every time; `TOLLGATE_RANDOM_REQUESTS` says how many.

use std::collections::BTreeMap;
use std::time::Instant;

use tollgate_host::{LogLevel, Options, Process, SharedData, Vm, filter_wasm};

#[path = "random/dice.rs"]
mod dice;
#[path = "random/legal.rs"]
mod legal;
#[path = "random/played.rs"]
mod played;
#[path = "random/requests.rs"]
mod requests;
#[path = "random/settings.rs"]
mod settings;

use dice::Dice;
use requests::{Alphabet, Asked};
use settings::Setting;

const DEFAULT_REQUESTS: u64 = 300_000;
/// Processes, each on a thread of its own.
const PROCESSES: u64 = 2;
/// Workers of a process.
const WORKERS: usize = 3;
/// One worker gets another configuration once in so many requests.
const RECONFIGURE: u64 = 1500;
/// What a guest's memory grows by.
const WASM_PAGE: usize = 65_536;
/// Writes that have to fail in a row before the store gives up.
const TRIES: u64 = 64;
/// Bytes of a page's name and of what else is shared.
const NAME: usize = 64;

struct Worker {
    vm: Vm,
    setting: usize,
}

struct World {
    dice: Dice,
    process: Process,
    settings: Vec<Setting>,
    workers: Vec<Worker>,
    /// A request that is sent again, and how often: that leads to the penalty box.
    hammering: Option<(Asked, u64)>,
    /// Answers by verdict.
    verdicts: BTreeMap<String, u64>,
}

impl World {
    fn new(wasm: &[u8], seed: u64) -> Self {
        let process = Process::with(wasm, Options::new().seed(seed)).unwrap();
        let settings = settings::all();
        let worker = |_| Worker {
            vm: process.vm().unwrap(),
            setting: 0,
        };
        let workers: Vec<Worker> = (0..WORKERS).map(worker).collect();
        let mut world = Self {
            dice: Dice::new(seed),
            process,
            settings,
            workers,
            hammering: None,
            verdicts: BTreeMap::new(),
        };
        // Every change of one setting for another, everywhere: while it lasts both take memory.
        let all = world.settings.len();
        for setting in (0..all).flat_map(|to| (0..all).flat_map(move |from| [from, to])) {
            for worker in 0..WORKERS {
                world.configure(worker, setting);
            }
        }
        world
    }

    fn configure(&mut self, worker: usize, setting: usize) {
        let worker = &mut self.workers[worker];
        let old = worker.vm.root();
        let json = &self.settings[setting].json;
        let accepted = worker.vm.configure(json.as_bytes()).unwrap();
        assert!(accepted, "{json}: {:?}", worker.vm.take_logs());
        worker.setting = setting;
        if let Some(old) = old {
            worker.vm.retire(old).unwrap();
        }
    }

    /// Mostly a little; sometimes long enough for buckets and boxes to be over; sometimes back.
    fn pass_time(&mut self) {
        let dice = &mut self.dice;
        let second = 1_000_000_000;
        let (ahead, back) = match dice.below(2000) {
            0 => (dice.below(2 * 86_400 * second), 0),
            1..=4 => (dice.below(600 * second), 0),
            5..=30 => (dice.below(10 * second), 0),
            31..=50 => (0, dice.below(3 * second)),
            _ => (dice.below(second / 100), 0),
        };
        self.process.set_now(self.process.now() + ahead - back);
    }

    fn step(&mut self) -> Result<(), String> {
        self.pass_time();
        if self.dice.once_in(RECONFIGURE) {
            let setting = self.dice.below(self.settings.len() as u64) as usize;
            let worker = self.dice.below(WORKERS as u64) as usize;
            self.configure(worker, setting);
        }
        if self.dice.once_in(500) {
            // Another worker is faster, now and then more often than the store tries.
            self.process
                .shared_data()
                .lose_next(self.dice.below(80) as u32);
        }
        let asked = match self.hammering.take() {
            Some((asked, times)) if times > 0 => {
                self.hammering = Some((asked.clone(), times - 1));
                asked
            }
            _ => Asked::random(&mut self.dice, Alphabet::Any),
        };
        if self.hammering.is_none() && self.dice.once_in(500) {
            self.hammering = Some((asked.clone(), self.dice.below(100)));
        }
        let worker = &mut self.workers[self.dice.below(WORKERS as u64) as usize];
        let setting = &self.settings[worker.setting];
        let data = self.process.shared_data();
        let lost = data.mismatches();
        let exchange = worker
            .vm
            .exchange(played::request(&asked), played::response(&mut self.dice));
        let lost = data.mismatches() - lost;
        data.lose_next(0);
        let about = |what: String| format!("{what}\n{asked:?}\n{exchange:?}\n{}", setting.json);
        let verdict = played::check(&asked, setting, &exchange, lost >= TRIES).map_err(about)?;
        if !worker.vm.misuses().is_empty() || !worker.vm.unserved_calls().is_empty() {
            return Err(about(format!("misused: {:?}", worker.vm.misuses())));
        }
        match self.verdicts.get_mut(&verdict) {
            Some(count) => *count += 1,
            None => drop(self.verdicts.insert(verdict, 1)),
        }
        Ok(())
    }

    /// What the workers logged: nothing that is an error.
    fn check_logs(&mut self) -> Result<(), String> {
        for worker in &mut self.workers {
            let logs = worker.vm.take_logs();
            if let Some(line) = logs.iter().find(|line| line.level >= LogLevel::Error) {
                return Err(format!("logged: {}", line.message));
            }
        }
        Ok(())
    }

    fn memory(&self) -> Vec<usize> {
        self.workers.iter().map(|w| w.vm.memory_bytes()).collect()
    }
}

/// Pages are full at some time, and that is all there ever is.
fn check_shared(data: &SharedData, settings: &[Setting]) {
    let mut sizes: Vec<usize> = settings.iter().map(|setting| setting.memory).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let pages: usize = sizes.iter().map(|size| size / 4096).sum();
    let most = sizes.iter().sum::<usize>() + (pages + sizes.len()) * NAME;
    assert_eq!(data.len(), pages + sizes.len(), "entries of shared data");
    assert!(data.bytes() <= most, "{} bytes of {most}", data.bytes());
}

/// Plays so many requests in one process.
fn play(wasm: &[u8], seed: u64, requests: u64) -> World {
    let mut world = World::new(wasm, seed);
    let warm = requests / 4;
    let mut memory = world.memory();
    for number in 0..requests {
        if number == warm {
            memory = world.memory();
        }
        let checked = world.step().and_then(|()| match number % 100 {
            0 => world.check_logs(),
            _ => Ok(()),
        });
        if let Err(fault) = checked {
            panic!("seed {seed}, request {number}: {fault}");
        }
    }
    for (after, before) in world.memory().iter().zip(&memory) {
        // What is left over between allocations may cost one more page, once.
        let flat = *after <= before + WASM_PAGE;
        assert!(
            flat,
            "the memory of a worker grew from {before} to {after} bytes"
        );
    }
    check_shared(world.process.shared_data(), &world.settings);
    let counted: u64 = world
        .process
        .metrics()
        .iter()
        .filter(|metric| metric.name.starts_with("tollgate_requests_total."))
        .map(|metric| metric.value)
        .sum();
    assert_eq!(counted, requests, "requests counted");
    world
}

#[test]
fn random_requests_never_break_it() {
    let requests = std::env::var("TOLLGATE_RANDOM_REQUESTS")
        .map_or(DEFAULT_REQUESTS, |text| text.parse().unwrap());
    let wasm = filter_wasm();
    let started = Instant::now();
    let mut verdicts = BTreeMap::<String, u64>::new();
    let mut memory = Vec::new();
    std::thread::scope(|scope| {
        let wasm = &wasm;
        let play = |seed| scope.spawn(move || play(wasm, seed, requests / PROCESSES));
        let threads: Vec<_> = (1..=PROCESSES).map(play).collect();
        for thread in threads {
            let world = thread.join().unwrap();
            memory.extend(world.memory());
            for (verdict, count) in world.verdicts {
                *verdicts.entry(verdict).or_default() += count;
            }
        }
    });
    let took = started.elapsed();
    println!("{requests} requests in {took:.1?}: {verdicts:?}; memory {memory:?}");
    // The requests are worth something only if everything happened to some of them.
    for verdict in [
        "allowed",
        "throttled",
        "boxed",
        "idempotency",
        "invalid",
        "exempt",
        "shadow_allowed",
        "shadow_throttled",
        "shadow_boxed",
        "shadow_idempotency",
        "shadow_invalid",
        "shadow_exempt",
    ] {
        assert!(verdicts.contains_key(verdict), "no request was {verdict}");
    }
}
