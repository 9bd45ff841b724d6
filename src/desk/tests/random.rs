//! Random stories of a desk, against what its streams, its host and its store saw.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use proptest::prelude::*;
use tollgate_config::{Front as Dialect, Millis, Topology};

use super::fake::{self, FAILURES, Fake, OPEN_FOR, TIMEOUT};
use super::holds::{Holds, Place, Ran, is_question, legs, outcome as told, parts, ran};
use super::{NOSCRIPT, T0};
use crate::desk::line::MOST_ITEMS;
use crate::desk::{Answer, Asked, Desk, Notice, Outgoing};
use crate::hold::Keep;
use crate::store::front::{Raw, StoreFault};
use crate::store::{Ask, Leg};
use crate::verdict::Verdict;

#[derive(Debug, Clone)]
enum Op {
    /// So many streams ask, of a tenant or an address.
    Ask {
        streams: u8,
        who: u8,
    },
    /// One of the streams that asked leaves.
    Leave {
        which: prop::sample::Index,
    },
    /// One of those that hold something goes on, or ends.
    Renew {
        which: prop::sample::Index,
    },
    End {
        which: prop::sample::Index,
    },
    /// It becomes known what became of its attempts.
    Hear {
        which: prop::sample::Index,
        what: u8,
    },
    /// The call in flight comes back.
    Return(Outcome),
    /// The host refuses the call.
    Refuse,
    /// Milliseconds go by.
    Time(u16),
    /// The host wakes the desk.
    Wake,
}

#[derive(Debug, Clone)]
enum Outcome {
    /// The store decided, by these bits.
    Good(u64),
    /// Of the commands, by these bits: good, the script is missing, an error.
    Mixed(u64),
    NoScript,
    /// An error of Redis to everything.
    Error(&'static str),
    /// No 200; whether the script ran nevertheless.
    Status(Option<&'static [u8]>, Ran),
    /// Not an answer to that.
    Garbage(Vec<u8>),
    /// An answer too many.
    TooMany,
    /// An answer too few.
    TooFew,
    /// The answer to another call.
    Another,
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let errors = [
        "READONLY You can't write against a read only replica.",
        "OOM command not allowed",
        "LOADING Redis is loading the dataset in memory",
        "ERR something",
    ];
    let statuses: [Option<&'static [u8]>; 6] = [
        None,
        Some(b"503"),
        Some(b"504"),
        Some(b"401"),
        Some(b"500"),
        Some(b"404"),
    ];
    prop_oneof![
        8 => any::<u64>().prop_map(Outcome::Good),
        2 => any::<u64>().prop_map(Outcome::Mixed),
        1 => Just(Outcome::NoScript),
        1 => prop::sample::select(errors.to_vec()).prop_map(Outcome::Error),
        2 => (prop::sample::select(statuses.to_vec()), ran())
            .prop_map(|(status, ran)| Outcome::Status(status, ran)),
        1 => prop::collection::vec(any::<u8>(), 0..30).prop_map(Outcome::Garbage),
        1 => Just(Outcome::TooMany),
        1 => Just(Outcome::TooFew),
        1 => Just(Outcome::Another),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (prop_oneof![9 => 1_u8..5, 1 => 60_u8..90], any::<u8>())
            .prop_map(|(streams, who)| Op::Ask { streams, who }),
        3 => any::<prop::sample::Index>().prop_map(|which| Op::Leave { which }),
        3 => any::<prop::sample::Index>().prop_map(|which| Op::Renew { which }),
        3 => any::<prop::sample::Index>().prop_map(|which| Op::End { which }),
        4 => (any::<prop::sample::Index>(), any::<u8>())
            .prop_map(|(which, what)| Op::Hear { which, what }),
        8 => outcome().prop_map(Op::Return),
        1 => Just(Op::Refuse),
        4 => prop_oneof![9 => 0_u16..15, 1 => 0_u16..2500].prop_map(Op::Time),
        3 => Just(Op::Wake),
    ]
}

/// One stream: it asks once.
#[derive(Debug)]
struct Stream {
    asked: Millis,
    left: bool,
    answer: Option<Answer>,
    ask: Rc<Ask>,
    /// It let go what it held.
    ended: bool,
    /// It told what became of its attempts.
    told: bool,
}

impl Stream {
    fn is_allowed(&self) -> bool {
        matches!(self.answer, Some(Answer::Decided(Verdict::Allowed(..), _)))
    }

    /// Something is held for it.
    fn owns(&self) -> bool {
        self.ask.wanted.is_some() && self.is_allowed() && !self.ended
    }
}

/// What the store holds for one stream.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Held {
    /// Points of its own buckets.
    own: i32,
    /// Points of its address, where that is asked apart.
    address: i32,
    /// That is the case.
    apart: bool,
    /// A call about it had no good answer though it was carried out: what it holds may stay.
    in_doubt: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    No {
        failures: u32,
    },
    Since(Millis),
    Probing,
    /// The probe said neither: the next call is one.
    Due,
}

struct World {
    desk: Desk<Fake>,
    dialect: Dialect,
    /// The host wakes the desk as it should, and takes answers at once.
    prompt: bool,
    now: Millis,
    flight: Option<(Outgoing, Millis, Broken)>,
    streams: BTreeMap<u32, Stream>,
    held: BTreeMap<u64, Held>,
    failed_at_once: BTreeSet<u32>,
    broken: Broken,
    opened: i32,
    /// What is held in the store.
    holds: Holds,
    /// Of which letters left that let go or revoke.
    ending: BTreeSet<Place>,
    /// Calls that are carried out later.
    late: Vec<(Millis, Vec<String>)>,
    /// Letters that are told only once and were sent in vain.
    lost: u64,
    /// Letters that the desk dropped.
    dropped: u64,
}

impl World {
    fn new(dialect: Dialect, topology: Topology, prompt: bool) -> Self {
        Self {
            desk: fake::desk(dialect, topology),
            dialect,
            prompt,
            now: T0,
            flight: None,
            streams: BTreeMap::new(),
            held: BTreeMap::new(),
            failed_at_once: BTreeSet::new(),
            broken: Broken::No { failures: 0 },
            opened: 0,
            holds: Holds::default(),
            ending: BTreeSet::new(),
            late: Vec::new(),
            lost: 0,
            dropped: 0,
        }
    }

    fn play(&mut self, op: &Op) {
        match op {
            Op::Ask { streams, who } => (0..*streams).for_each(|_| self.ask(*who)),
            Op::Leave { which } => {
                let all: Vec<u32> = self.streams.keys().copied().collect();
                if !all.is_empty() {
                    let id = *which.get(&all);
                    self.desk.left(id);
                    let stream = self.streams.get_mut(&id).expect("it asked");
                    stream.left |= stream.answer.is_none();
                }
            }
            Op::Renew { which } => self.tell(which, Keep::ON),
            Op::End { which } => self.tell(which, Keep::NOTHING),
            Op::Hear { which, what } => self.tell(which, told(*what)),
            Op::Return(outcome) => self.come_back(outcome),
            Op::Refuse => {
                if let Some((out, ..)) = self.flight.take() {
                    let fault = StoreFault::Unreachable;
                    self.desk.dispatch_failed(out.id, fault, self.now);
                    self.failure();
                }
            }
            Op::Time(ms) => {
                let then = self.now.plus(Millis(u64::from(*ms)));
                // The host gives a call up at its timeout.
                while let Some((out, sent, _)) = &self.flight {
                    let end = sent.plus(out.timeout);
                    if end > then {
                        break;
                    }
                    self.now = end;
                    let ran = [Ran::Never, Ran::Before, Ran::After(*ms)];
                    let ran = ran[usize::from(ms % 3)];
                    self.come_back(&Outcome::Status(Some(b"504"), ran));
                    self.settle();
                }
                self.now = then;
            }
            Op::Wake => self.wake(),
        }
        self.catch_up();
        self.settle();
    }

    /// Something is told of what one of the streams holds.
    fn tell(&mut self, which: &prop::sample::Index, keep: Keep) {
        let all: Vec<u32> = self.streams.keys().copied().collect();
        if all.is_empty() {
            return;
        }
        let id = *which.get(&all);
        let stream = self.streams.get_mut(&id).expect("it asked");
        if !stream.owns() || (keep.outcome.is_some() && stream.told) {
            return;
        }
        stream.ended = keep == Keep::NOTHING;
        stream.told |= keep.outcome.is_some();
        self.holds.tell(&stream.ask, keep);
        self.desk.keep(&stream.ask, keep, self.now);
    }

    /// Calls that come late are carried out.
    fn catch_up(&mut self) {
        let now = self.now;
        for (_, items) in self
            .late
            .extract_if(.., |(at, _)| *at <= now)
            .collect::<Vec<_>>()
        {
            self.carry_out(&items, u64::MAX, false);
        }
    }

    /// What a prompt host does at the end of each callback.
    fn settle(&mut self) {
        if self.prompt {
            self.wake();
            self.take();
        }
        for notice in self.desk.notices() {
            match notice {
                Notice::Opened { failures, .. } => {
                    assert_eq!(failures, FAILURES);
                    self.opened += 1;
                }
                Notice::Recovered => self.opened -= 1,
                Notice::Dropped(letters) => self.dropped += letters,
                _ => {}
            }
        }
        let open = !matches!(self.broken, Broken::No { .. });
        assert_eq!(self.opened, i32::from(open), "a gauge of what is open");
    }

    fn ask(&mut self, who: u8) {
        let id = u32::try_from(self.streams.len()).expect("few");
        let name = format!("s{id}");
        let tenant = ["t", "u", "v"][usize::from(who % 3)];
        let (ip, subject) = (
            ["i", "j"][usize::from(who / 9 % 2)],
            ["x", "y"][id as usize % 2],
        );
        let has_lease = who / 18 % 2 == 1;
        let throttled = [None, None, Some(None), Some(Some(ip))][usize::from(who / 36 % 4)];
        let ask = match (who / 3 % 3, throttled, has_lease) {
            (0, ..) => fake::key(tenant, &name, None),
            (1, ..) => fake::key(tenant, &name, Some(ip)),
            (_, Some(_), _) => fake::credential(ip, who.is_multiple_of(5)),
            (_, None, true) => fake::anonymous(ip),
            // An address is its own name: what it holds is told by that.
            (_, None, false) => fake::anonymous(&name),
        };
        let ask = match has_lease {
            true => fake::with_lease(&ask, u64::from(id)),
            false => ask,
        };
        let ask = match throttled {
            Some(by_ip) => fake::attempt(&ask, u64::from(id), by_ip, Some(subject)),
            None => ask,
        };
        let asked = self.desk.ask(id, Rc::clone(&ask), self.now);
        let away = match self.broken {
            Broken::Since(since) => self.now < since.plus(OPEN_FOR),
            Broken::Probing => true,
            Broken::No { .. } | Broken::Due => false,
        };
        let expected_fault = Asked::Failed(StoreFault::Breaker);
        assert_eq!(asked == expected_fault, away, "{:?}", self.broken);
        let mut stream = Stream {
            asked: self.now,
            left: false,
            answer: None,
            ask,
            ended: false,
            told: false,
        };
        if let Asked::Failed(fault) = asked {
            stream.answer = Some(Answer::Failed(fault));
            self.failed_at_once.insert(id);
        }
        self.streams.insert(id, stream);
    }

    fn wake(&mut self) {
        let out = self.desk.next_call(self.now);
        if self.flight.is_some() {
            assert_eq!(out, None, "one call is in flight at a time");
        }
        let Some(out) = out else {
            return;
        };
        assert_eq!(out.timeout, TIMEOUT);
        let before = self.broken;
        match self.broken {
            Broken::Since(since) => assert!(self.now >= since.plus(OPEN_FOR)),
            Broken::Probing => panic!("a second probe"),
            Broken::No { .. } | Broken::Due => {}
        }
        if !matches!(before, Broken::No { .. }) {
            self.broken = Broken::Probing;
        }
        let items: usize = fake::commands(&out.call).iter().map(|c| c.1.len()).sum();
        assert!((1..=MOST_ITEMS).contains(&items));
        for (_, items) in fake::commands(&out.call) {
            self.check_order(&items);
        }
        self.flight = Some((out, self.now, before));
        assert_eq!(self.desk.next_call(self.now), None);
    }

    fn ask_of(&self, id: u64) -> Rc<Ask> {
        let id = u32::try_from(id).expect("a stream's");
        Rc::clone(&self.streams[&id].ask)
    }

    /// Letters go ahead of questions under the same hash tag, and nothing is held on that was let go.
    fn check_order(&mut self, items: &[String]) {
        let mut asked = BTreeSet::new();
        for item in items {
            let (step, tag, id, hold) = parts(item);
            let ask = self.ask_of(id);
            if let Some(legs) = legs(&ask, step) {
                for leg in legs {
                    let tag = fake::leg_tag(&ask, leg);
                    let left_behind = ask.heeds_on(leg) && self.desk.outbox.has(&tag);
                    assert!(!left_behind, "{item} overtakes what is told of others");
                    asked.insert(tag);
                }
                continue;
            }
            assert!(!asked.contains(tag), "{item} is behind a question");
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

    fn take(&mut self) {
        while let Some((id, answer)) = self.desk.ready() {
            let stream = self.streams.get_mut(&id).expect("it asked");
            assert!(!stream.left, "{id} is gone");
            assert_eq!(stream.answer, None, "{id} has its answer");
            if self.prompt {
                assert!(
                    self.now.since(stream.asked) < TIMEOUT.plus(TIMEOUT),
                    "{id} waited too long"
                );
            }
            stream.answer = Some(answer);
        }
        assert!(!self.desk.has_ready());
    }

    /// What a call asks becomes true, and how the store says so.
    fn carry_out(&mut self, items: &[String], bits: u64, known: bool) -> Vec<String> {
        let (mut words, now) = (Vec::new(), self.now);
        for (i, item) in items.iter().enumerate() {
            let (step, tag, id, hold) = parts(item);
            if let Some(word) = self.holds.letter(step, hold, tag, now) {
                words.push(word.to_owned());
                continue;
            }
            let ask = self.ask_of(id);
            let legs = legs(&ask, step).unwrap_or_default();
            let pays = |leg: Leg| i32::from(ask.pays_on(leg));
            let held = self.held.entry(id).or_default();
            held.in_doubt |= !known;
            let yes = bits >> (i % 64) & 3 != 0;
            let word = match (step, yes) {
                (step, _) if is_question(step) && self.holds.is_marked(&ask, &legs, now) => "d",
                ("Whole" | "Owner", true) => {
                    held.own += pays(Leg::Owner);
                    self.holds.grant(&ask, &legs, now);
                    "a"
                }
                ("Address" | "Subject0", true) => {
                    if step == "Address" {
                        held.address += pays(Leg::Address);
                        held.apart = true;
                    }
                    self.holds.grant(&ask, &legs, now);
                    "p"
                }
                ("Undo", _) => {
                    held.own -= 1;
                    "d"
                }
                ("GiveBack", _) => {
                    held.address -= 1;
                    "d"
                }
                ("Subject0", false) => ["q", "n"][i % 2],
                (_, false) if i % 2 == 0 => "b",
                _ => "t",
            };
            assert!(held.own >= 0 && held.address >= 0, "{item} was not granted");
            assert!(held.own <= 1 && held.address <= 1, "{item} was asked twice");
            words.push(word.to_owned());
        }
        words
    }

    /// What a call asked has no good answer: a question's effect is unknown, an undo is dropped.
    fn doubt(&mut self, items: &[String]) {
        for item in items {
            let (step, _, id, _) = parts(item);
            let points = matches!(step, "Undo" | "GiveBack");
            self.lost += u64::from(points);
            if points || is_question(step) {
                self.held.entry(id).or_default().in_doubt = true;
            }
        }
    }

    fn come_back(&mut self, outcome: &Outcome) {
        let Some((out, _, before)) = self.flight.take() else {
            return;
        };
        let commands = fake::commands(&out.call);
        let error = |text: &str| Err(text.to_owned());
        let loads = |verb: &str| verb == "EVAL";
        let mut good = false;
        let mut missing = false;
        let mut bad = false;
        let mut replies = Vec::new();
        let mut reply = |world: &mut Self, verb: &str, items: &[String], kind: u64, bits: u64| {
            let reply = match kind {
                0 => {
                    good = true;
                    Ok(world.carry_out(items, bits, true))
                }
                1 if !loads(verb) => {
                    missing = true;
                    error(NOSCRIPT)
                }
                1 => {
                    bad = true;
                    error(NOSCRIPT)
                }
                _ => {
                    bad = true;
                    world.doubt(items);
                    error("CLUSTERDOWN The cluster is down")
                }
            };
            replies.push(reply);
        };
        let mut body = None;
        let mut status: Option<&[u8]> = Some(b"200");
        match outcome {
            Outcome::Good(bits) => {
                for (verb, items) in &commands {
                    reply(self, verb, items, 0, *bits);
                }
            }
            Outcome::Mixed(bits) => {
                for (i, (verb, items)) in commands.iter().enumerate() {
                    reply(self, verb, items, (bits >> (i % 32 * 2)) & 3, *bits);
                }
            }
            Outcome::NoScript => {
                for (verb, items) in &commands {
                    reply(self, verb, items, 1, 0);
                }
            }
            Outcome::Error(text) => {
                bad = true;
                for (_, items) in &commands {
                    self.doubt(items);
                    replies.push(error(text));
                }
            }
            other => {
                bad = true;
                let mut words: Vec<Vec<String>> = Vec::new();
                for (_, items) in &commands {
                    self.doubt(items);
                    match other {
                        Outcome::Status(_, Ran::Never) => {}
                        Outcome::Status(_, Ran::After(ms)) => {
                            let at = self.now.plus(Millis(u64::from(*ms)));
                            self.late.push((at, items.clone()));
                        }
                        _ => words.push(self.carry_out(items, u64::MAX, false)),
                    }
                }
                match other {
                    Outcome::Status(code, _) => status = *code,
                    Outcome::Garbage(bytes) => body = Some(bytes.clone()),
                    Outcome::Another => {}
                    Outcome::TooMany => words.iter_mut().for_each(|w| w.push("a".to_owned())),
                    _ => words.iter_mut().for_each(|w| drop(w.pop())),
                }
                replies = words.into_iter().map(Ok).collect();
            }
        }
        let body = body.unwrap_or_else(|| match (self.dialect, replies.as_slice()) {
            (Dialect::Webdis, []) => b"upstream request timeout".to_vec(),
            _ if matches!(outcome, Outcome::Another) => fake::said(
                self.dialect,
                &vec!["000000000000c0de.0.0".to_owned(); replies.len()],
                &replies,
            ),
            _ => fake::answer(&out.call, &replies),
        });
        let raw = Raw {
            status,
            body: &body,
        };
        self.desk.returned(out.id, raw, self.now);
        match (good, bad, missing) {
            (true, ..) => self.broken = Broken::No { failures: 0 },
            (false, true, _) => self.failure(),
            _ if matches!(before, Broken::No { .. }) => {}
            _ => self.broken = Broken::Due,
        }
    }

    fn failure(&mut self) {
        self.broken = match self.broken {
            Broken::No { failures } if failures + 1 < FAILURES => Broken::No {
                failures: failures + 1,
            },
            _ => Broken::Since(self.now),
        };
    }

    /// The store is well, and everything is over.
    fn end(&mut self) {
        self.play(&Op::Time(5000));
        let calls = 4 * self.streams.len() + 10;
        for _ in 0..calls {
            self.wake();
            self.take();
            self.come_back(&Outcome::Good(u64::MAX));
            self.settle();
        }
        self.take();
        // A quiet minute.
        for _ in 0..240 {
            self.now = self.now.plus(Millis(250));
            self.catch_up();
            for _ in 0..3 {
                self.wake();
                self.come_back(&Outcome::Good(u64::MAX));
                self.settle();
            }
        }
        self.wake();
        assert!(self.flight.is_none(), "it comes to an end");
        assert!(!self.desk.wants_call(self.now) && self.desk.letters() == 0);
        assert!(self.late.is_empty() && self.dropped >= self.lost);
        // Everything flows again.
        let id = u32::try_from(self.streams.len()).expect("few");
        self.ask(0);
        self.wake();
        self.come_back(&Outcome::Good(u64::MAX));
        self.take();
        let answer = self.streams[&id].answer.clone();
        assert!(matches!(
            answer,
            Some(Answer::Decided(Verdict::Allowed(..), _))
        ));

        // What was told may have been dropped after a minute in vain: it has run out by itself.
        let all_told = self.dropped == self.lost;
        for (hold, tag) in self.holds.all() {
            let id = u32::try_from(*hold).expect("a stream's");
            let ended = self.streams[&id].owns() || !all_told;
            assert!(
                ended,
                "{id} holds something under {tag}, and nobody lets it go"
            );
        }
        let lost = self.holds.lost();
        assert!(lost.is_empty() || !all_told, "outcomes are lost: {lost:?}");
        for (id, stream) in &self.streams {
            assert_eq!(
                stream.answer.is_some(),
                !stream.left,
                "{id} gets an answer unless it left: {stream:?}"
            );
            let held = self.held.get(&u64::from(*id)).copied().unwrap_or_default();
            if self.failed_at_once.contains(id) {
                assert_eq!(held, Held::default(), "{id} was not asked");
            }
            if held.in_doubt || !all_told {
                continue;
            }
            let allowed = stream.is_allowed();
            let paid = |leg| i32::from(allowed && stream.ask.pays_on(leg));
            assert_eq!(held.own, paid(Leg::Owner), "{id}: {stream:?} {held:?}");
            let address = if held.apart { paid(Leg::Address) } else { 0 };
            assert_eq!(held.address, address, "{id}: {stream:?} {held:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn every_story_ends_well(
        upstash in any::<bool>(),
        cluster in any::<bool>(),
        prompt in any::<bool>(),
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let dialect = if upstash { Dialect::Upstash } else { Dialect::Webdis };
        let topology = if cluster { Topology::Cluster } else { Topology::Standalone };
        let mut world = World::new(dialect, topology, prompt);
        for op in &ops {
            world.play(op);
        }
        world.end();
    }
}
