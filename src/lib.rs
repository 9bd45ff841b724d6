//! Tollgate: a proxy-wasm filter that decides what each tenant, key and address of an API may use.
//!
//! Everything but `shell` is pure: no host call, no clock, no randomness, no log. A request is a
//! [`flow::Flow`]: events go in, effects come out, and `shell` carries them out on the proxy.

pub mod attempt;
pub mod body;
pub mod breaker;
pub mod client_ip;
pub mod desk;
pub mod flow;
pub mod held;
pub mod hold;
pub mod idempotency;
pub mod identity;
mod json;
pub mod limit;
pub mod metrics;
pub mod outbox;
pub mod passes;
pub mod plan;
pub mod price;
pub mod reply;
pub mod request;
pub mod resource;
pub mod response;
pub mod rules;
pub mod store;
pub mod subject;
pub mod verdict;

#[cfg(target_arch = "wasm32")]
mod shell;

#[cfg(test)]
mod testing;
