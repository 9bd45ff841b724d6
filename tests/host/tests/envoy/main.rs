//! The host itself, tried with small guests written for it: what it promises to be true of Envoy.

mod bodies;
mod bytes;
mod calls;
mod death;
mod guest;
mod replies;
mod roots;
mod shared;
mod world;
