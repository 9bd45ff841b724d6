//! An open-loop load generator: requests are due at times fixed in advance, whatever the server does, and
//! a latency is counted from when its request was due. A server that stalls is charged for everyone who
//! would have come meanwhile (no coordinated omission).
//!
//! `open-loop PORT RATE SECONDS CONNECTIONS REQUESTS-FILE` talks to 127.0.0.1 and prints one JSON object,
//! times in microseconds. Arrivals are random (exponential gaps) with one seed: all runs of the same rate
//! have the same schedule.

mod http;
mod schedule;

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use http::Connection;

/// What a thread saw.
#[derive(Default)]
struct Seen {
    /// From due to answered, in nanoseconds.
    latencies: Vec<u64>,
    /// From due to sent: large where the generator or all its connections were busy.
    lateness: Vec<u64>,
    ok: usize,
    refused: usize,
    other: usize,
}

impl Seen {
    fn add(&mut self, other: Seen) {
        self.latencies.extend(other.latencies);
        self.lateness.extend(other.lateness);
        self.ok += other.ok;
        self.refused += other.refused;
        self.other += other.other;
    }
}

/// What all threads share: the times that requests are due, and who is next.
struct Plan {
    due: Vec<Duration>,
    requests: Vec<Vec<u8>>,
    next: AtomicUsize,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [port, rate, seconds, connections, file] = args.as_slice() else {
        return Err("usage: open-loop PORT RATE SECONDS CONNECTIONS REQUESTS-FILE".into());
    };
    let (port, rate, seconds): (u16, f64, f64) = (port.parse()?, rate.parse()?, seconds.parse()?);
    let connections: usize = connections.parse()?;

    // By default a sleep ends up to 50 us late, which is as much as a request takes. Threads inherit this.
    // Where it cannot be set, `lateness` tells.
    let _ = std::fs::write("/proc/self/timerslack_ns", "1");

    let plan = Arc::new(Plan {
        due: schedule::arrivals(rate, seconds),
        requests: http::split_requests(&std::fs::read(file)?)?,
        next: AtomicUsize::new(0),
    });
    let mut open = Vec::new();
    for _ in 0..connections {
        open.push(Connection::open(port)?);
    }
    // Threads are all there before the first request is due.
    let start = Instant::now() + Duration::from_millis(50);
    let threads: Vec<_> = open
        .into_iter()
        .map(|connection| {
            let plan = Arc::clone(&plan);
            thread::spawn(move || run(&plan, connection, start))
        })
        .collect();

    let mut seen = Seen::default();
    for thread in threads {
        let part = thread.join().map_err(|_| "a thread panicked")?;
        seen.add(part.map_err(|error| format!("a request failed: {error}"))?);
    }
    report(seen, start.elapsed());
    Ok(())
}

/// Takes the next due request until there is none.
fn run(plan: &Plan, mut connection: Connection, start: Instant) -> std::io::Result<Seen> {
    let mut seen = Seen::default();
    loop {
        let turn = plan.next.fetch_add(1, Ordering::Relaxed);
        let Some(&after) = plan.due.get(turn) else {
            return Ok(seen);
        };
        let Some(request) = plan.requests.get(turn % plan.requests.len()) else {
            return Ok(seen);
        };
        let due = start + after;
        // thread::sleep, not a spin: the upstream may share the core.
        thread::sleep(due.saturating_duration_since(Instant::now()));
        seen.lateness.push(nanoseconds(due.elapsed()));
        match connection.ask(request)? {
            200..=299 => seen.ok += 1,
            429 => seen.refused += 1,
            _ => seen.other += 1,
        }
        seen.latencies.push(nanoseconds(due.elapsed()));
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[allow(clippy::print_stdout, reason = "its one output")]
fn report(mut seen: Seen, took: Duration) {
    seen.latencies.sort_unstable();
    seen.lateness.sort_unstable();
    println!(
        "{{\"requests\":{},\"seconds\":{:.6},\"ok\":{},\"refused\":{},\"other\":{},\
         \"p50\":{:.1},\"p90\":{:.1},\"p99\":{:.1},\"late_p50\":{:.1},\"late_p99\":{:.1}}}",
        seen.latencies.len(),
        took.as_secs_f64(),
        seen.ok,
        seen.refused,
        seen.other,
        percentile(&seen.latencies, 50),
        percentile(&seen.latencies, 90),
        percentile(&seen.latencies, 99),
        percentile(&seen.lateness, 50),
        percentile(&seen.lateness, 99),
    );
}

/// The smallest value that `percent` of all do not exceed, in microseconds; 0 where there is none.
fn percentile(sorted: &[u64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    let value = sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0);
    value as f64 / 1000.0
}
