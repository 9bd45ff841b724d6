//! The decision in Redis: what a call of `decide.lua` asks, and what it answers. The head of the script
//! states both. Must not know how a front is talked to.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::LazyLock;

use sha1::{Digest as _, Sha1};
use tollgate_config::Millis;

use super::{Ask, BoxTerms, Subject};
use crate::client_ip::Address;
use crate::identity::Id;
use crate::limit::bucket::{Level, Meter};
use crate::limit::decision::Strictness;
use crate::limit::penalty::Lockout;
use crate::verdict::{Boxed, Policy, Scope, Standing, Standings, Throttled, Verdict};

const SOURCE: &str = include_str!("decide.lua");

/// What the script's replies begin with.
const GREETING: &str = "tollgate 1";

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
    /// The time at which it decided: Redis' own. The latest of all where callers' clocks are borrowed.
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
    pub const fn source() -> &'static str {
        SOURCE
    }

    /// The SHA-1 of the source, by which Redis knows it.
    #[must_use]
    pub fn sha() -> &'static str {
        &SHA
    }

    /// `EVALSHA sha numkeys keys... arguments...` for these items.
    #[must_use]
    pub fn call(&self, items: &[Item], now: Millis) -> Command {
        self.command(["EVALSHA", Self::sha()], items, now)
    }

    /// The same as `EVAL source ...`: loads the script and runs it.
    #[must_use]
    pub fn load_and_call(&self, items: &[Item], now: Millis) -> Command {
        self.command(["EVAL", SOURCE], items, now)
    }

    fn command(&self, verb: [&str; 2], items: &[Item], now: Millis) -> Command {
        let mut batch = Batch {
            prefix: &self.key_prefix,
            ..Batch::default()
        };
        for item in items {
            batch.question(item);
        }
        let clock = match self.clock {
            Clock::Store => "store",
            Clock::Given => "given",
        };
        let mut command: Command = verb.map(str::to_owned).to_vec();
        command.push(batch.keys.order.len().to_string());
        command.append(&mut batch.keys.order);
        command.extend(["1".to_owned(), clock.to_owned(), now.0.to_string()]);
        command.push(batch.terms.len().to_string());
        command.extend(batch.terms.iter().map(written));
        command.append(&mut batch.questions);
        command
    }

    /// Reads the elements of the script's reply; `None` if they are not an answer to these items.
    #[must_use]
    pub fn answers(&self, items: &[Item], reply: &[String]) -> Option<Answers> {
        let (greeting, lines) = reply.split_first()?;
        if greeting != GREETING || lines.len() != items.len() {
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
}

impl Item {
    /// What is inside the braces of all keys of this item: `t:TENANT` or `ip:ADDRESS`. With
    /// `Step::Whole` it may touch both.
    #[must_use]
    pub fn tag(&self) -> String {
        match (&self.ask.subject, self.step) {
            (
                Subject::Key {
                    ip: Some((address, _)),
                    ..
                },
                Step::Address | Step::GiveBack,
            )
            | (Subject::Anonymous { address, .. }, _) => address_tag(address),
            (Subject::Key { tenant, .. }, _) => format!("t:{}", tenant.as_str()),
        }
    }
}

fn address_tag(address: &Address) -> String {
    match address {
        Address::Ip(ip) => format!("ip:{ip}"),
        Address::Other(text) => format!("ip:{}", Id::of(text).as_str()),
    }
}

/// What of a question's terms is the same for all of a kind of subject.
type Terms = (Millis, BoxTerms, [Option<Meter>; 3]);

/// Strings in the order in which they were first met, each once.
#[derive(Default)]
struct Distinct {
    places: HashMap<String, usize>,
    order: Vec<String>,
}

impl Distinct {
    /// The place of a string, from 1.
    fn place(&mut self, text: String) -> usize {
        if let Some(place) = self.places.get(&text) {
            return *place;
        }
        self.order.push(text.clone());
        self.places.insert(text, self.order.len());
        self.order.len()
    }
}

/// A call in the making.
#[derive(Default)]
struct Batch<'a> {
    prefix: &'a str,
    keys: Distinct,
    terms: Vec<Terms>,
    questions: Vec<String>,
}

impl Batch<'_> {
    /// The place of terms, from 1. There are as many as there are tiers.
    fn place_of(&mut self, terms: Terms) -> usize {
        let known = self.terms.iter().position(|known| *known == terms);
        let place = known.unwrap_or(self.terms.len());
        if known.is_none() {
            self.terms.push(terms);
        }
        place.saturating_add(1)
    }

    fn question(&mut self, item: &Item) {
        let Item { ask, step } = item;
        let met = Met::of(ask);
        // A watched box is in shadow though the buckets are not.
        let in_shadow = ask.shadow || ask.penalty.strictness == Strictness::Watched;
        let (step, owner, address) = match step {
            Step::Whole => (0, true, true),
            Step::Address => (1, false, true),
            Step::Owner => (2, true, false),
            Step::GiveBack => (3, false, true),
            Step::Undo => (4, true, true),
        };
        let terms = self.place_of(met.terms(ask));
        let mut key = |wanted: bool, shadow: bool, name: Option<String>| match name {
            Some(name) if wanted => {
                let shadow = if shadow { "sh:" } else { "" };
                self.keys.place(format!("{}{shadow}{name}", self.prefix))
            }
            _ => 0,
        };
        let held = owner && ask.penalty.strictness != Strictness::Off;
        let [first, second, ip, lockout, strikes, off] = met.keys();
        let keys = [
            key(owner, ask.shadow, Some(first.clone())),
            key(owner, ask.shadow, met.second.is_some().then_some(second)),
            key(address, ask.shadow, met.ip.is_some().then_some(ip)),
            key(held, in_shadow, Some(first)),
            key(held, in_shadow, Some(lockout)),
            key(held, in_shadow, Some(strikes)),
            key(held, in_shadow, Some(off)),
        ];
        let strictness = match ask.penalty.strictness {
            Strictness::Off => 0,
            Strictness::Watched => 2,
            _ => 1,
        };
        let second_cost = met.second.map_or(0, |(_, cost)| cost);
        let mut text = format!("{step} {terms} {} {second_cost} {strictness}", ask.cost);
        for key in keys {
            let _ = write!(text, " {key}");
        }
        self.questions.push(text);
    }
}

/// The buckets that a question meets.
struct Met<'a> {
    subject: &'a Subject,
    scope: Scope,
    first: (Policy, Meter),
    /// With what it takes from it, in points.
    second: Option<(Meter, u64)>,
    second_policy: Policy,
    ip: Option<Meter>,
}

impl<'a> Met<'a> {
    fn of(ask: &'a Ask) -> Self {
        let subject = &ask.subject;
        match subject {
            Subject::Key {
                tenant_meter,
                key_meter,
                ip,
                ..
            } => Self {
                subject,
                scope: Scope::Key,
                first: (Policy::Key, *key_meter),
                second: Some((*tenant_meter, ask.cost)),
                second_policy: Policy::Tenant,
                ip: ip.as_ref().map(|(_, meter)| *meter),
            },
            Subject::Anonymous {
                meter, ip_meter, ..
            } => Self {
                subject,
                scope: Scope::Ip,
                first: (Policy::Anonymous, *meter),
                second: ip_meter.map(|meter| (meter, 1)),
                second_policy: Policy::Ip,
                ip: None,
            },
        }
    }

    /// Names of the first and second bucket, of `ip_limit`'s, of the box, strikes and offenses.
    fn keys(&self) -> [String; 6] {
        match self.subject {
            Subject::Key {
                tenant, key, ip, ..
            } => {
                let (tag, key) = (format!("t:{}", tenant.as_str()), key.as_str());
                let address = ip.as_ref().map(|(address, _)| address_tag(address));
                [
                    format!("rl:{{{tag}}}:tb:{key}"),
                    format!("rl:{{{tag}}}:tb"),
                    format!("rl:{{{}}}:tb", address.unwrap_or_default()),
                    format!("pb:{{{tag}}}:box:{key}"),
                    format!("pb:{{{tag}}}:strikes:{key}"),
                    format!("pb:{{{tag}}}:off:{key}"),
                ]
            }
            Subject::Anonymous { address, .. } => {
                let tag = address_tag(address);
                [
                    format!("rl:{{{tag}}}:an"),
                    format!("rl:{{{tag}}}:tb"),
                    String::new(),
                    format!("pb:{{{tag}}}:box"),
                    format!("pb:{{{tag}}}:strikes"),
                    format!("pb:{{{tag}}}:off"),
                ]
            }
        }
    }

    fn terms(&self, ask: &Ask) -> Terms {
        let meters = [Some(self.first.1), self.second.map(|(m, _)| m), self.ip];
        (ask.grace, ask.penalty, meters)
    }
}

/// Terms as the script reads them.
fn written((grace, penalty, meters): &Terms) -> String {
    let terms = &penalty.terms;
    let [level_1, level_2, level_3] = terms.levels.map(|time| time.0);
    let mut text = format!(
        "{} {} {} {} {level_1} {level_2} {level_3} {}",
        grace.0, terms.strikes, terms.within.0, terms.offense_memory.0, terms.max_level
    );
    for meter in meters {
        let (refill, unit, burst) = meter.map_or((0, 0, 0), |m| (m.refill(), m.unit(), m.burst()));
        let _ = write!(text, " {refill} {unit} {burst}");
    }
    text
}

/// One line of the reply.
struct Line {
    kind: char,
    now: Millis,
    rest: Vec<i64>,
}

impl Line {
    fn read(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let mut kind = words.next()?.chars();
        let (kind, None) = (kind.next()?, kind.next()) else {
            return None;
        };
        let mut numbers = words.map(|word| word.parse::<i64>().ok());
        let now = u64::try_from(numbers.next()??).ok()?;
        Some(Self {
            kind,
            now: Millis(now),
            rest: numbers.collect::<Option<_>>()?,
        })
    }

    fn decision(&self, item: &Item) -> Option<Decision> {
        let met = Met::of(&item.ask);
        let standing = |policy, meter: Option<Meter>, spent: i64, wait: i64| {
            let (meter, spent) = (meter?, u64::try_from(spent).ok()?);
            let level = Level {
                spent,
                unit: meter.unit(),
                refill: meter.refill(),
                at: self.now,
            };
            let wait = Millis(u64::try_from(wait).ok()?);
            Some(Standing::new(policy, meter, &level, wait))
        };
        let first = |spent, wait| standing(met.first.0, Some(met.first.1), spent, wait);
        let second =
            |spent, wait| standing(met.second_policy, met.second.map(|(m, _)| m), spent, wait);
        let ip = |spent, wait| standing(Policy::Ip, met.ip, spent, wait);
        let millis = |number: i64| u64::try_from(number).ok().map(Millis);
        let verdict = match (self.kind, item.step, self.rest.as_slice()) {
            ('a', Step::Whole | Step::Owner, &[f, s, i]) => {
                Verdict::Allowed(Standings::new([Some(first(f, 0)?), second(s, 0), ip(i, 0)]))
            }
            ('t', Step::Whole | Step::Owner, &[f, fw, s, sw, i, told, left, level, until]) => {
                let standings = Standings::new([Some(first(f, fw)?), second(s, sw), ip(i, 0)]);
                let would_box = match lockout(level, until)? {
                    lockout if lockout.level == 0 => None,
                    lockout => Some((met.scope, lockout)),
                };
                Verdict::Throttled(Throttled {
                    standings,
                    wait: millis(told)?,
                    strikes_left: Some(u32::try_from(left).ok()?),
                    would_box,
                })
            }
            ('b', Step::Whole | Step::Owner, &[level, until, tripped]) => Verdict::Boxed(Boxed {
                scope: met.scope,
                lockout: lockout(level, until)?,
                tripped: tripped == 1,
            }),
            ('i', Step::Whole | Step::Address, &[i, wait, told]) => Verdict::Throttled(Throttled {
                standings: Standings::new([Some(ip(i, wait)?), None, None]),
                wait: millis(told)?,
                strikes_left: None,
                would_box: None,
            }),
            ('p', Step::Address, &[i]) => return Some(Decision::Passed(ip(i, 0)?)),
            ('d', Step::GiveBack | Step::Undo, []) => return Some(Decision::Done),
            _ => return None,
        };
        Some(Decision::Verdict(verdict))
    }
}

fn lockout(level: i64, until: i64) -> Option<Lockout> {
    Some(Lockout {
        level: u8::try_from(level).ok().filter(|level| *level <= 3)?,
        until: Millis(u64::try_from(until).ok()?),
    })
}

#[cfg(test)]
mod tests;
