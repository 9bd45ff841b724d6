//! Attempts at credentials: which of a request's a step is about, and under which keys they are counted. Must not
//! know what a question or an answer looks like.

use tollgate_config::{Millis, Stuffing};

use super::{Item, Step, address_name};
use crate::attempt::{Attempt, Attempts, Who};
use crate::client_ip::Address;
use crate::hold::Keep;
use crate::identity::Id;
use crate::store::{Ask, Leg, Subject};

/// What a step is to do about an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is decided.
    Asked,
    /// It may have been let through, or may be yet.
    Revoked,
    /// It was let through, and the question was refused after that.
    Undone,
    /// It neither failed nor succeeded.
    GivenBack,
    /// It failed.
    Failed,
    /// It succeeded.
    Succeeded,
}

/// The attempts that a step is about: their places among all of the request's, in order, and what is to be done
/// about each.
pub(super) fn of(item: &Item) -> impl Iterator<Item = (usize, &Attempt, Fate)> {
    let attempts = attempts_of(&item.ask);
    let list = attempts.map_or(&[][..], |attempts| &attempts.list);
    let places = list.iter().enumerate();
    places.filter_map(move |(place, attempt)| {
        let named = attempts.is_some_and(|attempts| is_named(attempts, attempt.who));
        let leg = leg_of(attempt.who, &item.ask.subject);
        let fate = fate(item.step, leg, place).filter(|_| named)?;
        Some((place, attempt, fate))
    })
}

/// What is to be done about an attempt on a leg.
fn fate(step: Step, leg: Leg, place: usize) -> Option<Fate> {
    match step {
        Step::Whole => Some(Fate::Asked),
        Step::Part(of) if of == leg => Some(Fate::Asked),
        Step::Revoke(of) if of == leg => Some(Fate::Revoked),
        Step::Keep(of, keep) if of == leg => match keep.outcome {
            Some(outcome) if outcome.is_failed(place) => Some(Fate::Failed),
            Some(outcome) if outcome.succeeded => Some(Fate::Succeeded),
            Some(_) => Some(Fate::GivenBack),
            // Word that a stream lives, or hands something over, says nothing of attempts.
            None => (keep == Keep::NOTHING).then_some(Fate::Undone),
        },
        _ => None,
    }
}

/// Credential stuffing, where a step tells that the request failed: what it is, how long the ban lasts, and how
/// long that is remembered.
pub(super) fn stuffing(item: &Item) -> Option<(Stuffing, Millis, Millis)> {
    let Step::Keep(leg, Keep { outcome, .. }) = item.step else {
        return None;
    };
    let attempts = attempts_of(&item.ask)?;
    let failed = outcome.is_some_and(|outcome| outcome.failed != 0);
    let here = failed && leg == leg_of(Who::Ip, &item.ask.subject);
    let (stuffing, ban) = attempts.stuffing.filter(|_| here)?;
    let memories = attempts.list.iter().map(|one| one.offense_memory);
    let memory = memories.max().unwrap_or_default();
    Some((stuffing, ban, memory))
}

/// Whether something of a question is held, or marked, on the leg of a step.
pub(super) fn is_held(item: &Item) -> bool {
    let wanted = item.ask.wanted.as_ref();
    let owners = matches!(item.step, Step::Whole | Step::Part(Leg::Owner));
    let by_owner =
        wanted.is_some_and(|w| w.flight.is_some() || w.lock.is_some() || w.lease.is_some());
    owners && by_owner || of(item).any(|(_, attempt, _)| attempt.provisional)
}

/// The attempts that a request is.
pub(super) fn attempts_of(ask: &Ask) -> Option<&Attempts> {
    ask.wanted.as_ref()?.attempts.as_deref()
}

/// The leg on which attempts are counted.
const fn leg_of(who: Who, subject: &Subject) -> Leg {
    match (who, subject) {
        (Who::Ip, Subject::Key { .. }) => Leg::Address,
        (Who::Ip, Subject::Anonymous { .. } | Subject::Credential { .. }) => Leg::Owner,
        (Who::Subject(of) | Who::Pair(of), _) => Leg::Subject(of),
    }
}

fn is_named(attempts: &Attempts, who: Who) -> bool {
    match who {
        Who::Ip => true,
        Who::Subject(of) | Who::Pair(of) => attempts.subjects.get(usize::from(of)).is_some(),
    }
}

/// What is inside the braces of the keys of a subject.
pub(super) fn subject_tag(subject: &Id) -> String {
    ["s:", subject.as_str()].concat()
}

/// Whose attempts are counted, and what is held against whom, by the ends of keys.
pub(super) struct Counted {
    /// What is inside the braces.
    tag: String,
    /// The address, where it is a subject's from there; after a colon.
    from: String,
    /// It is the address's.
    by_address: bool,
}

/// Keys of one that attempts are counted for.
pub(super) struct Keys {
    /// The window.
    pub(super) window: String,
    /// The lockout's level.
    pub(super) lockout: String,
    /// Offenses.
    pub(super) offenses: String,
    /// The times of both.
    pub(super) times: String,
}

impl Counted {
    /// An attempt's.
    pub(super) fn of(attempts: &Attempts, address: &Address, who: Who) -> Self {
        let subject = |of: u8| {
            let subject = attempts.subjects.get(usize::from(of));
            subject.map(subject_tag).unwrap_or_default()
        };
        let name = address_name(address);
        match who {
            Who::Ip => Self {
                tag: ["ip:", &name].concat(),
                from: String::new(),
                by_address: true,
            },
            Who::Subject(of) => Self {
                tag: subject(of),
                from: String::new(),
                by_address: false,
            },
            Who::Pair(of) => Self {
                tag: subject(of),
                from: [":", &name].concat(),
                by_address: false,
            },
        }
    }

    /// The keys by a throttle of this name, which begin with `prefix`.
    pub(super) fn keys(&self, prefix: &str, throttle: &str) -> Keys {
        let Self { tag, from, .. } = self;
        let held = |what: &str| [prefix, "pb:{", tag, what, from].concat();
        Keys {
            window: [prefix, "au:{", tag, "}:", throttle, from].concat(),
            lockout: held("}:box"),
            offenses: held("}:off"),
            times: match self.by_address {
                true => [prefix, "rl:{", tag, "}:an"].concat(),
                false => held("}:at"),
            },
        }
    }

    /// The key of something that is kept of a subject from everywhere, or of an address.
    pub(super) fn key(&self, prefix: &str, what: &str) -> String {
        [prefix, "pb:{", &self.tag, "}:", what].concat()
    }
}
