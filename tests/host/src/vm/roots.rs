//! Root contexts: the filter's configurations, their ticks and their queues.

use super::{ROUNDS_TO_REST, exports};
use crate::state::Root;
use crate::{Trap, Vm};

impl Vm {
    /// Starts a root context with this configuration and tells whether the filter accepted it. Called
    /// again it is an update: new streams belong to the new root, old ones and ticks keep the old
    /// root, and a refused configuration changes nothing.
    ///
    /// # Errors
    ///
    /// If the guest traps, now or before.
    pub fn configure(&mut self, config: &[u8]) -> Result<bool, Trap> {
        let id = self.next_context();
        let state = self.store.data_mut();
        state.roots.insert(id, Root::default());
        let vm_size = state.shared.options.vm_configuration.len() as u32;
        self.enter(id, self.exports.context_create, (id, 0))?;
        let mut accepted = self.accepted(id, self.exports.vm_start, vm_size)?;
        if accepted {
            self.store.data_mut().configuration = Some(config.to_vec());
            let configured = self.accepted(id, self.exports.configure, config.len() as u32);
            self.store.data_mut().configuration = None;
            accepted = configured?;
        }
        if accepted {
            self.root = Some(id);
        } else {
            self.store.data_mut().roots.remove(&id);
        }
        self.drain()?;
        Ok(accepted)
    }

    fn accepted(
        &mut self,
        root: u32,
        export: exports::Export<(u32, u32), u32>,
        size: u32,
    ) -> Result<bool, Trap> {
        Ok(self.enter(root, export, (root, size))?.unwrap_or(1) != 0)
    }

    /// The root context new streams belong to; `None` before a configuration was accepted.
    pub fn root(&self) -> Option<u32> {
        self.root
    }

    /// Every root context alive, oldest first.
    pub fn roots(&self) -> Vec<u32> {
        self.store.data().roots.keys().copied().collect()
    }

    /// Retires a root context, as Envoy does with an old one once its listener has drained: on_done,
    /// and on_delete when the filter agrees or says so later.
    ///
    /// # Errors
    ///
    /// If the guest traps, now or before.
    pub fn retire(&mut self, root: u32) -> Result<(), Trap> {
        if self.enter(root, self.exports.done, root)?.unwrap_or(1) != 0 {
            self.delete_root(root)?;
        }
        self.drain()
    }

    pub(super) fn delete_root(&mut self, root: u32) -> Result<(), Trap> {
        if self.store.data().roots.contains_key(&root) {
            self.enter(root, self.exports.delete, root)?;
            self.store.data_mut().roots.remove(&root);
        }
        Ok(())
    }

    /// Calls on_tick of every root context that set a tick period; tells how many there are.
    ///
    /// # Errors
    ///
    /// If the guest traps, now or before.
    pub fn tick(&mut self) -> Result<usize, Trap> {
        let roots = self.store.data().roots.iter();
        let due: Vec<u32> = roots
            .filter(|(_, root)| root.tick_millis > 0)
            .map(|(id, _)| *id)
            .collect();
        for root in &due {
            self.enter(*root, self.exports.tick, *root)?;
            self.drain()?;
        }
        Ok(due.len())
    }

    /// The current root's tick period in milliseconds; `None` if it set none.
    pub fn tick_millis(&self) -> Option<u32> {
        let root = self.store.data().roots.get(&self.root?)?;
        (root.tick_millis > 0).then_some(root.tick_millis)
    }

    /// Delivers queue notices to this VM until none is left, those that come up meanwhile included;
    /// tells how many. A real host does this later in the same pass of its event loop.
    ///
    /// # Errors
    ///
    /// If the guest traps, now or before.
    pub fn deliver(&mut self) -> Result<usize, Trap> {
        for delivered in 0..ROUNDS_TO_REST {
            if !self.deliver_one()? {
                return Ok(delivered);
            }
        }
        panic!("the guest keeps waking itself: {ROUNDS_TO_REST} queue notices in a row");
    }

    /// Delivers the oldest queue notice; false if there is none.
    ///
    /// # Errors
    ///
    /// If the guest traps, now or before.
    pub fn deliver_one(&mut self) -> Result<bool, Trap> {
        self.alive()?;
        let state = self.store.data();
        let notice = state.shared.queues.lock().unwrap().next_notice(state.vm);
        let Some((root, queue)) = notice else {
            return Ok(false);
        };
        if state.roots.contains_key(&root) {
            self.enter(root, self.exports.queue_ready, (root, queue))?;
            self.drain()?;
        }
        Ok(true)
    }

    /// How many queue notices wait for this VM.
    pub fn notices(&self) -> usize {
        let state = self.store.data();
        state.shared.queues.lock().unwrap().notices(state.vm)
    }
}
