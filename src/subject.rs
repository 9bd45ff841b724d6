//! The subject of a request: the user or client whose credential it presents. Read from every place where the
//! upstream may look for it; what two servers may read in two ways is refused, since a request must not be counted
//! for one subject and tried for another. It is hashed as soon as it is read, and never printed.

mod basic;
mod form;
mod media;
mod normal;

use tollgate_config::SubjectSource;

use self::media::Media;
use crate::body::Body;
use crate::identity::Id;
use crate::json::{self, JsonFault};
use crate::request::Request;
use crate::verdict::SubjectFault;

/// Whether the body has to be read for it.
#[must_use]
pub const fn is_in_body(source: &SubjectSource) -> bool {
    source.form.is_some() || source.json.is_some()
}

/// The subject of a request with this body.
///
/// # Errors
/// Why it cannot be read.
pub fn of(source: &SubjectSource, request: &Request, body: &Body) -> Result<Id, SubjectFault> {
    let mut named = Vec::new();
    if source.basic {
        named.extend(basic::user_id(request)?);
    }
    if is_in_body(source) {
        named.extend(in_body(source, request, body)?);
    }
    // Servers in C take a name to end there.
    if named.iter().any(|raw| raw.contains(&0)) {
        return Err(SubjectFault::NoName);
    }
    let names = named.iter().map(|raw| normal::form(source, raw));
    // An empty name is none: a server goes on to the next place.
    let mut names = names.filter(|name| !name.is_empty());
    let subject = names.next().ok_or(SubjectFault::Missing)?;
    if names.any(|other| other != subject) || query_names_another(source, request, &subject) {
        return Err(SubjectFault::Doubled);
    }
    Ok(Id::hashed(&subject))
}

/// The identifier of a subject that is known by its name, as requests that present its credential have it.
#[must_use]
pub fn named(source: &SubjectSource, name: &[u8]) -> Id {
    Id::hashed(&normal::form(source, name))
}

/// What the body names. It is read as JSON where its type says so or it looks like it, and as a form unless its
/// type says JSON: servers look at either, and not all of them at the type.
fn in_body(
    source: &SubjectSource,
    request: &Request,
    body: &Body,
) -> Result<Vec<Vec<u8>>, SubjectFault> {
    if request.is_encoded() {
        return Err(SubjectFault::Encoded);
    }
    let bytes = match body {
        Body::TooLarge => return Err(SubjectFault::TooLarge),
        Body::Whole(bytes) => bytes.as_slice(),
    };
    let media = Media::of(request);
    if media == Media::Foreign && !bytes.is_empty() {
        return Err(SubjectFault::Malformed);
    }
    let says_json = media == Media::Json;
    let mut named = Vec::new();
    if (says_json && !bytes.is_empty()) || media::looks_like_json(bytes) {
        match &source.json {
            Some(pointer) => named.extend(in_json(pointer, bytes)?),
            // It may be a form all the same.
            None if says_json && !json::is_well_formed(bytes) => {
                return Err(SubjectFault::Malformed);
            }
            None => {}
        }
    }
    if let Some(field) = &source.form
        && !says_json
    {
        named.extend(form::field(field, bytes)?);
    }
    Ok(named)
}

fn in_json(pointer: &[String], document: &[u8]) -> Result<Option<Vec<u8>>, SubjectFault> {
    match json::find(pointer, document) {
        Ok(name) => Ok(Some(name.into_bytes())),
        Err(JsonFault::Missing) => Ok(None),
        Err(JsonFault::OtherCase | JsonFault::Doubled) => Err(SubjectFault::Doubled),
        Err(JsonFault::Malformed) => Err(SubjectFault::Malformed),
        Err(JsonFault::NoName) => Err(SubjectFault::NoName),
    }
}

/// Whether a field of the query names another subject: many servers hand query and form over as one.
fn query_names_another(source: &SubjectSource, request: &Request, subject: &[u8]) -> bool {
    let Some(field) = &source.form else {
        return false;
    };
    let mut names = form::alike(field, request.query()).map(|raw| normal::form(source, &raw));
    names.any(|name| !name.is_empty() && name != subject)
}

#[cfg(test)]
mod tests;
