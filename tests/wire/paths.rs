//! Which paths are the endpoint, and that nobody is ever sent elsewhere. R208, R250, R251.

use http::{HeaderValue, Request};
use sessile_core::Config;
use sessile_tests::pure::Upload;

use crate::apps::Scripted;
use crate::raw::{Read as _, Site, handler};
use crate::row::{delete, get, post};

/// What proxies say of the request that they pass on.
const FORWARDED: [(&str, &str); 4] = [
    ("forwarded", "proto=https;host=example.com"),
    ("x-forwarded-host", "example.com"),
    ("x-forwarded-prefix", "/elsewhere"),
    ("x-forwarded-proto", "https"),
];

fn at(path: &str, mut request: Request<Upload>) -> Request<Upload> {
    *request.uri_mut() = path.parse().expect("a target");
    for (name, value) in FORWARDED {
        request.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    request
}

/// The endpoint under this path, and a session of alice.
async fn site(path: &str) -> (Site<sessile::app::Calls<Scripted>>, String) {
    let mut site = handler(Config::default(), Scripted::default());
    let id = site.open().await;
    site.service = site.service.path(path);
    (site, id)
}

#[tokio::test(start_paused = true)]
async fn both_spellings_of_a_path_are_served_and_neither_redirects() {
    for path in ["/mcp", "/mcp/", "/a/b/mcp", "/a/b/"] {
        let bare = path.trim_end_matches('/');
        for target in [bare.to_owned(), format!("{bare}/"), format!("{bare}?key=value"), format!("{bare}/?key=value")] {
            let (site, id) = site(path).await;
            for (request, status) in [
                (post(None, "$INIT"), 200),
                (post(Some(&id), "$PING"), 200),
                (get(&id), 200),
                (delete(&id), 204),
                (delete(&id), 404),
            ] {
                let answer = site.send(Some("alice"), at(&target, request)).await.answer();
                assert_eq!((answer.status(), answer.header("location")), (Some(status), None), "{path} {target}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn other_paths_are_not_found() {
    let (site, id) = site("/a/mcp").await;
    for target in ["/", "/a", "/mcp", "/a/mcpx", "/a/mcp/x", "/A/mcp", "//a/mcp", "/a/../a/mcp", "/a/mcp%2f"] {
        for request in [post(None, "$INIT"), get(&id), delete(&id)] {
            let answer = site.send(Some("alice"), at(target, request)).await.answer();
            assert_eq!((answer.status(), answer.header("location")), (Some(404), None), "{target}");
        }
    }
    assert_eq!(site.manager.sessions(), 1);
}
