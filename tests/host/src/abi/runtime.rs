//! Logs, time, ticks and the effective context.

use wasmi::Linker;

use crate::LogLevel;
use crate::abi::memory::{put, put_word, split, view};
use crate::abi::{Fault, Guest, Linked, Status, answer};
use crate::state::State;

pub(super) fn link(linker: &mut Linker<State>) -> Linked {
    linker.func_wrap(
        "env",
        "proxy_log",
        |mut guest: Guest<'_>, level: u32, at: u32, len: u32| {
            answer(log(&mut guest, level, at, len))
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_get_log_level",
        |mut guest: Guest<'_>, out: u32| {
            let (memory, state) = split(&mut guest);
            answer(put_word(memory, out, state.shared.options.log_level as u32))
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_get_current_time_nanoseconds",
        |mut guest: Guest<'_>, out: u32| {
            let (memory, state) = split(&mut guest);
            answer(put(memory, out, &state.shared.now().to_le_bytes()))
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_set_tick_period_milliseconds",
        |mut guest: Guest<'_>, millis: u32| answer(set_tick_period(guest.data_mut(), millis)),
    )?;
    linker.func_wrap(
        "env",
        "proxy_set_effective_context",
        |mut guest: Guest<'_>, id: u32| answer(set_effective_context(guest.data_mut(), id)),
    )?;
    Ok(())
}

fn log(guest: &mut Guest<'_>, level: u32, at: u32, len: u32) -> Result<(), Fault> {
    let level = LogLevel::from_number(level).ok_or(Status::BadArgument)?;
    let (memory, state) = split(guest);
    state.log(level, view(memory, at, len)?);
    Ok(())
}

fn set_tick_period(state: &mut State, millis: u32) -> Result<(), Fault> {
    let root = state.current_root();
    let root = state.roots.get_mut(&root).ok_or(Status::BadArgument)?;
    root.tick_millis = millis;
    Ok(())
}

fn set_effective_context(state: &mut State, id: u32) -> Result<(), Fault> {
    if !state.shared.options.personality.effective_contexts() {
        return Ok(());
    }
    if !state.exists(id) {
        return Err(Status::BadArgument.into());
    }
    state.effective = id;
    Ok(())
}
