//! Playing streams: what a client and an upstream do, from the outside.
//!
//! What the guest makes of it is in `vm/flow.rs`.

use crate::stream::{Half, Stop};
use crate::{Request, Response, Side, Stream, StreamId, Trap, Vm};

impl Vm {
    /// Plays a request: a new stream, its headers, and its body as far as the filter lets it through.
    /// Queue notices are not delivered (see [`Vm::deliver`] and [`Vm::run`]).
    ///
    /// # Errors
    ///
    /// If the guest traps, now or before.
    ///
    /// # Panics
    ///
    /// If no configuration was accepted.
    pub fn request(&mut self, request: Request) -> Result<StreamId, Trap> {
        self.alive()?;
        let id = self.accept(request);
        self.begin(id)?;
        Ok(id)
    }

    /// Plays one more piece of a request begun with [`Request::open`].
    ///
    /// # Errors
    ///
    /// If the guest traps, now or before.
    pub fn request_body(&mut self, id: StreamId, chunk: &[u8], last: bool) -> Result<(), Trap> {
        self.more(id, Side::Request, chunk, last)
    }

    /// Plays the upstream's response.
    ///
    /// # Errors
    ///
    /// If the guest traps, now or before.
    ///
    /// # Panics
    ///
    /// If the upstream did not get the request, or has responded already.
    pub fn respond(&mut self, id: StreamId, response: Response) -> Result<(), Trap> {
        self.alive()?;
        let stream = self.stream_mut(id);
        assert!(
            stream.request.headers_gone && !stream.response.arrived && !stream.ended,
            "stream {id} is not one whose upstream could respond: {stream:?}"
        );
        stream.response = Half::new(response.headers, response.chunks, response.complete);
        self.show_headers(id, Side::Response)?;
        self.drain()
    }

    /// Plays one more piece of a response begun with [`Response::open`].
    ///
    /// # Errors
    ///
    /// If the guest traps, now or before.
    pub fn response_body(&mut self, id: StreamId, chunk: &[u8], last: bool) -> Result<(), Trap> {
        self.more(id, Side::Response, chunk, last)
    }

    /// The client goes away, whatever the stream is waiting for.
    ///
    /// # Errors
    ///
    /// If the guest traps, now or before.
    pub fn abort(&mut self, id: StreamId) -> Result<(), Trap> {
        self.end(id, true)?;
        self.drain()
    }

    /// The client goes away in a way that the host never logs: on_done and on_delete alone.
    ///
    /// # Errors
    ///
    /// If the guest traps, now or before.
    pub fn abort_unlogged(&mut self, id: StreamId) -> Result<(), Trap> {
        self.end(id, false)?;
        self.drain()
    }

    /// A stream, alive or ended.
    ///
    /// # Panics
    ///
    /// If there is none of that id, or it was taken.
    pub fn stream(&self, id: StreamId) -> &Stream {
        let found = self.store.data().streams.get(&id);
        found.unwrap_or_else(|| panic!("no stream {id}"))
    }

    /// Takes the record of a stream that has ended, to save memory.
    ///
    /// # Panics
    ///
    /// If there is none of that id, or it has not ended and the VM is alive.
    pub fn take_stream(&mut self, id: StreamId) -> Stream {
        let ended = self.stream(id).ended || self.trap.is_some();
        assert!(ended, "stream {id} has not ended");
        self.discard(id)
    }

    /// Streams that have not ended, in no order.
    pub fn live_streams(&self) -> impl Iterator<Item = StreamId> {
        let all = self.store.data().streams.iter();
        all.filter(|(_, stream)| !stream.ended).map(|(id, _)| *id)
    }

    /// A request arrives; the guest does not know of it yet.
    pub(crate) fn accept(&mut self, request: Request) -> StreamId {
        let root = self.root.expect("a configuration was accepted");
        let id = self.next_context();
        self.state().streams.insert(id, Stream::new(root, request));
        id
    }

    /// Shows the guest a request that has arrived.
    pub(crate) fn begin(&mut self, id: StreamId) -> Result<(), Trap> {
        let root = self.stream(id).root;
        self.enter(id, self.exports.context_create, (id, root))?;
        self.show_headers(id, Side::Request)?;
        self.drain()
    }

    /// Takes the record of a stream, whatever its state.
    pub(crate) fn discard(&mut self, id: StreamId) -> Stream {
        self.state().streams.remove(&id).expect("a stream")
    }

    fn more(&mut self, id: StreamId, side: Side, chunk: &[u8], last: bool) -> Result<(), Trap> {
        self.alive()?;
        let stream = self.stream_mut(id);
        if stream.ended || (side == Side::Request && stream.reply.is_some()) {
            return Ok(());
        }
        let half = stream.half_mut(side);
        half.coming.push_back(chunk.to_vec());
        half.last_known = last;
        if half.stop != Stop::Everything {
            self.show_body(id, side)?;
        }
        self.drain()
    }
}
