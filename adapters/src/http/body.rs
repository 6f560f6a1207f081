//! The body of an answer: nothing, one piece, or events as they come.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// The body of an answer. A stream of events ends when the stream does, and reads nothing ahead of its reader.
pub struct Body(Kind);

enum Kind {
    Events(Box<dyn Events>),
    Whole(Option<Bytes>),
}

/// Where the events of a streaming body come from. Dropping it tells the session that the reader has gone.
pub(crate) trait Events: Send {
    /// The next bytes to send; `None` is the end.
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>>;
}

impl Body {
    /// One piece, sent with its length.
    pub(crate) fn whole(bytes: Bytes) -> Self {
        Self(Kind::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())))
    }

    pub(crate) fn events(events: Box<dyn Events>) -> Self {
        Self(Kind::Events(events))
    }

    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        match &mut self.0 {
            Kind::Whole(bytes) => Poll::Ready(bytes.take()),
            Kind::Events(events) => {
                let polled = events.poll_events(cx);
                if matches!(polled, Poll::Ready(None)) {
                    // The session learns at once that the exchange is over, not when the connection is.
                    self.0 = Kind::Whole(None);
                }
                polled
            }
        }
    }
}

/// One piece: for answers of your own, beside those of the service.
impl<T: Into<Bytes>> From<T> for Body {
    fn from(bytes: T) -> Self {
        Self::whole(bytes.into())
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.poll_bytes(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Kind::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Kind::Events(_) => SizeHint::default(),
        }
    }
}

impl futures_core::Stream for Body {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.poll_bytes(cx)
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Events(_) => f.write_str("Body(events)"),
            Kind::Whole(bytes) => write!(f, "Body({} bytes)", bytes.as_ref().map_or(0, Bytes::len)),
        }
    }
}
