//! Requests whose streams ended without a response: one of them may be continued at once.
//!
//! A proxy may follow a redirect of the upstream itself, and then plays the filters again for the same request, in
//! the same turn in which it ends the first stream: it must not pay twice, nor lose what it holds. Such a second head
//! names the first one's path, and has its id; it takes the pass of the first. Forging such a head is worth at most
//! one request of one's own that was given up in the same turn; under throttles it has to be the same attempt as
//! that one.

use std::rc::Rc;

use crate::held::Held;
use crate::reply::Field;
use crate::request::{Occurs, Request};

/// What a request was let through with.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// The id of the request; empty where it has none.
    pub id: Vec<u8>,
    /// What its response will tell the client.
    pub fields: Vec<Field>,
    /// The verdict, as access logs have it.
    pub note: &'static str,
}

/// What a request was let through with, and what it holds, whose stream is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parked {
    /// Its pass.
    pub pass: Rc<Pass>,
    /// What it holds.
    pub held: Option<Box<Held>>,
}

/// The id of the request that a head continues, if it says that it is an internal redirect.
#[must_use]
pub fn continues(request: &Request) -> Option<&[u8]> {
    match (
        request.occurs("x-envoy-original-url"),
        request.occurs("x-request-id"),
    ) {
        (Occurs::Once(_), Occurs::Once(id)) => Some(id),
        _ => None,
    }
}

/// What is parked in one virtual machine, for a turn. An internal redirect stays on its worker.
#[derive(Debug, Default)]
pub struct Passes(Vec<Parked>);

impl Passes {
    /// Keeps what a request has whose stream is over.
    pub fn park(&mut self, parked: Parked) {
        self.0.push(parked);
    }

    /// Takes what the request of this id has, if it is there.
    pub fn resume(&mut self, id: &[u8]) -> Option<Parked> {
        let place = self.0.iter().position(|parked| parked.pass.id == id)?;
        Some(self.0.swap_remove(place))
    }

    /// Takes what is held by all that is there: a request that is continued is continued in the same turn,
    /// so whatever is there in a later one is over.
    pub fn take_held(&mut self) -> impl Iterator<Item = Held> {
        let parked = std::mem::take(&mut self.0);
        parked
            .into_iter()
            .filter_map(|parked| parked.held.map(|held| *held))
    }
}

#[cfg(test)]
mod tests;
