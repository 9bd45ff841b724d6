//! `routes` and `exempt`: what is asked of a request by its method and path.

use std::collections::BTreeSet;

use super::{
    burst::{Bursts, Met},
    cost, hold,
    kinds::Kinds,
    known_routes::{DEFAULT, KnownRoute, KnownRoutes},
    matching::{self, Match, pattern},
    mode,
};
use crate::{
    path::pattern::Pattern,
    quote::quoted,
    reader::{At, Fields, Reader, Value},
    route::{IdempotencyKey, Limiter, OnStoreFailure, Route, RouteId},
    router::Router,
};

/// Reads all routes, and keeps of each what can be read.
pub(super) fn read(
    reader: &mut Reader<'_>,
    at: &At<'_>,
    bursts: &Bursts,
    kinds: &Kinds,
    known: &mut KnownRoutes,
) -> Option<Vec<(Route, Match)>> {
    let routes = reader.list(at, "a list of routes", |reader, at| {
        let Some(fields) = reader.fields(at, FIELDS) else {
            known.add(KnownRoute::UNREAD);
            return None;
        };
        route(reader, &fields, bursts, kinds, known)
    });
    if routes.is_none() {
        known.end_unread();
    }
    routes
}

const FIELDS: &[&str] = &[
    "name",
    "match",
    "limiter",
    "cost",
    "mode",
    "idempotency_key",
    "lease",
    "lock",
    "hold_on",
    "on_abort",
    "quota",
    "on_store_failure",
];

fn route(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    bursts: &Bursts,
    kinds: &Kinds,
    known: &mut KnownRoutes,
) -> Option<(Route, Match)> {
    let name = fields.required(reader, "name", "the route's name", |reader, at| {
        let name = reader.name(at)?;
        if known.has(&name) {
            let message = format!(
                "found {}, the name of an earlier route, expected another",
                quoted(&name)
            );
            reader.error(&at.path, message);
        }
        Some(name)
    });
    let matched = fields.required(
        reader,
        "match",
        "an object of methods, path",
        matching::read,
    );
    let limiter = fields.optional(reader, "limiter", Limiter::default(), |reader, at| {
        let choices = [("tier", Limiter::Tier), ("credential", Limiter::Credential)];
        reader.choice(at, &choices)
    });
    let of_tenants = limiter == Some(Limiter::Tier);
    let needs_store = if of_tenants {
        hold::needs_store(fields)
    } else {
        // There they are an error, and so nothing that has to be put right besides.
        Vec::new()
    };
    let failure = if needs_store.is_empty() {
        reader.ahead(|reader| on_store_failure(reader, fields, &[]))
    } else {
        // Anything else is an error, and this is what puts it right.
        Some(OnStoreFailure::Closed)
    };
    known.add(KnownRoute {
        name: name.clone(),
        on_store_failure: failure,
    });
    let met = if of_tenants {
        bursts.met_by(failure)
    } else {
        Met::NOTHING
    };
    let cost = fields.optional(reader, "cost", cost::ONE, |reader, at| {
        let cost = cost::read(reader, at, &met)?;
        if limiter == Some(Limiter::Credential) && cost != cost::ONE {
            let message = "found a cost with limiter: credential: it is without effect, since such a \
                           request takes one point, of ip_limit alone";
            reader.warn(&at.path, message.to_owned());
        }
        Some(cost)
    });
    let mode = fields.optional(reader, "mode", None, |reader, at| {
        mode(reader, at).map(Some)
    });
    let key = IdempotencyKey::default();
    let idempotency_key = fields.optional(reader, "idempotency_key", key, |reader, at| {
        reader.choice(
            at,
            &[
                ("optional", IdempotencyKey::Optional),
                ("required", IdempotencyKey::Required),
            ],
        )
    });
    let pattern = matched.as_ref().map(|matched| &matched.pattern);
    let held = hold::read(reader, fields, pattern, kinds, limiter);
    let on_store_failure = on_store_failure(reader, fields, &needs_store);
    let held = held?;
    let route = Route {
        name: name?,
        mode: mode?,
        limiter: limiter?,
        cost: cost?,
        idempotency_key: idempotency_key?,
        on_store_failure: on_store_failure?,
        lease: held.lease,
        lock: held.lock,
        quota: held.quota,
        hold_on: held.hold_on,
    };
    Some((route, matched?))
}

/// Must be closed where there are fields that need the store: the degraded limiter knows no leases.
fn on_store_failure(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    needs_store: &[&str],
) -> Option<OnStoreFailure> {
    const NAME: &str = "on_store_failure";
    let expected = || {
        let given = needs_store.join(" and ");
        format!("\"closed\": {given} cannot be checked while the store fails")
    };
    match fields.get(NAME) {
        None if needs_store.is_empty() => Some(OnStoreFailure::default()),
        None => fields.required(reader, NAME, &expected(), |_, _| None),
        Some(at) if needs_store.is_empty() => reader.choice(
            &at,
            &[
                ("degraded", OnStoreFailure::Degraded),
                ("closed", OnStoreFailure::Closed),
            ],
        ),
        Some(at) => {
            let value = reader.value(&at)?;
            match &value {
                Value::Text(text) if text.value == "closed" => Some(OnStoreFailure::Closed),
                _ => reader.mismatch(&at, &value, &expected()),
            }
        }
    }
}

/// `exempt`: exact paths and `prefix/*`.
pub(super) fn exempt(reader: &mut Reader<'_>, at: &At<'_>) -> Option<Router> {
    let patterns = reader.list(
        at,
        "a list of paths such as [/healthz, /docs/*]",
        |reader, at| {
            let pattern = pattern(reader, at)?;
            if pattern.templates().next().is_some() {
                let value = reader.value(at)?;
                return reader.mismatch(at, &value, "an exact path or prefix/*, without templates");
            }
            Some(pattern)
        },
    )?;
    let mut router = Router::default();
    for (index, pattern) in patterns.iter().enumerate() {
        router.insert(RouteId(index), &[], pattern);
    }
    Some(router)
}

/// All routes, and what finds them.
pub(super) struct Assembled {
    /// In their order, then `default`.
    pub(super) routes: Vec<Route>,
    pub(super) router: Router,
    /// Those that some request can meet: it is not exempt, and no earlier route takes it.
    pub(super) met: BTreeSet<RouteId>,
}

/// Puts the routes together. One that no request reaches is a warning.
pub(super) fn assemble(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    read: Vec<(Route, Match)>,
    exempt: &Router,
) -> Assembled {
    let mut router = Router::default();
    let mut routes: Vec<Route> = Vec::with_capacity(read.len() + 1);
    let mut met = BTreeSet::new();
    let mut add = |router: &mut Router, id, methods: &[Vec<u8>], pattern: &Pattern| {
        let taken = router.takes_all(methods, pattern);
        if taken.is_none() && exempt.takes_all(methods, pattern).is_none() {
            met.insert(id);
        }
        taken
    };
    for (index, (route, Match { methods, pattern })) in read.into_iter().enumerate() {
        let taken = add(&mut router, RouteId(index), &methods, &pattern);
        if let Some(earlier) = taken.and_then(|id| routes.get(id.0)) {
            let message = format!(
                "found a route that no request reaches: {} before it takes all that it matches",
                earlier.name
            );
            reader.warn(&fields.path.field("routes").index(index), message);
        }
        router.insert(RouteId(index), &methods, &pattern);
        routes.push(route);
    }
    add(&mut router, RouteId(routes.len()), &[], &Pattern::ANY);
    routes.push(Route {
        name: DEFAULT.to_owned(),
        mode: None,
        limiter: Limiter::default(),
        cost: cost::ONE,
        idempotency_key: IdempotencyKey::default(),
        on_store_failure: OnStoreFailure::default(),
        lease: None,
        lock: None,
        quota: None,
        hold_on: Vec::new(),
    });
    Assembled {
        routes,
        router,
        met,
    }
}
