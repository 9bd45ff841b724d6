//! Buffers: bodies, the answer's body, the configurations.

use wasmi::Linker;

use crate::abi::memory::{give, put_word, split, view};
use crate::abi::{Fault, Guest, Linked, Status, answer};
use crate::state::State;
use crate::stream::Side;

const REQUEST_BODY: u32 = 0;
const RESPONSE_BODY: u32 = 1;
const CALL_RESPONSE_BODY: u32 = 4;
const VM_CONFIGURATION: u32 = 6;
const PLUGIN_CONFIGURATION: u32 = 7;
const LAST: u32 = 8;

pub(super) fn link(linker: &mut Linker<State>) -> Linked {
    linker.func_wrap(
        "env",
        "proxy_get_buffer_bytes",
        |mut guest: Guest<'_>, kind: u32, start: u32, max: u32, out: u32, size: u32| {
            answer(get(&mut guest, kind, (start, max), out, size))
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_get_buffer_status",
        |mut guest: Guest<'_>, kind: u32, len: u32, flags: u32| {
            let (memory, state) = split(&mut guest);
            let written = buffer(state, kind).and_then(|buffer| {
                put_word(memory, len, buffer.len() as u32)?;
                put_word(memory, flags, 0)
            });
            answer(written)
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_set_buffer_bytes",
        |mut guest: Guest<'_>, kind: u32, start: u32, max: u32, at: u32, len: u32| {
            answer(set(&mut guest, kind, (start, max), (at, len)))
        },
    )?;
    Ok(())
}

/// A body out of reach is an empty buffer; an answer or a configuration out of reach is none.
fn buffer(state: &State, kind: u32) -> Result<&[u8], Fault> {
    let body = |side| {
        let stream = state.live(state.current());
        let half = stream.map(|stream| stream.half(side));
        half.filter(|half| half.body_open)
            .map_or(&b""[..], |half| &half.held)
    };
    match kind {
        REQUEST_BODY => Ok(body(Side::Request)),
        RESPONSE_BODY => Ok(body(Side::Response)),
        CALL_RESPONSE_BODY => {
            let answer = state.answer().ok_or(Status::NotFound)?;
            Ok(&answer.body)
        }
        VM_CONFIGURATION => Ok(&state.shared.options.vm_configuration),
        PLUGIN_CONFIGURATION => Ok(state.configuration.as_ref().ok_or(Status::NotFound)?),
        _ if kind <= LAST => Err(Status::NotFound.into()),
        _ => Err(Status::BadArgument.into()),
    }
}

fn get(
    guest: &mut Guest<'_>,
    kind: u32,
    (start, max): (u32, u32),
    out: u32,
    size: u32,
) -> Result<(), Fault> {
    let state = guest.data_mut();
    let mut scratch = std::mem::take(&mut state.scratch);
    scratch.clear();
    let copied = buffer(state, kind).and_then(|buffer| {
        let end = start.checked_add(max).ok_or(Status::BadArgument)? as usize;
        let end = end.min(buffer.len());
        scratch.extend(&buffer[(start as usize).min(end)..end]);
        Ok(())
    });
    state.scratch = scratch;
    copied?;
    if guest.data().scratch.is_empty() {
        // As Envoy: success, and the guest's variables are left as they were.
        return Ok(());
    }
    give(guest, out, size)
}

/// As Envoy: prepend, replace from the start, or append; nothing in the middle.
fn set(
    guest: &mut Guest<'_>,
    kind: u32,
    (start, max): (u32, u32),
    (at, len): (u32, u32),
) -> Result<(), Fault> {
    let side = match kind {
        REQUEST_BODY => Side::Request,
        RESPONSE_BODY => Side::Response,
        _ => return Err(Status::BadArgument.into()),
    };
    let (memory, state) = split(guest);
    let new = view(memory, at, len)?;
    let id = state.current();
    let half = state.live_mut(id).map(|stream| stream.half_mut(side));
    let half = half
        .filter(|half| half.body_open)
        .ok_or(Status::BadArgument)?;
    if start == 0 {
        let drained = (max as usize).min(half.held.len());
        half.held.splice(..drained, new.iter().copied());
    } else if start as usize >= half.held.len() {
        half.held.extend(new);
    } else {
        return Err(Status::BadArgument.into());
    }
    Ok(())
}
