//! The REST way of Upstash and its like: `POST /pipeline` with a list of commands; the answer is a list
//! of `{"result":reply}` or `{"error":"text"}`.

use serde::Deserialize;
use serde_json::Value;

use super::{Reply, StoreFault, elements};
use crate::store::script::Command;

#[derive(Deserialize)]
struct Answer {
    result: Option<Value>,
    error: Option<String>,
}

/// Commands as they stand in a body.
pub(super) fn body(commands: &[Command]) -> Vec<u8> {
    // Strings in lists are always JSON.
    serde_json::to_vec(commands).unwrap_or_default()
}

/// Reads an answer with status 200.
pub(super) fn read(body: &[u8]) -> Result<Vec<Reply>, StoreFault> {
    let answers: Vec<Answer> = serde_json::from_slice(body).map_err(|_| StoreFault::Malformed)?;
    let reply = |answer| match answer {
        Answer {
            error: Some(error), ..
        } => Err(StoreFault::of_error(&error)),
        Answer {
            result: Some(Value::Array(list)),
            ..
        } => elements(list),
        _ => Err(StoreFault::Malformed),
    };
    Ok(answers.into_iter().map(reply).collect())
}
