//! Random stories of streams that each make their own calls, and of the common desk that tells the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use proptest::prelude::*;
use proptest::sample::Index;
use tollgate_config::{Front as Dialect, Millis, Topology};

use super::T0;
use super::fake::{self, Fake};
use super::holds::{Holds, Ran, parts, ran};
use crate::desk::line::MOST_ITEMS;
use crate::desk::{Answer, Asked, Desk, Notice, Outgoing};
use crate::hold::Keep;
use crate::store::Ask;
use crate::store::front::{Raw, StoreFault};
use crate::store::script::Step;
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
    /// What streams hold.
    owned: BTreeMap<u32, Rc<Ask>>,
    holds: Holds,
    /// Calls that are carried out later.
    late: Vec<(Millis, Vec<String>)>,
    /// Of which letters left that let go or revoke.
    ending: BTreeSet<u64>,
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
                    let item = fake::item(&self.owned[&id], Step::Keep(Keep::ON));
                    self.desk.tell(item, self.now);
                }
            }
            Op::End(which) => {
                if let Some(ask) = pick(&self.owned, which).and_then(|id| self.owned.remove(&id)) {
                    let item = fake::item(&ask, Step::Keep(Keep::NOTHING));
                    self.desk.tell(item, self.now);
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

    fn ask(&mut self, who: u8) {
        let id = self.asked;
        self.asked += 1;
        let tenant = ["t", "u"][usize::from(who % 2)];
        let ip = (who / 2 % 2 == 1).then_some("i");
        let ask = fake::with_lease(&fake::key(tenant, "k", ip), u64::from(id));
        let mut own = self.desk.another();
        self.desk.lend(&mut own, &ask);
        if own.ask(id, ask, self.now) == (Asked::Waiting { kick: true })
            && let Some(out) = own.next_call(self.now)
        {
            self.sent(&out);
            self.own.insert(id, (own, out));
        } else {
            self.desk.inherit(&mut own);
        }
    }

    fn come_back(&mut self, id: u32, how: Option<Ran>) {
        let (mut own, out) = self.own.remove(&id).expect("in flight");
        self.answer(&mut own, &out, how);
        if let Some(out) = own.next_call(self.now) {
            self.sent(&out);
            self.own.insert(id, (own, out));
            return;
        }
        let (answered, answer) = own.ready().expect("an answer");
        assert_eq!(answered, id);
        if matches!(answer, Answer::Decided(Verdict::Allowed(..), _)) {
            let wanted = fake::with_lease(&fake::key(self.tenant(&out), "k", None), u64::from(id));
            self.owned.insert(id, wanted);
        }
        self.desk.inherit(&mut own);
    }

    /// Whose the last question of a call was.
    fn tenant(&self, out: &Outgoing) -> &'static str {
        let (_, items) = fake::commands(&out.call).remove(0);
        match items.last().map(|item| parts(item).1) {
            Some("t=t") => "t",
            _ => "u",
        }
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
            let (step, _, _, hold) = parts(item);
            let word = match (self.holds.letter(step, hold, now), step) {
                (Some(word), _) => word,
                (None, "Whole" | "Owner") if self.holds.is_marked(hold, now) => "d",
                (None, "Whole" | "Owner") => {
                    self.holds.grant(hold, now);
                    "a"
                }
                (None, "Address") => "p",
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
            let (step, _, _, hold) = parts(item);
            match (step, hold) {
                ("Whole" | "Owner" | "Address", _) => assert_eq!(i + 1, items.len()),
                ("LetGo" | "Revoke", Some(hold)) => {
                    self.ending.insert(hold);
                }
                (step, Some(hold)) if step.starts_with("Keep") => {
                    assert!(!self.ending.contains(&hold), "{item} was let go");
                }
                _ => {}
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
        for hold in self.holds.all() {
            let id = u32::try_from(*hold).expect("a stream's");
            // What was told may have been dropped after a minute in vain: it has run out by itself.
            let ended = self.owned.contains_key(&id) || self.dropped > self.lost;
            assert!(ended, "{id} is held, and nobody lets it go");
        }
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
