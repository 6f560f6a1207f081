//! HTTP/1.1 as bytes: heads and bodies of requests in, heads and chunks of answers out (RFC 9112).
//!
//! Owns the framing. Does not own sockets, nor what a request means. What could be framed in two ways is refused, since a proxy before
//! us may have chosen the other.

use bytes::{Buf, Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, Version};

/// A head may have so many bytes.
pub(crate) const MAX_HEAD: usize = 64 << 10;
/// And so many fields.
const MAX_FIELDS: usize = 100;
/// The size line of a chunk, extensions included, and each trailer.
const MAX_LINE: usize = 1 << 10;

/// The head of a request, and how the rest of the connection is to be read.
pub(crate) struct Head {
    pub(crate) parts: Parts,
    pub(crate) body: Body,
    /// The client waits for `100 Continue` before it sends the body.
    pub(crate) expects_continue: bool,
    pub(crate) keep_alive: bool,
}

/// Where in its body a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// So many bytes are to come.
    Length(u64),
    /// The size of a chunk is to come.
    ChunkSize,
    /// So many bytes of a chunk, and the line end after them.
    Chunk(u64),
    /// Only the line end of a chunk.
    ChunkEnd,
    /// Trailers, which mean nothing here, and the empty line.
    Trailers,
}

/// Takes a head from the front of `input`; `None` if it is not all there.
///
/// # Errors
///
/// The status to answer with; the connection can't go on.
pub(crate) fn take_head(input: &mut BytesMut) -> Result<Option<Head>, StatusCode> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut parsed = httparse::Request::new(&mut fields);
    let len = match parsed.parse(input) {
        Ok(httparse::Status::Complete(len)) if len <= MAX_HEAD => len,
        Ok(httparse::Status::Partial) if input.len() < MAX_HEAD => return Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
        Err(_) => return Err(StatusCode::BAD_REQUEST),
    };
    let bad = |_| StatusCode::BAD_REQUEST;
    let (mut parts, ()) = Request::new(()).into_parts();
    parts.method = Method::from_bytes(parsed.method.unwrap_or_default().as_bytes()).map_err(|_| bad(()))?;
    parts.uri = parsed.path.unwrap_or_default().parse::<Uri>().map_err(|_| bad(()))?;
    parts.version = if parsed.version == Some(1) { Version::HTTP_11 } else { Version::HTTP_10 };
    for field in parsed.headers {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| bad(()))?;
        let value = HeaderValue::from_bytes(field.value).map_err(|_| bad(()))?;
        parts.headers.append(name, value);
    }
    input.advance(len);
    let modern = parts.version == Version::HTTP_11;
    let says = |name, token| says(&parts.headers, name, token);
    let keep_alive = if modern { !says(CONNECTION, "close") } else { says(CONNECTION, "keep-alive") };
    let expects_continue = modern && says(EXPECT, "100-continue");
    let body = framing(&parts.headers, modern).ok_or(StatusCode::BAD_REQUEST)?;
    Ok(Some(Head { parts, body, expects_continue, keep_alive }))
}

/// Whether a field that is a list has this token in it.
fn says(headers: &HeaderMap, name: HeaderName, token: &str) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|said| said.trim().eq_ignore_ascii_case(token))
}

/// How long the body is (RFC 9112, 6.3). `None`: one can't be sure.
fn framing(headers: &HeaderMap, modern: bool) -> Option<Body> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    match (codings.next(), lengths.next()) {
        (None, None) => Some(Body::Length(0)),
        (Some(coding), None) => {
            let chunked = coding.as_bytes().eq_ignore_ascii_case(b"chunked");
            (modern && chunked && codings.next().is_none()).then_some(Body::ChunkSize)
        }
        (None, Some(length)) => {
            let digits = length.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
            lengths.next().is_none().then(|| digits.parse().ok()).flatten().map(Body::Length)
        }
        (Some(_), Some(_)) => None,
    }
}

/// What could be taken of a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// These bytes of it.
    Data(Bytes),
    /// It is complete.
    End,
    /// It is not framed as it said: the connection can't go on.
    Malformed,
    /// Nothing, before more arrives.
    More,
}

impl Body {
    /// Takes the next piece from the front of `input`.
    pub(crate) fn take(&mut self, input: &mut BytesMut) -> Piece {
        loop {
            match *self {
                Self::Length(0) => return Piece::End,
                Self::Length(left) | Self::Chunk(left) => {
                    let len = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                    if len == 0 {
                        return Piece::More;
                    }
                    let left = left - len as u64;
                    *self = if matches!(self, Self::Length(_)) {
                        Self::Length(left)
                    } else if left > 0 {
                        Self::Chunk(left)
                    } else {
                        Self::ChunkEnd
                    };
                    return Piece::Data(input.split_to(len).freeze());
                }
                Self::ChunkSize => match httparse::parse_chunk_size(input) {
                    Ok(httparse::Status::Complete((len, _))) if len > MAX_LINE => return Piece::Malformed,
                    Ok(httparse::Status::Complete((len, size))) => {
                        input.advance(len);
                        *self = if size == 0 { Self::Trailers } else { Self::Chunk(size) };
                    }
                    Ok(httparse::Status::Partial) if input.len() <= MAX_LINE => return Piece::More,
                    Ok(httparse::Status::Partial) | Err(_) => return Piece::Malformed,
                },
                Self::ChunkEnd => match &input[..] {
                    [b'\r', b'\n', ..] => {
                        input.advance(2);
                        *self = Self::ChunkSize;
                    }
                    [] | [b'\r'] => return Piece::More,
                    _ => return Piece::Malformed,
                },
                Self::Trailers => match input.iter().position(|byte| *byte == b'\n') {
                    Some(at) if at <= MAX_LINE => {
                        let line = input.split_to(at + 1);
                        if line[..] == b"\r\n"[..] {
                            *self = Self::Length(0);
                        }
                    }
                    None if input.len() <= MAX_LINE => return Piece::More,
                    Some(_) | None => return Piece::Malformed,
                },
            }
        }
    }
}

/// How the end of an answer is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// A stream to HTTP/1.1.
    Chunked,
    /// A stream to HTTP/1.0, which ends with the connection.
    Close,
    /// So many bytes.
    Length(usize),
}

/// Writes the head of an answer.
pub(crate) fn write_head(
    out: &mut BytesMut,
    status: StatusCode,
    headers: &HeaderMap,
    framing: Framing,
    keep_alive: bool,
) {
    let reason = status.canonical_reason().unwrap_or_default();
    out.extend_from_slice(format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).as_bytes());
    for (name, value) in headers {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            out.extend_from_slice(part);
        }
    }
    match framing {
        Framing::Chunked => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
        // It must not have a length (RFC 9110, 8.6).
        Framing::Length(_) if status == StatusCode::NO_CONTENT => {}
        Framing::Length(len) => out.extend_from_slice(format!("content-length: {len}\r\n").as_bytes()),
        Framing::Close => {}
    }
    if !keep_alive {
        out.extend_from_slice(b"connection: close\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

/// Writes a part of a stream.
pub(crate) fn write_part(out: &mut BytesMut, framing: Framing, part: &[u8]) {
    if framing != Framing::Chunked {
        return out.extend_from_slice(part);
    }
    // An empty chunk would be the end.
    if !part.is_empty() {
        out.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
        out.extend_from_slice(part);
        out.extend_from_slice(b"\r\n");
    }
}

/// Writes the end of a stream.
pub(crate) fn write_end(out: &mut BytesMut, framing: Framing) {
    if framing == Framing::Chunked {
        out.extend_from_slice(b"0\r\n\r\n");
    }
}
