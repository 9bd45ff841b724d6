//! The filter on a proxy: callbacks become events, effects become host calls. No decisions here.

mod abi;
mod gauges;
mod host;
mod http;
mod remote;
mod root;
mod signs;

use proxy_wasm::traits::RootContext;
use proxy_wasm::types::LogLevel;

#[allow(
    unsafe_code,
    missing_docs,
    reason = "the entry points that a host looks for"
)]
mod entry {
    use super::{LogLevel, RootContext, root::Root};

    proxy_wasm::main! {{
        proxy_wasm::set_log_level(LogLevel::Info);
        proxy_wasm::set_root_context(|id| -> Box<dyn RootContext> { Box::new(Root::new(id)) });
    }}
}
