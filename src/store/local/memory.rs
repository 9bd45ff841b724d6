//! The proxy's shared memory, as the local store sees it: named slots with a version.

/// A slot's bytes and its version.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Slot {
    /// What it holds.
    pub bytes: Vec<u8>,
    /// Changes with every write; 0 for a slot that is not there.
    pub version: u32,
}

/// Somebody else has changed the slot since it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changed;

/// Memory that all workers of a proxy share.
pub trait Memory {
    /// Reads a slot; `None` if there is none of that name.
    fn read(&self, name: &str) -> Option<Slot>;

    /// Writes a slot if it still has `version`; version 0 writes whatever is there.
    ///
    /// # Errors
    /// The slot has another version by now.
    fn write(&self, name: &str, bytes: &[u8], version: u32) -> Result<(), Changed>;
}
