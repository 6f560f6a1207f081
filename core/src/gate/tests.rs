//! The gate as a whole: the order of its checks, and what comes out of them.

mod modern;
mod tool_headers;

use http::{HeaderValue, Request};

use super::*;

const ID: &str = "0123456789abcdef0123456789abcdef";
const BOTH: &str = "application/json, text/event-stream";
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"9999-01-01","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
const CALL: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#;
const NOTE: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const RESPONSE: &str = r#"{"jsonrpc":"2.0","id":7,"result":{}}"#;

fn gate() -> Gate {
    Gate::new(&GateConfig { max_body: 1_000, ..GateConfig::default() }).expect("good settings")
}

fn id() -> SessionId {
    SessionId::parse(ID.as_bytes()).expect("an id")
}

/// A good head of this method without a session, changed by `fields`: each replaces the field of its name, `+` in
/// front adds a line, and no value takes it away.
fn head(method: &str, fields: &[(&str, Option<&str>)]) -> Parts {
    let mut request = Request::builder().method(method).uri("/mcp").header("host", "localhost:8080");
    if method == "POST" {
        request = request.header("content-type", "application/json").header("accept", BOTH);
    } else if method == "GET" {
        request = request.header("accept", "text/event-stream");
    }
    let (mut head, ()) = request.body(()).expect("a head").into_parts();
    for (name, value) in fields {
        let added = name.strip_prefix('+');
        let name = HeaderName::from_bytes(added.unwrap_or(name).as_bytes()).expect("a name");
        let value = value.map(|value| HeaderValue::from_bytes(value.as_bytes()).expect("a value"));
        match (added, value) {
            (Some(_), Some(value)) => drop(head.headers.append(name, value)),
            (None, Some(value)) => drop(head.headers.insert(name, value)),
            (_, None) => drop(head.headers.remove(name)),
        }
    }
    head
}

fn refused(head: &Parts) -> Option<Outcome> {
    match gate().head(Eras::LEGACY, head) {
        HeadAction::Answer { outcome, .. } => Some(outcome),
        HeadAction::Delete(_) | HeadAction::Get(_) | HeadAction::Post(_) => None,
    }
}

fn post(fields: &[(&str, Option<&str>)]) -> PostHead {
    match gate().head(Eras::LEGACY, &head("POST", fields)) {
        HeadAction::Post(post) => post,
        other @ (HeadAction::Answer { .. } | HeadAction::Delete(_) | HeadAction::Get(_)) => {
            panic!("{fields:?}: {other:?}")
        }
    }
}

/// A body whose head says nothing more than is known of it.
fn body_of(post: &PostHead, live: bool, body: Bytes) -> BodyAction {
    let live = live.then_some(Some(ProtocolVersion::V2025_11_25));
    gate().body(Eras::LEGACY, &HeaderMap::new(), post, live, body)
}

fn unsupported(requested: &str) -> Outcome {
    Outcome::UnsupportedVersion { requested: requested.into(), era: Era::Legacy }
}

#[test]
fn three_methods_are_served() {
    for method in ["GET", "POST", "DELETE"] {
        assert_eq!(refused(&head(method, &[("mcp-session-id", Some(ID))])), None, "{method}");
    }
    for method in ["HEAD", "OPTIONS", "PUT", "PATCH", "TRACE", "CONNECT", "QUERY", "post"] {
        assert_eq!(refused(&head(method, &[])), Some(Outcome::MethodNotAllowed { era: Era::Legacy }), "{method}");
    }
}

/// R137: a request with two faults is answered for the earlier one.
#[test]
fn the_order_of_the_checks_is_fixed() {
    let faults = [
        ("host", "evil.test", Outcome::HostNotAllowed),
        ("origin", "null", Outcome::OriginNotAllowed),
        ("content-length", "1001", Outcome::BodyTooLarge),
        ("content-type", "text/plain", Outcome::WrongContentType),
        ("accept", "image/png", Outcome::NotAcceptable),
        ("+mcp-protocol-version", "2025-11-25", Outcome::HeaderMalformed { name: "MCP-Protocol-Version" }),
        ("mcp-session-id", "x", Outcome::SessionNotFound),
    ];
    let version = ("mcp-protocol-version", Some("2025-11-25"));
    for (at, (name, value, outcome)) in faults.iter().enumerate() {
        let first = (*name, Some(*value));
        assert_eq!(refused(&head("POST", &[version, first])).as_ref(), Some(outcome), "{name}");
        assert_eq!(
            refused(&head("PUT", &[version, first])),
            Some(Outcome::MethodNotAllowed { era: Era::Legacy }),
            "{name}"
        );
        for (later, value, _) in &faults[at + 1..] {
            let both = head("POST", &[version, first, (*later, Some(*value))]);
            assert_eq!(refused(&both).as_ref(), Some(outcome), "{name} and {later}");
        }
    }
    let faults = [
        ("accept", "application/json", Outcome::NotAcceptable),
        ("mcp-protocol-version", "2026-07-28", unsupported("2026-07-28")),
        ("mcp-session-id", "x", Outcome::SessionNotFound),
        ("+last-event-id", "1-1", Outcome::HeaderMalformed { name: "Last-Event-ID" }),
    ];
    let good = [("mcp-session-id", Some(ID)), ("last-event-id", Some("1-1"))];
    for (at, (name, value, outcome)) in faults.iter().enumerate() {
        for (later, value_later, _) in &faults[at..] {
            let both = head("GET", &[good[0], good[1], (*name, Some(*value)), (*later, Some(*value_later))]);
            assert_eq!(refused(&both).as_ref(), Some(outcome), "{name} and {later}");
        }
    }
}

/// R038, R145, R155: whoever has no credentials learns nothing of what comes after them, and a page that may not ask is not
/// told to log in.
#[test]
fn credentials_come_after_the_origin_and_before_the_rest() {
    let refused = Outcome::CredentialsRefused { given: false };
    for (method, fields, outcome) in [
        ("PUT", &[][..], Outcome::MethodNotAllowed { era: Era::Legacy }),
        ("POST", &[("host", Some("evil.test"))], Outcome::HostNotAllowed),
        ("POST", &[("origin", Some("null"))], Outcome::OriginNotAllowed),
        ("POST", &[("content-length", Some("1001"))], refused.clone()),
        ("POST", &[("content-type", None)], refused.clone()),
        ("POST", &[("mcp-session-id", Some("x"))], refused.clone()),
        ("POST", &[("mcp-session-id", Some(ID))], refused.clone()),
        ("GET", &[("accept", Some("image/png"))], refused.clone()),
        ("DELETE", &[], refused.clone()),
    ] {
        let action = gate().head_with_credentials(Eras::LEGACY, &head(method, fields), || Err(refused.clone()));
        assert_eq!(action, HeadAction::Answer { era: Era::Legacy, outcome }, "{method} {fields:?}");
    }
    let mut asked = 0;
    let _ = gate().head_with_credentials(Eras::LEGACY, &head("POST", &[]), || {
        asked += 1;
        Ok(())
    });
    assert_eq!(asked, 1);
}

/// R132, R165.
#[test]
fn a_single_valued_field_comes_once() {
    let malformed = |name| Outcome::HeaderMalformed { name };
    for (method, name, value, outcome) in [
        ("POST", "host", "localhost", Outcome::HostNotAllowed),
        ("POST", "origin", "http://localhost", Outcome::OriginNotAllowed),
        ("POST", "content-type", "application/json", malformed("Content-Type")),
        ("POST", "mcp-session-id", ID, malformed("Mcp-Session-Id")),
        ("GET", "mcp-session-id", ID, malformed("Mcp-Session-Id")),
        ("DELETE", "mcp-session-id", ID, malformed("Mcp-Session-Id")),
        ("POST", "mcp-protocol-version", "2025-11-25", malformed("MCP-Protocol-Version")),
        ("GET", "mcp-protocol-version", "2025-11-25", malformed("MCP-Protocol-Version")),
        ("DELETE", "mcp-protocol-version", "2025-11-25", malformed("MCP-Protocol-Version")),
        ("GET", "last-event-id", "1-1", malformed("Last-Event-ID")),
    ] {
        let session = ("mcp-session-id", Some(ID));
        let once = (name, Some(value));
        assert_eq!(refused(&head(method, &[session, once])), None, "{name}");
        let again = format!("+{name}");
        let twice = head(method, &[session, once, (&again, Some(value))]);
        assert_eq!(refused(&twice), Some(outcome), "{method} {name}");
    }
    let lines = [("accept", Some("application/json")), ("+accept", Some("text/event-stream"))];
    assert_eq!(post(&lines).mode, ResponseMode::Auto);
}

/// R145, R147: what is declared too large is refused before a byte of it is read, let alone allocated.
#[test]
fn the_declared_size_is_within_the_limit() {
    let malformed = Outcome::HeaderMalformed { name: "Content-Length" };
    for method in ["POST", "GET", "DELETE"] {
        for (size, outcome, drain) in [
            ("0", None, true),
            ("1000", None, true),
            ("1001", Some(Outcome::BodyTooLarge), false),
            ("8589934592", Some(Outcome::BodyTooLarge), false),
            ("99999999999999999999999", Some(Outcome::BodyTooLarge), false),
            ("-1", Some(malformed.clone()), false),
            ("1, 2", Some(malformed.clone()), false),
        ] {
            let head = head(method, &[("mcp-session-id", Some(ID)), ("content-length", Some(size))]);
            assert_eq!(refused(&head), outcome, "{method} {size}");
            assert_eq!(gate().may_drain(&head), drain, "{size}");
        }
    }
    assert!(gate().may_drain(&head("POST", &[])));
    let post = post(&[]);
    let large = Bytes::from(format!("{CALL:1001}"));
    assert!(matches!(
        body_of(&post, false, large),
        BodyAction::Answer { outcome: Outcome::BodyTooLarge, id: None, .. }
    ));
    let fits = Bytes::from(format!("{INITIALIZE:1000}"));
    assert!(matches!(body_of(&post, false, fits), BodyAction::Create(_)));
}

/// R138, R140, R141, R142.
#[test]
fn accept_decides_the_mode() {
    use ResponseMode::{Auto, Json, Sse};
    for (configured, accept, expected) in [
        (Auto, Some(BOTH), Some(Auto)),
        (Auto, None, Some(Auto)),
        (Sse, Some("*/*"), Some(Sse)),
        (Sse, Some("application/json"), Some(Json)),
        (Json, Some(BOTH), Some(Json)),
        (Json, Some("text/event-stream"), None),
        (Auto, Some("text/event-stream"), Some(Sse)),
        (Auto, Some("application/jsonx, text/event-stream-bogus"), None),
        (Auto, Some("text/html"), None),
    ] {
        let gate = Gate::new(&GateConfig { response_mode: configured, ..GateConfig::default() }).expect("good");
        let mode = match gate.head(Eras::LEGACY, &head("POST", &[("accept", accept)])) {
            HeadAction::Post(post) => Some(post.mode),
            HeadAction::Answer { outcome: Outcome::NotAcceptable, .. } => None,
            other @ (HeadAction::Answer { .. } | HeadAction::Delete(_) | HeadAction::Get(_)) => panic!("{other:?}"),
        };
        assert_eq!(mode, expected, "{configured:?} {accept:?}");
    }
    for (accept, good) in [
        (Some("text/event-stream"), true),
        (None, true),
        (Some("*/*"), true),
        (Some("TEXT/*"), true),
        (Some(BOTH), true),
        (Some("application/json"), false),
        (Some("*/*, text/event-stream;q=0"), false),
        (Some("application/jsonx, text/event-stream-bogus"), false),
    ] {
        let expected = (!good).then_some(Outcome::NotAcceptable);
        let session = ("mcp-session-id", Some(ID));
        assert_eq!(refused(&head("GET", &[session, ("accept", accept)])), expected, "{accept:?}");
        // The answer to DELETE has no body to accept.
        assert_eq!(refused(&head("DELETE", &[session, ("accept", accept)])), None);
    }
}

/// R035, R039, R041, R043, R046, R117: absent is 400, anything that we didn't give out is 404, for all methods, before
/// the body.
#[test]
fn the_session_header_is_missing_named_or_unreadable() {
    let upper = ID.to_uppercase();
    let two = format!("{ID}, {ID}");
    for unreadable in ["x", "null", "../../etc/passwd", "0123456789abcdef", &upper, &two, "\u{e9}"] {
        let session = ("mcp-session-id", Some(unreadable));
        for method in ["POST", "GET", "DELETE"] {
            let found = refused(&head(method, &[session]));
            assert_eq!(found, Some(Outcome::SessionNotFound), "{method} {unreadable}");
        }
    }
    for missing in [None, Some(""), Some(" \t")] {
        let session = ("mcp-session-id", missing);
        assert_eq!(refused(&head("GET", &[session])), Some(Outcome::MissingSession));
        assert_eq!(refused(&head("DELETE", &[session])), Some(Outcome::MissingSession));
        assert_eq!(post(&[session]).session, SessionHeader::Missing);
    }
    let session = ("mcp-session-id", Some(ID));
    assert_eq!(gate().head(Eras::LEGACY, &head("DELETE", &[session])), HeadAction::Delete(id()));
    assert_eq!(
        gate().head(Eras::LEGACY, &head("GET", &[session])),
        HeadAction::Get(GetHead { session: id(), last_event_id: None })
    );
    assert_eq!(post(&[session]).look_up(), Some(id()));
}

#[test]
fn a_resume_names_a_position_or_something_unreadable() {
    let position = EventId::parse(b"3-9").map(LastEventId::Position);
    for (value, expected) in [
        (None, None),
        (Some(""), None),
        (Some("3-9"), position),
        (Some("3-0"), Some(LastEventId::Unreadable)),
        (Some("x"), Some(LastEventId::Unreadable)),
        (Some("\u{e9}"), Some(LastEventId::Unreadable)),
    ] {
        let head = head("GET", &[("mcp-session-id", Some(ID)), ("last-event-id", value)]);
        let HeadAction::Get(get) = gate().head(Eras::LEGACY, &head) else { panic!("{value:?}") };
        assert_eq!(get.last_event_id, expected, "{value:?}");
    }
}

/// R132, R133.
#[test]
fn get_and_delete_know_the_served_versions_only() {
    for method in ["GET", "DELETE"] {
        for good in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
            let fields = [("mcp-session-id", Some(ID)), ("mcp-protocol-version", Some(good))];
            assert_eq!(refused(&head(method, &fields)), None, "{method} {good}");
        }
        for bad in ["", "x", "1999-01-01", "2026-07-28"] {
            for session in [Some(ID), Some("x"), None] {
                let fields = [("mcp-session-id", session), ("mcp-protocol-version", Some(bad))];
                assert_eq!(refused(&head(method, &fields)), Some(unsupported(bad)), "{method} {bad}");
            }
        }
    }
}

#[test]
fn a_post_of_another_version_has_no_session_to_look_up() {
    for (version, session, expected) in [
        (None, Some(ID), Some(id())),
        (Some("2025-06-18"), Some(ID), Some(id())),
        (Some("2025-06-18"), None, None),
        (Some("2026-07-28"), Some(ID), None),
        (Some("2026-07-28"), Some("x"), None),
        (Some("2026-07-28"), None, None),
        (Some(""), Some(ID), None),
    ] {
        let post = post(&[("mcp-protocol-version", version), ("mcp-session-id", session)]);
        assert_eq!(post.look_up(), expected, "{version:?} {session:?}");
    }
}

/// What the body step says: `create`, `deliver`, or an outcome with the id that goes into the answer.
fn admitted(fields: &[(&str, Option<&str>)], live: bool, body: &str) -> Result<&'static str, (Outcome, bool)> {
    match body_of(&post(fields), live, Bytes::copy_from_slice(body.as_bytes())) {
        BodyAction::Answer { era, id, outcome } => {
            assert_eq!(era, Era::Legacy);
            assert!(id.is_none() || id == Some(RequestId::Number(7)), "{body}: {id:?}");
            Err((outcome, id.is_some()))
        }
        BodyAction::Create(message) => {
            assert_eq!(message.raw(), body);
            Ok("create")
        }
        BodyAction::Batch(_) => Ok("batch"),
        BodyAction::Deliver(message) => {
            assert_eq!(message.raw(), body);
            Ok("deliver")
        }
        BodyAction::Stateless(message) => {
            assert_eq!(message.raw(), body);
            Ok("stateless")
        }
        BodyAction::Sessionless(_) => Ok("sessionless"),
    }
}

/// R043, R044, R046, R047, R131, R134: the session, the version and the message decide together.
#[test]
fn only_initialize_creates_and_only_a_live_session_is_delivered_to() {
    const MODERN: &str = r#"{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
    let missing = |id| Err((Outcome::MissingSession, id));
    let unknown = |id| Err((Outcome::SessionNotFound, id));
    let version = |requested, id| Err((unsupported(requested), id));
    for (session, header, live, body, expected) in [
        // Without a session.
        (None, None, false, INITIALIZE, Ok("create")),
        (None, Some("2025-11-25"), false, INITIALIZE, Ok("create")),
        (None, None, false, CALL, missing(true)),
        (None, Some("2025-06-18"), false, CALL, missing(true)),
        (None, None, false, NOTE, missing(false)),
        (None, None, false, RESPONSE, missing(false)),
        (Some(""), None, false, CALL, missing(true)),
        // With a live one.
        (Some(ID), None, true, CALL, Ok("deliver")),
        (Some(ID), Some("2025-03-26"), true, CALL, Ok("deliver")),
        (Some(ID), None, true, NOTE, Ok("deliver")),
        (Some(ID), None, true, RESPONSE, Ok("deliver")),
        (Some(ID), None, true, INITIALIZE, Err((Outcome::AlreadyInitialized, true))),
        // With one that isn't live, should a driver ask all the same.
        (Some(ID), None, false, CALL, unknown(true)),
        (Some(ID), None, false, NOTE, unknown(false)),
        (Some(ID), None, false, RESPONSE, unknown(false)),
        (Some(ID), None, false, INITIALIZE, unknown(true)),
        // The header of `initialize` decides nothing.
        (None, Some("1999-01-01"), false, INITIALIZE, Ok("create")),
        (None, Some("2026-07-28"), false, INITIALIZE, Ok("create")),
        (None, Some(""), false, INITIALIZE, Ok("create")),
        (Some(ID), Some("2026-07-28"), false, INITIALIZE, unknown(true)),
        (Some("x"), Some("2026-07-28"), false, INITIALIZE, unknown(true)),
        // Other messages of other versions, whatever session they name (R132, R133).
        (None, Some("1999-01-01"), false, CALL, version("1999-01-01", true)),
        (Some(ID), Some("2026-07-28"), false, CALL, version("2026-07-28", true)),
        (Some("x"), Some("x"), false, CALL, version("x", true)),
        (Some(ID), Some(""), false, CALL, version("", true)),
        (None, Some("2026-07-28"), false, NOTE, version("2026-07-28", false)),
        (None, Some("2026-07-28"), false, RESPONSE, version("2026-07-28", false)),
        // The body's own mark comes before everything.
        (None, None, false, MODERN, version("2026-07-28", true)),
        (None, Some("1999-01-01"), false, MODERN, version("2026-07-28", true)),
        (Some(ID), Some("2025-11-25"), true, MODERN, version("2026-07-28", true)),
    ] {
        let fields = [("mcp-session-id", session), ("mcp-protocol-version", header)];
        assert_eq!(admitted(&fields, live, body), expected, "{session:?} {header:?} {live} {body}");
    }
}

// R150, R151
#[test]
fn a_batch_is_for_sessions_of_the_one_revision_that_has_them() {
    let batch = format!("[{CALL},{NOTE}]");
    let admitted = |live, header, body: &str| {
        let post = post(&[("mcp-session-id", Some(ID)), ("mcp-protocol-version", header)]);
        match gate().body(Eras::LEGACY, &HeaderMap::new(), &post, live, Bytes::copy_from_slice(body.as_bytes())) {
            BodyAction::Batch(messages) => Ok(messages.len()),
            BodyAction::Answer { outcome, id, .. } => Err((outcome.status().as_u16(), id)),
            action @ (BodyAction::Create(_)
            | BodyAction::Deliver(_)
            | BodyAction::Sessionless(_)
            | BodyAction::Stateless(_)) => {
                panic!("{body}: {action:?}")
            }
        }
    };
    let old = Some(Some(ProtocolVersion::V2025_03_26));
    for header in [None, Some("2025-03-26"), Some("2025-11-25")] {
        assert_eq!(admitted(old, header, &batch), Ok(2), "what was negotiated counts: {header:?}");
    }
    for live in [
        Some(Some(ProtocolVersion::V2025_06_18)),
        Some(Some(ProtocolVersion::V2025_11_25)),
        Some(Some(ProtocolVersion::V2024_11_05)),
        Some(None),
    ] {
        assert_eq!(admitted(live, None, &batch), Err((400, None)), "{live:?}");
    }
    assert_eq!(admitted(old, Some("2026-07-28"), &batch), Err((400, None)));
    for bad in ["[]".to_owned(), format!("[{CALL},{INITIALIZE}]"), format!("[{CALL},1]"), format!("[{CALL},[{NOTE}]]")]
    {
        assert_eq!(admitted(old, None, &bad), Err((400, None)), "{bad}");
    }
}

/// R148, R149, R150.
#[test]
fn what_is_not_one_message_is_refused_live_or_not() {
    for (session, live) in [(None, false), (Some(ID), true)] {
        let found = |body: &str| {
            let (outcome, id) = admitted(&[("mcp-session-id", session)], live, body).expect_err(body);
            (outcome.status().as_u16(), outcome.code(), id)
        };
        for (body, code, id) in [
            ("", -32700, false),
            ("{", -32700, false),
            ("nonsense", -32700, false),
            ("[]", -32600, false),
            (r#"[{"jsonrpc":"2.0","id":7,"method":"ping"}]"#, -32600, false),
            ("7", -32600, false),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600, false),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600, false),
            (r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, -32600, false),
            (r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, -32600, true),
            (r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":[]}"#, -32600, true),
            (r#"{"jsonrpc":"2.0","method":"initialize"}"#, -32600, false),
            (r#"{"jsonrpc":"2.0","id":7,"method":"initialize"}"#, -32602, true),
            (r#"{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"x"}}"#, -32602, true),
        ] {
            assert_eq!(found(body), (400, Some(code), id), "{body}");
        }
    }
    let invalid = body_of(&post(&[]), false, Bytes::from_static(b"{\"a\":\"\xff\"}"));
    assert!(matches!(invalid, BodyAction::Answer { outcome: Outcome::NotJson, id: None, .. }));
}

#[test]
fn a_version_is_repeated_short_and_printable() {
    let long = "9".repeat(300);
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"ping","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"\u001b{long}"}}}}}}"#
    );
    let (outcome, _) = admitted(&[], false, &body).expect_err("not served");
    assert_eq!(outcome, unsupported(&format!("?{}", &long[..63])));
}

#[test]
fn settings_that_cannot_be_served_are_refused() {
    let with = |change: fn(&mut GateConfig)| {
        let mut config = GateConfig::default();
        change(&mut config);
        Gate::new(&config).map(|gate| (gate.max_body(), gate.body_timeout()))
    };
    assert_eq!(with(|_| {}), Ok((4 << 20, Duration::from_secs(30))));
    assert_eq!(with(|config| config.max_body = 0), Err(ConfigError::NotPositive { setting: "gate.max_body" }));
    assert_eq!(
        with(|config| config.body_timeout = Duration::ZERO),
        Err(ConfigError::NotPositive { setting: "gate.body_timeout" })
    );
    assert_eq!(with(|config| config.allowed_hosts = vec!["a/".into()]), Err(ConfigError::Host { given: "a/".into() }));
    assert_eq!(
        with(|config| config.allowed_origins = vec!["a".into()]),
        Err(ConfigError::Origin { given: "a".into() })
    );
}

/// Xorshift: the same bytes in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    /// One of the seeds with a few bytes replaced, added, taken or doubled.
    fn mutate(&mut self, seeds: &[&str], alphabet: &[u8]) -> Vec<u8> {
        let mut text = seeds[self.below(seeds.len())].as_bytes().to_vec();
        for _ in 0..self.below(4) {
            let at = self.below(text.len() + 1);
            let byte = alphabet[self.below(alphabet.len())];
            match self.below(4) {
                0 => text.insert(at, byte),
                1 if at < text.len() => text[at] = byte,
                2 if at < text.len() => drop(text.remove(at)),
                _ => {
                    let tail = text[at..].to_vec();
                    text.extend(tail);
                }
            }
        }
        text
    }
}

/// What a loopback authority is, said another way than in the gate: what is read must be written the same.
fn is_loopback_authority(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']).to_ascii_lowercase();
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (&*text, None),
    };
    let port_good =
        port.is_none_or(|port| port.parse().is_ok_and(|number: u16| number > 0 && number.to_string() == port));
    let octets: Vec<_> = host.split('.').collect();
    let v4 = octets.len() == 4
        && octets[0] == "127"
        && octets.iter().all(|octet| octet.parse().is_ok_and(|number: u8| number.to_string() == *octet));
    let v6 = ["[::1]", "[0::1]", "[::0:1]", "[0::0:1]", "[::01]", "[::001]", "[::0001]"].contains(&host);
    port_good && (host == "localhost" || v4 || v6)
}

#[test]
fn no_mutation_of_a_good_host_or_origin_is_taken_for_one() {
    let mut random = Random(0x5e55_11e5);
    let alphabet = b"localhost127.0:[]@/\\#?%, \t*-\xff\x80e8";
    let hosts =
        ["localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.1:8080", "[::1]", "[::1]:3000", "localhost.evil.test"];
    let origins = ["http://localhost", "https://127.0.0.1:8080", "HTTP://[::1]:3000", "http://evil.test", "null"];
    let (mut good_hosts, mut good_origins) = (0, 0);
    for _ in 0..20_000 {
        let text = random.mutate(&hosts, alphabet);
        if let Ok(value) = HeaderValue::from_bytes(&text) {
            let mut head = head("POST", &[]);
            head.headers.insert("host", value);
            let good = refused(&head).is_none();
            let expected = str::from_utf8(&text).is_ok_and(is_loopback_authority);
            assert_eq!(good, expected, "{:?}", String::from_utf8_lossy(&text));
            good_hosts += u32::from(good);
        }
        let text = random.mutate(&origins, alphabet);
        if let Ok(value) = HeaderValue::from_bytes(&text) {
            let mut head = head("POST", &[]);
            head.headers.insert("origin", value);
            let good = refused(&head).is_none();
            let expected = str::from_utf8(&text).is_ok_and(|text| {
                let text = text.trim_matches([' ', '\t']).to_ascii_lowercase();
                let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
                // White space inside is not around the value any more.
                rest.is_some_and(|rest| !rest.starts_with([' ', '\t']) && is_loopback_authority(rest))
            });
            assert_eq!(good, expected, "{:?}", String::from_utf8_lossy(&text));
            good_origins += u32::from(good);
        }
    }
    // The mutations reach both sides.
    assert!(good_hosts > 1_000 && good_origins > 1_000, "{good_hosts} {good_origins}");
}

#[test]
fn no_bytes_make_the_gate_panic() {
    let mut random = Random(0xdead_beef);
    let alphabet: Vec<u8> = (0..=255).collect();
    let fields = [
        ("host", "localhost"),
        ("origin", "http://localhost"),
        ("content-length", "12, 12"),
        ("content-type", "application/json; charset=\"utf\\-8\""),
        ("accept", "application/json;q=0.5;x=\"a\\\",\", text/*;q=0, */*"),
        ("mcp-protocol-version", "2025-11-25"),
        ("mcp-session-id", ID),
        ("last-event-id", "12-34"),
    ];
    let bodies = [INITIALIZE, CALL, NOTE, RESPONSE, "[]", "\"\\ud800\""];
    let gate = gate();
    let mut posts = 0;
    for _ in 0..5_000 {
        let mut head = head(["GET", "POST", "DELETE"][random.below(3)], &[]);
        for (name, seed) in fields {
            let Ok(value) = HeaderValue::from_bytes(&random.mutate(&[seed], &alphabet)) else { continue };
            match random.below(8) {
                0 => drop(head.headers.append(name, value)),
                1 => drop(head.headers.insert(name, value)),
                2 => drop(head.headers.insert(name, HeaderValue::from_static(seed))),
                _ => {}
            }
        }
        let _ = gate.may_drain(&head);
        if let HeadAction::Post(post) = gate.head(Eras::LEGACY, &head) {
            posts += 1;
            let body = Bytes::from(random.mutate(&bodies, &alphabet));
            for live in [false, true] {
                let version = live.then_some(Some(ProtocolVersion::V2025_03_26));
                match gate.body(Eras::LEGACY, &head.headers, &post, version, body.clone()) {
                    BodyAction::Batch(messages) => assert!(live && !messages.is_empty()),
                    BodyAction::Answer { outcome, id, .. } => drop(outcome.respond(id.as_ref())),
                    BodyAction::Create(message) => assert!(!live && message.as_request().is_some()),
                    BodyAction::Deliver(message) => assert!(live && message.method() != Some("initialize")),
                    BodyAction::Sessionless(_) | BodyAction::Stateless(_) => panic!("not served"),
                }
            }
        }
    }
    assert!(posts > 200, "{posts}");
}
