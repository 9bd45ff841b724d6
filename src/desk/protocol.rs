//! How the desk has the store's script called. Must not know fronts.

use tollgate_config::Millis;

use crate::store::script::{Answers, Command, Item, Script, WrongReply};

/// How the store's script is called: [`Script`], or a stand-in.
pub trait Protocol {
    /// A command that asks these items; its answer says back the word.
    fn call(&self, items: &[Item], word: &str, now: Millis) -> Command;

    /// The same, where the script is not loaded.
    fn load_and_call(&self, items: &[Item], word: &str, now: Millis) -> Command;

    /// Reads the answer to these items, asked with this word.
    ///
    /// # Errors
    ///
    /// It is not that.
    fn answers(&self, items: &[Item], word: &str, reply: &[String]) -> Result<Answers, WrongReply>;

    /// The hash tag of an item's keys.
    fn tag(&self, item: &Item) -> String;
}

impl Protocol for Script {
    fn call(&self, items: &[Item], word: &str, now: Millis) -> Command {
        Self::call(self, items, word, now)
    }

    fn load_and_call(&self, items: &[Item], word: &str, now: Millis) -> Command {
        Self::load_and_call(self, items, word, now)
    }

    fn answers(&self, items: &[Item], word: &str, reply: &[String]) -> Result<Answers, WrongReply> {
        Self::answers(self, items, word, reply)
    }

    fn tag(&self, item: &Item) -> String {
        item.tag()
    }
}
