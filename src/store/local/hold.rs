//! What requests hold in the local store, after they were decided: held on, let go, or revoked.
//!
//! Leases, locks, keys in flight and quotas lie in their owner's page, so that a decision takes all of
//! them or none. Tenants own theirs; those of anonymous requests are the address's.

use tollgate_config::Millis;

use super::Local;
use super::memory::Memory;
use super::record::{Kind, Name};
use super::wishes::Wishes;
use crate::hold::Keep;
use crate::store::{Ask, Subject, Toll};

impl<M: Memory> Local<M> {
    /// Keeps what a request holds for longer, or lets it go: `false` if some of what was to be held for
    /// longer was not held any more. What is not held stays as it is. `None` where the page is too
    /// contended; it may be tried again.
    #[must_use]
    pub fn keep(&self, ask: &Ask, keep: Keep, now: Millis) -> Option<bool> {
        let Some(wishes) = self.wishes(ask).filter(Wishes::are_held) else {
            return Some(true);
        };
        self.change(&self.owner(ask), &mut Toll::default(), |page| {
            wishes.keep(page, keep, now)
        })
    }

    /// Lets go what a request may hold, or, if it holds nothing, sees to it that it will not, should it
    /// be decided only now: it is marked for [`MARKED_FOR`](crate::hold::MARKED_FOR). In a page
    /// without room for a mark there is none. `None` where the page is too contended; it may be tried
    /// again.
    #[must_use]
    pub fn revoke(&self, ask: &Ask, now: Millis) -> Option<()> {
        let Some(wishes) = self.wishes(ask).filter(Wishes::are_held) else {
            return Some(());
        };
        self.change(&self.owner(ask), &mut Toll::default(), |page| {
            let done = wishes.revoke(page, now);
            ((), done.is_ok())
        })
    }

    /// What a request wants besides points, by its names.
    pub(super) fn wishes(&self, ask: &Ask) -> Option<Wishes> {
        let wanted = ask.wanted.as_ref()?;
        let address;
        let (scope, owner): (&[u8], &[u8]) = match &ask.subject {
            Subject::Key { tenant, .. } => (b"t", tenant.as_str().as_bytes()),
            Subject::Anonymous { address: from, .. } => {
                address = from.key();
                (b"ip", &address)
            }
        };
        let name = |kind, what: &[u8], named: &str| Name {
            id: self.hash(ask.shadow, &[scope, owner, what, named.as_bytes()]),
            kind,
        };
        let flight = wanted.flight.as_ref();
        let lock = wanted.lock.as_ref();
        let lease = wanted.lease.as_ref();
        let quota = wanted.quota.as_ref();
        Some(Wishes {
            id: wanted.id,
            flight: flight.map(|key| name(Kind::Flight, b"ik", key.as_str())),
            lock: lock.map(|resource| name(Kind::Lock, b"lk", resource.as_str())),
            lease: lease.map(|lease| (name(Kind::Lease, b"cc", &lease.kind), lease.slots)),
            quota: quota.map(|quota| {
                let name = name(Kind::Quota, b"qt", &quota.kind);
                (name, quota.requests, quota.per)
            }),
        })
    }
}
