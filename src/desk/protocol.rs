//! How the desk has the store's script called. Must not know fronts.

use tollgate_config::Millis;

use crate::store::script::{Answers, Command, Item, Script};

/// How the store's script is called: [`Script`], or a stand-in.
pub trait Protocol {
    /// A command that asks these items.
    fn call(&self, items: &[Item], now: Millis) -> Command;

    /// The same, where the script is not loaded.
    fn load_and_call(&self, items: &[Item], now: Millis) -> Command;

    /// Reads the answer to these items.
    fn answers(&self, items: &[Item], reply: &[String]) -> Option<Answers>;

    /// The hash tag of an item's keys.
    fn tag(&self, item: &Item) -> String;
}

impl Protocol for Script {
    fn call(&self, items: &[Item], now: Millis) -> Command {
        Self::call(self, items, now)
    }

    fn load_and_call(&self, items: &[Item], now: Millis) -> Command {
        Self::load_and_call(self, items, now)
    }

    fn answers(&self, items: &[Item], reply: &[String]) -> Option<Answers> {
        Self::answers(self, items, reply)
    }

    fn tag(&self, item: &Item) -> String {
        item.tag()
    }
}
