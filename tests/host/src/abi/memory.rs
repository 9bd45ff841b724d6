//! The guest's memory: reading arguments in place and handing values over.

use crate::Headers;
use crate::abi::{Fault, Guest, Status};
use crate::state::State;
use crate::wire;

/// Memory and state side by side, so that arguments need no copy.
pub(super) fn split<'a>(guest: &'a mut Guest<'_>) -> (&'a mut [u8], &'a mut State) {
    let memory = guest
        .data()
        .memory
        .expect("set before any function of the guest runs");
    memory.data_and_store_mut(guest)
}

/// `len` bytes at `at`.
pub(super) fn view(memory: &[u8], at: u32, len: u32) -> Result<&[u8], Fault> {
    let at = at as usize;
    memory
        .get(at..at.saturating_add(len as usize))
        .ok_or(Status::InvalidMemoryAccess.into())
}

/// Reads an encoded header map.
pub(super) fn headers(memory: &[u8], at: u32, len: u32) -> Result<Headers, Fault> {
    wire::decode(view(memory, at, len)?).ok_or(Status::BadArgument.into())
}

/// Writes `bytes` at `at`.
pub(super) fn put(memory: &mut [u8], at: u32, bytes: &[u8]) -> Result<(), Fault> {
    let at = at as usize;
    memory
        .get_mut(at..at.saturating_add(bytes.len()))
        .ok_or(Status::InvalidMemoryAccess)?
        .copy_from_slice(bytes);
    Ok(())
}

/// Writes a 32-bit number at `at`.
pub(super) fn put_word(memory: &mut [u8], at: u32, word: u32) -> Result<(), Fault> {
    put(memory, at, &word.to_le_bytes())
}

/// Hands `State::scratch` over in a block the guest allocates; writes where it is and how long.
/// Nothing is a null pointer and the length 0.
pub(super) fn give(guest: &mut Guest<'_>, at: u32, size: u32) -> Result<(), Fault> {
    let len = u32::try_from(guest.data().scratch.len()).map_err(|_| Status::InternalFailure)?;
    let mut block = 0;
    if len > 0 {
        let allocate = guest.data().allocate.ok_or(Status::InvalidMemoryAccess)?;
        block = allocate.call(&mut *guest, len).map_err(Fault::Trap)?;
        if block == 0 {
            return Err(Status::InvalidMemoryAccess.into());
        }
    }
    let (memory, state) = split(guest);
    put(memory, block, &state.scratch)?;
    put_word(memory, at, block)?;
    put_word(memory, size, len)
}
