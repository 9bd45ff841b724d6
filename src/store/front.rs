//! The HTTP fronts of Redis: bytes of a call <-> answer. Must not know what is asked, or who waits.
//!
//! Nothing of an error's text is kept: it may quote keys and arguments.

use std::fmt;

use serde_json::Value;
use tollgate_config::{Front as Dialect, Redis, Secret};

use super::script::{Command, WrongReply};

mod upstash;
mod webdis;

/// How Redis begins when the user who runs a script lacks a right that the script needs.
const SCRIPT_USER_CANNOT: &str = "ERR The user executing the script can't";

/// Commands that one call carries at most.
const MOST_COMMANDS: usize = 64;

/// Why the store did not decide: the `kind` of `tollgate_store_errors_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StoreFault {
    /// No answer in time.
    Timeout,
    /// The front, or Redis behind it, cannot be reached.
    Unreachable,
    /// The proxy does not know the upstream.
    NoCluster,
    /// The front answered with a status that says nothing else.
    Status,
    /// The answer is not one to what was asked.
    Malformed,
    /// The answer is one to another call.
    Mismatched,
    /// Redis does not have the script; it is loaded and sent again, once.
    NoScript,
    /// Redis is starting.
    Loading,
    /// Redis is a replica.
    ReadOnly,
    /// Redis is full.
    Oom,
    /// Keys of one call are in several slots: `topology` should be `cluster`.
    CrossSlot,
    /// The front or Redis wants other credentials.
    NoAuth,
    /// Any other error of Redis.
    Script,
    /// The breaker is open: the store was not asked.
    Breaker,
    /// Too many were before it: the store was not asked in time.
    Overload,
}

impl StoreFault {
    /// All there are.
    pub const ALL: [Self; 15] = [
        Self::Timeout,
        Self::Unreachable,
        Self::NoCluster,
        Self::Status,
        Self::Malformed,
        Self::Mismatched,
        Self::NoScript,
        Self::Loading,
        Self::ReadOnly,
        Self::Oom,
        Self::CrossSlot,
        Self::NoAuth,
        Self::Script,
        Self::Breaker,
        Self::Overload,
    ];

    /// The fault's name in metrics and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Unreachable => "unreachable",
            Self::NoCluster => "no_cluster",
            Self::Status => "status",
            Self::Malformed => "malformed",
            Self::Mismatched => "mismatched",
            Self::NoScript => "noscript",
            Self::Loading => "loading",
            Self::ReadOnly => "readonly",
            Self::Oom => "oom",
            Self::CrossSlot => "crossslot",
            Self::NoAuth => "noauth",
            Self::Script => "script",
            Self::Breaker => "breaker",
            Self::Overload => "overload",
        }
    }

    /// What an operator should look at.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        match self {
            Self::Timeout => {
                "is store.timeout above the store's latency, and the front not overloaded?"
            }
            Self::Unreachable => "do the front and Redis run?",
            Self::NoCluster => "store.upstream should be the name of a cluster of this proxy",
            Self::Status => "see the front's log",
            Self::Malformed => "does store.dialect name what the front speaks?",
            Self::Mismatched => {
                "the front gave another call's answer; it may do so after timeouts: look at why it is slow"
            }
            Self::NoScript => "scripts are flushed again and again",
            Self::Loading => "Redis is reading its data",
            Self::ReadOnly => "the front talks to a replica",
            Self::Oom => "Redis is full: see maxmemory",
            Self::CrossSlot => "a Redis Cluster needs store.topology: cluster",
            Self::NoAuth => {
                "see store.authorization, the front's own credentials, and the commands and keys that Redis' ACL allows"
            }
            Self::Script => "see the log of Redis",
            Self::Breaker | Self::Overload => "see the failures before",
        }
    }

    /// The fault that an error of Redis is. Its code is the first word; where a script met it and
    /// Redis is older than 7, the code comes later, after a dash
    /// (`ERR Error running script (call to f_..): @user_script:1: -OOM command not allowed ..`).
    fn of_error(error: &str) -> Self {
        // What a script's user may not do has no code of its own.
        if error.starts_with(SCRIPT_USER_CANNOT) {
            return Self::NoAuth;
        }
        let mut words = error.split_ascii_whitespace();
        let first = words.next().unwrap_or_default();
        let code = match first {
            "ERR" => words.find_map(|word| word.strip_prefix('-')),
            _ => None,
        };
        match code.unwrap_or(first) {
            "NOSCRIPT" => Self::NoScript,
            "LOADING" => Self::Loading,
            "READONLY" => Self::ReadOnly,
            "OOM" => Self::Oom,
            "CROSSSLOT" => Self::CrossSlot,
            "NOAUTH" | "NOPERM" | "WRONGPASS" => Self::NoAuth,
            // To a stranger Redis refuses a long command before it reads it, by
            // `ERR Protocol error: unauthenticated multibulk length` (or `bulk length`).
            _ if error.contains("unauthenticated") => Self::NoAuth,
            _ => Self::Script,
        }
    }

    /// The fault that a status is, if it is one.
    const fn of_status(status: Option<&[u8]>) -> Option<Self> {
        match status {
            Some(b"200") => None,
            None | Some(b"504") => Some(Self::Timeout),
            Some(b"503") => Some(Self::Unreachable),
            Some(b"401" | b"403") => Some(Self::NoAuth),
            Some(_) => Some(Self::Status),
        }
    }
}

impl From<WrongReply> for StoreFault {
    fn from(wrong: WrongReply) -> Self {
        match wrong {
            WrongReply::Malformed => Self::Malformed,
            WrongReply::Mismatched => Self::Mismatched,
        }
    }
}

/// A call of the front.
#[derive(Clone, PartialEq, Eq)]
pub struct Call {
    /// Its fields, `:method`, `:path` and `:authority` included.
    pub headers: Vec<(&'static str, String)>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Call {
    /// The value of a field.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.headers.iter();
        fields.find_map(|(n, value)| (*n == name).then_some(value.as_str()))
    }
}

impl fmt::Debug for Call {
    /// Without what it says: that names keys, and the front's credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.header(":path").map_or(0, str::len);
        f.debug_struct("Call")
            .field("method", &self.header(":method"))
            .field("path_bytes", &path)
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

/// What came back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Raw<'a> {
    /// `:status`; `None` where the proxy made no answer at all.
    pub status: Option<&'a [u8]>,
    /// The body.
    pub body: &'a [u8],
}

/// What Redis answered to one command: the elements of a list, or an error.
pub type Reply = Result<Vec<String>, StoreFault>;

/// A front: how it is called.
#[derive(Debug, Clone)]
pub struct Front {
    dialect: Dialect,
    authority: String,
    authorization: Option<Secret>,
}

impl Front {
    /// The front of a configured Redis.
    #[must_use]
    pub fn new(redis: &Redis) -> Self {
        Self {
            dialect: redis.dialect,
            authority: redis.upstream.clone(),
            authorization: redis.authorization.clone(),
        }
    }

    /// How many commands one call carries at most.
    #[must_use]
    pub const fn most_commands(&self) -> usize {
        match self.dialect {
            Dialect::Webdis => 1,
            Dialect::Upstash => MOST_COMMANDS,
        }
    }

    /// The calls that carry these commands, in their order, as many a call as it takes.
    #[must_use]
    pub fn call(&self, commands: &[Command]) -> Vec<Call> {
        commands
            .chunks(self.most_commands())
            .map(|commands| match (self.dialect, commands) {
                (Dialect::Webdis, [command]) => self.webdis(command),
                (_, commands) => self.upstash(commands),
            })
            .collect()
    }

    /// Reads the answer to a call of so many commands.
    ///
    /// # Errors
    ///
    /// A fault of the call as a whole. Each command may have one of its own.
    pub fn read(&self, raw: Raw<'_>, commands: usize) -> Result<Vec<Reply>, StoreFault> {
        if let Some(fault) = StoreFault::of_status(raw.status) {
            return Err(fault);
        }
        let replies = match self.dialect {
            Dialect::Webdis => vec![webdis::read(raw.body)?],
            Dialect::Upstash => upstash::read(raw.body)?,
        };
        if replies.len() == commands {
            Ok(replies)
        } else {
            Err(StoreFault::Malformed)
        }
    }

    fn webdis(&self, command: &Command) -> Call {
        let text = webdis::text(command);
        if text.len() < webdis::MOST_PATH {
            self.with_fields("GET", format!("/{text}"), None, Vec::new())
        } else {
            let kind = Some("text/plain");
            self.with_fields("POST", "/".to_owned(), kind, text.into_bytes())
        }
    }

    fn upstash(&self, commands: &[Command]) -> Call {
        let path = "/pipeline".to_owned();
        let kind = Some("application/json");
        self.with_fields("POST", path, kind, upstash::body(commands))
    }

    fn with_fields(
        &self,
        method: &str,
        path: String,
        content_type: Option<&str>,
        body: Vec<u8>,
    ) -> Call {
        let mut headers = vec![
            (":method", method.to_owned()),
            (":path", path),
            (":authority", self.authority.clone()),
        ];
        headers.extend(content_type.map(|kind| ("content-type", kind.to_owned())));
        let secret = self.authorization.as_ref();
        headers.extend(secret.map(|Secret(value)| ("authorization", value.clone())));
        Call { headers, body }
    }
}

/// The elements of a list: text, or numbers as their decimal text; nothing else belongs there.
fn elements(list: Vec<Value>) -> Reply {
    let text = |element| match element {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        _ => Err(StoreFault::Malformed),
    };
    list.into_iter().map(text).collect()
}

#[cfg(test)]
mod tests;
