//! The tables over a socket of axum's: the service under a prefix, beside other routes, behind a layer that says who asks and a stack of
//! tower's. The answers are the same.

use axum::Router;
use axum::extract::Request as AxumRequest;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::get;
use http::{HeaderValue, Request};
use sessile::Principal;
use sessile::app::Backend;
use sessile::http::McpService;
use sessile::http::axum::route;
use sessile::runtime::tokio::Tokio;
use sessile_core::{Config, Eras};
use sessile_tests::pure::Upload;
use tokio::net::TcpListener;
use tower::ServiceBuilder;

use crate::over_socket::{Way, hold};
use crate::raw::Read as _;
use crate::row::{Row, post, request};
use crate::socket::{Server, bytes_of};

const PREFIX: &str = "/api/v1";

/// What the layer takes for the verified name of whoever asks.
const NAME: &str = "x-verified-name";

fn router<B: Backend>(service: McpService<Tokio, B>) -> Router {
    let mcp = Router::new().nest(PREFIX, route("/mcp", service)).layer(from_fn(authenticate));
    let stack = ServiceBuilder::new()
        .concurrency_limit(64)
        .map_request(|request: AxumRequest| request)
        .map_response(|response: Response| response);
    Router::new().route("/health", get(|| async { "fine" })).merge(mcp).layer(stack)
}

async fn authenticate(mut request: AxumRequest, next: Next) -> Response {
    if let Some(name) = request.headers().get(NAME) {
        let principal = Principal::named(name.to_str().expect("the tests' names are text"));
        request.extensions_mut().insert(principal);
    }
    next.run(request).await
}

fn server(config: Config, eras: Eras) -> Server {
    Server::behind(config, eras, |listener, site| {
        // The service as a router gets it: it has been chosen by path already.
        let router = router(site.manager.service().expect("running"));
        listener.set_nonblocking(true).expect("a socket");
        let listener = TcpListener::from_std(listener).expect("a socket");
        tokio::spawn(async move { axum::serve(listener, router).await });
    })
}

struct Mounted;

impl Way for Mounted {
    fn serve(&self, row: &Row) -> Server {
        server(row.config(), row.eras())
    }

    /// What is elsewhere is not the service's to answer.
    fn takes(&self, row: &Row) -> bool {
        matches!(row.request(&crate::row::Names::default()).uri().path(), "/mcp" | "/mcp/")
    }

    fn request(&self, who: Option<&str>, mut request: Request<Upload>) -> Request<Upload> {
        let mut target = request.uri().clone().into_parts();
        let path = target.path_and_query.as_ref().expect("a path");
        target.path_and_query = Some(format!("{PREFIX}{path}").parse().expect("a path"));
        *request.uri_mut() = target.try_into().expect("a target");
        if let Some(who) = who {
            request.headers_mut().insert(NAME, HeaderValue::from_str(who).expect("a header's value"));
        }
        request
    }
}

#[tokio::test]
async fn rows_that_take_no_time_hold_mounted_in_axum() {
    hold(&Mounted).await;
}

#[tokio::test]
async fn other_paths_are_the_router_s() {
    let server = server(Config::default(), Eras::LEGACY);
    for (path, status) in [
        ("/api/v1/mcp", 200),
        ("/api/v1/mcp/", 200),
        ("/api/v1/mcp?key=value", 200),
        ("/api/v1/mcp/x", 404),
        ("/api/v1/mcpx", 404),
        ("/api/v1", 404),
        ("/mcp", 404),
        ("/health", 405),
    ] {
        let mut request = post(None, "$INIT");
        *request.uri_mut() = path.parse().expect("a target");
        let answer = server.ask(bytes_of(&request)).await.expect("an answer");
        assert_eq!(answer.status(), Some(status), "{path}");
        assert_eq!(answer.session_id().is_some(), status == 200, "{path}");
    }
    let mut health = request("GET", Upload::Whole(bytes::Bytes::new()));
    *health.uri_mut() = "/health".parse().expect("a target");
    assert_eq!(server.ask(bytes_of(&health)).await.expect("an answer").text(), "fine");
}

/// R166: the layer says who asks, and a session is its owner's.
#[tokio::test]
async fn a_session_belongs_to_whom_the_layer_names() {
    let server = server(Config::default(), Eras::LEGACY);
    let ask = async |who, request| {
        let answer = server.ask(bytes_of(&Mounted.request(who, request))).await;
        answer.expect("an answer")
    };
    let id = ask(Some("alice"), post(None, "$INIT")).await.session_id().expect("a session");
    for (who, status) in [(Some("bob"), 404), (None, 404), (Some("alice"), 200)] {
        assert_eq!(ask(who, post(Some(&id), "$PING")).await.status(), Some(status), "{who:?}");
    }
}
