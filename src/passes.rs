//! Requests that were let through and have no response yet.
//!
//! A proxy may follow a redirect of the upstream itself, and then plays the filters again for the
//! same request: it must not pay twice. Such a second head names the first one's path, and has its
//! id; it takes the pass of the first. A pass is taken once, so that forging such a head is worth at
//! most one request of one's own that is still waiting for its response.

use std::hash::{BuildHasher as _, RandomState};
use std::rc::Rc;

use crate::held::Held;
use crate::reply::Field;
use crate::request::{Occurs, Request};

/// Passes that are kept; further ones take the place of others.
const KEPT: usize = 1024;

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

/// What the request that another one continues was let through with, and what it holds.
#[derive(Debug, PartialEq, Eq)]
pub struct Continued {
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

/// The passes of one virtual machine. An internal redirect stays on its worker.
#[derive(Debug)]
pub struct Passes {
    hasher: RandomState,
    kept: Vec<Option<Rc<Pass>>>,
    /// What requests hold whose streams are over, but that may be continued at once.
    parked: Vec<(Vec<u8>, Box<Held>)>,
}

impl Default for Passes {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            kept: vec![None; KEPT],
            parked: Vec::new(),
        }
    }
}

impl Passes {
    /// Keeps a pass until its response comes.
    pub fn keep(&mut self, pass: &Rc<Pass>) {
        if !pass.id.is_empty()
            && let Some(place) = self.place(&pass.id)
        {
            *place = Some(Rc::clone(pass));
        }
    }

    /// Takes the pass of a request, if it is there.
    pub fn take(&mut self, id: &[u8]) -> Option<Rc<Pass>> {
        self.place(id)?.take_if(|pass| pass.id == id)
    }

    /// Keeps what a request of this id holds, whose stream is over.
    pub fn park(&mut self, id: Vec<u8>, held: Box<Held>) {
        self.parked.push((id, held));
    }

    /// Takes the pass of a request and what it holds, if it is there.
    pub fn resume(&mut self, id: &[u8]) -> Option<Continued> {
        let pass = self.take(id)?;
        let place = self.parked.iter().position(|(parked, _)| parked == id);
        let held = place.map(|place| self.parked.swap_remove(place).1);
        Some(Continued { pass, held })
    }

    /// Takes what is parked: a request that is continued is continued in the same turn, so whatever is there
    /// in a later one is over.
    pub fn take_parked(&mut self) -> Vec<Box<Held>> {
        let parked = std::mem::take(&mut self.parked);
        parked.into_iter().map(|(_, held)| held).collect()
    }

    fn place(&mut self, id: &[u8]) -> Option<&mut Option<Rc<Pass>>> {
        let index = self.hasher.hash_one(id) % KEPT as u64;
        self.kept.get_mut(usize::try_from(index).ok()?)
    }
}

#[cfg(test)]
mod tests;
