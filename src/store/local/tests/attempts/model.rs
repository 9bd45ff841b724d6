//! Whatever is attempted, fails, succeeds, is told late or never, revoked, too late or past, in any order, by two
//! workers: what is decided and noticed is what an independent model says, which knows lists and no pages.

use proptest::test_runner::TestCaseError;
use tollgate_config::Stuffing;

use super::*;
use crate::store::local::record::Entry;
use crate::verdict::Obstacle;

const WITHIN: u64 = 100_000;
const LEVELS: [u64; 3] = [40_000, 90_000, 200_000];
const MEMORY: u64 = 300_000;
/// Failures, subjects, the window, the ban.
const STUFFING: (u32, u32, u64, u64) = (5, 2, 200_000, 120_000);

/// The throttles that there are: name, whose, failures, provisional, spares, resets.
const MENU: [(&str, Who, u32, bool, bool, bool); 6] = [
    ("spares", Who::Subject(0), 2, true, true, true),
    ("ip", Who::Ip, 3, true, false, false),
    ("pair", Who::Pair(0), 2, true, false, true),
    ("shared", Who::Subject(0), 3, true, false, true),
    // Only failures count for it, with places of the same window in flight that are others'.
    ("loose", Who::Subject(0), 2, false, true, false),
    ("loose-ip", Who::Ip, 4, false, false, true),
];

/// In a page that is too small notes are lost, and failures without a place may find no room.
const TIGHT_MENU: [usize; 3] = [1, 2, 3];

#[derive(Debug, Clone)]
enum Act {
    /// A request asks. `early`: its call is under way for now.
    Ask { made: Made, early: bool },
    /// One of the calls that are under way comes.
    Arrive(usize),
    /// One of those that were let through has an outcome: by which it failed, and whether it succeeded.
    Outcome(usize, u32, bool),
    /// One of those that were let through is revoked.
    Revoke(usize),
    /// One of those that were let through is let go, with no word of what became of it.
    LetGo(usize),
    /// One of those whose calls are under way is revoked.
    Overtake(usize),
    /// Time goes on.
    Wait(u64),
}

/// A request in numbers that a failing case can be shrunk by.
#[derive(Debug, Clone)]
struct Made {
    /// Presents credentials, is anonymous, or a tenant's; or the first in shadow.
    how: u8,
    from: u8,
    subject: u8,
    list: Vec<usize>,
    lock: Option<u8>,
    stuffing: bool,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let list = prop::collection::vec(0..MENU.len(), 1..4);
    let how = prop_oneof![5 => Just(0u8), 1 => Just(1), 3 => Just(2), 1 => Just(3)];
    let lock = prop::option::weighted(0.15, 0..2u8);
    let made = (how, 1..4u8, 0..2u8, list, lock, prop::bool::weighted(0.4)).prop_map(
        |(how, from, subject, mut list, lock, stuffing)| {
            let mut seen = BTreeSet::new();
            list.retain(|one| seen.insert(*one));
            Made {
                how,
                from,
                subject,
                list,
                lock,
                stuffing,
            }
        },
    );
    let failed = prop_oneof![3 => Just(u32::MAX), 2 => Just(0u32), 1 => any::<u32>()];
    let act = prop_oneof![
        10 => (made, prop::bool::weighted(0.1)).prop_map(|(made, early)| Act::Ask { made, early }),
        2 => any::<usize>().prop_map(Act::Arrive),
        9 => (any::<usize>(), failed, prop::bool::weighted(0.3))
            .prop_map(|(of, failed, succeeded)| Act::Outcome(of, failed, succeeded)),
        1 => any::<usize>().prop_map(Act::Revoke),
        1 => any::<usize>().prop_map(Act::LetGo),
        1 => any::<usize>().prop_map(Act::Overtake),
        4 => prop_oneof![6 => 1..2000u64, 3 => 1..70_000u64, 1 => 30_000..400_000u64].prop_map(Act::Wait),
    ];
    prop::collection::vec(act, 1..150)
}

fn question(made: &Made, id: u64, tight: bool) -> Ask {
    let ask = match made.how {
        1 => anonymous(made.from),
        2 => key("t", "a"),
        _ => credential(made.from),
    };
    let one = |which: &usize| {
        let (name, who, failures, provisional, spares, resets) = MENU[*which];
        Attempt {
            throttle: ThrottleId(*which),
            name: name.into(),
            who,
            failures,
            within: Millis(WITHIN),
            // Offenses may be lost from a page that is too small.
            levels: if tight { [LEVELS[0]; 3] } else { LEVELS }.map(Millis),
            max_level: if who == Who::Ip { 3 } else { 2 },
            offense_memory: Millis(MEMORY),
            provisional,
            spares,
            resets,
        }
    };
    let (failures, subjects, within, ban) = STUFFING;
    let looked_for = Stuffing {
        failures,
        subjects,
        within: Millis(within),
    };
    let attempts = Attempts {
        address: address(made.from),
        subjects: vec![Id::hashed(&[made.subject])],
        list: made.list.iter().map(one).collect(),
        stuffing: made.stuffing.then_some((looked_for, Millis(ban))),
    };
    Ask {
        cost: 0,
        shadow: made.how == 3,
        wanted: Some(Wanted {
            attempts: Some(Rc::new(attempts)),
            lock: made.lock.map(|named| Id::of(&[b'r', b'0' + named])),
            ..Wanted::nothing(HoldId(id))
        }),
        ..ask
    }
}

/// What was asked, and what came of it.
struct Request {
    made: Made,
    id: u64,
    ask: Ask,
    under_way: bool,
    /// When it was let through, while its outcome may be told.
    started: Option<u64>,
}

#[derive(Debug, PartialEq)]
enum Expected {
    Revoked,
    Boxed(Lockout),
    Locked(AuthLockout),
    Busy,
    Taken(u64),
    Allowed,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Member {
    /// Fails then, unless its outcome is told.
    Flying(u64, u64),
    Failed(u64),
    /// Whose outcome counts no more until then.
    Mark(u64, u64),
}

impl Member {
    const fn id(self) -> Option<u64> {
        match self {
            Self::Flying(id, _) | Self::Mark(id, _) => Some(id),
            Self::Failed(_) => None,
        }
    }

    const fn score(self) -> Option<u64> {
        match self {
            Self::Flying(_, at) | Self::Failed(at) => Some(at),
            Self::Mark(..) => None,
        }
    }
}

#[derive(Debug, Default, Clone)]
struct Held {
    lockout: Option<Lockout>,
    offenses: u32,
    remembered_until: u64,
}

#[derive(Default)]
struct Model {
    now: u64,
    tight: bool,
    windows: BTreeMap<String, Vec<Member>>,
    held: BTreeMap<String, Held>,
    /// From where a subject succeeded, and when.
    known: BTreeMap<(bool, u8, u8), u64>,
    /// Until when, how often, for whom an address failed.
    stuffing: BTreeMap<(bool, u8), (u64, u32, BTreeSet<u8>)>,
    /// Who holds which lock until when.
    locks: BTreeMap<String, (u64, u64)>,
    /// Whose calls are not to be let through until when.
    revoked: BTreeMap<u64, u64>,
}

/// Window and lockout.
type Place = (String, String);

impl Model {
    fn is_known(&self, made: &Made) -> bool {
        let at = self.known.get(&(made.how == 3, made.subject, made.from));
        at.is_some_and(|at| at + 30 * 24 * HOUR > self.now)
    }

    fn places(made: &Made, which: usize) -> [Place; 2] {
        let Made { from, subject, .. } = made;
        let sh = if made.how == 3 { "sh:" } else { "" };
        let (name, who, ..) = MENU[which];
        let shared = match who {
            Who::Ip => (format!("{sh}ip{from}/{name}"), format!("{sh}ip{from}")),
            _ => (format!("{sh}s{subject}/{name}"), format!("{sh}s{subject}")),
        };
        let pair = format!("{sh}s{subject}/from{from}");
        [shared, (format!("{pair}/{name}"), pair)]
    }

    /// The place of an attempt.
    fn place(&self, made: &Made, which: usize) -> Place {
        let [shared, pair] = Self::places(made, which);
        let (_, who, _, _, spares, _) = MENU[which];
        match who {
            Who::Pair(_) => pair,
            Who::Subject(_) if spares && self.is_known(made) => pair,
            _ => shared,
        }
    }

    fn lockout(&self, held: &str) -> Option<Lockout> {
        let lockout = self.held.get(held)?.lockout;
        lockout.filter(|lockout| lockout.until.0 > self.now)
    }

    fn failed(&self, window: &str) -> usize {
        let scores = self.windows.get(window).into_iter().flatten();
        let scores = scores.filter_map(|member| member.score());
        scores
            .filter(|at| *at <= self.now && at + WITHIN > self.now)
            .count()
    }

    fn pending(&self, window: &str) -> usize {
        let scores = self.windows.get(window).into_iter().flatten();
        let scores = scores.filter_map(|member| member.score());
        scores.filter(|at| *at > self.now).count()
    }

    fn lock(made: &Made) -> Option<String> {
        let owner = match made.how {
            2 => "t".to_owned(),
            3 => format!("sh:{}", made.from),
            _ => made.from.to_string(),
        };
        made.lock.map(|named| format!("{owner}/{named}"))
    }

    fn decide(&mut self, request: &Request) -> Expected {
        let (made, now) = (&request.made, self.now);
        if self
            .revoked
            .get(&request.id)
            .is_some_and(|until| *until > now)
        {
            return Expected::Revoked;
        }
        let by_ip = made.list.iter().any(|which| MENU[*which].1 == Who::Ip);
        let box_of = self.lockout(&Self::places(made, 1)[0].1);
        if let (Some(boxed), true) = (box_of, made.how != 2 && !by_ip) {
            return Expected::Boxed(boxed);
        }
        let mut last: Option<AuthLockout> = None;
        for (attempt, which) in made.list.iter().enumerate() {
            let lockout = self.lockout(&self.place(made, *which).1);
            let Some(lockout) = lockout else { continue };
            if last.is_none_or(|last| lockout.until > last.lockout.until) {
                let tripped = false;
                last = Some(AuthLockout {
                    attempt,
                    lockout,
                    tripped,
                });
            }
        }
        if let Some(locked) = last {
            return Expected::Locked(locked);
        }
        for (attempt, which) in made.list.iter().enumerate() {
            let (window, held) = self.place(made, *which);
            let (_, who, failures, provisional, ..) = MENU[*which];
            let (failed, pending) = (self.failed(&window), self.pending(&window));
            if failed >= failures as usize {
                let lockout = self.trip(&window, &held, who);
                return Expected::Locked(AuthLockout {
                    attempt,
                    lockout,
                    tripped: true,
                });
            }
            if provisional && failed + pending >= failures as usize {
                return Expected::Busy;
            }
        }
        let lock = Self::lock(made);
        if let Some((_, until)) = lock.as_ref().and_then(|lock| self.locks.get(lock))
            && *until > now
        {
            return Expected::Taken(until - now);
        }
        Expected::Allowed
    }

    /// What is let through takes its places.
    fn take(&mut self, request: &Request) {
        let until = self.now + MINUTE;
        for which in &request.made.list {
            if MENU[*which].3 {
                let (window, _) = self.place(&request.made, *which);
                let window = self.windows.entry(window).or_default();
                window.push(Member::Flying(request.id, until));
            }
        }
        if let Some(lock) = Self::lock(&request.made) {
            self.locks.insert(lock, (request.id, until));
        }
    }

    fn trip(&mut self, window: &str, held: &str, who: Who) -> Lockout {
        self.clear(window);
        let now = self.now;
        let most = if who == Who::Ip { 3 } else { 2 };
        let held = self.held.entry(held.to_owned()).or_default();
        if held.remembered_until <= now {
            held.offenses = 0;
        }
        held.offenses += 1;
        held.remembered_until = now + MEMORY;
        let level = held.offenses.min(most) as u8;
        let time = LEVELS[if self.tight {
            0
        } else {
            usize::from(level) - 1
        }];
        let until = Millis(now + time);
        *held.lockout.insert(Lockout { level, until })
    }

    /// What failed is forgotten; and of what ran out lately, the outcome counts no more for a minute.
    fn clear(&mut self, window: &str) {
        let now = self.now;
        let window = self.windows.entry(window.to_owned()).or_default();
        for member in window.iter_mut() {
            *member = match *member {
                Member::Flying(id, at) if at <= now && now - at < 120_000 => {
                    Member::Mark(id, now + MINUTE)
                }
                Member::Flying(_, at) | Member::Failed(at) if at <= now => Member::Failed(0),
                other => other,
            };
        }
    }

    fn remove(&mut self, window: &str, id: u64) {
        if let Some(members) = self.windows.get_mut(window) {
            members.retain(|m| !(matches!(m, Member::Flying(..)) && m.id() == Some(id)));
        }
    }

    /// Whether it is there, or a mark in its place.
    fn has(&self, window: &str, id: u64) -> bool {
        let mut members = self.windows.get(window).into_iter().flatten();
        members.any(|member| match member {
            // What counts no more is as good as gone.
            Member::Flying(of, at) => *of == id && at + WITHIN > self.now,
            Member::Mark(of, until) => *of == id && *until > self.now,
            Member::Failed(_) => false,
        })
    }

    fn is_marked(&self, window: &str, id: u64) -> bool {
        let mut members = self.windows.get(window).into_iter().flatten();
        members.any(|m| matches!(m, Member::Mark(of, until) if *of == id && *until > self.now))
    }

    fn tell(&mut self, request: &Request, started: u64, failed: u32, succeeded: bool) -> Vec<Sign> {
        let (made, id, now) = (&request.made, request.id, self.now);
        let mut signs = Vec::new();
        let mut all = Vec::new();
        // Whether what failed by the address had been counted already.
        let mut of_address = Vec::new();
        for which in &made.list {
            let [shared, pair] = Self::places(made, *which);
            let (_, who, _, _, spares, _) = MENU[*which];
            let place = match who {
                Who::Subject(_) if spares && self.has(&pair.0, id) => pair,
                Who::Subject(_) if spares && self.has(&shared.0, id) => shared,
                _ => self.place(made, *which),
            };
            let locked = self.lockout(&place.1).is_some();
            all.push((*which, place, locked));
        }
        for (index, (which, (window, held), locked)) in all.into_iter().enumerate() {
            let (_, who, failures, .., resets) = MENU[which];
            if failed & (1 << index) == 0 {
                self.remove(&window, id);
                if succeeded && resets {
                    self.clear(&window);
                }
                continue;
            }
            if who == Who::Ip {
                of_address.push(!self.is_marked(&window, id));
            }
            if self.is_marked(&window, id) {
                continue;
            }
            self.remove(&window, id);
            if locked || started + WITHIN <= now {
                continue;
            }
            let members = self.windows.entry(window.clone()).or_default();
            members.push(Member::Failed(started));
            if self.failed(&window) >= failures as usize {
                let lockout = self.trip(&window, &held, who);
                signs.push(Sign::Locked(index, lockout));
            }
        }
        let spared = |(index, which): (usize, &usize)| MENU[*which].4 && failed & (1 << index) == 0;
        if succeeded && made.list.iter().enumerate().any(spared) {
            let at = self.known.entry((made.how == 3, made.subject, made.from));
            let at = at.or_insert(now);
            if now - *at > HOUR {
                *at = now;
            }
        }
        let is_news = of_address.is_empty() || of_address.contains(&true);
        if failed != 0 && made.stuffing && is_news {
            signs.extend(self.stuff(made).map(Sign::Stuffing));
        }
        self.locks.retain(|_, (holder, _)| *holder != id);
        signs
    }

    fn stuff(&mut self, made: &Made) -> Option<Lockout> {
        let (failures, distinct, within, ban) = STUFFING;
        let now = self.now;
        let of = (made.how == 3, made.from);
        let counted = self.stuffing.entry(of).or_default();
        if counted.0 <= now {
            *counted = (now + within, 0, BTreeSet::new());
        }
        counted.1 += 1;
        counted.2.insert(made.subject);
        if counted.1 < failures || counted.2.len() < distinct as usize {
            return None;
        }
        self.stuffing.remove(&of);
        let [(_, held), _] = Self::places(made, 1);
        let held = self.held.entry(held).or_default();
        let remembered = held.remembered_until > now;
        held.offenses = if remembered { held.offenses.max(3) } else { 3 };
        held.remembered_until = now + MEMORY;
        let until = Millis(now + ban);
        Some(*held.lockout.insert(Lockout { level: 3, until }))
    }

    fn revoke(&mut self, request: &Request) {
        for members in self.windows.values_mut() {
            members.retain(|m| !matches!(m, Member::Flying(of, _) if *of == request.id));
        }
        self.locks.retain(|_, (holder, _)| *holder != request.id);
        let made = &request.made;
        let holds = made.lock.is_some() || made.list.iter().any(|which| MENU[*which].3);
        if request.under_way && holds {
            self.revoked.insert(request.id, self.now + MINUTE);
        }
    }

    /// What ran out has failed.
    fn let_go(&mut self, request: &Request) {
        let now = self.now;
        for members in self.windows.values_mut() {
            let flies =
                |m: &Member| matches!(m, Member::Flying(of, at) if *of == request.id && *at > now);
            members.retain(|member| !flies(member));
        }
        self.locks.retain(|_, (holder, _)| *holder != request.id);
    }

    /// Of what takes places in flight no more can fail in a window than may.
    fn check(&self) -> Result<(), TestCaseError> {
        for window in self.windows.keys() {
            let name = window.rsplit('/').next().unwrap();
            let (.., failures, provisional, _, _) = MENU.into_iter().find(|m| m.0 == name).unwrap();
            let all = self.failed(window) + self.pending(window);
            prop_assert!(
                !provisional || all <= failures as usize,
                "{}: {}",
                window,
                all
            );
        }
        Ok(())
    }
}

/// Two workers, a model beside them, and everybody who asked so far.
struct Run {
    workers: [Local<Heap>; 2],
    heap: Heap,
    model: Model,
    requests: Vec<Request>,
}

impl Run {
    fn new(room: Option<usize>) -> Self {
        let heap = Heap::default();
        let worker = || match room {
            None => open(heap.clone()),
            Some(room) => {
                let size = 16 + 48 * room;
                Local::open(heap.clone(), Bytes(size as u64), size, SECRET)
            }
        };
        Self {
            workers: [worker(), worker()],
            heap: heap.clone(),
            model: Model {
                now: NOW.0,
                tight: room.is_some(),
                ..Model::default()
            },
            requests: Vec::new(),
        }
    }

    fn play(&mut self, number: usize, act: Act) -> Result<(), TestCaseError> {
        self.workers.swap(0, number % 2);
        let now = Millis(self.model.now);
        match act {
            Act::Wait(time) => self.model.now += time,
            Act::Ask { mut made, early } => {
                if self.model.tight {
                    made.stuffing = false;
                    made.list.retain(|which| TIGHT_MENU.contains(which));
                    if made.list.is_empty() {
                        made.list.push(1);
                    }
                }
                let id = 100 + self.requests.len() as u64;
                let ask = question(&made, id, self.model.tight);
                self.requests.push(Request {
                    made,
                    id,
                    ask,
                    under_way: early,
                    started: None,
                });
                if !early {
                    self.arrive(self.requests.len() - 1)?;
                }
            }
            Act::Arrive(of) => {
                if let Some(at) = self.one(of, |request| request.under_way) {
                    self.requests[at].under_way = false;
                    self.arrive(at)?;
                }
            }
            Act::Outcome(of, failed, succeeded) => {
                let Some(at) = self.one(of, |request| request.started.is_some()) else {
                    return Ok(());
                };
                let request = &mut self.requests[at];
                let started = request.started.take().unwrap();
                if self.model.tight && failed != 0 && now.0 >= started + MINUTE {
                    // There may have been no room for the mark that says that it was counted.
                    return Ok(());
                }
                let told = Keep {
                    outcome: Some(Outcome {
                        started: Millis(started),
                        failed,
                        succeeded,
                    }),
                    ..Keep::NOTHING
                };
                let kept = self.workers[0].keep(&request.ask, told, now);
                let Some(kept) = kept else {
                    return Err(TestCaseError::fail("no room for an outcome"));
                };
                let request = &self.requests[at];
                let expected = self.model.tell(request, started, failed, succeeded);
                let all = |signs: Vec<Sign>| -> BTreeSet<String> {
                    let signs = signs.into_iter().map(|sign| self.comparable(sign));
                    signs.map(|sign| format!("{sign:?}")).collect()
                };
                prop_assert!(kept.all);
                prop_assert_eq!(all(kept.signs), all(expected), "{:?}", request.ask);
            }
            Act::Revoke(of) => {
                if let Some(at) = self.one(of, |request| request.started.is_some()) {
                    self.requests[at].started = None;
                    self.revoke(at)?;
                }
            }
            Act::LetGo(of) => {
                if let Some(at) = self.one(of, |request| request.started.is_some()) {
                    self.requests[at].started = None;
                    let request = &self.requests[at];
                    let kept = self.workers[0].keep(&request.ask, Keep::NOTHING, now);
                    prop_assert!(kept.is_some_and(|kept| kept.all && kept.signs.is_empty()));
                    self.model.let_go(request);
                }
            }
            Act::Overtake(of) => {
                // In a page that is too small there may be no room for the mark.
                if let (Some(at), false) = (self.one(of, |r| r.under_way), self.model.tight) {
                    self.revoke(at)?;
                }
            }
        }
        self.model.check()
    }

    fn one(&self, of: usize, which: impl Fn(&Request) -> bool) -> Option<usize> {
        let all = (0..self.requests.len()).filter(|at| which(&self.requests[*at]));
        let all: Vec<usize> = all.collect();
        Some(all[of.checked_rem(all.len())?])
    }

    fn revoke(&mut self, at: usize) -> Result<(), TestCaseError> {
        let request = &self.requests[at];
        let now = Millis(self.model.now);
        prop_assert_eq!(self.workers[0].revoke(&request.ask, now), Some(()));
        self.model.revoke(request);
        Ok(())
    }

    /// Offenses, and so levels, may be lost from a page that is too small.
    fn comparable(&self, sign: Sign) -> Sign {
        match sign {
            Sign::Locked(index, lockout) if self.model.tight => Sign::Locked(
                index,
                Lockout {
                    level: 0,
                    ..lockout
                },
            ),
            other => other,
        }
    }

    fn arrive(&mut self, at: usize) -> Result<(), TestCaseError> {
        let now = Millis(self.model.now);
        let request = &self.requests[at];
        let before = bytes(&self.heap);
        let mut expected = self.model.decide(request);
        let (verdict, toll) = self.workers[0].decide(&request.ask, now);
        prop_assert_eq!((toll.retries, toll.lost_refunds), (0, 0));
        prop_assert!(self.model.tight || toll.evictions == 0);
        let mut found = match verdict {
            Verdict::Contended if self.model.tight && expected != Expected::Revoked => {
                // Somebody is refused who would not have to be, and that is all.
                let refused = !matches!(expected, Expected::Allowed | Expected::Taken(_));
                prop_assert!(!refused, "{:?}", expected);
                prop_assert!(toll.evictions > 0);
                return Ok(());
            }
            Verdict::Contended => Expected::Revoked,
            Verdict::Boxed(boxed) => Expected::Boxed(boxed.lockout),
            Verdict::AuthLockout(locked) => Expected::Locked(locked),
            Verdict::AuthBusy => Expected::Busy,
            Verdict::Taken(taken) => {
                prop_assert_eq!(taken.by, Obstacle::Lock);
                Expected::Taken(taken.wait.0)
            }
            Verdict::Allowed(..) => Expected::Allowed,
            other => panic!("{other:?}"),
        };
        if self.model.tight {
            for one in [&mut expected, &mut found] {
                match one {
                    Expected::Boxed(lockout) => lockout.level = 0,
                    Expected::Locked(locked) => locked.lockout.level = 0,
                    _ => {}
                }
            }
        }
        prop_assert_eq!(&found, &expected, "{:?} at {}", request.ask, now.0 - NOW.0);
        match expected {
            Expected::Allowed => {
                self.model.take(request);
                self.requests[at].started = Some(now.0);
            }
            Expected::Locked(locked) if locked.tripped => {}
            Expected::Taken(_) => {}
            _ => prop_assert_eq!(bytes(&self.heap), before, "a refusal changed something"),
        }
        Ok(())
    }

    /// Once all has ended, nothing is left of it.
    fn end(&self) -> Result<(), TestCaseError> {
        let now = Millis(self.model.now + MINUTE + WITHIN + 1000);
        for bytes in bytes(&self.heap)
            .into_iter()
            .filter(|(n, _)| !n.ends_with("/ready"))
        {
            let (entries, _) = bytes.1[16..].as_chunks::<48>();
            for entry in entries.iter().map(Entry::read) {
                let held = entry.hold().is_some() || entry.grants().is_some();
                prop_assert!(!held || entry.is_spent(now), "{:?}", entry);
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(600) })]

    #[test]
    fn any_story_is_as_the_model_says(acts in acts()) {
        let mut run = Run::new(None);
        for (number, act) in acts.into_iter().enumerate() {
            run.play(number, act)?;
        }
        run.end()?;
    }

    /// In a page that is too small somebody is refused who would not have to be, and that is all.
    #[test]
    fn however_small_the_page_no_attempt_and_no_lockout_is_forgotten(
        room in 4..24usize, acts in acts(),
    ) {
        let mut run = Run::new(Some(room));
        for (number, act) in acts.into_iter().enumerate() {
            run.play(number, act)?;
        }
        run.end()?;
    }
}
