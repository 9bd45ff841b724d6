//! A filter that makes the host calls of an admitted request and decides nothing: all headers read, the
//! clock, one page of shared memory read and written, the verdict left for access logs, two counters, four
//! response headers. What it costs is the least that any filter with that surface can cost.

use proxy_wasm::hostcalls;
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{Action, ContextType, MapType, MetricType};

const PAGE: &str = "page";
const PAGE_SIZE: usize = 4096;
const FIELDS: [(&str, &[u8]); 4] = [
    ("ratelimit-policy", b"3000;w=60"),
    ("ratelimit-limit", b"3000"),
    ("ratelimit-remaining", b"2999"),
    ("ratelimit-reset", b"1"),
];

#[allow(
    unsafe_code,
    missing_docs,
    reason = "the entry points that a host looks for"
)]
mod entry {
    use super::{Root, RootContext};

    proxy_wasm::main! {{
        proxy_wasm::set_root_context(|_| -> Box<dyn RootContext> { Box::new(Root([0, 0])) });
    }}
}

/// The two counters.
struct Root([u32; 2]);

impl Context for Root {}

impl RootContext for Root {
    fn on_configure(&mut self, _size: usize) -> bool {
        let define = |name| hostcalls::define_metric(MetricType::Counter, name).unwrap_or(0);
        self.0 = ["calls_requests", "calls_points"].map(define);
        hostcalls::set_shared_data(PAGE, Some(&[0; PAGE_SIZE]), None).is_ok()
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }

    fn create_http_context(&self, _context_id: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(Stream(self.0)))
    }
}

struct Stream([u32; 2]);

impl Context for Stream {}

#[allow(unsafe_code, reason = "one host call, as the filter makes it")]
fn read_headers() -> usize {
    #[link(wasm_import_module = "env")]
    unsafe extern "C" {
        fn proxy_get_header_map_pairs(kind: MapType, data: *mut *mut u8, size: *mut usize) -> u32;
    }
    let (mut data, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: both point to places of the types that the host writes.
    unsafe { proxy_get_header_map_pairs(MapType::HttpRequestHeaders, &mut data, &mut size) };
    if data.is_null() {
        return 0;
    }
    // SAFETY: the host had these bytes allocated by the SDK as a vector of exactly this capacity.
    unsafe { Vec::from_raw_parts(data, size, size) }.len()
}

impl HttpContext for Stream {
    fn on_http_request_headers(&mut self, _headers: usize, _end_of_stream: bool) -> Action {
        let _ = (read_headers(), hostcalls::get_current_time());
        if let Ok((Some(page), version)) = hostcalls::get_shared_data(PAGE) {
            let _ = hostcalls::set_shared_data(PAGE, Some(&page), version);
        }
        let _ = hostcalls::set_property(vec!["calls_verdict"], Some(b"allowed"));
        for id in self.0 {
            let _ = hostcalls::increment_metric(id, 1);
        }
        Action::Continue
    }

    fn on_http_response_headers(&mut self, _headers: usize, _end_of_stream: bool) -> Action {
        for (name, value) in FIELDS {
            let _ = hostcalls::set_map_value_bytes(MapType::HttpResponseHeaders, name, Some(value));
        }
        Action::Continue
    }
}
