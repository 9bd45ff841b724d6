//! The key-value store all VMs of one process share.
//!
//! As in Envoy: nothing is ever deleted (a removal leaves an empty entry), keys cannot be listed by
//! the guest, a conditional write to an absent key succeeds, and compare-and-swap numbers come from
//! one counter and are never 0.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

/// A conditional write found another number than it expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CasMismatch;

#[derive(Debug)]
struct Entry {
    value: Vec<u8>,
    cas: u32,
}

#[derive(Debug, Default)]
struct Entries {
    entries: HashMap<Vec<u8>, Entry>,
    last_cas: u32,
    races_to_lose: u32,
    writes: u64,
    mismatches: u64,
}

/// Shared data of one process. Each method is one atomic operation, so that a test can look at it while
/// VMs run on threads.
#[derive(Debug, Default)]
pub struct SharedData(Mutex<Entries>);

impl SharedData {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().expect("no operation panics")
    }

    /// The value under `key` and its compare-and-swap number, never 0.
    pub fn get(&self, key: &[u8]) -> Option<(Vec<u8>, u32)> {
        let mut value = Vec::new();
        let cas = self.read(key, &mut value)?;
        Some((value, cas))
    }

    /// Appends the value under `key` to `out`; returns its number.
    pub(crate) fn read(&self, key: &[u8], out: &mut Vec<u8>) -> Option<u32> {
        let data = self.lock();
        let entry = data.entries.get(key)?;
        out.extend_from_slice(&entry.value);
        Some(entry.cas)
    }

    /// Writes `value`. With `cas` 0 always; else only if the entry still has that number, or is absent.
    ///
    /// # Errors
    ///
    /// If the entry has another number.
    pub fn set(&self, key: &[u8], value: &[u8], cas: u32) -> Result<(), CasMismatch> {
        self.lock().set(key, value, cas)
    }

    /// Empties the entry; it stays.
    pub fn remove(&self, key: &[u8]) {
        let unconditional = self.set(key, b"", 0);
        debug_assert_eq!(unconditional, Ok(()));
    }

    /// Makes the guest lose its next `count` conditional writes of existing keys, as if another
    /// worker had written the same value just before.
    pub fn lose_next(&self, count: u32) {
        self.lock().races_to_lose = count;
    }

    /// Every key, sorted.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        let mut keys: Vec<Vec<u8>> = self.lock().entries.keys().cloned().collect();
        keys.sort();
        keys
    }

    /// How many entries there are, empty ones included.
    pub fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Whether nothing was ever written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all keys and values: what a guest that leaks makes grow.
    pub fn bytes(&self) -> usize {
        let data = self.lock();
        let entries = data.entries.iter();
        entries
            .map(|(key, entry)| key.len() + entry.value.len())
            .sum()
    }

    /// Successful writes so far.
    pub fn writes(&self) -> u64 {
        self.lock().writes
    }

    /// Refused conditional writes so far.
    pub fn mismatches(&self) -> u64 {
        self.lock().mismatches
    }
}

impl Entries {
    fn set(&mut self, key: &[u8], value: &[u8], cas: u32) -> Result<(), CasMismatch> {
        self.last_cas = self.last_cas.wrapping_add(1).max(1);
        let next = self.last_cas;
        let Some(entry) = self.entries.get_mut(key) else {
            let value = value.to_vec();
            self.entries
                .insert(key.to_vec(), Entry { value, cas: next });
            self.writes += 1;
            return Ok(());
        };
        if cas != 0 && self.races_to_lose > 0 {
            self.races_to_lose -= 1;
            entry.cas = next;
        }
        if cas != 0 && cas != entry.cas {
            self.mismatches += 1;
            return Err(CasMismatch);
        }
        entry.value.clear();
        entry.value.extend_from_slice(value);
        entry.cas = next;
        self.writes += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_holder_of_the_current_number_writes() {
        let data = SharedData::default();
        data.set(b"k", b"1", 0).unwrap();
        let (_, first) = data.get(b"k").unwrap();
        data.set(b"k", b"2", first).unwrap();
        assert_eq!(data.set(b"k", b"3", first), Err(CasMismatch));
        assert_eq!(data.get(b"k").unwrap().0, b"2");
        data.set(b"k", b"4", 0).unwrap();
        assert_eq!(data.get(b"k").unwrap().0, b"4");
    }

    #[test]
    fn a_removed_entry_stays_and_numbers_skip_zero() {
        let data = SharedData::default();
        data.lock().last_cas = u32::MAX - 1;
        data.set(b"k", b"1", 0).unwrap();
        data.remove(b"k");
        assert_eq!(data.get(b"k"), Some((Vec::new(), 1)));
    }

    #[test]
    fn a_race_can_be_lost_on_purpose() {
        let data = SharedData::default();
        data.set(b"k", b"1", 0).unwrap();
        data.lose_next(1);
        let (_, cas) = data.get(b"k").unwrap();
        assert_eq!(data.set(b"k", b"2", cas), Err(CasMismatch));
        let (_, cas) = data.get(b"k").unwrap();
        assert_eq!(data.set(b"k", b"2", cas), Ok(()));
    }
}
