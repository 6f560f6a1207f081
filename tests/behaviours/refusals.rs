//! What is refused before anything comes of it. The rows say more of each.

use http::HeaderValue;

use crate::row::{post, request};
use crate::talk::with;
use crate::world::World;
use sessile_tests::pure::Upload;

pub(crate) async fn hosts_and_origins_are_checked(world: World) {
    let site = world.site_with(|_| {});
    for (header, value, status) in [
        ("origin", "http://evil.example", 403),
        ("origin", "null", 403),
        ("origin", "http://localhost:5173", 200),
        ("host", "evil.example", 403),
        ("host", "127.0.0.1:9999", 200),
    ] {
        assert_eq!(site.ask(with(post(None, "$INIT"), header, value)).await.status(), status, "{header}: {value}");
    }
    assert_eq!(site.sessions(), 2);
}

pub(crate) async fn other_methods_are_refused(world: World) {
    let site = world.site_with(|_| {});
    for method in ["HEAD", "OPTIONS", "PUT", "PATCH"] {
        let refused = site.ask(request(method, Upload::Whole("".into()))).await;
        assert_eq!(
            (refused.status(), refused.header("allow").as_deref()),
            (405, Some("GET, POST, DELETE")),
            "{method}"
        );
    }
}

pub(crate) async fn hostile_headers_break_nothing(world: World) {
    let site = world.site_with(|_| {});
    let id = site.open().await;
    let values: [&[u8]; 6] = [b"", b"\xff\xfe", b"a\tb", b"\x80", &[b'x'; 8_000], b"\"\\\"; q=9e999,,;"];
    for name in ["accept", "content-type", "mcp-session-id", "mcp-protocol-version", "last-event-id", "origin"] {
        for value in values {
            let mut call = post(Some(&id), "$PING");
            call.headers_mut().insert(name, HeaderValue::from_bytes(value).expect("a value"));
            let status = site.ask(call).await.status();
            assert!(matches!(status, 200 | 400 | 403 | 404 | 406 | 415), "{name}: {value:?}: {status}");
            let mut twice = post(Some(&id), "$PING");
            twice.headers_mut().append(name, HeaderValue::from_bytes(value).expect("a value"));
            let status = site.ask(twice).await.status();
            assert!(matches!(status, 200 | 400 | 403 | 404 | 406 | 415), "{name}: {value:?}, twice: {status}");
        }
    }
    assert_eq!(site.status_of(&id, "$PING").await, 200);
    assert_eq!(site.sessions(), 1);
}

pub(crate) async fn what_is_no_message_is_refused(world: World) {
    let site = world.site_with(|_| {});
    let id = site.open().await;
    for body in ["", "{", "[]", "null", "{}", r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, "$DEEP-CUT"] {
        assert_eq!(site.status_of(&id, body).await, 400, "{body}");
    }
    assert_eq!(site.ask(with(post(Some(&id), "$PING"), "content-type", "text/plain")).await.status(), 415);
    assert_eq!(site.ask(with(post(Some(&id), "$PING"), "accept", "text/html")).await.status(), 406);
    assert_eq!(site.status_of(&id, "$PING").await, 200);
}
