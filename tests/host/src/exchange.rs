//! A whole exchange in one go: for tests that care what the client, the upstream and the access log
//! see, and not how it came about.

use std::collections::BTreeMap;
use std::fmt;

use crate::{Action, Headers, LocalReply, Message, Request, Response, Side, StreamId, Trap, Vm};

/// What came of a request.
#[derive(Clone, PartialEq, Eq)]
pub struct Exchange {
    /// The stream it was; ended.
    pub stream: StreamId,
    /// The response the filter sent by itself, as it sent it.
    pub reply: Option<LocalReply>,
    /// The response the client saw; `None` if it got none.
    pub client: Option<Message>,
    /// The request the upstream saw; `None` if it was not reached.
    pub upstream: Option<Message>,
    /// What the filter left in the filter state, by name without `wasm.` before it.
    pub filter_state: BTreeMap<Vec<u8>, Vec<u8>>,
    /// How often the filter resumed the request.
    pub resumed: u32,
    /// The filter held the message and nothing was left that could have moved it: the client gave up.
    pub hung: bool,
    /// The filter died.
    pub trapped: Option<Trap>,
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state: Headers = self.filter_state.iter().collect();
        f.debug_struct("Exchange")
            .field("stream", &self.stream)
            .field("reply", &self.reply)
            .field("client", &self.client)
            .field("upstream", &self.upstream)
            .field("filter_state", &state)
            .field("resumed", &self.resumed)
            .field("hung", &self.hung)
            .field("trapped", &self.trapped)
            .finish()
    }
}

impl Exchange {
    /// The status the client saw.
    pub fn status(&self) -> Option<u16> {
        self.client.as_ref()?.status()
    }

    /// The first value of a response header the client saw, as text.
    pub fn header(&self, name: &str) -> Option<String> {
        self.client.as_ref()?.headers.text(name)
    }

    /// The body the client saw, as text.
    pub fn text(&self) -> String {
        self.client.as_ref().map(Message::text).unwrap_or_default()
    }

    /// A value of the filter state, as text.
    pub fn state(&self, name: &str) -> Option<String> {
        let value = self.filter_state.get(name.as_bytes())?;
        Some(String::from_utf8_lossy(value).into_owned())
    }
}

impl Vm {
    /// Plays a request to its end: headers and body, queue notices, calls as far as the backend
    /// answers them (see [`Vm::set_backend`]), the upstream's response if it is reached, the last
    /// callbacks, and what the filter then still sends.
    ///
    /// # Panics
    ///
    /// If no configuration was accepted.
    pub fn exchange(&mut self, request: Request, response: Response) -> Exchange {
        let id = self.accept(request);
        let mut hung = false;
        let trapped = self.play(id, response, &mut hung).err();
        let stream = self.discard(id);
        Exchange {
            stream: id,
            reply: stream.reply,
            resumed: stream.request.resumed,
            client: stream.response.into_sent(),
            upstream: stream.request.into_sent(),
            filter_state: stream.filter_state,
            hung,
            trapped,
        }
    }

    fn play(&mut self, id: StreamId, response: Response, hung: &mut bool) -> Result<(), Trap> {
        self.begin(id)?;
        self.run()?;
        let stream = self.stream(id);
        if stream.request.headers_gone
            && stream.request.complete
            && !stream.response.arrived
            && !stream.ended
        {
            self.respond(id, response)?;
            self.run()?;
        }
        let stream = self.stream(id);
        if !stream.ended {
            *hung = [Side::Request, Side::Response]
                .map(|side| stream.action_of(side))
                .contains(&Action::Pause);
            self.abort(id)?;
            self.run()?;
        }
        Ok(())
    }
}
