//! What a request holds while it is served: what it asks for, and for how long that stays its own. Must not
//! know stores, nor when anything is let go.

use std::fmt;
use std::rc::Rc;

use tollgate_config::Millis;

use crate::attempt::{Attempts, Outcome};
use crate::identity::Id;

/// A lease, a lock and an idempotency key are held for so long at a time while the stream lives, so that a
/// gateway that crashed frees them within a minute.
pub const HELD_FOR: Millis = Millis(60_000);

/// An undo that finds nothing leaves a mark for so long, which a call that comes late must respect.
pub const MARKED_FOR: Millis = Millis(60_000);

/// Whose a lease, a lock, a key in flight or a place in a quota is: one for each request, drawn at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldId(pub u64);

impl fmt::Display for HoldId {
    /// 16 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A number that grows with every holder of a lock: the larger of the last one plus 1 and the store's time
/// in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(pub u64);

/// A slot of a tenant's for requests of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseWanted {
    /// The kind.
    pub kind: Rc<str>,
    /// How many may be held at once; at least 1.
    pub slots: u32,
}

/// A place in a tenant's quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaWanted {
    /// The kind.
    pub kind: Rc<str>,
    /// How many places there are; at least 1.
    pub requests: u32,
    /// After how long a place is free again; at least 1 s.
    pub per: Millis,
}

/// What a request asks for besides points; at least one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Whose it will be.
    pub id: HoldId,
    /// The idempotency key that is in flight with it.
    pub flight: Option<Id>,
    /// The resource to lock.
    pub lock: Option<Id>,
    /// The lease.
    pub lease: Option<LeaseWanted>,
    /// The quota: spent when granted.
    pub quota: Option<QuotaWanted>,
    /// Attempts at credentials, pending until their outcome is told.
    pub attempts: Option<Rc<Attempts>>,
}

impl Wanted {
    /// Nothing yet.
    #[must_use]
    pub const fn nothing(id: HoldId) -> Self {
        Self {
            id,
            flight: None,
            lock: None,
            lease: None,
            quota: None,
            attempts: None,
        }
    }

    /// Whether any of it has to be let go some time.
    #[must_use]
    pub const fn is_held(&self) -> bool {
        self.flight.is_some()
            || self.lock.is_some()
            || self.lease.is_some()
            || self.attempts.is_some()
    }
}

/// For how much longer each part of what is held stays held, from now; 0 lets it go. Whatever is not held
/// (any more) stays as it is: what ran out may be somebody else's by now. [`HELD_FOR`] never shortens: word that a
/// stream lives may come later than the word that hands over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// The lease.
    pub lease: Millis,
    /// The lock.
    pub lock: Millis,
    /// The idempotency key.
    pub flight: Millis,
    /// What became of the attempts, if that is to be told; they are not held on. An outcome that never is
    /// told is a failure after [`HELD_FOR`], as of then.
    pub outcome: Option<Outcome>,
}

impl Keep {
    /// All of it is let go.
    pub const NOTHING: Self = Self {
        lease: Millis(0),
        lock: Millis(0),
        flight: Millis(0),
        outcome: None,
    };

    /// All of it for as long as is usual while a stream lives.
    pub const ON: Self = Self {
        lease: HELD_FOR,
        lock: HELD_FOR,
        flight: HELD_FOR,
        outcome: None,
    };

    /// What is to be told where this was to be told, and then something later: that, but what was let go is never
    /// held again, and the first outcome stays.
    #[must_use]
    pub const fn then(self, later: Self) -> Self {
        Self {
            lease: shorter(self.lease, later.lease),
            lock: shorter(self.lock, later.lock),
            flight: shorter(self.flight, later.flight),
            outcome: match self.outcome {
                None => later.outcome,
                told => told,
            },
        }
    }

    /// Whether it says that a stream lives, and nothing of how it will end.
    #[must_use]
    pub const fn is_renewal(&self) -> bool {
        let usual = HELD_FOR.0;
        self.lease.0 == usual && self.lock.0 == usual && self.flight.0 == usual
    }
}

const fn shorter(earlier: Millis, later: Millis) -> Millis {
    if earlier.0 == 0 { earlier } else { later }
}
