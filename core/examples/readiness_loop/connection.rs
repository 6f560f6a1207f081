//! One socket: a state machine over what it can read and write now.
//!
//! Owns the buffers, the deadlines of a connection, and that the server is told of every way in which an exchange ends. Reads no more than
//! a head's length ahead, and asks for frames only while the client takes them: what a slow reader has not read stays in the
//! session's log, within its bounds.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, Method, Response, StatusCode, Version};
use mio::Token;
use mio::event::Event;
use mio::net::TcpStream;
use sessile_core::session::ReaderOutput;
use sessile_core::{CorsHeaders, Outcome, SessionKey, Timestamp, sse};

use crate::http::{Body, Framing, Head, MAX_HEAD, Piece, take_head, write_end, write_head, write_part};
use crate::server::{Decided, Exchange, Server, Step, Upload};

/// How long a connection may be without a complete head, between two requests too.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a pending write may make no progress.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the rest of a body is read and discarded after an answer, so that a client that still writes gets to read it.
const DISCARD: Duration = Duration::from_secs(2);
/// So many reads, steps and writes of one connection, and it is the turn of the others.
const ROUNDS: usize = 64;
/// While so much waits to be written, a stream is not asked for more.
const ENOUGH: usize = 64 << 10;

/// A client's connection.
pub(crate) struct Connection {
    token: Token,
    socket: TcpStream,
    /// Readiness is told at its edges, so it is remembered until an operation would block.
    readable: bool,
    writable: bool,
    /// The client sends nothing any more. As most servers do, we take it for gone.
    has_ended: bool,
    input: BytesMut,
    output: BytesMut,
    /// When `output` last got shorter, or began to wait.
    moved: Timestamp,
    /// What is left of the body of the request that is answered.
    rest: Body,
    cors: Option<CorsHeaders>,
    is_head: bool,
    keep_alive: bool,
    version: Version,
    /// Its turn was over before all was done.
    has_more: bool,
    state: State,
}

enum State {
    Closed,
    /// The answer is written and has to leave; the rest of the body has to come.
    Ending {
        owes: Option<SessionKey>,
        left: usize,
        until: Timestamp,
    },
    Head {
        until: Timestamp,
    },
    /// The head of the answer is to be decided.
    Held {
        exchange: Exchange,
        until: Option<Timestamp>,
    },
    /// Our end is said; the client's is awaited, or it might lose the answer to a reset.
    Lingering {
        until: Timestamp,
    },
    /// `spoken`: when something was last written.
    Streaming {
        exchange: Exchange,
        framing: Framing,
        spoken: Timestamp,
    },
    Uploading {
        upload: Upload,
        body: BytesMut,
        until: Timestamp,
    },
}

impl Connection {
    pub(crate) fn new(now: Timestamp, token: Token, socket: TcpStream) -> Self {
        Self {
            token,
            socket,
            readable: true,
            writable: true,
            has_ended: false,
            input: BytesMut::new(),
            output: BytesMut::new(),
            moved: now,
            rest: Body::Length(0),
            cors: None,
            is_head: false,
            keep_alive: true,
            version: Version::HTTP_11,
            has_more: false,
            state: State::Head { until: now.saturating_add(HEAD_TIMEOUT) },
        }
    }

    /// What the poll has told.
    pub(crate) fn notice(&mut self, event: &Event) {
        self.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
        self.writable |= event.is_writable() || event.is_write_closed() || event.is_error();
    }

    /// Does what can be done now, within its turn. Whether the connection lives on.
    pub(crate) fn drive(&mut self, now: Timestamp, server: &mut Server) -> bool {
        self.has_more = false;
        for _ in 0..ROUNDS {
            if self.output.is_empty() {
                self.moved = now;
            }
            let stepped = self.fill().and_then(|read| {
                let stepped = self.step(now, server);
                Ok(read | stepped | self.flush(now)?)
            });
            let stalled = !self.output.is_empty() && self.moved.saturating_add(WRITE_TIMEOUT) <= now;
            match stepped {
                Err(_) => self.abandon(now, server),
                Ok(_) if stalled => self.abandon(now, server),
                Ok(true) => {}
                Ok(false) => return !matches!(self.state, State::Closed),
            }
            if matches!(self.state, State::Closed) {
                return false;
            }
        }
        self.has_more = true;
        true
    }

    /// When to drive it, if nothing happens before.
    pub(crate) fn deadline(&self, server: &Server) -> Option<Timestamp> {
        if self.has_more {
            return Some(Timestamp::ZERO);
        }
        let idle = self.output.is_empty();
        let state = match &self.state {
            State::Closed => None,
            State::Ending { until, .. }
            | State::Head { until }
            | State::Lingering { until }
            | State::Uploading { until, .. } => Some(*until),
            State::Held { until, .. } => *until,
            State::Streaming { spoken, .. } => {
                server.keep_alive().filter(|_| idle).map(|every| spoken.saturating_add(every))
            }
        };
        let write = (!idle).then(|| self.moved.saturating_add(WRITE_TIMEOUT));
        state.into_iter().chain(write).min()
    }

    fn fill(&mut self) -> io::Result<bool> {
        if !self.readable || self.input.len() >= MAX_HEAD {
            return Ok(false);
        }
        let mut buffer = [0; 16 << 10];
        match self.socket.read(&mut buffer) {
            Ok(0) => {
                self.has_ended = true;
                self.readable = false;
            }
            Ok(len) => self.input.extend_from_slice(&buffer[..len]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                return Ok(false);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    fn flush(&mut self, now: Timestamp) -> io::Result<bool> {
        if !self.writable || self.output.is_empty() {
            return Ok(false);
        }
        match self.socket.write(&self.output) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(len) => {
                self.output.advance(len);
                self.moved = now;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.writable = false;
                return Ok(false);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// One step. Whether anything has changed, so that another may follow.
    fn step(&mut self, now: Timestamp, server: &mut Server) -> bool {
        let (state, stepped) = match std::mem::replace(&mut self.state, State::Closed) {
            State::Closed => (State::Closed, false),
            State::Ending { owes, left, until } => self.end(now, server, owes, left, until),
            State::Head { until } => match take_head(&mut self.input) {
                Ok(Some(head)) => (self.begin(now, server, head), true),
                Ok(None) => {
                    let is_idle = self.input.is_empty() && server.is_draining();
                    let is_over = self.has_ended || until <= now || is_idle;
                    (if is_over { State::Closed } else { State::Head { until } }, false)
                }
                Err(status) => {
                    self.keep_alive = false;
                    (self.refuse(now, status, None), true)
                }
            },
            State::Held { exchange, .. } | State::Streaming { exchange, .. } if self.has_ended => {
                server.disconnect(now, &exchange);
                (State::Closed, true)
            }
            State::Held { exchange, .. } => match server.poll_head(now, &exchange) {
                Decided::Answer(response) => (self.respond(now, server, response, Some(exchange.session)), true),
                Decided::Hold { until } => (State::Held { exchange, until }, false),
                Decided::Stream(headers) => (self.open_stream(now, exchange, headers), true),
            },
            State::Lingering { until } => {
                self.input.clear();
                let is_over = self.has_ended || until <= now;
                (if is_over { State::Closed } else { State::Lingering { until } }, false)
            }
            State::Streaming { exchange, framing, spoken } => self.stream(now, server, exchange, framing, spoken),
            State::Uploading { upload, body, until } => self.upload(now, server, upload, body, until),
        };
        self.state = state;
        stepped
    }

    fn begin(&mut self, now: Timestamp, server: &mut Server, head: Head) -> State {
        let Head { parts, body, expects_continue, keep_alive } = head;
        self.cors = server.gate().cors(&parts);
        self.is_head = parts.method == Method::HEAD;
        self.keep_alive = keep_alive;
        self.rest = body;
        self.version = parts.version;
        // A client that waits for a word before it sends the body need not send it after an answer.
        let may_discard = server.gate().may_drain(&parts) && !(expects_continue && self.input.is_empty());
        if !matches!(parts.uri.path(), "/mcp" | "/mcp/") {
            self.keep_alive &= may_discard;
            return self.refuse(now, StatusCode::NOT_FOUND, None);
        }
        match server.head(now, self.token, parts) {
            Step::Answer { response, owes } => {
                self.keep_alive &= may_discard;
                self.respond(now, server, response, owes)
            }
            Step::Exchange(exchange) => State::Held { exchange, until: None },
            Step::Upload(upload) => {
                if expects_continue && self.input.is_empty() {
                    self.output.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                }
                let until = now.saturating_add(server.gate().body_timeout());
                State::Uploading { upload, body: BytesMut::new(), until }
            }
        }
    }

    fn upload(
        &mut self,
        now: Timestamp,
        server: &mut Server,
        upload: Upload,
        mut body: BytesMut,
        until: Timestamp,
    ) -> (State, bool) {
        match self.rest.take(&mut self.input) {
            Piece::Data(data) => {
                body.extend_from_slice(&data);
                if body.len() <= server.gate().max_body() {
                    return (State::Uploading { upload, body, until }, true);
                }
                self.keep_alive = false;
            }
            Piece::End => {}
            Piece::Malformed => {
                self.keep_alive = false;
                return (self.refuse(now, StatusCode::BAD_REQUEST, upload.owes()), true);
            }
            Piece::More if self.has_ended => {
                server.finish(now, upload.owes());
                return (State::Closed, true);
            }
            Piece::More if until <= now => {
                self.keep_alive = false;
                return (self.respond(now, server, Outcome::BodyTooSlow.respond(None), upload.owes()), true);
            }
            Piece::More => return (State::Uploading { upload, body, until }, false),
        }
        let state = match server.body(now, self.token, upload, body.freeze()) {
            Step::Answer { response, owes } => self.respond(now, server, response, owes),
            Step::Exchange(exchange) => State::Held { exchange, until: None },
            // It has been read.
            Step::Upload(_) => State::Closed,
        };
        (state, true)
    }

    fn open_stream(&mut self, now: Timestamp, exchange: Exchange, mut headers: HeaderMap) -> State {
        let framing = if self.version == Version::HTTP_11 { Framing::Chunked } else { Framing::Close };
        self.keep_alive &= framing != Framing::Close;
        if let Some(cors) = self.cors.take() {
            cors.apply(&mut headers);
        }
        write_head(&mut self.output, StatusCode::OK, &headers, framing, self.keep_alive);
        State::Streaming { exchange, framing, spoken: now }
    }

    fn stream(
        &mut self,
        now: Timestamp,
        server: &mut Server,
        exchange: Exchange,
        framing: Framing,
        mut spoken: Timestamp,
    ) -> (State, bool) {
        if self.output.len() >= ENOUGH {
            return (State::Streaming { exchange, framing, spoken }, false);
        }
        let mut part = BytesMut::new();
        let output = server.poll_frames(now, &exchange, &mut part);
        let is_silent = server.keep_alive().is_some_and(|every| spoken.saturating_add(every) <= now);
        if part.is_empty() && self.output.is_empty() && is_silent {
            part.extend_from_slice(sse::COMMENT);
        }
        let has_spoken = !part.is_empty();
        if has_spoken {
            spoken = now;
        }
        write_part(&mut self.output, framing, &part);
        let owes = match output {
            ReaderOutput::Pending | ReaderOutput::Ready => {
                return (State::Streaming { exchange, framing, spoken }, has_spoken);
            }
            ReaderOutput::Detached => None,
            ReaderOutput::Finished => Some(exchange.session),
        };
        write_end(&mut self.output, framing);
        self.keep_alive &= !server.is_draining();
        (State::Ending { owes, left: server.gate().max_body(), until: now.saturating_add(DISCARD) }, true)
    }

    fn end(
        &mut self,
        now: Timestamp,
        server: &mut Server,
        owes: Option<SessionKey>,
        left: usize,
        until: Timestamp,
    ) -> (State, bool) {
        self.keep_alive &= !self.has_ended;
        let piece = if self.keep_alive { self.rest.take(&mut self.input) } else { Piece::Malformed };
        match piece {
            Piece::Data(data) => {
                self.keep_alive = data.len() <= left;
                return (State::Ending { owes, left: left.saturating_sub(data.len()), until }, true);
            }
            Piece::More if until <= now => self.keep_alive = false,
            Piece::Malformed => self.keep_alive = false,
            Piece::End | Piece::More => {}
        }
        if !self.output.is_empty() {
            // What comes with the wrong framing, or beyond what is discarded, waits unread.
            let until = if self.keep_alive && piece == Piece::More { until } else { Timestamp::MAX };
            return (State::Ending { owes, left, until }, false);
        }
        server.finish(now, owes);
        let state = if !self.keep_alive {
            // A client that has gone already will be noticed by the next read.
            let _ = self.socket.shutdown(Shutdown::Write);
            State::Lingering { until: now.saturating_add(DISCARD) }
        } else if piece == Piece::More {
            return (State::Ending { owes: None, left, until }, owes.is_some());
        } else {
            State::Head { until: now.saturating_add(HEAD_TIMEOUT) }
        };
        (state, true)
    }

    /// An answer that has nothing to do with MCP.
    fn refuse(&mut self, now: Timestamp, status: StatusCode, owes: Option<SessionKey>) -> State {
        self.write(status, HeaderMap::new(), &Bytes::new());
        State::Ending { owes, left: MAX_HEAD, until: now.saturating_add(DISCARD) }
    }

    fn respond(
        &mut self,
        now: Timestamp,
        server: &Server,
        response: Response<Bytes>,
        owes: Option<SessionKey>,
    ) -> State {
        self.keep_alive &= !server.is_draining();
        let (head, body) = response.into_parts();
        self.write(head.status, head.headers, &body);
        State::Ending { owes, left: server.gate().max_body(), until: now.saturating_add(DISCARD) }
    }

    fn write(&mut self, status: StatusCode, mut headers: HeaderMap, body: &Bytes) {
        if let Some(cors) = self.cors.take() {
            cors.apply(&mut headers);
        }
        write_head(&mut self.output, status, &headers, Framing::Length(body.len()), self.keep_alive);
        if !self.is_head {
            self.output.extend_from_slice(body);
        }
    }

    /// The connection is lost, or not worth waiting for.
    fn abandon(&mut self, now: Timestamp, server: &mut Server) {
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Held { exchange, .. } | State::Streaming { exchange, .. } => server.disconnect(now, &exchange),
            State::Uploading { upload, .. } => server.finish(now, upload.owes()),
            State::Ending { owes, .. } => server.finish(now, owes),
            State::Closed | State::Head { .. } | State::Lingering { .. } => {}
        }
    }
}
