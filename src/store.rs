//! What a store is asked, and what it may answer.

use std::fmt;

use tollgate_config::Millis;

use crate::client_ip::Address;
use crate::hold::Wanted;
use crate::identity::Id;
use crate::limit::{bucket::Meter, decision::Strictness, penalty::Terms};
use crate::verdict::{Boxed, Verdict};

pub mod front;
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
}

impl fmt::Display for Subject {
    /// For operators; without the key's name, which may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key { tenant, .. } => write!(f, "a key of tenant {}", tenant.as_str()),
            Self::Anonymous { address, .. } => write!(f, "address {address}"),
        }
    }
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

/// Where state lives.
pub trait Store {
    /// Decides a request at `now`: one of `Allowed`, `Throttled`, `Taken`, `Boxed`, `Contended`.
    fn decide(&mut self, ask: &Ask, now: Millis) -> (Verdict, Toll);

    /// The box that is in force for whoever asks; changes nothing.
    fn lockout(&mut self, ask: &Ask, now: Millis) -> Option<Boxed>;
}
