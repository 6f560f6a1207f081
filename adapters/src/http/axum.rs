//! Mounting the service in axum's router.
//!
//! Owns nothing but the routes. [`McpService`] is a service that axum takes as it is; this spares the trap that a route has no slash at its
//! end, and that nesting answers on every path below.
//!
//! ```
//! use axum::Router;
//! use axum::routing::get;
//! use sessile::app::Demo;
//! use sessile::http::axum::route;
//! use sessile::{Builder, runtime::tokio::Tokio};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let manager = Builder::new(Tokio::current()).handler(Demo::new()).build()?;
//! manager.start()?;
//! let router: Router = Router::new()
//!     .route("/health", get(|| async { "fine" }))
//!     .nest("/api", route("/mcp", manager.service()?)); // answers at /api/mcp
//! # let _ = router;
//! # Ok(())
//! # }
//! ```
//!
//! A layer that authenticates sets a [`Principal`](crate::Principal) in the request's extensions; one that sets time limits should know
//! that streams live as long as their session. The sockets are axum's: see [the front page](crate#sockets-that-are-not-ours).

use axum::Router;

use super::McpService;
use crate::app::Backend;
use crate::runtime::Runtime;

/// A router that answers at `path`, with or without a slash at its end, to merge with others or to nest in them.
///
/// A path that was given to [`McpService::path`] is for those who don't have a router, and is best left out here: nested, the service sees the rest
/// of the path only.
///
/// # Panics
///
/// If axum can't route `path`: one that does not begin with a slash, for example.
pub fn route<R: Runtime, B: Backend, S>(path: &str, service: McpService<R, B>) -> Router<S>
where
    S: Clone + Send + Sync + 'static,
{
    let path = path.trim_end_matches('/');
    let router = Router::new().route_service(&format!("{path}/"), service.clone());
    if path.is_empty() { router } else { router.route_service(path, service) }
}
