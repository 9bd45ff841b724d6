//! Random stories of attempts at credentials: who tries what from where, under which throttles, and what becomes of
//! it.

use std::rc::Rc;

use proptest::prelude::*;
use tollgate_config::{Millis, Stuffing, ThrottleId};
use tollgate_filter::attempt::{Attempt, Attempts, Who};
use tollgate_filter::client_ip::Address;
use tollgate_filter::hold::{HoldId, Wanted};
use tollgate_filter::identity::Id;
use tollgate_filter::store::{Ask, Subject};

use super::choices::{Choice, Plenty, Wish, ask};

/// Throttles that one story has.
const THROTTLES: usize = 4;

/// The address whose requests are in shadow, and nobody else's: a watched box of live requests and the box of
/// requests in shadow are one in Redis and two in a page.
const IN_SHADOW: u8 = 3;

/// Terms of limits that never are reached.
const PLENTIFUL: usize = 7;

/// What a story's configuration says: it does not change while the story goes on.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    throttles: Vec<Throttle>,
    pub(crate) stuffing: Option<(Stuffing, Millis)>,
}

#[derive(Debug, Clone)]
struct Throttle {
    who: u8,
    failures: u32,
    within: u64,
    levels: [u64; 3],
    memory: u64,
    provisional: bool,
    spares: bool,
    resets: bool,
}

/// Who asks.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Tenant,
    Anonymous,
    Credential,
}

/// One request.
#[derive(Debug, Clone)]
pub(crate) struct Login {
    kind: Kind,
    choice: Choice,
    pub(crate) from: u8,
    subjects: Vec<u8>,
    /// Which of the throttles are for it, and which of the subjects is whose.
    by: Vec<(usize, usize)>,
}

/// What becomes of requests that are let through.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    pub(crate) failed: u32,
    pub(crate) succeeded: bool,
}

/// One thing that happens.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// Requests ask in one call; those that are let through end at once, if that is said.
    Ask(Vec<Login>, Option<End>),
    /// A request whose question is under way for now.
    Send(Login),
    /// One of the questions that are under way comes.
    Arrive(usize),
    /// One of those is revoked.
    Overtake(usize),
    /// Requests that were let through end, and are told of so often.
    Tell(Vec<(usize, End)>, bool),
    /// One of them holds on.
    Renew(usize),
    /// One of them lets go of everything: its client left before it was let through.
    Undo(usize),
    /// One of them is revoked: the answer to it was lost.
    Revoke(usize),
}

/// Time that goes on, and what happens then. By a clock that is set back stores may differ: a window here holds marks
/// of what it counted, and there none.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    pub(crate) advance: u64,
    pub(crate) act: Act,
}

fn throttles() -> impl Strategy<Value = Throttle> {
    let within = prop_oneof![
        Just(1000_u64),
        Just(30_000),
        Just(60_000),
        Just(90_000),
        Just(900_000)
    ];
    let levels = prop_oneof![
        2 => Just([300_000, 3_600_000, 86_400_000]),
        2 => Just([2000, 5000, 70_000]),
        1 => Just([100_000, 1000, 50_000]),
    ];
    let memory = prop_oneof![Just(1000_u64), Just(600_000), Just(86_400_000)];
    (
        (0..3_u8, 1..5_u32, within, levels, memory),
        (
            prop::bool::weighted(0.6),
            any::<bool>(),
            prop::bool::weighted(0.6),
        ),
    )
        .prop_map(|(counts, (provisional, spares, resets))| {
            let (who, failures, within, levels, memory) = counts;
            Throttle {
                who,
                failures,
                within,
                levels,
                memory,
                provisional,
                spares,
                resets,
            }
        })
}

/// Few subjects: beyond a few, Redis and a page tell a number of distinct ones only about.
fn terms() -> impl Strategy<Value = Terms> {
    let stuffing = (1..6_u32, 1..4_u32, 1..200_000_u64, 1..400_000_u64);
    let stuffing = prop::option::weighted(0.4, stuffing).prop_map(|stuffing| {
        let (failures, subjects, within, ban) = stuffing?;
        let within = Millis(within);
        let stuffing = Stuffing {
            failures,
            subjects,
            within,
        };
        Some((stuffing, Millis(ban)))
    });
    (prop::collection::vec(throttles(), THROTTLES), stuffing).prop_map(|(throttles, stuffing)| {
        Terms {
            throttles,
            stuffing,
        }
    })
}

fn logins() -> impl Strategy<Value = Login> {
    let kind = prop_oneof![
        Just(Kind::Tenant),
        Just(Kind::Anonymous),
        Just(Kind::Credential)
    ];
    let name = || prop::option::weighted(0.2, 0..2_u8);
    let wish = (name(), name(), name(), name()).prop_map(|(flight, lock, lease, quota)| Wish {
        flight,
        lock,
        lease,
        quota,
    });
    let limit = || prop_oneof![6 => Just(PLENTIFUL), 1 => 0..2_usize];
    let choice = (
        prop_oneof![3 => Just(Wish::default()), 1 => wish],
        0..3_u8,
        1..3_u64,
        limit(),
        limit(),
        prop_oneof![2 => Just(None), 1 => limit().prop_map(Some)],
        prop_oneof![8 => 0..1_u8, 2 => 0..4_u8],
        prop_oneof![6 => Just(0_u8), 1 => Just(1_u8), 1 => Just(2_u8)],
    )
        .prop_map(
            |(wish, who, cost, first, second, ip, terms, strictness)| Choice {
                wish,
                who,
                cost,
                first,
                second,
                ip,
                terms,
                strictness,
            },
        );
    let subjects = prop_oneof![3 => Just(vec![0_u8]), 2 => (0..4_u8).prop_map(|s| vec![s]), 1 => Just(vec![0, 1]), 1 => Just(vec![2, 0])];
    let by = prop::sample::subsequence((0..THROTTLES).collect::<Vec<_>>(), 1..4);
    let by = (by, any::<[bool; 3]>()).prop_map(|(by, second)| {
        let which = second.into_iter().map(usize::from);
        by.into_iter().zip(which).collect()
    });
    (
        kind,
        choice,
        prop_oneof![4 => 0..3_u8, 1 => 0..5_u8],
        subjects,
        by,
    )
        .prop_map(|(kind, choice, from, subjects, by)| Login {
            kind,
            choice,
            from,
            subjects,
            by,
        })
}

fn ends() -> impl Strategy<Value = End> {
    prop_oneof![
        4 => Just(End { failed: u32::MAX, succeeded: false }),
        2 => (0..8_u32).prop_map(|failed| End { failed, succeeded: false }),
        2 => Just(End { failed: 0, succeeded: true }),
        1 => (0..8_u32).prop_map(|failed| End { failed, succeeded: true }),
    ]
}

pub(crate) fn stories() -> impl Strategy<Value = (Terms, Vec<Turn>)> {
    let advance = prop_oneof![
        6 => Just(0_u64),
        6 => 1..3000_u64,
        2 => 3000..30_000_u64,
        2 => Just(60_000_u64),
        1 => 30_000..200_000_u64,
        1 => 200_000..4_000_000_u64,
        1 => Just(3_000_000_000_u64),
    ];
    let all = || prop::option::weighted(0.6, ends());
    let place = any::<usize>;
    let act = prop_oneof![
        4 => (prop::collection::vec(logins(), 1..4), all()).prop_map(|(l, e)| Act::Ask(l, e)),
        // A hammer: many of the same in one call.
        4 => (logins(), 1..8_usize, all()).prop_map(|(one, n, e)| Act::Ask(vec![one; n], e)),
        // The same from everywhere.
        1 => (logins(), 5..13_u8, all()).prop_map(|(one, n, e)| {
            let here = (0..n).filter(|from| *from != IN_SHADOW);
            Act::Ask(here.map(|from| Login { from, ..one.clone() }).collect(), e)
        }),
        1 => logins().prop_map(Act::Send),
        1 => place().prop_map(Act::Arrive),
        1 => place().prop_map(Act::Overtake),
        5 => (prop::collection::vec((place(), ends()), 1..4), any::<bool>())
            .prop_map(|(told, twice)| Act::Tell(told, twice)),
        1 => place().prop_map(Act::Renew),
        1 => place().prop_map(Act::Undo),
        1 => place().prop_map(Act::Revoke),
    ];
    let turn = (advance, act).prop_map(|(advance, act)| Turn { advance, act });
    (terms(), prop::collection::vec(turn, 1..30))
}

impl Login {
    /// The same, where nothing but attempts, and what a tenant holds, is ever refused.
    pub(crate) fn plentiful(&self) -> Self {
        let wish = match self.kind {
            Kind::Tenant => self.choice.wish.clone(),
            Kind::Anonymous | Kind::Credential => Wish::default(),
        };
        let choice = Choice {
            wish,
            first: PLENTIFUL,
            second: PLENTIFUL,
            ip: self.choice.ip.map(|_| PLENTIFUL),
            ..self.choice
        };
        Self {
            choice,
            ..self.clone()
        }
    }

    /// Its question.
    pub(crate) fn ask(&self, id: u64, terms: &Terms) -> Ask {
        let id = HoldId(id);
        let in_shadow = self.from == IN_SHADOW;
        let who = match (self.kind, in_shadow) {
            (Kind::Tenant, false) => self.choice.who,
            (Kind::Tenant, true) => 3,
            (_, false) => 4,
            (_, true) => 5,
        };
        let plenty = Plenty {
            slots: 2,
            requests: 4,
            per: 20,
        };
        let choice = Choice {
            who,
            ..self.choice.clone()
        };
        let mut ask = ask(&choice, id, plenty);
        let from = Address::Ip(format!("198.51.100.{}", self.from).parse().unwrap());
        ask.subject = match (self.kind, ask.subject) {
            (
                Kind::Tenant,
                Subject::Key {
                    tenant,
                    key,
                    tenant_meter,
                    key_meter,
                    ip,
                },
            ) => Subject::Key {
                tenant,
                key,
                tenant_meter,
                key_meter,
                ip: ip.map(|(_, meter)| (from.clone(), meter)),
            },
            (
                Kind::Anonymous,
                Subject::Anonymous {
                    meter, ip_meter, ..
                },
            ) => Subject::Anonymous {
                address: from.clone(),
                meter,
                ip_meter,
            },
            (_, Subject::Anonymous { ip_meter, .. }) => Subject::Credential {
                address: from.clone(),
                ip_meter,
            },
            (_, other) => other,
        };
        let wanted = ask.wanted.take().unwrap_or(Wanted::nothing(id));
        // Who presents credentials has no idempotency key, and no tenant either.
        let wanted = match self.kind {
            Kind::Credential => Wanted::nothing(id),
            Kind::Tenant | Kind::Anonymous => wanted,
        };
        let attempts = Attempts {
            address: from,
            subjects: self.subjects.iter().map(subject).collect(),
            list: self.by.iter().map(|by| self.attempt(*by, terms)).collect(),
            stuffing: terms.stuffing,
        };
        ask.wanted = Some(Wanted {
            attempts: Some(Rc::new(attempts)),
            ..wanted
        });
        ask
    }

    fn attempt(&self, (index, which): (usize, usize), terms: &Terms) -> Attempt {
        let one = &terms.throttles[index];
        let which = which.min(self.subjects.len() - 1) as u8;
        let who = [Who::Ip, Who::Subject(which), Who::Pair(which)][usize::from(one.who)];
        Attempt {
            throttle: ThrottleId(index),
            name: format!("throttle-{index}").into(),
            who,
            failures: one.failures,
            within: Millis(one.within),
            levels: one.levels.map(Millis),
            max_level: if who == Who::Ip { 3 } else { 2 },
            offense_memory: Millis(one.memory),
            provisional: one.provisional,
            spares: one.spares && matches!(who, Who::Subject(_)),
            resets: one.resets,
        }
    }
}

fn subject(name: &u8) -> Id {
    Id::hashed(format!("subject-{name}").as_bytes())
}
