//! Servers of the crate [rmcp](https://docs.rs/rmcp/3.11) on our sessions.
//!
//! Owns the running of a handler: for a whole session, or for one request of the era without sessions. Does not own sessions,
//! streams or limits, nor what the protocol's messages mean: those are ours and rmcp's.
//!
//! # Moving over from rmcp's own service
//!
//! The handler stays as it is. With `StreamableHttpService` it was mounted like this:
//!
//! ```
//! # use rmcp::ServerHandler;
//! use rmcp::transport::streamable_http_server::{
//!     StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
//! };
//! # struct Counter;
//! # impl Counter { fn new() -> Self { Self } }
//! # impl ServerHandler for Counter {}
//!
//! # fn before() -> axum::Router {
//! let service = StreamableHttpService::new(
//!     || Ok(Counter::new()),
//!     LocalSessionManager::default().into(),
//!     StreamableHttpServerConfig::default(),
//! );
//! let router = axum::Router::new().nest_service("/mcp", service);
//! # router
//! # }
//! ```
//!
//! and is now:
//!
//! ```
//! # #[cfg(feature = "axum")]
//! # mod example {
//! # use rmcp::ServerHandler;
//! use sessile::Builder;
//! use sessile::app::RmcpApp;
//! use sessile::http::axum::route;
//! use sessile::runtime::tokio::Tokio;
//! # struct Counter;
//! # impl Counter { fn new() -> Self { Self } }
//! # impl ServerHandler for Counter {}
//!
//! # fn after() -> Result<axum::Router, Box<dyn std::error::Error>> {
//! let manager = Builder::new(Tokio::current()).app(RmcpApp::new(|_| Ok(Counter::new()))).build()?;
//! manager.start()?;
//! let router = axum::Router::new().merge(route("/mcp", manager.service()?));
//! # Ok(router)
//! # }
//! # }
//! ```
//!
//! | there | here |
//! | --- | --- |
//! | `cancellation_token` | [`Manager::shutdown`](crate::Manager::shutdown), which lets calls finish first |
//! | `allowed_hosts`, `allowed_origins` | the same names in [`GateConfig`](sessile_core::config::GateConfig); an `Origin` has to be allowed |
//! | `max_request_body_bytes` | `max_body` in [`GateConfig`](sessile_core::config::GateConfig), 4 MiB as there |
//! | `legacy_session_mode: false` | `stateless` in [`GateConfig`](sessile_core::config::GateConfig), and no `idle_timeout` |
//! | `json_response` | `response_mode` in [`GateConfig`](sessile_core::config::GateConfig), for sessions too |
//! | `sse_keep_alive`, `sse_retry` (3 s) | `keep_alive`, `retry` (1 s) in [`SessionConfig`](sessile_core::config::SessionConfig) |
//! | resuming, always on | `resume` in [`SessionConfig`](sessile_core::config::SessionConfig), off unless it is set |
//! | `SessionConfig::keep_alive` (5 min) | `idle_timeout` (30 min) in [`TableConfig`](sessile_core::config::TableConfig) |
//!
//! What you gain:
//!
//! - A session belongs to the [`Principal`](crate::Principal) that opened it; there, whoever has its id may use it.
//! - Sessions, requests in flight, waiting messages and what is kept for resuming have bounds, each with a default.
//! - An answer that is ready at once is one JSON body and one write, in sessions too.
//! - What a handler says within a call, log messages for one, travels on the stream of that call if it is the only one in flight. There,
//!   only progress and requests do, and the rest needs a GET.
//! - A handler that panics costs its request an internal error; there, the client waits for ever.
//! - `Origin` is checked without being told to. Batches of 2025-03-26 are taken.
//! - [Hooks](crate::Hooks), numbers, a shutdown in order, and any runtime below, as long as there is a tokio for rmcp.
//!
//! What you lose:
//!
//! - rmcp's `SessionManager` and `SessionStore`: sessions live in this process, and nobody finds a `SessionRestoreMarker`. For an
//!   `EventStore` there is one of [ours](crate::store::EventStore), with other methods.
//! - Streams of the era without sessions can't be resumed, as they can there with an `EventStore`.
//! - With [`McpService::authenticate`](crate::http::McpService::authenticate) handlers no longer see the `Authorization` header.
//! - rmcp's feature `local`: handlers have to be `Send`.

mod guarded;
mod transport;

use std::fmt;
use std::future::{Future, poll_fn, ready};
use std::io;
use std::pin::pin;

use http::request::Parts;
use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, GetExtensions, GetMeta, InitializeRequestParams, ProtocolVersion,
};
use rmcp::service::{QuitReason, ServerInitializeError, Service, serve_directly_with_ct, serve_server_with_ct};
use sessile_core::{Eras, MCP_PROTOCOL_VERSION};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use self::guarded::Guarded;
use self::transport::LinkTransport;
use super::{App, AppError, AppLink, SessionInfo};

/// Serves a handler of the crate rmcp (3.11): a `ServerHandler`, or any `Service<RoleServer>`.
///
/// ```
/// use rmcp::ServerHandler;
/// use sessile::app::RmcpApp;
///
/// struct Counter;
///
/// impl ServerHandler for Counter {}
///
/// let app = RmcpApp::new(|_| Ok(Counter));
/// # let _ = app;
/// ```
///
/// In the legacy era there is one handler for each session, from `initialize` to the end. In the modern era (2026-07-28), and
/// for requests that are served without a session, there is one for each request, as with rmcp's own service: what is to
/// outlive a request is shared by whoever makes the handlers.
///
/// # What a handler finds
///
/// The extensions of its `RequestContext` and `NotificationContext` hold the [`http::request::Parts`] of the request that
/// brought the message, with what layers before the service have put into *their* extensions; the [`Principal`](crate::Principal);
/// and the [`SessionInfo`].
///
/// `notifications/cancelled` cancels the context's token, and so does, for each request that is running, the end of its session.
/// A client that goes has cancelled its request in the modern era, and nothing in the legacy era. rmcp never drops a handler
/// that pays no attention to its token: it runs to its end, unheard. A panic is an internal error of that one request.
///
/// # What a handler says
///
/// Responses go to their requests. Requests to the client that are sent within a call go with that call: rmcp knows it, unless the
/// handler sends them from a task of its own. Of notifications rmcp does not know it, so the rules of
/// [`Relation::Derived`](sessile_core::session::Relation::Derived) hold: progress follows its token, changes of lists and resources belong
/// to no call, and the rest to the only one in flight. A handler that knows better puts an
/// `rmcp::service::OriginatingRequestId` into the extensions of the notification.
///
/// The `Peer` can be kept and used at any time: what belongs to no call waits for the client's GET, within the bounds of the session.
/// Once the session has ended it fails with `ServiceError::TransportClosed`.
///
/// # tokio
///
/// rmcp spawns tasks and needs timers, so it runs in the tokio runtime whose context [`App::run`] is polled in, or else in the one given to
/// [`RmcpApp::tokio`]. Without either each session fails with an [`AppError::Start`].
///
/// # Logs
///
/// rmcp writes several events at info for each session, and for each request in the modern era; at debug, messages with all that is in
/// them. A filter such as `info,rmcp=warn` keeps them out.
pub struct RmcpApp<S> {
    factory: Factory<S>,
    eras: Eras,
    tokio: Option<Handle>,
}

type Factory<S> = Box<dyn Fn(&SessionInfo) -> io::Result<S> + Send + Sync>;

impl<S: Service<RoleServer>> RmcpApp<S> {
    /// Serves what `factory` makes for each session, or for each request without one. Its error, an [`AppError::Start`], is
    /// logged, and the client gets 500.
    #[must_use]
    pub fn new(factory: impl Fn(&SessionInfo) -> io::Result<S> + Send + Sync + 'static) -> Self {
        Self { factory: Box::new(factory), eras: Eras::BOTH, tokio: None }
    }

    /// The eras that the handler speaks. Default: both, as rmcp's handlers do; in either rmcp refuses the versions that a handler
    /// leaves out of its `supported_protocol_versions`.
    #[must_use]
    pub const fn eras(mut self, eras: Eras) -> Self {
        self.eras = eras;
        self
    }

    /// Runs handlers in this tokio runtime, for managers that have another. It needs its timers, and must be driven by somebody.
    #[must_use]
    pub fn tokio(mut self, handle: Handle) -> Self {
        self.tokio = Some(handle);
        self
    }
}

impl<S: Service<RoleServer>> App for RmcpApp<S> {
    fn eras(&self) -> impl Future<Output = Eras> + Send {
        ready(self.eras)
    }

    async fn run(&self, link: AppLink) -> Result<(), AppError> {
        let Some(tokio) = self.tokio.clone().or_else(|| Handle::try_current().ok()) else {
            return Err(AppError::Start(io::Error::other("rmcp needs a tokio runtime")));
        };
        within(tokio, async {
            let handler = (self.factory)(link.session()).map_err(AppError::Start)?;
            serve(Guarded(handler), link).await
        })
        .await
    }
}

/// Polls `future` in the context of a tokio runtime, whoever's executor it is that polls.
async fn within<F: Future>(tokio: Handle, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| {
        let _context = tokio.enter();
        future.as_mut().poll(cx)
    })
    .await
}

/// Serves one conversation to its end. One that begins with `initialize` has rmcp's handshake; a request that stands alone brings
/// everything with it.
async fn serve<S: Service<RoleServer>>(handler: S, link: AppLink) -> Result<(), AppError> {
    let ended = CancellationToken::new();
    let sender = link.sender().clone();
    let mut transport = LinkTransport::new(link, ended.clone());
    let running = match transport.first().await {
        None => return Ok(()),
        Some(ClientJsonRpcMessage::Request(first)) if first.request.method() != "initialize" => {
            let client = introduction(&first.request);
            serve_directly_with_ct(handler, transport, Some(client), ended)
        }
        Some(_) => {
            // While the handler answers `initialize`, nobody receives and so learns of the end.
            let handshake = tokio::select! {
                handshake = serve_server_with_ct(handler, transport, ended) => handshake,
                () = sender.ended() => return Ok(()),
            };
            match handshake {
                Ok(running) => running,
                // The client was told, which ends the session, or it has left.
                Err(ServerInitializeError::InitializeFailed(_) | ServerInitializeError::ConnectionClosed(_)) => {
                    return Ok(());
                }
                Err(error) => return Err(AppError::Other(error.into())),
            }
        }
    };
    match running.waiting().await {
        Err(error) | Ok(QuitReason::JoinError(error)) => Err(AppError::Other(error.into())),
        // Only the end of the link makes it quit.
        Ok(_) => Ok(()),
    }
}

/// What a request that stands alone says of its client: in its `_meta`, or in the header alone (2025-11-25 and before).
fn introduction(request: &ClientRequest) -> InitializeRequestParams {
    let meta = request.get_meta();
    let header = || {
        let named = request.extensions().get::<Parts>()?.headers.get(MCP_PROTOCOL_VERSION)?;
        ProtocolVersion::KNOWN_VERSIONS.iter().find(|version| version.as_str() == named).cloned()
    };
    let version = meta.protocol_version().or_else(header).unwrap_or(ProtocolVersion::V_2025_03_26);
    InitializeRequestParams::new(meta.client_capabilities().unwrap_or_default(), meta.client_info().unwrap_or_default())
        .with_protocol_version(version)
}

impl<S> fmt::Debug for RmcpApp<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RmcpApp").field("eras", &self.eras).finish_non_exhaustive()
    }
}
