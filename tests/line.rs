//! A client at the other end of a connection: HTTP requests over any stream of bytes, as hyper speaks it.
//!
//! Owns one connection and one exchange at a time. Nothing moves but while its futures are polled, so that it needs no runtime, reads
//! no further than its user does, and is gone when it is dropped. Judges nothing.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::rt::{Read, Write};

use crate::pure::Upload;

/// The body of a request.
#[derive(Debug)]
pub enum Sending {
    /// Pieces, sent without their length being said before.
    Pieces(VecDeque<Bytes>),
    /// What a suite says.
    Upload(Upload),
}

/// The connection is no more, and what was asked has no answer, or only the part that was read.
#[derive(Debug)]
pub struct Lost(pub Box<dyn std::error::Error + Send + Sync>);

/// What moves a connection. Ready: it is over.
type Driver = Pin<Box<dyn Future<Output = Result<(), Lost>> + Send>>;

/// An idle connection of HTTP/1.1.
pub struct Line {
    sender: http1::SendRequest<Sending>,
    driver: Driver,
}

/// A request and its answer, as far as it was read. Dropping it hangs up.
pub struct Exchange {
    answer: Answering,
    driver: Option<Driver>,
    sender: Option<http1::SendRequest<Sending>>,
}

enum Answering {
    Head(Pin<Box<dyn Future<Output = hyper::Result<Response<Incoming>>> + Send>>),
    Body(Incoming),
    Over,
}

impl Line {
    /// Begins to speak on a fresh stream.
    ///
    /// # Errors
    ///
    /// If the stream breaks at once.
    pub async fn open(stream: impl Read + Write + Send + Unpin + 'static) -> Result<Self, Lost> {
        let (sender, connection) = http1::handshake(stream).await.map_err(lost)?;
        Ok(Self { sender, driver: Box::pin(async move { connection.await.map_err(lost) }) })
    }

    /// Waits until the connection is over.
    pub async fn closed(self) {
        // However it ends.
        let _ = self.driver.await;
    }

    /// Sends a request.
    #[must_use]
    pub fn send(mut self, request: Request<Sending>) -> Exchange {
        let answer = Box::pin(self.sender.send_request(request));
        Exchange { answer: Answering::Head(answer), driver: Some(self.driver), sender: Some(self.sender) }
    }
}

impl Exchange {
    /// One over a connection that somebody else moves, and which goes on after it.
    pub fn shared(answer: impl Future<Output = hyper::Result<Response<Incoming>>> + Send + 'static) -> Self {
        Self { answer: Answering::Head(Box::pin(answer)), driver: None, sender: None }
    }

    /// Waits for status and headers; once.
    ///
    /// # Errors
    ///
    /// If the connection ends before.
    ///
    /// # Panics
    ///
    /// If they were had before.
    pub async fn head(&mut self) -> Result<(StatusCode, HeaderMap), Lost> {
        let response = poll_fn(|cx| {
            let broken = self.drive(cx);
            let Answering::Head(answer) = &mut self.answer else { panic!("the head is had once") };
            match answer.as_mut().poll(cx) {
                Poll::Ready(answer) => Poll::Ready(answer.map_err(lost)),
                Poll::Pending => broken.map(Err),
            }
        })
        .await?;
        let (head, body) = response.into_parts();
        self.answer = Answering::Body(body);
        Ok((head.status, head.headers))
    }

    /// Waits for the next piece of the body. `None` is its end.
    ///
    /// # Errors
    ///
    /// If the connection ends before.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, Lost> {
        let piece = poll_fn(|cx| {
            let broken = self.drive(cx);
            let Answering::Body(body) = &mut self.answer else { return Poll::Ready(Ok(None)) };
            match pin!(body).poll_frame(cx) {
                Poll::Ready(frame) => Poll::Ready(frame.transpose().map_err(lost)),
                Poll::Pending => broken.map(Err),
            }
        })
        .await?;
        if piece.is_none() {
            self.answer = Answering::Over;
        }
        Ok(piece.map(|frame| frame.into_data().unwrap_or_default()))
    }

    /// The connection, for another request, if the answer was read to its end and the server keeps it.
    pub async fn into_line(mut self) -> Option<Line> {
        let mut sender = self.sender.take().filter(|_| matches!(self.answer, Answering::Over))?;
        let kept = poll_fn(|cx| {
            let broken = self.drive(cx);
            match sender.poll_ready(cx) {
                Poll::Ready(ready) => Poll::Ready(ready.is_ok()),
                Poll::Pending => broken.map(|_| false),
            }
        })
        .await;
        let driver = self.driver.take()?;
        kept.then_some(Line { sender, driver })
    }

    /// Ready with why, once the connection is over. It stays pollable.
    fn drive(&mut self, cx: &mut Context<'_>) -> Poll<Lost> {
        let Some(driver) = &mut self.driver else { return Poll::Pending };
        match driver.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(ended) => {
                self.driver = None;
                Poll::Ready(ended.err().unwrap_or_else(|| Lost("the connection was closed".into())))
            }
        }
    }
}

fn lost(error: hyper::Error) -> Lost {
    Lost(error.into())
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Line")
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exchange")
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the connection is lost: {}", self.0)
    }
}

impl std::error::Error for Lost {}

impl From<Upload> for Sending {
    fn from(upload: Upload) -> Self {
        Self::Upload(upload)
    }
}

impl http_body::Body for Sending {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match &mut *self {
            Self::Upload(Upload::Never) => return Poll::Pending,
            Self::Upload(Upload::Whole(bytes)) => Some(std::mem::take(bytes)).filter(|bytes| !bytes.is_empty()),
            Self::Pieces(pieces) => pieces.pop_front(),
        };
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Upload(Upload::Never) => false,
            Self::Upload(Upload::Whole(bytes)) => bytes.is_empty(),
            Self::Pieces(pieces) => pieces.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Upload(Upload::Whole(bytes)) => SizeHint::with_exact(bytes.len() as u64),
            Self::Upload(Upload::Never) | Self::Pieces(_) => SizeHint::default(),
        }
    }
}
