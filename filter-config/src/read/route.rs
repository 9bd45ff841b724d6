//! `routes` and `exempt`: what is asked of a request by its method and path.

use super::{burst::Bursts, cost, hold, kinds::Kinds, mode};
use crate::{
    nearest::nearest,
    path::pattern::Pattern,
    quote::quoted,
    reader::{At, Fields, Reader, Value},
    route::{IdempotencyKey, OnStoreFailure, Route, RouteId},
    router::Router,
};

/// The requests that a route takes.
pub(super) struct Match {
    /// Empty: any.
    methods: Vec<Vec<u8>>,
    pattern: Pattern,
}

/// Reads all routes.
pub(super) fn read(
    reader: &mut Reader<'_>,
    at: &At<'_>,
    bursts: &Bursts,
    kinds: &Kinds,
) -> Option<Vec<(Route, Match)>> {
    let mut names: Vec<String> = Vec::new();
    reader.list(at, "a list of routes", |reader, at| {
        route(reader, at, &mut names, bursts, kinds)
    })
}

fn route(
    reader: &mut Reader<'_>,
    at: &At<'_>,
    names: &mut Vec<String>,
    bursts: &Bursts,
    kinds: &Kinds,
) -> Option<(Route, Match)> {
    let fields = reader.fields(
        at,
        &[
            "name",
            "match",
            "cost",
            "mode",
            "idempotency_key",
            "lease",
            "lock",
            "hold_on",
            "on_abort",
            "quota",
            "on_store_failure",
        ],
    )?;
    let name = fields.required(reader, "name", "the route's name", |reader, at| {
        let name = reader.name(at)?;
        if names.contains(&name) {
            let message = format!(
                "found {}, the name of an earlier route, expected another",
                quoted(&name)
            );
            reader.error(&at.path, message);
        } else {
            names.push(name.clone());
        }
        Some(name)
    });
    let matched = fields.required(reader, "match", "an object of methods, path", matches);
    let needs_store = hold::needs_store(&fields);
    let failure = if needs_store.is_empty() {
        reader.ahead(|reader| on_store_failure(reader, &fields, &[]))
    } else {
        // Anything else is an error, and this is what puts it right.
        Some(OnStoreFailure::Closed)
    };
    let met = bursts.met_by(failure);
    let cost = fields.optional(reader, "cost", cost::ONE, |reader, at| {
        cost::read(reader, at, &met)
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
    let held = hold::read(reader, &fields, pattern, kinds);
    let on_store_failure = on_store_failure(reader, &fields, &needs_store);
    let held = held?;
    let route = Route {
        name: name?,
        mode: mode?,
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

fn matches(reader: &mut Reader<'_>, at: &At<'_>) -> Option<Match> {
    let fields = reader.fields(at, &["methods", "path"])?;
    let methods = fields.optional(reader, "methods", Vec::new(), methods);
    let pattern = fields.required(
        reader,
        "path",
        "a path such as /v1/orders/{order_id} or /v1/*",
        pattern,
    );
    Some(Match {
        methods: methods?,
        pattern: pattern?,
    })
}

/// Methods that HTTP knows: RFC 9110, section 9, and RFC 5789.
const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE",
];

fn methods(reader: &mut Reader<'_>, at: &At<'_>) -> Option<Vec<Vec<u8>>> {
    const LIST: &str = "a list of methods such as [GET, POST]; without it a route takes any";
    let methods = reader.list(at, LIST, |reader, at| {
        let value = reader.value(at)?;
        let Value::Text(text) = &value else {
            return reader.mismatch(at, &value, "a method such as GET");
        };
        let method = text.value.as_bytes();
        if !(1..=64).contains(&method.len()) || !method.iter().copied().all(is_token) {
            reader.mismatch(at, &value, "a method such as GET")
        } else if method.iter().any(u8::is_ascii_lowercase) {
            let expected = format!(
                "a method in upper case (did you mean {}?)",
                text.value.to_ascii_uppercase()
            );
            reader.mismatch(at, &value, &expected)
        } else {
            if !METHODS.contains(&text.value.as_ref()) {
                let meant = nearest(&text.value, METHODS);
                let meant = meant.map_or_else(String::new, |m| format!(" (did you mean {m}?)"));
                let found = quoted(&text.value);
                let message = format!("found {found}, a method that HTTP does not know{meant}");
                reader.warn(&at.path, message);
            }
            Some(method.to_vec())
        }
    })?;
    if methods.is_empty() {
        reader.error(&at.path, format!("found an empty list, expected {LIST}"));
        return None;
    }
    Some(methods)
}

fn pattern(reader: &mut Reader<'_>, at: &At<'_>) -> Option<Pattern> {
    let value = reader.value(at)?;
    let Value::Text(text) = &value else {
        return reader.mismatch(at, &value, "a path that starts with /");
    };
    match Pattern::parse(&text.value) {
        Ok(pattern) => Some(pattern),
        Err(expected) => reader.mismatch(at, &value, expected),
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

/// All routes, then `default`, and what finds them. A route that nothing can reach is a warning.
pub(super) fn assemble(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    read: Vec<(Route, Match)>,
) -> (Vec<Route>, Router) {
    let mut router = Router::default();
    let mut routes: Vec<Route> = Vec::with_capacity(read.len() + 1);
    for (index, (route, Match { methods, pattern })) in read.into_iter().enumerate() {
        let taken = router.takes_all(&methods, &pattern);
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
    routes.push(Route {
        name: "default".to_owned(),
        mode: None,
        cost: cost::ONE,
        idempotency_key: IdempotencyKey::default(),
        on_store_failure: OnStoreFailure::default(),
        lease: None,
        lock: None,
        quota: None,
        hold_on: Vec::new(),
    });
    (routes, router)
}

/// A character of a token (RFC 9110, section 5.6.2): of a method and of a header's name.
pub(super) const fn is_token(b: u8) -> bool {
    b.is_ascii_alphanumeric()
        || matches!(
            b,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}
