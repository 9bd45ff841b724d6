//! Webdis: one command a call, its words between slashes; the answer is `{"COMMAND":reply}`.
//!
//! Seen of Webdis 0.1.9 (Debian 12): a path ends its last word at a dot (a file type) and at `?`; text
//! that is not UTF-8 is left out of a list, a list within a list is `null`, an error is
//! `[false,"text"]`, a status `[true,"text"]`; a Redis that is down is a 503; no command is a 403. It
//! loses the body of a POST whose head came alone, as Kong sends them.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

use super::{Reply, StoreFault, elements};
use crate::store::script::Command;

/// Bytes of a path: with its other fields a GET stays under 4 KB, which every Webdis reads at once.
pub(super) const MOST_PATH: usize = 3800;

/// What is escaped: everything that a path, a URI or Webdis could take for something else.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'_')
    .remove(b'-')
    .remove(b'~')
    .remove(b':')
    .remove(b'{')
    .remove(b'}')
    .remove(b'=')
    .remove(b',')
    .remove(b';')
    .remove(b'*');

/// A command as it stands in a path or a body.
pub(super) fn text(command: &Command) -> String {
    let mut text = String::new();
    for (i, word) in command.iter().enumerate() {
        if i > 0 {
            text.push('/');
        }
        text.extend(utf8_percent_encode(word, ESCAPED));
    }
    text
}

/// Reads an answer with status 200.
pub(super) fn read(body: &[u8]) -> Result<Reply, StoreFault> {
    let answer: Map<String, Value> =
        serde_json::from_slice(body).map_err(|_| StoreFault::Malformed)?;
    let mut replies = answer.into_iter();
    let (Some((_, Value::Array(list))), None) = (replies.next(), replies.next()) else {
        return Err(StoreFault::Malformed);
    };
    if let [Value::Bool(false), Value::String(error)] = list.as_slice() {
        return Ok(Err(StoreFault::of_error(error)));
    }
    Ok(elements(list))
}
