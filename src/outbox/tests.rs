//! Tests of `outbox`: each letter ends somewhere, whatever becomes of the calls.

use std::collections::HashSet;
use std::rc::Rc;

use proptest::prelude::*;
use tollgate_config::Millis;

use super::{KEPT_FOR, Letter, MOST_LETTERS, Outbox};
use crate::client_ip::Address;
use crate::hold::{HoldId, Keep, LeaseWanted, Wanted};
use crate::store::script::{Item, Step};
use crate::store::{Ask, Subject};
use crate::testing::{box_terms, meter};

const T0: Millis = Millis(1_743_465_600_000);

fn item(id: u64, step: Step) -> Item {
    let lease = LeaseWanted {
        kind: "reconcile".into(),
        slots: 2,
    };
    let wanted = Wanted {
        id: HoldId(id),
        flight: None,
        lock: None,
        lease: Some(lease),
        quota: None,
    };
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
        wanted: Some(wanted),
    });
    Item { ask, step }
}

fn id_of(letter: &Letter) -> HoldId {
    letter.item().ask.wanted.as_ref().expect("a hold").id
}

#[test]
fn a_clock_that_is_set_back_makes_nobody_wait() {
    let mut outbox = Outbox::default();
    outbox.tell(item(1, Step::Revoke), "t:a", T0);
    let letter = outbox.take(1, |_| true).remove(0);
    outbox.in_doubt(letter, T0);
    assert!(outbox.due(T0).is_none());
    assert!(outbox.due(Millis(T0.0 - 3_600_000)).is_some());
}

#[test]
fn what_comes_back_after_its_time_is_dropped() {
    let mut outbox = Outbox::default();
    outbox.tell(item(1, Step::Revoke), "t:a", T0);
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
        outbox.tell(item(id, Step::Revoke), "t:a", T0)
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

#[derive(Debug, Clone)]
enum Op {
    Tell(u64, u8),
    Take(usize, u8),
    Settle(Vec<u8>),
    Time(u32),
    Lend(usize, u8),
    GiveBack,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0_u64..12, 0_u8..5).prop_map(|(id, step)| Op::Tell(id, step)),
        3 => (0_usize..6, 0_u8..4).prop_map(|(most, tag)| Op::Take(most, tag)),
        3 => prop::collection::vec(0_u8..4, 8).prop_map(Op::Settle),
        2 => prop_oneof![4 => 0_u32..3000, 1 => 0_u32..80_000].prop_map(Op::Time),
        1 => (0_usize..6, 0_u8..4).prop_map(|(most, tag)| Op::Lend(most, tag)),
        1 => Just(Op::GiveBack),
    ]
}

fn tag(id: u64) -> String {
    format!("t:{}", id % 3)
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
            Op::Tell(id, step) => {
                let step = match step {
                    0 => Step::Keep(Keep::ON),
                    1 => Step::Keep(Keep::NOTHING),
                    2 => Step::Revoke,
                    3 => Step::Undo,
                    _ => Step::GiveBack,
                };
                assert!(self.outbox.tell(item(*id, step), &tag(*id), self.now));
                self.told += 1;
            }
            Op::Take(most, tag) => {
                let taken = self.outbox.take(*most, |letter| is_of(letter, *tag));
                assert!(taken.len() <= *most);
                let lent = self.other.iter().flat_map(|o| o.letters.values());
                let lent: HashSet<HoldId> = lent.filter_map(Letter::hold).collect();
                let told_again = taken.iter().filter_map(Letter::hold);
                assert!(!told_again.clone().any(|hold| lent.contains(&hold)));
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
        self.dropped += self.outbox.take_dropped();
        // Whatever is neither there nor delivered nor dropped was replaced, which only what was told of
        // the same hold later does.
        self.replaced = self.told - self.all();
    }

    fn check(&self) {
        let letters = || self.outbox.letters.values();
        let holds: Vec<HoldId> = letters().filter_map(Letter::hold).collect();
        let distinct: HashSet<HoldId> = holds.iter().copied().collect();
        assert_eq!(holds.len(), distinct.len(), "one letter a hold");
        for tag in ["t:0", "t:1", "t:2"] {
            let has = letters().any(|letter| letter.tag() == tag);
            assert_eq!(self.outbox.has(tag), has, "{tag}");
        }
        for letter in letters() {
            assert!(letter.due.0 <= self.now.0 + 2000);
            assert_eq!(letter.tag(), tag(id_of(letter).0));
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
        prop_assert!(world.outbox.lent.is_empty());
        prop_assert_eq!(world.told, world.delivered + world.dropped + world.replaced);
    }
}
