//! Envoy 1.40, as experiments with it and its sources show.

use crate::abi::{Status, map};
use crate::process::Options;
use crate::state::State;
use crate::stream::Stream;
use crate::{Answer, Headers, LocalReply, Message, Upstream};

/// What an operator can set about a Wasm filter in Envoy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnvoyOptions {
    /// The plugin's `allow_on_headers_stop_iteration`, false by default: a filter that pauses in the
    /// headers callback is then shown no body until it resumes.
    pub allow_on_headers_stop_iteration: bool,
    /// The listener's `per_connection_buffer_limit_bytes`, 1 MiB by default: a message held beyond it
    /// is answered by Envoy itself (413 for a request, 500 for a response).
    pub buffer_limit: usize,
}

impl Default for EnvoyOptions {
    fn default() -> Self {
        Self {
            allow_on_headers_stop_iteration: false,
            buffer_limit: 1024 * 1024,
        }
    }
}

pub(super) fn readable(state: &State, number: u32) -> Option<&Headers> {
    if number == map::CALL_RESPONSE_HEADERS {
        return state.answer().map(|answer| &answer.headers);
    }
    let id = state.current();
    let stream = state.live(id)?;
    let logging = state.logging == Some(id);
    match number {
        map::REQUEST_HEADERS => visible_request(stream, logging),
        map::RESPONSE_HEADERS => visible_response(stream, logging),
        _ => None,
    }
}

pub(super) fn writable(state: &mut State, number: u32) -> Option<&mut Headers> {
    let stream = state.live_mut(state.current())?;
    let half = match number {
        map::REQUEST_HEADERS => &mut stream.request,
        map::RESPONSE_HEADERS => &mut stream.response,
        _ => return None,
    };
    half.open.then_some(&mut half.headers)
}

/// Request headers can be reached until they go on, and read again while the stream is logged.
fn visible_request(stream: &Stream, logging: bool) -> Option<&Headers> {
    (stream.request.open || logging).then_some(&stream.request.headers)
}

fn visible_response(stream: &Stream, logging: bool) -> Option<&Headers> {
    let half = &stream.response;
    (half.open || (logging && half.arrived)).then_some(&half.headers)
}

pub(super) fn property(
    options: &Options,
    stream: Option<(&Stream, bool)>,
    path: &[u8],
    out: &mut Vec<u8>,
) -> bool {
    let given = |list: &[(Vec<u8>, Vec<u8>)], out: &mut Vec<u8>| {
        let found = list.iter().find(|(have, _)| have == path);
        found.map(|(_, value)| out.extend(value)).is_some()
    };
    if given(&options.properties, out) {
        return true;
    }
    let Some((stream, logging)) = stream else {
        return false;
    };
    if given(&stream.properties, out) {
        return true;
    }
    let Some(split) = path.iter().position(|byte| *byte == 0) else {
        let kept = stream.filter_state.get(path);
        return kept.map(|value| out.extend(value)).is_some();
    };
    let (root, rest) = (&path[..split], &path[split + 1..]);
    match root {
        b"filter_state" => rest
            .strip_prefix(b"wasm.")
            .and_then(|name| stream.filter_state.get(name))
            .map(|value| out.extend(value))
            .is_some(),
        b"request" => visible_request(stream, logging)
            .is_some_and(|headers| of_request(headers, rest, out).is_some()),
        b"response" => visible_response(stream, logging)
            .is_some_and(|headers| of_response(headers, rest, out).is_some()),
        _ => false,
    }
}

fn of_request(headers: &Headers, name: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let path = || headers.get(":path");
    let question = || path()?.iter().position(|byte| *byte == b'?');
    let value = match name {
        b"method" => headers.get(":method")?,
        b"scheme" => headers.get(":scheme")?,
        b"host" => headers.get(":authority")?,
        b"path" => path()?,
        b"url_path" => &path()?[..question().unwrap_or(path()?.len())],
        b"query" => question().map_or(&b""[..], |at| &path().unwrap_or_default()[at + 1..]),
        b"id" => headers.get("x-request-id")?,
        b"useragent" => headers.get("user-agent")?,
        b"referer" => headers.get("referer")?,
        _ => return joined(headers, name.strip_prefix(b"headers\0")?, out),
    };
    out.extend(value);
    Some(())
}

fn of_response(headers: &Headers, name: &[u8], out: &mut Vec<u8>) -> Option<()> {
    if name == b"code" {
        out.extend(i64::from(headers.status()?).to_le_bytes());
        return Some(());
    }
    joined(headers, name.strip_prefix(b"headers\0")?, out)
}

/// All values of a header, joined by commas.
fn joined(headers: &Headers, name: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let all = headers.all(name);
    (!all.is_empty()).then(|| out.extend(all.join(&b',')))
}

pub(super) fn dispatch(
    upstream: Option<Upstream>,
    headers: &Headers,
    timeout_millis: u32,
) -> Result<(), Status> {
    let complete = [":method", ":path", ":authority"]
        .into_iter()
        .all(|name| headers.get(name).is_some());
    match upstream {
        _ if i32::try_from(timeout_millis).is_err() => Err(Status::BadArgument),
        None => Err(Status::BadArgument),
        Some(_) if !complete => Err(Status::BadArgument),
        Some(Upstream::Down) => Err(Status::InternalFailure),
        Some(Upstream::Up) => Ok(()),
    }
}

pub(super) fn refused() -> Answer {
    local_answer(
        503,
        "upstream connect error or disconnect/reset before headers. reset reason: remote connection failure",
    )
}

pub(super) fn timed_out() -> Answer {
    local_answer(504, "upstream request timeout")
}

fn local_answer(status: u16, body: &str) -> Answer {
    Answer::new(status, body)
        .header("content-length", body.len().to_string())
        .header("content-type", "text/plain")
}

/// Envoy completes a local reply: a body gets its length and a type; without one both go; a gRPC
/// request is answered in trailers only; HEAD gets no body, but the length and type of the one given.
pub(super) fn reply(request: &Headers, reply: &LocalReply) -> Message {
    let mut headers = Headers::new().with(":status", reply.status.to_string());
    for (name, value) in reply.headers.iter() {
        headers.push(name.to_ascii_lowercase(), value);
    }
    let mut body = reply.body.clone();
    let head = request.get(":method") == Some(b"HEAD");
    if is_grpc(request) {
        headers.set(":status", "200");
        headers.set("content-type", "application/grpc");
        if headers.get("grpc-status").is_none() {
            let status = reply.grpc_status.unwrap_or(grpc_status(reply.status));
            headers.push("grpc-status", status.to_string());
        }
        if !body.is_empty() && !head {
            headers.push("grpc-message", percent_encoded(&body));
        }
        headers.remove("content-length");
        body.clear();
    } else if body.is_empty() {
        headers.remove("content-length");
        headers.remove("content-type");
    } else {
        headers.set("content-length", body.len().to_string());
        if headers.get("content-type").is_none() {
            headers.push("content-type", "text/plain");
        }
    }
    if head {
        body.clear();
    }
    Message {
        headers,
        body,
        complete: true,
    }
}

fn is_grpc(request: &Headers) -> bool {
    request
        .get("content-type")
        .and_then(|kind| kind.strip_prefix(b"application/grpc"))
        .is_some_and(|rest| rest.is_empty() || rest[0] == b'+')
}

fn grpc_status(status: u16) -> u32 {
    match status {
        400 => 13,
        401 => 16,
        403 => 7,
        404 => 12,
        429 | 502 | 503 | 504 => 14,
        _ => 2,
    }
}

fn percent_encoded(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        match byte {
            b' '..=b'~' if *byte != b'%' => out.push(*byte),
            _ => out.extend(format!("%{byte:02X}").into_bytes()),
        }
    }
    out
}
