//! Shared queues: unique by name in one process, and only their last registrant is told of items.
//!
//! Owns the items and who is to be told; the VMs call the guest.

use std::collections::{HashMap, VecDeque};

/// Who registered a queue last: a VM of the process and its root context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Registrant {
    pub(crate) vm: usize,
    pub(crate) root: u32,
}

#[derive(Debug)]
struct Queue {
    registrant: Registrant,
    items: VecDeque<Vec<u8>>,
}

/// The guest named a queue that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoSuchQueue;

/// All queues of one process, and the notices not delivered yet.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    by_name: HashMap<Vec<u8>, u32>,
    queues: Vec<Queue>,
    notices: HashMap<usize, VecDeque<(u32, u32)>>,
}

impl Queues {
    /// Takes over or creates the queue `name`; returns its token, from 1. Items stay.
    pub(crate) fn register(&mut self, name: &[u8], registrant: Registrant) -> u32 {
        if let Some(token) = self.by_name.get(name) {
            self.queues[*token as usize - 1].registrant = registrant;
            return *token;
        }
        self.queues.push(Queue {
            registrant,
            items: VecDeque::new(),
        });
        let token = self.queues.len() as u32;
        self.by_name.insert(name.to_vec(), token);
        token
    }

    pub(crate) fn resolve(&self, name: &[u8]) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    /// Adds an item and a notice to the queue's registrant as of now.
    pub(crate) fn enqueue(&mut self, token: u32, item: &[u8]) -> Result<(), NoSuchQueue> {
        let queue = self.queue(token)?;
        queue.items.push_back(item.to_vec());
        let Registrant { vm, root } = queue.registrant;
        self.notices.entry(vm).or_default().push_back((root, token));
        Ok(())
    }

    /// Takes the oldest item, if there is one.
    pub(crate) fn dequeue(&mut self, token: u32) -> Result<Option<Vec<u8>>, NoSuchQueue> {
        Ok(self.queue(token)?.items.pop_front())
    }

    /// The oldest notice for that VM: (root context, queue).
    pub(crate) fn next_notice(&mut self, vm: usize) -> Option<(u32, u32)> {
        self.notices.get_mut(&vm)?.pop_front()
    }

    /// How many notices wait for that VM.
    pub(crate) fn notices(&self, vm: usize) -> usize {
        self.notices.get(&vm).map_or(0, VecDeque::len)
    }

    fn queue(&mut self, token: u32) -> Result<&mut Queue, NoSuchQueue> {
        let index = (token as usize).checked_sub(1).ok_or(NoSuchQueue)?;
        self.queues.get_mut(index).ok_or(NoSuchQueue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_registrant_of_a_name_is_told() {
        let mut queues = Queues::default();
        let first = queues.register(b"q", Registrant { vm: 0, root: 1 });
        let second = queues.register(b"q", Registrant { vm: 1, root: 5 });
        assert_eq!(first, second);
        queues.enqueue(first, b"item").unwrap();
        assert_eq!(queues.next_notice(0), None);
        assert_eq!(queues.next_notice(1), Some((5, first)));
        assert_eq!(queues.dequeue(first), Ok(Some(b"item".to_vec())));
        assert_eq!(queues.dequeue(first), Ok(None));
    }

    #[test]
    fn unknown_queues_are_errors() {
        let mut queues = Queues::default();
        assert_eq!(queues.enqueue(0, b""), Err(NoSuchQueue));
        assert_eq!(queues.dequeue(9), Err(NoSuchQueue));
        assert_eq!(queues.resolve(b"q"), None);
    }
}
