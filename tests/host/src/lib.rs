//! An in-process Proxy-Wasm 0.2.1 host: it runs the built filter, plays requests through it in
//! virtual time, and tells what the filter did as plain data.
//!
//! A [`Process`] is one proxy: it compiles the filter once and owns what its workers share (time,
//! shared data, queues, metrics, upstreams). A [`Vm`] is one worker's instance of the filter. What a
//! real host does differently from another is behind [`Personality`].
//!
//! ```no_run
//! use tollgate_host::{Process, Request, Response, filter_wasm};
//!
//! let process = Process::new(&filter_wasm()).unwrap();
//! let mut vm = process.vm().unwrap();
//! assert!(vm.configure(b"{}").unwrap());
//! let exchange = vm.exchange(Request::get("/v1/ledgers"), Response::status(200));
//! assert_eq!(exchange.status(), Some(200));
//! ```
//!
//! This crate knows nothing of what the filter decides. It is used by tests only: misuse by a test
//! (an unknown stream, an answer to no call) panics; what the filter does wrong never does, it is
//! returned as a [`Trap`] or listed by [`Vm::misuses`].

mod abi;
mod artifact;
mod call;
mod exchange;
mod headers;
mod metrics;
mod personality;
mod process;
mod queues;
mod shared_data;
mod state;
mod stream;
mod trap;
mod vm;
mod wire;

pub use artifact::{filter_wasm, imports};
pub use call::{Answer, Call, Outcome};
pub use exchange::Exchange;
pub use headers::Headers;
pub use metrics::{Histogram, Metric, MetricKind};
pub use personality::{EnvoyOptions, Personality};
pub use process::{LoadError, Options, Process, Upstream};
pub use shared_data::{CasMismatch, SharedData};
pub use stream::{Action, LocalReply, Message, Request, Response, Side, Stream, StreamId};
pub use trap::{LogLevel, LogLine, Trap};
pub use vm::{Misuse, Vm};
