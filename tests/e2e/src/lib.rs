//! Tollgate on a real Envoy: everything a story needs.
//!
//! Owns: an Envoy of one's own for each test ([`Gateway`], made from a [`Setup`]), the API behind it
//! ([`Upstream`], [`Workshop`]), the database behind that ([`Postgres`]), a store for it ([`Redis`] behind [`Webdis`], [`RestFront`] or [`Faulty`]), clients polite ([`Ask`]), hostile ([`RawConnection`]), gRPC ([`GrpcClient`]) and many
//! ([`Volley`]), and a look at what Envoy says of itself ([`Stats`], [`LogLine`]). Must not: know Tollgate's
//! rules. A story states what it expects.
//!
//! ```no_run
//! # async fn story() -> Result<(), Box<dyn std::error::Error>> {
//! use tollgate_e2e::{Gateway, Setup};
//!
//! let gateway = Gateway::start(Setup::new("{anonymous: {limit: 2/minute}}").workers(2)).await?;
//! let reply = gateway.get("/v1/ledgers").send().await;
//! assert_eq!(reply.status, 200);
//! assert_eq!(reply.header("ratelimit-remaining"), Some("1"));
//! assert_eq!(gateway.upstream().requests().len(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! Nothing here sleeps for a fixed time: what takes a while is polled until a deadline ([`eventually`]).
//! A harness that finds no Envoy or no filter fails; it never skips.

mod admin;
mod answer;
mod ask;
mod bootstrap;
mod clock;
mod demo;
mod dice;
mod eventually;
mod example;
mod faulty;
mod files;
mod gateway;
mod grpc;
mod logs;
mod payload;
mod places;
mod ports;
mod postgres;
mod process;
mod raw;
mod redis_server;
mod reply;
mod rest_front;
mod server;
mod setup;
mod stats;
mod tied;
mod upstream;
mod volley;
mod webdis;
mod workshop;

pub use admin::Memory;
pub use answer::{Answer, Gate};
pub use ask::Ask;
pub use bootstrap::wasm_filter;
pub use demo::Demo;
pub use dice::Dice;
pub use eventually::eventually;
pub use faulty::{Fault, Faulty};
pub use files::allow_many_files;
pub use gateway::{Gateway, Refused};
pub use grpc::{GrpcClient, frame};
pub use logs::LogLine;
pub use places::{envoy_binary, filter_wasm, repository};
pub use postgres::{Postgres, Session};
pub use process::BootFailure;
pub use raw::RawConnection;
pub use redis_server::{Key, Redis};
pub use reply::{NoAnswer, Reply};
pub use rest_front::RestFront;
pub use setup::{Configuration, Setup};
pub use stats::{Sample, Stats};
pub use upstream::{Received, Upstream};
pub use volley::{Shot, Volley};
pub use webdis::Webdis;
pub use workshop::{Work, Worked, Workshop};
