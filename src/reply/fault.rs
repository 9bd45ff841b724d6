//! What a client is told that has to change its request first. Repeats names from the configuration, never
//! a value.

use tollgate_config::{LockBy, SubjectSource, ThrottleId};

use super::Asker;
use super::kind::{BODY_TOO_LARGE, INVALID_REQUEST, Kind};
use super::problem::route_name;
use crate::body;
use crate::verdict::{Invalid, KeyFault, ResourceFault, SubjectFault};

/// The kind of a refusal of an invalid request.
pub(super) const fn kind(invalid: &Invalid) -> &'static Kind {
    match invalid {
        Invalid::Resource(ResourceFault::TooLarge)
        | Invalid::Subject(_, SubjectFault::TooLarge) => &BODY_TOO_LARGE,
        Invalid::Resource(_) | Invalid::Subject(..) | Invalid::DoubledHeader(_) => &INVALID_REQUEST,
    }
}

/// What is wrong with an invalid request.
pub(super) fn invalid(asker: &Asker<'_>, invalid: &Invalid) -> String {
    match invalid {
        Invalid::DoubledHeader(name) => doubled(&format!("header '{name}'")),
        Invalid::Resource(fault) => resource(asker, *fault),
        Invalid::Subject(throttle, fault) => subject(asker, *throttle, *fault),
    }
}

fn doubled(what: &str) -> String {
    format!("The {what} was sent more than once; send it once.")
}

fn resource(asker: &Asker<'_>, fault: ResourceFault) -> String {
    let route = asker.rules.config.routes.get(asker.plan.route.0);
    let by = route.and_then(|r| r.lock.as_ref()).map(|lock| &lock.by);
    let what = by.map_or_else(|| "name of the resource".to_owned(), name);
    let route = route_name(asker);
    match (fault, by) {
        (ResourceFault::Missing, _) => format!(
            "Route '{route}' locks the resource that the {what} names, which is missing or empty."
        ),
        (ResourceFault::Doubled, Some(LockBy::Path { .. })) => format!(
            "Servers read the {what} in different ways; send it without ';', '%2F' and '%5C'."
        ),
        (ResourceFault::Doubled, _) => doubled(&what),
        (ResourceFault::Encoded, _) => format!(
            "Route '{route}' has to read the {what}; send the body without a Content-Encoding."
        ),
        (ResourceFault::Malformed, _) => format!(
            "Route '{route}' has to read the {what}, but the body is not well-formed JSON in UTF-8."
        ),
        (ResourceFault::NoName, _) => format!(
            "Route '{route}' locks the resource that the {what} names, which is neither a string nor an integer of 64 bits."
        ),
        (ResourceFault::TooLarge, _) => format!(
            "Route '{route}' has to read the {what}, for which the body is too large: at most {} bytes are read.",
            body::LARGEST
        ),
    }
}

fn subject(asker: &Asker<'_>, throttle: ThrottleId, fault: SubjectFault) -> String {
    let what = match fault {
        SubjectFault::Missing => "The subject of the credentials is missing or empty".to_owned(),
        SubjectFault::Doubled => {
            "More than one subject is named, or one that servers read in different ways; name one, once".to_owned()
        }
        SubjectFault::Basic => {
            "The Authorization header must be sent once: 'Basic' and the base64 of a user-id, a colon and a password"
                .to_owned()
        }
        SubjectFault::Encoded => "The body must be sent without a Content-Encoding".to_owned(),
        SubjectFault::Malformed => {
            "The body is neither well-formed JSON in UTF-8 nor a form (application/x-www-form-urlencoded)".to_owned()
        }
        SubjectFault::NoName => {
            "The subject of the credentials is neither a string nor an integer of 64 bits".to_owned()
        }
        SubjectFault::TooLarge => {
            format!("The body is too large: at most {} bytes are read", body::LARGEST)
        }
    };
    let throttle = asker.rules.config.auth_throttles.get(throttle.0);
    let source = throttle.and_then(|throttle| throttle.subject.as_ref());
    let places = source.map_or_else(String::new, places);
    let route = route_name(asker);
    format!("{what}. Route '{route}' reads the subject from {places}.")
}

/// Where a subject is looked for.
fn places(source: &SubjectSource) -> String {
    let basic = source
        .basic
        .then(|| "the header Authorization: Basic".to_owned());
    let form = source.form.as_ref();
    let form = form.map(|name| format!("the form field '{}'", name.escape_default()));
    let json = source
        .json
        .as_ref()
        .map(|tokens| format!("the {}", json(tokens)));
    let places: Vec<String> = [basic, form, json].into_iter().flatten().collect();
    match places.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        few => few.concat(),
    }
}

/// What names the resource. Names that are no visible ASCII are escaped, since gRPC messages are.
fn name(by: &LockBy) -> String {
    match by {
        LockBy::Header(name) => format!("header '{}'", name.escape_default()),
        LockBy::Query(name) => format!("query parameter '{}'", name.escape_default()),
        LockBy::Path { name, .. } => format!("path segment '{}'", name.escape_default()),
        LockBy::Json(tokens) => json(tokens),
    }
}

fn json(tokens: &[String]) -> String {
    let mut pointer = String::new();
    for token in tokens {
        pointer.push('/');
        pointer.push_str(&token.replace('~', "~0").replace('/', "~1"));
    }
    format!("JSON value at '{}'", pointer.escape_default())
}

/// What is wrong with an `Idempotency-Key`.
pub(super) fn key(asker: &Asker<'_>, fault: KeyFault) -> String {
    let route = route_name(asker);
    match fault {
        KeyFault::Missing => format!(
            "Requests to route '{route}' need an Idempotency-Key header: one key for each operation, the same on every retry of it."
        ),
        KeyFault::Doubled => {
            "The Idempotency-Key header was sent more than once; send it once.".to_owned()
        }
        KeyFault::Malformed => {
            "The Idempotency-Key header must be 1 to 255 printable ASCII characters, bare or in double quotes.".to_owned()
        }
    }
}
