//! The pure core of sessile: MCP sessions over Streamable HTTP as state machines without I/O.
//!
//! An MCP client speaks *Streamable HTTP*: it POSTs JSON-RPC messages to one endpoint and receives answers as JSON or as
//! Server-Sent Events. `initialize` opens a *session*, the `Mcp-Session-Id` header names it, and DELETE, idleness, a crash
//! or shutdown end it. Behind each session runs an *app*, the MCP server itself. This crate is what lies between the HTTP stack and
//! the app:
//!
//! ```text
//! HTTP stack ──► gate ──► SessionTable ──► Session ──► app
//!                what is    whose is it,     which stream,
//!                this?      may it be?       in which order?
//! HTTP stack ◄── frames ◄───────────────── Session ◄── app
//! ```
//!
//! There is no clock in here, no socket, no task, no lock, no randomness and no log sink. Time is an argument
//! ([`Timestamp`]), entropy is an argument ([`IdSource`]), and whatever follows from an input is a value that the driver acts on. So every
//! race is a sequence of calls, and a test, a fuzzer or a replay can make any of them happen.
//!
//! # Words
//!
//! | word | meaning |
//! | --- | --- |
//! | session | the conversation from `initialize` to its end; [`SessionId`] is its secret on the wire, [`SessionKey`] its handle here |
//! | principal | the verified identity that a request carries; the one that created a session owns it |
//! | exchange | one HTTP request and its response |
//! | stream | a stream of events; it outlives connections. A *request stream* is born of a POST, the *standalone stream* is served by GET |
//! | message | one JSON-RPC request, notification or response, kept as the bytes it arrived in |
//! | note | a notification of the app |
//! | app | the MCP server behind a session; the *task* is its running instance |
//! | era | *legacy* up to 2025-11-25, with sessions; *modern* from 2026-07-28 on, without |
//! | reap | to remove a session and everything that hangs on it, once, for one reason |
//! | head | status and headers of an answer; to *hold* it is to decide later between JSON, a stream and an error |
//!
//! # The parts
//!
//! | part | owns | answers with |
//! | --- | --- | --- |
//! | [`Gate`] | what a request is: the checks of its head and its body, in their order | [`HeadAction`], [`BodyAction`] |
//! | [`ToolHeaders`] | which parameters of a tool a call repeats in headers | an [`Outcome`], if it doesn't |
//! | [`SessionTable`] | which sessions exist, whose they are, when they end | [`RequestAction`], [`Reap`] |
//! | [`session::Session`] | requests in flight and streams of one session | [`session::MessageAction`], [`session::Head`], [`session::Effect`] |
//! | [`session::StoreRequest`] | what a store outside is asked to keep and to give back of a session's events | [`session::StoreRead`] |
//! | [`Outcome`] | every answer that is not the app's own: status, headers, body | an `http::Response` |
//! | [`sse`] | the bytes of events | |
//!
//! # One exchange, step by step
//!
//! 1. [`Gate::head`] looks at the head. It answers, or says what the exchange wants to be: POST, GET or DELETE.
//! 2. If it names a session, [`SessionTable::handle_request`] routes it: one look-up, by id and principal together. The session counts
//!    one exchange more, until [`SessionTable::handle_response_finished`]. So it can't become idle while a body is uploaded.
//! 3. For a POST the driver reads the body within [`Gate::max_body`] and [`Gate::body_timeout`], and [`Gate::body`] looks at it: a valid
//!    `initialize` creates a session (step 2, with `may_create`), a request of the modern era gets a
//!    [`sessionless`](session::Session::sessionless) one of its own, anything else is delivered.
//! 4. [`session::Session::handle_message`] takes the message. A request opens a stream whose first connection holds its head.
//! 5. The app speaks: [`session::Session::handle_app_message`] or [`session::Session::handle_response`] put each message
//!    into exactly one stream, and effects say who is to be woken.
//! 6. [`session::Session::poll_head`] decides between JSON, a stream and an error; [`session::Session::poll_frames`] gives a stream's
//!    bytes. Nothing waits for a reader: what is not read stays in the log, within its bounds.
//! 7. When the exchange is over, whatever the way out, [`session::Session::handle_disconnect`] and then
//!    [`SessionTable::handle_response_finished`] are told. A request that goes on without its connection keeps the exchange until
//!    [`session::Effect::Release`].
//!
//! With [`SessionConfig::store`](config::SessionConfig::store) events are kept in a store that the driver has, so that clients can resume
//! what no longer is in memory. After [`session::Effect::AskStore`] the driver takes what is asked from
//! [`session::Session::poll_store_request`] and reports with [`session::Session::handle_stored`] and
//! [`session::Session::handle_read`], whenever it knows: what is late, fails or can't be right never holds up a stream for longer than
//! [`SessionConfig::store_timeout`](config::SessionConfig::store_timeout), and costs nothing but resumption. The head of a GET waits too then, in
//! [`poll_head`](session::Session::poll_head).
//!
//! Which eras are served is an argument of the gate, since it may be found out late. A driver that asks its app first does so between the
//! head and the body, and only where the gate's answer is one of the modern era. The status of an answer in that era is the
//! app's: [`modern_status`].
//!
//! # States
//!
//! A session has two sides, each with its own state machine. In the [table](SessionTable) it is an entry with timers:
//!
//! ```text
//!            Create
//!              │
//!              ▼         handle_initialized       first Route
//!          ┌────────┐    ┌───────────────────┐    ┌───────────────────────────┐
//!          │starting├───►│offered            ├───►│confirmed                  │
//!          └──┬──┬──┘    │init timer runs    │    │ busy ◄── Route ──── idle  │
//!             │  │       └────────┬──────────┘    │   └── last finish ──► │   │
//!             │  └── first Route ─┼──────────────►│             idle timer│   │
//!             │                   │               └──────┬────────────────┼───┘
//!             │                   │ NeverInitialized     │                │ Idle, Evicted
//!             ▼                   ▼                      ▼                ▼
//!      ╔═══════════════════════════════════════════════════════════════════════════╗
//!      ║ reaped, once; in any state also: Abandoned, Crashed, Deleted, Dismissed,  ║
//!      ║ Finished, Lifetime, Shutdown                                              ║
//!      ╚═══════════════════════════════════════════════════════════════════════════╝
//! ```
//!
//! Behind it, [`session::Session`] is the conversation. The driver ends it when its entry was reaped, in whatever phase it is,
//! and tells the table when it has failed by itself ([`session::Effect::End`]). A
//! [`sessionless`](session::Session::sessionless) one begins as open.
//!
//! ```text
//!             initialize             the app's result
//!   New ─────────────────► Starting ──────────────────► Open ──────► Ended
//!                             │ the app's error, or no answer in time  ▲
//!                             └────────────► Failed ───────────────────┘
//! ```
//!
//! A request, or a batch, has a stream, and the connections that read it come and go:
//!
//! ```text
//!            handle_message, handle_batch
//!                   │
//!                   ▼      poll_head: JSON, an error or 202
//!              ┌─────────┐───────────────────────────────────────────────────► gone
//!              │  held   │ disconnect
//!              └────┬────┘────────────────────┐
//!      the app has  │                         ▼
//!      spoken, or   │     disconnect,    ┌──────────┐ answered, and no event of it
//!      the window   │     close_stream,  │ detached │ has an id ────────────────► gone
//!      is over      ▼     poll_after     └─▲──┬──┬──┘
//!              ┌─────────┐─────────────────┘  │  │ answered
//!              │streaming│◄───── open_get ────┘  │
//!              └─▲─────┬─┘                       ▼
//!                │     │ all is read     ┌──────────┐ older than log_age, too many,
//!                │     └────────────────►│ finished │ or the session ends ──────► gone
//!                └─────── open_get ──────└──────────┘
//! ```
//!
//! - *Finished* is there with [`SessionConfig::resume`](config::SessionConfig::resume) alone; without, such a stream is gone.
//! - A request that is *detached* for [`detached_timeout`](config::SessionConfig::detached_timeout) without a word of the app
//!   ends with an error.
//! - While the head of `initialize` is held, a disconnect ends the session. In the modern era any disconnect cancels the request.
//! - A cancelled request has no answer; whoever would resume its stream is told 204.
//! - The standalone stream lasts as long as its session. Up to [`max_standalone`](config::SessionConfig::max_standalone)
//!   connections are open on it, and the newest reads.
//!
//! # Rules that hold everywhere
//!
//! - Only a complete `initialize` creates a session, as a transaction; look-ups never create.
//! - Unknown, ended and foreign sessions look the same, byte for byte.
//! - Idle is derived from what is in flight, never stamped at arrival.
//! - A session ends once, for one [`ReapReason`], and every open request of it gets an error.
//! - Whatever can grow has a limit in [`Config`], with a default.
//! - Peers can't make anything here panic; misuse by the programmer is a no-op or an `Err`.
//! - No `Debug` shows a session id, an event id or a payload.
//!
//! # An example
//!
//! One exchange. The example `readiness_loop` is a whole server on one thread, with sockets, timers and several sessions at once;
//! `scripted` runs the table from a text of events.
//!
//! ```
//! use bytes::Bytes;
//! use sessile_core::session::{Delivery, Head, MessageAction, Session};
//! use sessile_core::{
//!     BodyAction, Config, Eras, Gate, HeadAction, RequestAction, RequestHead, SessionId, SessionTable, Timestamp,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = Config::default();
//! let gate = Gate::new(&config.gate)?;
//! let mut table = SessionTable::new(config.table.clone())?;
//! let now = Timestamp::ZERO;
//!
//! // A head arrives ...
//! let (head, ()) = http::Request::post("/mcp")
//!     .header("host", "localhost")
//!     .header("content-type", "application/json")
//!     .body(())?
//!     .into_parts();
//! let HeadAction::Post(post) = gate.head(Eras::LEGACY, &head) else { panic!("refused") };
//!
//! // ... and its body, a valid `initialize`, which opens a session.
//! let body = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{
//!     "protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"example","version":"1"}}}"#;
//! let action = gate.body(Eras::LEGACY, &head.headers, &post, None, Bytes::from(body));
//! let BodyAction::Create(message) = action else { panic!("refused") };
//! let head = RequestHead { session: None, principal: &"alice", may_create: true };
//! let mut ids = || SessionId::from_bytes([7; 16]); // a driver takes the bits from the system
//! let RequestAction::Create { key, .. } = table.handle_request(now, head, &mut ids) else { panic!("rejected") };
//! let mut session = Session::new(Delivery::Call);
//!
//! // The app is called, and its answer leaves as JSON.
//! let action = session.handle_message(now, &config.session, message, (), post.mode);
//! let MessageAction::Open { request, connection, .. } = action else { panic!("refused") };
//! let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}"#;
//! session.handle_response(now, &config.session, request, Bytes::from(answer));
//! assert_eq!(session.poll_head(now, &config.session, connection), Head::Json(Bytes::from(answer)));
//!
//! // The exchange is over.
//! table.handle_response_finished(now, key);
//! # Ok(())
//! # }
//! ```

mod batch;
mod capability;
pub mod config;
mod event;
pub mod gate;
mod id;
mod message;
mod outcome;
pub mod session;
mod slab;
pub mod sse;
pub mod table;
mod time;
mod timers;
mod version;

pub use capability::ClientCapability;
pub use config::{Config, ConfigError};
pub use event::{Action, Event};
pub use gate::{
    BodyAction, CorsHeaders, Gate, GetHead, HeadAction, LAST_EVENT_ID, LastEventId, MCP_METHOD, MCP_NAME,
    MCP_PROTOCOL_VERSION, MCP_SESSION_ID, ModernRequest, Page, PostHead, SessionHeader, ToolHeaders, VersionHeader,
};
pub use id::{EventId, Fingerprint, FingerprintError, FingerprintKey, IdSource, RequestId, SessionId, SessionKey};
pub use message::{Initialize, Message, MessageError, MessageKind, Modern, Notification, Request, Response};
pub use outcome::{HeaderFault, Outcome, modern_status};
pub use table::{
    CloseReason, Reap, ReapReason, Rejection, RequestAction, RequestHead, SessionInfo, SessionTable, TableCounts,
    TaskExit,
};
pub use time::Timestamp;
pub use version::{Era, Eras, ProtocolVersion};
