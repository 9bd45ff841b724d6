//! What a request holds besides points: the keys, the name by which it is known in them, and what a question
//! says of them. Must not know what is answered.

use std::fmt::Write as _;

use super::{Item, Step, owner_tag};
use crate::hold::Wanted;
use crate::store::{Ask, Leg};

/// The keys of what a request wants besides points.
pub(super) struct Held {
    /// Of the lease, the lock, the idempotency key in flight and the quota.
    pub(super) keys: [Option<String>; 4],
}

impl Held {
    /// Those that a step may touch, which begin with `prefix`: they are all under the owner's hash tag.
    pub(super) fn of(prefix: &str, item: &Item) -> Self {
        match item.step {
            Step::Part(leg) | Step::Keep(leg, _) | Step::Revoke(leg) if leg != Leg::Owner => Self {
                keys: [const { None }; 4],
            },
            _ => Self::of_ask(prefix, &item.ask),
        }
    }

    /// Those of a question.
    pub(super) fn of_ask(prefix: &str, ask: &Ask) -> Self {
        let Some(wanted) = &ask.wanted else {
            return Self {
                keys: [const { None }; 4],
            };
        };
        let shadow = if ask.shadow { "sh:" } else { "" };
        let tag = owner_tag(&ask.subject);
        let key = |kind: &str, name: &str| [prefix, shadow, kind, ":{", &tag, "}:", name].concat();
        let Wanted {
            lease,
            lock,
            flight,
            quota,
            ..
        } = wanted;
        Self {
            keys: [
                lease.as_ref().map(|lease| key("cc", &lease.kind)),
                lock.as_ref().map(|lock| key("lk", lock.as_str())),
                flight.as_ref().map(|flight| key("ik", flight.as_str())),
                quota.as_ref().map(|quota| key("qt", &quota.kind)),
            ],
        }
    }

    /// By what the request is known in each of them: the keys of lease and lock, as far as it wants them, then
    /// its id. The script puts it together itself, so that a call says each key once.
    pub(super) fn member(self, ask: &Ask) -> String {
        let [lease, lock, ..] = self.keys;
        let mut member = String::new();
        for key in [lease, lock].into_iter().flatten() {
            member.push_str(&key);
            member.push(' ');
        }
        if let Some(wanted) = &ask.wanted {
            let _ = write!(member, "{}", wanted.id);
        }
        member
    }
}

/// Writes what a question says of keys at these places (0: there is none).
pub(super) fn write(text: &mut String, item: &Item, [lease, lock, flight, quota]: [usize; 4]) {
    let wanted = item.ask.wanted.as_ref();
    let id = wanted.map_or(0, |wanted| wanted.id.0);
    let wanted = wanted.filter(|_| matches!(item.step, Step::Whole | Step::Part(Leg::Owner)));
    let _ = match item.step {
        Step::Keep(_, keep) => write!(
            text,
            " {id:016x} {lease} {} {lock} {} {flight} {}",
            keep.lease.0, keep.lock.0, keep.flight.0
        ),
        Step::Revoke(_) => write!(text, " {id:016x} {lease} {lock} {flight}"),
        _ => {
            let slots = wanted
                .and_then(|wanted| wanted.lease.as_ref())
                .map_or(0, |lease| lease.slots);
            let (requests, per) = wanted
                .and_then(|wanted| wanted.quota.as_ref())
                .map_or((0, 0), |quota| (quota.requests, quota.per.0));
            write!(
                text,
                " {id:016x} {lease} {slots} {lock} {flight} {quota} {requests} {per}"
            )
        }
    };
}
