//! What a route's requests hold while they are served, and when they hold it longer: `lease`, `lock`,
//! `hold_on`, `on_abort`, and the `quota` that they take from.

use super::{
    kinds::{KIND, Kinds, Known, example},
    lock_by,
    statuses::{self, Bounds},
};
use crate::{
    path::pattern::Pattern,
    reader::{At, Fields, Reader, Value},
    route::{Lease, Limiter, Lock, OnAbort},
    units::Millis,
};

/// `ttl` where it is not given.
const TTL: Millis = Millis::from_secs(15 * 60);

/// What a route's requests hold.
pub(super) struct Held {
    pub(super) lease: Option<Lease>,
    pub(super) lock: Option<Lock>,
    pub(super) hold_on: Vec<u16>,
    pub(super) quota: Option<String>,
}

/// What a route says of its lease and its lock alike.
#[derive(Clone, Copy)]
struct OfBoth {
    on_abort: Option<OnAbort>,
    /// Some response hands them over to the upstream.
    are_handed_over: bool,
}

/// The fields of a route that only the store can see to: a route with one of them is closed while it fails.
pub(super) fn needs_store(fields: &Fields<'_>) -> Vec<&'static str> {
    let mut given = vec!["lease", "lock", "quota"];
    given.retain(|name| fields.get(name).is_some());
    given
}

/// Reads these fields of a route whose path is `pattern`, if that can be read.
pub(super) fn read(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    pattern: Option<&Pattern>,
    kinds: &Kinds,
    limiter: Option<Limiter>,
) -> Option<Held> {
    let refuse_without_tenant = |reader: &mut Reader<'_>, at: &At<'_>, what| {
        if limiter == Some(Limiter::Credential) {
            refuse_credential(reader, at, what);
        }
    };
    let on_abort_ahead = reader.ahead(|reader| on_abort(reader, fields, None));
    let hold_on_ahead =
        reader.ahead(|reader| fields.optional(reader, "hold_on", Vec::new(), hold_on));
    let of_both = OfBoth {
        on_abort: on_abort_ahead.flatten(),
        are_handed_over: hold_on_ahead.is_some_and(|statuses| !statuses.is_empty()),
    };
    let lease = fields.optional(reader, "lease", None, |reader, at| {
        refuse_without_tenant(reader, at, "a lease");
        lease(reader, at, &kinds.leases, of_both).map(Some)
    });
    let lock = fields.optional(reader, "lock", None, |reader, at| {
        refuse_without_tenant(reader, at, "a lock");
        lock(reader, at, pattern, of_both).map(Some)
    });
    let is_held = ["lease", "lock"]
        .iter()
        .any(|name| fields.get(name).is_some());
    let hold_on = fields.optional(reader, "hold_on", Vec::new(), |reader, at| {
        if !is_held {
            refuse(reader, at);
        }
        hold_on(reader, at)
    });
    if let Some(at) = fields.get("on_abort").filter(|_| !is_held) {
        refuse(reader, &at);
    }
    let on_abort = on_abort(reader, fields, None);
    let quota = fields.optional(reader, "quota", None, |reader, at| {
        refuse_without_tenant(reader, at, "a quota");
        kinds.quotas.read(reader, at).map(Some)
    });
    on_abort?;
    Some(Held {
        lease: lease?,
        lock: lock?,
        hold_on: hold_on?,
        quota: quota?,
    })
}

fn lease(reader: &mut Reader<'_>, at: &At<'_>, kinds: &Known, of_both: OfBoth) -> Option<Lease> {
    let value = reader.value(at)?;
    if let Value::Text(text) = &value
        && let Some(kind) = example(&text.value)
    {
        let expected = format!("an object of kind, ttl, on_abort, such as {{kind: {kind}}}");
        return reader.mismatch(at, &value, &expected);
    }
    let fields = reader.fields(at, &["kind", "ttl", "on_abort"])?;
    let kind = fields.required(reader, "kind", KIND, |reader, at| kinds.read(reader, at));
    let ttl = fields.optional(reader, "ttl", TTL, Reader::lifetime);
    let on_abort = on_abort(reader, &fields, of_both.on_abort)?;
    let on_abort = on_abort.unwrap_or(OnAbort::Release);
    warn_of_idle_ttl(reader, &fields, "lease", of_both, on_abort);
    Some(Lease {
        kind: kind?,
        ttl: ttl?,
        on_abort,
    })
}

fn lock(
    reader: &mut Reader<'_>,
    at: &At<'_>,
    pattern: Option<&Pattern>,
    of_both: OfBoth,
) -> Option<Lock> {
    let fields = reader.fields(at, &["by", "ttl", "on_abort"])?;
    let by = fields.required(reader, "by", lock_by::EXPECTED, |reader, at| {
        lock_by::read(reader, at, pattern)
    });
    let ttl = fields.optional(reader, "ttl", TTL, Reader::lifetime);
    let on_abort = on_abort(reader, &fields, of_both.on_abort)?;
    let on_abort = on_abort.unwrap_or(OnAbort::Hold);
    warn_of_idle_ttl(reader, &fields, "lock", of_both, on_abort);
    Some(Lock {
        by: by?,
        ttl: ttl?,
        on_abort,
    })
}

/// A `ttl` counts from the end of the request, and only for what outlives it.
fn warn_of_idle_ttl(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    held: &str,
    of_both: OfBoth,
    on_abort: OnAbort,
) {
    if let Some(at) = fields.get("ttl")
        && !of_both.are_handed_over
        && on_abort == OnAbort::Release
    {
        let message = format!(
            "found ttl with neither hold_on nor on_abort: hold: the {held} always ends with its \
             request, so it never lasts for ttl"
        );
        reader.warn(&at.path, message);
    }
}

fn on_abort(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    absent: Option<OnAbort>,
) -> Option<Option<OnAbort>> {
    fields.optional(reader, "on_abort", absent, |reader, at| {
        let choices = [("release", OnAbort::Release), ("hold", OnAbort::Hold)];
        reader.choice(at, &choices).map(Some)
    })
}

fn hold_on(reader: &mut Reader<'_>, at: &At<'_>) -> Option<Vec<u16>> {
    const STATUSES: Bounds = Bounds {
        between: (200, 599),
        one: "a status such as 202: a whole number from 200 to 599",
        list: "a list of statuses such as [202]",
    };
    statuses::read(reader, at, &STATUSES)
}

/// A field that says how long lease and lock are held, where there is neither.
fn refuse(reader: &mut Reader<'_>, at: &At<'_>) {
    let message =
        "found a field that belongs to lease and lock, expected it only beside one of them";
    reader.error(&at.path, message.to_owned());
}

/// What somebody holds or takes, on a route where nobody is known.
fn refuse_credential(reader: &mut Reader<'_>, at: &At<'_>, what: &str) {
    let message = format!(
        "found {what} with limiter: credential, expected one or the other: nobody is known yet \
         where credentials are presented"
    );
    reader.error(&at.path, message);
}
