//! Sessions belong to whoever opened them, and with bearer tokens nobody gets past the door without one.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request};
use serde_json::json;
use sessile::Principal;
use sessile::app::{Backend, Context, Handler, Reply, SessionInfo};
use sessile::core::{Config, Message};
use sessile::http::{Authenticate, BearerTokens, CredentialsError};
use sessile_tests::pure::{Answer, Upload};

use crate::alike::{bytes, ways};
use crate::apps::Scripted;
use crate::captured::Captured;
use crate::raw::{Exchange, Read as _, Site, app, handler};
use crate::row::{UNKNOWN, delete, get, post, request};

const ALICE: &str = "token-of-alice-0";
const ALICE_REFRESHED: &str = "token-of-alice-1";
const BOB: &str = "token-of-bob-0";
const WRONG: &str = "token-of-nobody-0";

fn tokens() -> BearerTokens {
    let list = format!("# two users\nalice {ALICE}\nalice {ALICE_REFRESHED}\nbob {BOB}\n");
    BearerTokens::parse(&list).expect("a good list")
}

/// With a service that wants a token.
fn guarded<B: Backend>(mut site: Site<B>) -> Site<B> {
    site.service = site.service.authenticate(tokens());
    site
}

fn with(token: Option<&str>, mut request: Request<Upload>) -> Request<Upload> {
    if let Some(token) = token {
        let value = HeaderValue::from_str(&format!("Bearer {token}")).expect("a header's value");
        request.headers_mut().insert("authorization", value);
    }
    request
}

async fn send<B: Backend>(site: &Site<B>, token: Option<&str>, request: Request<Upload>) -> Exchange {
    site.send(None, with(token, request)).await
}

async fn ask<B: Backend>(site: &Site<B>, token: Option<&str>, request: Request<Upload>) -> Answer {
    send(site, token, request).await.within(Duration::from_secs(3)).await
}

async fn open<B: Backend>(site: &Site<B>, token: Option<&str>) -> String {
    ask(site, token, post(None, "$INIT")).await.session_id().expect("a session")
}

/// What every request without a good token gets.
fn refusal(error: Option<&str>) -> (Option<u16>, Vec<(String, String)>, String, bool) {
    let (challenge, message) = match error {
        None => (r#"Bearer realm="sessile""#.to_owned(), "Credentials are missing: send Authorization: Bearer TOKEN"),
        Some(error) => (format!(r#"Bearer realm="sessile", error="{error}""#), "The credentials are wrong"),
    };
    let headers =
        vec![("content-type".to_owned(), "application/json".to_owned()), ("www-authenticate".to_owned(), challenge)];
    let text = format!(r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":-32600,"message":"{message}"}}}}"#);
    (Some(401), headers, text, true)
}

/// R038, R155, R178: a wrong token is 401 whatever is asked; a good one and an unknown session are 404.
#[tokio::test(start_paused = true)]
async fn credentials_are_looked_at_before_sessions() {
    let site = guarded(handler(Config::default(), Scripted::default()));
    let live = open(&site, Some(ALICE)).await;
    for (token, error) in [(None, None), (Some(WRONG), Some("invalid_token"))] {
        for session in [&live, UNKNOWN, "x"] {
            for (way, request) in ways(session) {
                if way == "a body that does not come" {
                    continue;
                }
                let answer = ask(&site, token, request).await;
                assert_eq!(bytes(&answer), refusal(error), "{token:?}: {way}");
            }
        }
        let opening = ask(&site, token, post(None, "$INIT")).await;
        assert_eq!(bytes(&opening), refusal(error), "{token:?}");
    }
    let pinged = ask(&site, Some(ALICE), post(Some(&live), "$PING")).await;
    assert_eq!(pinged.status(), Some(200));
    for request in [post(Some(UNKNOWN), "$PING"), get(UNKNOWN), delete(UNKNOWN)] {
        assert_eq!(ask(&site, Some(ALICE), request).await.status(), Some(404));
    }
    // What comes before credentials needs none.
    let mut foreign = post(None, "$INIT");
    foreign.headers_mut().insert("origin", HeaderValue::from_static("https://evil.test"));
    assert_eq!(ask(&site, None, foreign).await.status(), Some(403));
    assert_eq!(ask(&site, None, request("PUT", Upload::Whole(Bytes::new()))).await.status(), Some(405));
    // A client that is still writing gets its answer, and then a closed connection.
    let unfinished = ask(&site, None, request("POST", Upload::Never)).await;
    assert_eq!((unfinished.status(), unfinished.header("connection").as_deref()), (Some(401), Some("close")));
}

/// R166, R167, R170: to others than its owner a session does not exist, by any method and byte for byte.
#[tokio::test(start_paused = true)]
async fn a_session_is_its_owners() {
    let site = guarded(app(Config::default(), Scripted::default()));
    let theirs = open(&site, Some(ALICE)).await;
    let call = send(&site, Some(ALICE), post(Some(&theirs), "$HANG")).await;
    let stream = send(&site, Some(ALICE), get(&theirs)).await;
    for ((way, foreign), (_, unknown)) in ways(&theirs).into_iter().zip(ways(UNKNOWN)) {
        let foreign = bytes(&ask(&site, Some(BOB), foreign).await);
        assert_eq!(foreign, bytes(&ask(&site, Some(BOB), unknown).await), "{way}");
        assert!(foreign.0.is_some_and(|status| (400..500).contains(&status)), "{way}: {foreign:?}");
    }
    assert!(!call.answer().done && !stream.answer().done);
    // The same user with a token that has been refreshed goes on.
    let pinged = ask(&site, Some(ALICE_REFRESHED), post(Some(&theirs), "$PING")).await;
    assert_eq!(pinged.status(), Some(200));
    assert_eq!(ask(&site, Some(ALICE_REFRESHED), delete(&theirs)).await.status(), Some(204));
    assert_eq!(ask(&site, Some(BOB), post(None, "$INIT")).await.status(), Some(200));
}

/// Whoever is anonymous is nobody's namesake, whichever way the other came in.
#[tokio::test(start_paused = true)]
async fn anonymous_and_named_never_mix() {
    let site = handler(Config::default(), Scripted::default());
    let open_door = site.service.clone();
    let site = guarded(site);
    let opened = open_door.handle(post(None, "$INIT").map(|_| whole("$INIT"))).await;
    let nobodys = opened.map(|opened| opened.headers()["mcp-session-id"].to_str().expect("text").to_owned());
    let Ok(nobodys) = nobodys;
    let alices = open(&site, Some(ALICE)).await;
    assert_eq!(ask(&site, Some(ALICE), post(Some(&nobodys), "$PING")).await.status(), Some(404));
    for name in [None, Some("anonymous"), Some("")] {
        let mut request = post(Some(&alices), "$PING").map(|_| whole("$PING"));
        if let Some(name) = name {
            request.extensions_mut().insert(Principal::named(name));
        }
        let Ok(answer) = open_door.handle(request).await;
        assert_eq!(answer.status().as_u16(), 404, "{name:?}");
    }
    // What a layer in front says does not count where credentials are verified here.
    let mut request = with(Some(BOB), post(Some(&alices), "$PING"));
    request.extensions_mut().insert(Principal::named("alice"));
    assert_eq!(site.send(Some("alice"), request).await.answer().status(), Some(404));
}

fn whole(fixture: &str) -> String {
    crate::row::fixture(fixture).expect("a fixture")
}

/// R172: a valid `initialize` with a bad token costs nothing, however often it comes; R177: nor does it use up anything of others.
#[tokio::test(start_paused = true)]
async fn a_bad_token_opens_nothing() {
    let scripted = Scripted::default();
    let mut config = Config::default();
    config.table.max_sessions = 1;
    let site = guarded(app(config, scripted.clone()));
    for number in 0..200 {
        let token = format!("{ALICE}{number}");
        let token = [None, Some(WRONG), Some(token.as_str()), Some("")][number % 4];
        assert_eq!(ask(&site, token, post(None, "$INIT")).await.status(), Some(401), "{token:?}");
    }
    assert_eq!((site.manager.sessions(), scripted.started()), (0, 0));
    open(&site, Some(ALICE)).await;
}

/// R175: neither a good nor a bad token is logged at any level, and the app has it neither.
#[tokio::test(start_paused = true)]
async fn tokens_go_no_further_than_the_door() {
    struct Curious(Captured);

    impl Handler for Curious {
        type State = ();

        fn open(&self, _: &SessionInfo) {}

        async fn call(&self, context: Context<()>, message: Message) -> Reply {
            assert!(!context.parts().headers.contains_key("authorization"));
            self.0.show("context", &context);
            self.0.show("principal", context.session().principal());
            if message.as_request().is_none() { Reply::none() } else { context.result(&json!({})) }
        }
    }

    let captured = Captured::of_this_thread();
    let site = guarded(handler(Config::default(), Curious(captured.clone())));
    captured.show("service", &site.service);
    captured.show("tokens", &tokens());
    let live = open(&site, Some(ALICE)).await;
    for token in [ALICE, BOB, WRONG] {
        for session in [&live, UNKNOWN] {
            for (_, request) in ways(session) {
                if request.method() != "DELETE" {
                    ask(&site, Some(token), request).await;
                }
            }
        }
    }
    assert_eq!(ask(&site, Some(ALICE), delete(&live)).await.status(), Some(204));
    let lines = captured.lines();
    assert!(lines.iter().any(|line| line.contains("Principal(alice)")), "{lines:?}");
    for token in [ALICE, BOB, WRONG] {
        assert!(!lines.iter().any(|line| line.contains(token)), "{token} is in the log");
    }
}

/// The seam takes any check that needs nothing but the head.
#[tokio::test(start_paused = true)]
async fn other_credentials_can_be_verified() {
    struct ByHeader;

    impl Authenticate for ByHeader {
        fn authenticate(&self, head: &http::request::Parts) -> Result<Principal, CredentialsError> {
            let key = head.headers.get("x-api-key").ok_or(CredentialsError::Missing)?;
            if key == "k1" { Ok(Principal::named("one")) } else { Err(CredentialsError::Wrong) }
        }
    }

    let mut site = handler(Config::default(), Scripted::default());
    site.service = site.service.authenticate(ByHeader);
    for (key, status) in [(None, 401), (Some("k2"), 401), (Some("k1"), 200)] {
        let mut request = post(None, "$INIT");
        if let Some(key) = key {
            request.headers_mut().insert("x-api-key", HeaderValue::from_static(key));
        }
        assert_eq!(ask(&site, None, request).await.status(), Some(status), "{key:?}");
    }
}

/// R155: a browser that asks first has no credentials to show, and the page's script may read that they are missing.
#[tokio::test(start_paused = true)]
async fn a_preflight_needs_no_credentials() {
    let mut config = Config::default();
    config.gate.cors_origins = vec!["https://app.example".into()];
    let site = guarded(handler(config, Scripted::default()));
    let from_page = |mut request: Request<Upload>| {
        request.headers_mut().insert("origin", HeaderValue::from_static("https://app.example"));
        request
    };
    let mut preflight = from_page(request("OPTIONS", Upload::Whole(Bytes::new())));
    preflight.headers_mut().insert("access-control-request-method", HeaderValue::from_static("POST"));
    preflight.headers_mut().insert("access-control-request-headers", HeaderValue::from_static("authorization"));
    let asked = ask(&site, None, preflight).await;
    assert_eq!(asked.status(), Some(204));
    assert!(asked.header("access-control-allow-headers").is_some_and(|names| names.contains("authorization")));
    for (token, status) in [(None, 401), (Some(WRONG), 401), (Some(ALICE), 200)] {
        let answer = ask(&site, token, from_page(post(None, "$INIT"))).await;
        assert_eq!(answer.status(), Some(status));
        assert_eq!(answer.header("access-control-allow-origin").as_deref(), Some("https://app.example"));
        let readable = answer.header("access-control-expose-headers").expect("a list");
        assert!(readable.contains("www-authenticate") && readable.contains("mcp-session-id"), "{readable}");
    }
}
