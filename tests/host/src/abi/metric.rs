//! Metrics.

use wasmi::Linker;

use crate::abi::memory::{put, put_word, split, view};
use crate::abi::{Fault, Guest, Linked, Status, answer};
use crate::metrics::MetricError;
use crate::state::State;

impl From<MetricError> for Fault {
    fn from(error: MetricError) -> Self {
        match error {
            MetricError::Unknown => Status::NotFound.into(),
            MetricError::WrongKind => Status::BadArgument.into(),
        }
    }
}

pub(super) fn link(linker: &mut Linker<State>) -> Linked {
    linker.func_wrap(
        "env",
        "proxy_define_metric",
        |mut guest: Guest<'_>, kind: u32, name: u32, len: u32, out: u32| {
            answer(define(&mut guest, kind, (name, len), out))
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_increment_metric",
        |guest: Guest<'_>, id: u32, by: i64| {
            let mut metrics = guest.data().shared.metrics.lock().unwrap();
            answer(metrics.increment(id, by).map_err(Fault::from))
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_record_metric",
        |guest: Guest<'_>, id: u32, value: u64| {
            let mut metrics = guest.data().shared.metrics.lock().unwrap();
            answer(metrics.record(id, value).map_err(Fault::from))
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_get_metric",
        |mut guest: Guest<'_>, id: u32, out: u32| answer(get(&mut guest, id, out)),
    )?;
    Ok(())
}

fn define(
    guest: &mut Guest<'_>,
    kind: u32,
    (name, len): (u32, u32),
    out: u32,
) -> Result<(), Fault> {
    let (memory, state) = split(guest);
    let name = view(memory, name, len)?;
    let id = state.shared.metrics.lock().unwrap().define(kind, name)?;
    put_word(memory, out, id)
}

fn get(guest: &mut Guest<'_>, id: u32, out: u32) -> Result<(), Fault> {
    let (memory, state) = split(guest);
    let value = state.shared.metrics.lock().unwrap().get(id)?;
    put(memory, out, &value.to_le_bytes())
}
