//! Whatever is granted, held on, let go, revoked, too late or past, in any order, by two workers of a
//! page: what is decided is what an independent model says, which knows lists of holders and no pages.

use proptest::test_runner::TestCaseError;

use super::*;

/// Who asks: two keys of a tenant, another tenant, the first one in shadow, an address.
const WHO: u8 = 5;

#[derive(Debug, Clone)]
enum Act {
    /// A request asks. `early`: its call is under way for now.
    Ask { made: Made, early: bool },
    /// One of the calls that are under way comes.
    Arrive(usize),
    /// One of all requests so far keeps what it holds for so long.
    Keep(usize, [u64; 3]),
    /// One of all requests so far is revoked, whether its call came or not.
    Revoke(usize),
    /// One of those whose calls are under way is revoked.
    Overtake(usize),
    /// Time goes on.
    Wait(u64),
}

/// A request in numbers that a failing case can be shrunk by.
#[derive(Debug, Clone)]
struct Made {
    who: u8,
    cost: u64,
    flight: Option<u8>,
    lock: Option<u8>,
    lease: Option<(u8, u32)>,
    quota: Option<(u8, u32, u64)>,
}

fn made() -> impl Strategy<Value = Made> {
    let flight = prop::option::of(0..2u8);
    let lock = prop::option::of(0..2u8);
    // Mostly the same limits, which a new configuration may change on the way.
    let slots = prop_oneof![5 => Just(2u32), 1 => 1..4u32];
    let requests = prop_oneof![5 => Just(3u32), 1 => 1..9u32];
    let per = prop_oneof![5 => Just(20_000u64), 1 => 1..60u64];
    let per = per.prop_map(|per| if per < 60 { per * 1000 } else { per });
    let lease = prop::option::of((0..2u8, slots));
    let quota = prop::option::weighted(0.3, (0..2u8, requests, per));
    (0..WHO, 1..8u64, flight, lock, lease, quota).prop_map(
        |(who, cost, flight, lock, lease, quota)| Made {
            who,
            cost,
            flight,
            lock,
            lease,
            quota,
        },
    )
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let length = || prop_oneof![2 => Just(0u64), 3 => 1..90_000u64, 1 => Just(MINUTE)];
    let length = move || (length(), length(), length());
    let act = prop_oneof![
        8 => (made(), prop::bool::weighted(0.2)).prop_map(|(made, early)| Act::Ask { made, early }),
        2 => any::<usize>().prop_map(Act::Arrive),
        3 => (any::<usize>(), length()).prop_map(|(of, (a, b, c))| Act::Keep(of, [a, b, c])),
        2 => any::<usize>().prop_map(|of| Act::Keep(of, [0; 3])),
        2 => any::<usize>().prop_map(Act::Revoke),
        2 => any::<usize>().prop_map(Act::Overtake),
        4 => prop_oneof![4 => 1..3000u64, 2 => 1..70_000u64].prop_map(Act::Wait),
    ];
    prop::collection::vec(act, 1..120)
}

const BURST: u64 = 40;

fn question(made: &Made, id: u64) -> Ask {
    let mut ask = match made.who {
        0 | 3 => key("t", "a"),
        1 => key("t", "b"),
        2 => key("u", "a"),
        _ => anonymous_with_ip_limit(1, BURST),
    };
    match &mut ask.subject {
        Subject::Key {
            key_meter,
            tenant_meter,
            ..
        } => (*key_meter, *tenant_meter) = (meter(60, BURST), meter(60, BURST)),
        Subject::Anonymous { meter: first, .. } => *first = meter(60, BURST),
        Subject::Credential { .. } => {}
    }
    ask.penalty.strictness = Strictness::Off;
    let mut wanted = nothing(id);
    if let Some(named) = made.flight {
        wanted = flight(&format!("f{named}"), wanted);
    }
    if let Some(named) = made.lock {
        wanted = lock(&format!("r{named}"), wanted);
    }
    if let (Some((kind, slots)), 0..4) = (made.lease, made.who) {
        wanted = lease(&format!("l{kind}"), slots, wanted);
    }
    if let (Some((kind, requests, per)), 0..4) = (made.quota, made.who) {
        wanted = quota(&format!("q{kind}"), requests, per, wanted);
    }
    let some = wanted.is_held() || wanted.quota.is_some();
    Ask {
        cost: made.cost,
        shadow: made.who == 3,
        wanted: some.then_some(wanted),
        ..ask
    }
}

/// What was asked, and whether its call came.
struct Request {
    ask: Ask,
    owner: &'static str,
    came: bool,
}

impl Request {
    /// Lease, lock and key in flight, by their names and slots, in this order.
    fn held(&self) -> Vec<(String, u32)> {
        let Some(wanted) = &self.ask.wanted else {
            return Vec::new();
        };
        let named = |what: &str, of: &str| format!("{} {what} {of}", self.owner);
        let lease = wanted.lease.as_ref();
        let lease = lease.map(|l| (named("lease", &l.kind), l.slots));
        let lock = wanted.lock.as_ref();
        let lock = lock.map(|id| (named("lock", id.as_str()), 1));
        let flight = wanted.flight.as_ref();
        let flight = flight.map(|id| (named("flight", id.as_str()), 1));
        [lease, lock, flight].into_iter().flatten().collect()
    }

    fn id(&self) -> u64 {
        self.ask.wanted.as_ref().map_or(0, |wanted| wanted.id.0)
    }

    /// The buckets it meets, with what it takes from them.
    fn buckets(&self) -> [(String, u64); 2] {
        match &self.ask.subject {
            Subject::Key { key, .. } => {
                let first = format!("{}/{}", self.owner, key.as_str());
                [
                    (first, self.ask.cost),
                    (self.owner.to_owned(), self.ask.cost),
                ]
            }
            Subject::Anonymous { .. } => {
                let first = format!("{}/anonymous", self.owner);
                [(first, self.ask.cost), (self.owner.to_owned(), 1)]
            }
            Subject::Credential { .. } => unreachable!("none of the model's"),
        }
    }
}

#[derive(Debug, PartialEq)]
enum Expected {
    Revoked,
    Throttled,
    Taken(Obstacle, u64),
    Allowed,
}

#[derive(Default)]
struct Model {
    now: u64,
    /// Who holds what until when.
    held: BTreeMap<String, BTreeMap<u64, u64>>,
    /// What was marked, whose and until when.
    marks: BTreeMap<(String, u64), u64>,
    /// When a quota was granted.
    granted: BTreeMap<String, Vec<u64>>,
    /// When a bucket is full again: a point takes a second.
    full: BTreeMap<String, u64>,
}

impl Model {
    fn decide(&self, request: &Request) -> Expected {
        let held = request.held();
        let marked = held.first().and_then(|(name, _)| {
            let mark = (name.clone(), request.id());
            self.marks.get(&mark)
        });
        if marked.is_some_and(|until| *until > self.now) {
            return Expected::Revoked;
        }
        let short = |(name, cost): &(String, u64)| self.spent(name) + cost * 1000 > BURST * 1000;
        if request.buckets().iter().any(short) {
            return Expected::Throttled;
        }
        for (name, slots) in held.iter().rev() {
            let ends = self.held.get(name).into_iter().flat_map(BTreeMap::values);
            let ends: Vec<u64> = ends.copied().filter(|end| *end > self.now).collect();
            if ends.len() >= *slots as usize {
                let obstacle = match name.split(' ').nth(1) {
                    Some("lease") => Obstacle::Lease,
                    Some("lock") => Obstacle::Lock,
                    _ => Obstacle::Flight,
                };
                return Expected::Taken(obstacle, ends.iter().min().unwrap() - self.now);
            }
        }
        if let Some((name, quota)) = self.quota(request) {
            let of = |now: u64| {
                let granted = self.granted.get(&name).into_iter().flatten();
                granted.filter(|at| **at + quota.per.0 > now).count()
            };
            let refused = |now: &u64| of(*now) >= quota.requests as usize;
            if refused(&self.now) {
                // The wait by its meaning: the first moment at which it would not be refused.
                let ends = self.granted[&name].iter().map(|at| at + quota.per.0);
                let free = ends.filter(|end| !refused(end)).min().unwrap();
                return Expected::Taken(Obstacle::Quota, free - self.now);
            }
        }
        Expected::Allowed
    }

    fn quota(&self, request: &Request) -> Option<(String, QuotaWanted)> {
        let quota = request.ask.wanted.as_ref()?.quota.clone()?;
        Some((format!("{} quota {}", request.owner, quota.kind), quota))
    }

    /// Milliseconds until a bucket is full.
    fn spent(&self, name: &str) -> u64 {
        let full = self.full.get(name).copied().unwrap_or_default();
        full.saturating_sub(self.now)
    }

    /// Takes what was decided.
    fn take(&mut self, request: &Request, expected: &Expected) {
        for (name, cost) in request.buckets() {
            let points = match expected {
                Expected::Allowed => cost,
                Expected::Taken(..) => 1,
                _ => 0,
            };
            let full = self.now + self.spent(&name) + points * 1000;
            self.full.insert(name, full);
        }
        if *expected != Expected::Allowed {
            return;
        }
        for (name, _) in request.held() {
            let holders = self.held.entry(name).or_default();
            holders.insert(request.id(), self.now + MINUTE);
        }
        if let Some((name, quota)) = self.quota(request) {
            let granted = self.granted.entry(name).or_default();
            // What this quota does not count any more is forgotten, whatever it becomes later.
            granted.retain(|at| at + quota.per.0 > self.now);
            granted.push(self.now);
        }
    }

    fn keep(&mut self, request: &Request, keep: [u64; 3]) -> bool {
        let mut kept = true;
        for (name, _) in request.held() {
            let length = match name.split(' ').nth(1) {
                Some("lease") => keep[0],
                Some("lock") => keep[1],
                _ => keep[2],
            };
            let holders = self.held.entry(name).or_default();
            if length == 0 {
                holders.remove(&request.id());
                continue;
            }
            let now = self.now;
            match holders.get_mut(&request.id()).filter(|end| **end > now) {
                // A minute, word that a stream lives, never shortens.
                Some(end) if length == 60_000 => *end = (*end).max(now + length),
                Some(end) => *end = now + length,
                None => kept = false,
            }
        }
        kept
    }

    fn revoke(&mut self, request: &Request) {
        let mut there = false;
        let held = request.held();
        for (name, _) in &held {
            let holders = self.held.entry(name.clone()).or_default();
            there |= holders.remove(&request.id()).is_some();
        }
        if let (Some((name, _)), false) = (held.first(), there) {
            let mark = (name.clone(), request.id());
            self.marks.insert(mark, self.now + MINUTE);
        }
    }
}

/// Two workers over one page, a model beside them, and everybody who asked so far.
struct Run {
    workers: [Local<Heap>; 2],
    heap: Heap,
    /// The page may be too small for everything: then there may be refusals that the model has not.
    tight: bool,
    model: Model,
    fences: BTreeMap<String, Fence>,
    requests: Vec<Request>,
}

impl Run {
    fn new(room: usize, tight: bool) -> Self {
        let heap = Heap::default();
        let model = Model {
            now: NOW.0,
            ..Model::default()
        };
        Self {
            workers: [small(room, &heap), small(room, &heap)],
            heap,
            tight,
            model,
            fences: BTreeMap::new(),
            requests: Vec::new(),
        }
    }

    fn play(&mut self, number: usize, act: Act) -> Result<(), TestCaseError> {
        self.workers.swap(0, number % 2);
        let now = Millis(self.model.now);
        match act {
            Act::Wait(time) => self.model.now += time,
            Act::Ask { made, early } => {
                let ask = question(&made, 100 + self.requests.len() as u64);
                let owner = ["t", "t", "u", "sh:t", "ip"][usize::from(made.who)];
                let came = !early;
                self.requests.push(Request { ask, owner, came });
                if came {
                    self.arrive(self.requests.len() - 1)?;
                }
            }
            Act::Arrive(of) => {
                if let Some(at) = self.under_way(of) {
                    self.requests[at].came = true;
                    self.arrive(at)?;
                }
            }
            Act::Keep(of, keep) => {
                let Some(of) = of.checked_rem(self.requests.len()) else {
                    return Ok(());
                };
                let request = &self.requests[of];
                let [lease, lock, flight] = keep.map(Millis);
                let told = Keep {
                    lease,
                    lock,
                    flight,
                    outcome: None,
                };
                let kept = self.workers[0].keep(&request.ask, told, now);
                prop_assert_eq!(kept, Some(Kept::silently(self.model.keep(request, keep))));
            }
            Act::Revoke(of) => {
                if let Some(of) = of.checked_rem(self.requests.len()) {
                    self.revoke(of)?;
                }
            }
            Act::Overtake(of) => {
                if let Some(at) = self.under_way(of) {
                    self.revoke(at)?;
                }
            }
        }
        Ok(())
    }

    fn under_way(&self, of: usize) -> Option<usize> {
        let under_way = (0..self.requests.len()).filter(|i| !self.requests[*i].came);
        let under_way: Vec<usize> = under_way.collect();
        let at = of.checked_rem(under_way.len())?;
        Some(under_way[at])
    }

    fn revoke(&mut self, of: usize) -> Result<(), TestCaseError> {
        let request = &self.requests[of];
        if self.tight && !request.came {
            // There may be no room for the mark.
            return Ok(());
        }
        let now = Millis(self.model.now);
        prop_assert_eq!(self.workers[0].revoke(&request.ask, now), Some(()));
        self.model.revoke(request);
        Ok(())
    }

    fn arrive(&mut self, of: usize) -> Result<(), TestCaseError> {
        let now = Millis(self.model.now);
        let request = &self.requests[of];
        let expected = self.model.decide(request);
        let before = bytes(&self.heap);
        let (verdict, toll) = self.workers[0].decide(&request.ask, now);
        prop_assert_eq!((toll.retries, toll.lost_refunds), (0, 0));
        prop_assert!(self.tight || toll.evictions == 0);
        let squeezed = matches!(verdict, Verdict::Throttled(_) | Verdict::Contended);
        if self.tight && squeezed {
            if verdict == Verdict::Contended && expected != Expected::Revoked {
                prop_assert_eq!(toll.evictions, 1);
                prop_assert_eq!(expected, Expected::Allowed);
                prop_assert_eq!(bytes(&self.heap), before);
            }
            return Ok(());
        }
        let found = match &verdict {
            Verdict::Contended => {
                prop_assert_eq!(
                    bytes(&self.heap),
                    before,
                    "a revoked call changed something"
                );
                Expected::Revoked
            }
            Verdict::Throttled(_) => Expected::Throttled,
            Verdict::Taken(taken) => Expected::Taken(taken.by, taken.wait.0),
            Verdict::Allowed(..) => Expected::Allowed,
            other => panic!("{other:?}"),
        };
        prop_assert_eq!(&found, &expected, "{:?} at {}", request.ask, now.0);
        self.model.take(request, &expected);
        if let (Some(standings), false) = (verdict.standings(), self.tight) {
            let resets: BTreeSet<u64> = standings.iter().map(|s| s.reset.0).collect();
            let buckets = request.buckets();
            let full = buckets.iter().map(|(name, _)| self.model.spent(name));
            prop_assert_eq!(resets, full.collect::<BTreeSet<u64>>());
        }
        if let Verdict::Allowed(_, fence) = verdict {
            let held = request.held().into_iter();
            let lock = held.map(|(name, _)| name).find(|n| n.contains(" lock "));
            prop_assert_eq!(fence.is_some(), lock.is_some());
            if let (Some(fence), Some(lock)) = (fence, lock) {
                prop_assert!(fence.0 >= now.0 * 1000);
                let last = self.fences.insert(lock, fence);
                prop_assert!(last < Some(fence), "{:?} after {:?}", fence, last);
            }
        }
        Ok(())
    }

    /// Once all has ended, nothing is left of it.
    fn end(&mut self) -> Result<(), TestCaseError> {
        let now = self.model.now + 90_001;
        self.model.now = now;
        for entry in held_entries(&self.heap) {
            prop_assert!(entry.is_spent(Millis(now)), "{:?}", entry);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(600) })]

    #[test]
    fn any_story_is_as_the_model_says(acts in acts()) {
        let mut run = Run::new(400, false);
        for (number, act) in acts.into_iter().enumerate() {
            run.play(number, act)?;
        }
        run.end()?;
    }

    /// In a page that is too small somebody is refused who would not have to be, and that is all.
    #[test]
    fn however_small_the_page_nothing_that_is_held_is_dropped(room in 4..20usize, acts in acts()) {
        let mut run = Run::new(room, true);
        for (number, mut act) in acts.into_iter().enumerate() {
            // A grant that is spent may make room, and then a longer window cannot count it any more.
            if let Act::Ask { made, .. } = &mut act
                && let Some((.., per)) = &mut made.quota
            {
                *per = 20_000;
            }
            run.play(number, act)?;
        }
        run.end()?;
    }
}
