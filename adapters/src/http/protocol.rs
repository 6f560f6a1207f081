//! How connections speak HTTP: HTTP/1.1, and with the feature `http2` HTTP/2 for clients that begin with its preface.

use std::time::Duration;

#[cfg(not(feature = "http2"))]
use hyper::server::conn::http1;
#[cfg(feature = "http2")]
use hyper_util::server::conn::auto;

#[cfg(feature = "http2")]
use super::multiplex::{Multiplexed, RuntimeTimer, SEND_BUFFER, Streams};
use super::serve::ServeConfig;
use crate::runtime::Runtime;

/// What all connections of a server have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Protocol {
    max_head: usize,
    #[cfg(feature = "http2")]
    http2: bool,
    #[cfg(feature = "http2")]
    max_streams: u32,
    #[cfg(feature = "http2")]
    keep_alive: Duration,
}

/// What speaks on one connection.
#[cfg(feature = "http2")]
pub(super) type Speaker<R> = auto::Builder<Streams<R>>;
/// What speaks on one connection.
#[cfg(not(feature = "http2"))]
pub(super) type Speaker = http1::Builder;

/// hyper's smallest read buffer.
pub(super) const MIN_HEAD: usize = 8 << 10;

impl Protocol {
    pub(super) fn new(config: &ServeConfig) -> Self {
        Self {
            max_head: config.max_head.max(MIN_HEAD),
            #[cfg(feature = "http2")]
            http2: config.http2,
            #[cfg(feature = "http2")]
            max_streams: config.max_streams.max(1),
            #[cfg(feature = "http2")]
            keep_alive: config.keep_alive,
        }
    }

    // Of HTTP/1.1: our own watch does what the timeout for heads would do, without a timer per request. The number of header
    // lines stays at hyper's 100: another number would cost an allocation per request.

    #[cfg(not(feature = "http2"))]
    pub(super) fn speaker<R: Runtime>(self, _: &R, _: Duration) -> Speaker {
        let mut http = http1::Builder::new();
        http.header_read_timeout(None).half_close(false).writev(true).max_buf_size(self.max_head);
        http
    }

    #[cfg(feature = "http2")]
    pub(super) fn speaker<R: Runtime>(self, runtime: &R, write_timeout: Duration) -> Speaker<R> {
        let mut http = auto::Builder::new(Streams::new(runtime.clone(), write_timeout));
        http.http1().header_read_timeout(None).half_close(false).writev(true).max_buf_size(self.max_head);
        if !self.http2 {
            return http.http1_only();
        }
        // What a peer may cost by resetting streams keeps hyper's bounds.
        http.http2()
            .timer(RuntimeTimer::new(runtime.clone()))
            .max_concurrent_streams(self.max_streams)
            .max_header_list_size(u32::try_from(self.max_head).unwrap_or(u32::MAX))
            .max_send_buf_size(SEND_BUFFER);
        if !self.keep_alive.is_zero() {
            http.http2().keep_alive_interval(self.keep_alive).keep_alive_timeout(self.keep_alive);
        }
        http
    }
}

/// Makes a service fit for what may come.
#[cfg(feature = "http2")]
pub(super) const fn prepare<S>(service: S) -> Multiplexed<S> {
    Multiplexed(service)
}

/// Makes a service fit for what may come.
#[cfg(not(feature = "http2"))]
pub(super) const fn prepare<S>(service: S) -> S {
    service
}
