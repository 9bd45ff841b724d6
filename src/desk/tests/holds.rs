//! A stand-in for what is held in the store, and for calls that come late.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tollgate_config::Millis;

use super::fake;
use crate::hold::{HELD_FOR, Keep, MARKED_FOR};
use crate::store::script::Step;
use crate::store::{Ask, Leg};

/// Whether a call was carried out of which nobody heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ran {
    Never,
    Before,
    /// So many milliseconds later.
    After(u16),
}

pub(super) fn ran() -> impl Strategy<Value = Ran> {
    prop_oneof![
        Just(Ran::Never),
        Just(Ran::Before),
        (0_u16..30_000).prop_map(Ran::After)
    ]
}

/// What became of attempts, for a number.
pub(super) fn outcome(number: u8) -> Keep {
    let outcome = match number % 4 {
        0 => fake::outcome(0, false),
        1 => fake::outcome(0, true),
        2 => fake::outcome(1, false),
        _ => fake::outcome(3, false),
    };
    Keep {
        outcome: Some(outcome),
        ..Keep::ON
    }
}

/// What a request holds under a hash tag.
pub(super) type Place = (u64, String);

/// What is held. What runs out is left there, to be seen.
#[derive(Debug, Default)]
pub(super) struct Holds {
    ends: BTreeMap<Place, Millis>,
    marks: BTreeMap<Place, Millis>,
    /// What was let go or revoked.
    gone: BTreeSet<Place>,
    /// What owners had told of their attempts.
    told: BTreeMap<Place, String>,
    /// What the store heard of that.
    heard: BTreeMap<Place, String>,
    /// It was let go before that.
    overtaken: BTreeSet<Place>,
}

impl Holds {
    /// All that nobody has let go.
    pub(super) fn all(&self) -> impl Iterator<Item = &Place> {
        self.ends.keys()
    }

    /// An owner has something told.
    pub(super) fn tell(&mut self, ask: &Ask, keep: Keep) {
        for leg in ask.legs() {
            let told = ask.told_on(leg, keep).map(|keep| Step::Keep(leg, keep));
            let name = told.map(fake::name).unwrap_or_default();
            if let Some((_, outcome)) = name.split_once('+') {
                self.told.insert(place(ask, leg), outcome.to_owned());
            }
        }
    }

    /// Outcomes that were told and not heard, or heard too late.
    pub(super) fn lost(&self) -> Vec<&Place> {
        let unheard = self.told.keys().filter(|at| !self.heard.contains_key(*at));
        unheard.chain(&self.overtaken).collect()
    }

    /// Whether a question was revoked before it came, which asks these legs.
    pub(super) fn is_marked(&self, ask: &Ask, legs: &[Leg], now: Millis) -> bool {
        let mut places = held_places(ask, legs);
        places.any(|at| self.marks.get(&at).is_some_and(|end| *end > now))
    }

    pub(super) fn grant(&mut self, ask: &Ask, legs: &[Leg], now: Millis) {
        for at in held_places(ask, legs) {
            assert!(!self.gone.contains(&at), "{at:?} was revoked");
            self.ends.insert(at, now.plus(HELD_FOR));
        }
    }

    /// Carries out a letter about a hold; `None`: it is something else.
    pub(super) fn letter(
        &mut self,
        step: &str,
        hold: Option<u64>,
        tag: &str,
        now: Millis,
    ) -> Option<&'static str> {
        let at = (hold?, tag.to_owned());
        let is_held = self.ends.get(&at).is_some_and(|end| *end > now);
        let (step, outcome) = match step.split_once('+') {
            Some((step, outcome)) => (step, Some(outcome)),
            None => (step, None),
        };
        if let Some(outcome) = outcome {
            assert_eq!(
                self.told.get(&at).map(String::as_str),
                Some(outcome),
                "{at:?}"
            );
            self.heard.insert(at.clone(), outcome.to_owned());
        }
        match step {
            "LetGo" => {
                if self.told.contains_key(&at) && !self.heard.contains_key(&at) {
                    self.overtaken.insert(at.clone());
                }
                self.ends.remove(&at);
                self.gone.insert(at);
                Some("k")
            }
            "Revoke" => {
                self.ends.remove(&at);
                if !is_held {
                    self.marks.insert(at.clone(), now.plus(MARKED_FOR));
                }
                self.gone.insert(at);
                Some("d")
            }
            step if step.starts_with("Keep") && is_held => {
                assert!(!self.gone.contains(&at), "{at:?} was let go");
                self.ends.insert(at, now.plus(HELD_FOR));
                Some("k")
            }
            step => step.starts_with("Keep").then_some("l"),
        }
    }
}

fn place(ask: &Ask, leg: Leg) -> Place {
    let wanted = ask.wanted.as_ref().expect("a hold");
    (wanted.id.0, fake::leg_tag(ask, leg))
}

fn held_places(ask: &Ask, legs: &[Leg]) -> impl Iterator<Item = Place> {
    let held = legs.iter().filter(|leg| ask.holds_on(**leg));
    held.map(|leg| place(ask, *leg))
}

/// The legs that a question asks, by the name of its step; `None`: that is no question.
pub(super) fn legs(ask: &Ask, step: &str) -> Option<Vec<Leg>> {
    let is_asked = |leg: &Leg| step == "Whole" || fake::name(Step::Part(*leg)) == step;
    is_question(step).then(|| ask.legs().filter(is_asked).collect())
}

pub(super) fn is_question(step: &str) -> bool {
    matches!(step, "Whole" | "Owner" | "Address" | "Subject0")
}

/// The step of an item, its hash tag, whose it is, and the hold that it wants. Whoever wants one goes by its
/// number, others have theirs in their name.
pub(super) fn parts(item: &str) -> (&str, &str, u64, Option<u64>) {
    let [step, tag, owner] = item
        .split('|')
        .collect::<Vec<_>>()
        .try_into()
        .expect("three");
    let number = |text: &str| text.parse::<u64>().expect("a number");
    if let Some((_, hold)) = owner.split_once('#') {
        return (step, tag, number(hold), Some(number(hold)));
    }
    let name = match owner.trim_end_matches("+ip") {
        "-" => tag.trim_start_matches("ip="),
        name => name,
    };
    (step, tag, number(name.trim_start_matches('s')), None)
}
