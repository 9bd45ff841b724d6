//! The host functions of Proxy-Wasm ABI 0.2.1 and the part of WASI that filters use.
//!
//! They read and change [`State`] and never call the guest, but for its allocator. Any other import
//! is linked as a stub that answers UNIMPLEMENTED and is remembered.

use wasmi::errors::LinkerError;
use wasmi::{Caller, Linker, Module, Val, ValType};

use crate::state::State;

mod body;
mod calls;
mod header_map;
mod lifecycle;
mod memory;
mod metric;
mod property;
mod runtime;
mod shared;
mod wasi;

type Guest<'a> = Caller<'a, State>;
type Linked = Result<(), LinkerError>;

/// What a host function answers to the guest when it cannot do as asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Status {
    NotFound = 1,
    BadArgument = 2,
    InvalidMemoryAccess = 6,
    Empty = 7,
    CasMismatch = 8,
    InternalFailure = 10,
    Unimplemented = 12,
}

/// The numbers of header maps.
pub(crate) mod map {
    pub(crate) const REQUEST_HEADERS: u32 = 0;
    pub(crate) const RESPONSE_HEADERS: u32 = 2;
    pub(crate) const CALL_RESPONSE_HEADERS: u32 = 6;
    pub(crate) const LAST: u32 = 7;
}

/// Why a host function stops early: with an answer to the guest, or by ending it.
enum Fault {
    Answer(i32),
    Trap(wasmi::Error),
}

impl From<Status> for Fault {
    fn from(status: Status) -> Self {
        Self::Answer(status as i32)
    }
}

/// What the guest gets of a host function: 0 is OK in Proxy-Wasm and in WASI.
fn answer(done: Result<(), Fault>) -> Result<i32, wasmi::Error> {
    match done {
        Ok(()) => Ok(0),
        Err(Fault::Answer(code)) => Ok(code),
        Err(Fault::Trap(error)) => Err(error),
    }
}

/// Links everything `module` imports; returns the imports that only got a stub.
pub(crate) fn link(linker: &mut Linker<State>, module: &Module) -> Vec<(String, String)> {
    serve(linker).expect("each host function is linked once");
    let mut stubs = Vec::new();
    for import in module.imports() {
        let Some(ty) = import.ty().func() else {
            continue;
        };
        let name = (import.module().to_owned(), import.name().to_owned());
        let results: Vec<ValType> = ty.results().to_vec();
        let called = name.clone();
        let stub = linker.func_new(&name.0, &name.1, ty.clone(), move |mut guest, _, out| {
            guest.data_mut().unserved_calls.insert(called.clone());
            for (value, ty) in out.iter_mut().zip(&results) {
                *value = match ty {
                    ValType::I32 => Val::I32(Status::Unimplemented as i32),
                    other => Val::default_for_ty(*other),
                };
            }
            Ok(())
        });
        // It is refused for the functions served above, and for a second import of one stub.
        if stub.is_ok() {
            stubs.push(name);
        }
    }
    stubs
}

fn serve(linker: &mut Linker<State>) -> Linked {
    runtime::link(linker)?;
    lifecycle::link(linker)?;
    property::link(linker)?;
    header_map::link(linker)?;
    body::link(linker)?;
    calls::link(linker)?;
    shared::link(linker)?;
    metric::link(linker)?;
    wasi::link(linker)
}
