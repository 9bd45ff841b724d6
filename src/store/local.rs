//! The decision over the proxy's shared memory: exact over all workers, and never larger than told.
//!
//! A fixed number of pages, one per hash of the owner (tenant or address); the hash is keyed with a
//! secret of this process, so that nobody can choose whose page he fills. A decision changes an
//! owner's page in one compare-and-swap. A request that meets `ip_limit` and a tenant meets two
//! owners: the address is debited first and given back if the tenant refuses.

use std::hash::Hasher as _;

use siphasher::sip128::{Hasher128 as _, SipHasher13};
use tollgate_config::{Bytes, Millis};

use self::memory::{Memory, Slot};
use self::met::Owner;
use self::page::Page;
use self::record::{Bucket as Kept, Name};
use super::{Ask, Store, Subject, Toll};
use crate::client_ip::Address;
use crate::limit::bucket::{Level, Meter};
use crate::limit::decision::Strictness;
use crate::verdict::{Boxed, Policy, Scope, Standing, Standings, Taken, Throttled, Verdict};

pub mod heap;
mod hold;
mod known;
pub mod memory;
mod met;
mod owner;
pub mod page;
pub mod record;
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

    /// The page of an owner. Addresses, which anybody can have many of, have a quarter of the pages to
    /// themselves, so that no flood of them makes room at the cost of tenants.
    fn page_of(&self, owner: &Owner) -> Option<&String> {
        let addresses = self.names.len() / 4;
        let (tenants, addresses) = self.names.split_at_checked(self.names.len() - addresses)?;
        let pages = match owner.scope {
            Scope::Ip if !addresses.is_empty() => addresses,
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
            Subject::Anonymous { address, .. } => return self.address(address, ask),
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

    /// Takes one point from an address's `ip_limit`: its level after that, or how long to wait.
    fn pass_ip(&self, owner: &Owner, meter: &Meter, now: Millis, toll: &mut Toll) -> Option<Gate> {
        let name = owner.ip();
        self.change(owner, toll, |page| {
            let seat = page.seat(name, &[], now);
            let kept = page.bucket(seat, meter, now);
            let level = kept.level.seen(meter, now);
            let wait = level.wait(meter, 1);
            if wait > Millis(0) {
                return (
                    Gate::Shut(Standing::new(Policy::Ip, *meter, &level, wait)),
                    false,
                );
            }
            let level = kept.level.charged(meter, now, 1);
            page.keep_bucket(seat, &Kept { level, ..kept });
            (Gate::Open(level), true)
        })
    }

    fn give_ip_back(&self, owner: &Owner, meter: &Meter, now: Millis, toll: &mut Toll) {
        let name = owner.ip();
        let done = self.change(owner, toll, |page| {
            let seat = page.seat(name, &[], now);
            if seat == Name::OVERFLOW {
                // What is shared with others is not given back.
                return (false, false);
            }
            let kept = page.bucket(seat, meter, now);
            let level = kept.level.kept(meter, now).give_back(1);
            page.keep_bucket(seat, &Kept { level, ..kept });
            (true, true)
        });
        if done != Some(true) {
            toll.lost_refunds = toll.lost_refunds.saturating_add(1);
        }
    }
}

impl<M: Memory> Store for Local<M> {
    fn decide(&mut self, ask: &Ask, now: Millis) -> (Verdict, Toll) {
        let mut toll = Toll::default();
        let Subject::Key {
            ip: Some((address, meter)),
            ..
        } = &ask.subject
        else {
            let verdict = self.decide_owner(ask, now, &mut toll);
            return (verdict.unwrap_or(Verdict::Contended), toll);
        };
        if self.is_revoked(ask, now) {
            return (Verdict::Contended, toll);
        }
        if let Some(boxed) = self.known(ask, now, true) {
            return (Verdict::Boxed(boxed), toll);
        }
        let owner = self.address(address, ask);
        let level = match self.pass_ip(&owner, meter, now, &mut toll) {
            None => return (Verdict::Contended, toll),
            Some(Gate::Shut(standing)) => {
                // Waiting for the address alone would lead to the next refusal.
                let wait = standing.wait.max(self.owner_wait(ask, now));
                let throttled = Throttled {
                    standings: Standings::new([Some(standing), None, None]),
                    wait,
                    strikes_left: None,
                    would_box: None,
                };
                return (Verdict::Throttled(throttled), toll);
            }
            Some(Gate::Open(level)) => level,
        };
        let verdict = self
            .decide_owner(ask, now, &mut toll)
            .unwrap_or(Verdict::Contended);
        let standing = |level: &Level| {
            let level = level.seen(meter, now);
            Standing::new(Policy::Ip, *meter, &level, Millis(0))
        };
        let verdict = match verdict {
            Verdict::Allowed(standings, fence) => {
                Verdict::Allowed(standings.with(standing(&level)), fence)
            }
            refused => {
                self.give_ip_back(&owner, meter, now, &mut toll);
                match refused {
                    Verdict::Throttled(throttled) => Verdict::Throttled(Throttled {
                        standings: throttled.standings.with(standing(&level.give_back(1))),
                        ..throttled
                    }),
                    Verdict::Taken(taken) => Verdict::Taken(Taken {
                        standings: taken.standings.with(standing(&level.give_back(1))),
                        ..taken
                    }),
                    other => other,
                }
            }
        };
        (verdict, toll)
    }

    fn lockout(&mut self, ask: &Ask, now: Millis) -> Option<Boxed> {
        self.known(ask, now, true)
    }
}

enum Gate {
    Open(Level),
    Shut(Standing),
}

#[cfg(test)]
mod tests;
