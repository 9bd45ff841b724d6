//! Attempts at credentials: under which throttles a request is one, and what became of it. Must not know
//! stores, nor how a subject is read.

use std::rc::Rc;

use tollgate_config::{Millis, Stuffing, ThrottleId};

use crate::client_ip::Address;
use crate::identity::Id;
use crate::verdict::Scope;

mod sign;

/// Attempts are counted by 32 bits of [`Outcome::failed`].
pub const MOST_THROTTLES: usize = 32;

/// From so many addresses one subject fails within a window before that is an event.
pub const SPREAD: u32 = 10;

/// From so many addresses a subject is known to succeed at most.
pub const MOST_KNOWN: u32 = 16;

/// For how long an address from which a subject succeeded is known, since the last success.
pub const KNOWN_FOR: Millis = Millis(30 * 24 * 3_600_000);

/// Whose attempts are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Who {
    /// The address's.
    Ip,
    /// A subject's: which of [`Attempts::subjects`].
    Subject(u8),
    /// A subject's from this address.
    Pair(u8),
}

impl Who {
    /// Whose lockout a full window leads to, as metrics have it.
    #[must_use]
    pub const fn scope(self) -> Scope {
        match self {
            Self::Ip => Scope::Ip,
            Self::Subject(_) | Self::Pair(_) => Scope::Subject,
        }
    }
}

/// One throttle, for one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Which.
    pub throttle: ThrottleId,
    /// Its name.
    pub name: Rc<str>,
    /// Whose attempts it counts together.
    pub who: Who,
    /// So many failures lead to a lockout; at least 1.
    pub failures: u32,
    /// In a sliding window of this length.
    pub within: Millis,
    /// How long lockouts last, by level; the first is the throttle's own.
    pub levels: [Millis; 3],
    /// The highest level, 1 to 3: 2 for subjects, 3 for addresses.
    pub max_level: u8,
    /// How long offenses are remembered.
    pub offense_memory: Millis,
    /// It takes a slot while it is in flight.
    pub provisional: bool,
    /// Of `Who::Subject`: addresses from which the subject succeeded before have windows and lockouts of
    /// their own.
    pub spares: bool,
    /// A success clears the failures.
    pub resets: bool,
}

/// A request as attempts at credentials: all throttles that are for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempts {
    /// From where.
    pub address: Address,
    /// For whom, hashed; without repetition. Empty where no throttle asks.
    pub subjects: Vec<Id>,
    /// By each throttle, in the order of the configuration; at least one, at most [`MOST_THROTTLES`].
    pub list: Vec<Attempt>,
    /// What is taken for credential stuffing, and how long the ban for it lasts.
    pub stuffing: Option<(Stuffing, Millis)>,
}

impl Attempts {
    /// Whose attempts those are, for operators: a subject is never named.
    #[must_use]
    pub fn whose(&self, who: Who) -> String {
        match who {
            Who::Ip => format!("address {}", self.address),
            Who::Subject(_) => "a subject".to_owned(),
            Who::Pair(_) => format!("a subject at address {}", self.address),
        }
    }
}

/// What became of a request as attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// When it was let through, by the clock of the store that did: a failure counts as of then.
    pub started: Millis,
    /// By which throttles it failed: a bit for each of [`Attempts::list`], the first is the lowest.
    pub failed: u32,
    /// It succeeded: those by which it did not fail may clear failures, and its address becomes known.
    pub succeeded: bool,
}

impl Outcome {
    /// Whether it failed by one of the throttles.
    #[must_use]
    pub const fn is_failed(&self, place: usize) -> bool {
        place < MOST_THROTTLES && self.failed & (1 << place) != 0
    }
}

/// What a store noticed when it was told of an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// It filled a throttle's window: which of [`Attempts::list`], and the lockout's level and end.
    Locked(usize, crate::limit::penalty::Lockout),
    /// It is credential stuffing: the address is banned.
    Stuffing(crate::limit::penalty::Lockout),
    /// A subject failed from [`SPREAD`] addresses within a window: which of [`Attempts::list`]. Once a window.
    Spread(usize),
}
