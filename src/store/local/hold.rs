//! What requests hold in the local store, after they were decided: held on, let go, or revoked; and what became of
//! their attempts.
//!
//! Leases, locks, keys in flight and quotas lie in their owner's page, so that a decision takes all of
//! them or none. Tenants own theirs; those of anonymous requests are the address's. Attempts lie in the pages of
//! addresses and subjects, of which each is changed for itself.

use tollgate_config::Millis;

use super::Local;
use super::memory::Memory;
use super::page::held::NoRoom;
use super::partly::Partly;
use super::record::{Kind, Name};
use super::section::Section;
use super::wishes::Wishes;
use crate::hold::Keep;
use crate::store::{Ask, Kept, Subject, Toll};

impl<M: Memory> Local<M> {
    /// Keeps what a request holds for longer, or lets it go: not all of it, if some of what was to be held for
    /// longer was not held any more. What is not held stays as it is. Tells what became of its attempts, if that is
    /// said. `None` where a page is too contended, or has no room; it is to be tried again, by the same worker.
    #[must_use]
    pub fn keep(&self, ask: &Ask, keep: Keep, now: Millis) -> Option<Kept> {
        let Some(wanted) = &ask.wanted else {
            return Some(Kept::silently(true));
        };
        let mut partly = match keep.outcome {
            Some(_) => self.untold.borrow_mut().take(wanted.id),
            None => Partly::new(wanted.id),
        };
        let mut all = true;
        for leg in ask.legs() {
            let Some(keep) = ask.told_on(leg, keep).filter(|_| !partly.has(leg)) else {
                continue;
            };
            match self.keep_leg(&self.section(ask, leg), keep, now) {
                Some(kept) => partly.add(leg, kept),
                None => all = false,
            }
        }
        if all {
            return Some(partly.done());
        }
        if keep.outcome.is_some() {
            self.untold.borrow_mut().put(partly);
        }
        None
    }

    fn keep_leg(&self, section: &Section<'_>, keep: Keep, now: Millis) -> Option<Kept> {
        self.change(&section.owner, &mut Toll::default(), |page| {
            match section.keep(page, keep, now) {
                Ok((kept, changed)) => (Some(kept), changed),
                Err(NoRoom) => (None, false),
            }
        })
        .flatten()
    }

    /// Lets go what a request may hold, or, if it holds nothing, sees to it that it will not, should it
    /// be decided only now: it is marked for [`MARKED_FOR`](crate::hold::MARKED_FOR). In a page
    /// without room for a mark there is none. `None` where a page is too contended; it may be tried
    /// again.
    #[must_use]
    pub fn revoke(&self, ask: &Ask, now: Millis) -> Option<()> {
        let mut all = true;
        for leg in ask.legs().filter(|leg| ask.holds_on(*leg)) {
            let section = self.section(ask, leg);
            let done = self.change(&section.owner, &mut Toll::default(), |page| {
                let done = section.revoke(page, now);
                ((), done.is_ok())
            });
            all &= done.is_some();
        }
        all.then_some(())
    }

    /// What a request wants besides points, by its names.
    pub(super) fn wishes(&self, ask: &Ask) -> Option<Wishes> {
        let wanted = ask.wanted.as_ref()?;
        let address;
        let (scope, owner): (&[u8], &[u8]) = match &ask.subject {
            Subject::Key { tenant, .. } => (b"t", tenant.as_str().as_bytes()),
            Subject::Anonymous { address: from, .. }
            | Subject::Credential { address: from, .. } => {
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
