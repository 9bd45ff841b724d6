//! Replying, resuming, resetting: the host does them after the callback, as Envoy does.

use wasmi::Linker;

use crate::LocalReply;
use crate::abi::memory::{headers, split, view};
use crate::abi::{Fault, Guest, Linked, Status, answer};
use crate::state::{Deferred, State};
use crate::stream::Side;

pub(super) fn link(linker: &mut Linker<State>) -> Linked {
    linker.func_wrap(
        "env",
        "proxy_continue_stream",
        |mut guest: Guest<'_>, kind: u32| answer(resume(guest.data_mut(), kind)),
    )?;
    linker.func_wrap(
        "env",
        "proxy_close_stream",
        |mut guest: Guest<'_>, kind: u32| answer(close(guest.data_mut(), kind)),
    )?;
    linker.func_wrap(
        "env",
        "proxy_send_local_response",
        |mut guest: Guest<'_>,
         status: u32,
         _details: u32,
         _details_len: u32,
         body: u32,
         body_len: u32,
         fields: u32,
         fields_len: u32,
         grpc: i32| {
            let (body, fields) = ((body, body_len), (fields, fields_len));
            answer(reply(&mut guest, status, body, fields, grpc))
        },
    )?;
    linker.func_wrap("env", "proxy_done", |mut guest: Guest<'_>| {
        let state = guest.data_mut();
        let context = state.current();
        state.deferred.push_back(Deferred::RootDone(context));
        answer(Ok(()))
    })?;
    Ok(())
}

fn resume(state: &mut State, kind: u32) -> Result<(), Fault> {
    let side = match kind {
        0 => Side::Request,
        1 => Side::Response,
        _ => return Err(Status::Unimplemented.into()),
    };
    let id = state.current();
    let inside = id == state.context && is_message_callback(state.callback);
    match state.live_mut(id) {
        // The request's headers are out of reach from here on, whichever side is resumed.
        Some(stream) => stream.request.open = false,
        None => state.misuse(id, "resumed a context that is no stream"),
    }
    if inside {
        state.misuse(id, "resumed inside its own callback");
    }
    state.deferred.push_back(Deferred::Resume(id, side));
    Ok(())
}

fn is_message_callback(callback: &str) -> bool {
    matches!(
        callback,
        "proxy_on_request_headers"
            | "proxy_on_request_body"
            | "proxy_on_response_headers"
            | "proxy_on_response_body"
    )
}

fn close(state: &mut State, kind: u32) -> Result<(), Fault> {
    if kind > 1 {
        return Err(Status::Unimplemented.into());
    }
    let id = state.current();
    state.deferred.push_back(Deferred::Reset(id));
    Ok(())
}

fn reply(
    guest: &mut Guest<'_>,
    status: u32,
    body: (u32, u32),
    fields: (u32, u32),
    grpc: i32,
) -> Result<(), Fault> {
    let (memory, state) = split(guest);
    let reply = LocalReply {
        status: u16::try_from(status).map_err(|_| Status::BadArgument)?,
        headers: headers(memory, fields.0, fields.1)?,
        body: view(memory, body.0, body.1)?.to_vec(),
        grpc_status: u32::try_from(grpc).ok(),
    };
    let id = state.current();
    if state.live(id).is_none() {
        state.misuse(id, "replied to a context that is no stream");
    }
    state.replied = true;
    state.deferred.push_back(Deferred::Reply(id, reply));
    Ok(())
}
