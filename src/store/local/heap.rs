//! The memory of this process, in place of a proxy's: for tools and tests.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::memory::{Changed, Memory, Slot};

/// Slots on the heap; clones share them, as workers share a proxy's memory.
#[derive(Debug, Clone, Default)]
pub struct Heap(Rc<RefCell<HashMap<String, Slot>>>);

impl Heap {
    /// Bytes in all slots.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.borrow().values().map(|slot| slot.bytes.len()).sum()
    }

    /// Names of all slots.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.0.borrow().keys().cloned().collect()
    }
}

impl Memory for Heap {
    fn read(&self, name: &str) -> Option<Slot> {
        self.0.borrow().get(name).cloned()
    }

    fn write(&self, name: &str, bytes: &[u8], version: u32) -> Result<(), Changed> {
        let mut slots = self.0.borrow_mut();
        let slot = slots.entry(name.to_owned()).or_default();
        if version != 0 && version != slot.version {
            return Err(Changed);
        }
        slot.bytes = bytes.to_vec();
        slot.version = slot.version.wrapping_add(1).max(1);
        Ok(())
    }
}
