//! Shared data and shared queues.

use wasmi::Linker;

use crate::abi::memory::{give, put_word, split, view};
use crate::abi::{Fault, Guest, Linked, Status, answer};
use crate::queues::{NoSuchQueue, Registrant};
use crate::state::State;

pub(super) fn link(linker: &mut Linker<State>) -> Linked {
    linker.func_wrap(
        "env",
        "proxy_get_shared_data",
        |mut guest: Guest<'_>, key: u32, len: u32, out: u32, size: u32, cas: u32| {
            answer(get(&mut guest, (key, len), (out, size), cas))
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_set_shared_data",
        |mut guest: Guest<'_>, key: u32, len: u32, value: u32, value_len: u32, cas: u32| {
            answer(set(&mut guest, (key, len), (value, value_len), cas))
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_register_shared_queue",
        |mut guest: Guest<'_>, name: u32, len: u32, out: u32| {
            answer(register(&mut guest, (name, len), out))
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_resolve_shared_queue",
        |mut guest: Guest<'_>, _vm: u32, _vm_len: u32, name: u32, len: u32, out: u32| {
            answer(resolve(&mut guest, (name, len), out))
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_enqueue_shared_queue",
        |mut guest: Guest<'_>, token: u32, at: u32, len: u32| {
            answer(enqueue(&mut guest, token, (at, len)))
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_dequeue_shared_queue",
        |mut guest: Guest<'_>, token: u32, out: u32, size: u32| {
            answer(dequeue(&mut guest, token, out, size))
        },
    )?;
    Ok(())
}

impl From<NoSuchQueue> for Fault {
    fn from(_: NoSuchQueue) -> Self {
        Status::NotFound.into()
    }
}

fn get(
    guest: &mut Guest<'_>,
    (key, len): (u32, u32),
    (out, size): (u32, u32),
    cas_out: u32,
) -> Result<(), Fault> {
    let (memory, state) = split(guest);
    let key = view(memory, key, len)?;
    state.scratch.clear();
    let cas = state.shared.data.read(key, &mut state.scratch);
    put_word(memory, cas_out, cas.ok_or(Status::NotFound)?)?;
    give(guest, out, size)
}

fn set(
    guest: &mut Guest<'_>,
    (key, len): (u32, u32),
    (value, value_len): (u32, u32),
    cas: u32,
) -> Result<(), Fault> {
    let (memory, state) = split(guest);
    let (key, value) = (view(memory, key, len)?, view(memory, value, value_len)?);
    let written = state.shared.data.set(key, value, cas);
    written.map_err(|_| Status::CasMismatch.into())
}

fn register(guest: &mut Guest<'_>, (name, len): (u32, u32), out: u32) -> Result<(), Fault> {
    let (memory, state) = split(guest);
    let registrant = Registrant {
        vm: state.vm,
        root: state.current_root(),
    };
    let name = view(memory, name, len)?;
    let token = state
        .shared
        .queues
        .lock()
        .unwrap()
        .register(name, registrant);
    put_word(memory, out, token)
}

fn resolve(guest: &mut Guest<'_>, (name, len): (u32, u32), out: u32) -> Result<(), Fault> {
    let (memory, state) = split(guest);
    let name = view(memory, name, len)?;
    let token = state.shared.queues.lock().unwrap().resolve(name);
    put_word(memory, out, token.ok_or(Status::NotFound)?)
}

fn enqueue(guest: &mut Guest<'_>, token: u32, (at, len): (u32, u32)) -> Result<(), Fault> {
    let (memory, state) = split(guest);
    let item = view(memory, at, len)?;
    state.shared.queues.lock().unwrap().enqueue(token, item)?;
    Ok(())
}

fn dequeue(guest: &mut Guest<'_>, token: u32, out: u32, size: u32) -> Result<(), Fault> {
    let state = guest.data_mut();
    let item = state.shared.queues.lock().unwrap().dequeue(token)?;
    state.scratch = item.ok_or(Status::Empty)?;
    give(guest, out, size)
}
