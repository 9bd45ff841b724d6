//! The decision in Redis: what a call of `decide.lua` asks, and what it answers.

use std::rc::Rc;

use tollgate_config::Millis;

use super::Ask;
use crate::verdict::{Standing, Verdict};

/// One thing asked of the script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The question it belongs to.
    pub ask: Rc<Ask>,
    /// Which part of it.
    pub step: Step,
}

/// Which part of a question is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// All of it at once.
    Whole,
    /// Only `ip_limit`, under the address's hash tag (`topology: cluster`).
    Address,
    /// All but `ip_limit`, under the tenant's hash tag, once the address let it pass.
    Owner,
    /// The address gets its point back, since the tenant refused.
    GiveBack,
    /// What an allowed request took is given back: its client left before it was let through.
    Undo,
}

/// What the script answered to one item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The verdict: of `Whole`, of `Owner` (without the address's standing), and of an `Address` that refused.
    Verdict(Verdict),
    /// The address let it pass: where the client stands with `ip_limit` after that.
    Passed(Standing),
    /// Something was given back.
    Done,
}

/// What the script answered to all items of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answers {
    /// The time at which it decided: Redis' own.
    pub now: Millis,
    /// One for each item, in their order.
    pub decisions: Vec<Decision>,
}

/// A command: its name, then its arguments.
pub type Command = Vec<String>;

/// Whose clock the script goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Redis' own; the gateway's, never going backwards, where Redis does not tell it.
    Store,
    /// Exactly the given time: for tests and simulations.
    Given,
}

/// The script, with what it takes to call it.
#[derive(Debug, Clone)]
pub struct Script {
    /// Put before every key.
    pub key_prefix: String,
    /// Whose clock it goes by.
    pub clock: Clock,
}

impl Script {
    /// The source.
    #[must_use]
    pub fn source() -> &'static str {
        ""
    }

    /// `EVALSHA sha numkeys keys... arguments...` for these items.
    #[must_use]
    pub fn call(&self, _items: &[Item], _now: Millis) -> Command {
        Vec::new()
    }

    /// The same as `EVAL source ...`: loads the script and runs it.
    #[must_use]
    pub fn load_and_call(&self, _items: &[Item], _now: Millis) -> Command {
        Vec::new()
    }

    /// Reads the elements of the script's reply; `None` if they are not an answer to these items.
    #[must_use]
    pub fn answers(&self, _items: &[Item], _reply: &[String]) -> Option<Answers> {
        None
    }
}

impl Item {
    /// What is inside the braces of all keys of this item: `t:TENANT` or `ip:ADDRESS`. With
    /// `Step::Whole` it may touch both.
    #[must_use]
    pub fn tag(&self) -> String {
        String::new()
    }
}
