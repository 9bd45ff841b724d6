//! One direction of a stream: what has come, what the guest holds, what has gone on.

use std::collections::VecDeque;

use crate::{Headers, Message};

/// What the filter holds back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Nothing.
    #[default]
    Nothing,
    /// The headers; the body is still shown to the guest.
    Headers,
    /// Headers and body: nothing is shown until it resumes.
    Everything,
    /// The body shown so far, and the headers if they were held.
    Body,
}

/// One direction of a stream.
#[derive(Debug, Default)]
pub(crate) struct Half {
    pub(crate) headers: Headers,
    /// The headers were shown to the guest.
    pub(crate) arrived: bool,
    /// The guest may reach the headers now.
    pub(crate) open: bool,
    pub(crate) stop: Stop,
    /// Body the guest has not seen.
    pub(crate) coming: VecDeque<Vec<u8>>,
    /// Nothing comes after `coming`.
    pub(crate) last_known: bool,
    /// Body the guest has seen and that has not gone on.
    pub(crate) held: Vec<u8>,
    /// The guest may reach `held` now.
    pub(crate) body_open: bool,
    pub(crate) headers_gone: bool,
    pub(crate) body_gone: Vec<u8>,
    pub(crate) complete: bool,
    pub(crate) resumed: u32,
}

impl Half {
    pub(crate) fn new(headers: Headers, chunks: Vec<Vec<u8>>, complete: bool) -> Self {
        Self {
            headers,
            coming: chunks.into(),
            last_known: complete,
            ..Self::default()
        }
    }

    /// Whether nothing is left to be shown, now or later.
    pub(crate) fn at_end(&self) -> bool {
        self.coming.is_empty() && self.last_known
    }

    /// Lets go what is held. The headers can no longer be reached.
    pub(crate) fn release(&mut self) {
        self.stop = Stop::Nothing;
        self.open = false;
        self.body_open = false;
        self.headers_gone = true;
        if self.body_gone.is_empty() {
            self.body_gone = std::mem::take(&mut self.held);
        } else {
            self.body_gone.append(&mut self.held);
        }
        self.complete = self.at_end();
    }

    /// What the receiver has of it.
    pub(crate) fn sent(&self) -> Option<Message> {
        self.headers_gone.then(|| Message {
            headers: self.headers.clone(),
            body: self.body_gone.clone(),
            complete: self.complete,
        })
    }

    /// What the receiver has of it, without a copy.
    pub(crate) fn into_sent(self) -> Option<Message> {
        self.headers_gone.then_some(Message {
            headers: self.headers,
            body: self.body_gone,
            complete: self.complete,
        })
    }
}
