//! The keys and arguments of a call: each key, and the terms of each kind of subject, once. Must not know
//! what is answered.

use std::fmt::Write as _;

use hashbrown::HashMap;

use self::terms::Terms;
use super::held::Held;
use super::met::Met;
use super::{Command, Item, Step, address_tag};
use crate::client_ip::Address;
use crate::limit::decision::Strictness;
use crate::store::{Ask, Leg, Subject};

mod attempts;
mod terms;

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
    /// `ip_limit`, where that is neither.
    address: bool,
    /// What is held against the owner.
    held: bool,
    /// And for what the owner gets there.
    strikes: bool,
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
            Step::Part(Leg::Address) => (1, false, true),
            Step::Part(Leg::Subject(_)) => (1, false, false),
            Step::Part(Leg::Owner) => (2, true, met.first.is_none()),
            Step::GiveBack => (3, false, true),
            Step::Undo => (4, true, true),
            Step::Keep(leg, _) => return self.later(5, *leg, item, &met),
            Step::Revoke(leg) => return self.later(6, *leg, item, &met),
        };
        let strictness = ask.penalty.strictness;
        let strikes = met.first.is_some();
        let needs = Needs {
            first: owner && strikes,
            second: owner && met.second.is_some(),
            address: address && met.ip.is_some(),
            // Where there are no strikes there is nothing to be watched.
            held: owner && strictness != Strictness::Off && (strikes || strictness.refuses()),
            strikes,
            shadow: ask.shadow,
            // A watched box is in shadow though the buckets are not.
            held_in_shadow: ask.shadow || strictness == Strictness::Watched,
        };
        let terms = if owner || needs.address {
            self.place_of(&met, ask)
        } else {
            0
        };
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
        if ask.wanted.is_some() && asks_for_more(item) {
            self.write_held(&mut text, item);
        }
        self.questions.push(text);
    }

    /// Asks for a step that touches no points: of the buckets it names but one that every decision for the
    /// owner touches, which knows the time where callers' clocks are borrowed.
    fn later(&mut self, number: u8, leg: Leg, item: &'a Item, met: &Met) {
        let owner = leg == Leg::Owner;
        let second = met.second.is_some();
        let needs = Needs {
            first: owner && !second && met.first.is_some(),
            second: owner && second,
            address: owner && met.first.is_none() && met.ip.is_some(),
            held: false,
            strikes: false,
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
        let held = Held::of(self.prefix, item);
        let places = held
            .keys
            .map(|key| key.map_or(0, |key| self.place_of_key(key)));
        super::held::write(text, item, places);
        self.write_attempts(text, item);
    }

    /// Writes the number of keys, the keys, and the arguments, which begin with `first`.
    pub(super) fn write(self, command: &mut Command, first: [&str; 4]) {
        let mut keys: Vec<(String, usize)> = self.keys.into_iter().collect();
        keys.sort_unstable_by_key(|(_, place)| *place);
        command.push(keys.len().to_string());
        command.extend(keys.into_iter().map(|(key, _)| key));
        command.extend(first.map(str::to_owned));
        command.push(self.terms.len().to_string());
        command.extend(self.terms.iter().map(Terms::written));
        command.extend(self.questions);
    }

    /// The place of the terms of a kind of subject.
    fn place_of(&mut self, met: &Met, ask: &Ask) -> usize {
        let meters = [
            met.first.map(|(_, m)| m),
            met.second.map(|(m, _)| m),
            met.ip,
        ];
        self.place_of_terms(Terms::Limits(ask.grace, ask.penalty, meters))
    }

    /// The place of terms, from 1. There are as many as there are tiers and throttles.
    fn place_of_terms(&mut self, terms: Terms) -> usize {
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
            Subject::Anonymous { address, .. } | Subject::Credential { address, .. } => {
                Whose::Anonymous(address)
            }
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
                let ip = needs.address.then_some(tag.as_str());
                self.of_owner(&tag, [":an", ""], ":tb", "", ip, needs)
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
            held,
            shadow,
            held_in_shadow,
            ..
        } = needs;
        let strikes = held && needs.strikes;
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
            place(held, held_in_shadow, first),
            place(held, held_in_shadow, ["pb:{", tag, "}", ":box", key]),
            place(strikes, held_in_shadow, ["pb:{", tag, "}", ":strikes", key]),
            place(strikes, held_in_shadow, ["pb:{", tag, "}", ":off", key]),
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

/// Whether a step asks for what is wanted besides points.
fn asks_for_more(item: &Item) -> bool {
    match item.step {
        Step::Whole | Step::Part(Leg::Owner) => true,
        Step::Part(_) => super::attempts::of(item).next().is_some(),
        _ => false,
    }
}
