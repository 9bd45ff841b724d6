//! The only file that calls the host. Every status becomes an error or an absence; only bytes go in
//! and out, since a value that is not UTF-8 must not stop the virtual machine.

use std::time::{Duration, UNIX_EPOCH};

use proxy_wasm::hostcalls;
use proxy_wasm::types::{BufferType, GrpcStatusCode, MapType, MetricType, Status};
use tollgate_config::Millis;

use super::abi;
use crate::reply::{Field, Form, Reply};
use crate::request::Request;
use crate::store::front::{Call, StoreFault};
use crate::store::local::memory::{Changed, Memory, Slot};

/// Answers to a whole call are some kilobytes.
const LARGEST_ANSWER: usize = 256 * 1024;

/// The proxy's time; it may be set back.
pub(super) fn now() -> Millis {
    let since = hostcalls::get_current_time()
        .ok()
        .and_then(|t| t.duration_since(UNIX_EPOCH).ok());
    since.map_or(Millis(0), |d| {
        Millis(u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
    })
}

/// Randomness of the host.
pub(super) fn random() -> u64 {
    getrandom::u64().unwrap_or_else(|_| now().0)
}

/// The plugin's configuration; none at all is empty.
pub(super) fn configuration(size: usize) -> Vec<u8> {
    let read = hostcalls::get_buffer(BufferType::PluginConfiguration, 0, size);
    read.ok().flatten().unwrap_or_default()
}

/// The head of the request.
pub(super) fn request() -> Request {
    Request::from_map(abi::map(MapType::HttpRequestHeaders))
}

/// The trailers of the request.
pub(super) fn request_trailers() -> Request {
    Request::from_map(abi::map(MapType::HttpRequestTrailers))
}

/// Takes a trailer off the request.
pub(super) fn remove_request_trailer(name: &str) -> Result<(), Status> {
    hostcalls::remove_map_value(MapType::HttpRequestTrailers, name)
}

/// Takes a header off the request.
pub(super) fn remove_request_header(name: &str) -> Result<(), Status> {
    hostcalls::remove_map_value(MapType::HttpRequestHeaders, name)
}

/// Sets a header of the request, in place of any other of its name.
pub(super) fn set_request_header(name: &str, value: &str) -> Result<(), Status> {
    hostcalls::set_map_value_bytes(MapType::HttpRequestHeaders, name, Some(value.as_bytes()))
}

/// The first bytes of the request's body, as far as it is there.
pub(super) fn request_body(most: usize) -> Vec<u8> {
    let read = hostcalls::get_buffer(BufferType::HttpRequestBody, 0, most);
    read.ok().flatten().unwrap_or_default()
}

/// A header of the response.
pub(super) fn response_header(name: &str) -> Option<Vec<u8>> {
    let read = hostcalls::get_map_value_bytes(MapType::HttpResponseHeaders, name);
    read.ok().flatten()
}

/// A trailer of the response.
pub(super) fn response_trailer(name: &str) -> Option<Vec<u8>> {
    let read = hostcalls::get_map_value_bytes(MapType::HttpResponseTrailers, name);
    read.ok().flatten()
}

/// Why the response of the effective stream is as it is: Envoy's details of the response code.
pub(super) fn response_details() -> Option<Vec<u8>> {
    property(["response", "code_details"])
}

/// Whether the upstream broke off the response of the effective stream, as Envoy's details of the response code say it.
pub(super) fn upstream_broke() -> bool {
    let details = response_details();
    details.is_some_and(|details| details.starts_with(b"upstream_reset_after_response_started"))
}

/// Sets a header of the response, in place of the upstream's.
pub(super) fn set_response_header((name, value): &Field) -> Result<(), Status> {
    hostcalls::set_map_value_bytes(MapType::HttpResponseHeaders, name, Some(value.as_bytes()))
}

/// A property of the stream.
pub(super) fn property<'a>(path: impl IntoIterator<Item = &'a str>) -> Option<Vec<u8>> {
    hostcalls::get_property(path.into_iter().collect())
        .ok()
        .flatten()
}

/// Leaves a property for access logs.
pub(super) fn set_property(name: &str, value: &str) -> Result<(), Status> {
    hostcalls::set_property(vec![name], Some(value.as_bytes()))
}

/// Answers the request.
pub(super) fn reply(reply: &Reply) -> Result<(), Status> {
    match &reply.form {
        Form::Http { status, body } => {
            let fields = reply.fields.iter().map(|(n, v)| (*n, v.as_str())).collect();
            let body = (!body.is_empty()).then_some(body.as_slice());
            hostcalls::send_http_response(u32::from(*status), fields, body)
        }
        Form::Grpc { status, message } => {
            let fields = reply
                .fields
                .iter()
                .map(|(n, v)| (*n, v.as_bytes()))
                .collect();
            hostcalls::send_grpc_response(grpc_code(*status), Some(message), fields)
        }
    }
}

fn grpc_code(status: u8) -> GrpcStatusCode {
    match status {
        7 => GrpcStatusCode::PermissionDenied,
        8 => GrpcStatusCode::ResourceExhausted,
        9 => GrpcStatusCode::FailedPrecondition,
        10 => GrpcStatusCode::Aborted,
        _ => GrpcStatusCode::Unavailable,
    }
}

/// Lets the paused request of the effective context go on.
pub(super) fn resume() -> Result<(), Status> {
    hostcalls::resume_http_request()
}

/// Makes a context the one that calls are about; fails where it is gone.
pub(super) fn be(context: u32) -> Result<(), Status> {
    hostcalls::set_effective_context(context)
}

/// Makes an HTTP call; its token. The answer comes to the context whose callback is running.
pub(super) fn call(upstream: &str, call: &Call, timeout: Millis) -> Result<u32, StoreFault> {
    let headers = call.headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
    let body = (!call.body.is_empty()).then_some(call.body.as_slice());
    // Under a millisecond would be none at all.
    let timeout = Duration::from_millis(timeout.0.max(1));
    let sent = hostcalls::dispatch_http_call(upstream, headers, body, Vec::new(), timeout);
    sent.map_err(|status| match status {
        Status::BadArgument => StoreFault::NoCluster,
        _ => StoreFault::Unreachable,
    })
}

/// The status of the answer to a call; none where there is no answer.
pub(super) fn call_status() -> Option<Vec<u8>> {
    let head = Request::from_map(abi::map(MapType::HttpCallResponseHeaders));
    Some(head.first(":status").to_vec()).filter(|status| !status.is_empty())
}

/// The body of the answer to a call. One that is larger than any answer can be is not worth the memory:
/// it is read as none.
pub(super) fn call_body(size: usize) -> Vec<u8> {
    if size > LARGEST_ANSWER {
        return Vec::new();
    }
    let read = hostcalls::get_buffer(BufferType::HttpCallResponseBody, 0, size);
    read.ok().flatten().unwrap_or_default()
}

/// Opens a queue of this name.
pub(super) fn open_queue(name: &str) -> Result<u32, Status> {
    hostcalls::register_shared_queue(name)
}

/// Has the queue's owner called soon, once what runs now is over.
pub(super) fn kick(queue: u32) -> Result<(), Status> {
    hostcalls::enqueue_shared_queue(queue, Some(b"k"))
}

/// Empties a queue.
pub(super) fn drain(queue: u32) {
    while let Ok(Some(_)) = hostcalls::dequeue_shared_queue(queue) {}
}

/// Has the root called every so often.
pub(super) fn tick_every(period: Millis) -> Result<(), Status> {
    hostcalls::set_tick_period(Duration::from_millis(period.0))
}

/// Defines a metric, or finds it.
pub(super) fn define(kind: MetricType, name: &str) -> Result<u32, Status> {
    hostcalls::define_metric(kind, name)
}

/// Moves a metric, which all workers share.
pub(super) fn shift(id: u32, by: i64) -> Result<(), Status> {
    hostcalls::increment_metric(id, by)
}

/// Adds a value to a histogram.
pub(super) fn record(id: u32, value: u64) -> Result<(), Status> {
    hostcalls::record_metric(id, value)
}

/// Counts.
pub(super) fn count(id: u32, by: u64) -> Result<(), Status> {
    shift(id, i64::try_from(by).unwrap_or(i64::MAX))
}

/// The memory that all workers share.
#[derive(Debug)]
pub(super) struct SharedMemory;

impl Memory for SharedMemory {
    fn read(&self, name: &str) -> Option<Slot> {
        let (bytes, version) = hostcalls::get_shared_data(name).ok()?;
        let version = version?;
        Some(Slot {
            bytes: bytes.unwrap_or_default(),
            version,
        })
    }

    fn write(&self, name: &str, bytes: &[u8], version: u32) -> Result<(), Changed> {
        let version = (version != 0).then_some(version);
        hostcalls::set_shared_data(name, Some(bytes), version).map_err(|_| Changed)
    }
}
