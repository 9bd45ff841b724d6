//! Header maps. Which one can be reached when is the personality's.

use wasmi::Linker;

use crate::Headers;
use crate::abi::memory::{give, headers, put_word, split, view};
use crate::abi::{Fault, Guest, Linked, Status, answer, map};
use crate::state::State;
use crate::wire;

pub(super) fn link(linker: &mut Linker<State>) -> Linked {
    linker.func_wrap(
        "env",
        "proxy_get_header_map_pairs",
        |mut guest: Guest<'_>, number: u32, out: u32, size: u32| {
            answer(get_all(&mut guest, number, out, size))
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_get_header_map_value",
        |mut guest: Guest<'_>, number: u32, name: u32, len: u32, out: u32, size: u32| {
            answer(get(&mut guest, number, (name, len), out, size))
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_get_header_map_size",
        |mut guest: Guest<'_>, number: u32, out: u32| answer(size_of(&mut guest, number, out)),
    )?;
    linker.func_wrap(
        "env",
        "proxy_set_header_map_pairs",
        |mut guest: Guest<'_>, number: u32, at: u32, len: u32| {
            let (memory, state) = split(&mut guest);
            let changed = headers(memory, at, len).and_then(|new| {
                *writable(state, number)? = new.iter().map(lower_case).collect();
                Ok(())
            });
            answer(changed)
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_add_header_map_value",
        |mut guest: Guest<'_>, number: u32, name: u32, len: u32, value: u32, value_len: u32| {
            let field = ((name, len), (value, value_len));
            answer(write(&mut guest, number, field, |headers, name, value| {
                headers.push(name, value);
            }))
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_replace_header_map_value",
        |mut guest: Guest<'_>, number: u32, name: u32, len: u32, value: u32, value_len: u32| {
            let field = ((name, len), (value, value_len));
            answer(write(&mut guest, number, field, |headers, name, value| {
                headers.set(name, value);
            }))
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_remove_header_map_value",
        |mut guest: Guest<'_>, number: u32, name: u32, len: u32| {
            let field = ((name, len), (0, 0));
            answer(write(&mut guest, number, field, |headers, name, _| {
                headers.remove(name);
            }))
        },
    )?;
    Ok(())
}

fn known(number: u32) -> Result<(), Fault> {
    if number > map::LAST {
        return Err(Status::BadArgument.into());
    }
    Ok(())
}

fn readable(state: &State, number: u32) -> Option<&Headers> {
    state.shared.options.personality.readable(state, number)
}

fn writable(state: &mut State, number: u32) -> Result<&mut Headers, Fault> {
    known(number)?;
    let personality = state.shared.options.personality;
    personality
        .writable(state, number)
        .ok_or(Status::BadArgument.into())
}

/// A map out of reach reads as an empty one.
fn get_all(guest: &mut Guest<'_>, number: u32, out: u32, size: u32) -> Result<(), Fault> {
    known(number)?;
    let state = guest.data_mut();
    let mut scratch = std::mem::take(&mut state.scratch);
    scratch.clear();
    if let Some(headers) = readable(state, number) {
        wire::encode(headers, &mut scratch);
    }
    state.scratch = scratch;
    give(guest, out, size)
}

fn get(
    guest: &mut Guest<'_>,
    number: u32,
    name: (u32, u32),
    out: u32,
    size: u32,
) -> Result<(), Fault> {
    known(number)?;
    let (memory, state) = split(guest);
    let name = view(memory, name.0, name.1)?;
    let mut scratch = std::mem::take(&mut state.scratch);
    scratch.clear();
    let found = readable(state, number).map(|headers| {
        let value = headers.get(name);
        value.map(|value| scratch.extend(value))
    });
    state.scratch = scratch;
    found.ok_or(Status::BadArgument)?.ok_or(Status::NotFound)?;
    give(guest, out, size)
}

fn size_of(guest: &mut Guest<'_>, number: u32, out: u32) -> Result<(), Fault> {
    known(number)?;
    let (memory, state) = split(guest);
    let headers = readable(state, number).ok_or(Status::BadArgument)?;
    let bytes: usize = headers.iter().map(|(n, v)| n.len() + v.len()).sum();
    put_word(memory, out, bytes as u32)
}

type Field = ((u32, u32), (u32, u32));

fn write(
    guest: &mut Guest<'_>,
    number: u32,
    (name, value): Field,
    change: fn(&mut Headers, Vec<u8>, &[u8]),
) -> Result<(), Fault> {
    let (memory, state) = split(guest);
    let name = view(memory, name.0, name.1)?.to_ascii_lowercase();
    let value = view(memory, value.0, value.1)?;
    change(writable(state, number)?, name, value);
    Ok(())
}

fn lower_case<'a>((name, value): (&'a [u8], &'a [u8])) -> (Vec<u8>, &'a [u8]) {
    (name.to_ascii_lowercase(), value)
}
