//! A stand-in for what is held in the store, and for calls that come late.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tollgate_config::Millis;

use crate::hold::{HELD_FOR, MARKED_FOR};

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

/// What is held. What runs out is left there, to be seen.
#[derive(Debug, Default)]
pub(super) struct Holds {
    ends: BTreeMap<u64, Millis>,
    marks: BTreeMap<u64, Millis>,
    /// What was let go or revoked.
    gone: BTreeSet<u64>,
}

impl Holds {
    /// All that nobody has let go.
    pub(super) fn all(&self) -> impl Iterator<Item = &u64> {
        self.ends.keys()
    }

    pub(super) fn is_marked(&self, hold: Option<u64>, now: Millis) -> bool {
        hold.and_then(|hold| self.marks.get(&hold))
            .is_some_and(|end| *end > now)
    }

    pub(super) fn grant(&mut self, hold: Option<u64>, now: Millis) {
        if let Some(hold) = hold {
            assert!(!self.gone.contains(&hold), "{hold} was revoked");
            self.ends.insert(hold, now.plus(HELD_FOR));
        }
    }

    /// Carries out a letter about a hold; `None`: it is something else.
    pub(super) fn letter(
        &mut self,
        step: &str,
        hold: Option<u64>,
        now: Millis,
    ) -> Option<&'static str> {
        let hold = hold?;
        let is_held = self.ends.get(&hold).is_some_and(|end| *end > now);
        match step {
            "LetGo" => {
                self.ends.remove(&hold);
                self.gone.insert(hold);
                Some("k")
            }
            "Revoke" => {
                self.ends.remove(&hold);
                self.gone.insert(hold);
                if !is_held {
                    self.marks.insert(hold, now.plus(MARKED_FOR));
                }
                Some("d")
            }
            step if step.starts_with("Keep") && is_held => {
                assert!(!self.gone.contains(&hold), "{hold} was let go");
                self.ends.insert(hold, now.plus(HELD_FOR));
                Some("k")
            }
            step => step.starts_with("Keep").then_some("l"),
        }
    }
}

/// The step of an item, its hash tag, whose it is, and the hold that it wants.
pub(super) fn parts(item: &str) -> (&str, &str, &str, Option<u64>) {
    let [step, tag, owner] = item
        .split('|')
        .collect::<Vec<_>>()
        .try_into()
        .expect("three");
    let (owner, hold) = match owner.split_once('#') {
        Some((owner, hold)) => (owner, Some(hold.parse().expect("a number"))),
        None => (owner, None),
    };
    match owner.trim_end_matches("+ip") {
        "-" => (step, tag, tag.trim_start_matches("ip="), hold),
        name => (step, tag, name, hold),
    }
}
