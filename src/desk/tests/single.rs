//! Random stories of streams that each make their own calls, and of the common desk that tells the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use proptest::prelude::*;
use proptest::sample::Index;
use tollgate_config::{Front as Dialect, Millis, Topology};

use super::T0;
use super::fake::{self, Fake};
use super::holds::{Holds, Place, Ran, is_question, legs, outcome as told, parts, ran};
use crate::desk::line::MOST_ITEMS;
use crate::desk::{Answer, Asked, Desk, Notice, Outgoing};
use crate::hold::Keep;
use crate::store::Ask;
use crate::store::front::{Raw, StoreFault};
use crate::verdict::Verdict;

#[derive(Debug, Clone)]
enum Op {
    Ask(u8),
    /// The call of a stream comes back; `None`: with a good answer.
    Return(Index, Option<Ran>),
    /// The stream is over while its call is in flight.
    Leave(Index, Ran),
    /// One that holds something goes on, or ends.
    Renew(Index),
    End(Index),
    /// It becomes known what became of its attempts.
    Hear(Index, u8),
    /// The common desk's turn, and what comes of its call.
    Turn(Option<Ran>),
    /// The host refuses the common desk's call.
    Refuse,
    Time(u16),
}

fn outcome() -> impl Strategy<Value = Option<Ran>> {
    prop_oneof![2 => Just(None), 1 => ran().prop_map(Some)]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => any::<u8>().prop_map(Op::Ask),
        6 => (any::<Index>(), outcome()).prop_map(|(which, how)| Op::Return(which, how)),
        2 => (any::<Index>(), ran()).prop_map(|(which, ran)| Op::Leave(which, ran)),
        3 => any::<Index>().prop_map(Op::Renew),
        3 => any::<Index>().prop_map(Op::End),
        4 => (any::<Index>(), any::<u8>()).prop_map(|(which, what)| Op::Hear(which, what)),
        2 => outcome().prop_map(Op::Turn),
        1 => Just(Op::Refuse),
        3 => prop_oneof![9 => 0_u16..300, 1 => 0_u16..10_000].prop_map(Op::Time),
    ]
}

struct World {
    desk: Desk<Fake>,
    now: Millis,
    asked: u32,
    /// Streams with a call in flight.
    own: BTreeMap<u32, (Desk<Fake>, Outgoing)>,
    /// What was asked.
    asks: BTreeMap<u32, Rc<Ask>>,
    /// Streams that hold something, and whether they told what became of their attempts.
    owned: BTreeMap<u32, bool>,
    holds: Holds,
    /// Calls that are carried out later.
    late: Vec<(Millis, Vec<String>)>,
    /// Of which letters left that let go or revoke.
    ending: BTreeSet<Place>,
    /// Letters that are told only once and were sent in vain.
    lost: u64,
    dropped: u64,
}

impl World {
    fn play(&mut self, op: &Op) {
        match op {
            Op::Ask(who) => self.ask(*who),
            Op::Return(which, how) => {
                if let Some(id) = pick(&self.own, which) {
                    self.come_back(id, *how);
                }
            }
            Op::Leave(which, ran) => {
                if let Some((id, (mut own, out))) =
                    pick(&self.own, which).and_then(|id| self.own.remove_entry(&id))
                {
                    self.run(&out, *ran);
                    own.left(id);
                    self.desk.inherit(&mut own);
                }
            }
            Op::Renew(which) => {
                if let Some(id) = pick(&self.owned, which) {
                    self.tell(id, Keep::ON);
                }
            }
            Op::End(which) => {
                if let Some(id) = pick(&self.owned, which) {
                    self.owned.remove(&id);
                    self.tell(id, Keep::NOTHING);
                }
            }
            Op::Hear(which, what) => {
                if let Some(id) = pick(&self.owned, which)
                    && self.owned.insert(id, true) == Some(false)
                {
                    self.tell(id, told(*what));
                }
            }
            Op::Turn(how) => self.turn(*how),
            Op::Refuse => {
                if let Some(out) = self.desk.next_call(self.now) {
                    let fault = StoreFault::NoCluster;
                    self.desk.dispatch_failed(out.id, fault, self.now);
                }
            }
            Op::Time(ms) => {
                self.now = self.now.plus(Millis(u64::from(*ms)));
                self.catch_up();
            }
        }
        for notice in self.desk.notices() {
            if let Notice::Dropped(letters) = notice {
                self.dropped += letters;
            }
        }
    }

    fn tell(&mut self, id: u32, keep: Keep) {
        let ask = &self.asks[&id];
        self.holds.tell(ask, keep);
        self.desk.keep(ask, keep, self.now);
    }

    fn ask(&mut self, who: u8) {
        let id = self.asked;
        self.asked += 1;
        let tenant = ["t", "u"][usize::from(who % 2)];
        let ip = (who / 2 % 2 == 1).then_some("i");
        let ask = match who / 4 % 3 {
            0 => fake::credential("i", who.is_multiple_of(5)),
            _ => fake::key(tenant, "k", ip),
        };
        let ask = match who / 12 % 3 {
            0 => fake::with_lease(&ask, u64::from(id)),
            1 => fake::attempt(&ask, u64::from(id), ip, Some("x")),
            _ => fake::attempt(
                &fake::with_lease(&ask, u64::from(id)),
                u64::from(id),
                ip,
                Some("x"),
            ),
        };
        self.asks.insert(id, Rc::clone(&ask));
        let mut own = self.desk.another();
        let asked = own.ask(id, ask, self.now);
        if asked == (Asked::Waiting { kick: true })
            && let Some(out) = self.next_of(&mut own)
        {
            self.own.insert(id, (own, out));
        } else {
            self.desk.inherit(&mut own);
        }
    }

    /// The next call of a stream's own desk, ahead of which goes what was told.
    fn next_of(&mut self, own: &mut Desk<Fake>) -> Option<Outgoing> {
        self.desk.lend(own);
        let out = own.next_call(self.now)?;
        self.sent(&out);
        Some(out)
    }

    fn come_back(&mut self, id: u32, how: Option<Ran>) {
        let (mut own, out) = self.own.remove(&id).expect("in flight");
        self.answer(&mut own, &out, how);
        if let Some(out) = self.next_of(&mut own) {
            self.own.insert(id, (own, out));
            return;
        }
        let (answered, answer) = own.ready().expect("an answer");
        assert_eq!(answered, id);
        if matches!(answer, Answer::Decided(Verdict::Allowed(..), _)) {
            self.owned.insert(id, false);
        }
        self.desk.inherit(&mut own);
    }

    fn ask_of(&self, id: u64) -> Rc<Ask> {
        let id = u32::try_from(id).expect("a stream's");
        Rc::clone(&self.asks[&id])
    }

    fn turn(&mut self, how: Option<Ran>) {
        let mut desk = self.desk.another();
        std::mem::swap(&mut desk, &mut self.desk);
        if let Some(out) = desk.next_call(self.now) {
            self.sent(&out);
            self.answer(&mut desk, &out, how);
        }
        std::mem::swap(&mut desk, &mut self.desk);
    }

    fn answer(&mut self, desk: &mut Desk<Fake>, out: &Outgoing, how: Option<Ran>) {
        let (status, body): (&[u8], _) = match how {
            None => {
                let (_, items) = fake::commands(&out.call).remove(0);
                let words = self.carry_out(&items);
                (b"200", fake::answer(&out.call, &[Ok(words)]))
            }
            Some(ran) => {
                self.run(out, ran);
                (b"504", Vec::new())
            }
        };
        let raw = Raw {
            status: Some(status),
            body: &body,
        };
        desk.returned(out.id, raw, self.now);
    }

    /// Nobody hears of a call.
    fn run(&mut self, out: &Outgoing, ran: Ran) {
        let (_, items) = fake::commands(&out.call).remove(0);
        let once = |item: &&String| matches!(parts(item).0, "Undo" | "GiveBack");
        self.lost += items.iter().filter(once).count() as u64;
        match ran {
            Ran::Never => {}
            Ran::Before => drop(self.carry_out(&items)),
            Ran::After(ms) => {
                let at = self.now.plus(Millis(u64::from(ms)));
                self.late.push((at, items));
            }
        }
    }

    fn catch_up(&mut self) {
        let now = self.now;
        let late: Vec<_> = self.late.extract_if(.., |(at, _)| *at <= now).collect();
        for (_, items) in late {
            self.carry_out(&items);
        }
    }

    fn carry_out(&mut self, items: &[String]) -> Vec<String> {
        let now = self.now;
        let mut words = Vec::new();
        for item in items {
            let (step, tag, id, hold) = parts(item);
            let ask = self.ask_of(id);
            let legs = legs(&ask, step).unwrap_or_default();
            let word = match (self.holds.letter(step, hold, tag, now), step) {
                (Some(word), _) => word,
                (None, step) if is_question(step) => {
                    if self.holds.is_marked(&ask, &legs, now) {
                        "d"
                    } else {
                        self.holds.grant(&ask, &legs, now);
                        if matches!(step, "Whole" | "Owner") {
                            "a"
                        } else {
                            "p"
                        }
                    }
                }
                (None, _) => "d",
            };
            words.push(word.to_owned());
        }
        words
    }

    /// Letters go first, and nothing is held on that was let go.
    fn sent(&mut self, out: &Outgoing) {
        let (_, items) = fake::commands(&out.call).remove(0);
        assert!((1..=MOST_ITEMS).contains(&items.len()));
        for (i, item) in items.iter().enumerate() {
            let (step, tag, id, hold) = parts(item);
            if is_question(step) {
                assert_eq!(i + 1, items.len());
                self.check_left(id, step, i);
                continue;
            }
            let place = |hold: Option<u64>| (hold.expect("a hold"), tag.to_owned());
            match step.split('+').next() {
                Some("LetGo" | "Revoke") => {
                    self.ending.insert(place(hold));
                }
                Some("Undo" | "GiveBack") => {}
                _ => assert!(!self.ending.contains(&place(hold)), "{item} was let go"),
            }
        }
    }

    /// A question leaves nothing behind that it could take along.
    fn check_left(&mut self, id: u64, step: &str, letters: usize) {
        let ask = self.ask_of(id);
        for leg in legs(&ask, step).unwrap_or_default() {
            let tag = fake::leg_tag(&ask, leg);
            let left = self.desk.outbox.take_of(&tag, 1);
            let all = left.is_empty() || !ask.heeds_on(leg) || letters >= MOST_ITEMS / 2;
            assert!(all, "{step} of {id} overtakes what is told under {tag}");
            for letter in left {
                self.desk.outbox.put_back(letter, self.now);
            }
        }
    }

    fn end(&mut self) {
        while let Some(id) = self.own.keys().next().copied() {
            self.come_back(id, None);
        }
        // A quiet minute.
        for _ in 0..240 {
            self.play(&Op::Time(250));
            for _ in 0..3 {
                self.play(&Op::Turn(None));
            }
        }
        assert!(self.late.is_empty() && self.dropped >= self.lost);
        assert!(!self.desk.wants_call(self.now) && self.desk.letters() == 0);
        // What was told may have been dropped after a minute in vain: it has run out by itself.
        let all_told = self.dropped == self.lost;
        for (hold, tag) in self.holds.all() {
            let id = u32::try_from(*hold).expect("a stream's");
            let ended = self.owned.contains_key(&id) || !all_told;
            assert!(
                ended,
                "{id} holds something under {tag}, and nobody lets it go"
            );
        }
        let lost = self.holds.lost();
        assert!(lost.is_empty() || !all_told, "outcomes are lost: {lost:?}");
    }
}

fn pick<T>(of: &BTreeMap<u32, T>, which: &Index) -> Option<u32> {
    let ids: Vec<u32> = of.keys().copied().collect();
    (!ids.is_empty()).then(|| *which.get(&ids))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn every_story_of_single_streams_ends_well(
        cluster in any::<bool>(),
        ops in prop::collection::vec(op(), 1..80),
    ) {
        let topology = if cluster { Topology::Cluster } else { Topology::Standalone };
        let mut world = World {
            desk: fake::desk(Dialect::Webdis, topology),
            now: T0,
            asked: 0,
            own: BTreeMap::new(),
            asks: BTreeMap::new(),
            owned: BTreeMap::new(),
            holds: Holds::default(),
            late: Vec::new(),
            ending: BTreeSet::new(),
            lost: 0,
            dropped: 0,
        };
        for op in &ops {
            world.play(op);
        }
        world.end();
    }
}
