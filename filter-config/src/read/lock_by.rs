//! `lock.by`: where a request names the resource that it locks.

use super::{identity, pointer};
use crate::{
    path::pattern::Pattern,
    reader::{At, Reader, Value, one_of},
    route::LockBy,
};

/// What to write.
pub(super) const EXPECTED: &str = "an object of one of header, query, path, json";

/// Reads it for a route whose path is `pattern`, if that can be read.
pub(super) fn read(
    reader: &mut Reader<'_>,
    at: &At<'_>,
    pattern: Option<&Pattern>,
) -> Option<LockBy> {
    const WAYS: &[&str] = &["header", "query", "path", "json"];
    let fields = reader.fields(at, WAYS)?;
    let mut given = WAYS.to_vec();
    given.retain(|name| fields.get(name).is_some());
    match given.as_slice() {
        [_] => {}
        [] => {
            let message = "found none of header, query, path, json, expected one of them";
            reader.error(&at.path, message.to_owned());
        }
        given => {
            let message = format!("found {}, expected one of them", given.join(" and "));
            reader.error(&at.path, message);
        }
    }
    let header = fields.get("header");
    let header = header.map(|at| identity::header_name(reader, &at).map(LockBy::Header));
    let query = fields.get("query").map(|at| {
        let name = reader.text(&at, "the name of a query parameter");
        name.map(LockBy::Query)
    });
    let path = fields.get("path").map(|at| template(reader, &at, pattern));
    let json = fields
        .get("json")
        .map(|at| pointer::read(reader, &at, "/ledger_id").map(LockBy::Json));
    let mut read = [header, query, path, json].into_iter().flatten();
    match (read.next(), read.next()) {
        (Some(by), None) => by,
        _ => None,
    }
}

fn template(reader: &mut Reader<'_>, at: &At<'_>, pattern: Option<&Pattern>) -> Option<LockBy> {
    let value = reader.value(at)?;
    let Value::Text(text) = &value else {
        return reader.mismatch(at, &value, "the name of a template of match.path");
    };
    let templates: Vec<(usize, &str)> = pattern?.templates().collect();
    if let Some((segment, name)) = templates.iter().find(|(_, name)| *name == text.value) {
        return Some(LockBy::Path {
            name: (*name).to_owned(),
            segment: *segment,
        });
    }
    let expected = if templates.is_empty() {
        "the name of a template of match.path, and it has none".to_owned()
    } else {
        let names = one_of(&text.value, templates.iter().map(|(_, name)| *name));
        format!("the name of a template of match.path: {names}")
    };
    reader.mismatch(at, &value, &expected)
}
