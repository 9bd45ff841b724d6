//! The body of a request: whole, or in pieces that come one after the other. Owns how it is cut; must not know what
//! it means.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

/// A body. In one piece it has a length; in several it has none, and is chunked by HTTP/1.1.
#[derive(Debug, Default)]
pub(crate) struct Payload {
    pieces: VecDeque<Bytes>,
    trailers: Option<HeaderMap>,
    is_whole: bool,
    /// Between two pieces, so that they do not arrive as one.
    pause: Option<Pin<Box<Sleep>>>,
}

const PAUSE: Duration = Duration::from_millis(5);

impl Payload {
    pub(crate) fn whole(bytes: Bytes) -> Self {
        Self {
            pieces: [bytes].into_iter().filter(|b| !b.is_empty()).collect(),
            is_whole: true,
            ..Self::default()
        }
    }

    pub(crate) fn pieces(pieces: Vec<Bytes>) -> Self {
        Self {
            pieces: pieces.into(),
            ..Self::default()
        }
    }

    pub(crate) fn trailers_mut(&mut self) -> &mut HeaderMap {
        self.is_whole = false;
        self.trailers.get_or_insert_default()
    }
}

impl Clone for Payload {
    fn clone(&self) -> Self {
        Self {
            pieces: self.pieces.clone(),
            trailers: self.trailers.clone(),
            is_whole: self.is_whole,
            pause: None,
        }
    }
}

impl Body for Payload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(context));
            self.pause = None;
        }
        if let Some(piece) = self.pieces.pop_front() {
            if !self.is_end_stream() {
                self.pause = Some(Box::pin(sleep(PAUSE)));
            }
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        let trailers = self.trailers.take().map(|map| Ok(Frame::trailers(map)));
        Poll::Ready(trailers)
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty() && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        if self.is_whole {
            let length: usize = self.pieces.iter().map(Bytes::len).sum();
            SizeHint::with_exact(length as u64)
        } else {
            SizeHint::default()
        }
    }
}
