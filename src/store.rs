//! What a store is asked, and what it may answer.

use std::fmt;

use tollgate_config::Millis;

use crate::attempt::{Sign, Who};
use crate::client_ip::Address;
use crate::hold::Wanted;
use crate::identity::Id;
use crate::limit::{bucket::Meter, decision::Strictness, penalty::Terms};
use crate::verdict::{Boxed, Verdict};

pub mod front;
mod leg;
pub mod local;
pub mod script;

/// Whom a request counts against, and their limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A key of a tenant.
    Key {
        /// The tenant.
        tenant: Id,
        /// The key.
        key: Id,
        /// The tenant's limit.
        tenant_meter: Meter,
        /// The key's limit.
        key_meter: Meter,
        /// The client's address and `ip_limit`, where there is one.
        ip: Option<(Address, Meter)>,
    },
    /// An address.
    Anonymous {
        /// The address.
        address: Address,
        /// The anonymous limit.
        meter: Meter,
        /// `ip_limit`, where there is one.
        ip_meter: Option<Meter>,
    },
    /// An address that presents credentials: it meets `ip_limit` alone, whose refusals are no strikes; and
    /// the box of the address.
    Credential {
        /// The address.
        address: Address,
        /// `ip_limit`, where there is one.
        ip_meter: Option<Meter>,
    },
}

impl fmt::Display for Subject {
    /// For operators; without the key's name, which may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key { tenant, .. } => write!(f, "a key of tenant {}", tenant.as_str()),
            Self::Anonymous { address, .. } | Self::Credential { address, .. } => {
                write!(f, "address {address}")
            }
        }
    }
}

/// The part of a question whose state is under one hash tag, and on one page of the local store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Leg {
    /// The address, of a tenant's request: `ip_limit`, and attempts by address.
    Address,
    /// A subject: which of [`Attempts::subjects`](crate::attempt::Attempts::subjects).
    Subject(u8),
    /// The owner: the tenant, or the address of a request without one; all else.
    Owner,
}

/// How the penalty box counts for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoxTerms {
    /// Its terms.
    pub terms: Terms,
    /// Whether it refuses.
    pub strictness: Strictness,
}

/// One question: may this request pass?
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Whom it counts against.
    pub subject: Subject,
    /// What it costs, in points. `ip_limit` takes 1 whatever it costs.
    pub cost: u64,
    /// Its state is kept apart.
    pub shadow: bool,
    /// Promises may exceed a whole bucket by this.
    pub grace: Millis,
    /// The penalty box.
    pub penalty: BoxTerms,
    /// What it asks for besides points.
    pub wanted: Option<Wanted>,
}

impl Ask {
    /// The legs of the question, in the order in which they are asked where they cannot be asked at once: the
    /// address, subjects, the tenant.
    pub fn legs(&self) -> impl DoubleEndedIterator<Item = Leg> + use<> {
        let attempts = self.wanted.as_ref().and_then(|w| w.attempts.as_ref());
        let is_tenants = matches!(self.subject, Subject::Key { .. });
        let meets_address = matches!(self.subject, Subject::Key { ip: Some(_), .. })
            || attempts.is_some_and(|a| {
                a.list.iter().any(|one| one.who == Who::Ip) || a.stuffing.is_some()
            });
        let subjects = attempts.map_or(0, |a| u8::try_from(a.subjects.len()).unwrap_or(u8::MAX));
        let before = match is_tenants {
            true => meets_address.then_some(Leg::Address),
            false => Some(Leg::Owner),
        };
        let after = is_tenants.then_some(Leg::Owner);
        before
            .into_iter()
            .chain((0..subjects).map(Leg::Subject))
            .chain(after)
    }
}

/// What a decision did besides deciding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Toll {
    /// Entries that had to make room for others.
    pub evictions: u32,
    /// Changes that were tried again because somebody else was faster.
    pub retries: u32,
    /// Debits that could not be given back.
    pub lost_refunds: u32,
}

/// What came of holding on, or letting go, and of telling an outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// All that was to be held for longer still was.
    pub all: bool,
    /// What was noticed.
    pub signs: Vec<Sign>,
}

impl Kept {
    /// Nothing was noticed.
    #[must_use]
    pub const fn silently(all: bool) -> Self {
        Self {
            all,
            signs: Vec::new(),
        }
    }
}

/// Where state lives.
pub trait Store {
    /// Decides a request at `now`: one of `Allowed`, `Throttled`, `Taken`, `Boxed`, `Contended`.
    fn decide(&mut self, ask: &Ask, now: Millis) -> (Verdict, Toll);

    /// The box that is in force for whoever asks; changes nothing.
    fn lockout(&mut self, ask: &Ask, now: Millis) -> Option<Boxed>;
}
