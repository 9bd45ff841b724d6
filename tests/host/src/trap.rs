//! What is known when the guest dies, and the lines it logged.

use std::fmt;

/// The severity of a log line, as Proxy-Wasm numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum LogLevel {
    /// 0
    Trace,
    /// 1
    Debug,
    /// 2
    Info,
    /// 3
    Warn,
    /// 4
    Error,
    /// 5: the SDK logs panics at this level
    Critical,
}

impl LogLevel {
    pub(crate) fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::Trace,
            1 => Self::Debug,
            2 => Self::Info,
            3 => Self::Warn,
            4 => Self::Error,
            5 => Self::Critical,
            _ => return None,
        })
    }
}

/// One line the guest logged, or wrote to its standard output (info) or standard error (error).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// How grave it is.
    pub level: LogLevel,
    /// The text; what is not UTF-8 is replaced by U+FFFD.
    pub message: String,
}

/// The guest died: a panic, an illegal access, an exit, or no fuel left. Its VM answers nothing any
/// more: every later call returns the same trap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trap {
    /// The guest's export that was running.
    pub function: &'static str,
    /// What the engine says.
    pub message: String,
    /// The last lines logged before; a panic's message is among them.
    pub logs: Vec<LogLine>,
}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the guest trapped in {}: {}",
            self.function, self.message
        )?;
        for line in &self.logs {
            write!(f, "\n  {:?}: {}", line.level, line.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for Trap {}
