//! The words by which answers are told apart: each command has one of its own, and its answer says it back.
//! A front may answer a call with what another one was answered, of whichever gateway. Must not know what is
//! asked.

use std::cell::Cell;
use std::rc::Rc;

use super::CallId;

/// The words of all desks that share the calls' numbers.
#[derive(Debug, Clone)]
pub(super) struct Words {
    /// No other machine has it.
    seed: u64,
    /// Calls so far.
    calls: Rc<Cell<u64>>,
}

impl Words {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            calls: Rc::default(),
        }
    }

    /// A call that there was not yet.
    pub(super) fn next_call(&self) -> CallId {
        let id = self.calls.get().wrapping_add(1);
        self.calls.set(id);
        CallId(id)
    }

    /// The word of the command at this place of a call.
    pub(super) fn of(&self, call: CallId, place: usize) -> String {
        format!("{:016x}.{:x}.{place:x}", self.seed, call.0)
    }
}
