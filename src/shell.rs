//! The filter on a proxy: callbacks become events, effects become host calls. No decisions here.

mod abi;
mod host;
mod http;
mod root;

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
        proxy_wasm::set_root_context(|_| -> Box<dyn RootContext> { Box::new(Root::default()) });
    }}
}
