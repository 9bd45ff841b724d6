//! Properties of the host and filter state.

use wasmi::Linker;

use crate::abi::memory::{give, split, view};
use crate::abi::{Fault, Guest, Linked, Status, answer};
use crate::state::State;

pub(super) fn link(linker: &mut Linker<State>) -> Linked {
    linker.func_wrap(
        "env",
        "proxy_get_property",
        |mut guest: Guest<'_>, at: u32, len: u32, out: u32, size: u32| {
            answer(get(&mut guest, (at, len), out, size))
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_set_property",
        |mut guest: Guest<'_>, at: u32, len: u32, value: u32, value_len: u32| {
            answer(set(&mut guest, (at, len), (value, value_len)))
        },
    )?;
    Ok(())
}

fn get(guest: &mut Guest<'_>, path: (u32, u32), out: u32, size: u32) -> Result<(), Fault> {
    let (memory, state) = split(guest);
    let path = view(memory, path.0, path.1)?;
    let mut scratch = std::mem::take(&mut state.scratch);
    scratch.clear();
    let id = state.current();
    let stream = state
        .live(id)
        .map(|stream| (stream, state.logging == Some(id)));
    let options = &state.shared.options;
    let found = options
        .personality
        .property(options, stream, path, &mut scratch);
    state.scratch = scratch;
    if !found {
        return Err(Status::NotFound.into());
    }
    give(guest, out, size)
}

fn set(guest: &mut Guest<'_>, path: (u32, u32), value: (u32, u32)) -> Result<(), Fault> {
    let (memory, state) = split(guest);
    let path = view(memory, path.0, path.1)?;
    let value = view(memory, value.0, value.1)?.to_vec();
    let id = state.current();
    let stream = state.live_mut(id).ok_or(Status::NotFound)?;
    stream.filter_state.insert(path.to_vec(), value);
    Ok(())
}
