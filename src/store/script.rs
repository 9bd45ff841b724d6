//! The decision in Redis: what a call of `decide.lua` asks, and what it answers. The head of the script
//! states both. Must not know how a front is talked to.

use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::LazyLock;

use sha1::{Digest as _, Sha1};
use tollgate_config::Millis;

use self::answer::Line;
use self::call::Batch;
use self::held::Held;
use super::{Ask, Kept, Leg, Subject};
use crate::client_ip::Address;
use crate::hold::Keep;
use crate::identity::Id;
use crate::verdict::{Standing, Verdict};

mod answer;
mod attempts;
mod call;
mod held;
mod met;

const SOURCE: &str = include_str!("decide.lua");

/// The version of the interface that both sides speak.
const VERSION: &str = "1";

/// What the script's replies begin with; the call's word follows.
const GREETING: &str = "tollgate 1 ";

static SHA: LazyLock<String> = LazyLock::new(|| {
    let digest = Sha1::digest(SOURCE.as_bytes());
    digest.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
});

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
    /// What is under one hash tag (`topology: cluster`), once the legs before it let it pass.
    Part(Leg),
    /// The address gets its point back, since the tenant refused.
    GiveBack,
    /// The points that an allowed request took are given back: its client left before it was let through.
    /// What it holds is let go by [`Step::Keep`].
    Undo,
    /// What it holds on a leg is held for longer, or let go, and what became of its attempts there.
    Keep(Leg, Keep),
    /// What it may hold is let go, or else marked: it is not known whether the call that asked for it came,
    /// or will come yet.
    Revoke(Leg),
}

/// What the script answered to one item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The verdict: of `Whole`, of `Owner` (without the address's standing), and of an `Address` that refused.
    Verdict(Verdict),
    /// A leg before the owner's let it pass: where the client stands with `ip_limit` after that, where that was met.
    Passed(Option<Standing>),
    /// Something was given back, or revoked; or, to `Whole` and `Owner`: it had been revoked before it came,
    /// and got nothing.
    Done,
    /// What is kept.
    Kept(Kept),
}

/// What the script answered to all items of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answers {
    /// The time at which it decided: Redis' own. The latest of all where callers' clocks are borrowed.
    pub now: Millis,
    /// One for each item, in their order.
    pub decisions: Vec<Decision>,
}

/// Why a reply is not an answer to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrongReply {
    /// It answers nothing that the script is asked.
    Malformed,
    /// It answers another call.
    Mismatched,
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
    /// The script by the store's own clock, with this put before every key.
    #[must_use]
    pub fn of(key_prefix: &str) -> Self {
        Self {
            key_prefix: key_prefix.to_owned(),
            clock: Clock::Store,
        }
    }

    /// The source.
    #[must_use]
    pub const fn source() -> &'static str {
        SOURCE
    }

    /// The SHA-1 of the source, by which Redis knows it.
    #[must_use]
    pub fn sha() -> &'static str {
        &SHA
    }

    /// `EVALSHA sha numkeys keys... arguments...` for these items. The reply says back the `word`, by which
    /// it is told from those to other calls.
    #[must_use]
    pub fn call(&self, items: &[Item], word: &str, now: Millis) -> Command {
        self.command(["EVALSHA", Self::sha()], items, word, now)
    }

    /// The same as `EVAL source ...`: loads the script and runs it.
    #[must_use]
    pub fn load_and_call(&self, items: &[Item], word: &str, now: Millis) -> Command {
        self.command(["EVAL", SOURCE], items, word, now)
    }

    fn command(&self, verb: [&str; 2], items: &[Item], word: &str, now: Millis) -> Command {
        let mut batch = Batch::new(&self.key_prefix);
        for item in items {
            batch.question(item);
        }
        let clock = match self.clock {
            Clock::Store => "store",
            Clock::Given => "given",
        };
        let mut command: Command = verb.map(str::to_owned).to_vec();
        batch.write(&mut command, [VERSION, clock, &now.0.to_string(), word]);
        command
    }

    /// By what the request is known in whatever it holds: the keys of its lease and its lock, as far as it wants
    /// them, then its id, with spaces between; with that alone it can be let go. Empty where it wants nothing
    /// besides points.
    #[must_use]
    pub fn member(&self, ask: &Ask) -> String {
        Held::of_ask(&self.key_prefix, ask).member(ask)
    }

    /// Reads the elements of the script's reply to a call of these items with this word.
    ///
    /// # Errors
    ///
    /// They are not an answer to it.
    pub fn answers(
        &self,
        items: &[Item],
        word: &str,
        reply: &[String],
    ) -> Result<Answers, WrongReply> {
        let (greeting, lines) = reply.split_first().ok_or(WrongReply::Malformed)?;
        match greeting.strip_prefix(GREETING) {
            None => Err(WrongReply::Malformed),
            Some(said) if said != word => Err(WrongReply::Mismatched),
            Some(_) => decisions(items, lines).ok_or(WrongReply::Malformed),
        }
    }
}

/// Reads a line for each item.
fn decisions(items: &[Item], lines: &[String]) -> Option<Answers> {
    if lines.len() != items.len() {
        return None;
    }
    let mut now = Millis(0);
    let mut decisions = Vec::with_capacity(items.len());
    for (item, line) in items.iter().zip(lines) {
        let line = Line::read(line)?;
        now = now.max(line.now);
        decisions.push(line.decision(item)?);
    }
    Some(Answers { now, decisions })
}

impl Item {
    /// What is inside the braces of all keys of this item: `t:TENANT`, `ip:ADDRESS` or `s:SUBJECT`. With
    /// `Step::Whole` it may touch those of all its legs, and with `Step::Undo` the address's as well.
    #[must_use]
    pub fn tag(&self) -> String {
        match self.step {
            Step::Part(leg) | Step::Keep(leg, _) | Step::Revoke(leg) => leg_tag(&self.ask, leg),
            Step::GiveBack => leg_tag(&self.ask, Leg::Address),
            Step::Whole | Step::Undo => leg_tag(&self.ask, Leg::Owner),
        }
    }
}

/// What is inside the braces of the keys of a leg. Of one that the question does not have, it is the owner's.
fn leg_tag(ask: &Ask, leg: Leg) -> String {
    let attempts = || ask.wanted.as_ref()?.attempts.as_ref();
    let tag = match leg {
        Leg::Address => ask.address().map(address_tag),
        Leg::Subject(which) => attempts()
            .and_then(|attempts| attempts.subjects.get(usize::from(which)))
            .map(|subject| ["s:", subject.as_str()].concat()),
        Leg::Owner => None,
    };
    tag.unwrap_or_else(|| owner_tag(&ask.subject))
}

/// What is inside the braces of the keys of all that a subject has and holds.
fn owner_tag(subject: &Subject) -> String {
    match subject {
        Subject::Key { tenant, .. } => ["t:", tenant.as_str()].concat(),
        Subject::Anonymous { address, .. } | Subject::Credential { address, .. } => {
            address_tag(address)
        }
    }
}

/// The address that a question is about, if it is about one.
fn address_of(ask: &Ask) -> Option<&Address> {
    match &ask.subject {
        Subject::Key {
            ip: Some((address, _)),
            ..
        }
        | Subject::Anonymous { address, .. }
        | Subject::Credential { address, .. } => Some(address),
        Subject::Key { ip: None, .. } => attempts::attempts_of(ask).map(|a| &a.address),
    }
}

fn address_tag(address: &Address) -> String {
    ["ip:", &address_name(address)].concat()
}

/// An address, as it is in keys.
fn address_name(address: &Address) -> String {
    match address {
        Address::Ip(ip) => ip.to_string(),
        Address::Other(text) => Id::of(text).as_str().to_owned(),
    }
}

#[cfg(test)]
mod tests;
