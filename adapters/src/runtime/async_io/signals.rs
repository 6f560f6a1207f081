//! The signals that ask a program to end, by async-signal.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::Poll;

use async_signal::Signal;
use futures_core::Stream;

/// The signals that ask a program to end: SIGINT and SIGTERM. From the first value on, the system's own reaction to them
/// is off.
#[derive(Debug)]
pub struct Signals(async_signal::Signals);

impl Signals {
    /// Starts to listen.
    ///
    /// # Errors
    ///
    /// If the system does not let us.
    pub fn listen() -> io::Result<Self> {
        async_signal::Signals::new([Signal::Int, Signal::Term]).map(Self)
    }

    /// Waits for the next one and returns its name. Cancel-safe.
    pub async fn next(&mut self) -> &'static str {
        poll_fn(|cx| match Pin::new(&mut self.0).poll_next(cx) {
            Poll::Ready(Some(Ok(Signal::Int))) => Poll::Ready("SIGINT"),
            Poll::Ready(Some(Ok(_))) => Poll::Ready("SIGTERM"),
            // Without a way to learn of them there is none.
            Poll::Ready(Some(Err(_)) | None) | Poll::Pending => Poll::Pending,
        })
        .await
    }
}
