//! Reading the body of a request: bounded in bytes and in time, without a copy where it came in one piece.

use std::future::poll_fn;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http_body::Body;
use sessile_core::Outcome;

use crate::runtime::{Runtime, timeout_at};

/// How long the rest of a refused body is read so that the client, still writing, gets to read the answer.
const DISCARD_TIME: Duration = Duration::from_secs(2);

/// Why there is no body.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The client has gone while it was sending.
    Gone,
    /// The gate's orders were not kept.
    Refused(Outcome),
}

/// Reads the whole body.
pub(crate) async fn read_body<R: Runtime, B>(
    runtime: &R,
    body: B,
    max: usize,
    time: Duration,
) -> Result<Bytes, ReadError>
where
    B: Body,
{
    let until = runtime.now().saturating_add(time);
    timeout_at(runtime, until, collect(body, max)).await.unwrap_or(Err(ReadError::Refused(Outcome::BodyTooSlow)))
}

/// Reads a body only to get rid of it, up to `max` bytes and for a short time; whether all of it has been read.
pub(crate) async fn discard<R: Runtime, B: Body>(runtime: &R, body: B, max: usize) -> bool {
    let mut body = std::pin::pin!(body);
    let mut left = max;
    let all = async {
        while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
            let Ok(frame) = frame else { return false };
            let len = frame.data_ref().map_or(0, Buf::remaining);
            let Some(rest) = left.checked_sub(len) else { return false };
            left = rest;
        }
        true
    };
    timeout_at(runtime, runtime.now().saturating_add(DISCARD_TIME), all).await.unwrap_or(false)
}

async fn collect<B: Body>(body: B, max: usize) -> Result<Bytes, ReadError> {
    let mut body = std::pin::pin!(body);
    let mut first = Bytes::new();
    let mut more = BytesMut::new();
    while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        let Ok(frame) = frame else { return Err(ReadError::Gone) };
        let Ok(mut data) = frame.into_data() else { continue };
        let len = data.remaining();
        if first.len() + more.len() + len > max {
            return Err(ReadError::Refused(Outcome::BodyTooLarge));
        }
        // `Bytes` gives itself away here; other buffers are copied once.
        let data = data.copy_to_bytes(len);
        if first.is_empty() && more.is_empty() {
            first = data;
        } else {
            if more.is_empty() {
                more.extend_from_slice(&std::mem::take(&mut first));
            }
            more.extend_from_slice(&data);
        }
    }
    Ok(if more.is_empty() { first } else { more.freeze() })
}
