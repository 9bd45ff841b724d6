//! Outbound HTTP calls: recorded here, answered by the test.

use std::time::Duration;

use wasmi::Linker;

use crate::Call;
use crate::abi::memory::{headers, put_word, split, view};
use crate::abi::{Fault, Guest, Linked, answer};
use crate::state::State;

pub(super) fn link(linker: &mut Linker<State>) -> Linked {
    linker.func_wrap(
        "env",
        "proxy_http_call",
        |mut guest: Guest<'_>,
         upstream: u32,
         upstream_len: u32,
         fields: u32,
         fields_len: u32,
         body: u32,
         body_len: u32,
         _trailers: u32,
         _trailers_len: u32,
         timeout: u32,
         out: u32| {
            let request = Request {
                upstream: (upstream, upstream_len),
                fields: (fields, fields_len),
                body: (body, body_len),
                timeout,
            };
            answer(dispatch(&mut guest, &request, out))
        },
    )?;
    Ok(())
}

/// The guest's arguments: addresses and lengths.
struct Request {
    upstream: (u32, u32),
    fields: (u32, u32),
    body: (u32, u32),
    timeout: u32,
}

fn dispatch(guest: &mut Guest<'_>, request: &Request, out: u32) -> Result<(), Fault> {
    let (memory, state) = split(guest);
    put_word(memory, out, 0)?;
    let upstream = view(memory, request.upstream.0, request.upstream.1)?;
    let headers = headers(memory, request.fields.0, request.fields.1)?;
    let body = view(memory, request.body.0, request.body.1)?.to_vec();
    let known = {
        let upstreams = state.shared.upstreams.lock().unwrap();
        upstreams.get(upstream).copied()
    };
    let personality = state.shared.options.personality;
    personality.dispatch(known, &headers, request.timeout)?;
    state.last_token += 1;
    state.calls.push(Call {
        token: state.last_token,
        root: state.current_root(),
        upstream: upstream.to_vec(),
        headers,
        body,
        timeout: (request.timeout > 0).then(|| Duration::from_millis(request.timeout.into())),
        sent_at: state.shared.now(),
    });
    put_word(memory, out, state.last_token)
}
