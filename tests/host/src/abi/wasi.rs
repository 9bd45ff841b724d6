//! WASI preview 1, as far as `std` and `getrandom` use it in a filter: environment, virtual time,
//! seeded randomness, and standard output and error as log lines. There are no files.

use wasmi::Linker;

use crate::LogLevel;
use crate::abi::memory::{put, put_word, split, view};
use crate::abi::{Fault, Guest, Linked, answer};
use crate::state::State;

const MODULE: &str = "wasi_snapshot_preview1";

/// The errno values used here.
mod errno {
    pub(super) const BADF: i32 = 8;
    pub(super) const NOTSUP: i32 = 58;
}

pub(super) fn link(linker: &mut Linker<State>) -> Linked {
    linker.func_wrap(
        MODULE,
        "environ_sizes_get",
        |mut guest: Guest<'_>, count: u32, size: u32| {
            answer(environ_sizes(&mut guest, count, size))
        },
    )?;
    linker.func_wrap(
        MODULE,
        "environ_get",
        |mut guest: Guest<'_>, pointers: u32, texts: u32| {
            answer(environ(&mut guest, pointers, texts))
        },
    )?;
    linker.func_wrap(
        MODULE,
        "args_sizes_get",
        |mut guest: Guest<'_>, count: u32, size: u32| {
            let (memory, _) = split(&mut guest);
            answer(put_word(memory, count, 0).and_then(|()| put_word(memory, size, 0)))
        },
    )?;
    linker.func_wrap(MODULE, "args_get", |_: Guest<'_>, _: u32, _: u32| 0)?;
    linker.func_wrap(
        MODULE,
        "clock_time_get",
        |mut guest: Guest<'_>, clock: u32, _precision: u64, out: u32| {
            answer(clock_time(&mut guest, clock, out))
        },
    )?;
    linker.func_wrap(
        MODULE,
        "random_get",
        |mut guest: Guest<'_>, at: u32, len: u32| answer(random(&mut guest, at, len)),
    )?;
    linker.func_wrap(
        MODULE,
        "fd_write",
        |mut guest: Guest<'_>, fd: u32, vectors: u32, count: u32, out: u32| {
            answer(write(&mut guest, fd, (vectors, count), out))
        },
    )?;
    linker.func_wrap(
        MODULE,
        "proc_exit",
        |_: Guest<'_>, code: i32| -> Result<(), wasmi::Error> { Err(wasmi::Error::i32_exit(code)) },
    )?;
    Ok(())
}

fn environ_sizes(guest: &mut Guest<'_>, count: u32, size: u32) -> Result<(), Fault> {
    let (memory, state) = split(guest);
    let env = &state.shared.options.env;
    let bytes: usize = env.iter().map(|(n, v)| n.len() + v.len() + 2).sum();
    put_word(memory, count, env.len() as u32)?;
    put_word(memory, size, bytes as u32)
}

fn environ(guest: &mut Guest<'_>, mut pointers: u32, mut texts: u32) -> Result<(), Fault> {
    let (memory, state) = split(guest);
    for (name, value) in &state.shared.options.env {
        let text = [name.as_slice(), b"=", value, b"\0"].concat();
        put_word(memory, pointers, texts)?;
        put(memory, texts, &text)?;
        pointers += 4;
        texts += text.len() as u32;
    }
    Ok(())
}

/// The realtime and the monotonic clock both show the process's virtual time.
fn clock_time(guest: &mut Guest<'_>, clock: u32, out: u32) -> Result<(), Fault> {
    if clock > 1 {
        return Err(Fault::Answer(errno::NOTSUP));
    }
    let (memory, state) = split(guest);
    put(memory, out, &state.shared.now().to_le_bytes())
}

fn random(guest: &mut Guest<'_>, at: u32, len: u32) -> Result<(), Fault> {
    let (memory, state) = split(guest);
    view(memory, at, len)?;
    let wanted = &mut memory[at as usize..][..len as usize];
    for eight in wanted.chunks_mut(8) {
        let bits = state.next_random().to_le_bytes();
        eight.copy_from_slice(&bits[..eight.len()]);
    }
    Ok(())
}

fn write(
    guest: &mut Guest<'_>,
    fd: u32,
    (vectors, count): (u32, u32),
    out: u32,
) -> Result<(), Fault> {
    let level = match fd {
        1 => LogLevel::Info,
        2 => LogLevel::Error,
        _ => return Err(Fault::Answer(errno::BADF)),
    };
    let (memory, state) = split(guest);
    let mut text = Vec::new();
    for i in 0..count {
        let vector = view(memory, vectors.saturating_add(i.saturating_mul(8)), 8)?;
        let word = |at: usize| u32::from_le_bytes(vector[at..at + 4].try_into().unwrap());
        text.extend(view(memory, word(0), word(4))?);
    }
    put_word(memory, out, text.len() as u32)?;
    let line = text.strip_suffix(b"\n").unwrap_or(&text);
    if !line.is_empty() {
        state.log(level, line);
    }
    Ok(())
}
