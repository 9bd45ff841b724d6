//! The keys and arguments of a call: each key, and the terms of each kind of subject, once. Must not know
//! what is answered.

use std::fmt::Write as _;

use hashbrown::HashMap;
use tollgate_config::Millis;

use super::held::Held;
use super::{Command, Item, Met, Step, address_tag};
use crate::client_ip::Address;
use crate::limit::bucket::Meter;
use crate::limit::decision::Strictness;
use crate::store::{Ask, BoxTerms, Subject};

/// What of a question's terms is the same for all of a kind of subject.
type Terms = (Millis, BoxTerms, [Option<Meter>; 3]);

/// Places of the keys of a question, from 1; 0 where it has none: first, second, ip, held, box, strikes,
/// offenses.
type Places = [usize; 7];

/// Which keys a question needs.
#[derive(PartialEq, Eq, Hash, Clone, Copy)]
struct Needs {
    /// The owner's first bucket.
    first: bool,
    /// The owner's second bucket.
    second: bool,
    /// `ip_limit`, where that is of another owner.
    address: bool,
    /// What is held against the owner.
    held: bool,
    /// The buckets are in shadow.
    shadow: bool,
    /// What is held is in shadow.
    held_in_shadow: bool,
}

/// Whose keys.
#[derive(PartialEq, Eq, Hash, Clone, Copy)]
enum Whose<'a> {
    Key(&'a str, &'a str, Option<&'a Address>),
    Anonymous(&'a Address),
}

/// A call in the making.
pub(super) struct Batch<'a> {
    prefix: &'a str,
    places: HashMap<(Whose<'a>, Needs), Places>,
    keys: HashMap<String, usize>,
    terms: Vec<Terms>,
    questions: Vec<String>,
}

impl<'a> Batch<'a> {
    /// An empty call, whose keys begin with `prefix`.
    pub(super) fn new(prefix: &'a str) -> Self {
        Self {
            prefix,
            places: HashMap::new(),
            keys: HashMap::new(),
            terms: Vec::new(),
            questions: Vec::new(),
        }
    }

    /// Asks one thing more.
    pub(super) fn question(&mut self, item: &'a Item) {
        let Item { ask, step } = item;
        let met = Met::of(ask);
        let (number, owner, address) = match step {
            Step::Whole => (0, true, true),
            Step::Address => (1, false, true),
            Step::Owner => (2, true, false),
            Step::GiveBack => (3, false, true),
            Step::Undo => (4, true, true),
            Step::Keep(_) => return self.later(5, item, &met),
            Step::Revoke => return self.later(6, item, &met),
        };
        let strictness = ask.penalty.strictness;
        let needs = Needs {
            first: owner,
            second: owner && met.second.is_some(),
            address: address && met.ip.is_some(),
            held: owner && strictness != Strictness::Off,
            shadow: ask.shadow,
            // A watched box is in shadow though the buckets are not.
            held_in_shadow: ask.shadow || strictness == Strictness::Watched,
        };
        let terms = self.place_of(&met, ask);
        let places = self.places(&ask.subject, needs);
        let strictness = match strictness {
            Strictness::Off => 0,
            Strictness::Watched => 2,
            Strictness::Enforced | Strictness::Known => 1,
        };
        let second_cost = met.second.map_or(0, |(_, cost)| cost);
        let mut text = format!("{number} {terms} {} {second_cost} {strictness}", ask.cost);
        for place in places {
            let _ = write!(text, " {place}");
        }
        if ask.wanted.is_some() && matches!(step, Step::Whole | Step::Owner) {
            self.write_held(&mut text, item);
        }
        self.questions.push(text);
    }

    /// Asks for a step that touches no points: of the buckets it names but one that every decision for the
    /// owner touches, which knows the time where callers' clocks are borrowed.
    fn later(&mut self, number: u8, item: &'a Item, met: &Met) {
        let second = met.second.is_some();
        let needs = Needs {
            first: !second,
            second,
            address: false,
            held: false,
            shadow: item.ask.shadow,
            held_in_shadow: item.ask.shadow,
        };
        let mut text = format!("{number} 0 0 0 0");
        for place in self.places(&item.ask.subject, needs) {
            let _ = write!(text, " {place}");
        }
        self.write_held(&mut text, item);
        self.questions.push(text);
    }

    /// Writes what a question wants, or holds, besides points.
    fn write_held(&mut self, text: &mut String, item: &Item) {
        let held = Held::of(self.prefix, &item.ask);
        let places = held
            .keys
            .map(|key| key.map_or(0, |key| self.place_of_key(key)));
        super::held::write(text, item, places);
    }

    /// Writes the number of keys, the keys, and the arguments, which begin with `first`.
    pub(super) fn write(self, command: &mut Command, first: [&str; 4]) {
        let mut keys: Vec<(String, usize)> = self.keys.into_iter().collect();
        keys.sort_unstable_by_key(|(_, place)| *place);
        command.push(keys.len().to_string());
        command.extend(keys.into_iter().map(|(key, _)| key));
        command.extend(first.map(str::to_owned));
        command.push(self.terms.len().to_string());
        command.extend(self.terms.iter().map(written));
        command.extend(self.questions);
    }

    /// The place of terms, from 1. There are as many as there are tiers.
    fn place_of(&mut self, met: &Met, ask: &Ask) -> usize {
        let meters = [Some(met.first.1), met.second.map(|(m, _)| m), met.ip];
        let terms = (ask.grace, ask.penalty, meters);
        let known = self.terms.iter().position(|known| *known == terms);
        let place = known.unwrap_or(self.terms.len());
        if known.is_none() {
            self.terms.push(terms);
        }
        place.saturating_add(1)
    }

    fn places(&mut self, subject: &'a Subject, needs: Needs) -> Places {
        let whose = match subject {
            Subject::Key {
                tenant, key, ip, ..
            } => {
                let address = ip.as_ref().map(|(address, _)| address);
                Whose::Key(tenant.as_str(), key.as_str(), address)
            }
            Subject::Anonymous { address, .. } => Whose::Anonymous(address),
        };
        if let Some(places) = self.places.get(&(whose, needs)) {
            return *places;
        }
        let places = match whose {
            Whose::Key(tenant, key, address) => {
                let tag = ["t:", tenant].concat();
                let key = [":", key].concat();
                let ip = address.filter(|_| needs.address).map(address_tag);
                self.of_owner(&tag, [":tb", &key], ":tb", &key, ip.as_deref(), needs)
            }
            Whose::Anonymous(address) => {
                let tag = address_tag(address);
                self.of_owner(&tag, [":an", ""], ":tb", "", None, needs)
            }
        };
        self.places.insert((whose, needs), places);
        places
    }

    /// The places of the keys under an owner's hash tag, and of an address's `ip_limit` under `ip`.
    fn of_owner(
        &mut self,
        tag: &str,
        first: [&str; 2],
        second: &str,
        key: &str,
        ip: Option<&str>,
        needs: Needs,
    ) -> Places {
        let Needs {
            shadow,
            held_in_shadow,
            ..
        } = needs;
        let mut place = |wanted: bool, shadow: bool, parts: [&str; 5]| {
            if wanted { self.place(shadow, parts) } else { 0 }
        };
        let [what, name] = first;
        let first = ["rl:{", tag, "}", what, name];
        [
            place(needs.first, shadow, first),
            place(needs.second, shadow, ["rl:{", tag, "}", second, ""]),
            place(
                ip.is_some(),
                shadow,
                ["rl:{", ip.unwrap_or_default(), "}", ":tb", ""],
            ),
            place(needs.held, held_in_shadow, first),
            place(needs.held, held_in_shadow, ["pb:{", tag, "}", ":box", key]),
            place(
                needs.held,
                held_in_shadow,
                ["pb:{", tag, "}", ":strikes", key],
            ),
            place(needs.held, held_in_shadow, ["pb:{", tag, "}", ":off", key]),
        ]
    }

    /// The place of a key, from 1.
    fn place(&mut self, shadow: bool, parts: [&str; 5]) -> usize {
        let [kind, tag, close, what, name] = parts;
        let shadow = if shadow { "sh:" } else { "" };
        self.place_of_key([self.prefix, shadow, kind, tag, close, what, name].concat())
    }

    fn place_of_key(&mut self, key: String) -> usize {
        let next = self.keys.len().saturating_add(1);
        *self.keys.entry(key).or_insert(next)
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
