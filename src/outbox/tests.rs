//! Tests of `outbox`: each letter ends somewhere, whatever becomes of the calls.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use proptest::prelude::*;
use tollgate_config::Millis;

use super::{Hold, KEPT_FOR, Letter, MOST_LETTERS, Outbox};
use crate::attempt::Outcome;
use crate::client_ip::Address;
use crate::hold::{HoldId, Keep};
use crate::store::Leg;
use crate::store::script::{Item, Step};
use crate::store::{Ask, Subject};
use crate::testing::{a_lease, box_terms, meter};

const T0: Millis = Millis(1_743_465_600_000);

fn item(id: u64, step: Step) -> Item {
    let subject = Subject::Anonymous {
        address: Address::Other(b"i".to_vec()),
        meter: meter(10, 60, 10),
        ip_meter: None,
    };
    let ask = Rc::new(Ask {
        subject,
        cost: 1,
        shadow: false,
        grace: Millis(1000),
        penalty: box_terms(),
        wanted: Some(a_lease(id)),
    });
    Item { ask, step }
}

fn id_of(letter: &Letter) -> HoldId {
    letter.item().ask.wanted.as_ref().expect("a hold").id
}

/// It failed by these throttles.
fn failed(failed: u32) -> Keep {
    let outcome = Outcome {
        started: T0,
        failed,
        succeeded: false,
    };
    Keep {
        outcome: Some(outcome),
        ..Keep::ON
    }
}

/// By which throttles a letter says that attempts failed.
fn told(letter: &Letter) -> Option<u32> {
    match letter.item().step {
        Step::Keep(_, keep) => keep.outcome.map(|outcome| outcome.failed),
        _ => None,
    }
}

#[test]
fn a_clock_that_is_set_back_makes_nobody_wait() {
    let mut outbox = Outbox::default();
    outbox.tell(item(1, Step::Revoke(Leg::Owner)), "t:a", T0);
    let letter = outbox.take(1, |_| true).remove(0);
    outbox.in_doubt(letter, T0);
    assert!(outbox.due(T0).is_none());
    assert!(outbox.due(Millis(T0.0 - 3_600_000)).is_some());
}

#[test]
fn what_comes_back_after_its_time_is_dropped() {
    let mut outbox = Outbox::default();
    outbox.tell(item(1, Step::Revoke(Leg::Owner)), "t:a", T0);
    let letter = outbox.take(1, |_| true).remove(0);
    outbox.in_doubt(letter, T0.plus(KEPT_FOR));
    assert!(outbox.is_empty() && !outbox.has("t:a"));
    assert_eq!(outbox.take_dropped(), 1);
    assert_eq!(outbox.take_dropped(), 0);
}

#[test]
fn what_was_taken_keeps_its_room() {
    let mut outbox = Outbox::default();
    let mut id = 0..;
    let mut tell = |outbox: &mut Outbox| {
        let id = id.next().expect("more");
        outbox.tell(item(id, Step::Revoke(Leg::Owner)), "t:a", T0)
    };
    for _ in 0..MOST_LETTERS {
        assert!(tell(&mut outbox));
    }
    let taken = outbox.take(64, |_| true);
    assert!(!tell(&mut outbox));
    for letter in taken {
        outbox.in_doubt(letter, T0);
    }
    assert_eq!(outbox.len(), MOST_LETTERS);
    assert_eq!(outbox.take_dropped(), 1);
    let taken = outbox.take(1, |_| true).remove(0);
    outbox.delivered(taken);
    assert!(tell(&mut outbox));
}

#[test]
fn each_leg_of_a_hold_has_a_letter_of_its_own() {
    let mut outbox = Outbox::default();
    let legs = [Leg::Owner, Leg::Subject(0), Leg::Subject(1)];
    for step in [Keep::ON, Keep::NOTHING] {
        for (leg, tag) in legs.into_iter().zip(["t:a", "s:x", "s:y"]) {
            outbox.tell(item(1, Step::Keep(leg, step)), tag, T0);
        }
    }
    let letters = outbox.take(9, |_| true);
    let steps: Vec<Step> = letters.iter().map(|letter| letter.item().step).collect();
    assert_eq!(steps, legs.map(|leg| Step::Keep(leg, Keep::NOTHING)));
}

#[test]
fn the_first_outcome_stays_until_it_is_told() {
    let keep = |keep| Step::Keep(Leg::Owner, keep);
    let let_go = Keep {
        outcome: failed(1).outcome,
        ..Keep::NOTHING
    };
    for (steps, expected) in [
        (vec![keep(Keep::ON), keep(failed(1))], keep(failed(1))),
        (vec![keep(failed(1)), keep(Keep::ON)], keep(failed(1))),
        (vec![keep(failed(1)), keep(failed(2))], keep(failed(1))),
        (vec![keep(failed(1)), keep(Keep::NOTHING)], keep(let_go)),
        (vec![keep(Keep::NOTHING), keep(failed(1))], keep(let_go)),
        (
            vec![keep(failed(1)), Step::Revoke(Leg::Owner)],
            keep(let_go),
        ),
        (
            vec![Step::Revoke(Leg::Owner), keep(failed(1))],
            keep(let_go),
        ),
        (
            vec![Step::Revoke(Leg::Owner), keep(Keep::ON)],
            Step::Revoke(Leg::Owner),
        ),
    ] {
        // What is told later waits, or what was told before comes back.
        for taken in [false, true] {
            let mut outbox = Outbox::default();
            let mut steps = steps.clone().into_iter();
            outbox.tell(item(1, steps.next().expect("two")), "t:a", T0);
            let letters = outbox.take(usize::from(taken), |_| true);
            outbox.tell(item(1, steps.next().expect("two")), "t:a", T0);
            for letter in letters {
                outbox.in_doubt(letter, T0);
            }
            let letter = outbox.take(9, |_| true).remove(0);
            assert_eq!((letter.item().step, outbox.len()), (expected, 0));
        }
    }
}

#[derive(Debug, Clone)]
enum Op {
    Tell(u64, u8, bool),
    Take(usize, u8),
    Settle(Vec<u8>),
    Time(u32),
    Lend(usize, u8),
    GiveBack,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0_u64..12, 0_u8..8, any::<bool>())
            .prop_map(|(id, step, subject)| Op::Tell(id, step, subject)),
        3 => (0_usize..6, 0_u8..4).prop_map(|(most, tag)| Op::Take(most, tag)),
        3 => prop::collection::vec(0_u8..4, 8).prop_map(Op::Settle),
        2 => prop_oneof![4 => 0_u32..3000, 1 => 0_u32..80_000].prop_map(Op::Time),
        1 => (0_usize..6, 0_u8..4).prop_map(|(most, tag)| Op::Lend(most, tag)),
        1 => Just(Op::GiveBack),
    ]
}

fn tag(id: u64, leg: Leg) -> String {
    format!("t:{}", (id + u64::from(leg != Leg::Owner)) % 3)
}

fn leg_of(letter: &Letter) -> Leg {
    letter.hold().map_or(Leg::Owner, |(_, leg)| leg)
}

fn is_of(letter: &Letter, tag: u8) -> bool {
    tag == 3 || letter.tag() == format!("t:{tag}")
}

/// An outbox, what was taken from it, and one that it lends to.
#[derive(Default)]
struct World {
    now: Millis,
    outbox: Outbox,
    taken: Vec<Letter>,
    other: Option<Outbox>,
    told: u64,
    delivered: u64,
    dropped: u64,
    replaced: u64,
    /// Outcomes that were told and not delivered, in their order.
    outcomes: HashMap<Hold, Vec<u32>>,
}

impl World {
    fn waiting(&self) -> usize {
        self.outbox.len() + self.other.as_ref().map_or(0, Outbox::len) + self.taken.len()
    }

    fn all(&self) -> u64 {
        self.waiting() as u64 + self.delivered + self.dropped
    }

    fn play(&mut self, op: &Op) {
        match op {
            Op::Tell(id, step, subject) => {
                let leg = if *subject {
                    Leg::Subject(0)
                } else {
                    Leg::Owner
                };
                let (step, leg) = match step {
                    0 => (Step::Keep(leg, Keep::ON), leg),
                    1 => (Step::Keep(leg, Keep::NOTHING), leg),
                    2 => (Step::Revoke(leg), leg),
                    3 => (Step::Undo, Leg::Owner),
                    4 => (Step::GiveBack, Leg::Owner),
                    _ => {
                        // Each is another one.
                        let one = u32::try_from(self.told).expect("few");
                        let outcomes = self.outcomes.entry((HoldId(*id), leg)).or_default();
                        outcomes.push(one);
                        (Step::Keep(leg, failed(one)), leg)
                    }
                };
                let tag = tag(*id, leg);
                assert!(self.outbox.tell(item(*id, step), &tag, self.now));
                self.told += 1;
            }
            Op::Take(most, tag) => {
                let taken = self.outbox.take(*most, |letter| is_of(letter, *tag));
                assert!(taken.len() <= *most);
                let lent = self.other.iter().flat_map(|o| o.letters.values());
                let away: HashSet<Hold> =
                    lent.chain(&self.taken).filter_map(Letter::hold).collect();
                let mut told_again = taken.iter().filter_map(Letter::hold);
                assert!(!told_again.any(|hold| away.contains(&hold)), "overtakes");
                self.taken.extend(taken);
            }
            Op::Settle(fates) => {
                for fate in fates {
                    let Some(letter) = self.taken.pop() else {
                        break;
                    };
                    match fate {
                        0 => {
                            self.delivered += 1;
                            self.hear(&letter);
                            self.outbox.delivered(letter);
                        }
                        1 => self.outbox.put_back(letter, self.now),
                        2 => self.outbox.not_sent(letter, self.now),
                        _ => self.outbox.in_doubt(letter, self.now),
                    }
                }
            }
            Op::Time(ms) => {
                self.now = self.now.plus(Millis(u64::from(*ms)));
                self.outbox.expire(self.now);
            }
            Op::Lend(most, tag) => {
                let mut other = self.other.take().unwrap_or_default();
                let lent = self.outbox.lend(&mut other, *most, |l| is_of(l, *tag));
                assert!(lent <= *most);
                self.other = Some(other);
            }
            Op::GiveBack => {
                if let Some(mut other) = self.other.take() {
                    self.outbox.inherit(&mut other, self.now);
                }
            }
        }
        let dropped = self.outbox.take_dropped();
        self.dropped += dropped;
        self.look_for_outcomes(dropped > 0);
        // Whatever is neither there nor delivered nor dropped was replaced, which only what was told of
        // the same hold later does.
        self.replaced = self.told - self.all();
    }

    /// A letter is delivered, and with it an outcome.
    fn hear(&mut self, letter: &Letter) {
        if let (Some(hold), Some(failed)) = (letter.hold(), told(letter)) {
            let outcomes = self.outcomes.get_mut(&hold).expect("it was told");
            assert_eq!(outcomes.remove(0), failed, "the first one is told first");
        }
    }

    /// The first outcome of each hold is in some letter until it is delivered, unless something was dropped.
    /// Later ones may have been replaced by it.
    fn look_for_outcomes(&mut self, dropped: bool) {
        let other = self.other.iter().flat_map(|other| other.letters.values());
        let waiting = self.outbox.letters.values().chain(other);
        let there: HashSet<(Hold, u32)> = waiting
            .chain(&self.taken)
            .filter_map(|letter| Some((letter.hold()?, told(letter)?)))
            .collect();
        for (hold, outcomes) in &mut self.outcomes {
            let is_there = |failed: &u32| there.contains(&(*hold, *failed));
            let first = outcomes.first();
            assert!(dropped || first.is_none_or(is_there), "{hold:?} is lost");
            outcomes.retain(is_there);
        }
    }

    fn check(&self) {
        let letters = || self.outbox.letters.values();
        let holds: Vec<Hold> = letters().filter_map(Letter::hold).collect();
        let distinct: HashSet<Hold> = holds.iter().copied().collect();
        assert_eq!(holds.len(), distinct.len(), "one letter a hold and leg");
        for tag in ["t:0", "t:1", "t:2"] {
            let has = letters().any(|letter| letter.tag() == tag);
            assert_eq!(self.outbox.has(tag), has, "{tag}");
        }
        for letter in letters() {
            assert!(letter.due.0 <= self.now.0 + 2000);
            assert_eq!(letter.tag(), tag(id_of(letter).0, leg_of(letter)));
        }
    }
}

proptest! {
    #[test]
    fn every_letter_is_delivered_or_dropped_or_replaced(
        ops in prop::collection::vec(op(), 1..200),
    ) {
        let mut world = World { now: T0, ..World::default() };
        for op in &ops {
            let before = world.replaced;
            world.play(op);
            let may_replace = !matches!(op, Op::Take(..) | Op::Lend(..) | Op::Time(_));
            prop_assert!(may_replace || world.replaced == before, "{op:?}");
            world.check();
        }
        world.play(&Op::GiveBack);
        let all = world.taken.len();
        world.play(&Op::Settle(vec![2; all]));
        // All is well: everything that waits can be taken, and is delivered.
        while !world.outbox.is_empty() {
            world.play(&Op::Take(5, 3));
            prop_assert!(!world.taken.is_empty(), "nothing is stuck");
            world.play(&Op::Settle(vec![0; 5]));
            world.check();
        }
        prop_assert_eq!(world.outbox.away, 0);
        prop_assert!(world.outbox.holds.is_empty() && world.outbox.tags.is_empty());
        prop_assert!(world.outbox.busy.is_empty());
        prop_assert_eq!(world.told, world.delivered + world.dropped + world.replaced);
    }
}
