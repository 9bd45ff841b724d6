//! `auth_throttles`: whose failed credentials are counted, and what follows.

use super::{
    kinds::is_kind,
    known_routes::KnownRoutes,
    statuses::{self, Bounds},
    subject,
};
use crate::{
    quote::quoted,
    reader::{At, Fields, Reader, Value},
    route::RouteId,
    throttle::{SubjectSource, Throttle, ThrottleBy},
    units::Millis,
};

/// Throttles at most: the attempts of one request are so many bits.
const MOST: usize = 32;

/// What a throttle's name must be: it stands in keys and labels metrics.
const NAME: &str = "a name of 1 to 24 of A-Z a-z 0-9 _ -";

/// What the document says besides that counts here.
pub(super) struct Around<'d> {
    pub(super) routes: &'d KnownRoutes,
    /// `None` if that cannot be read.
    pub(super) store_can_fail: Option<bool>,
    /// `lockout` where it is not given.
    pub(super) lockout: Millis,
}

pub(super) fn read(
    reader: &mut Reader<'_>,
    at: &At<'_>,
    around: &Around<'_>,
) -> Option<Vec<Throttle>> {
    let mut names: Vec<String> = Vec::new();
    let mut count = 0;
    let throttles = reader.list(at, "a list of throttles", |reader, at| {
        count += 1;
        throttle(reader, at, &mut names, around)
    });
    if count > MOST {
        let message = format!("found {count} throttles, expected at most {MOST}");
        reader.error(&at.path, message);
    }
    throttles
}

fn throttle(
    reader: &mut Reader<'_>,
    at: &At<'_>,
    names: &mut Vec<String>,
    around: &Around<'_>,
) -> Option<Throttle> {
    let fields = reader.fields(
        at,
        &[
            "name",
            "routes",
            "by",
            "subject",
            "count",
            "failures",
            "within",
            "lockout",
            "reset_on_success",
            "provisional",
            "spare_known_ips",
        ],
    )?;
    let name = fields.required(reader, "name", NAME, |reader, at| name(reader, at, names));
    let routes = fields.optional(reader, "routes", None, |reader, at| {
        routes(reader, at, around.routes).map(Some)
    });
    let by = fields.required(reader, "by", "\"subject\", \"ip\" or \"subject_ip\"", by);
    let subject = subject(reader, &fields, by);
    let count = fields.optional(reader, "count", vec![401, 403], count);
    let failures = fields.required(reader, "failures", FAILURES, |reader, at| {
        failures(reader, at, around, routes.as_ref())
    });
    let within = fields.required(reader, "within", "a duration", Reader::lifetime);
    let lockout = fields.optional(reader, "lockout", around.lockout, Reader::lifetime);
    let resets = by.is_none_or(|by| by != ThrottleBy::Ip);
    let resets = fields.optional(reader, "reset_on_success", resets, Reader::boolean);
    let provisional = fields.optional(reader, "provisional", None, |reader, at| {
        reader.boolean(at).map(Some)
    });
    let spares = by == Some(ThrottleBy::Subject);
    let spares = fields.optional(reader, "spare_known_ips", spares, |reader, at| {
        let spares = reader.boolean(at)?;
        if spares && let Some(by @ (ThrottleBy::Ip | ThrottleBy::SubjectIp)) = by {
            let message = format!(
                "found true with by: {}, expected it only with by: subject: only there the attempts \
                 from a known address would count with those from others",
                written(by)
            );
            reader.error(&at.path, message);
        }
        Some(spares)
    });
    Some(Throttle {
        name: name?,
        routes: routes?,
        by: by?,
        subject: subject?,
        count: count?,
        failures: failures?,
        within: within?,
        lockout: lockout?,
        reset_on_success: resets?,
        provisional: provisional?,
        spare_known_ips: spares?,
    })
}

fn name(reader: &mut Reader<'_>, at: &At<'_>, names: &mut Vec<String>) -> Option<String> {
    let value = reader.value(at)?;
    let name = match &value {
        Value::Text(text) if is_kind(&text.value) => text.value.clone().into_owned(),
        _ => return reader.mismatch(at, &value, NAME),
    };
    if names.contains(&name) {
        let message = format!(
            "found {}, the name of an earlier throttle, expected another",
            quoted(&name)
        );
        reader.error(&at.path, message);
    } else {
        names.push(name.clone());
    }
    Some(name)
}

/// The routes in order. `None` if they are not all known.
fn routes(reader: &mut Reader<'_>, at: &At<'_>, known: &KnownRoutes) -> Option<Vec<RouteId>> {
    const LIST: &str = "a list of routes such as [login]; without it a throttle is for every route that is not \
                        exempt";
    let mut all: Vec<RouteId> = Vec::new();
    let named = reader.list(at, LIST, |reader, at| {
        let value = reader.value(at)?;
        let Value::Text(text) = &value else {
            return reader.mismatch(at, &value, "the name of a route");
        };
        let ids = known.ids(&text.value);
        if ids.is_empty() {
            // There may be such a route among those that could not be read.
            return if known.is_partial() {
                None
            } else {
                reader.mismatch(at, &value, &known.expected(&text.value))
            };
        }
        if ids.iter().any(|id| all.contains(id)) {
            let message = format!(
                "found {} again, expected each route once",
                quoted(&text.value)
            );
            reader.error(&at.path, message);
        }
        all.extend(ids);
        Some(())
    })?;
    if named.is_empty() {
        reader.error(&at.path, format!("found an empty list, expected {LIST}"));
        return None;
    }
    all.sort_unstable();
    Some(all)
}

const BY: [(&str, ThrottleBy); 3] = [
    ("subject", ThrottleBy::Subject),
    ("ip", ThrottleBy::Ip),
    ("subject_ip", ThrottleBy::SubjectIp),
];

fn by(reader: &mut Reader<'_>, at: &At<'_>) -> Option<ThrottleBy> {
    reader.choice(at, &BY)
}

fn written(by: ThrottleBy) -> &'static str {
    let choice = BY.iter().find(|(_, choice)| *choice == by);
    choice.map_or("", |(name, _)| name)
}

/// There where attempts are counted by it, and allowed elsewhere: stuffing counts the distinct ones.
fn subject(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    by: Option<ThrottleBy>,
) -> Option<Option<SubjectSource>> {
    const FIELD: &str = "subject";
    if by.is_some_and(|by| by != ThrottleBy::Ip) {
        let subject = fields.required(reader, FIELD, subject::EXPECTED, subject::read);
        return subject.map(Some);
    }
    fields.optional(reader, FIELD, None, |reader, at| {
        subject::read(reader, at).map(Some)
    })
}

fn count(reader: &mut Reader<'_>, at: &At<'_>) -> Option<Vec<u16>> {
    const STATUSES: Bounds = Bounds {
        between: (400, 499),
        one: "a status such as 401: a whole number from 400 to 499",
        list: "a list of statuses such as [401, 403]",
    };
    let statuses = statuses::read(reader, at, &STATUSES)?;
    if statuses.is_empty() {
        let list = STATUSES.list;
        reader.error(&at.path, format!("found an empty list, expected {list}"));
        return None;
    }
    Some(statuses)
}

const FAILURES: &str = "a whole number of failures";

/// The local store counts up to 100, for itself and for a store that fails. `routes` is `None` where they
/// could not be read.
fn failures(
    reader: &mut Reader<'_>,
    at: &At<'_>,
    around: &Around<'_>,
    routes: Option<&Option<Vec<RouteId>>>,
) -> Option<u32> {
    const LOCAL: u64 = 100;
    let degraded = routes.and_then(|routes| around.routes.degraded(routes.as_deref()));
    let (most, written) = match (around.store_can_fail, degraded) {
        (Some(false), _) => (LOCAL, format!("{LOCAL} with the local store")),
        (Some(true), Some(routes)) => {
            let because = "which the local store judges while Redis fails; at most 1000 where all \
                           routes are on_store_failure: closed";
            (LOCAL, format!("{LOCAL} for {routes}, {because}"))
        }
        (Some(true), None) | (None, _) => (1000, "1000".to_owned()),
    };
    let failures = reader.whole_up_to(at, FAILURES, 1, (most, &written))?;
    u32::try_from(failures).ok()
}
