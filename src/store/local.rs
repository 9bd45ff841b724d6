//! The decision over the proxy's shared memory: exact over all workers, and never larger than told.
//!
//! A fixed number of pages, one per hash of the owner (tenant, address, or subject); the hash is keyed with a
//! secret of this process, so that nobody can choose whose page he fills. A decision changes an
//! owner's page in one compare-and-swap. A request that meets `ip_limit` and a tenant, or presents
//! credentials of a subject, meets several owners, one after the other: where a later one refuses, the
//! earlier ones get back what they gave.

use std::cell::RefCell;
use std::hash::Hasher as _;

use siphasher::sip128::{Hasher128 as _, SipHasher13};
use tollgate_config::{Bytes, Millis};

use self::memory::{Memory, Slot};
use self::met::Owner;
use self::page::Page;
use self::partly::Untold;
use super::{Ask, Store, Subject, Toll};
use crate::client_ip::Address;
use crate::limit::decision::Strictness;
use crate::verdict::{Boxed, Scope, Verdict};

mod attempts;
mod gate;
pub mod heap;
mod hold;
pub mod known;
mod legs;
pub mod memory;
mod met;
mod owner;
pub mod page;
mod partly;
mod passed;
pub mod record;
mod section;
mod wishes;

/// Bytes of a page where the host sets no limit of its own.
pub const PAGE_SIZE: usize = 4096;

/// Tries to change a page before the answer is that it is too contended.
const ATTEMPTS: u32 = 64;

/// The local store.
#[derive(Debug)]
pub struct Local<M> {
    memory: M,
    page_size: usize,
    names: Vec<String>,
    secret: [u64; 2],
    /// Outcomes that only some pages were told of.
    untold: RefCell<Untold>,
}

impl<M: Memory> Local<M> {
    /// Opens the store and creates what is not there: to be called before requests come, by one
    /// virtual machine before the others start. `random` becomes the process's secret if there is none.
    pub fn open(memory: M, size: Bytes, page_size: usize, random: [u64; 2]) -> Self {
        let pages = (size.0 / page_size.max(1) as u64).max(1);
        let prefix = format!("tollgate/{page_size}x{pages}");
        let names: Vec<String> = (0..pages).map(|i| format!("{prefix}/{i}")).collect();
        let ready = format!("{prefix}/ready");
        let there = |slot: Slot| {
            slot.bytes
                .first_chunk::<16>()
                .map(|b| u128::from_le_bytes(*b))
        };
        let secret = memory.read(&ready).and_then(there).unwrap_or_else(|| {
            for name in &names {
                if memory.read(name).is_none() {
                    let empty = Page::read([], page_size).into_bytes();
                    // Somebody else creating it at the same time is as good.
                    let _ = memory.write(name, &empty, 0);
                }
            }
            let [high, low] = random;
            let secret = (u128::from(high) << 64) | u128::from(low);
            let _ = memory.write(&ready, &secret.to_le_bytes(), 0);
            memory.read(&ready).and_then(there).unwrap_or(secret)
        });
        Self {
            memory,
            page_size,
            names,
            secret: [(secret >> 64) as u64, secret as u64],
            untold: RefCell::default(),
        }
    }

    /// Changes one page: `change` sees it as it is now, once for every try, and returns its answer
    /// and whether the page is to be written.
    fn change<T>(
        &self,
        owner: &Owner,
        toll: &mut Toll,
        mut change: impl FnMut(&mut Page) -> (T, bool),
    ) -> Option<T> {
        let name = self.page_of(owner)?;
        for _ in 0..ATTEMPTS {
            let slot = self.memory.read(name).unwrap_or_default();
            let mut page = Page::read(slot.bytes, self.page_size);
            let (answer, dirty) = change(&mut page);
            if !dirty {
                return Some(answer);
            }
            let evictions = page.evictions();
            if self
                .memory
                .write(name, &page.into_bytes(), slot.version)
                .is_ok()
            {
                toll.evictions = toll.evictions.saturating_add(evictions);
                return Some(answer);
            }
            toll.retries = toll.retries.saturating_add(1);
        }
        None
    }

    /// The page of an owner as it is now, to look at.
    fn look(&self, owner: &Owner) -> Page {
        let slot = self.page_of(owner).and_then(|name| self.memory.read(name));
        Page::read(slot.unwrap_or_default().bytes, self.page_size)
    }

    /// The page of an owner. Addresses, which anybody can have many of, and subjects, which anybody can make up,
    /// have a quarter of the pages to themselves, so that no flood of them makes room at the cost of tenants.
    fn page_of(&self, owner: &Owner) -> Option<&String> {
        let addresses = self.names.len() / 4;
        let (tenants, addresses) = self.names.split_at_checked(self.names.len() - addresses)?;
        let pages = match owner.scope {
            Scope::Ip | Scope::Subject if !addresses.is_empty() => addresses,
            _ => tenants,
        };
        let index = owner.page.checked_rem(pages.len() as u128)?;
        pages.get(usize::try_from(index).ok()?)
    }

    fn hash(&self, shadow: bool, parts: &[&[u8]]) -> u128 {
        let [k0, k1] = self.secret;
        let mut hasher = SipHasher13::new_with_keys(k0, k1);
        hasher.write(if shadow { b"sh:" } else { b"" });
        for part in parts {
            hasher.write(&(part.len() as u64).to_le_bytes());
            hasher.write(part);
        }
        hasher.finish128().as_u128()
    }

    fn owner(&self, ask: &Ask) -> Owner {
        let parts: [&[u8]; 3] = match &ask.subject {
            Subject::Key { tenant, key, .. } => {
                [b"t", tenant.as_str().as_bytes(), key.as_str().as_bytes()]
            }
            Subject::Anonymous { address, .. } | Subject::Credential { address, .. } => {
                return self.address(address, ask);
            }
        };
        let [scope, tenant, _] = parts;
        let first = self.hash(ask.shadow, &parts);
        Owner {
            scope: Scope::Key,
            page: self.hash(ask.shadow, &[scope, tenant]),
            first,
            penalty: self.held_apart(ask, &parts).unwrap_or(first),
        }
    }

    fn address(&self, address: &Address, ask: &Ask) -> Owner {
        let key = address.key();
        let parts: [&[u8]; 2] = [b"ip", &key];
        let first = self.hash(ask.shadow, &parts);
        Owner {
            scope: Scope::Ip,
            page: first,
            first,
            penalty: self.held_apart(ask, &parts).unwrap_or(first),
        }
    }

    /// The hash of what is held against an owner, where it is kept apart from his buckets: a watched
    /// box is in shadow though his requests are not.
    fn held_apart(&self, ask: &Ask, parts: &[&[u8]]) -> Option<u128> {
        let apart = ask.penalty.strictness == Strictness::Watched && !ask.shadow;
        apart.then(|| self.hash(true, parts))
    }
}

impl<M: Memory> Store for Local<M> {
    fn decide(&mut self, ask: &Ask, now: Millis) -> (Verdict, Toll) {
        let mut toll = Toll::default();
        let verdict = self.decide_legs(ask, now, &mut toll);
        (verdict, toll)
    }

    fn lockout(&mut self, ask: &Ask, now: Millis) -> Option<Boxed> {
        self.known(ask, now, true)
    }
}

#[cfg(test)]
mod tests;
