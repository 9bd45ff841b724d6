//! The way of a message past the guest: what it is shown, lets go, holds, or answers by itself.

use crate::personality::Rite;
use crate::state::State;
use crate::stream::{Half, Stop};
use crate::{Headers, LocalReply, Personality, Side, Stream, StreamId, Trap, Vm};

impl Vm {
    pub(super) fn state(&mut self) -> &mut State {
        self.store.data_mut()
    }

    pub(super) fn stream_mut(&mut self, id: StreamId) -> &mut Stream {
        let found = self.state().streams.get_mut(&id);
        found.unwrap_or_else(|| panic!("no stream {id}"))
    }

    pub(super) fn personality(&self) -> Personality {
        self.store.data().shared.options.personality
    }

    pub(super) fn show_headers(&mut self, id: StreamId, side: Side) -> Result<(), Trap> {
        let half = self.stream_mut(id).half_mut(side);
        half.arrived = true;
        half.open = true;
        let args = (id, half.headers.len() as u32, u32::from(half.at_end()));
        let export = match side {
            Side::Request => self.exports.request_headers,
            Side::Response => self.exports.response_headers,
        };
        let action = self.enter(id, export, args)?.unwrap_or(0);
        let body_follows = self.personality().body_while_headers_are_held();
        let replied = self.state().replied;
        let half = self.stream_mut(id).half_mut(side);
        match action {
            _ if replied => half.stop = Stop::Everything,
            0 => {
                half.release();
                return self.went_on(id, side);
            }
            1 if body_follows => half.stop = Stop::Headers,
            _ => half.stop = Stop::Everything,
        }
        if half.stop == Stop::Headers {
            self.show_body(id, side)?;
        }
        Ok(())
    }

    pub(super) fn show_body(&mut self, id: StreamId, side: Side) -> Result<(), Trap> {
        let limit = self.personality().buffer_limit();
        loop {
            let stream = self.stream_mut(id);
            let ended = stream.ended;
            let half = stream.half_mut(side);
            if ended || half.stop == Stop::Everything {
                return Ok(());
            }
            let Some(chunk) = half.coming.pop_front() else {
                return Ok(());
            };
            if half.held.is_empty() {
                half.held = chunk;
            } else {
                half.held.extend(chunk);
            }
            if half.stop != Stop::Nothing && half.held.len() > limit {
                return self.overflow(id, side);
            }
            half.body_open = true;
            let args = (id, half.held.len() as u32, u32::from(half.at_end()));
            let export = match side {
                Side::Request => self.exports.request_body,
                Side::Response => self.exports.response_body,
            };
            let action = self.enter(id, export, args)?.unwrap_or(0);
            let replied = self.state().replied;
            let half = self.stream_mut(id).half_mut(side);
            if replied {
                half.stop = Stop::Everything;
            } else if action == 0 {
                half.release();
                if half.complete {
                    return self.went_on(id, side);
                }
            } else {
                half.stop = Stop::Body;
            }
        }
    }

    /// Part of a message has gone on: shows what comes next, or ends the stream with its response.
    fn went_on(&mut self, id: StreamId, side: Side) -> Result<(), Trap> {
        let complete = self.stream_mut(id).half_mut(side).complete;
        match side {
            Side::Response if complete => self.end(id, true),
            _ if complete => Ok(()),
            _ => self.show_body(id, side),
        }
    }

    pub(super) fn resume(&mut self, id: StreamId, side: Side) -> Result<(), Trap> {
        let Some(stream) = self.state().live_mut(id) else {
            self.state().misuse(id, "resumed a stream that is gone");
            return Ok(());
        };
        let replied = side == Side::Request && stream.reply.is_some();
        let half = stream.half_mut(side);
        if replied || half.stop == Stop::Nothing {
            let what = if replied {
                "resumed a request it has replied to"
            } else {
                "resumed what is not paused"
            };
            self.state().misuse(id, what);
            return Ok(());
        }
        half.resumed += 1;
        half.release();
        self.went_on(id, side)
    }

    pub(super) fn reset(&mut self, id: StreamId) -> Result<(), Trap> {
        if let Some(stream) = self.state().live_mut(id) {
            stream.reset = true;
            return self.end(id, true);
        }
        Ok(())
    }

    /// The filter answers by itself: its answer passes it as a response.
    pub(super) fn reply(&mut self, id: StreamId, reply: LocalReply) -> Result<(), Trap> {
        let Some(stream) = self.state().live_mut(id) else {
            self.state().misuse(id, "replied to a stream that is gone");
            return Ok(());
        };
        let misuse = if stream.reply.is_some() {
            Some("replied twice")
        } else if stream.request.resumed > 0 && !stream.response.arrived {
            Some("replied to a request it has resumed")
        } else {
            None
        };
        if let Some(what) = misuse {
            self.state().misuse(id, what);
            return Ok(());
        }
        self.answer_locally(id, reply, true)
    }

    /// More is held than the host can: it answers by itself.
    fn overflow(&mut self, id: StreamId, side: Side) -> Result<(), Trap> {
        let (status, body) = match side {
            Side::Request => (413, "Payload Too Large"),
            Side::Response => (500, "Internal Server Error"),
        };
        let reply = LocalReply {
            status,
            headers: Headers::new(),
            body: body.into(),
            grpc_status: None,
        };
        self.answer_locally(id, reply, false)
    }

    fn answer_locally(&mut self, id: StreamId, reply: LocalReply, own: bool) -> Result<(), Trap> {
        let personality = self.personality();
        let stream = self.stream_mut(id);
        let message = personality.reply(&stream.request.headers, &reply);
        if own {
            stream.reply = Some(reply);
        }
        if stream.response.headers_gone {
            // Too late for an answer: the client has the beginning of another.
            return self.reset(id);
        }
        let shown_before = stream.response.arrived;
        stream.request.stop = Stop::Everything;
        stream.request.coming.clear();
        let body = message.body;
        let chunks = if body.is_empty() { vec![] } else { vec![body] };
        stream.response = Half::new(message.headers, chunks, true);
        if shown_before {
            // In place of a response the filter has seen: it is not shown this one.
            let half = &mut stream.response;
            half.arrived = true;
            half.held = half.coming.pop_front().unwrap_or_default();
            half.release();
            return self.end(id, true);
        }
        self.show_headers(id, Side::Response)
    }

    pub(super) fn end(&mut self, id: StreamId, logged: bool) -> Result<(), Trap> {
        if self.state().live(id).is_none() {
            return Ok(());
        }
        let ended = self.perform_last_rites(id, logged);
        self.state().logging = None;
        self.stream_mut(id).ended = true;
        ended
    }

    fn perform_last_rites(&mut self, id: StreamId, logged: bool) -> Result<(), Trap> {
        for rite in self.personality().last_rites() {
            match rite {
                Rite::Log if logged => {
                    self.state().logging = Some(id);
                    self.enter(id, self.exports.log, id)?;
                    self.state().logging = None;
                }
                Rite::Log => {}
                Rite::Done => {
                    self.enter(id, self.exports.done, id)?;
                }
                Rite::Delete => {
                    self.enter(id, self.exports.delete, id)?;
                }
            }
        }
        Ok(())
    }
}
