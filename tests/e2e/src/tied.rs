//! A process that ends with the test, also when the test is killed. Owns its end and its signals; must not know what
//! it does.

use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The running process; dropping it kills it.
#[derive(Debug)]
pub(crate) struct Tied {
    child: Child,
    watchdog: Child,
}

impl Tied {
    /// Starts it.
    pub(crate) fn start(command: &mut Command) -> Self {
        let child = command.spawn().unwrap_or_else(|error| {
            let program = command.get_program().to_string_lossy();
            panic!("{program}: {error}: run `make test`, which installs what is missing")
        });
        let watchdog = watchdog(child.id());
        Self { child, watchdog }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, where it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the state of a process")
    }

    /// Halts it as it is: its connections stay open, and nothing is answered.
    pub(crate) fn pause(&self) {
        self.signal("STOP");
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) {
        self.signal("CONT");
    }

    /// Ends it by this signal, or by force where that takes longer.
    pub(crate) fn end(&mut self, signal: &str, within: Duration) {
        if self.ended().is_some() {
            return;
        }
        self.signal(signal);
        let start = Instant::now();
        while self.ended().is_none() {
            if start.elapsed() > within {
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn signal(&self, name: &str) {
        signal(self.id(), name);
    }
}

/// Sends a signal to a process of one's own that has not been waited for.
pub(crate) fn signal(pid: u32, name: &str) {
    let done = Command::new("/bin/sh")
        .args(["-c", "kill -s \"$0\" \"$1\"", name, &pid.to_string()])
        .status()
        .expect("a shell can be run");
    assert!(done.success(), "no SIG{name} for process {pid}");
}

impl Drop for Tied {
    fn drop(&mut self) {
        // The watchdog first: it must not outlive the process it would kill.
        for child in [&mut self.watchdog, &mut self.child] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A shell that kills `pid` when this process ends in whatever way, for then the pipe it reads from closes.
fn watchdog(pid: u32) -> Child {
    Command::new("/bin/sh")
        .args(["-c", "read -r _; kill -9 \"$0\"", &pid.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a shell can be run")
}
