//! A real PostgreSQL of one's own, and sessions with it. Owns the processes and their files; must not know what is asked.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tempfile::TempDir;

use crate::eventually::{PATIENCE, eventually};
use crate::tied::Tied;

/// A running PostgreSQL that listens on a socket of its own and on no port; it ends when this is dropped.
pub struct Postgres {
    process: Tied,
    programs: PathBuf,
    files: TempDir,
}

impl Postgres {
    /// Starts one, with an empty database.
    ///
    /// # Panics
    ///
    /// When it does not start: `make test` installs it.
    pub async fn start() -> Self {
        let programs = programs();
        let files = TempDir::with_prefix("tollgate-e2e-postgres-").expect("a temporary directory");
        let user = user();
        if let Some((uid, gid)) = user {
            chown(files.path(), Some(uid), Some(gid)).expect("its own directory");
        }
        let program = |name: &str| {
            let mut command = Command::new(programs.join(name));
            command.current_dir(files.path()).stdin(Stdio::null());
            if let Some((uid, gid)) = user {
                command.gid(gid).uid(uid);
            }
            command
        };
        let made = program("initdb")
            .args(["--pgdata", "data", "--username", "postgres"])
            .args(["--auth", "trust", "--encoding", "UTF8", "--locale", "C"])
            .args(["--no-sync", "--no-instructions"])
            .output()
            .expect("initdb can be run");
        assert!(
            made.status.success(),
            "initdb: {}",
            String::from_utf8_lossy(&made.stderr)
        );

        let log = File::create(files.path().join("postgres.log")).expect("a log file");
        let mut server = program("postgres");
        server.args(["-D", "data"]).arg("-k").arg(files.path());
        for setting in [
            "listen_addresses=",
            "fsync=off",
            "shared_buffers=16MB",
            "max_connections=20",
            "dynamic_shared_memory_type=mmap",
        ] {
            server.args(["-c", setting]);
        }
        server
            .stdout(log.try_clone().expect("the log file again"))
            .stderr(log);
        let mut postgres = Self {
            process: Tied::start(&mut server),
            programs,
            files,
        };
        eventually("PostgreSQL answers", PATIENCE, async || {
            if let Some(status) = postgres.process.ended() {
                panic!("PostgreSQL ended with {status}:\n{}", postgres.logs());
            }
            postgres.run("SELECT 1;").is_ok().then_some(())
        })
        .await;
        postgres
    }

    /// Runs a script, and gives what it prints: rows of values with `|` between, one a line.
    ///
    /// # Errors
    ///
    /// What psql says of the first statement that fails, its SQLSTATE included; the rest is not run.
    pub fn run(&self, script: &str) -> Result<String, String> {
        let mut psql = self.psql().spawn().expect("psql can be run");
        // It may have ended before it has read all of it.
        let _ = psql
            .stdin
            .take()
            .expect("its input")
            .write_all(script.as_bytes());
        let output = psql.wait_with_output().expect("its output");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(text(&output.stderr))
        }
    }

    /// Opens a session, to be told one thing after the other.
    pub fn session(&self) -> Session {
        Session::new(self.psql().spawn().expect("psql can be run"))
    }

    /// What the server has logged.
    pub fn logs(&self) -> String {
        std::fs::read_to_string(self.files.path().join("postgres.log")).unwrap_or_default()
    }

    fn psql(&self) -> Command {
        let mut command = Command::new(self.programs.join("psql"));
        command
            .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"])
            .args(["--username", "postgres", "--dbname", "postgres", "--host"])
            .arg(self.files.path())
            .args(["--set", "ON_ERROR_STOP=1", "--set", "VERBOSITY=verbose"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // In order, so that nothing of it stays in the system; whoever is still connected is cut off.
        self.process.end("INT", Duration::from_secs(5));
    }
}

/// A psql that is told one thing after the other. Dropping it ends it, and its transaction.
pub struct Session {
    psql: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Session {
    fn new(mut psql: Child) -> Self {
        let input = psql.stdin.take();
        let output = BufReader::new(psql.stdout.take().expect("its output"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            output
                .lines()
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
        Self { psql, input, lines }
    }

    /// Says this, and waits until it has been done.
    ///
    /// # Panics
    ///
    /// When it is not done within 30 seconds, or fails.
    pub fn say(&mut self, script: &str) {
        self.begin(script);
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line == "-- done --" => return,
                Ok(_) => {}
                Err(_) => panic!("not done: {script}"),
            }
        }
    }

    /// Says this, and does not wait.
    pub fn begin(&mut self, script: &str) {
        let input = self.input.as_mut().expect("an open session");
        // That it has ended shows at the end.
        let _ = writeln!(input, "{script}\n\\echo -- done --");
        let _ = input.flush();
    }

    /// Halts it as it is, with its transaction open.
    pub fn pause(&self) {
        self.signal("STOP");
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal("CONT");
    }

    /// Ends the session.
    ///
    /// # Errors
    ///
    /// What psql says, where a statement has failed.
    pub fn end(mut self) -> Result<(), String> {
        drop(self.input.take());
        let mut said = String::new();
        let mut errors = self.psql.stderr.take().expect("what it says");
        let _ = errors.read_to_string(&mut said);
        let status = self.psql.wait().expect("its end");
        if status.success() { Ok(()) } else { Err(said) }
    }

    fn signal(&self, name: &str) {
        crate::tied::signal(self.psql.id(), name);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.psql.kill();
        let _ = self.psql.wait();
    }
}

/// Where its programs are: Debian keeps those of the server off the `PATH`.
fn programs() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok();
    let debian = versions
        .into_iter()
        .flatten()
        .filter_map(|version| Some(version.ok()?.path().join("bin")));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let elsewhere = std::env::split_paths(&path).collect::<Vec<_>>();
    let has_all = |programs: &PathBuf| {
        ["initdb", "postgres", "psql"]
            .iter()
            .all(|name| programs.join(name).is_file())
    };
    // The newest of Debian's: their directories are numbers.
    let number = |programs: &PathBuf| {
        let version = programs.parent().and_then(Path::file_name);
        version.and_then(|v| v.to_str()?.parse::<u32>().ok())
    };
    debian
        .filter(has_all)
        .max_by_key(number)
        .or_else(|| elsewhere.into_iter().find(has_all))
        .unwrap_or_else(|| panic!("no PostgreSQL: run `make test`, which installs what is missing"))
}

/// Whom to run it as, where that is not whoever runs the test: it refuses to run as root.
fn user() -> Option<(u32, u32)> {
    let root = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").ok()?) == 0;
    if !root {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").expect("the users of this system");
    let find = |name: &str| {
        users.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            match fields[..] {
                [user, _, uid, gid, ..] if user == name => {
                    Some((uid.parse().ok()?, gid.parse().ok()?))
                }
                _ => None,
            }
        })
    };
    Some(
        find("postgres")
            .or_else(|| find("nobody"))
            .expect("a user other than root"),
    )
}
